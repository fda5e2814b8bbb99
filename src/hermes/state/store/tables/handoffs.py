"""Hand-offs as rows. Every step is conditional on the one before, so of two carriers one is too late."""

from __future__ import annotations

from hermes.domain.errors import Lost
from hermes.domain.handoff import Handoff
from hermes.domain.ids import SessionId
from hermes.state.store.codec import encode, stamp
from hermes.state.store.columns import BodyColumn
from hermes.state.store.db import ScopedTable

_HANDOFFS = BodyColumn(Handoff, "handoffs")
_OPEN = "state IN ('pending', 'running')"


class HandoffsTable(ScopedTable):
    def add(self, handoff: Handoff) -> bool:
        if handoff.agent != self._agent:
            raise Lost(f"a hand-off of agent {handoff.agent} in the store of {self._agent}")
        sql = (
            "INSERT INTO handoffs (id, agent, session, state, attempts, created_at, body)"
            " SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7 WHERE NOT EXISTS"
            f" (SELECT 1 FROM handoffs WHERE session = ?3 AND {_OPEN})"
        )
        values = (handoff.id, self._agent, handoff.session, handoff.state.value, handoff.attempts)
        return self._db.run(sql, *values, stamp(handoff.created_at), encode(handoff)) > 0

    def get(self, handoff: str) -> Handoff | None:
        return _HANDOFFS.one(self._db, "WHERE id = ? AND agent = ?", handoff, self._agent)

    def change(self, was: Handoff, now: Handoff) -> bool:
        # One that becomes open again may not come beside another of its session.
        sql = (
            "UPDATE handoffs SET state = ?1, attempts = ?2, body = ?3"
            " WHERE id = ?4 AND agent = ?5 AND state = ?6 AND attempts = ?7 AND NOT EXISTS"
            f" (SELECT 1 FROM handoffs h WHERE h.session = handoffs.session AND h.id != ?4 AND h.{_OPEN})"
        )
        before = (was.id, self._agent, was.state.value, was.attempts)
        return self._db.run(sql, now.state.value, now.attempts, encode(now), *before) > 0

    def open(self) -> list[Handoff]:
        rest = f"WHERE agent = ? AND {_OPEN} ORDER BY created_at, id"
        return _HANDOFFS.all(self._db, rest, self._agent)

    def latest(self, session: SessionId | None, limit: int) -> list[Handoff]:
        rest = "WHERE agent = ?1 AND (?2 IS NULL OR session = ?2) ORDER BY created_at DESC, id DESC LIMIT ?3"
        return _HANDOFFS.all(self._db, rest, self._agent, session, limit)
