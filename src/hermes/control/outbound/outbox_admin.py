"""What an operator does with the outbox: list what waits or was given up, retry it, drop it.

Each function is one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from hermes.domain.chats.address import Address
from hermes.domain.chats.rows import OutboxRow, OutState
from hermes.domain.errors import UserError
from hermes.domain.ports.store import Tx
from hermes.domain.text import one_line
from hermes.domain.word import replace

UNSETTLED = (OutState.DUE, OutState.ATTEMPTING, OutState.UNKNOWN, OutState.DEAD)
DROPPED = "dropped by the operator"
_MOST = 10_000


def list_outbox(tx: Tx, limit: int) -> list[OutboxRow]:
    return tx.outbox.find(UNSETTLED, limit)


def retry_messages(
    tx: Tx, wanted: Sequence[str], now: datetime, sends: Callable[[Address], bool]
) -> list[OutboxRow]:
    """Send these again, or all that were given up if none is named. `sends`: somebody sends there now."""
    return _change(tx, wanted, lambda key: tx.outbox.retry(key, now), sends)


def drop_messages(tx: Tx, wanted: Sequence[str], sends: Callable[[Address], bool]) -> list[OutboxRow]:
    """Give these up, or all that were given up already if none is named. `sends` as above."""
    return _change(tx, wanted, lambda key: tx.outbox.drop(key, DROPPED), sends)


def _change(
    tx: Tx, wanted: Sequence[str], change: Callable[[str], bool], sends: Callable[[Address], bool]
) -> list[OutboxRow]:
    rows = [_find(tx, key) for key in wanted] if wanted else tx.outbox.find((OutState.DEAD,), _MOST)
    for row in rows:
        if row.state is OutState.ATTEMPTING and not sends(row.to):
            # An earlier life began the attempt, and this one has nobody who would end it.
            tx.outbox.save(replace(row, state=OutState.UNKNOWN))
        if not change(row.key):
            raise UserError(
                f"The message {row.key} is being sent at this moment.", hint="Look again: hermes outbox list"
            )
    return rows


def _find(tx: Tx, key: str) -> OutboxRow:
    """By its key or a beginning that no other unsettled message has."""
    exact = tx.outbox.get(key)
    begun = tx.outbox.begun(key) if key else []
    found = [exact] if exact is not None else begun
    open_ones = [row for row in found if not row.draft and row.state in UNSETTLED]
    if len(open_ones) == 1:
        return open_ones[0]
    shown = one_line(key, 80)
    if open_ones:
        raise UserError(f"“{shown}” fits {len(open_ones)} messages.", hint="Write more of the key.")
    if found:
        raise UserError(f"The message “{shown}” is settled: {found[0].state.value}.", hint="Nothing changed.")
    raise UserError(f"There is no message “{shown}”.", hint="`hermes outbox list` shows them.")
