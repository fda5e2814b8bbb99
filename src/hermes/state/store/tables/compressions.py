"""Sessions that are to be compressed in the background, and what was prepared for them."""

from __future__ import annotations

from datetime import datetime
from typing import cast

from hermes.domain.chats.rows import PendingCompression
from hermes.domain.ids import AgentId, SessionId
from hermes.domain.turns.event import Cleared, Summarised
from hermes.state.store.codec import decode_record, encode_record, stamp, unstamp
from hermes.state.store.table import Row, ScopedTable

_READ = "SELECT n, agent, session, not_before, tries, base, kind, body FROM compressions"


class CompressionsTable(ScopedTable):
    def want(self, session: SessionId, at: datetime) -> None:
        sql = """INSERT INTO compressions (session, agent, not_before) SELECT ?1, ?2, ?3
            WHERE EXISTS (SELECT 1 FROM sessions WHERE id = ?1 AND agent = ?2) ON CONFLICT DO NOTHING"""
        self._db.run(sql, session, self._agent, stamp(at))

    def get(self, session: SessionId) -> PendingCompression | None:
        row = self._db.one(f"{_READ} WHERE session = ? AND agent = ?", session, self._agent)
        return None if row is None else _pending(row)

    def save(self, pending: PendingCompression) -> None:
        kind, body = (None, None) if pending.made is None else encode_record(pending.made)
        self._db.run(
            "UPDATE compressions SET not_before = ?, tries = ?, base = ?, kind = ?, body = ?"
            " WHERE session = ? AND agent = ?",
            stamp(pending.not_before),
            pending.tries,
            pending.base,
            kind,
            None if body is None else body.decode(),
            pending.session,
            self._agent,
        )

    def remove(self, session: SessionId) -> None:
        self._db.run("DELETE FROM compressions WHERE session = ? AND agent = ?", session, self._agent)

    def due(self, now: datetime, after: int, limit: int) -> list[PendingCompression]:
        rows = self._db.all(
            f"{_READ} WHERE n > ? AND not_before <= ? ORDER BY n LIMIT ?", after, stamp(now), limit
        )
        return list(map(_pending, rows))


def _pending(row: Row) -> PendingCompression:
    n, agent, session, not_before, tries, base, kind, body = row
    made = None if kind is None else cast(Summarised | Cleared, decode_record(kind, body))
    return PendingCompression(
        n=n,
        agent=AgentId(agent),
        session=SessionId(session),
        not_before=unstamp(not_before),
        tries=tries,
        base=base,
        made=made,
    )
