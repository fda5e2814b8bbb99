"""The inbox: what platforms delivered, each delivery once, and the cursor up to which we have read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from hermes.domain.chats.message import Inbound
from hermes.domain.chats.rows import InboxRow, UnreadableRow
from hermes.domain.errors import Lost, Refused
from hermes.domain.ids import TurnId
from hermes.domain.text import storable
from hermes.state.store.codec import encode, stamp
from hermes.state.store.table import Columns, Row, TableFamily

_ROW = Columns(InboxRow, "inbox", inbound="body")
_ADD = """INSERT INTO inbox (account, delivery, ref, body, accepted_at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING"""
# By one index each, since every message is looked up so; deliveries have theirs within their accounts.
_FOUND = """WHERE n IN (
  WITH RECURSIVE accounts (name) AS (
    SELECT min(account) FROM inbox
    UNION ALL SELECT (SELECT min(account) FROM inbox WHERE account > name) FROM accounts
      WHERE name IS NOT NULL)
  SELECT n FROM inbox WHERE ref = ?1
  UNION SELECT n FROM inbox WHERE turn = ?1
  UNION SELECT n FROM accounts JOIN inbox ON account = name AND delivery = ?1)
ORDER BY n DESC LIMIT ?2"""


def _read(row: Row) -> InboxRow:
    try:
        return _ROW.read(row)
    except Refused as error:
        raise UnreadableRow(str(error), n=row[0]) from error


class InboxTable(TableFamily):
    def add(self, account: str, items: Sequence[Inbound], cursor: str | None, at: datetime) -> int:
        new = 0
        moment = stamp(at)
        for item in items:
            new += self._db.run(_ADD, account, item.delivery, item.ref, encode(item), moment)
        if cursor is not None:
            sql = """INSERT INTO cursors VALUES (?, ?, ?)
                ON CONFLICT (account) DO UPDATE SET cursor = excluded.cursor, at = excluded.at"""
            self._db.run(sql, account, cursor, moment)
        return new

    def pending(self, after: int, limit: int) -> list[InboxRow]:
        sql = f"SELECT {_ROW.names} FROM inbox WHERE outcome IS NULL AND n > ? ORDER BY n LIMIT ?"
        return [_read(row) for row in self._db.all(sql, after, limit)]

    def finish(self, n: int, outcome: str, turn: TurnId | None = None) -> None:
        changed = self._db.run(
            "UPDATE inbox SET outcome = ?, turn = ? WHERE n = ? AND outcome IS NULL", outcome, turn, n
        )
        if not changed:
            raise Lost(f"inbox row {n} was ended already")

    def cursor(self, account: str) -> str | None:
        cursor: str | None = self._db.value("SELECT cursor FROM cursors WHERE account = ?", account)
        return cursor

    def find(self, text: str, limit: int = 20) -> list[InboxRow]:
        return _ROW.all(self._db, _FOUND, storable(text), limit)
