"""Places in a text, and long runs of signs of one kind, found without looking at each sign."""

from __future__ import annotations

from collections.abc import Iterator

Span = tuple[int, int]


def runs(marks: bytes, least: int) -> Iterator[Span]:
    """Where at least so many `a` follow each other among blanks; a translation makes marks of a text."""
    whole = b"a" * least
    start = marks.find(whole)
    while start >= 0:
        end = marks.find(b" ", start + least)
        end = len(marks) if end < 0 else end
        yield start, end
        start = marks.find(whole, end)
