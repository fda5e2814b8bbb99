"""What a conversation shows: rows that are finished and wait to be printed into the scrollback, and what is
still open (the end of an answer, tools at work, a thought), which is drawn under it. Knows no terminal."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct

from hermes.domain.ids import CallId
from hermes.domain.text import one_line, showable
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.event import ToolFinished
from hermes.entry.terminal.chat.flow import Flow
from hermes.entry.terminal.chat.spinner import spinner_text
from hermes.entry.terminal.chat.theme import Theme, paint
from hermes.entry.terminal.chat.tool_feed import change_rows, finished_line, told_seconds, tool_line

_OUTPUT_ROWS = 3
_THOUGHT_KEPT = 20_000


class Look(Struct, kw_only=True):
    """How the chat looks just now; what the settings and the terminal say arrives after its start."""

    theme: Theme
    colour: bool = True
    light: bool | None = None
    markdown: str = "render"
    calm: bool = False
    tools: bool = True
    thoughts: bool = False
    diffs: bool = True
    timestamps: bool = False
    columns: Callable[[], int] = lambda: 80
    rows: Callable[[], int] = lambda: 24

    def paint(self, text: str, style: str) -> str:
        return paint(text, style, self.colour)


class ToolAtWork(Struct, kw_only=True):
    call: ToolCall
    since: float
    output: str = ""


class Stage:
    def __init__(self, look: Look, clock: Callable[[], float] = time.monotonic) -> None:
        self.look = look
        self.clock = clock
        self.answer = ""
        """The source of the last answer, for `/copy`."""
        self.thought = ""
        """The last thought, for whoever unfolds it."""
        self.working_since: float | None = None
        self._waiting: list[str] = []
        self._kind = ""
        self._flow = Flow()
        self._tail: list[str] = []
        self._tools: dict[CallId, ToolAtWork] = {}
        self._thinking_since: float | None = None
        self._turns = 0

    # --- what is finished ---

    def put(self, rows: Sequence[str], kind: str) -> None:
        """Rows for the scrollback. Another kind of thing, or another block, stands off by a blank line."""
        if not rows:
            return
        if self._kind and (kind != self._kind or kind == "answer"):
            self._waiting.append("")
        self._waiting += rows
        self._kind = kind

    def note(self, text: str, style: str | None = None, kind: str = "note") -> None:
        """A line of ours, wrapped at words."""
        look = self.look
        style = look.theme.dim if style is None else style
        rows = [row for line in showable(text).splitlines() for row in _wrapped(line, look.columns() - 1)]
        self.put([look.paint(row, style) for row in rows], kind)

    def said(self, shown: str) -> None:
        """What the person said."""
        look = self.look
        mark = time.strftime("%H:%M ") if look.timestamps else ""
        lines = showable(shown).splitlines() or [""]
        self._kind = self._kind or "start"
        rows = [look.paint(f"{mark}❯ {lines[0]}", look.theme.user)]
        self.put([*rows, *(look.paint(f"  {line}", look.theme.user) for line in lines[1:])], "user")

    def reply(self, text: str) -> None:
        """A whole text with markup, such as what a command answers."""
        self.put(self._render(text), "reply")

    def take(self) -> str:
        """What is to be printed now."""
        self._advance()
        rows, self._waiting = self._waiting, []
        return "".join(f"{row}\n" for row in rows)

    # --- what is open ---

    def words(self, text: str) -> None:
        self._end_thought()
        self._flow.feed(showable(text))
        self.answer += text

    def begin_answer(self) -> None:
        self.answer = ""

    def void(self, note: str) -> None:
        """The words of the open call are void."""
        if not self._flow.void() or not self._flow.is_empty:
            self.note(note)
        self._tail, self.answer = [], ""

    def end_words(self) -> None:
        """What comes next is another block."""
        begun = self._flow.is_begun
        for rows in self._flow.end(self._render) if not self._flow.is_empty else ():
            self.put(rows, self._continued(begun))
        self._flow.void()
        self._tail = []

    def think(self, text: str) -> None:
        if self._thinking_since is None:
            self._thinking_since, self.thought = self.clock(), ""
        self.thought = (self.thought + text)[-_THOUGHT_KEPT:]

    def _end_thought(self) -> None:
        since, self._thinking_since = self._thinking_since, None
        if since is None or not self.thought.strip():
            return
        if self.look.thoughts:
            self.note(self.thought.strip(), kind="thought")
        elif self.look.tools:
            took = told_seconds(self.clock() - since)
            self.note(f"┊ 💭 thought {took} (Ctrl-O unfolds)", kind="tool")

    def unfold(self) -> None:
        self.note(self.thought.strip() or "There is no thought to unfold.", kind="thought")

    def tool_began(self, call: ToolCall) -> None:
        self._end_thought()
        self.end_words()
        self._tools[call.id] = ToolAtWork(call=call, since=self.clock())

    def tool_printed(self, call: ToolCall, text: str) -> None:
        if call.id in self._tools:
            self._tools[call.id].output = (self._tools[call.id].output + text)[-2000:]

    def tool_ended(self, call: ToolCall, result: ToolFinished, seconds: float | None) -> None:
        self._tools.pop(call.id, None)
        self.end_words()
        look = self.look
        if not look.tools:
            return
        columns = look.columns()
        rows = [finished_line(call, result, seconds, columns - 1, look.theme, look.colour)]
        if look.diffs:
            rows += change_rows(call, result, columns, look.theme, look.colour)
        self.put(rows, "tool")

    def end_turn(self) -> None:
        self._end_thought()
        self.end_words()
        self._tools.clear()

    def work(self, working: bool) -> None:
        """Whether a turn runs; each has a face of its own."""
        if working and self.working_since is None:
            self.working_since = self.clock()
            self._turns += 1
        elif not working:
            self.working_since = None

    def _advance(self) -> None:
        """Put what is finished of the open answer among the rows to print."""
        if self._flow.is_empty:
            self._tail = []
            return
        begun = self._flow.is_begun
        for rows in self._flow.finished(self._render):
            self.put(rows, self._continued(begun))
        room = max(min(self.look.rows() // 5, 6), 1)
        begun = self._flow.is_begun
        grown, self._tail = self._flow.tail(partial(self._render, links=False), room)
        if grown:
            self.put(grown, self._continued(begun))

    def _continued(self, begun: bool) -> str:
        if begun and self._kind == "answer":
            self._kind = ""  # the same block goes on
        return "answer"

    def drawn(self, seconds: float) -> list[str]:
        """The rows above the prompt: the open end of the answer, tools at work, the spinner."""
        look, columns = self.look, self.look.columns() - 1
        rows = list(self._tail)
        for tool in list(self._tools.values())[-4:]:
            took = told_seconds(self.clock() - tool.since)
            if look.tools:
                rows.append(look.paint(tool_line(tool.call, columns, took), look.theme.dim))
                last = [line for line in showable(tool.output).splitlines() if line.strip()][-_OUTPUT_ROWS:]
                rows += [
                    look.paint(f"┊    {one_line(line, max(columns - 6, 8))}", look.theme.dim) for line in last
                ]
        if self.working_since is not None:
            verb = "thinking" if self._thinking_since is not None else ""
            words = spinner_text(seconds, calm=look.calm, verbs=look.theme.verbs, verb=verb, seed=self._turns)
            rows.append(look.paint(one_line(words, columns), look.theme.accent))
        return rows

    def _render(self, text: str, *, links: bool = True) -> list[str]:
        look, columns = self.look, self.look.columns() - 1
        if look.markdown == "raw":
            return [row for line in text.strip("\n").split("\n") for row in _wrapped(line, columns)]
        from hermes.entry.terminal.chat.render import MarkdownRows  # Rich comes with the first answer

        colour = look.colour and look.markdown != "strip"
        rows = MarkdownRows(look.theme, columns, colour=colour, light=look.light, links=links and colour)
        return rows.document(text)


def _wrapped(line: str, columns: int) -> list[str]:
    """A line wrapped at words, with its indentation kept."""
    blanks = line[: len(line) - len(line.lstrip())]
    room = max(columns, len(blanks) + 8)
    return textwrap.wrap(line, room, subsequent_indent=blanks, break_on_hyphens=False) or [""]
