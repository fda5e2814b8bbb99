"""Server-sent events, read and written. The API's clients and the model client share the one parser."""

from __future__ import annotations

import json
import re

from msgspec import Struct

from hermes.domain.errors import Refused

_LINE_END = re.compile(r"\r\n|\r|\n")
_UNFIT = re.compile(r"[\r\n\0]")
compact_json = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
DONE = b"data: [DONE]\n\n"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
RawEvent = tuple[bytes, str, str]
"""The data of an event as it came, its name and its id."""


class SseEvent(Struct, frozen=True, kw_only=True):
    """An event as a client gets it; `id` is the last one given, by this event or an earlier one."""

    data: str
    name: str = "message"
    id: str = ""


class SseParser:
    """Takes the bytes of a stream, however cut, and gives its events. An event that is not ended by
    an empty line is given only by `close`."""

    def __init__(self, *, limit: int = 16_000_000) -> None:
        self.last_id = ""
        self._limit = limit
        self._pieces: list[bytes] = []
        self._pending = 0
        self._size = 0
        self._after_cr = False
        self._begun = False
        self._between_events = False
        self._name = "message"
        self._data: list[bytes] = []

    def feed(self, received: bytes) -> list[SseEvent]:
        return [
            SseEvent(data=data.decode("utf-8", "replace"), name=name, id=id)
            for data, name, id in self.feed_raw(received)
        ]

    def feed_raw(self, received: bytes) -> list[RawEvent]:
        """The same events undecoded, for a reader of many small ones."""
        if self._after_cr or b"\r" in received:
            received = self._with_plain_ends(received)
        lines = received.split(b"\n")
        if self._between_events and lines[1:] == [b"", b""] and received.startswith(b"data: "):
            # Most reads of a model's stream are one whole event.
            return [(lines[0][6:], "message", self.last_id)]
        rest = lines.pop()
        if self._pieces and lines:
            lines[0] = b"".join([*self._pieces, lines[0]])
            self._pieces, self._pending = [], 0
        if lines and not self._begun:
            self._begun = True
            lines[0] = lines[0].removeprefix(_BYTE_ORDER_MARK)
        events: list[RawEvent] = []
        data, size = self._data, self._size
        for line in lines:
            if line.startswith(b"data: "):
                data.append(line[6:])
                size += len(line)
            elif line:
                size += self._take_field(line)
            else:
                if data:
                    whole = data[0] if len(data) == 1 else b"\n".join(data)
                    events.append((whole, self._name, self.last_id))
                    data.clear()
                    size = 0
                self._name = "message"
        if rest:
            self._pieces.append(rest)
            self._pending += len(rest)
        self._size = size
        self._between_events = not (self._pieces or data) and self._name == "message"
        if self._pending + size > self._limit:
            raise Refused(f"an event of the stream is larger than {self._limit} bytes")
        return events

    def close(self) -> list[RawEvent]:
        """The event that the end of the stream completes, for servers that end it without an empty line."""
        return self.feed_raw(b"\n\n")

    def _with_plain_ends(self, received: bytes) -> bytes:
        """A line may end with CR, LF or both, and a read may end between the two."""
        if self._after_cr and received:
            received = received.removeprefix(b"\n")
            self._after_cr = False
        self._after_cr = self._after_cr or received.endswith(b"\r")
        received = received.replace(b"\r\n", b"\n")
        return received.replace(b"\r", b"\n") if b"\r" in received else received

    def _take_field(self, line: bytes) -> int:
        """Any other field; the size of the data in it."""
        name, _, content = line.partition(b":")
        if name == b"data":
            self._data.append(content)
            return len(line)
        field, value = name.decode("utf-8", "replace"), content.decode("utf-8", "replace").removeprefix(" ")
        if field == "event":
            self._name = value or "message"
        elif field == "id" and "\0" not in value:
            self.last_id = value
        return 0


# --- written ---


def encode_event(data: str, *, name: str | None = None, id: str | int | None = None) -> bytes:
    """One event. Data may have any lines; a name or id that could break out of its line is refused."""
    lines = []
    if name:
        lines.append(f"event: {_fit(name)}")
    if id is not None:
        lines.append(f"id: {_fit(str(id))}")
    lines.extend(f"data: {line}" for line in _LINE_END.split(data))
    return ("\n".join(lines) + "\n\n").encode("utf-8", "replace")


def encode_json_event(data: object, *, name: str | None = None) -> bytes:
    return encode_event(compact_json(data), name=name)


def comment(text: str = "") -> bytes:
    """Bytes that keep a connection alive and mean nothing."""
    lines = "\n".join(f": {line}" for line in _LINE_END.split(text))
    return f"{lines}\n\n".encode("utf-8", "replace")


def _fit(word: str) -> str:
    if _UNFIT.search(word):
        raise ValueError("a name or id of an event is one line without NUL")
    return word
