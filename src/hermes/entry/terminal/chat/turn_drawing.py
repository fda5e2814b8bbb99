"""A turn's feed on the stage. Each step draws itself; what `Steps` adds up of them is nothing."""

from __future__ import annotations

from collections.abc import Callable

from hermes.domain.text import one_line, width
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.event import (
    Answered,
    Asked,
    Failed,
    Finished,
    ModelSaid,
    QuestionKind,
    Retrying,
    Stopped,
    ToolFinished,
    TurnEnd,
    Verdict,
)
from hermes.entry.terminal.chat.stage import Stage
from hermes.entry.terminal.chat.tool_feed import whole_rows
from hermes.stream.fold.questions import choices
from hermes.stream.fold.steps import SAID_AGAIN, RemainingText, Steps, was_cut

_DONE = 0


class TurnDrawing(Steps[int]):
    """`used` is told what each call of a model took."""

    def __init__(self, stage: Stage, used: Callable[[ModelSaid], None]) -> None:
        super().__init__(_DONE)
        self._stage = stage
        self._used = used
        self._fresh = True
        """Whether the next words begin another reply."""

    def _words(self, words: str) -> int:
        if self._fresh:
            self._stage.begin_answer()
            self._fresh = False
        self._stage.words(words)
        return _DONE

    def _again(self) -> int:
        self._stage.void(SAID_AGAIN)
        return _DONE

    def _replied(self, reply: ModelSaid, text: str, rest: RemainingText) -> int:
        self._caught_up(rest)
        if not was_cut(reply):
            self._stage.end_words()
            self._fresh = True
        self._used(reply)
        return _DONE

    def _thought(self, text: str) -> int:
        self._stage.think(text)
        return _DONE

    def _retrying(self, retry: Retrying) -> int:
        self._stage.note(f"… {one_line(retry.reason, 400)} (again in {retry.after:.0f} s)")
        return _DONE

    def _noticed(self, text: str) -> int:
        self._stage.note(f"… {one_line(text, 400)}")
        return _DONE

    def _tool_began(self, call: ToolCall) -> int:
        self._stage.tool_began(call)
        return _DONE

    def _tool_printed(self, call: ToolCall, text: str) -> int:
        self._stage.tool_printed(call, text)
        return _DONE

    def _tool_ended(self, call: ToolCall, result: ToolFinished, seconds: float | None) -> int:
        self._stage.tool_ended(call, result, seconds)
        return _DONE

    def _people_asked(self, asked: Asked, call: ToolCall | None) -> int:
        """The question stays in the scrollback; what may be answered is drawn under it."""
        stage, look = self._stage, self._stage.look
        stage.end_turn()
        mark = "?" if asked.kind is QuestionKind.CLARIFY else "⚠"
        first, *more = asked.text.splitlines() or [""]
        stage.note(f"{mark} {first}", look.theme.warn, kind="question")
        for line in more:
            if asked.kind is QuestionKind.CLARIFY:
                stage.note(f"  {line}", "", kind="question")
            else:
                stage.put(whole_rows(line, look.columns(), look.theme, look.colour), "question")
        if asked.kind is QuestionKind.CLARIFY:
            for number, option in enumerate(choices(asked), 1):
                if width(option) > look.columns() - 7 or len(option.splitlines()) > 1:
                    # The list under it has one row for each.
                    stage.note(f"  {number}. {option}", "", kind="question")
        return _DONE

    def _answered(self, answer: Answered, asked: Asked | None) -> int:
        said = answer.text if answer.verdict is Verdict.REPLY else answer.verdict.value
        self._stage.note(f"→ {one_line(said, 400)}", kind="question")
        return _DONE

    def _ended(self, end: TurnEnd) -> int:
        stage = self._stage
        stage.end_turn()
        match end:
            case Finished(note=note):
                if note:
                    stage.note(note)
            case Failed(reason=reason):
                stage.note(f"✗ {one_line(reason, 1000)}", stage.look.theme.bad)
            case Stopped(reason=reason):
                stage.note(f"— stopped: {reason} —" if reason else "— stopped —")
        return _DONE
