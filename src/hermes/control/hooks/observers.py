"""What hooks observe: they are told of events of the gateway in order, each with the context that its rows
give. What has waited too long here is left out, as it would be in the queue of a slow hook. Ends of sessions
that were over by themselves are noted in the store until hooks were called for them (`endings`)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from functools import partial

from hermes.control.events import Events
from hermes.control.hooks.context import HookNotice, about_session, about_turn
from hermes.control.hooks.dispatch import MOST_WAITING, HookContext, Hooks
from hermes.control.hooks.endings import noted_ends, strike_out
from hermes.domain.ids import SessionId
from hermes.domain.ports.store import Store, Tx
from hermes.domain.system.hooks import (
    AGENT_END,
    AGENT_START,
    AGENT_STEP,
    SESSION_COMPRESS,
    SESSION_END,
    SESSION_RESET,
    SESSION_START,
)
from hermes.domain.turns.gateway_event import RecordsStored, SessionBegan, SessionEnded

Observed = RecordsStored | SessionBegan | SessionEnded


class HookObservers:
    def __init__(self, hooks: Hooks, events: Events, store: Store) -> None:
        self._hooks = hooks
        self._store = store
        self._waiting: deque[Observed] = deque(maxlen=MOST_WAITING)
        self._bell = asyncio.Event()
        self._ends_told: set[SessionId] = set()
        self._ends_heard: set[SessionId] = set()
        if hooks.followed & {AGENT_START, AGENT_STEP, AGENT_END, SESSION_COMPRESS}:
            events.listen(self._hear, RecordsStored)
        if hooks.followed & {SESSION_START, SESSION_END, SESSION_RESET}:
            events.listen(self._hear, SessionBegan)
            events.listen(self._hear, SessionEnded)

    def _hear(self, event: Observed) -> None:
        self._waiting.append(event)
        self._bell.set()

    async def live(self) -> None:
        await self._tell_noted()
        while True:
            await self.strike_out_heard()  # first what a write that failed left
            await self._bell.wait()
            self._bell.clear()
            await self.tell_waiting()

    async def _tell_noted(self) -> None:
        """What an earlier life noted and may not have told."""
        for end in await self._store.read(noted_ends):
            for name, context in about_session(end):
                self._tell(end, name, {**context, "repeated": True})

    async def strike_out_heard(self) -> None:
        """Forget the ends that all hooks were called for."""
        heard = set(self._ends_heard)
        if heard:
            await self._store.write(partial(_strike_out, heard))
            self._ends_heard -= heard
            self._ends_told -= heard

    def _tell(self, event: Observed, name: str, context: HookContext) -> None:
        if not isinstance(event, SessionEnded) or event.replaced:
            self._hooks.tell(name, context)
        elif event.session not in self._ends_told:
            self._ends_told.add(event.session)
            self._hooks.tell(name, context, partial(self._end_heard, event.session))

    def _end_heard(self, session: SessionId) -> None:
        self._ends_heard.add(session)
        self._bell.set()

    async def tell_waiting(self) -> None:
        """Tell what has happened so far. Whoever is cut off in the middle has told none of the event that it
        was at."""
        while self._waiting:
            event = self._waiting[0]
            try:
                notices = await self._notices(event)
            except Exception:
                self._drop(event)
                raise
            self._drop(event)
            for name, context in notices:
                self._tell(event, name, context)

    def _drop(self, event: Observed) -> None:
        if self._waiting and self._waiting[0] is event:  # a full queue may have dropped it meanwhile
            self._waiting.popleft()

    async def _notices(self, event: Observed) -> Iterable[HookNotice]:
        if not isinstance(event, RecordsStored):
            return about_session(event)

        def read(tx: Tx) -> list[HookNotice]:
            turn = tx.turns.get(event.turn)
            entries = [entry for entry in tx.journal.of_turn(event.turn) if entry.seq <= event.last]
            return [] if turn is None else list(about_turn(turn, entries, event.first))

        return await self._store.scoped(event.agent).read(read)


def _strike_out(sessions: set[SessionId], tx: Tx) -> None:
    strike_out(tx, sessions)
