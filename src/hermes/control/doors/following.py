"""Following a turn that a caller began: watch it to its end, or come back to it as a run."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from enum import StrEnum
from itertools import islice

from msgspec import Struct

from hermes.control.feed import Feed, Feeds
from hermes.control.sessions.submission import NotFound
from hermes.domain.chats.address import Source
from hermes.domain.ids import TurnId
from hermes.domain.ports.store import Store, Tx
from hermes.domain.turns.event import Entry, Failed, FeedItem, Stopped
from hermes.domain.turns.turn import Question, Request, Turn, TurnState


class ApiRunStatus(StrEnum):
    """How far a run has come."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting_for_approval"
    STOPPING = "stopping"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


_STATUS = {
    TurnState.ACCEPTED: ApiRunStatus.QUEUED,
    TurnState.RUNNING: ApiRunStatus.RUNNING,
    TurnState.WAITING: ApiRunStatus.WAITING,
    TurnState.DONE: ApiRunStatus.COMPLETED,
    TurnState.FAILED: ApiRunStatus.FAILED,
    TurnState.STOPPED: ApiRunStatus.CANCELLED,
}


class RunView(Struct, frozen=True, kw_only=True):
    """A run as it is now. `asked` is the turn that the client made; `turn` the one that answers it, which is
    another if its words were taken into a turn that ran already."""

    asked: Turn
    turn: Turn
    entries: tuple[Entry, ...]
    questions: tuple[Question, ...]
    request: Request | None

    @property
    def status(self) -> ApiRunStatus:
        turn = self.turn
        return ApiRunStatus.STOPPING if turn.state.open and turn.stop is not None else _STATUS[turn.state]

    @property
    def updated_at(self) -> datetime:
        return self.entries[-1].at if self.entries else self.turn.created_at

    @property
    def failure(self) -> Failed | Stopped | None:
        last = self.entries[-1].record if self.entries else None
        return last if isinstance(last, Failed | Stopped) else None


def read_run(tx: Tx, asked: Turn, name: str) -> RunView:
    """`name` is the run's id, under which its request may be kept."""
    turn = answering_turn(tx, asked)
    return RunView(
        asked=asked,
        turn=turn,
        entries=tuple(tx.journal.of_turn(turn.id)),
        questions=tuple(tx.questions.of_turn(turn.id)),
        request=tx.requests.get(name),
    )


def answering_turn(tx: Tx, asked: Turn) -> Turn:
    turn = asked
    while turn.absorbed_by is not None:
        into = tx.turns.get(turn.absorbed_by)
        if into is None:
            return turn
        turn = into
    return turn


def recent_runs(tx: Tx, owner: str, prefix: str, limit: int) -> list[tuple[Request, Turn]]:
    """The latest runs that somebody asked for, newest first; those whose turn was deleted are left out."""
    found: list[tuple[Request, Turn]] = []
    for request in tx.requests.find(owner, prefix=prefix, limit=limit):
        turn = tx.turns.get(TurnId(request.turn))
        if turn is not None:
            found.append((request, turn))
    return found


def waiting_turns(tx: Tx, mine: Callable[[Source | None], bool], limit: int) -> list[Turn]:
    """The newest turns of somebody's that wait for an answer."""
    newest = dict.fromkeys(question.turn for question in reversed(tx.questions.open_of(None)))
    turns = (turn for turn in map(tx.turns.get, newest) if turn is not None and mine(turn.source))
    return list(islice(turns, limit))


async def watch_turn(
    feeds: Feeds, store: Store, turn: TurnId, after: int, *, live: bool = True
) -> AsyncIterator[FeedItem]:
    """From record `after` on; without `live`, records alone."""
    wanted: TurnId | None = turn
    while wanted is not None:
        feed = feeds.open(wanted)
        state = None if feed.driven else await _join(feeds, store, feed)
        if state is None or (not feed.ended and state.state.open):
            # Closed at once with this one: whether somebody watches decides what becomes of a turn.
            async with contextlib.aclosing(feed.watch(after, live=live)) as watched:
                async for seen in watched:
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
