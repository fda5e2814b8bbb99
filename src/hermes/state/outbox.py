"""The outbox: everything that is to be sent, was sent, or hangs in the air. Rows of a chat keep order."""

from __future__ import annotations

from hermes.domain.address import Address
from hermes.domain.errors import Refused, UserError
from hermes.domain.ids import TurnId
from hermes.domain.message import Body, Receipt
from hermes.domain.rows import OutboxRow, OutState
from hermes.state.codec import decode, encode, stamp, stamp_or_none, unstamp, unstamp_or_none
from hermes.state.db import Db, Row

COLUMNS = (
    "n, key, lane, turn, part, draft, body, reply_to, state, attempts, next_at, receipt, error, created_at"
)
_OPEN = "draft = 0 AND state IN ('due', 'attempting', 'unknown')"


class OutboxTable:
    def __init__(self, db: Db) -> None:
        self._db = db

    def add(self, row: OutboxRow) -> None:
        lane = str(row.to)
        if not _readable(lane, row.to):
            raise Refused(f"“{lane}” is not a place one can write to")
        self._db.run(
            "INSERT INTO outbox (key, lane, account, turn, part, draft, body, reply_to, state, attempts,"
            " next_at, receipt, error, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            row.key,
            lane,
            row.to.credential,
            row.turn,
            row.part,
            int(row.draft),
            encode(row.body),
            row.reply_to,
            row.state.value,
            row.attempts,
            stamp_or_none(row.next_at),
            None if row.receipt is None else encode(row.receipt),
            row.error,
            stamp(row.created_at),
        )

    def save(self, row: OutboxRow) -> None:
        self._db.run(
            "UPDATE outbox SET state = ?, attempts = ?, next_at = ?, receipt = ?, error = ? WHERE key = ?",
            row.state.value,
            row.attempts,
            stamp_or_none(row.next_at),
            None if row.receipt is None else encode(row.receipt),
            row.error,
            row.key,
        )
        if row.body.fleeting and not row.state.open:
            self._db.run("UPDATE outbox SET body = ? WHERE key = ?", encode(Body(fleeting=True)), row.key)

    def head(self, to: Address) -> OutboxRow | None:
        row = self._db.one(
            f"SELECT {COLUMNS} FROM outbox WHERE lane = ? AND {_OPEN} ORDER BY n LIMIT 1", str(to)
        )
        return None if row is None else outbox_row(row)

    def of_turn(self, turn: TurnId) -> list[OutboxRow]:
        rows = self._db.all(f"SELECT {COLUMNS} FROM outbox WHERE turn = ? ORDER BY n", turn)
        return [outbox_row(row) for row in rows]

    def waiting(self, account: str, after: int, limit: int) -> list[tuple[int, Address]]:
        rows = self._db.all(
            f"SELECT n, lane FROM outbox WHERE account = ? AND {_OPEN} AND n > ? ORDER BY n LIMIT ?",
            account,
            after,
            limit,
        )
        return [(n, Address.parse(lane)) for n, lane in rows]


def _readable(lane: str, to: Address) -> bool:
    """Lanes are stored as printed addresses: one that cannot be read back would block all behind it."""
    try:
        return Address.parse(lane) == to
    except UserError:
        return False


def outbox_row(row: Row) -> OutboxRow:
    (
        n, key, lane, turn, part, draft, body, reply_to, state, attempts, next_at, receipt, error, created_at,
    ) = row  # fmt: skip
    return OutboxRow(
        n=n,
        key=key,
        to=Address.parse(lane),
        turn=None if turn is None else TurnId(turn),
        part=part,
        draft=bool(draft),
        body=decode(Body, body),
        reply_to=reply_to,
        state=OutState(state),
        attempts=attempts,
        next_at=unstamp_or_none(next_at),
        receipt=None if receipt is None else decode(Receipt, receipt),
        error=error,
        created_at=unstamp(created_at),
    )
