"""Learning: after each turn a memory provider is told what was said and answered, in the background.

It follows the journal by a cursor that is stored: a crash tells the last exchange again, and loses none. What
a provider does not take is tried again three times; then the next one gets its turn."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from hermes.control.core import GatewayCore
from hermes.control.turn.recalling import scope_of
from hermes.control.workers import wait_for_ring
from hermes.domain.chats.rows import JournalRow
from hermes.domain.errors import UserError
from hermes.domain.ids import TurnId
from hermes.domain.ports.memory import TurnExchange
from hermes.domain.turns.event import Entry, Finished, ModelSaid, UserSaid
from hermes.domain.turns.gateway_event import TurnEnded
from hermes.domain.turns.turn import Cause

log = logging.getLogger("hermes.learn")
CURSOR = "memory.learned"
_PAGE = 200
_TRIES = 3
_PAUSE = 5.0
_EVERY = 300.0


class MemoryLearning:
    def __init__(self, core: GatewayCore) -> None:
        self._core = core
        self._bell = asyncio.Event()
        core.events.listen(self._heard, TurnEnded)

    def _heard(self, event: TurnEnded) -> None:
        if self._has_provider:
            self._bell.set()

    @property
    def _has_provider(self) -> bool:
        return self._core.live.now.memory.provider not in ("", "none")

    async def live(self) -> None:
        while True:
            self._bell.clear()
            if self._has_provider:
                await self._catch_up()
            elif await self._core.store.read(lambda tx: tx.facts.get(CURSOR)):
                # Who chooses a provider later is not told what was said without one.
                await self._core.store.write(lambda tx: tx.facts.put(CURSOR, ""))
            await wait_for_ring(self._bell, self._core.clock, _EVERY, "learning")

    async def _catch_up(self) -> None:
        store = self._core.store
        stored, end = await store.read(lambda tx: (tx.facts.get(CURSOR), tx.tail.end()))
        if not stored:
            await self._keep(end)
            return
        cursor = min(int(stored), end)
        while True:
            rows, last = await store.read(lambda tx, cursor=cursor: tx.tail.after(cursor, _PAGE))  # type: ignore[misc]
            if last == cursor:
                return
            for row in rows:
                if isinstance(row.entry.record, Finished):
                    await self._learn(row)
            await self._keep(last)
            cursor = last

    async def _keep(self, cursor: int) -> None:
        await self._core.store.write(lambda tx: tx.facts.put(CURSOR, str(cursor)))

    async def _learn(self, row: JournalRow) -> None:
        try:
            runtime = await self._core.agents.get(row.agent)
        except UserError:
            return
        provider = runtime.memory_provider
        if provider is None or not provider.learns:
            return
        turn, entries = await runtime.store.read(
            lambda tx: (tx.turns.get(row.entry.turn), tx.journal.of_turn(row.entry.turn))
        )
        scope = None if turn is None or turn.cause is not Cause.MESSAGE else scope_of(turn, runtime)
        exchange = _exchange(row.entry.turn, entries)
        if scope is None or exchange is None:
            return
        for number in range(_TRIES):
            if await provider.learn(exchange, scope):
                return
            await self._core.clock.sleep(_PAUSE * 2**number)
        log.warning("learn.given_up turn=%s", exchange.turn)


def _exchange(turn: TurnId, entries: Sequence[Entry]) -> TurnExchange | None:
    said = [entry.record.text for entry in entries if isinstance(entry.record, UserSaid)]
    answers = [entry.record.text for entry in entries if isinstance(entry.record, ModelSaid)]
    words, answer = "\n\n".join(filter(None, said)), next(filter(None, reversed(answers)), "")
    return (
        TurnExchange(turn=turn, words=words, answer=answer, at=entries[-1].at) if words and answer else None
    )
