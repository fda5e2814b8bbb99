"""Requests of clients that may ask again or come back: found by id, by their owner's key, by conversation."""

from __future__ import annotations

from hermes.domain.errors import Lost
from hermes.domain.turn import Request
from hermes.state.store.columns import Columns
from hermes.state.store.db import ScopedTable

_REQUEST = Columns(Request, "requests")


class RequestsTable(ScopedTable):
    def add(self, request: Request) -> None:
        there = "WHERE EXISTS (SELECT 1 FROM turns WHERE id = ?3 AND session = ?4 AND agent = ?10)"
        if not _REQUEST.insert(self._db, request, there, agent=self._agent):
            raise Lost(f"{request.turn} is gone")

    def get(self, request: str) -> Request | None:
        return self._one("id = ?", request)

    def find(self, owner: str, *, key: str | None = None, prefix: str = "", limit: int = 1) -> list[Request]:
        if key is not None:
            found = self._one("owner = ? AND key = ?", owner, key)
            return [] if found is None or not found.id.startswith(prefix) else [found]
        return _REQUEST.all(
            self._db,
            # By age: who asks for the latest of its requests has made some lately, so few rows are looked at.
            "INDEXED BY requests_age WHERE owner = ?1 AND agent = ?2 AND substr(id, 1, length(?3)) = ?3"
            " ORDER BY created_at DESC, rowid DESC LIMIT ?4",
            owner,
            self._agent,
            prefix,
            limit,
        )

    def latest(self, owner: str, conversation: str) -> Request | None:
        newest = "ORDER BY created_at DESC, rowid DESC"
        return self._one("owner = ? AND conversation = ?", owner, conversation, order=newest)

    def remove(self, request: str) -> None:
        self._db.run("DELETE FROM requests WHERE id = ? AND agent = ?", request, self._agent)

    def _one(self, where: str, *values: str, order: str = "") -> Request | None:
        return _REQUEST.one(self._db, f"WHERE {where} AND agent = ? {order} LIMIT 1", *values, self._agent)
