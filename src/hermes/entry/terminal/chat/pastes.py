"""Long pastes stand in the line as a short mark, and are what they are when the line is sent."""

from __future__ import annotations

_LINES, _CHARS = 5, 2_000


class Pastes:
    def __init__(self) -> None:
        self.lines, self.chars = _LINES, _CHARS
        """From how many on a paste is folded."""
        self._kept: dict[str, str] = {}

    def fold(self, text: str) -> str:
        """What stands in the line for a pasted text."""
        lines = text.removesuffix("\n").count("\n") + 1
        if lines < self.lines and len(text) < self.chars:
            return text
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        mark = f"[pasted #{len(self._kept) + 1}: {size}]"
        self._kept[mark] = text
        return mark

    def expand(self, line: str) -> str:
        for mark, text in self._kept.items():
            line = line.replace(mark, text)
        return line

    def forget(self) -> None:
        self._kept.clear()
