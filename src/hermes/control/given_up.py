"""Turns over which their actor breaks each time: each is failed with a reason, without its actor, and whoever
waits for it is told; what is behind it is tried."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from hermes.control.claim import WENT_WRONG, cut_off, number
from hermes.control.feed import Feeds
from hermes.control.outcome import Outcomes
from hermes.control.runtime import Runtime
from hermes.control.warm import WarmSessions
from hermes.domain.clock import Clock
from hermes.domain.event import Entry, Failed
from hermes.domain.ids import AgentId, SessionId, TurnId
from hermes.domain.ports import Tx
from hermes.domain.transcript import view_turn
from hermes.domain.turn import Turn, TurnState


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUp:
    runtimes: Mapping[AgentId, Runtime]
    clock: Clock
    outcomes: Outcomes
    warm: WarmSessions
    feeds: Feeds
    committed: Callable[[AgentId, SessionId, Sequence[Entry]], None]

    async def head(self, key: tuple[AgentId, SessionId]) -> TurnId | None:
        """The turn that is first in a session."""
        agent, session = key
        turns = await self.runtimes[agent].store.read(lambda tx: tx.turns.open_of(session, 1))
        return turns[0].id if turns else None

    async def end(self, key: tuple[AgentId, SessionId], error: Exception) -> None:
        """Fail the turn that is first in a session."""
        agent, session = key
        reason = WENT_WRONG.format(error=type(error).__name__)
        unit = give_up_turn(session, reason, self.clock.now(), self.outcomes.write)
        ended = await self.runtimes[agent].store.write(unit)
        self.warm.take(session)
        if ended is not None:
            turn, new = ended
            self.committed(agent, session, new)
            for entry in new:
                self.feeds.open(turn.id).publish(entry)
            self.feeds.end(turn.id)
            self.outcomes.ring(turn)


def give_up_turn(
    session: SessionId, reason: str, now: datetime, conclude: Callable[[Tx, Turn, Sequence[Entry]], None]
) -> Callable[[Tx], tuple[Turn, tuple[Entry, ...]] | None]:
    """A unit that fails the oldest turn of a session whose actor breaks each time, without its actor."""

    def give_up(tx: Tx) -> tuple[Turn, tuple[Entry, ...]] | None:
        turns = tx.turns.open_of(session, 1)
        if not turns:
            return None
        failed = replace(turns[0], state=TurnState.FAILED, attempt=turns[0].attempt + 1)
        told = tx.journal.of_turn(failed.id)
        last = tx.journal.read(session, most=1, newest=True)
        new = number(last, failed.id, [*cut_off(view_turn(told, failed.id), ""), Failed(reason=reason)], now)
        tx.turns.save(failed, attempt=turns[0].attempt)
        tx.journal.append(session, new)
        conclude(tx, failed, [*told, *new])
        return failed, new

    return give_up
