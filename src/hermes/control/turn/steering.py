"""Words for the turn that runs: they join it after the next record that leaves no call open.

They are words like any other, so whoever gates turns is asked about them first. What is not allowed never
joins, and its author is told at once; a crash before that is stored has the hooks asked again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from hermes.control.hooks.dispatch import Hooks
from hermes.control.turn.claim import said_in
from hermes.control.turn.gates import rule_turn
from hermes.control.turn.prepared import take_prepared
from hermes.domain.ids import TurnId
from hermes.domain.ports.store import Store, Tx
from hermes.domain.system.hooks import GATE_TURN
from hermes.domain.turns.busy import joins
from hermes.domain.turns.event import Entry, Failed, Record
from hermes.domain.turns.transcript import number_records
from hermes.domain.turns.turn import REFUSED, BusyMode, Turn, TurnAction, TurnState
from hermes.domain.word import replace

Rulings = Mapping[tuple[TurnId, str], str]
"""Why a turn with this text may not be heard; an empty reason is consent."""


class SteeringResult(Struct, frozen=True, kw_only=True):
    """What joined a turn: its records, and the turns they were. `refused` may not join; `later` says that
    others are not ready yet."""

    new: tuple[Entry, ...] = ()
    turns: tuple[TurnId, ...] = ()
    refused: tuple[Turn, ...] = ()
    later: bool = False


async def rule_steering(hooks: Hooks, store: Store, into: Turn) -> Rulings | None:
    """What hooks say to the words that wait to join; None where nobody wants to be asked."""
    if GATE_TURN not in hooks.followed:
        return None
    waiting = await store.read(lambda tx: _steering(tx, into))
    return {
        (turn.id, turn.input.text): await rule_turn(hooks, turn) if turn.input.action.calls_model else ""
        for turn in waiting
    }


class AbsorbSteering(Struct, frozen=True, kw_only=True):
    """The unit that takes the words of waiting `steer` turns into the running one. Words that came, or were
    changed, after hooks were asked wait for the next time."""

    into: Turn
    transcript: Sequence[Entry]
    now: datetime
    conclude: Callable[[Tx, Turn, Sequence[Entry]], None]
    rulings: Rulings | None = None

    def unit(self, tx: Tx) -> SteeringResult:
        joining: list[Turn] = []
        refused: list[Turn] = []
        waiting = _steering(tx, self.into)
        for turn in waiting:
            denied = "" if self.rulings is None else self.rulings.get((turn.id, turn.input.text))
            if denied is None or (turn.ready_at is not None and turn.ready_at > self.now):
                continue
            (refused if denied else joining).append(turn)
            if denied:
                self._refuse(tx, turn, denied)
        new = self._join(tx, joining) if joining else ()
        return SteeringResult(
            new=new,
            turns=tuple(turn.id for turn in joining),
            refused=tuple(refused),
            later=len(waiting) > len(joining) + len(refused),
        )

    def _join(self, tx: Tx, joining: Sequence[Turn]) -> tuple[Entry, ...]:
        into = self.into
        said = [record for turn in joining for record in self._records(tx, turn)]
        new = number_records(self.transcript, into.id, said, self.now)
        tx.turns.advance(into.id, attempt=into.attempt, records=len(new), state=TurnState.RUNNING)
        tx.journal.append(into.session, new)
        for turn in joining:
            done = replace(turn, state=TurnState.DONE, absorbed_by=into.id)
            tx.turns.save(done, attempt=turn.attempt)
        return new

    def _records(self, tx: Tx, turn: Turn) -> Sequence[Record]:
        if turn.input.action is TurnAction.SUMMARISE:
            return take_prepared(tx, turn.session, self.transcript, self.now)
        return (said_in(turn, steering=True),)

    def _refuse(self, tx: Tx, turn: Turn, reason: str) -> None:
        """A chat is told now, and nothing is left of the turn but its end. Who watches it hears of it there:
        it is asked about once more when its time comes."""
        if turn.reply is None:
            tx.turns.save(replace(turn, busy=BusyMode.QUEUE), attempt=turn.attempt)
            return
        told = Entry(seq=1, turn=turn.id, at=self.now, record=Failed(reason=reason))
        self.conclude(tx, turn, [told])
        tx.turns.save(replace(turn, stop=REFUSED), attempt=turn.attempt)


def _steering(tx: Tx, into: Turn) -> list[Turn]:
    return [turn for turn in tx.turns.open_of(into.session)[1:] if joins(turn, into)]
