"""The outbox: everything that is to be sent, was sent, or hangs in the air. Rows of a chat keep order."""

from __future__ import annotations

from hermes.domain.address import Address
from hermes.domain.errors import Refused, UserError
from hermes.domain.ids import TurnId
from hermes.domain.message import Body
from hermes.domain.rows import OutboxRow
from hermes.state.store.codec import encode
from hermes.state.store.columns import Columns
from hermes.state.store.db import TableFamily

MESSAGE = Columns(OutboxRow, "outbox", to="lane")
_CHANGED = ("state", "attempts", "next_at", "receipt", "error")
_CHANGES = MESSAGE.settings(*_CHANGED)
_OPEN = "draft = 0 AND state IN ('due', 'attempting', 'unknown')"


class OutboxTable(TableFamily):
    def add(self, row: OutboxRow) -> None:
        lane = str(row.to)
        if not _readable(lane, row.to):
            raise Refused(f"“{lane}” is not a place one can write to")
        # The number of a row is the table's to give.
        self._db.run(
            f"INSERT INTO outbox ({MESSAGE.names}, account) VALUES ({MESSAGE.marks}, ?)",
            *MESSAGE.values(row, n=None),
            row.to.credential,
        )

    def save(self, row: OutboxRow) -> None:
        self._db.run(
            f"UPDATE outbox SET {_CHANGES} WHERE key = ?",
            *MESSAGE.values(row, *_CHANGED),
            row.key,
        )
        if row.body.fleeting and not row.state.open:
            self._db.run("UPDATE outbox SET body = ? WHERE key = ?", encode(Body(fleeting=True)), row.key)

    def head(self, to: Address) -> OutboxRow | None:
        return MESSAGE.one(self._db, f"WHERE lane = ? AND {_OPEN} ORDER BY n LIMIT 1", str(to))

    def of_turn(self, turn: TurnId) -> list[OutboxRow]:
        return MESSAGE.all(self._db, "WHERE turn = ? ORDER BY n", turn)

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
