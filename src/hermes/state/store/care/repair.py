"""Opening a database that may be damaged. Its life: look without touching → if it is damaged, prepare a
replacement beside it (what is readable, or the newest good backup, or an empty one) → move the damaged files
aside under a name with a time → move the replacement in. A crash in between leaves either the damaged file
or the finished replacement. What the replacement leaves open is marked, never silently done again."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
from msgspec import Struct

from hermes.domain.clock import Clock
from hermes.domain.errors import UserError
from hermes.state.home.homes import RESTORED_MARK
from hermes.state.home.wholefile import sync_file, sync_folder
from hermes.state.store import sqlite
from hermes.state.store.care.backup import backups_of, made_at
from hermes.state.store.care.file_identity import rescued
from hermes.state.store.care.reserve import give_up_reserve
from hermes.state.store.care.walfile import has_log, log_damage, log_of
from hermes.state.store.migrations import DamagedDatabase, check_version
from hermes.state.store.sqlite import DiskFull
from hermes.state.store.writer import SqliteStore

if TYPE_CHECKING:
    from hermes.state.store.care.salvage import SalvageReport

log = logging.getLogger("hermes.store")

# What a full check at start may cost: about a second for a large file after a crash, little after a clean
# stop. Larger files are checked in the background.
_CHECKED_WHEN_CLEAN = 16 * 1024 * 1024
_CHECKED_WHEN_UNCLEAN = 256 * 1024 * 1024
_MISSING = "it is missing"
INDEXES = ("words", "letters")
_ALL_INDEXED = "UPDATE facts SET value = (SELECT coalesce(max(n), 0) FROM journal) WHERE name = 'indexed'"
_TOLD_TABLES = {"inbox", "turns", "journal", "outbox", "sessions", "questions", "jobs"}


class OpenedStore(Struct, frozen=True, kw_only=True):
    """An open store, and what the operator has to know about how it came to be open."""

    store: SqliteStore
    notices: tuple[str, ...] = ()
    check_later: bool = False
    """The file was not checked in full: run `store.check_integrity()` in the background."""


class _Inspection(Struct, frozen=True, kw_only=True):
    damage: str = ""
    readable: bool = False
    index_only: bool = False
    restored: bool = False
    check_later: bool = False


async def open_checked(
    path: Path, clock: Clock, options: sqlite.StoreOptions = sqlite.DEFAULTS
) -> OpenedStore:
    """Open the database of a home, or what is left of it; on a full disk its reserve is given up."""
    try:
        return await _open_sound(path, clock, options)
    except DiskFull:
        if not await asyncio.to_thread(give_up_reserve, path.parent):
            raise
    return await _open_sound(path, clock, options)


async def _open_sound(path: Path, clock: Clock, options: sqlite.StoreOptions) -> OpenedStore:
    notices, later = await asyncio.to_thread(_make_sound, path, clock.now(), options)
    store = await SqliteStore(path, options).open()
    return OpenedStore(store=store, notices=tuple(notices), check_later=later)


def _make_sound(path: Path, now: datetime, options: sqlite.StoreOptions) -> tuple[list[str], bool]:
    notices = _finish_swap(path, now)
    mark = path.with_name(RESTORED_MARK)
    if not path.exists() and not backups_of(path) and not rescued(path).exists():
        _set_aside(path, now)
        mark.unlink(missing_ok=True)
        return notices, False
    try:
        inspection = (
            _examine(path, options) if path.exists() else _Inspection(damage=_MISSING, restored=mark.exists())
        )
        if inspection.index_only and _rebuild_index(path, options):
            notices.append(f"The search index in {path.name} was damaged; it was built anew.")
        elif inspection.damage:
            notices += _replace(path, inspection, now, options)
        for settled in (sqlite.suspicion(path), rescued(path), mark):
            settled.unlink(missing_ok=True)
    except (apsw.Error, OSError) as error:
        raise sqlite.as_user_error(error, path) from error
    return notices, inspection.check_later


# --- looking ---


def _examine(path: Path, options: sqlite.StoreOptions) -> _Inspection:
    if path.stat().st_size == 0:
        used = bool(backups_of(path)) or has_log(path)
        return _Inspection(damage="it is empty" if used else "")
    try:
        with closing(sqlite.look_into(path, options)) as db:
            return _examine_open(path, db)
    except DamagedDatabase as error:
        return _Inspection(damage=error.message)
    except sqlite.NOT_DAMAGE:
        raise
    except (apsw.Error, ValueError, TypeError) as error:
        return _Inspection(damage=str(error))


def _examine_open(path: Path, db: sqlite.SqliteDb) -> _Inspection:
    if check_version(db, str(path)) == 0:
        # Its first opening was cut off, or it was there and is gone.
        return _Inspection(damage="it holds nothing" if backups_of(path) else "")
    last = db.one("SELECT closed_at FROM boots ORDER BY epoch DESC LIMIT 1")
    unclean = last is not None and last[0] is None
    size = path.stat().st_size
    limit = _CHECKED_WHEN_UNCLEAN if unclean else _CHECKED_WHEN_CLEAN
    full = size <= limit or sqlite.suspicion(path).exists()
    problems = sqlite.problems_of(db) if full else []
    if problems:
        index_only = all("fts5" in problem.lower() for problem in problems)
        return _Inspection(damage=problems[0], index_only=index_only)
    dropped = log_damage(path)
    return _Inspection(damage=dropped, readable=bool(dropped), check_later=not full and unclean)


# --- replacing ---


def _replace(path: Path, inspection: _Inspection, now: datetime, options: sqlite.StoreOptions) -> list[str]:
    new = _new_of(path)
    origin, marks = _prepare(path, new, inspection, now, options)
    aside = _set_aside(path, now)
    new.replace(path)
    sync_folder(path.parent)
    if inspection.restored and origin:
        return [f"The restored database was opened. {origin}: {marks}"]
    kept = f"{path} was damaged ({inspection.damage}); it was kept as {aside.name if aside else 'nothing'}."
    if inspection.damage == _MISSING:
        kept = f"{path} was missing."
    if not origin:
        return [kept, "There was no good backup, so an empty database was begun."]
    return [kept, f"{origin} was opened instead. {marks}"]


def _prepare(
    path: Path, new: Path, inspection: _Inspection, now: datetime, options: sqlite.StoreOptions
) -> tuple[str, str]:
    """Build the replacement; what it was made from, if anything, and what came of that."""
    for origin, candidate in _candidates(path, inspection):
        _remove(new)
        shutil.copyfile(candidate, new)
        if candidate == path:
            shutil.copyfile(log_of(path), log_of(new))
        try:
            if _is_sound(new, options):
                return origin, _mark(path, new, now, options, restored=inspection.restored)
        except (*sqlite.NOT_DAMAGE, OSError, MemoryError):
            raise
        except Exception as error:  # whatever it holds, there may be a better one
            log.warning("store.bad_candidate file=%s problem=%r", candidate.name, error)
    _remove(new)
    sqlite.open_current(new, options).close()
    sync_file(new)
    return "", ""


def _is_sound(new: Path, options: sqlite.StoreOptions) -> bool:
    if new.stat().st_size == 0:
        return False
    with closing(sqlite.open_current(new, options)) as db:
        sound = not sqlite.problems_of(db)
        db.run("PRAGMA wal_checkpoint(TRUNCATE)")
        return sound


def _candidates(path: Path, inspection: _Inspection) -> Iterator[tuple[str, Path]]:
    if inspection.readable:
        yield "What could still be read of it", path
    if not path.exists() and rescued(path).exists():
        yield "What was saved of it", rescued(path)
    for made in backups_of(path):
        yield f"The backup of {made_at(made):%Y-%m-%d %H:%M} UTC", made


def _mark(path: Path, new: Path, now: datetime, options: sqlite.StoreOptions, *, restored: bool) -> str:
    """Take over what the damaged file still holds and settle what may have gone on since; the outcome."""
    from hermes.state.store.care.restored import settle_restored  # nearly every start does without it
    from hermes.state.store.care.salvage import nothing_salvaged

    with closing(sqlite.open_current(new, options)) as db:
        db.run("BEGIN IMMEDIATE")
        try:
            saved = _salvage(path, db, options)
            settled = settle_restored(db, saved, now)
        except (*sqlite.NOT_DAMAGE, OSError, MemoryError):
            raise
        except Exception:  # whatever the damaged file holds, the replacement is good without it
            log.exception("store.not_salvaged file=%s", path)
            db.run("ROLLBACK")
            db.run("BEGIN IMMEDIATE")
            saved = nothing_salvaged(db)
            settled = settle_restored(db, saved, now)
        rows = sum(n > saved.highest["inbox"] for n in saved.read["inbox"])
        db.run("COMMIT")
        db.run("PRAGMA wal_checkpoint(TRUNCATE)")
    sync_file(new)
    if restored:  # nothing was there that could not be read
        settled.lost, settled.blind = 0, False
        return f"{settled}."
    partly = sorted(_TOLD_TABLES - saved.whole)
    missing = f" What came later is missing in part from {', '.join(partly)}." if partly else ""
    return f"{rows} later incoming messages were saved.{missing} In all: {settled}."


def _salvage(path: Path, new: sqlite.SqliteDb, options: sqlite.StoreOptions) -> SalvageReport:
    from hermes.state.store.care.salvage import nothing_salvaged, salvage

    if not path.exists() or path.stat().st_size == 0:
        return nothing_salvaged(new)
    with closing(sqlite.look_into(path, options)) as old:
        saved = salvage(old, new)
        try:
            trusted = not log_damage(path)
        except FileNotFoundError:
            # Nobody could read the log, so SQLite made no index of it.
            trusted = False
    if not trusted:
        # What can be read is not how it was at the last moment.
        saved.whole.clear()
        saved.read = {queue: set() for queue in saved.read}
    return saved


# --- moving files ---


def _new_of(path: Path) -> Path:
    return path.with_name(path.name + ".new")


def _remove(path: Path) -> None:
    for file in (path, log_of(path), path.with_name(path.name + "-shm")):
        file.unlink(missing_ok=True)


def _finish_swap(path: Path, now: datetime) -> list[str]:
    """A replacement that lies beside no original was finished: only its last move is missing."""
    new = _new_of(path)
    if not new.exists():
        return []
    if path.exists():
        _remove(new)
        return []
    _set_aside(path, now)
    new.replace(path)
    sync_folder(path.parent)
    return [f"A repair of {path} that was cut off has been finished."]


def _set_aside(path: Path, now: datetime) -> Path | None:
    """Move the files of a database away under a name with a time, the main file first: should the rest not
    happen, nothing opens the log without it."""
    aside = path.with_name(f"{path.name}.damaged-{now.astimezone(UTC):%Y%m%dT%H%M%SZ}")
    number = 1
    while aside.exists() or log_of(aside).exists():
        number += 1
        aside = path.with_name(f"{path.name}.damaged-{now.astimezone(UTC):%Y%m%dT%H%M%SZ}-{number}")
    moved = None
    for file, to in ((path, aside), (log_of(path), log_of(aside))):
        if file.exists():
            file.replace(to)
            sync_folder(path.parent)
            moved = aside
    path.with_name(path.name + "-shm").unlink(missing_ok=True)
    return moved


def _rebuild_index(path: Path, options: sqlite.StoreOptions) -> bool:
    """False if more is damaged than the index."""
    for prepare in (_leave_index, _renew_index):
        try:
            with closing(sqlite.open_current(path, options)) as db:
                db.run("BEGIN IMMEDIATE")
                prepare(db)
                for index in INDEXES:
                    db.run(f"INSERT INTO {index} ({index}) VALUES ('rebuild')")
                db.run(_ALL_INDEXED)
                if not sqlite.problems_of(db):
                    db.run("COMMIT")
                    return True
        except sqlite.NOT_DAMAGE:
            raise
        except (apsw.Error, UserError, ValueError) as error:
            log.warning("store.index_not_rebuilt by=%s problem=%s", prepare.__name__, error)
    return False


def _leave_index(db: sqlite.SqliteDb) -> None:
    """Most damage is in what the index holds, and its own `rebuild` repairs that."""


def _renew_index(db: sqlite.SqliteDb) -> None:
    """Without its settings SQLite neither rebuilds nor drops an index: take its tables apart by hand."""
    with closing(sqlite.open_current(None)) as fresh:
        made = fresh.all("SELECT name, sql FROM sqlite_schema WHERE name IN (?, ?)", *INDEXES)
    db.run("PRAGMA writable_schema = ON")
    for index in INDEXES:
        db.run("DELETE FROM sqlite_schema WHERE name = ?", index)
    db.run("PRAGMA writable_schema = RESET")
    for index, statement in made:
        for part in ("data", "idx", "docsize", "config", "content"):
            db.run(f"DROP TABLE IF EXISTS {index}_{part}")
        db.run(statement)
