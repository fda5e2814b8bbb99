"""What was prepared in the background to shorten a session: it is added by the session's own actor, once, and
only if what it tells of is still there as it was."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from hermes.domain.ids import SessionId, TurnId
from hermes.domain.models.model_facts import ModelRole
from hermes.domain.models.usage import AuxiliaryCall, Usage
from hermes.domain.ports.store import Tx
from hermes.domain.turns.event import Cleared, Entry, Summarised, Undone
from hermes.domain.turns.transcript import MARKS


def take_prepared(
    tx: Tx, session: SessionId, transcript: Sequence[Entry], now: datetime
) -> tuple[Summarised | Cleared, ...]:
    """The record to add, if it still fits; either way it is not there any more after this."""
    pending = tx.compressions.get(session)
    if pending is None or pending.made is None:
        return ()
    tx.compressions.remove(session)
    upto = pending.made.upto
    later = [entry.record for entry in transcript if entry.seq > pending.base]
    changed = any(isinstance(mark, MARKS) and not _spares(mark, upto) for mark in later)
    if not changed:
        return (pending.made,)
    if isinstance(pending.made, Summarised):
        note_summary(tx, session, pending.made.usage, now)
    return ()


def note_summary(
    tx: Tx, session: SessionId, usage: Usage | None, now: datetime, turn: TurnId | None = None
) -> None:
    """Count what a summary took that no record tells of."""
    if usage is not None:
        call = AuxiliaryCall(
            session=session, role=ModelRole.SUMMARY, model=usage.model, usage=usage, at=now, turn=turn
        )
        tx.usage.note(call)


def _spares(mark: object, upto: int) -> bool:
    return isinstance(mark, Undone) and mark.since > upto
