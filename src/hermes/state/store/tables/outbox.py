"""The outbox: everything that is to be sent, was sent, or hangs in the air. Rows of a chat keep order."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Body
from hermes.domain.chats.rows import OutboxRow, OutState
from hermes.domain.errors import Refused, UserError
from hermes.domain.ids import TurnId
from hermes.state.store.codec import encode, stamp
from hermes.state.store.table import Columns, TableFamily

MESSAGE = Columns(OutboxRow, "outbox", to="lane")
_CHANGED = ("state", "attempts", "transfers", "next_at", "receipt", "error")
_CHANGES = MESSAGE.assignments(*_CHANGED)
_OPEN = "draft = 0 AND state IN ('due', 'attempting', 'unknown')"
_SENDABLE = "WHERE key = ? AND draft = 0 AND state IN ('due', 'unknown', 'dead')"


class OutboxTable(TableFamily):
    def add(self, row: OutboxRow) -> None:
        lane = str(row.to)
        if not _readable(lane, row.to):
            raise Refused(f"“{lane}” is not a place one can write to")
        # The number of a row is the table's to give.
        MESSAGE.insert(self._db, row, n=None, account=row.to.credential)

    def save(self, row: OutboxRow) -> None:
        changes = MESSAGE.values(row, *_CHANGED)
        self._db.run(f"UPDATE outbox SET {_CHANGES} WHERE key = ?", *changes, row.key)
        if row.body.fleeting and not row.state.open:
            self._db.run("UPDATE outbox SET body = ? WHERE key = ?", encode(Body(fleeting=True)), row.key)

    def head(self, to: Address) -> OutboxRow | None:
        return MESSAGE.one(self._db, f"WHERE lane = ? AND {_OPEN} ORDER BY n LIMIT 1", str(to))

    def of_turn(self, turn: TurnId) -> list[OutboxRow]:
        return MESSAGE.all(self._db, "WHERE turn = ? ORDER BY n", turn)

    def waiting(self, account: str, after: int, limit: int) -> list[tuple[int, Address]]:
        sql = f"SELECT n, lane FROM outbox WHERE account = ? AND {_OPEN} AND n > ? ORDER BY n LIMIT ?"
        rows = self._db.all(sql, account, after, limit)
        return [(n, Address.parse(lane)) for n, lane in rows]

    def get(self, key: str) -> OutboxRow | None:
        return MESSAGE.one(self._db, "WHERE key = ?", key)

    def begun(self, prefix: str) -> list[OutboxRow]:
        return MESSAGE.all(self._db, "WHERE key >= ?1 AND key < ?1 || char(1114111) ORDER BY n", prefix)

    def find(self, states: Collection[OutState], limit: int = 100) -> list[OutboxRow]:
        wanted = ", ".join("?" for _ in states)
        rest = f"WHERE draft = 0 AND state IN ({wanted}) ORDER BY n LIMIT ?"
        return MESSAGE.all(self._db, rest, *(state.value for state in states), limit)

    def retry(self, key: str, at: datetime) -> bool:
        # Nobody knows any more whether one of the earlier attempts came through: what was tried is in doubt.
        changes = "state = iif(attempts > 0, 'unknown', 'due'), next_at = NULL, created_at = ?, error = ''"
        changes += ", attempts = min(attempts, 1), transfers = 0"
        return self._db.run(f"UPDATE outbox SET {changes} {_SENDABLE}", stamp(at), key) > 0

    def drop(self, key: str, why: str) -> bool:
        changes = "state = 'gone', next_at = NULL, error = ?"
        return self._db.run(f"UPDATE outbox SET {changes} {_SENDABLE}", why, key) > 0


def _readable(lane: str, to: Address) -> bool:
    """Lanes are stored as printed addresses: one that cannot be read back would block all behind it."""
    try:
        return Address.parse(lane) == to
    except UserError:
        return False
