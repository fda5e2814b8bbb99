"""Watching a turn: what is stored of it, then what happens, to its end; also when somebody else drives it, or
it is absorbed by another."""

from __future__ import annotations

from collections.abc import AsyncIterator

from hermes.control.feed import Feed, Feeds
from hermes.control.sessions.submission import NotFound
from hermes.domain.event import Entry, FeedItem
from hermes.domain.ids import TurnId
from hermes.domain.ports.store import Store
from hermes.domain.turn import Turn, TurnState


async def watch_turn(
    feeds: Feeds, store: Store, turn: TurnId, after: int, *, live: bool = True
) -> AsyncIterator[FeedItem]:
    """From record `after` on; without `live`, records alone."""
    wanted: TurnId | None = turn
    while wanted is not None:
        feed = feeds.open(wanted)
        state = None if feed.driven else await _join(feeds, store, feed)
        if state is None or (not feed.ended and state.state.open):
            async for seen in feed.watch(after, live=live):
                yield seen
            feeds.release(wanted)
            wanted = feed.follow
            continue
        feeds.release(wanted)
        for entry in await _records(store, wanted):
            if entry.seq > after:
                yield entry
        wanted = state.absorbed_by or feed.follow


async def _join(feeds: Feeds, store: Store, feed: Feed) -> Turn:
    """The turn of a feed as it is; if nobody runs it now, the feed is filled from the store."""
    feed.watchers += 1  # an actor that parks the turn meanwhile must not throw the feed away
    try:
        state = await store.read(lambda tx: tx.turns.get(feed.turn))
        if state is not None and state.state is TurnState.WAITING and not feed.entries:
            entries = await _records(store, feed.turn)
            if not feed.entries:
                feed.preload(entries)
    finally:
        feed.watchers -= 1
    if state is None:
        feeds.release(feed.turn)
        raise NotFound(f"There is no turn “{feed.turn}”.")
    return state


async def _records(store: Store, turn: TurnId) -> list[Entry]:
    return await store.read(lambda tx: tx.journal.of_turn(turn))
