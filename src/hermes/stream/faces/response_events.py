"""A response as server-sent events, with numbers that a client can come back with, also after a crash.

A number is a place in the story (each event is a step, each character of the text another) with a short check
of all that was told up to there in its low bits. Both follow from the records alone, so another process that
tells the story again, with the words cut otherwise, gives the same numbers."""

from __future__ import annotations

from zlib import crc32

import msgspec

from hermes.domain.event import Entry, FeedItem
from hermes.stream.faces.response_shape import (
    ItemAdded,
    ItemEvent,
    OutputMessage,
    OutputText,
    OutputTextDelta,
    ResponseEvent,
    ResponseStateEvent,
)
from hermes.stream.faces.responses import ResponseFold, message_closed
from hermes.stream.fold.shown_text import SAID_AGAIN

CHECK_BITS = 10
_CHECK = (1 << CHECK_BITS) - 1
_encode = msgspec.json.Encoder().encode


class _EventCounter:
    """How far the telling is."""

    __slots__ = ("_check", "place")

    def __init__(self) -> None:
        self.place = -1
        self._check = 0

    @property
    def number(self) -> int:
        return self.place << CHECK_BITS | self._check & _CHECK

    def go_on(self, event: ResponseEvent) -> int:
        """The number of the next event."""
        if isinstance(event, OutputTextDelta):
            self.place += len(event.delta)
            told = event.delta
        else:
            self.place += 1
            told = f"{event.type} {event.told}"
        if self.place:
            self._check = crc32(told.encode("utf-8", "surrogatepass"), self._check)
        return self.number


class ResponseEvents:
    """`after` is the number that a client comes back with: it is told what follows. What it heard may be part
    of the story no more, if a crash cut off the model and it then chose other words. The check says so: its
    open message is closed as incomplete, and what replaces it comes as further items. `since` is the last
    record from before the turn was started again, 0 if it never was: only what came then can be lost."""

    def __init__(self, fold: ResponseFold, *, after: int | None = None) -> None:
        self.fold = fold
        self._after = after
        self.since = 0
        self._story = _EventCounter()
        self._held: list[tuple[int, ResponseEvent]] = []
        self._shift = 0
        self._ahead = 0

    @property
    def ended(self) -> bool:
        return self.fold.done

    def start(self) -> bytes:
        begun = self.fold.begun()
        states = ("created", "in_progress")
        return self._tell([ResponseStateEvent(type=f"response.{name}", response=begun) for name in states], 0)

    def see(self, item: FeedItem) -> bytes:
        events = self.fold.see(item)
        if not events:
            return b""
        # Words of an open call will be in the record after the last one.
        return self._tell(events, item.seq if isinstance(item, Entry) else self.fold.seq + 1)

    def _tell(self, events: list[ResponseEvent], seq: int) -> bytes:
        if self._after is None:
            return b"".join(map(self._write, events))
        for place, event in enumerate(events):
            rest = self._look(event, seq)
            if rest is not None:
                self._after = None
                return b"".join([rest, *map(self._write, events[place + 1 :])])
        return b""

    def _write(self, event: ResponseEvent) -> bytes:
        event.sequence_number = self._story.go_on(event) + (self._ahead << CHECK_BITS)
        if self._shift and isinstance(event, ItemEvent):
            event.output_index += self._shift
        return b"event: %b\ndata: %b\n\n" % (event.type.encode("ascii"), _encode(event))

    # --- a client that comes back ---

    def _look(self, event: ResponseEvent, seq: int) -> bytes | None:
        """Look for the number the client has; once it is found, or cannot be, what it is to be told first."""
        assert self._after is not None
        wanted = self._after >> CHECK_BITS
        before = self._story.place
        if isinstance(event, OutputTextDelta) and before < wanted < before + len(event.delta):
            heard, rest = event.delta[: wanted - before], event.delta[wanted - before :]
            known = msgspec.structs.replace(event, delta=heard)
            if self._story.go_on(known) == self._after:
                return self._write(msgspec.structs.replace(event, delta=rest))
            self._held += [(seq, known), (seq, msgspec.structs.replace(event, delta=rest))]
            return self._mend()
        self._story.go_on(event)
        self._held.append((seq, event))
        if self._story.place == wanted and self._story.number == self._after:
            return b""
        if self._story.place >= wanted or (isinstance(event, ResponseStateEvent) and self.ended):
            return self._mend()
        return None

    def _mend(self) -> bytes:
        """What the client heard last is void."""
        assert self._after is not None
        known = [event for seq, event in self._held if seq <= self.since]
        fresh = [event for seq, event in self._held if seq > self.since]
        if not self.since:
            # Nothing was ever lost, so this is no number of ours: all there is to tell is the end.
            return b"".join(self._write(event) for event in fresh[-1:] if self.ended)
        place = sum(isinstance(event, ItemAdded) for event in known)
        self._story = _EventCounter()
        for event in known:
            self._story.go_on(event)
        ident = self.fold.message_id(place)
        void = OutputMessage(id=ident, status="incomplete", content=[OutputText(text=SAID_AGAIN)])
        self._ahead = (self._after >> CHECK_BITS) - self._story.place
        closing: list[ResponseEvent] = [
            OutputTextDelta(output_index=place, item_id=ident, delta=f"\n\n{SAID_AGAIN}\n\n"),
            *message_closed(place, void),
        ]
        told = [self._write(event) for event in closing]
        self._shift = 1
        return b"".join([*told, *map(self._write, fresh)])
