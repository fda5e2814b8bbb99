"""The SQLite store: one writer thread with group commit, readers beside it, one handle per agent.

The writer's life: it waits for units of work, takes what has gathered (accepts first), runs each in its
own savepoint, commits once, and only then resolves their futures. A unit that fails spoils no other. When
the engine itself fails (disk full, locked, broken), the whole batch is undone; accepts are told at once so
that platforms keep what we cannot store, other work is tried again until it succeeds or the store closes.
In idle moments the writer brings the search index up to date and checkpoints the log.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import apsw

from hermes.domain.errors import Unreachable, UserError
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.ports import Tx
from hermes.state.db import Row
from hermes.state.inbox import InboxTable
from hermes.state.jobs import JobsTable
from hermes.state.journal import JournalTable
from hermes.state.leases import LeasesTable
from hermes.state.media import MediaTable
from hermes.state.migrate import migrate
from hermes.state.outbox import OutboxTable
from hermes.state.questions import QuestionsTable
from hermes.state.recovery import RecoveryTable
from hermes.state.reserve import Reserve
from hermes.state.search import SearchTable, catch_up
from hermes.state.sessions import BindingsTable, SessionsTable
from hermes.state.turns import TurnsTable

log = logging.getLogger("hermes.store")
T = TypeVar("T")

BUSY_MS = 5000
FIRST_AT_ONCE = 512
OTHERS_AT_ONCE = 64
READERS = 2
_IDLE_SECONDS = 0.25
_RETRY_SECONDS = 0.5
_ENGINE_ERRORS = (
    apsw.FullError, apsw.IOError, apsw.BusyError, apsw.LockedError, apsw.CorruptError, apsw.NotADBError,
    apsw.ReadOnlyError, apsw.CantOpenError, apsw.NoMemError, apsw.ProtocolError,
)  # fmt: skip


class SqliteDb:
    """A connection as the table families see it."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self._execute = connection.execute

    def all(self, sql: str, *values: Any) -> list[Row]:
        return self._execute(sql, values).fetchall()

    def one(self, sql: str, *values: Any) -> Row | None:
        row: Row | None = self._execute(sql, values).fetchone()
        return row

    def run(self, sql: str, *values: Any) -> int:
        self._execute(sql, values).fetchall()
        return self.connection.changes()

    def many(self, sql: str, rows: Sequence[Row]) -> None:
        self.connection.executemany(sql, rows)


class SqliteTx:
    """The table families of one connection, scoped to one agent."""

    def __init__(self, db: SqliteDb, agent: AgentId) -> None:
        self.inbox = InboxTable(db)
        self.turns = TurnsTable(db, agent)
        self.journal = JournalTable(db, agent)
        self.sessions = SessionsTable(db, agent)
        self.bindings = BindingsTable(db, agent)
        self.outbox = OutboxTable(db)
        self.questions = QuestionsTable(db, agent)
        self.jobs = JobsTable(db, agent)
        self.search = SearchTable(db, agent)
        self.media = MediaTable(db, agent)
        self.leases = LeasesTable(db)
        self.recovery = RecoveryTable(db)


@dataclass(slots=True)
class _Unit:
    """One piece of work on its way through the writer."""

    agent: AgentId
    work: Callable[[Tx], Any]
    first: bool
    future: asyncio.Future[Any]
    result: Any = None
    error: BaseException | None = None


@dataclass(slots=True)
class StoreFacts:
    """What the store has done and how it is; for status, metrics and benches."""

    units: int = 0
    commits: int = 0
    trouble: str = ""


def connect(path: str, *, vfs: str | None = None) -> apsw.Connection:
    connection = apsw.Connection(path, vfs=vfs)
    connection.set_busy_timeout(BUSY_MS)
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "wal_autocheckpoint = 4000"):
        connection.execute(f"PRAGMA {pragma}").fetchall()
    return connection


class SqliteStore:
    """The database file of a gateway. Use `open`, then handles by `scoped`."""

    def __init__(self, path: Path | None, *, vfs: str | None = None) -> None:
        self.path = path
        self.facts = StoreFacts()
        self._vfs = vfs
        self._incoming: queue.SimpleQueue[_Unit | None] = queue.SimpleQueue()
        self._first: deque[_Unit] = deque()
        self._others: deque[_Unit] = deque()
        self._closing = False
        self._unindexed = True
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._readers: ThreadPoolExecutor | None = None
        self._local = threading.local()
        self._reserve = Reserve(None if path is None else path.with_name("reserve.bin"))

    # --- the life of the store ---

    async def open(self) -> SqliteStore:
        self._loop = asyncio.get_running_loop()
        opened: asyncio.Future[None] = self._loop.create_future()
        self._thread = threading.Thread(target=self._live, args=(opened,), name="store-writer", daemon=True)
        self._thread.start()
        await opened
        if self.path is not None:
            self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="store-reader")
        return self

    async def close(self) -> None:
        if self._thread is None or self._loop is None:
            return
        self._incoming.put(None)
        await self._loop.run_in_executor(None, self._thread.join)
        if self._readers is not None:
            self._readers.shutdown()
        self._thread = None

    async def __aenter__(self) -> SqliteStore:
        return await self.open()

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    # --- the Store port ---

    def scoped(self, agent: AgentId) -> Handle:
        return Handle(self, agent)

    async def write(self, unit: Callable[[Tx], T], *, first: bool = False) -> T:
        return await self.submit(MAIN_AGENT, unit, first=first)

    async def read(self, query: Callable[[Tx], T]) -> T:
        return await self.query(MAIN_AGENT, query)

    async def submit(self, agent: AgentId, work: Callable[[Tx], T], *, first: bool) -> T:
        if self._loop is None or self._closing:
            raise Unreachable("the store is closed")
        future: asyncio.Future[T] = self._loop.create_future()
        self._incoming.put(_Unit(agent=agent, work=work, first=first, future=future))
        return await future

    async def query(self, agent: AgentId, work: Callable[[Tx], T]) -> T:
        if self._loop is None or self._readers is None:
            return await self.submit(agent, work, first=False)
        return await self._loop.run_in_executor(self._readers, self._read, agent, work)

    def _read(self, agent: AgentId, work: Callable[[Tx], T]) -> T:
        local = self._local
        if not hasattr(local, "db"):
            local.db = SqliteDb(connect(str(self.path), vfs=self._vfs))
            local.db.run("PRAGMA query_only = ON")
            local.handles = {}
        tx = local.handles.get(agent)
        if tx is None:
            tx = local.handles[agent] = SqliteTx(local.db, agent)
        try:
            with local.db.connection:
                return work(tx)
        except _ENGINE_ERRORS as error:
            raise Unreachable(f"the database cannot be read: {error}") from error

    # --- the writer thread ---

    def _live(self, opened: asyncio.Future[None]) -> None:
        try:
            db = SqliteDb(connect(":memory:" if self.path is None else str(self.path), vfs=self._vfs))
            db.run("BEGIN IMMEDIATE")
            migrate(db, str(self.path))
            db.run("COMMIT")
        except BaseException as error:  # handed to whoever opens the store
            self._tell(self._fail_open, opened, _as_user_error(error, self.path))
            return
        self._reserve.keep()
        self._tell(_resolve_open, opened)
        self._work(db)
        db.connection.close()

    def _work(self, db: SqliteDb) -> None:
        handles: dict[AgentId, SqliteTx] = {}
        while True:
            if not self._gather():
                self._idle(db)
                continue
            if self._closing and not (self._first or self._others):
                return
            batch = self._batch()
            trouble = self._commit(db, handles, batch)
            self.facts.trouble = trouble
            if not trouble:
                self._unindexed = True
                self._tell(_settle, batch)
                continue
            log.warning("store.trouble problem=%r units=%d", trouble, len(batch))
            self._give_back(batch, trouble)
            if self._others:
                time.sleep(_RETRY_SECONDS)

    def _gather(self) -> bool:
        """Take everything that has come; wait for it if there is nothing. False when it stayed quiet."""
        waiting = not (self._first or self._others)
        try:
            unit = self._incoming.get(timeout=_IDLE_SECONDS) if waiting and self._unindexed else (
                self._incoming.get() if waiting else self._incoming.get_nowait()
            )  # fmt: skip
            while True:
                if unit is None:
                    self._closing = True
                elif unit.first:
                    self._first.append(unit)
                else:
                    self._others.append(unit)
                unit = self._incoming.get_nowait()
        except queue.Empty:
            return bool(self._first or self._others or self._closing)

    def _batch(self) -> list[_Unit]:
        batch = [self._first.popleft() for _ in range(min(len(self._first), FIRST_AT_ONCE))]
        batch += [self._others.popleft() for _ in range(min(len(self._others), OTHERS_AT_ONCE))]
        return batch

    def _commit(self, db: SqliteDb, handles: dict[AgentId, SqliteTx], batch: list[_Unit]) -> str:
        """Run and commit a batch. The empty string, or what is wrong with the engine."""
        if any(unit.first for unit in batch) and not self._reserve.keep():
            return "the disk is full"
        try:
            db.run("BEGIN IMMEDIATE")
            for unit in batch:
                unit.error = None
                tx = handles.get(unit.agent)
                if tx is None:
                    tx = handles[unit.agent] = SqliteTx(db, unit.agent)
                self._run(db, tx, unit)
            db.run("COMMIT")
        except _ENGINE_ERRORS as error:
            # SQLite ends the transaction by itself on some errors; a blind ROLLBACK would raise then.
            if db.connection.in_transaction:
                db.run("ROLLBACK")
            if isinstance(error, apsw.FullError):
                self._reserve.give_up()
            return _describe(error)
        self.facts.commits += 1
        self.facts.units += len(batch)
        return ""

    @staticmethod
    def _run(db: SqliteDb, tx: SqliteTx, unit: _Unit) -> None:
        db.run("SAVEPOINT unit")
        try:
            unit.result = unit.work(tx)
        except _ENGINE_ERRORS:
            raise
        except BaseException as error:  # handed to whoever asked for the unit
            unit.error = error
            db.run("ROLLBACK TO unit")
        db.run("RELEASE unit")

    def _give_back(self, batch: list[_Unit], trouble: str) -> None:
        refused = [unit for unit in batch if unit.first or self._closing]
        for unit in refused:
            unit.error = Unreachable(f"nothing can be stored: {trouble}", after=1.0)
        self._tell(_settle, refused)
        self._others.extendleft(unit for unit in reversed(batch) if not (unit.first or self._closing))

    def _idle(self, db: SqliteDb) -> None:
        try:
            db.run("BEGIN IMMEDIATE")
            more = catch_up(db)
            db.run("COMMIT")
            self._unindexed = more > 0
            if not more and self.path is not None:
                db.run("PRAGMA wal_checkpoint(PASSIVE)")
        except _ENGINE_ERRORS as error:
            if db.connection.in_transaction:
                db.run("ROLLBACK")
            self._unindexed = False
            log.warning("store.idle_work problem=%r", _describe(error))

    def _tell(self, callback: Callable[..., None], *args: Any) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:
            # The loop has closed: nobody is left to be told.
            log.debug("store.nobody_listens")

    @staticmethod
    def _fail_open(opened: asyncio.Future[None], error: BaseException) -> None:
        if not opened.done():
            opened.set_exception(error)


@dataclass(frozen=True, slots=True)
class Handle:
    """The store as one agent's code sees it."""

    store: SqliteStore
    agent: AgentId

    async def write(self, unit: Callable[[Tx], T], *, first: bool = False) -> T:
        return await self.store.submit(self.agent, unit, first=first)

    async def read(self, query: Callable[[Tx], T]) -> T:
        return await self.store.query(self.agent, query)

    def scoped(self, agent: AgentId) -> Handle:
        return Handle(self.store, agent)


def _resolve_open(opened: asyncio.Future[None]) -> None:
    if not opened.done():
        opened.set_result(None)


def _settle(batch: list[_Unit]) -> None:
    for unit in batch:
        if unit.future.done():
            continue
        if unit.error is None:
            unit.future.set_result(unit.result)
        else:
            unit.future.set_exception(unit.error)


def _describe(error: apsw.Error) -> str:
    if isinstance(error, apsw.FullError):
        return "the disk is full"
    if isinstance(error, (apsw.BusyError, apsw.LockedError)):
        return "another process holds the database"
    if isinstance(error, (apsw.CorruptError, apsw.NotADBError)):
        return "the database file is damaged"
    return f"the database cannot be written ({error})"


def _as_user_error(error: BaseException, path: Path | None) -> BaseException:
    if isinstance(error, (apsw.BusyError, apsw.LockedError)):
        return UserError(
            f"{path} is locked by another process.", hint="Stop the program that has it open, then try again."
        )
    if isinstance(error, (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError)):
        return UserError(f"{path} cannot be opened for writing.", hint="Check the folder's owner and mode.")
    if isinstance(error, (apsw.FullError, apsw.IOError)):
        return UserError(f"{path} cannot be written: {_describe(error)}.", hint="Free some space, then try again.")
    return error
