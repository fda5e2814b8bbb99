"""Which words of a Markdown text stand in code, read as the text comes.

In doubt a word is none: a span ends with its line, a fence with less indentation than it began with."""

from __future__ import annotations

import re

_PARTS = re.compile(r"\n|`+|[^`\n]+")
_LONGEST_LINE = 200


class CodeMarks:
    def __init__(self) -> None:
        self._fence = 0
        self._indent = 0
        self._opening = 0
        """The marks that began this line, a fence unless more of them follow in it."""
        self._span = 0
        self._ticks = 0
        self._line = ""

    def read(self, text: str) -> None:
        if not self._ticks and "`" not in text and "\n" not in text:
            self._grow(text)
            return
        for part in _PARTS.findall(text):
            if part[0] == "`":
                self._ticks += len(part)
                continue
            self._settle()
            if part == "\n":
                self._end_line()
            else:
                self._grow(part)

    def _grow(self, text: str) -> None:
        if len(self._line) < _LONGEST_LINE:
            self._line = (self._line + text)[:_LONGEST_LINE]

    def _settle(self) -> None:
        ticks, self._ticks = self._ticks, 0
        if not ticks:
            return
        line = self._line
        self._grow("`" * ticks)
        if self._fence:
            return
        if self._opening:
            self._opening, self._span = 0, self._opening
        elif ticks >= 3 and not line.strip(" ") and len(line) <= 3:
            self._opening, self._indent = ticks, len(line)
            return
        if not self._span:
            self._span = ticks
        elif self._span == ticks:
            self._span = 0

    def _end_line(self) -> None:
        words = self._line.strip()
        if self._opening:
            self._fence, self._opening = self._opening, 0
        elif self._fence and len(words) >= self._fence and not words.strip("`"):
            self._fence = 0
        self._span, self._line = 0, ""

    @property
    def in_fence(self) -> bool:
        """Whether the word that begins here stands in a block of code."""
        self._settle()
        if self._fence and not self._line.strip() and len(self._line) < self._indent:
            self._fence = 0
        return bool(self._fence or self._opening)

    @property
    def in_span(self) -> bool:
        """Whether it stands in a line of code, if that is closed behind it."""
        self._settle()
        return self._span > 0
