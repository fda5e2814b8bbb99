"""A terminal as a place to write on: what turns say as it comes, and under it the row that is being written.

While a person writes, what a turn says is held back, and follows when the row is sent or empty again."""

from __future__ import annotations

import os
import textwrap

from msgspec import Struct

from hermes.domain.text import showable, width
from hermes.entry.terminal.output import TerminalOutput

_ECHO_LINES, _ECHO_CHARS = 12, 2_000
_CLEAR_ROW, _CLEAR_ALL = "\r\x1b[K", "\x1b[H\x1b[2J\x1b[3J"
_DIM, _BOLD, _PLAIN = "\x1b[2m", "\x1b[1m", "\x1b[0m"
_DEFAULT_WIDTH = 80


class ScreenStyle(Struct, frozen=True, kw_only=True):
    """How a terminal wants to be written on. `rich` ones can move the cursor; on others the kernel echoes.
    `tools` and `thoughts` are shown if the settings say so."""

    rich: bool = False
    colour: bool = False
    terminal: bool = False
    tools: bool = True
    thoughts: bool = False
    encoding: str = "utf-8"


class Screen:
    def __init__(self, descriptor: int, look: ScreenStyle) -> None:
        self.look = look
        self._descriptor = descriptor
        self._output = TerminalOutput(descriptor, look.encoding)
        self.live, self.drained = self._output.live, self._output.drained
        self._held: list[str] = []
        self._row: tuple[str, str, int] | None = None
        self._at_start = True
        self._broken_in = False

    @property
    def width(self) -> int:
        try:
            return os.get_terminal_size(self._descriptor).columns or _DEFAULT_WIDTH
        except OSError:
            return _DEFAULT_WIDTH

    # --- what is shown ---

    def stream(self, text: str) -> None:
        """Words of a turn, which need not end their line."""
        if not text:
            return
        if self._row is not None:
            self._held.append(text)
            return
        if self._broken_in and text[0] == "\n":
            text = text[1:]
        self._broken_in = False
        self._write(text)

    def line(self, text: str, style: str = "") -> None:
        """Words of ours, on lines of their own; a row that is being written stays under them."""
        row, self._row = self._row, None
        if row is not None:
            self._wipe_row()
        self.end_line()
        words = showable(text)
        self._write(f"{style}{words}{_PLAIN}\n" if style and self.look.colour else f"{words}\n")
        self._broken_in = row is None
        if row is not None:
            self.show_row(*row)

    def note(self, text: str) -> None:
        """A line of ours that is no answer to anybody."""
        self.line(textwrap.fill(text, self.width) if self.look.terminal else text, _DIM)

    def clear(self) -> None:
        if self.look.rich:
            self._write(_CLEAR_ALL)
            self._at_start = True

    # --- the row ---

    def show_row(self, prompt: str, text: str = "", cursor: int = 0) -> None:
        """Draw the row that is being written, anew if it is there already."""
        before, self._row = self._row, (prompt, text, cursor)
        if not self.look.rich:
            if before is None or before[0] != prompt:
                self.end_line()
                self._write(prompt)
            return
        if before is None:
            self.end_line()
        column = width(prompt) + cursor
        shown = f"{_BOLD}{prompt}{_PLAIN}" if self.look.colour else prompt
        move = f"\r\x1b[{column}C" if column else "\r"
        self._write(f"{_CLEAR_ROW}{shown}{text}{move}")
        self._at_start = False

    def forget_row(self) -> None:
        """The window has another width, so the row may stand on several lines by now: take them all away."""
        if self._row is None or not self.look.rich:
            return
        prompt, _, cursor = self._row
        above = (width(prompt) + cursor) // max(self.width, 1)
        self._row = None
        up = f"\x1b[{above}A" if above else ""
        self._write(f"{up}\r\x1b[J")
        self._at_start = True

    def close_row(self, line: str | None) -> None:
        """The row is done: it stays as what was said, or goes without a trace; then what was held follows."""
        row, self._row = self._row, None
        if row is not None:
            self._wipe_row()
            if line is not None and self.look.rich:
                self._write(row[0] + echo(line) + "\n")
            self._at_start = self._at_start or line is not None
        self._broken_in = row is not None
        self.release()

    def release(self) -> None:
        """Show what was held back; the row stays under it."""
        row, held = self._row, "".join(self._held)
        self._held.clear()
        if not held:
            return
        if row is not None:
            self._wipe_row()
        self._row, self._broken_in = None, True
        self.stream(held)
        if row is not None:
            self.show_row(*row)

    def _wipe_row(self) -> None:
        if self.look.rich:
            self._write(_CLEAR_ROW)
            self._at_start = True

    def end_line(self) -> None:
        """What comes next begins a line."""
        if not self._at_start:
            self._write("\n")

    # --- writing ---

    def _write(self, text: str) -> None:
        if text:
            self._at_start = text[-1] == "\n"
            self._output.write(text)

    def control(self, text: str) -> None:
        """A sequence for the terminal that leaves no mark."""
        if self.look.rich:
            self._output.write(text)


def echo(line: str) -> str:
    """What was said as it stays on the screen: whole if it is short."""
    lines = line.splitlines()
    if len(lines) <= _ECHO_LINES and len(line) <= _ECHO_CHARS:
        return "\n  ".join(showable(line) for line in lines)
    first = showable(lines[0])[:60] if lines else ""
    return f"{first}… [{len(line):,} characters, {len(lines):,} lines]"
