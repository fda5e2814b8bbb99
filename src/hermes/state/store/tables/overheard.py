"""What is said in shared chats and not to us: the latest of each place, and how far each session has been
told of it. A session hears only of the place it is asked from."""

from __future__ import annotations

from datetime import datetime

from hermes.domain.address import Address
from hermes.domain.ids import SessionId
from hermes.domain.message import Body, Receipt
from hermes.domain.rows import OverheardMessage
from hermes.state.store.codec import decode, encode, stamp
from hermes.state.store.db import ScopedTable

_LOOKED_THROUGH = 200


class OverheardTable(ScopedTable):
    def keep(self, to: Address, message: OverheardMessage, most: int) -> None:
        place = str(to)
        sql = "INSERT INTO overheard (agent, place, body, at) VALUES (?, ?, ?, ?)"
        self._db.run(sql, self._agent, place, encode(message), stamp(message.at))
        sql = (
            "DELETE FROM overheard WHERE agent = ?1 AND place = ?2 AND n <= coalesce((SELECT n FROM overheard"
            " WHERE agent = ?1 AND place = ?2 ORDER BY n DESC LIMIT 1 OFFSET ?3), -1)"
        )
        self._db.run(sql, self._agent, place, most)

    def take(self, session: SessionId, to: Address, since: datetime | None = None) -> list[OverheardMessage]:
        place = str(to)
        told = self._db.value("SELECT n FROM told WHERE session = ? AND place = ?", session, place)
        rows = self._db.all(
            "SELECT n, body FROM overheard WHERE agent = ? AND place = ? AND n > ? AND at >= ? ORDER BY n",
            self._agent,
            place,
            -1 if told is None else told,
            0.0 if told is not None or since is None else stamp(since),
        )
        latest = "SELECT max(n) FROM overheard WHERE agent = ? AND place = ?"
        last = self._db.value(latest, self._agent, place)
        if last is not None and (told is None or last > told):
            self._db.run("INSERT OR REPLACE INTO told VALUES (?, ?, ?, ?)", self._agent, session, place, last)
        return [decode(OverheardMessage, body) for _, body in rows]

    def forget(self, to: Address, ref: str) -> None:
        place = str(to)
        rows = self._db.all("SELECT n, body FROM overheard WHERE agent = ? AND place = ?", self._agent, place)
        for n, body in rows:
            if decode(OverheardMessage, body).ref == ref:
                self._db.run("DELETE FROM overheard WHERE n = ?", n)

    def sent(self, to: Address, ref: str) -> str | None:
        rows = self._db.all(
            "SELECT receipt, body FROM outbox WHERE lane = ? AND receipt IS NOT NULL AND draft = 0"
            " ORDER BY n DESC LIMIT ?",
            str(to),
            _LOOKED_THROUGH,
        )
        for receipt, body in rows:
            if decode(Receipt, receipt).ref == ref:
                return decode(Body, body).text
        return None
