"""Facts the gateway keeps of itself, by name. Those of the file's own format are `migrate`'s."""

from __future__ import annotations

from hermes.state.store.db import TableFamily

_OURS = "gateway."


class FactsTable(TableFamily):
    def get(self, name: str) -> str | None:
        row = self._db.one("SELECT value FROM facts WHERE name = ?", _OURS + name)
        return None if row is None else str(row[0])

    def put(self, name: str, value: str) -> None:
        self._db.run("INSERT OR REPLACE INTO facts VALUES (?, ?)", _OURS + name, value)
