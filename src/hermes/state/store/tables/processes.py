"""Background processes that sessions wait to hear of. Gone with the session."""

from __future__ import annotations

from hermes.domain.chats.rows import AwaitedProcess
from hermes.state.store.codec import encode
from hermes.state.store.table import BodyColumn, ScopedTable

_PROCESS = BodyColumn(AwaitedProcess, "awaited_processes")


class ProcessesTable(ScopedTable):
    def put(self, process: AwaitedProcess) -> None:
        sql = """INSERT OR REPLACE INTO awaited_processes (id, session, agent, body) SELECT ?1, ?2, ?3, ?4
            WHERE EXISTS (SELECT 1 FROM sessions WHERE id = ?2 AND agent = ?3)"""
        self._db.run(sql, process.id, process.session, self._agent, encode(process))

    def get(self, process: str) -> AwaitedProcess | None:
        return _PROCESS.one(self._db, "WHERE id = ? AND agent = ?", process, self._agent)

    def remove(self, process: str) -> None:
        self._db.run("DELETE FROM awaited_processes WHERE id = ? AND agent = ?", process, self._agent)

    def all(self) -> list[AwaitedProcess]:
        return _PROCESS.all(self._db, "ORDER BY rowid")
