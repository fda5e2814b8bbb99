"""The numbers of a response's events, and what a client is told that comes back with one of them."""

from __future__ import annotations

from zlib import crc32

import msgspec

from hermes.domain.turns.event import Entry, FeedItem
from hermes.stream.faces.responses import events as told
from hermes.stream.faces.responses import shape
from hermes.stream.faces.responses.events import ResponseEvent
from hermes.stream.faces.responses.fold import ResponseFold
from hermes.stream.fold.steps import SAID_AGAIN

_LAST = b"data: [DONE]\n\n"
_DELTAS = (told.TEXT_DELTA, told.SUMMARY_DELTA)
CHECK_BITS = 10
_CHECK = (1 << CHECK_BITS) - 1
_STAGE_BITS = 2
_NOT_BEGUN, _THINKS, _THOUGHT, _SPEAKS = range(1 << _STAGE_BITS)
_encode = msgspec.json.Encoder().encode


class _EventCounter:
    """How far the story has been told, as the number of the last event.

    A number is a place in the story (each event is a step, each character of the text another) with a short
    check of all that was told up to there in its low bits. Both follow from the records alone, so another
    process that tells the story again, with the words cut otherwise, gives the same numbers.

    Where thoughts are told, there is a `stage` between the two: which items the open call of the model has
    so far. It says what to close for a client that heard of a call that was lost."""

    __slots__ = ("_check", "bits", "place", "stage")

    def __init__(self, *, staged: bool) -> None:
        self.place = -1
        self.stage = _NOT_BEGUN
        self.bits = CHECK_BITS + (_STAGE_BITS if staged else 0)
        self._check = 0

    @property
    def number(self) -> int:
        stage = self.stage << CHECK_BITS if self.bits > CHECK_BITS else 0
        return self.place << self.bits | stage | self._check & _CHECK

    def stage_in(self, number: int) -> int:
        return number >> CHECK_BITS & (1 << self.bits - CHECK_BITS) - 1

    def go_on(self, event: ResponseEvent) -> int:
        kind = event["type"]
        if kind in _DELTAS:
            self.place += len(event["delta"])
            heard = event["delta"]
        else:
            self.place += 1
            heard = f"{kind} "
            if kind in (told.ITEM_ADDED, told.ITEM_DONE):
                self._enter(kind, event["item"])
            if kind == told.ITEM_ADDED:
                heard += type(event["item"]).__name__
            elif kind in told.ARGUMENTS_DELTAS:
                heard += event["delta"]
        if self.place:
            self._check = crc32(heard.encode("utf-8", "surrogatepass"), self._check)
        return self.number

    def _enter(self, kind: str, item: shape.OutputItem) -> None:
        if isinstance(item, shape.ReasoningItem):
            self.stage = _THINKS if kind == told.ITEM_ADDED else _THOUGHT
        else:
            speaks = isinstance(item, shape.OutputMessage) and kind == told.ITEM_ADDED
            self.stage = _SPEAKS if speaks and self.stage == _THOUGHT else _NOT_BEGUN


class ResponseEvents:
    """`after` is the number that a client comes back with: it is told what follows. What it heard may be part
    of the story no more, if a crash cut off the model and it then chose other words. The check says so: its
    open message is closed as incomplete, and what replaces it comes as further items. `since` is the last
    record from before the turn was started again, 0 if it never was: only what came then can be lost."""

    def __init__(self, fold: ResponseFold, *, after: int | None = None) -> None:
        self.fold = fold
        self._after = after
        self.since = 0
        self._story = _EventCounter(staged=fold.tells_thoughts)
        self._held: list[tuple[int, ResponseEvent]] = []
        self._shift = 0
        self._ahead = 0

    @property
    def ended(self) -> bool:
        return self.fold.done

    def start(self) -> bytes:
        begun = self.fold.begun()
        states = ("response.created", "response.in_progress")
        return self._tell([told.make_event(state, response=begun) for state in states], 0)

    def see(self, item: FeedItem) -> bytes:
        events = self.fold.see(item)
        # Words of an open call will be in the record after the last one.
        written = self._tell(events, item.seq if isinstance(item, Entry) else self.fold.seq + 1)
        if isinstance(item, Entry):
            self._story.stage = _NOT_BEGUN
        return written

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
        event["sequence_number"] = self._story.go_on(event) + (self._ahead << self._story.bits)
        if self._shift and "output_index" in event:
            event["output_index"] += self._shift
        written = b"event: %b\ndata: %b\n\n" % (event["type"].encode("ascii"), _encode(event))
        return written + _LAST if event["type"] in told.ENDINGS else written

    # --- a client that comes back ---

    def _look(self, event: ResponseEvent, seq: int) -> bytes | None:
        """Look for the number the client has; once it is found, or cannot be, what it is to be told first."""
        assert self._after is not None
        wanted = self._after >> self._story.bits
        before = self._story.place
        if event["type"] in _DELTAS and before < wanted < before + len(event["delta"]):
            heard = {**event, "delta": event["delta"][: wanted - before]}
            rest = {**event, "delta": event["delta"][wanted - before :]}
            if self._story.go_on(heard) == self._after:
                return self._write(rest)
            self._held += [(seq, heard), (seq, rest)]
            return self._replace_heard()
        self._story.go_on(event)
        self._held.append((seq, event))
        if self._story.place == wanted and self._story.number == self._after:
            return b""
        if self._story.place >= wanted or ("response" in event and self.ended):
            return self._replace_heard()
        return None

    def _replace_heard(self) -> bytes:
        """What the client heard last is void: close its items, then tell what replaces them."""
        assert self._after is not None
        known = [event for seq, event in self._held if seq <= self.since]
        fresh = [event for seq, event in self._held if seq > self.since]
        if not self.since:
            # Nothing was ever lost, so this is no number of ours: all there is to tell is the end.
            return b"".join(self._write(event) for event in fresh[-1:] if self.ended)
        place = sum(event["type"] == told.ITEM_ADDED for event in known)
        stage = self._story.stage_in(self._after)
        self._story = _EventCounter(staged=self.fold.tells_thoughts)
        for event in known:
            self._story.go_on(event)
        self._ahead = (self._after >> self._story.bits) - self._story.place
        closing, shift = self._close_heard(place, stage)
        written = [self._write(event) for event in closing]
        self._shift = shift
        return b"".join([*written, *map(self._write, fresh)])

    def _close_heard(self, place: int, stage: int) -> tuple[list[ResponseEvent], int]:
        """The end of what was heard of a call whose items begin at this place, and how many they are."""
        if stage == _THOUGHT:
            return [], 1
        again = f"\n\n{SAID_AGAIN}\n\n"
        if stage == _THINKS:
            ident = self.fold.item_id("rs", place)
            part = shape.SummaryText(text=SAID_AGAIN)
            item = shape.ReasoningItem(id=ident, status="incomplete", summary=[part])
            return [told.summary_delta(place, ident, again), *told.reasoning_closed(place, item)], 1
        place += stage == _SPEAKS
        ident = self.fold.item_id("msg", place)
        void = shape.OutputMessage(id=ident, status="incomplete", content=[shape.OutputText(text=SAID_AGAIN)])
        shift = 2 if stage == _SPEAKS else 1
        return [told.text_delta(place, ident, again), *told.message_closed(place, void)], shift
