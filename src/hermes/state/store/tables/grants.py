"""Actions that somebody allowed for good."""

from __future__ import annotations

from hermes.domain.text import storable
from hermes.domain.tool import Grant
from hermes.state.store.columns import Columns
from hermes.state.store.db import ScopedTable

_GRANT = Columns(Grant, "grants")


class GrantsTable(ScopedTable):
    def add(self, grant: Grant) -> None:
        self._db.run(
            f"INSERT OR IGNORE INTO grants ({_GRANT.names}) VALUES ({_GRANT.marks})",
            *_GRANT.values(grant, agent=self._agent, text=storable(grant.text)),
        )

    def list(self, person: str | None = None) -> list[Grant]:
        rest = "WHERE agent = ?1 AND (?2 IS NULL OR person = ?2) ORDER BY at, id"
        return _GRANT.all(self._db, rest, self._agent, person)

    def revoke(self, grant: str) -> bool:
        return bool(self._db.run("DELETE FROM grants WHERE agent = ? AND id = ?", self._agent, grant))
