"""What somebody sees who looks at a terminal: the screen and its scrollback, as `pyte` understands what is
written, and both as text or as a picture."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from html import escape
from typing import Any

import pyte

from tests.entry.terminal.person import PATIENCE, Person

READY = "the word answers"
"""Stands under an approval as soon as keys answer it."""
ASKED = "\x1b]11;?\x1b\\"
_ABOUT = re.compile(r"\x1b\[>0q|\x1b\](?:8|9|52);[^\x07\x1b]*(?:\x07|\x1b\\)")
_DIM = 2
_COLOURS = {
    "black": "#1d1f21", "red": "#e06c75", "green": "#98c379", "brown": "#d7af5f", "yellow": "#d7af5f",
    "blue": "#61afef", "magenta": "#c678dd", "cyan": "#56b6c2", "white": "#d0d0d0",
    "brightblack": "#7f848e", "brightred": "#ef6b73", "brightgreen": "#98c379", "brightbrown": "#e5c07b",
    "brightyellow": "#e5c07b", "brightblue": "#61afef", "brightmagenta": "#c678dd", "brightcyan": "#56b6c2",
    "brightwhite": "#ffffff", "bfightmagenta": "#c678dd",
}  # fmt: skip
_CELL_WIDTH, _ROW_HEIGHT = 8.4, 18
_FLEETING = {
    re.compile(r"^\(\S+( ?\S+\))? [a-z ]+\.[. ]*(\d+s)?$"): "(⌐■_■) deliberating... 2s",
    re.compile(r"\d+\.\ds$"): "0.1s",
    re.compile(r"20\d\d-\d\d-\d\d \d\d:\d\d"): "2026-11-19 09:30",
}


class _Screen(pyte.HistoryScreen):
    """One that knows dim text, and answers like a terminal that does not wrap rows anew."""

    answer: Callable[[str], None] = staticmethod(lambda data: None)

    def select_graphic_rendition(self, *attributes: int, **more: Any) -> None:
        told = tuple(90 if value == _DIM and not _is_colour(attributes, at) else value
                     for at, value in enumerate(attributes))  # fmt: skip
        super().select_graphic_rendition(*told, **more)

    def write_process_input(self, data: str) -> None:
        self.answer(data)


def _is_colour(attributes: tuple[int, ...], at: int) -> bool:
    """Whether a 2 is a part of `38;2;r;g;b`."""
    return any(value in (38, 48) for value in attributes[max(0, at - 4) : at])


class Glass:
    def __init__(self, person: Person, *, columns: int = 80, rows: int = 24, background: str = "") -> None:
        self.person = person
        self._background = background
        self._seen = 0
        self._screen = _Screen(columns, rows, history=5_000, ratio=0.5)
        self._screen.answer = lambda data: person.keys(data)
        self._stream = pyte.Stream(self._screen)
        if (columns, rows) != (80, 24):
            person.resize(columns, rows)

    # --- looking ---

    def look(self, seconds: float = 0.05) -> None:
        """Take in what was written by now."""
        self.person._read(seconds)
        new = self.person.raw[self._seen :]
        if not new or new.endswith("\x1b"):
            return
        self._seen += len(new)
        if ASKED in new and self._background:
            self.person.keys(f"\x1b]11;rgb:{self._background}\x1b\\")
        self._stream.feed(_ABOUT.sub("", new).replace("\ufe0f", ""))  # `pyte` stops at it

    def until(self, *texts: str, gone: str = "") -> str:
        """Wait until the texts stand on the screen or in its history, in this order, and another does not."""
        end = time.monotonic() + PATIENCE
        while not (_in_order(self.text, texts) and (not gone or gone not in self.text)):
            assert time.monotonic() < end, f"not seen: {texts} {gone}\n{self.text}"
            assert self.person.process.poll() is None or self.person._read(0.2), f"ended:\n{self.text}"
            self.look()
        return self.text

    def rest(self, seconds: float = 0.4) -> str:
        """Wait until nothing is written any more for a while."""
        seen, since = self._seen, time.monotonic()
        while time.monotonic() - since < seconds:
            self.look()
            if self._seen != seen:
                seen, since = self._seen, time.monotonic()
        return self.text

    def resize(self, columns: int, rows: int = 24) -> None:
        self.look(0)
        self._screen.resize(rows, columns)
        self.person.resize(columns, rows)

    @property
    def history(self) -> list[str]:
        return [_text(row, self._screen.columns) for row in self._screen.history.top]

    @property
    def rows(self) -> list[str]:
        return [_text(self._screen.buffer[at], self._screen.columns) for at in range(self._screen.lines)]

    @property
    def text(self) -> str:
        return "\n".join([*self.history, *self.rows]).rstrip()

    # --- a picture ---

    def still(self) -> None:
        """Put something fixed in place of what is never the same twice: the time, and how long it took."""
        for at in range(self._screen.lines):
            for pattern, text in _FLEETING.items():
                _rewrite(self._screen.buffer[at], self._screen.columns, pattern, text)

    def picture(self, light: bool = False) -> str:
        """The screen as SVG."""
        columns, lines = self._screen.columns, [self._screen.buffer[at] for at in range(self._screen.lines)]
        for edge in (-1, 0):
            while lines and not _text(lines[edge], columns):
                lines.pop(edge)
        paper, ink = ("#fbfbf8", "#24292f") if light else ("#16181d", "#d0d0d0")
        width, height = columns * _CELL_WIDTH + 24, len(lines) * _ROW_HEIGHT + 24
        drawn = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" font-size="14" '
            'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace">',
            f'<rect width="100%" height="100%" rx="6" fill="{paper}"/>',
        ]
        for number, line in enumerate(lines):
            top = 12 + number * _ROW_HEIGHT
            drawn += _runs(line, columns, top, ink, paper)
        return "\n".join([*drawn, "</svg>", ""])


def _rewrite(row: Any, columns: int, pattern: re.Pattern[str], text: str) -> None:
    """Replace what fits the pattern; a text of another length stands at the end of its row."""
    places = [(at, char) for at in range(columns) for char in row[at].data]
    found = pattern.search("".join(char for _, char in places).rstrip())
    if found is None:
        return
    first = places[found.start()][0]
    cell = row[first]
    for at in range(first, first + max(found.end() - found.start(), len(text))):
        new = text[at - first] if at - first < len(text) else " "
        row[at] = cell._replace(data=new) if new != " " else row[at]._replace(data=" ")


def _runs(line: Any, columns: int, top: int, ink: str, paper: str) -> list[str]:
    """The text of a row, one element for each run of cells that look the same."""
    drawn: list[str] = []
    at = 0
    while at < columns:
        cell, start, text = line[at], at, ""
        while at < columns and _looks(line[at]) == _looks(cell):
            text += line[at].data
            at += 1
        front, back = _colour(cell.fg, ink), _colour(cell.bg, paper)
        if cell.reverse:
            front, back = back, front
        if back != paper:
            drawn.append(
                f'<rect x="{12 + start * _CELL_WIDTH:.1f}" y="{top}" height="{_ROW_HEIGHT}" '
                f'width="{(at - start) * _CELL_WIDTH:.1f}" fill="{back}"/>'
            )
        if text.strip():
            style = (' font-weight="bold"' if cell.bold else "") + (
                ' font-style="italic"' if cell.italics else ""
            )
            style += ' text-decoration="underline"' if cell.underscore else ""
            blank = len(text) - len(text.lstrip())
            drawn.append(
                f'<text x="{12 + (start + blank) * _CELL_WIDTH:.1f}" y="{top + 14}" fill="{front}"{style} '
                f'xml:space="preserve" textLength="{(at - start - blank) * _CELL_WIDTH:.1f}">'
                f"{escape(text[blank:])}</text>"
            )
    return drawn


def _looks(cell: Any) -> tuple[object, ...]:
    return (cell.fg, cell.bg, cell.bold, cell.italics, cell.underscore, cell.reverse)


def _colour(name: str, default: str) -> str:
    return default if name == "default" else _COLOURS.get(name) or f"#{name}"


def _text(row: Any, columns: int) -> str:
    return "".join(row[at].data for at in range(columns)).rstrip()


def _in_order(text: str, wanted: tuple[str, ...]) -> bool:
    place = 0
    for each in wanted:
        found = text.find(each, place)
        if found < 0:
            return False
        place = found + len(each)
    return True
