"""A turn's feed as text for a terminal: `see` gives what is to be written now.

A terminal cannot take words back: they are written as they come, and words that replace earlier ones come
after them, announced. Control and direction characters never reach it. The door writes and reads."""

from __future__ import annotations

import textwrap

from hermes.domain.ids import CallId
from hermes.domain.text import one_line, showable
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.event import (
    Answered,
    Asked,
    Entry,
    Failed,
    FeedItem,
    Finished,
    ModelSaid,
    Retrying,
    Stopped,
    ToolFinished,
    TurnEnd,
    Verdict,
)
from hermes.stream.fold.answer import answer_text
from hermes.stream.fold.questions import choices
from hermes.stream.fold.steps import SAID_AGAIN, RemainingText, Steps, was_cut
from hermes.stream.fold.tool_lines import ToolState, plain_line, tool_state

_DIM, _RED, _BOLD, _PLAIN = "\x1b[2m", "\x1b[31m", "\x1b[1m", "\x1b[0m"
_NARROWEST = 20


def _clean(text: str) -> str:
    return text if text.isascii() and text.isprintable() else showable(text)


class Console(Steps[str]):
    """One turn on a terminal, everything shown as it happens."""

    def __init__(
        self,
        width: int = 80,
        *,
        colour: bool = False,
        show_tools: bool = True,
        show_thoughts: bool = False,
    ) -> None:
        super().__init__("")
        self._width = max(width, _NARROWEST)
        self._colour = colour
        self._show_tools = show_tools
        self._show_thoughts = show_thoughts
        self._open_tool: CallId | None = None
        self._thinking = False
        self._at_start = True
        self._blank_line_due = False

    # --- words

    def _words(self, words: str) -> str:
        words = _clean(words)
        if not words:
            return ""
        before = self._start_line() if self._blank_line_due or self._thinking or self._open_tool else ""
        if self._blank_line_due:
            before += "\n"
            self._blank_line_due = False
        self._at_start = words[-1] == "\n"
        return before + words

    def _thought(self, text: str) -> str:
        words = _clean(text)
        if not words or not self._show_thoughts:
            return ""
        before = "" if self._thinking else self._start_line()
        self._thinking = True
        self._at_start = words[-1] == "\n"
        return before + self._paint(words, _DIM)

    def _again(self) -> str:
        return self._line(SAID_AGAIN, _DIM)

    def _replied(self, reply: ModelSaid, text: str, rest: RemainingText) -> str:
        written = self._caught_up(rest)
        if not was_cut(reply):
            self._blank_line_due = self._blank_line_due or bool(text.strip())
        return written

    def _user_said(self) -> str:
        self._blank_line_due = self._blank_line_due or not self._at_start
        return ""

    # --- lines

    def _retrying(self, retry: Retrying) -> str:
        return self._line(f"… {retry.reason} (again in {retry.after:.0f} s)", _DIM)

    def _noticed(self, text: str) -> str:
        return self._line(f"… {text}", _DIM)

    def _tool_began(self, call: ToolCall) -> str:
        if not self._show_tools:
            return ""
        written = self._begin_tool(call)
        self._open_tool, self._at_start = call.id, False
        return written

    def _child_worked(self, call: ToolCall, text: str) -> str:
        self._open_tool = None
        return self._line(f"  ↳ {text}", _DIM) if self._show_tools else ""

    def _tool_ended(self, call: ToolCall, result: ToolFinished, seconds: float | None) -> str:
        if not self._show_tools:
            return ""
        state = tool_state(result)
        colour = _DIM if state is ToolState.DONE else _RED
        ending = self._paint(f" {state.value}", colour) + "\n"
        begun = "" if self._open_tool == call.id else self._begin_tool(call)
        self._open_tool, self._at_start, self._blank_line_due = None, True, True
        return begun + ending

    def _begin_tool(self, call: ToolCall) -> str:
        room = self._width - len("·  … ") - len(ToolState.UNKNOWN)
        words = f"· {one_line(plain_line(call), max(room, _NARROWEST))} …"
        return self._start_line() + self._paint(words, _DIM)

    def _people_asked(self, asked: Asked, call: ToolCall | None) -> str:
        wrapped = [
            textwrap.fill(line, self._width, initial_indent="  ", subsequent_indent="  ")
            for line in _clean(asked.text).splitlines()
        ]
        question = "\n".join(wrapped).removeprefix("  ")
        options = "".join(
            f"\n  {number}. {one_line(option, self._width - 6)}"
            for number, option in enumerate(choices(asked), 1)
        )
        return self._start_line() + self._paint(f"? {question}", _BOLD) + f"{options}\n"

    def _answered(self, answer: Answered, asked: Asked | None) -> str:
        verdict = answer.verdict
        return self._line(f"→ {answer.text if verdict is Verdict.REPLY else verdict.value}", _DIM)

    def _ended(self, end: TurnEnd) -> str:
        match end:
            case Finished(note=note):
                return self._start_line() + self._as_it_is(note)
            case Failed(reason=reason):
                return self._line(f"✗ {reason}", _RED)
            case Stopped(reason=reason):
                return self._line(f"— stopped: {reason} —" if reason else "— stopped —", _DIM)

    def _line(self, words: str, colour: str) -> str:
        before = self._start_line()
        self._at_start = True
        return f"{before}{self._paint(one_line(words, 1000), colour)}\n"

    def _as_it_is(self, note: str) -> str:
        """The output of a command has lines and columns."""
        return "".join(f"{self._paint(line, _DIM)}\n" for line in _clean(note).splitlines())

    def _start_line(self) -> str:
        before = "" if self._at_start else "\n"
        self._at_start, self._thinking, self._open_tool = True, False, None
        return before

    def _paint(self, words: str, colour: str) -> str:
        return f"{colour}{words}{_PLAIN}" if self._colour else words


class QuietConsole:
    """One turn on a terminal, of which only the final answer is written. `failure` is for stderr."""

    def __init__(self) -> None:
        self.failure = ""
        self._entries: dict[int, Entry] = {}

    def see(self, item: FeedItem) -> str:
        if not isinstance(item, Entry) or item.seq in self._entries:
            return ""
        self._entries[item.seq] = item
        match item.record:
            case Failed(reason=reason) | Stopped(reason=reason):
                self.failure = reason or "stopped"
            case Finished():
                answer = _clean(answer_text(self._entries.values(), footer=False))
                return f"{answer}\n" if answer else ""
            case _:
                pass
        return ""
