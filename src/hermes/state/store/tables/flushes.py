"""Sessions from which lasting things are to be noted, and up to which record that was done."""

from __future__ import annotations

from datetime import datetime

from hermes.domain.chats.rows import PendingFlush
from hermes.domain.ids import AgentId, SessionId
from hermes.state.store.codec import stamp
from hermes.state.store.table import ScopedTable

_READ = "SELECT n, agent, session, upto FROM flushes"


class FlushesTable(ScopedTable):
    def want(self, session: SessionId, at: datetime) -> None:
        sql = """INSERT INTO flushes (session, agent, wanted) SELECT ?1, ?2, ?3
            WHERE EXISTS (SELECT 1 FROM sessions WHERE id = ?1 AND agent = ?2)
            ON CONFLICT (session) DO UPDATE SET wanted = ifnull(wanted, excluded.wanted)"""
        self._db.run(sql, session, self._agent, stamp(at))

    def get(self, session: SessionId) -> PendingFlush | None:
        sql = f"{_READ} WHERE session = ? AND agent = ? AND wanted IS NOT NULL"
        row = self._db.one(sql, session, self._agent)
        return None if row is None else _pending(*row)

    def settle(self, session: SessionId, upto: int) -> None:
        sql = "UPDATE flushes SET wanted = NULL, upto = ? WHERE session = ? AND agent = ?"
        self._db.run(sql, upto, session, self._agent)

    def wanted(self, after: int, limit: int) -> list[PendingFlush]:
        rows = self._db.all(f"{_READ} WHERE n > ? AND wanted IS NOT NULL ORDER BY n LIMIT ?", after, limit)
        return [_pending(*row) for row in rows]


def _pending(n: int, agent: str, session: str, upto: int) -> PendingFlush:
    return PendingFlush(n=n, agent=AgentId(agent), session=SessionId(session), upto=upto)
