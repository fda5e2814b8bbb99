"""A turn's feed folded into what a chat shows of it while it runs: texts and tool lines."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from msgspec import Struct

from hermes.domain.ids import CallId
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.event import ModelSaid, Retrying, ToolFinished, TurnEnd
from hermes.domain.word import replace
from hermes.stream.fold.directives import is_silence, may_be_silence, without_directives
from hermes.stream.fold.steps import RemainingText, Steps, was_cut
from hermes.stream.fold.tool_lines import ProgressLevel, ToolLine, ToolState, chat_lines, tool_state

LONG_WAIT = 5.0
"""Seconds from which on a chat is told that it waits."""


class TextEntry(Struct, frozen=True, kw_only=True):
    seq: int
    text: str


class Fold(Steps[None]):
    """The view of one turn, kept up to date by `see`. Entries that were seen before are ignored."""

    def __init__(self) -> None:
        super().__init__(None, show_internal=True)
        self._blocks: list[TextEntry | ToolLine] = []
        self._steps: dict[CallId, dict[str, str]] = {}
        self._continues = False
        self._wait = ""
        self._wait_since: tuple[int, int] = (0, 0)

    @property
    def text(self) -> str:
        """The visible text of the turn: finished calls and the open one, paragraph by paragraph."""
        return self.draft(ProgressLevel.OFF)

    def draft(
        self, progress: ProgressLevel = ProgressLevel.ALL, length: int = 0, *, interim: bool = True
    ) -> str:
        """The turn as a chat shows it while it runs, as markdown: with so much of a call's arguments, and
        with what was said before further calls, if `interim`."""
        shown: list[str] = []
        paragraphs = list(self._paragraphs())
        last = paragraphs[-1] if paragraphs else None
        for is_tool, group in groupby(paragraphs, key=lambda block: isinstance(block, ToolLine)):
            blocks = list(group)
            if is_tool:
                tools = (tool for tool in blocks if isinstance(tool, ToolLine))
                shown.append(chat_lines(tools, progress, length))
            elif interim or blocks[-1] is last:
                shown.extend(block.text for block in blocks if isinstance(block, TextEntry))
        if self._wait and progress is not ProgressLevel.OFF and self._wait_since == self._progress:
            shown.append(self._wait)
        return "\n\n".join(part for part in shown if part)

    @property
    def _progress(self) -> tuple[int, int]:
        """Changes with everything that is said or done."""
        return self.seq, len(self._shown.text)

    def _retrying(self, retry: Retrying) -> None:
        """A long wait is shown until something is said again; short ones are nobody's concern."""
        seconds = f"{retry.after:.0f} seconds"
        self._wait = f"⏳ The model's service asks to wait {seconds}." if retry.after >= LONG_WAIT else ""
        self._wait_since = self._progress

    def _paragraphs(self) -> Iterator[TextEntry | ToolLine]:
        blocks = list(self._blocks)
        open_text = self._shown.text
        if open_text and self._continues and blocks and isinstance(blocks[-1], TextEntry):
            blocks[-1] = replace(blocks[-1], text=blocks[-1].text + open_text)
        elif open_text:
            blocks.append(TextEntry(seq=self.seq, text=open_text))
        for block in blocks:
            if isinstance(block, ToolLine):
                yield block
                continue
            growing = bool(open_text) and block is blocks[-1]
            text = without_directives(block.text, growing=growing).strip()
            if text and not (may_be_silence(text) if growing else is_silence(text)):
                yield replace(block, text=text)

    def _caught_up(self, rest: RemainingText) -> None:
        pass

    def _replied(self, reply: ModelSaid, text: str, rest: RemainingText) -> None:
        last = self._blocks[-1] if self._blocks else None
        if self._continues and isinstance(last, TextEntry):
            self._blocks[-1] = replace(last, text=last.text + text)
        elif text.strip():
            self._blocks.append(TextEntry(seq=self.seq, text=text))
        self._continues = was_cut(reply)

    def _tool_began(self, call: ToolCall) -> None:
        self._mark(call, ToolState.RUNNING)

    def _child_worked(self, call: ToolCall, text: str) -> None:
        """Of each child the last step is shown."""
        who = text.partition(" ")[0] if text.startswith("[") else ""
        self._steps.setdefault(call.id, {})[who] = text.strip()
        self._mark(call, ToolState.RUNNING)

    def _tool_ended(self, call: ToolCall, result: ToolFinished, seconds: float | None) -> None:
        self._mark(call, tool_state(result))

    def _mark(self, call: ToolCall, state: ToolState) -> None:
        for place, block in enumerate(self._blocks):
            if isinstance(block, ToolLine) and block.call.id == call.id:
                steps = self._steps.get(call.id, {}) if state is ToolState.RUNNING else {}
                self._blocks[place] = replace(block, state=state, below=tuple(steps.values()))
                return
        self._blocks.append(ToolLine(seq=self.seq, call=call, state=state))

    def _user_said(self) -> None:
        self._continues = False

    def _undone(self, since: int) -> None:
        self._blocks = [block for block in self._blocks if block.seq < since]

    def _ended(self, end: TurnEnd) -> None:
        """Nobody knows what became of a call without a result."""
        self._blocks = [
            replace(block, state=ToolState.UNKNOWN)
            if isinstance(block, ToolLine) and block.state is ToolState.RUNNING
            else block
            for block in self._blocks
        ]
