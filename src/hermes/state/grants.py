"""Actions that somebody allowed for good."""

from __future__ import annotations

from hermes.domain.grants import Grant
from hermes.domain.ids import AgentId
from hermes.domain.text import storable
from hermes.state.codec import stamp, unstamp
from hermes.state.db import Db, Row

_COLUMNS = "agent, person, digest, id, text, by, at"


class GrantsTable:
    def __init__(self, db: Db, agent: AgentId) -> None:
        self._db = db
        self._agent = agent

    def add(self, grant: Grant) -> None:
        self._db.run(
            f"INSERT OR IGNORE INTO grants ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",
            self._agent,
            grant.person,
            grant.digest,
            grant.id,
            storable(grant.text),
            grant.by,
            stamp(grant.at),
        )

    def list(self, person: str | None = None) -> list[Grant]:
        meant, values = ("", ()) if person is None else (" AND person = ?", (person,))
        rows = self._db.all(
            f"SELECT {_COLUMNS} FROM grants WHERE agent = ?{meant} ORDER BY at, id", self._agent, *values
        )
        return [_grant(row) for row in rows]

    def revoke(self, grant: str) -> bool:
        return bool(self._db.run("DELETE FROM grants WHERE agent = ? AND id = ?", self._agent, grant))


def _grant(row: Row) -> Grant:
    agent, person, digest, ident, text, by, at = row
    return Grant(
        id=ident, agent=AgentId(agent), person=person, digest=digest, text=text, by=by, at=unstamp(at)
    )
