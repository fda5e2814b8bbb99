"""Compression in the background: sessions that are nearly too long get a summary while people go on talking.

Its life: the commit that finds a session nearly too long notes so in a row. A worker reads the session, has
the summary made, and stores it with a turn that joins the one that runs, or is the next: the session's actor
adds it (`prepared.py`). A crash before the summary is stored has it made again, one after it changes nothing.
What fails is tried again later, and nothing is removed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial

from hermes.control.core import GatewayCore, Runtime
from hermes.control.turn.budgets import gate_of
from hermes.control.turn.claim import told_before
from hermes.control.turn.prepared import note_summary
from hermes.control.workers import RungWorker, Workers
from hermes.domain.chats.rows import PendingCompression
from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId, SessionId
from hermes.domain.models.spending import Spender, turn_spender
from hermes.domain.models.usage import Usage
from hermes.domain.ports.agent import CompressionResult
from hermes.domain.ports.store import Tx
from hermes.domain.turns.event import Entry, Summarised, UserSaid
from hermes.domain.turns.session import Session, make_turn
from hermes.domain.turns.turn import BusyMode, Cause, Turn, TurnAction, TurnInput
from hermes.domain.word import replace

log = logging.getLogger("hermes.compress")
Key = tuple[AgentId, SessionId]
AT_ONCE = 4
FIRST_PAUSE = timedelta(minutes=1)
LONGEST_PAUSE = timedelta(hours=1)


class BackgroundCompression:
    """`ring_session` tells a session's actor that there is work."""

    def __init__(self, core: GatewayCore, ring_session: Callable[[AgentId, SessionId], None]) -> None:
        self.core = core
        self.ring_session = ring_session
        self.workers: Workers[Key] = Workers(
            start=lambda key: RungWorker(CompressionWorker(self, key).once),
            page=self._due,
            places=AT_ONCE,
            name="compression",
            loops=core.loops,
        )

    async def _due(self, after: int, limit: int) -> list[tuple[int, Key]]:
        now = self.core.clock.now()
        due = await self.core.store.read(lambda tx: tx.compressions.due(now, after, limit))
        return [(row.n, (row.agent, row.session)) for row in due]


class CompressionWorker:
    """Compresses one session."""

    def __init__(self, background: BackgroundCompression, key: Key) -> None:
        self._core = background.core
        self._ring_session = background.ring_session
        self._agent, self._session = key

    async def once(self) -> None:
        try:
            runtime = await self._core.agents.get(self._agent)
        except UserError as why:
            log.warning("compress.no_agent session=%s why=%s", self._session, why)
            return
        found = await runtime.store.read(self._look)
        if found is None or runtime.compression is None:
            return
        session, entries = found
        gate = gate_of(self._core, runtime) if self._core.live.of(self._agent).budgets else None
        spender = await runtime.store.read(partial(_spender, entries, self._agent))
        if gate is not None and await runtime.store.read(lambda tx: gate.is_spent(tx, spender)):
            await runtime.store.write(self._wait)
            return
        result = None
        if runtime.compression.is_due(session, entries, (), {}):
            result = await runtime.compression.prepare(session, entries)
            log.info(
                "compress.prepared session=%s before=%d after=%d", session.id, result.before, result.after
            )
        base = entries[-1].seq if entries else 0

        def settle(tx: Tx) -> bool:
            record = None if result is None else result.record
            used = record.usage if isinstance(record, Summarised) else result.usage if result else None
            if gate is not None and used is not None:
                gate.spend_beside(tx, spender, used)
            taken = self._settle(tx, session, base, result)
            if not taken and tx.sessions.get(self._session) is not None:
                note_summary(tx, self._session, used, self._core.clock.now())
            return taken

        if await runtime.store.write(settle):
            self._ring_session(self._agent, self._session)

    def _look(self, tx: Tx) -> tuple[Session, list[Entry]] | None:
        pending, session = tx.compressions.get(self._session), tx.sessions.get(self._session)
        if pending is None or session is None or pending.not_before > self._core.clock.now():
            return None
        if pending.made is not None and _waits(tx, pending):
            return None
        return session, tx.journal.read(session.id, told_before(tx, session.id))

    def _wait(self, tx: Tx) -> None:
        """A budget is spent: look again later."""
        pending = tx.compressions.get(self._session)
        if pending is not None:
            tx.compressions.save(replace(pending, not_before=self._core.clock.now() + LONGEST_PAUSE))

    def _settle(self, tx: Tx, session: Session, base: int, result: CompressionResult | None) -> bool:
        """Store what was made with the turn that adds it; True if there is one."""
        pending, now = tx.compressions.get(self._session), self._core.clock.now()
        current = tx.sessions.get(self._session)
        if pending is None or current is None or current.created_at != session.created_at:
            return False
        if result is None:
            tx.compressions.remove(self._session)
            return False
        if result.record is None:
            pause = min(FIRST_PAUSE * 2**pending.tries, LONGEST_PAUSE)
            tx.compressions.save(replace(pending, tries=min(pending.tries + 1, 10), not_before=now + pause))
            return False
        tx.compressions.save(replace(pending, made=result.record, base=base))
        given = TurnInput(action=TurnAction.SUMMARISE)
        tx.turns.add(make_turn(current, Cause.COMMAND, given, now, busy=BusyMode.STEER))
        return True


async def count_wasted(core: GatewayCore, runtime: Runtime, turn: Turn, used: Usage) -> None:
    """Count what a turn had summarised in vain."""
    gate = gate_of(core, runtime) if core.live.of(turn.agent).budgets else None

    def write(tx: Tx) -> None:
        if gate is not None:
            gate.spend_beside(tx, turn_spender(turn), used)
        note_summary(tx, turn.session, used, core.clock.now(), turn.id)

    await runtime.store.write(write)


def _spender(entries: Sequence[Entry], agent: AgentId, tx: Tx) -> Spender:
    """Who talked last pays for it."""
    spoken = [entry.turn for entry in entries if isinstance(entry.record, UserSaid)]
    turn = tx.turns.get(spoken[-1]) if spoken else None
    return Spender(agent=agent) if turn is None else turn_spender(turn)


def _waits(tx: Tx, pending: PendingCompression) -> bool:
    """Whether the turn that adds it is still to come; somebody may have stopped it."""
    turns = tx.turns.open_of(pending.session)
    return any(turn.input.action is TurnAction.SUMMARISE for turn in turns)
