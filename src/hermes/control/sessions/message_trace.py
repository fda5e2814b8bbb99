"""Where is my message: its way through inbox, turn, records and outbox, as lines for a person."""

from __future__ import annotations

from collections.abc import Callable

from hermes.domain.address import Source
from hermes.domain.event import Entry, ModelSaid, ToolFinished, ToolStarted, UserSaid
from hermes.domain.ids import SessionId, TurnId
from hermes.domain.ports.store import Tx
from hermes.domain.text import one_line

_LOOKED_AT = 200
"""Messages of other chats can have the same id."""
_SHOWN = 20

Sees = Callable[[Source | None, SessionId | None], bool]
"""Whether somebody may see what came from there, or became a turn of this session."""


def trace_message(tx: Tx, wanted: str, sees: Sees = lambda source, session: True) -> list[str]:
    """By the platform's message id, the delivery id, or a turn's id. Empty if nothing is known of it, or if
    it is nothing for who asks."""
    lines: list[str] = []
    turns: list[TurnId] = []
    rows = [row for row in tx.inbox.find(wanted, _LOOKED_AT) if sees(row.inbound.source, None)]
    for row in rows[:_SHOWN]:
        outcome = row.outcome or "waiting"
        lines.append(f"inbox   {row.accepted_at:%H:%M:%S}  {row.account} {row.inbound.delivery}: {outcome}")
        if row.turn is not None and row.turn not in turns:
            turns.append(row.turn)
    named = None if turns else tx.turns.get(TurnId(wanted))
    if named is not None and sees(named.source, named.session):
        turns = [named.id]
    for turn in turns:
        lines += _trace_turn(tx, turn)
    return lines


def _trace_turn(tx: Tx, turn_id: TurnId) -> list[str]:
    turn = tx.turns.get(turn_id)
    if turn is None:
        return []
    joined = f", joined {turn.absorbed_by}" if turn.absorbed_by else ""
    lines = [
        f"turn    {turn.created_at:%H:%M:%S}  {turn.id} in {turn.session}: {turn.state.value}"
        f" (start {turn.attempt}{joined})"
    ]
    lines += [
        f"record  {entry.at:%H:%M:%S}  {entry.seq}. {_tell(entry)}" for entry in tx.journal.of_turn(turn_id)
    ]
    for question in tx.questions.of_turn(turn_id):
        state = question.verdict.value if question.verdict else "open"
        lines.append(f"asked   {question.id}: {one_line(question.text, 50)} ({state})")
    for row in tx.outbox.of_turn(turn_id):
        what = "draft" if row.draft else f"part {row.part}"
        trouble = f" ({one_line(row.error, 60)})" if row.error else ""
        lines.append(
            f"outbox  {row.created_at:%H:%M:%S}  {what} to {row.to}: {row.state.value}"
            f", {row.attempts} attempt{'s' if row.attempts != 1 else ''}{trouble}"
        )
    return lines


def _tell(entry: Entry) -> str:
    record = entry.record
    match record:
        case UserSaid():
            return f"message, {len(record.text)} characters"
        case ModelSaid():
            calls = f", {len(record.calls)} tool calls" if record.calls else ""
            return f"reply, {len(record.text)} characters{calls}"
        case ToolStarted():
            return f"tool {record.name} started ({record.effect.value})"
        case ToolFinished():
            return (
                f"tool {'outcome unknown' if record.unknown else 'failed' if record.failed else 'finished'}"
            )
        case _:
            return type(record).__name__.lower()
