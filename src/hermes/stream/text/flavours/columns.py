"""A table as lines of text with aligned columns, for platforms that have no tables."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from hermes.stream.text.markdown import Align, Table, visible_inlines

# Wider cells stick out instead of padding every other row to their width.
MAX_WIDTH = 32


def aligned(table: Table) -> str:
    """The rows of a table in columns; the header, unless it is empty, is underlined."""
    header = [visible_inlines(cell) for cell in table.header]
    rows = [[visible_inlines(cell) for cell in row] for row in table.rows]
    shown = [header, *rows] if any(header) else rows
    widths = [min(MAX_WIDTH, max(map(width, column), default=0)) for column in zip(*shown, strict=True)]
    lines = [_line(row, widths, table.aligns) for row in shown]
    if any(header):
        lines.insert(1, "-+-".join("-" * size for size in widths))
    return "\n".join(lines)


def width(text: str) -> int:
    """How many columns a terminal-like font gives to the text."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def _line(row: Sequence[str], widths: Sequence[int], aligns: Sequence[Align]) -> str:
    cells = zip(row, widths, aligns, strict=True)
    return " | ".join(_padded(text, size, align) for text, size, align in cells).rstrip()


def _padded(text: str, size: int, align: Align) -> str:
    missing = max(0, size - width(text))
    match align:
        case Align.RIGHT:
            return " " * missing + text
        case Align.CENTER:
            return " " * (missing // 2) + text + " " * (missing - missing // 2)
        case Align.LEFT | Align.NONE:
            return text + " " * missing
