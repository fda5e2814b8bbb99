"""What the tools of a session left behind, as texts by kind; gone with the session."""

from __future__ import annotations

from collections.abc import Iterable

from hermes.domain.text import storable
from hermes.state.store.table import ScopedTable


class TracesTable(ScopedTable):
    def of(self, session: str) -> list[tuple[str, str]]:
        sql = "SELECT kind, text FROM session_traces WHERE session = ? AND agent = ?"
        return [(row[0], row[1]) for row in self._db.all(sql, session, self._agent)]

    def add(self, session: str, kind: str, texts: Iterable[str]) -> None:
        for text in texts:
            sql = "INSERT OR IGNORE INTO session_traces VALUES (?, ?, ?, ?)"
            self._db.run(sql, session, kind, storable(text), self._agent)

    def put(self, session: str, kind: str, text: str) -> None:
        sql = "DELETE FROM session_traces WHERE session = ? AND kind = ? AND agent = ?"
        self._db.run(sql, session, kind, self._agent)
        self.add(session, kind, (text,))
