"""A turn's feed as text for a terminal: `see` gives what is to be written now.

A terminal cannot take words back: they are written as they come, and what is said again is said
visibly again. Control and direction characters never reach it. Writing and reading are the door's."""

from __future__ import annotations

import textwrap
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
    Verdict,
)
from hermes.domain.ids import CallId
from hermes.domain.text import one_line, showable
from hermes.stream.fold.answer import answer_text
from hermes.stream.fold.questions import choices, for_people
from hermes.stream.fold.shown_text import SAID_AGAIN, RemainingText, ShownText, has_words, was_cut
from hermes.stream.fold.tool_lines import ToolLine, ToolState, tool_state

_DIM, _RED, _BOLD, _PLAIN = "\x1b[2m", "\x1b[31m", "\x1b[1m", "\x1b[0m"
_NARROWEST = 20


def _clean(text: str) -> str:
    return text if text.isascii() and text.isprintable() else showable(text)


class Console:
    """One turn on a terminal, everything shown as it happens."""

    def __init__(
        self,
        width: int = 80,
        *,
        colour: bool = False,
        show_tools: bool = True,
        show_thoughts: bool = False,
    ) -> None:
        self._width = max(width, _NARROWEST)
        self._colour = colour
        self._show_tools = show_tools
        self._show_thoughts = show_thoughts
        self._seq = -1
        self._spoken = ShownText()
        self._tools: dict[CallId, ToolLine] = {}
        self._open_tool: CallId | None = None
        self._thinking = False
        self._thought = False
        self._at_start = True
        self._gap = False

    def see(self, item: FeedItem) -> str:
        match item:
            case TextDelta(text=text):
                return self._say(self._spoken.more(text))
            case Entry():
                if item.seq <= self._seq:
                    return ""
                self._seq = item.seq
                return self._take(item)
            case ThoughtDelta(text=text):
                return self._think(text)
            case Snapshot(text=text):
                return self._catch_up(self._spoken.catch_up(text))
            case Reset():
                return self._say_again() if self._spoken.reset() else ""
            case Retrying(reason=reason, after=after):
                return self._line(f"… {reason} (again in {after:.0f} s)", _DIM)
            case ToolOutput():
                return ""
            case _:
                assert_never(item)

    def _take(self, entry: Entry) -> str:
        record = entry.record
        match record:
            case ModelSaid():
                return self._close_call(entry.seq, record)
            case ToolStarted(call=call, name=name):
                return self._start(entry.seq, call, name)
            case ToolFinished(call=call):
                return self._settle(call, tool_state(record))
            case Asked():
                return self._ask(record) if for_people(record) else ""
            case Answered():
                return self._line(f"→ {_verdict(record)}", _DIM)
            case Finished(note=note):
                return self._end(self._line(note, _DIM) if note else "")
            case Failed(reason=reason):
                return self._end(self._line(f"✗ {reason}", _RED))
            case Stopped(reason=reason):
                return self._end(self._line(f"— stopped: {reason} —" if reason else "— stopped —", _DIM))
            case UserSaid():
                self._gap = self._gap or not self._at_start
                return ""
            case Summarised() | Undone():
                return ""
            case _:
                assert_never(record)

    # --- words

    def _say(self, words: str) -> str:
        words = _clean(words)
        if not words:
            return ""
        before = self._start_line() if self._gap or self._thinking or self._open_tool else ""
        if self._gap:
            before += "\n"
            self._gap = False
        self._at_start = words[-1] == "\n"
        return before + words

    def _think(self, text: str) -> str:
        words = _clean(text)
        if not words or not self._show_thoughts:
            return ""
        before = "" if self._thinking else self._start_line()
        self._thinking = self._thought = True
        self._at_start = words[-1] == "\n"
        return before + self._paint(words, _DIM)

    def _catch_up(self, rest: RemainingText) -> str:
        return self._say_again() + self._say(rest.text) if rest.void else self._say(rest.text)

    def _say_again(self) -> str:
        return self._line(SAID_AGAIN, _DIM)

    def _close_call(self, seq: int, said: ModelSaid) -> str:
        thought = "" if self._thought else self._think(said.thought)
        self._thought = False
        written = thought + self._catch_up(self._spoken.close(said.text))
        for call in said.calls:
            self._tools[call.id] = ToolLine(seq=seq, call=call.id, name=call.name, arguments=call.arguments)
        if not was_cut(said):
            self._gap = self._gap or has_words(said)
        return written

    # --- lines

    def _start(self, seq: int, call: CallId, name: str) -> str:
        tool = self._tools.setdefault(call, ToolLine(seq=seq, call=call, name=name))
        if tool.hidden or not self._show_tools:
            return ""
        written = self._begin_tool(tool)
        self._open_tool, self._at_start = call, False
        return written

    def _settle(self, call: CallId, state: ToolState) -> str:
        tool = self._tools.get(call)
        if tool is None or tool.hidden or not self._show_tools:
            return ""
        colour = _DIM if state is ToolState.DONE else _RED
        ending = self._paint(f" {state.value}", colour) + "\n"
        begun = "" if self._open_tool == call else self._begin_tool(tool)
        self._open_tool, self._at_start, self._gap = None, True, True
        return begun + ending

    def _begin_tool(self, tool: ToolLine) -> str:
        room = self._width - len("·  … ") - len(ToolState.UNKNOWN)
        words = f"· {one_line(tool.plain, max(room, _NARROWEST))} …"
        return self._start_line() + self._paint(words, _DIM)

    def _ask(self, asked: Asked) -> str:
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

    def _line(self, words: str, colour: str) -> str:
        before = self._start_line()
        self._at_start = True
        return f"{before}{self._paint(one_line(words, 1000), colour)}\n"

    def _end(self, last: str) -> str:
        return last or self._start_line()

    def _start_line(self) -> str:
        before = "" if self._at_start else "\n"
        self._at_start, self._thinking, self._open_tool = True, False, None
        return before

    def _paint(self, words: str, colour: str) -> str:
        return f"{colour}{words}{_PLAIN}" if self._colour else words


def _verdict(answered: Answered) -> str:
    if answered.verdict is Verdict.REPLY:
        return answered.text
    return answered.verdict.value


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
