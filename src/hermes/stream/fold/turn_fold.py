"""A turn's feed folded into what a chat shows: texts, tool lines, the open question, the end.

Knows no platform and no clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import assert_never

from hermes.domain.event import (
    Answered,
    Asked,
    Entry,
    Failed,
    FeedItem,
    Finished,
    ModelSaid,
    Reset,
    Retrying,
    Snapshot,
    Stopped,
    Summarised,
    TextDelta,
    ThoughtDelta,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    Undone,
    UserSaid,
)
from hermes.domain.ids import CallId, QuestionId
from hermes.domain.thoughts import without_thoughts
from hermes.domain.turn import TurnState
from hermes.stream.fold.directives import without_directives
from hermes.stream.fold.shown_text import ShownText, was_cut
from hermes.stream.fold.silence import is_silence, may_be_silence
from hermes.stream.fold.tool_lines import ProgressLevel, ToolLine, ToolState, chat_lines, tool_state

"""What a door that cannot take words back says before words that replace earlier ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextEntry:
    seq: int
    text: str


class Fold:
    """The view of one turn, kept up to date by `see`. Entries that were seen before are ignored."""

    def __init__(self) -> None:
        self.seq = -1
        self.state = TurnState.RUNNING
        self.reason = ""
        self.note = ""
        self._blocks: list[TextEntry | ToolLine] = []
        self._arguments: dict[CallId, tuple[str, str]] = {}
        self._questions: dict[QuestionId, Asked] = {}
        self._open = ShownText()
        self._continues = False

    @property
    def question(self) -> Asked | None:
        """The oldest question that is still open."""
        return next(iter(self._questions.values()), None)

    @property
    def tools(self) -> tuple[ToolLine, ...]:
        return tuple(block for block in self._blocks if isinstance(block, ToolLine))

    @property
    def text(self) -> str:
        """The visible text of the turn: finished calls and the open one, paragraph by paragraph."""
        return self.draft(ProgressLevel.OFF)

    def draft(self, progress: ProgressLevel = ProgressLevel.ALL) -> str:
        """The turn as a chat shows it while it runs, as markdown."""
        shown = []
        for is_tool, blocks in groupby(self._paragraphs(), key=lambda block: isinstance(block, ToolLine)):
            if is_tool:
                shown.append(chat_lines((tool for tool in blocks if isinstance(tool, ToolLine)), progress))
            else:
                shown.extend(block.text for block in blocks if isinstance(block, TextEntry))
        return "\n\n".join(part for part in shown if part)

    def _paragraphs(self) -> Iterator[TextEntry | ToolLine]:
        blocks = list(self._blocks)
        open_text = self._open.text
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

    def see(self, item: FeedItem) -> None:
        match item:
            case TextDelta(text=text):
                self._open.more(text)
            case Entry():
                if item.seq > self.seq:
                    self.seq = item.seq
                    self._take(item)
            case Snapshot(text=text):
                self._open.catch_up(text)
            case Reset():
                self._open.reset()
            case ThoughtDelta() | ToolOutput() | Retrying():
                pass
            case _:
                assert_never(item)

    def _take(self, entry: Entry) -> None:
        record = entry.record
        match record:
            case ModelSaid():
                self._close_call(entry.seq, record)
            case ToolStarted(call=call, name=name):
                self._mark(entry.seq, call, ToolState.RUNNING, name)
            case ToolFinished(call=call):
                self._mark(entry.seq, call, tool_state(record))
            case Asked(question=question):
                self._questions[question] = record
                self.state = TurnState.WAITING
            case Answered(question=question):
                self._questions.pop(question, None)
                self.state = TurnState.WAITING if self._questions else TurnState.RUNNING
            case UserSaid():
                self._continues = False
            case Undone(since=since):
                self._blocks = [block for block in self._blocks if block.seq < since]
            case Summarised():
                pass
            case Finished(note=note):
                self.note = note
                self._end(TurnState.DONE)
            case Failed(reason=reason):
                self._end(TurnState.FAILED, reason)
            case Stopped(reason=reason):
                self._end(TurnState.STOPPED, reason)
            case _:
                assert_never(record)

    def _close_call(self, seq: int, said: ModelSaid) -> None:
        self._open.reset()
        text = without_thoughts(said.text)
        last = self._blocks[-1] if self._blocks else None
        if self._continues and isinstance(last, TextEntry):
            self._blocks[-1] = replace(last, text=last.text + text)
        elif text.strip():
            self._blocks.append(TextEntry(seq=seq, text=text))
        self._continues = was_cut(said)
        self._arguments.update((call.id, (call.name, call.arguments)) for call in said.calls)

    def _mark(self, seq: int, call: CallId, state: ToolState, name: str = "") -> None:
        for place, block in enumerate(self._blocks):
            if isinstance(block, ToolLine) and block.call == call:
                self._blocks[place] = replace(block, state=state)
                return
        written, arguments = self._arguments.get(call, ("", ""))
        if name or written:
            line = ToolLine(seq=seq, call=call, name=name or written, arguments=arguments, state=state)
            self._blocks.append(line)

    def _end(self, state: TurnState, reason: str = "") -> None:
        self.state, self.reason = state, reason
        self._questions.clear()
        for tool in self.tools:
            if tool.state is ToolState.RUNNING:
                self._mark(tool.seq, tool.call, ToolState.UNKNOWN)
