"""What the open model call of a turn has shown so far. Words that follow one another are one text, however
many pieces they came in; a watcher is a place in it."""

from __future__ import annotations

from typing import NamedTuple

from hermes.domain.turns.event import Live, TextDelta, ThoughtDelta

PIECE = 16 * 1024
"""The most bytes of text that a watcher is given at once: one that does not read on holds no more of it."""
# A model may say half a character; what it said is given on as it is.
_CODEC = ("utf-8", "surrogatepass")


class Place(NamedTuple):
    """How far somebody has read: the run they are in, and how many bytes of it they have."""

    run: int = 0
    read: int = 0


class _Words:
    """A run of words of one sort. They are kept as UTF-8: a text cannot grow in place, and a list of
    words takes ten times what they say."""

    __slots__ = ("bytes", "sort")

    def __init__(self, first: TextDelta | ThoughtDelta) -> None:
        self.sort = type(first)
        self.bytes = bytearray(first.text, *_CODEC)

    def piece(self, start: int) -> tuple[TextDelta | ThoughtDelta, int]:
        """The words from here on, and where they end."""
        end = min(start + PIECE, len(self.bytes))
        while end < len(self.bytes) and self.bytes[end] & 0xC0 == 0x80:
            end -= 1  # in the middle of a character
        return self.sort(text=self.bytes[start:end].decode(*_CODEC)), end


class OpenCall:
    def __init__(self) -> None:
        self._runs: list[_Words | Live] = []
        self._size = 0
        self._last: tuple[Place, int, Live, Place] | None = None

    def add(self, event: Live) -> None:
        self._size += 1
        last = self._runs[-1] if self._runs else None
        if not isinstance(event, TextDelta | ThoughtDelta):
            self._runs.append(event)
        elif isinstance(last, _Words) and last.sort is type(event):
            last.bytes += event.text.encode(*_CODEC)
        else:
            self._runs.append(_Words(event))

    @property
    def text(self) -> str:
        """All that was said aloud."""
        return self._all(TextDelta)

    @property
    def thought(self) -> str:
        return self._all(ThoughtDelta)

    @property
    def thought_late(self) -> int:
        """How many characters were thought after the first word."""
        for place, run in enumerate(self._runs):
            if isinstance(run, _Words) and run.sort is TextDelta:
                return len(self._all(ThoughtDelta, since=place))
        return 0

    def _all(self, sort: type[TextDelta | ThoughtDelta], since: int = 0) -> str:
        words = (run.bytes for run in self._runs[since:] if isinstance(run, _Words) and run.sort is sort)
        return b"".join(words).decode(*_CODEC)

    @property
    def end(self) -> Place:
        last = self._runs[-1] if self._runs else None
        return (
            Place(len(self._runs) - 1, len(last.bytes))
            if isinstance(last, _Words)
            else Place(len(self._runs))
        )

    def after(self, place: Place) -> tuple[Live, Place] | None:
        """What comes after a place, and the place behind it; None at the end. Put together once for all who
        stand there: they share its text."""
        if self._last is None or self._last[:2] != (place, self._size):
            event, behind = self._read(place)
            if event is None:
                return None
            self._last = (place, self._size, event, behind)
        return self._last[2:]

    def _read(self, place: Place) -> tuple[Live | None, Place]:
        while place.run < len(self._runs):
            run = self._runs[place.run]
            if not isinstance(run, _Words):
                return run, Place(place.run + 1)
            if place.read < len(run.bytes):
                event, read = run.piece(place.read)
                return event, Place(place.run, read)
            place = Place(place.run + 1)
        return None, place
