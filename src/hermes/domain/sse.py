"""Server-sent events, read: the bytes of a stream, however cut, as its events."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hermes.domain.errors import Refused

_LINE_END_BYTES = re.compile(rb"\r\n|\r|\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class SseEvent:
    """An event as a client gets it; `id` is the last one told, by this event or an earlier one."""

    data: str
    name: str = "message"
    id: str = ""


class SseParser:
    """Takes the bytes of a stream, however cut, and gives its events. An event that is not ended by
    an empty line is not given. `retry` is the reconnection time in milliseconds, once told."""

    def __init__(self, *, last_id: str = "", limit: int = 16_000_000) -> None:
        self.last_id = last_id
        self.retry: int | None = None
        self._limit = limit
        self._pieces: list[bytes] = []
        self._pending = 0
        self._size = 0
        self._after_cr = False
        self._begun = False
        self._name = ""
        self._data: list[str] = []

    def feed(self, received: bytes) -> list[SseEvent]:
        if self._after_cr and received[:1] == b"\n":
            received = received[1:]
            self._after_cr = False
        if not received:
            return []
        self._after_cr = received.endswith(b"\r")
        first, *rest = _LINE_END_BYTES.split(received)
        self._pieces.append(first)
        self._pending += len(first)
        events: list[SseEvent] = []
        if rest:
            lines = [b"".join(self._pieces), *rest]
            self._pieces = [lines.pop()]
            self._pending = len(self._pieces[0])
            events = [found for line in lines if (found := self._line(line)) is not None]
        if self._pending + self._size > self._limit:
            raise Refused(f"an event of the stream is larger than {self._limit} bytes")
        return events

    def _line(self, raw: bytes) -> SseEvent | None:
        if not self._begun:
            self._begun = True
            raw = raw.removeprefix(b"\xef\xbb\xbf")
        if not raw:
            return self._dispatch()
        field, _, value = raw.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
            self._size += len(raw)
        elif field == "event":
            self._name = value
        elif field == "id" and "\0" not in value:
            self.last_id = value
        elif field == "retry" and value.isascii() and value.isdigit():
            self.retry = int(value[:12])
        return None

    def _dispatch(self) -> SseEvent | None:
        data, name = self._data, self._name or "message"
        self._data, self._name, self._size = [], "", 0
        return SseEvent(data="\n".join(data), name=name, id=self.last_id) if data else None


def parse(chunks: Iterable[bytes]) -> Iterator[SseEvent]:
    parser = SseParser()
    for chunk in chunks:
        yield from parser.feed(chunk)
