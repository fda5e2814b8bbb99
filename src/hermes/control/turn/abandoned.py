"""Turns over which their actor breaks each time: each is failed with a reason, without its actor, and whoever
waits for it is told; what is behind it is tried."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from hermes.control.feed import Feeds
from hermes.control.outbound.answers import AnswerWriter
from hermes.control.runtime import Runtime
from hermes.control.turn.claim import WENT_WRONG, cut_off, number_records
from hermes.control.turn.session_cache import WarmSessions
from hermes.domain.clock import Clock
from hermes.domain.event import Entry, Failed
from hermes.domain.ids import AgentId, SessionId, TurnId
from hermes.domain.ports.store import Tx
from hermes.domain.rows import UnreadableTurn
from hermes.domain.transcript import view_turn
from hermes.domain.turn import Turn, TurnState

UNREADABLE = "What was stored of this message could not be read any more. Send it again if it still matters."


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenTurns:
    runtimes: Mapping[AgentId, Runtime]
    clock: Clock
    outcomes: AnswerWriter
    warm: WarmSessions
    feeds: Feeds
    committed: Callable[[AgentId, SessionId, Sequence[Entry]], None]

    async def end_unreadable(self, error: UnreadableTurn) -> None:
        """Somebody met a turn that cannot be read: nobody is to wait for it."""
        if error.agent in self.runtimes:
            await self.end((error.agent, error.session), error)

    async def head(self, key: tuple[AgentId, SessionId]) -> TurnId | None:
        """The turn that is first in a session."""
        agent, session = key
        turns = await self.runtimes[agent].store.read(lambda tx: tx.turns.open_of(session, 1))
        return turns[0].id if turns else None

    async def end(self, key: tuple[AgentId, SessionId], error: Exception) -> None:
        """Fail the turn that is first in a session, or those that cannot be read."""
        agent, session = key
        head = not isinstance(error, UnreadableTurn)
        reason = WENT_WRONG.format(error=type(error).__name__)
        unit = give_up_turns(session, reason if head else "", self.clock.now(), self.outcomes.write)
        ended = await self.runtimes[agent].store.write(unit)
        self.warm.take(session)
        for turn, new in ended:
            self.committed(agent, session, new)
            for entry in new:
                self.feeds.open(turn.id).publish(entry)
            self.feeds.end(turn.id)
            self.outcomes.ring(turn)


def give_up_turns(
    session: SessionId, reason: str, now: datetime, conclude: Callable[[Tx, Turn, Sequence[Entry]], None]
) -> Callable[[Tx], list[tuple[Turn, tuple[Entry, ...]]]]:
    """A unit that fails the turns of a session that cannot be read; if there are none, and a reason is given,
    the oldest one, over which its actor breaks each time. What can be read of a turn is kept."""

    def fail(tx: Tx, turn: Turn, why: str) -> tuple[Turn, tuple[Entry, ...]]:
        failed = replace(turn, state=TurnState.FAILED, attempt=turn.attempt + 1)
        told = tx.journal.of_turn(failed.id)
        last = tx.journal.read(session, most=1, newest=True)
        new = number_records(
            last, failed.id, [*cut_off(view_turn(told, failed.id), ""), Failed(reason=why)], now
        )
        tx.turns.save(failed, attempt=turn.attempt)
        tx.journal.append(session, new)
        conclude(tx, failed, [*told, *new])
        return failed, new

    def give_up(tx: Tx) -> list[tuple[Turn, tuple[Entry, ...]]]:
        mended = [turn for ident in tx.turns.mend(session, now) if (turn := tx.turns.get(ident)) is not None]
        if mended or not reason:
            return [fail(tx, turn, UNREADABLE) for turn in mended]
        return [fail(tx, turn, reason) for turn in tx.turns.open_of(session, 1)]

    return give_up
