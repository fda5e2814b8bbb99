"""Feeds: a turn as it happens, for any number of watchers, none of which can hold it back.

Records are kept while the turn is open and given to whoever joins, from the number they ask for. Of the open
model call there is one list of live events; a watcher is a place in it, so what has arrived together is read
together, and a late joiner gets its text as one snapshot. When a record comes the list starts anew: a watcher
that had not read to its end is given the rest of the text from the record.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from hermes.domain.event import Entry, Live, ModelSaid, Reset, Seen, Snapshot, TextDelta
from hermes.domain.ids import TurnId


class Feed:
    def __init__(self, turn: TurnId) -> None:
        self.turn = turn
        self.entries: list[Entry] = []
        self.ended = False
        self.follow: TurnId | None = None
        self.watchers = 0
        self._live: list[Live] = []
        self._call = 0
        self._waiters: list[asyncio.Future[None]] = []

    def preload(self, entries: Sequence[Entry]) -> None:
        """Records from before this process, so that a joiner sees the turn whole."""
        self.entries = list(entries)
        self._wake()

    def publish(self, entry: Entry) -> None:
        self.entries.append(entry)
        self._live = []
        self._call += 1
        self._wake()

    def show(self, event: Live) -> None:
        if isinstance(event, Reset):
            self._live = []
            self._call += 1
        self._live.append(event)
        self._wake()

    def end(self, follow: TurnId | None = None) -> None:
        self.ended = True
        self.follow = follow
        self._wake()

    @property
    def open_text(self) -> str:
        """What the open model call has said so far."""
        return "".join(event.text for event in self._live if isinstance(event, TextDelta))

    async def watch(self, after: int = 0) -> AsyncIterator[Seen]:
        self.watchers += 1
        try:
            async for seen in self._watch(after):
                yield seen
        finally:
            self.watchers -= 1

    async def _watch(self, after: int) -> AsyncIterator[Seen]:
        place = 0
        call, read, said = -1, 0, 0
        while True:
            while place < len(self.entries):
                entry = self.entries[place]
                place += 1
                if entry.seq <= after:
                    continue
                if isinstance(entry.record, ModelSaid) and 0 < said < len(entry.record.text):
                    yield TextDelta(text=entry.record.text[said:])
                call, said = -1, 0
                yield entry
            if self.ended:
                return
            if call != self._call:
                joined, call, read, said = call, self._call, 0, 0
                text = self.open_text
                if joined == -1 and text:
                    read, said = len(self._live), len(text)
                    yield Snapshot(text=text)
                    continue
            if read < len(self._live):
                news, read = self._live[read:], len(self._live)
                for event in _merged(news):
                    said += len(event.text) if isinstance(event, TextDelta) else 0
                    yield event
                continue
            await self._changed()

    async def _changed(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


def _merged(events: Sequence[Live]) -> list[Live]:
    if len(events) == 1:
        return list(events)
    merged: list[Live] = []
    words: list[str] = []
    for event in events:
        if isinstance(event, TextDelta):
            words.append(event.text)
            continue
        if words:
            merged.append(TextDelta(text="".join(words)))
            words = []
        merged.append(event)
    if words:
        merged.append(TextDelta(text="".join(words)))
    return merged


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

    def end(self, turn: TurnId, follow: TurnId | None = None) -> None:
        feed = self._feeds.pop(turn, None)
        if feed is not None:
            feed.end(follow)

    def is_watched(self, turn: TurnId) -> bool:
        feed = self._feeds.get(turn)
        return feed is not None and feed.watchers > 0

    def release(self, turn: TurnId) -> None:
        """The turn does not run now; keep its feed only if somebody watches."""
        feed = self._feeds.get(turn)
        if feed is not None and not feed.watchers:
            del self._feeds[turn]
