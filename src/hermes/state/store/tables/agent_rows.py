"""The rows of one agent in every table that has an `agent` column, for when it is renamed or removed."""

from __future__ import annotations

from hermes.domain.ids import AgentId
from hermes.domain.models.spending import renamed_key
from hermes.state.store.table import ScopedTable

_TABLES = """SELECT m.name FROM sqlite_master m JOIN pragma_table_info(m.name) c
    WHERE m.type = 'table' AND c.name = 'agent' ORDER BY m.name"""
_WITH_BODY = ("jobs", "handoffs", "awaited_processes")
"""Those whose body names the agent, too."""


class AgentRowsTable(ScopedTable):
    def _tables(self) -> list[str]:
        return [name for (name,) in self._db.all(_TABLES)]

    def count(self) -> int:
        tables = ("sessions", "jobs", "memory")
        counts = (
            self._db.value(f"SELECT count(*) FROM {name} WHERE agent = ?", self._agent) for name in tables
        )
        return sum(counts)

    def give_to(self, agent: AgentId) -> None:
        """No session goes: one whose title the other agent has given already gets its id with it."""
        taken = "SELECT title FROM sessions WHERE agent = ? AND title IS NOT NULL"
        apart = f"UPDATE sessions SET title = title || ' ' || id WHERE agent = ? AND title IN ({taken})"
        self._db.run(apart, self._agent, agent)
        for name in self._tables():
            body = ""
            if name in _WITH_BODY:
                body = ", body = CAST(json_set(CAST(body AS TEXT), '$.agent', ?1) AS BLOB)"
            self._db.run(
                f"UPDATE OR REPLACE {name} SET agent = ?1{body} WHERE agent = ?2", agent, self._agent
            )

        for name in ("budget_spend", "budget_holds"):  # what was spent stays spent
            for (key,) in self._db.all(f"SELECT DISTINCT budget FROM {name}"):
                if (given := renamed_key(key, self._agent, agent)) != key:
                    self._db.run(f"UPDATE OR REPLACE {name} SET budget = ? WHERE budget = ?", given, key)

    def remove(self) -> None:
        forget = "INSERT INTO memory_words (memory_words, rowid, text) VALUES ('delete', ?, ?)"
        for entry in self._db.all("SELECT n, text FROM memory WHERE agent = ?", self._agent):
            self._db.run(forget, *entry)
        for name in self._tables():
            self._db.run(f"DELETE FROM {name} WHERE agent = ?", self._agent)
