"""An answer as it arrives: its finished blocks are printed once, and only the block that is still being
written is drawn again. A block that outgrows the room under the scrollback is printed from its top."""

from __future__ import annotations

import re
from collections.abc import Callable

_CONTROL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x1b\x07]*(?:\x1b\\|\x07))")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^`\n]*)\n")
_TABLE = re.compile(r"[^\n]*\|[^\n]*\n[ :|-]*-[ :|-]*(?:\n|$)")
_LONGEST_CODE = 400
"""Lines of an open code block that are highlighted together."""

Render = Callable[[str], list[str]]
"""Markdown as rows of the terminal."""


class Flow:
    def __init__(self) -> None:
        self._open = ""
        self._printed = 0
        """Visible characters of the open block that are printed already. Rows change with the width, these do
        not."""

    @property
    def is_empty(self) -> bool:
        return not self._open.strip()

    @property
    def is_begun(self) -> bool:
        """Whether the beginning of the open block is printed already."""
        return self._printed > 0

    def feed(self, text: str) -> None:
        self._open += text

    def void(self) -> bool:
        """Forget what is not printed; whether nothing of it was."""
        whole, self._open, self._printed = not self._printed, "", 0
        return whole

    def finished(self, render: Render) -> list[list[str]]:
        """The rows of each block that is finished."""
        at = _last_block(self._open)
        if not at:
            return []
        done, self._open = self._open[:at], self._open[at:]
        return self._close(done, render)

    def end(self, render: Render) -> list[list[str]]:
        """All that is left."""
        done, self._open = self._open, ""
        rows, self._printed = self._close(done, render), 0
        return rows

    def _close(self, text: str, render: Render) -> list[list[str]]:
        rows = render(text) if text.strip() else []
        left = self._unprinted(rows)
        # A line under a heading belongs to it until it is whole, and of such a line rows may be printed, too.
        self._printed = max(self._printed - sum(map(_visible, rows)), 0)
        return [left] if left else []

    def tail(self, render: Render, room: int) -> tuple[list[str], list[str]]:
        """Of the open block: rows that are to be printed now, because it is longer than the room, and those
        that are drawn."""
        if self.is_empty:
            return [], []
        self._cut_code(render)
        rows = self._unprinted(render(self._open))
        if len(rows) <= room or _is_table(self._open):
            return [], rows[-room:]
        grown, shown = rows[:-room], rows[-room:]
        while grown and not _visible(grown[-1]):
            grown.pop()  # it is counted by nothing, and comes with what is under it
        self._printed += sum(map(_visible, grown))
        return grown, shown

    def _unprinted(self, rows: list[str]) -> list[str]:
        seen = 0
        for number, row in enumerate(rows):
            if seen >= self._printed:
                return rows[number:]
            size = _visible(row)
            if seen < self._printed < seen + size:  # it was printed at another width, up to within this row
                return [_behind(row, self._printed - seen), *rows[number + 1 :]]
            seen += size
        return [] if self._printed else rows

    def _cut_code(self, render: Render) -> None:
        """Of very long code, the printed beginning is forgotten: the rest is a block of code like it."""
        fence = _FENCE.match(self._open)
        if fence is None or self._open.count("\n") < 2 * _LONGEST_CODE or not self._printed:
            return
        lines = self._open.split("\n")
        kept = "\n".join((lines[0], *lines[_LONGEST_CODE + 1 :]))
        head = _visible("".join(render(lines[0] + "\n.")))
        gone = sum(map(_visible, lines[1 : _LONGEST_CODE + 1]))
        if self._printed - head >= gone:
            self._open, self._printed = kept, self._printed - gone


def _last_block(text: str) -> int:
    """Where the last block begins; the last line counts only when it is whole."""
    from hermes.stream.text.reader import block_starts

    whole = text.rfind("\n") + 1
    starts = block_starts(text[:whole]) if whole else []
    return sum(len(line) + 1 for line in text.split("\n")[: starts[-1]]) if len(starts) > 1 else 0


def _is_table(text: str) -> bool:
    return text.lstrip().startswith("|") or _TABLE.match(text) is not None


def _behind(row: str, count: int) -> str:
    """The row without its first visible characters; what colours it stays."""
    kept, at = "", 0
    while count or row[at : at + 1] == " ":
        if control := _CONTROL.match(row, at):
            kept, at = kept + control[0], control.end()
        else:
            count, at = count - (not row[at].isspace()), at + 1
    return kept + row[at:]


def _visible(row: str) -> int:
    return len("".join(_CONTROL.sub("", row).split()))
