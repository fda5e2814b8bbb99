"""The SQLite store: one writer thread with group commit, readers beside it, one handle per agent.

The writer's life: it waits for units of work, takes what has gathered (accepts first), runs each in a
savepoint of its own if there are several, commits once, and only then resolves their futures. A unit that
fails spoils no other. When the engine itself fails (disk full, locked, broken), the whole batch is undone;
accepts are told at once so that platforms keep what we cannot store, other work is tried again until it
succeeds or the store closes. So a unit may run more than once, and must change nothing but its transaction. A
unit that meets damage in the file is given up alone, and accepts stay closed from then on: what the file
would take might be lost with it. The same holds once the file's name is gone: then its content is saved, now
and at the close. In idle moments, and now and then in busy ones, the writer brings the search index up to
date and checkpoints the log. Whatever breaks in the writer itself, it says so and goes on with a new
connection.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import apsw
from msgspec import Struct

from hermes.domain.errors import Unreachable
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.ports.store import Tx
from hermes.state.store import sqlite
from hermes.state.store.care.file_identity import LOOK_SECONDS, DatabaseFileGuard
from hermes.state.store.care.reserve import FILE as RESERVE_FILE
from hermes.state.store.care.reserve import DiskReserve
from hermes.state.store.readers import NeedsWriter, Readers
from hermes.state.store.tables.search import SearchTable, catch_up

log = logging.getLogger("hermes.store")
T = TypeVar("T")

FIRST_AT_ONCE = 512
OTHERS_AT_ONCE = 64
_IDLE_SECONDS = 0.25
_RETRY_SECONDS = 0.5
_INDEX_SECONDS = 5.0
_CHECKPOINT_MS = 100
_MOST_BATCHES = 50


class WorkUnit(Struct):
    """One piece of work on its way through the writer."""

    agent: AgentId
    work: Callable[[Tx], Any]
    first: bool
    future: asyncio.Future[Any]
    ends: bool = False
    result: Any = None
    error: BaseException | None = None


class StoreFacts(Struct):
    """What the store has done and how it is; for status, metrics and benches."""

    units: int = 0
    commits: int = 0
    seconds: float = 0.0
    """Spent in batches that were committed: their units and the COMMIT, which waits for the disk."""
    trouble: str = ""


class SqliteStore:
    """The database file of a gateway. Use `open`, then handles by `scoped`."""

    def __init__(self, path: Path | None, options: sqlite.StoreOptions = sqlite.DEFAULTS) -> None:
        self.path = path
        self.facts = StoreFacts()
        self._options = options
        self._incoming: queue.SimpleQueue[WorkUnit | None] = queue.SimpleQueue()
        self._first: deque[WorkUnit] = deque()
        self._others: deque[WorkUnit] = deque()
        self._hand: list[WorkUnit] = []
        self._shut = True
        self._closing = False
        self._unindexed = True
        self._indexed_at = 0.0
        self._log_pages = 0
        self._checkpoint_at = options.checkpoint_pages
        self._damage = ""
        self._name = DatabaseFileGuard(path if options.vfs is None else None)
        self.lost = asyncio.Event()
        """Set once the file was removed or replaced under us; its content was saved."""
        self._db: sqlite.SqliteDb | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._readers: Readers | None = None
        spare = None if path is None else path.with_name(RESERVE_FILE)
        self._reserve = options.reserve or DiskReserve(spare, options.reserve_bytes)

    # --- the life of the store ---

    async def open(self) -> SqliteStore:
        self._loop = asyncio.get_running_loop()
        opened: asyncio.Future[None] = self._loop.create_future()
        self._thread = threading.Thread(target=self._live, args=(opened,), name="store-writer", daemon=True)
        self._thread.start()
        try:
            await opened
        except BaseException:
            self._incoming.put(None)
            raise
        if self.path is not None:
            self._readers = Readers(self.path, self._options, self._note_damage)
        self._shut = False
        return self

    async def close(self) -> None:
        """Finish what was asked for, then close. Later calls and requests find a closed store."""
        self._shut = True
        thread, self._thread = self._thread, None
        if thread is None:
            return
        await asyncio.get_running_loop().run_in_executor(None, self._end, thread)

    def _end(self, thread: threading.Thread) -> None:
        # Readers first: whoever closes the file last folds the log into it, and that must be the writer.
        if self._readers is not None:
            self._readers.close()
        self._incoming.put(None)
        thread.join()

    async def __aenter__(self) -> SqliteStore:
        return await self.open()

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    # --- the Store port ---

    def scoped(self, agent: AgentId) -> ScopedStore:
        return ScopedStore(self, agent)

    async def write(self, unit: Callable[[Tx], T], *, first: bool = False, ends: bool = False) -> T:
        return await self.submit(MAIN_AGENT, unit, first=first, ends=ends)

    async def read(self, query: Callable[[Tx], T]) -> T:
        return await self.query(MAIN_AGENT, query)

    async def submit(self, agent: AgentId, work: Callable[[Tx], T], *, first: bool, ends: bool = False) -> T:
        if self._loop is None or self._shut:
            raise Unreachable("the store is closed")
        future: asyncio.Future[T] = self._loop.create_future()
        self._incoming.put(WorkUnit(agent=agent, work=work, first=first, ends=ends, future=future))
        return await future

    async def query(self, agent: AgentId, work: Callable[[Tx], T]) -> T:
        if self._readers is None or self._shut:
            return await self.submit(agent, work, first=False)
        try:
            return await self._readers.query(agent, work)
        except NeedsWriter:
            await self._catch_up_index()
        try:
            return await self._readers.query(agent, work)
        except NeedsWriter:
            return await self.submit(agent, work, first=True)

    async def _catch_up_index(self) -> None:
        """What a query has to change is the index that it searches: a batch a unit, others between them."""
        for _ in range(_MOST_BATCHES):
            if not await self.submit(MAIN_AGENT, _index_batch, first=True):
                return

    async def check_integrity(self) -> list[str]:
        """What SQLite's check finds wrong with the file; runs beside everything else and may take long."""
        if self.path is None or self._shut:
            return []
        problems = await asyncio.to_thread(sqlite.check_file, self.path, self._options, lambda: self._shut)
        if problems:
            self._note_damage(problems[0])
        return problems

    # --- the writer thread ---

    def _live(self, opened: asyncio.Future[None]) -> None:
        try:
            self._connect()
        except BaseException as error:  # handed to whoever opens the store
            self._tell(_settle, opened, None, sqlite.as_user_error(error, self.path))
            return
        self._reserve.keep()
        self._tell(_settle, opened)
        while True:
            try:
                while self._round():
                    pass
                break
            except BaseException as error:  # the writer may not die: units fail, it goes on
                log.exception("store.writer_broke")
                self._refuse(self._hand, f"the writer broke ({type(error).__name__})")
                self._hand = []
                self._disconnect()
                time.sleep(_RETRY_SECONDS)
        self._disconnect()

    def _connect(self) -> sqlite.SqliteDb:
        if self._db is not None:
            return self._db
        if self._name.look():
            raise apsw.CantOpenError(sqlite.FILE_LOST)
        db = sqlite.open_current(self.path, self._options)
        self._name.note_opened()
        # The writer checkpoints by itself, after it has told everybody who waits for the commit.
        db.run("PRAGMA wal_autocheckpoint = 0")
        db.connection.set_wal_hook(self._count_log)
        self._db = db
        return db

    def _disconnect(self) -> None:
        if self._name.look():
            self._rescue()
        db, self._db = self._db, None
        try:
            if db is not None:
                db.connection.close()
        except apsw.Error as error:
            log.warning("store.close problem=%r", sqlite.describe(error))
        self._name.note_closed()

    def _round(self) -> bool:
        """One batch of units, or one idle moment. False when the store is closed and nothing is left."""
        self._gather()
        if not self._name.is_lost and self._name.look_now_and_then():
            self._rescue()
        if not (self._first or self._others):
            if self._closing:
                return False
            self._idle()
            return True
        self._refuse_accepts()
        batch = self._hand = self._batch()
        error = self._commit(batch) if batch else None
        if error is None:
            self._unindexed = True
            self._tell(_settle_units, batch)
            self._upkeep()
        elif isinstance(error, sqlite.DAMAGE):
            self._give_up_damaged(batch, str(error))
        else:
            self._give_back(batch, sqlite.describe(error))
        self._hand = []
        return True

    def _gather(self) -> None:
        """Take everything that has come, or wait for it, not longer than until there is other work."""
        patience = None if self.path is None else LOOK_SECONDS
        if self._first or self._others:
            patience = 0.0
        elif self.facts.trouble and not self._damage:
            patience = _RETRY_SECONDS
        elif self._unindexed:
            patience = _IDLE_SECONDS
        try:
            unit = self._incoming.get(timeout=patience)
            while True:
                if unit is None:
                    self._closing = True
                else:
                    (self._first if unit.first or unit.ends else self._others).append(unit)
                unit = self._incoming.get_nowait()
        except queue.Empty:
            return

    def _batch(self) -> list[WorkUnit]:
        batch = [self._first.popleft() for _ in range(min(len(self._first), FIRST_AT_ONCE))]
        batch += [self._others.popleft() for _ in range(min(len(self._others), OTHERS_AT_ONCE))]
        return batch

    def _commit(self, batch: list[WorkUnit]) -> apsw.Error | None:
        """Run and commit a batch, or undo all of it and say what is wrong with the engine."""
        began = time.perf_counter()
        try:
            db = self._connect()
            db.run("BEGIN IMMEDIATE")
            if len(batch) == 1:
                self._run_alone(db, batch[0])
            else:
                for unit in batch:
                    self._run_beside_others(db, unit)
                db.run("COMMIT")
        except sqlite.ENGINE_ERRORS as error:
            self._undo()
            if isinstance(error, apsw.FullError):
                self._reserve.give_up()
            return error
        self.facts.seconds += time.perf_counter() - began
        self.facts.commits += 1
        self.facts.units += len(batch)
        self._say_trouble("")
        return None

    def _run_alone(self, db: sqlite.SqliteDb, unit: WorkUnit) -> None:
        """The transaction is the unit's own, so it needs no savepoint."""
        self._run(db, unit)
        db.run("COMMIT" if unit.error is None else "ROLLBACK")

    def _run_beside_others(self, db: sqlite.SqliteDb, unit: WorkUnit) -> None:
        db.run("SAVEPOINT unit")
        self._run(db, unit)
        if unit.error is not None:
            db.run("ROLLBACK TO unit")
        db.run("RELEASE unit")

    def _run(self, db: sqlite.SqliteDb, unit: WorkUnit) -> None:
        unit.error = None
        try:
            unit.result = unit.work(db.tx(unit.agent))
        except sqlite.ENGINE_ERRORS:
            raise
        except BaseException as error:  # handed to whoever asked for the unit
            if isinstance(error.__cause__, sqlite.ENGINE_ERRORS):
                raise error.__cause__ from None
            unit.error = error
        if not db.connection.in_transaction:
            raise sqlite.TransactionGone("the transaction ended under its unit")

    def _undo(self) -> None:
        # SQLite ends the transaction by itself on some errors; a blind ROLLBACK would raise then.
        if self._db is None or not self._db.connection.in_transaction:
            return
        try:
            self._db.run("ROLLBACK")
        except apsw.Error as error:
            log.warning("store.rollback problem=%r", sqlite.describe(error))
            self._disconnect()

    # --- when something is wrong ---

    def _say_trouble(self, trouble: str) -> None:
        now = trouble or self._trouble_for_accepts() or (sqlite.DISK_FULL if self._reserve.given_up else "")
        if now != self.facts.trouble:
            log.warning("store.trouble problem=%r", now) if now else log.info("store.well")
        self.facts.trouble = now

    def _note_damage(self, what: str) -> None:
        if not self._damage:
            log.error("store.damaged file=%s problem=%r", self.path, what)
        self._damage = sqlite.FILE_DAMAGED
        self._say_trouble("")
        try:
            if self.path is not None:
                sqlite.suspicion(self.path).write_text(what + "\n", encoding="utf-8")
        except OSError as problem:
            log.warning("store.mark problem=%s", problem)

    def _trouble_for_accepts(self) -> str:
        return sqlite.FILE_LOST if self._name.is_lost else self._damage

    def _rescue(self) -> None:
        try:
            if self._db is not None:
                self._name.rescue(self._db.connection)
        except (apsw.Error, OSError) as problem:
            log.error("store.not_rescued file=%s problem=%s", self.path, problem)
        self._say_trouble("")
        self._tell(self.lost.set)

    def _refuse_accepts(self) -> None:
        """Accepts need a sound file and the reserve; what only finishes what was begun does not."""
        if not self._first:
            return
        if not self._name.is_lost and self._name.look():
            self._rescue()
        trouble = self._trouble_for_accepts() or ("" if self._reserve.keep() else sqlite.DISK_FULL)
        if trouble:
            self._refuse((unit for unit in self._first if not unit.ends), trouble)
            self._first = deque(unit for unit in self._first if unit.ends)

    def _refuse(self, units: Iterable[WorkUnit], trouble: str) -> None:
        refused = list(units)
        for unit in refused:
            unit.error = Unreachable(f"nothing can be stored: {trouble}", after=1.0)
        self._tell(_settle_units, refused)

    def _give_back(self, batch: list[WorkUnit], trouble: str) -> None:
        self._say_trouble(trouble)
        if self._closing:
            self._refuse([*batch, *self._first, *self._others], trouble)
            self._first.clear()
            self._others.clear()
            return
        self._refuse((unit for unit in batch if unit.first or unit.ends), trouble)
        self._others.extendleft(unit for unit in reversed(batch) if not (unit.first or unit.ends))
        if self._others:
            time.sleep(_RETRY_SECONDS)

    def _give_up_damaged(self, batch: list[WorkUnit], what: str) -> None:
        """Find the units that meet the damage and fail them; the others are done one by one."""
        self._note_damage(what)
        self._refuse((unit for unit in batch if unit.first), sqlite.FILE_DAMAGED)
        for unit in batch:
            if not unit.first and (error := self._commit([unit])) is not None:
                self._refuse([unit], sqlite.describe(error))
            elif not unit.first:
                self._tell(_settle_units, [unit])

    # --- work beside the units ---

    def _idle(self) -> None:
        if not self.facts.trouble and not self._name.is_writable():
            self._say_trouble(sqlite.NOT_WRITABLE)
        if self.facts.trouble and not self._damage:
            self._probe()
        elif self._unindexed and not self._index():
            self._unindexed = False
            self._checkpoint("PASSIVE")

    def _upkeep(self) -> None:
        """What cannot wait for an idle moment on a store that has none."""
        if time.monotonic() - self._indexed_at > _INDEX_SECONDS:
            self._index()
        if self._log_pages >= self._checkpoint_at:
            # Readers that follow each other closely can hold the log open for ever; at some length it is
            # worth waiting a moment for them.
            long = self._log_pages >= 4 * self._options.checkpoint_pages
            self._checkpoint("RESTART" if long else "PASSIVE")
            self._checkpoint_at = self._log_pages + self._options.checkpoint_pages

    def _index(self) -> int:
        """Bring a batch of the journal into the search index; how many records that were."""
        self._indexed_at = time.monotonic()
        return self._beside(catch_up)

    def _probe(self) -> None:
        """See whether the trouble is over when nobody asks for anything."""
        if not self._reserve.keep():
            return
        self._beside(lambda db: db.run("UPDATE facts SET value = value WHERE name = 'indexed'"))

    def _beside(self, work: Callable[[sqlite.SqliteDb], int]) -> int:
        try:
            db = self._connect()
            db.run("BEGIN IMMEDIATE")
            done = work(db)
            db.run("COMMIT")
        except sqlite.ENGINE_ERRORS as error:
            self._undo()
            if isinstance(error, sqlite.DAMAGE):
                self._note_damage(str(error))
            self._say_trouble(sqlite.describe(error))
            return 0
        self._say_trouble("")
        return done

    def _checkpoint(self, mode: str) -> None:
        if self.path is None or self._db is None:
            return
        db = self._db
        db.connection.set_busy_timeout(_CHECKPOINT_MS)
        try:
            db.run(f"PRAGMA wal_checkpoint({mode})")
        except sqlite.ENGINE_ERRORS as error:
            log.warning("store.checkpoint problem=%r", sqlite.describe(error))
        finally:
            db.connection.set_busy_timeout(self._options.busy_ms)

    def _count_log(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        if pages < self._log_pages:
            self._checkpoint_at = self._options.checkpoint_pages
        self._log_pages = pages
        return apsw.SQLITE_OK

    def _tell(self, callback: Callable[..., None], *args: Any) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:
            # The loop has closed: nobody is left to be told.
            log.debug("store.nobody_listens")


def _settle(future: asyncio.Future[Any], result: Any = None, error: BaseException | None = None) -> None:
    if future.done():
        return
    if isinstance(error, StopIteration):
        # A future cannot carry it.
        error = RuntimeError("the unit raised StopIteration")
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


def _settle_units(batch: list[WorkUnit]) -> None:
    for unit in batch:
        _settle(unit.future, unit.result, unit.error)


def _index_batch(tx: Tx) -> int:
    assert isinstance(tx.search, SearchTable)
    return tx.search.catch_up()


class ScopedStore(Struct, frozen=True):
    """The store as one agent's code sees it."""

    store: SqliteStore
    agent: AgentId

    async def write(self, unit: Callable[[Tx], T], *, first: bool = False, ends: bool = False) -> T:
        return await self.store.submit(self.agent, unit, first=first, ends=ends)

    async def read(self, query: Callable[[Tx], T]) -> T:
        return await self.store.query(self.agent, query)

    def scoped(self, agent: AgentId) -> ScopedStore:
        return ScopedStore(self.store, agent)
