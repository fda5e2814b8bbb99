"""The reading side of the SQLite store: a few threads, each with a connection of its own that cannot write.
A query sees one state of the database from its first to its last row."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import apsw

from hermes.domain.errors import Unreachable
from hermes.domain.ids import AgentId
from hermes.domain.ports.store import Tx
from hermes.state.store import sqlite

T = TypeVar("T")

THREADS = 2


class NeedsWriter(Exception):
    """A query has to change something after all (a search, when its index is behind)."""


class Readers:
    def __init__(self, path: Path, options: sqlite.StoreOptions, damaged: Callable[[str], None]) -> None:
        self._path = path
        self._options = options
        self._damaged = damaged
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="store-reader")
        self._local = threading.local()
        self._open: list[sqlite.SqliteDb] = []

    async def query(self, agent: AgentId, work: Callable[[Tx], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._read, agent, work)

    def close(self) -> None:
        """Wait for the queries under way, then close. Blocking."""
        self._pool.shutdown()
        for db in self._open:
            db.connection.close()

    def _read(self, agent: AgentId, work: Callable[[Tx], T]) -> T:
        try:
            db = self._db()
            with db.connection:
                answer = work(db.tx(agent))
            return answer
        except apsw.ReadOnlyError as error:
            raise NeedsWriter from error
        except sqlite.ENGINE_ERRORS as error:
            if isinstance(error, sqlite.DAMAGE):
                self._damaged(str(error))
            raise Unreachable(f"the database cannot be read: {error}") from error
        except StopIteration as error:
            # A future cannot carry it.
            raise RuntimeError("the query raised StopIteration") from error

    def _db(self) -> sqlite.SqliteDb:
        """The connection of this thread."""
        db: sqlite.SqliteDb | None = getattr(self._local, "db", None)
        if db is None:
            db = self._local.db = sqlite.connect_reader(self._path, self._options)
            self._open.append(db)
        return db
