"""Feeds: a turn as it happens, for any number of watchers, none of which can hold it back.

Records are kept while the turn is open and given to whoever joins, from the number they ask for. Of the open
model call there is one text; a watcher is a place in it, so what has arrived together is read together, and
a late joiner gets it as one snapshot. When a record comes the text starts anew: a watcher that had not read
to its end is given the rest of it from the record.

A few watchers are woken at once. A crowd is woken together and then left alone for a moment, the longer the
more they are, so that what comes meanwhile is one piece of work for each and not many.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from hermes.domain.ids import TurnId
from hermes.domain.turns.event import Entry, FeedItem, Live, ModelSaid, Notice, Reset, Snapshot, TextDelta
from hermes.domain.turns.open_call import PIECE, OpenCall, Place

_A_FEW = 8
_REST_PER_WATCHER = 0.0002
_LONGEST_REST = 0.2


class Feed:
    def __init__(self, turn: TurnId) -> None:
        self.turn = turn
        self.entries: list[Entry] = []
        self.ended = False
        self.follow: TurnId | None = None
        self.watchers = 0
        self.driven = False
        """Whether somebody of this process is about to fill it, so that nobody has to ask the store."""
        self._warnings: list[Notice] = []
        self._call = OpenCall()
        self._calls = 0
        self._waiters: list[asyncio.Future[None]] = []
        self._patient: list[asyncio.Future[None]] = []
        self._woken_at = 0.0
        self._waking: asyncio.TimerHandle | None = None

    def preload(self, entries: Sequence[Entry]) -> None:
        """Records from before this process, so that a joiner sees the turn whole."""
        self.entries = list(entries)
        self._wake()
        _resolve(self._patient)

    def publish(self, entry: Entry) -> None:
        self.entries.append(entry)
        self._begin_call()
        self._wake()
        _resolve(self._patient)

    def show(self, event: Live) -> None:
        if isinstance(event, Reset):
            self._begin_call()
        self._call.add(event)
        self._wake()

    def warn(self, text: str) -> None:
        """Something about the whole turn: whoever joins while it is open hears it, too."""
        self._warnings.append(Notice(text=f"⚠️ {text}"))
        self._wake()

    def _begin_call(self) -> None:
        self._call = OpenCall()
        self._calls += 1

    def end(self, follow: TurnId | None = None) -> None:
        self.ended = True
        self.follow = follow
        _resolve(self._waiters)
        _resolve(self._patient)

    @property
    def open_reply(self) -> ModelSaid | None:
        """What the open model call has said so far, if anything."""
        call = self._call
        if not (text := call.text):
            return None
        return ModelSaid(text=text, thought=call.thought, thought_late=call.thought_late, partial=True)

    async def watch(self, after: int = 0, *, live: bool = True) -> AsyncGenerator[FeedItem]:
        """What happens from record `after` on; without `live`, records alone, and nobody is woken before."""
        self.watchers += 1
        try:
            record = warned = 0
            # Its number alone: who stands still must not hold the text of a call that is over.
            call, place, said = -1, Place(), 0
            joining = True
            while True:
                while record < len(self.entries):
                    entry = self.entries[record]
                    record += 1
                    if entry.seq <= after:
                        continue
                    if isinstance(entry.record, ModelSaid) and 0 < said < len(entry.record.text):
                        for start in range(said, len(entry.record.text), PIECE):
                            yield TextDelta(text=entry.record.text[start : start + PIECE])
                    call, said = -1, 0
                    yield entry
                if self.ended:
                    return
                if not live:
                    await _wait_in(self._patient)
                    continue
                if warned < len(self._warnings):
                    warned += 1
                    yield self._warnings[warned - 1]
                    continue
                if call != self._calls:
                    call, place, said = self._calls, Place(), 0
                    text = self._call.text if joining else ""
                    if text:
                        joining, place, said = False, self._call.end, len(text)
                        yield Snapshot(
                            text=text, thought=self._call.thought, thought_late=self._call.thought_late
                        )
                        continue
                joining = False
                news = self._call.after(place)
                if news is not None:
                    event, place = news
                    said += len(event.text) if isinstance(event, TextDelta) else 0
                    yield event
                    continue
                await _wait_in(self._waiters)
        finally:
            self.watchers -= 1

    def _wake(self) -> None:
        if self.watchers <= _A_FEW:
            _resolve(self._waiters)
        elif self._waking is None:
            loop = asyncio.get_running_loop()
            rest = min(self.watchers * _REST_PER_WATCHER, _LONGEST_REST) - (loop.time() - self._woken_at)
            if rest > 0:
                self._waking = loop.call_later(rest, self._wake_crowd)
            else:
                self._wake_crowd()

    def _wake_crowd(self) -> None:
        self._waking = None
        self._woken_at = asyncio.get_running_loop().time()
        _resolve(self._waiters)


async def _wait_in(waiters: list[asyncio.Future[None]]) -> None:
    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiters.append(waiter)
    await waiter


def _resolve(waiters: list[asyncio.Future[None]]) -> None:
    """Wake who waits; what they do then happens after this."""
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)
    waiters.clear()


class Feeds:
    """The feeds of turns that run or are watched. Nothing is kept for a turn that nobody runs or watches."""

    def __init__(self) -> None:
        self._feeds: dict[TurnId, Feed] = {}

    def __len__(self) -> int:
        return len(self._feeds)

    def open(self, turn: TurnId) -> Feed:
        feed = self._feeds.get(turn)
        if feed is None:
            feed = self._feeds[turn] = Feed(turn)
        return feed

    def drive(self, turn: TurnId) -> Feed:
        """The feed of a turn that was just made or is run here."""
        feed = self.open(turn)
        feed.driven = True
        return feed

    def end(self, turn: TurnId, follow: TurnId | None = None) -> None:
        feed = self._feeds.pop(turn, None)
        if feed is not None:
            feed.end(follow)

    def show(self, turn: TurnId, event: Live) -> None:
        """To whoever watches a turn, while nobody runs it."""
        feed = self._feeds.get(turn)
        if feed is not None:
            feed.show(event)

    def is_watched(self, turn: TurnId) -> bool:
        feed = self._feeds.get(turn)
        return feed is not None and feed.watchers > 0

    def is_driven(self, turn: TurnId) -> bool:
        """Whether a turn was made here and has neither ended nor begun to wait since, or runs again."""
        feed = self._feeds.get(turn)
        return feed is not None and feed.driven

    def release(self, turn: TurnId) -> None:
        """The turn does not run now; keep its feed only if somebody watches."""
        feed = self._feeds.get(turn)
        if feed is not None:
            feed.driven = False
            if not feed.watchers:
                del self._feeds[turn]
