"""SQLite as this program uses it: how a connection is opened, what the table families get of it, and which
of its errors mean that the engine (not the unit of work) failed."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw
from msgspec import Struct

from hermes.domain.errors import Refused, UserError
from hermes.domain.ids import EVERY_AGENT, AgentId
from hermes.domain.ports.store import Tx
from hermes.state.store.care.reserve import SIZE as SPARE_BYTES
from hermes.state.store.care.reserve import DiskReserve
from hermes.state.store.care.walfile import has_log
from hermes.state.store.every_agent import WideDb
from hermes.state.store.migrations import DamagedDatabase, check_version, migrate
from hermes.state.store.table import Db, Row
from hermes.state.store.tables.agent_rows import AgentRowsTable
from hermes.state.store.tables.budgets import BudgetsTable
from hermes.state.store.tables.channels import DirectoryTable, OverheardTable
from hermes.state.store.tables.checkpoints import CheckpointsTable
from hermes.state.store.tables.compressions import CompressionsTable
from hermes.state.store.tables.flushes import FlushesTable
from hermes.state.store.tables.gateway import FactsTable, LeasesTable, RecoveryTable
from hermes.state.store.tables.inbox import InboxTable
from hermes.state.store.tables.jobs import JobRunsTable, JobsTable
from hermes.state.store.tables.journal import JournalTable, JournalTailTable
from hermes.state.store.tables.media_index import MediaTable
from hermes.state.store.tables.memory import MemoryTable, PersonNotesTable
from hermes.state.store.tables.outbox import OutboxTable
from hermes.state.store.tables.processes import ProcessesTable
from hermes.state.store.tables.rights import GrantsTable, PairingCodesTable, PairingsTable
from hermes.state.store.tables.search import SearchTable
from hermes.state.store.tables.sessions import BindingsTable, HandoffsTable, SessionsTable
from hermes.state.store.tables.traces import TracesTable
from hermes.state.store.tables.turns import QuestionsTable, RequestsTable, TurnsTable
from hermes.state.store.tables.usage import UsageTable

_LOG_FILE_BYTES = 64 * 1024 * 1024
# Pages that fell out of it are still in the system's own cache.
_WRITER_CACHE_KB = 512
_READER_CACHE_KB = 256
# Of new files. A turn changes a few rows in a dozen places, and what is written is pages.
PAGE_BYTES = 2048
_CACHED_STATEMENTS = 200
_PROBLEMS = 10
_CHECK_STEPS = 100_000
_NO_ROOM = 64 * 1024
_HINT = "Restore it from the newest file in backups/."

DISK_FULL = "the disk is full"
FILE_DAMAGED = "the database file is damaged"
NOT_WRITABLE = "the database cannot be written (its file system is read-only)"
FILE_LOST = "the database file was removed or replaced"


class DiskFull(UserError):
    """The disk is full: whoever opens the file may wait for room."""


class TransactionGone(apsw.Error):
    """The engine ended the transaction under a unit that did not notice."""


ENGINE_ERRORS = (
    apsw.FullError, apsw.IOError, apsw.BusyError, apsw.LockedError, apsw.CorruptError, apsw.NotADBError,
    apsw.ReadOnlyError, apsw.CantOpenError, apsw.NoMemError, apsw.ProtocolError, apsw.InterruptError,
    TransactionGone,
)  # fmt: skip
DAMAGE = (apsw.CorruptError, apsw.NotADBError)
NOT_DAMAGE = (
    apsw.NoMemError, apsw.IOError, apsw.CantOpenError, apsw.ReadOnlyError, apsw.FullError, apsw.BusyError,
    apsw.LockedError, apsw.ProtocolError, apsw.PermissionsError, apsw.AuthError, apsw.InterruptError,
)  # fmt: skip
"""What says nothing about the file's content: whoever takes it for damage throws a sound database away."""


class StoreOptions(Struct, frozen=True, kw_only=True):
    """How the file is opened. The defaults keep the promises; tests turn single screws."""

    vfs: str | None = None
    busy_ms: int = 5000
    synchronous: str = "FULL"
    checkpoint_pages: int = 4000
    reserve: DiskReserve | None = None
    reserve_bytes: int = SPARE_BYTES


DEFAULTS = StoreOptions()
_MOST_SCOPES = 64
"""Of so many agents the tables are kept; they are made again at once."""
_BLOCK = 1000
_LAST_NUMBER = """SELECT max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = ?), 0),
    coalesce((SELECT max(n) FROM {table}), 0))"""


class SqliteDb:
    """A connection as the table families see it. Statements are `kept` for the next time."""

    def __init__(self, connection: apsw.Connection, *, kept: bool = True) -> None:
        self.connection = connection
        self._execute = connection.execute if kept else partial(connection.execute, can_cache=False)
        self._tables: dict[AgentId, Tx] = {}
        self._blocks: dict[str, range] = {}

    def tx(self, agent: AgentId) -> Tx:
        tx = self._tables.get(agent)
        if tx is None:
            if len(self._tables) >= _MOST_SCOPES:
                self._tables.clear()
            tx = self._tables[agent] = tables_of(self, agent)
        return tx

    def all(self, sql: str, *values: Any) -> list[Row]:
        return self._execute(sql, values).fetchall()

    def one(self, sql: str, *values: Any) -> Row | None:
        row: Row | None = self._execute(sql, values).fetchone()
        return row

    def value(self, sql: str, *values: Any) -> Any:
        row = self.one(sql, *values)
        return None if row is None else row[0]

    def run(self, sql: str, *values: Any) -> int:
        try:
            self._execute(sql, values).fetchall()
        except apsw.ConstraintError as error:
            raise Refused(f"it is there already ({error})") from error
        return self.connection.changes()

    def reserve(self, table: str, count: int) -> int:
        """SQLite would write the last number down with each row, a page for every commit; so a block of them
        is taken at once. If a unit that took one is undone, its numbers are above SQLite's own count, which
        then follows them."""
        block = self._blocks.get(table, range(0))
        if len(block) < count:
            last = self.value(_LAST_NUMBER.format(table=table), table)
            block = range(last + 1, last + 1 + count + _BLOCK)
            if not self.run("UPDATE sqlite_sequence SET seq = ? WHERE name = ?", block[-1], table):
                self.run("INSERT INTO sqlite_sequence VALUES (?, ?)", table, block[-1])
        self._blocks[table] = block[count:]
        return block[0]

    def close(self) -> None:
        self.connection.close()


def tables_of(db: Db, agent: AgentId) -> Tx:
    """The table families of one connection, scoped to one agent, or to `EVERY_AGENT`."""
    own = WideDb(db) if agent == EVERY_AGENT else db
    return Tx(
        scoped=partial(tables_of, db),
        inbox=InboxTable(db),
        turns=TurnsTable(own, agent),
        journal=JournalTable(own, agent),
        tail=JournalTailTable(db),
        sessions=SessionsTable(own, agent),
        bindings=BindingsTable(own, agent),
        outbox=OutboxTable(db),
        questions=QuestionsTable(own, agent),
        compressions=CompressionsTable(own, agent),
        flushes=FlushesTable(own, agent),
        processes=ProcessesTable(own, agent),
        checkpoints=CheckpointsTable(own, agent),
        grants=GrantsTable(own, agent),
        requests=RequestsTable(own, agent),
        jobs=JobsTable(own, agent),
        job_runs=JobRunsTable(own, agent),
        facts=FactsTable(db),
        search=SearchTable(own, agent),
        media=MediaTable(own, agent),
        talk=OverheardTable(own, agent),
        leases=LeasesTable(db),
        pairings=PairingsTable(db),
        pairing_codes=PairingCodesTable(db),
        recovery=RecoveryTable(db),
        directory=DirectoryTable(own, agent),
        handoffs=HandoffsTable(own, agent),
        usage=UsageTable(own, agent),
        budgets=BudgetsTable(db),
        memory=MemoryTable(own, agent),
        notes=PersonNotesTable(own, agent),
        traces=TracesTable(own, agent),
        rows=AgentRowsTable(db, agent),
    )


def connect(path: Path | None, options: StoreOptions = DEFAULTS, *, create: bool = True) -> SqliteDb:
    """A connection that may write. A new file is readable by its owner alone: it holds people's words."""
    if create and path is not None and options.vfs is None:
        _create_private(path)
    connection = apsw.Connection(
        ":memory:" if path is None else str(path),
        flags=apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0),
        vfs=options.vfs,
        statementcachesize=_CACHED_STATEMENTS,
    )
    db = SqliteDb(connection)
    connection.set_busy_timeout(options.busy_ms)
    for pragma in (
        f"page_size = {PAGE_BYTES}",
        "journal_mode = WAL",
        f"synchronous = {options.synchronous}",
        "foreign_keys = ON",
        f"wal_autocheckpoint = {options.checkpoint_pages}",
        f"journal_size_limit = {_LOG_FILE_BYTES}",
        f"cache_size = -{_WRITER_CACHE_KB}",
    ):
        db.run(f"PRAGMA {pragma}")
    return db


def connect_reader(path: Path, options: StoreOptions = DEFAULTS) -> SqliteDb:
    # One that is gone must not come back empty because somebody wants to read it.
    db = connect(path, options, create=False)
    db.run("PRAGMA query_only = ON")
    db.run(f"PRAGMA cache_size = -{_READER_CACHE_KB}")
    return db


def open_current(path: Path | None, options: StoreOptions = DEFAULTS) -> SqliteDb:
    """A writing connection on a file of the current schema. It looks before it touches: a file that is not
    for this program stays as it is, to the byte."""
    if path is not None and path.exists() and not path.stat().st_size and has_log(path):
        # SQLite would take it for a new database and throw the log away.
        raise DamagedDatabase(f"{path} is damaged: it is empty.", hint=_HINT)
    if path is not None and path.exists() and path.stat().st_size:
        with closing(look_into(path, options)) as looking:
            check_version(looking, str(path))
    db = connect(path, options)
    try:
        db.run("BEGIN IMMEDIATE")
        migrate(SqliteDb(db.connection, kept=False), str(path))
        db.run("COMMIT")
        db.connection.release_memory()  # a new file took much, and its pages are not needed again soon
    except BaseException:
        db.connection.close()
        raise
    return db


def look_into(path: Path, options: StoreOptions = DEFAULTS) -> SqliteDb:
    """A connection that leaves the file and its log as they are, to see what they hold."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    # A file without a log is nobody's at the moment: looked at as immutable, it gets none by our looking.
    settled = "" if has_log(path) else "&immutable=1"
    connection = apsw.Connection(f"file:{quote(str(path))}?mode=ro{settled}", flags=flags, vfs=options.vfs)
    connection.set_busy_timeout(options.busy_ms)
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    return SqliteDb(connection)


def problems_of(db: SqliteDb) -> list[str]:
    """What SQLite's own check finds wrong; a check that could not be made raises."""
    try:
        lines = [str(row[0]) for row in db.all(f"PRAGMA quick_check({_PROBLEMS})")]
    except NOT_DAMAGE:
        raise
    except (apsw.Error, UnicodeDecodeError) as error:
        return [str(error)]
    return [] if lines == ["ok"] else lines


def check_file(path: Path, options: StoreOptions, give_up: Callable[[], bool]) -> list[str]:
    """The same for a file in use. Blocking, long for a large file; `give_up` ends it with nothing found."""
    with closing(connect_reader(path, options)) as db:
        db.connection.set_progress_handler(give_up, _CHECK_STEPS)
        try:
            return problems_of(db)
        except apsw.InterruptError:
            return []


def copy_pages(
    source: apsw.Connection, draft: Path, at_once: int = -1, give_up: Callable[[], bool] = lambda: False
) -> None:
    """Copy a database into a new file, so many pages at a time. Blocking."""
    draft.touch(mode=0o600)
    with closing(apsw.Connection(str(draft))) as target:
        # The file counts once it is whole and synced, so its own journal would be work for nothing.
        target.execute("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF").fetchall()
        with target.backup("main", source, "main") as copying:
            while not copying.done:
                if give_up():
                    raise apsw.InterruptError("interrupted")
                copying.step(at_once)


def suspicion(path: Path) -> Path:
    """The mark that says: check this file in full before it is opened again."""
    return path.with_name(path.name + ".suspect")


def describe(error: BaseException) -> str:
    if isinstance(error, apsw.FullError):
        return DISK_FULL
    if isinstance(error, (apsw.BusyError, apsw.LockedError)):
        return "another process holds the database"
    if isinstance(error, DAMAGE):
        return FILE_DAMAGED
    if isinstance(error, (apsw.NoMemError, MemoryError)):
        return "there is too little memory"
    return f"the database cannot be written ({error})"


def as_user_error(error: BaseException, path: Path | None) -> BaseException:
    """What went wrong at opening, as a sentence for the person who starts the program."""
    if isinstance(error, (apsw.BusyError, apsw.LockedError)):
        return UserError(
            f"{path} is locked by another process.", hint="Stop the program that has it open, then try again."
        )
    if isinstance(error, (apsw.IOError, apsw.CantOpenError)) and _is_disk_full(path):
        # SQLite cannot say why the small files beside a database could not be made.
        error = apsw.FullError(str(error))
    if isinstance(error, (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError, PermissionError)):
        return UserError(f"{path} cannot be opened for writing.", hint="Check the folder's owner and mode.")
    if isinstance(error, apsw.FullError) or is_full(error):
        return DiskFull(f"{path} cannot be written: {DISK_FULL}.", hint="Free some space.")
    if isinstance(error, (apsw.NoMemError, MemoryError)):
        return UserError(f"There is too little memory to open {path}.", hint="Give the program more memory.")
    if isinstance(error, (apsw.IOError, OSError)):
        return UserError(f"{path} cannot be read or written ({error}).", hint="Check its disk.")
    if isinstance(error, DAMAGE):
        return DamagedDatabase(f"{path} is damaged ({error}).", hint=_HINT)
    if isinstance(error, apsw.Error):
        return UserError(f"{path} cannot be opened ({error}).", hint="The log may say more.")
    return error


def _is_disk_full(path: Path | None) -> bool:
    try:
        return path is not None and shutil.disk_usage(path.parent).free < _NO_ROOM
    except OSError:
        return False


def is_full(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def _create_private(path: Path) -> None:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, stat.S_IRUSR | stat.S_IWUSR))
    except OSError:
        # It is there already, or cannot be made: SQLite says which.
        return
