"""Feeds: a turn as it happens, for any number of watchers, none of which can hold it back.

Records are kept while the turn is open and given to whoever joins, from the number they ask for. Of the open
model call there is one list of live events; a watcher is a place in it, so what has arrived together is read
together, and a late joiner gets its text as one snapshot. When a record comes the list starts anew: a watcher
that had not read to its end is given the rest of the text from the record.

A few watchers are woken at once. A crowd is woken together and then left alone for a moment, the longer the
more they are, so that what comes meanwhile is one piece of work for each and not many.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence

from hermes.domain.event import (
    Entry,
    Failed,
    FeedItem,
    Finished,
    Live,
    ModelSaid,
    Record,
    Reset,
    Snapshot,
    Stopped,
    TextDelta,
)
from hermes.domain.ids import AgentId, SessionId, TurnId

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
        self._live: list[Live] = []
        self._call = 0
        self._waiters: list[asyncio.Future[None]] = []
        self._patient: list[asyncio.Future[None]] = []
        self._woken_at = 0.0
        self._waking: asyncio.TimerHandle | None = None
        self._gathered: tuple[tuple[int, int, int], list[Live]] = ((-1, 0, 0), [])

    def preload(self, entries: Sequence[Entry]) -> None:
        """Records from before this process, so that a joiner sees the turn whole."""
        self.entries = list(entries)
        self._wake()
        _resolve(self._patient)

    def publish(self, entry: Entry) -> None:
        self.entries.append(entry)
        self._live = []
        self._call += 1
        self._wake()
        _resolve(self._patient)

    def show(self, event: Live) -> None:
        if isinstance(event, Reset):
            self._live = []
            self._call += 1
        self._live.append(event)
        self._wake()

    def end(self, follow: TurnId | None = None) -> None:
        self.ended = True
        self.follow = follow
        _resolve(self._waiters)
        _resolve(self._patient)

    @property
    def open_text(self) -> str:
        """What the open model call has said so far."""
        return "".join(event.text for event in self._live if isinstance(event, TextDelta))

    async def watch(self, after: int = 0, *, live: bool = True) -> AsyncIterator[FeedItem]:
        """What happens from record `after` on; without `live`, records alone, and nobody is woken before."""
        self.watchers += 1
        try:
            place = 0
            call, read, said = -1, 0, 0
            joining = True
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
                if not live:
                    await _wait_in(self._patient)
                    continue
                if call != self._call:
                    call, read, said = self._call, 0, 0
                    text = self.open_text if joining else ""
                    if text:
                        joining, read, said = False, len(self._live), len(text)
                        yield Snapshot(text=text)
                        continue
                joining = False
                if read < len(self._live):
                    news, read = self._news(read), len(self._live)
                    for event in news:
                        said += len(event.text) if isinstance(event, TextDelta) else 0
                        yield event
                    continue
                await _wait_in(self._waiters)
        finally:
            self.watchers -= 1

    def _news(self, read: int) -> list[Live]:
        """What came after a place, put together once for all who stand there: they share its text."""
        place = (self._call, read, len(self._live))
        if self._gathered[0] != place:
            self._gathered = (place, _merged(self._live[read:]))
        return self._gathered[1]

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


Listener = Callable[[AgentId, SessionId, Sequence[Entry]], None]


class Feeds:
    """The feeds of turns that run or are watched. Nothing is kept for a turn that nobody runs or watches."""

    def __init__(self) -> None:
        self._feeds: dict[TurnId, Feed] = {}
        self._listeners: list[tuple[str, Listener]] = []

    def listen(self, listener: Listener, sessions: str = "") -> None:
        """Tell this listener of every record once it is stored; with `sessions`, only of those sessions whose
        id begins so. It must return at once."""
        self._listeners.append((sessions, listener))

    def committed(self, agent: AgentId, session: SessionId, entries: Sequence[Entry]) -> None:
        for prefix, listener in self._listeners:
            if session.startswith(prefix):
                listener(agent, session, entries)

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

    def is_watched(self, turn: TurnId) -> bool:
        feed = self._feeds.get(turn)
        return feed is not None and feed.watchers > 0

    def release(self, turn: TurnId) -> None:
        """The turn does not run now; keep its feed only if somebody watches."""
        feed = self._feeds.get(turn)
        if feed is not None:
            feed.driven = False
            if not feed.watchers:
                del self._feeds[turn]


_ENDS: dict[type[Record], str] = {Finished: "finished", Failed: "failed", Stopped: "stopped"}


class GatewayCounters:
    """What this life of the gateway has done so far: for metrics, never for decisions."""

    def __init__(self) -> None:
        self.ended: Counter[str] = Counter(dict.fromkeys(_ENDS.values(), 0))
        self.undeliverable = 0

    def see(self, agent: AgentId, session: SessionId, entries: Sequence[Entry]) -> None:
        for entry in entries:
            end = _ENDS.get(type(entry.record))
            if end is not None:
                self.ended[end] += 1
