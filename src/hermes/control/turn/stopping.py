"""Stopping turns: asking one to stop, and the records that close one that is cut off or given up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from hermes.domain.ids import SessionId, TurnId
from hermes.domain.ports.store import Tx
from hermes.domain.tools.tool import Effect
from hermes.domain.turns.event import Entry, Failed, ModelSaid, Record, Stopped, ToolFinished
from hermes.domain.turns.transcript import TurnView, number_records, view_turn
from hermes.domain.turns.turn import Turn, TurnState
from hermes.domain.word import replace

Conclude = Callable[[Tx, Turn, Sequence[Entry]], None]
"""Writes what the end of a turn brings with it, in the same commit."""
CloseTurns = Callable[[Tx], list[tuple[Turn, tuple[Entry, ...]]]]
"""A unit that ends turns, and tells which, with their new records."""
UNKNOWN_OUTCOME = "Interrupted while it ran: its outcome is unknown and it was not repeated."
NOT_RUN = "Not run: the turn was stopped first."
UNREADABLE = "What was stored of this message could not be read any more. Send it again if it still matters."


def cut_off(view: TurnView, heard: ModelSaid | None) -> list[Record]:
    """What must be written so that a turn that is cut off reads as a whole: the words that were heard,
    and a result for every call."""
    records: list[Record] = []
    if heard is not None:
        records.append(heard)
    for state in view.open_calls:
        started = state.started
        unknown = started is not None and started.effect is Effect.ONCE
        records.append(
            ToolFinished(
                call=state.call.id,
                text=f"{UNKNOWN_OUTCOME}{state.made_inside}" if unknown else NOT_RUN,
                failed=True,
                unknown=unknown,
            )
        )
    return records


def ask_to_stop(tx: Tx, turns: Sequence[Turn], reason: str) -> None:
    """Mark unfinished turns; their actor stops them. One that waits for an answer has to run for that."""
    for turn in turns:
        state = TurnState.RUNNING if turn.state is TurnState.WAITING else turn.state
        tx.turns.save(replace(turn, stop=reason, state=state), attempt=turn.attempt)


def stop_turn(tx: Tx, wanted: TurnId, reason: str) -> Turn | None:
    """Ask a turn to stop; None if it had ended already."""
    turn = tx.turns.get(wanted)
    if turn is None or not turn.state.open:
        return None
    ask_to_stop(tx, [turn], reason)
    return turn


def stop_session(tx: Tx, session: SessionId, reason: str) -> list[Turn]:
    turns = tx.turns.open_of(session)
    ask_to_stop(tx, turns, reason)
    return turns


def close_turn(
    tx: Tx, turn: Turn, end: Failed | Stopped, now: datetime, conclude: Conclude
) -> tuple[Turn, tuple[Entry, ...]]:
    """End a turn without its actor. What can be read of it is kept."""
    state = TurnState.FAILED if isinstance(end, Failed) else TurnState.STOPPED
    closed = replace(turn, state=state, attempt=turn.attempt + 1)
    entries = tx.journal.of_turn(closed.id)
    last = tx.journal.read(turn.session, most=1, newest=True)
    new = number_records(last, closed.id, [*cut_off(view_turn(entries, closed.id), None), end], now)
    tx.turns.save(closed, attempt=turn.attempt, since=(*entries, *new)[0].seq)
    tx.journal.append(turn.session, new)
    conclude(tx, closed, [*entries, *new])
    return closed, new


def refuse_turns(session: SessionId, reason: str, now: datetime, conclude: Conclude) -> CloseTurns:
    """A unit that fails what a session has to do, as its agent cannot; what waits for an answer does so."""

    def refuse(tx: Tx) -> list[tuple[Turn, tuple[Entry, ...]]]:
        due = [turn for turn in tx.turns.open_of(session) if turn.state is not TurnState.WAITING]
        ends = [Failed(reason=reason) if turn.stop is None else Stopped(reason=turn.stop) for turn in due]
        return [close_turn(tx, turn, end, now, conclude) for turn, end in zip(due, ends, strict=True)]

    return refuse


def give_up_turns(session: SessionId, reason: str, now: datetime, conclude: Conclude) -> CloseTurns:
    """A unit that fails the turns of a session that cannot be read; if there are none, and a reason is given,
    the oldest one, over which its actor breaks each time. What can be read of a turn is kept."""

    def fail(tx: Tx, turn: Turn, why: str) -> tuple[Turn, tuple[Entry, ...]]:
        return close_turn(tx, turn, Failed(reason=why), now, conclude)

    def give_up(tx: Tx) -> list[tuple[Turn, tuple[Entry, ...]]]:
        repaired = [
            turn for ident in tx.turns.mend(session, now) if (turn := tx.turns.get(ident)) is not None
        ]
        if repaired or not reason:
            return [fail(tx, turn, UNREADABLE) for turn in repaired]
        return [fail(tx, turn, reason) for turn in tx.turns.open_of(session, 1)]

    return give_up
