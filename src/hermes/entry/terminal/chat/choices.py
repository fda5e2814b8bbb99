"""A list to choose from with the arrow keys: the answers of a question, or sessions."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

from msgspec import Struct

from hermes.domain.text import one_line
from hermes.entry.terminal.chat.theme import Theme, paint
from hermes.entry.terminal.door import ChatOption


class ChoiceList(Struct, kw_only=True):
    """`entries` are those that the `filter` leaves; numbered ones are also chosen by their number."""

    every: Sequence[ChatOption]
    numbered: bool = False
    at: int = 0
    filter: str = ""
    help: str = ""

    @property
    def entries(self) -> list[ChatOption]:
        words = self.filter.casefold().split()
        return [e for e in self.every if all(word in f"{e.name} {e.about}".casefold() for word in words)]

    @property
    def chosen(self) -> ChatOption | None:
        entries = self.entries
        return entries[min(self.at, len(entries) - 1)] if entries else None

    def move(self, step: int) -> None:
        count = len(self.entries)
        self.at = (min(self.at, count - 1) + step) % count if count else 0

    def _label(self, number: int, entry: ChatOption) -> str:
        return f"{number + 1}. {entry.name}" if self.numbered else entry.usage or entry.name

    def rows(self, columns: int, most: int, theme: Theme, colour: bool) -> list[str]:
        entries = self.entries
        at = min(self.at, len(entries) - 1)
        first = max(0, min(at - most // 2, len(entries) - most))
        labels = [self._label(number, entry) for number, entry in enumerate(entries)]
        widest = min(max(map(len, labels), default=0), max(columns - 2, 1))
        rows = []
        for number, entry in enumerate(entries[first : first + most], first):
            label = labels[number]
            chosen = number == at
            room = max(columns - 4 - widest, 1)
            text = f"{one_line(label, widest):<{widest}}  {one_line(entry.about, room)}".rstrip()
            rows.append(paint(f"{'❯' if chosen else ' '} {text}", theme.accent if chosen else "", colour))
        if not entries:
            rows.append(paint("  nothing fits", theme.dim, colour))
        return [*rows, *(paint(row, theme.dim, colour) for row in wrap(self.help, max(columns, 8)))]
