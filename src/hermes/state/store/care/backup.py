"""Backups of the database: whole, checked copies in `backups/` beside it, made while the store is in use.
A copy counts only after SQLite found nothing wrong with it. The newest is kept, and the last one of each of
the days before; a database in which nothing happened yet gives none."""

from __future__ import annotations

import logging
import os
import re
import shutil
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw

from hermes.domain.errors import Unreachable
from hermes.state.home.wholefile import sync_file, sync_folder
from hermes.state.store import connection
from hermes.state.store.care.reserve import SIZE as SPARE_BYTES
from hermes.state.store.db import DamagedDatabase
from hermes.state.store.migrations import check_version

log = logging.getLogger("hermes.store")

KEPT = 3
MOST_AGE = timedelta(days=1)
_PAGES_AT_ONCE = 2048
_STEPS_AT_ONCE = 100_000
_NUMBERED = ("inbox", "turns", "journal", "outbox")
_COUNTED = ("sessions", "jobs", "pairings", "grants")
_STAMP = "%Y%m%dT%H%M%SZ"
_NAME = re.compile(r"state-(\d{8}T\d{6}Z)\.db")


def folder_of(path: Path) -> Path:
    return path.parent / "backups"


def backups_of(path: Path) -> list[Path]:
    """The backups of a database, newest first."""
    folder = folder_of(path)
    if not folder.is_dir():
        return []
    return sorted((one for one in folder.iterdir() if _NAME.fullmatch(one.name)), reverse=True)


def made_at(backup_file: Path) -> datetime:
    match = _NAME.fullmatch(backup_file.name)
    assert match is not None
    return datetime.strptime(match[1], _STAMP).replace(tzinfo=UTC)


def _never() -> bool:
    return False


def backup(
    path: Path,
    now: datetime,
    options: connection.StoreOptions = connection.DEFAULTS,
    give_up: Callable[[], bool] = _never,
) -> Path:
    """Copy the database as it is at this moment and return where. Blocking; writers go on meanwhile.

    `DamagedDatabase` if the original is damaged, `Unreachable` without room or when `give_up` says so."""
    folder = folder_of(path)
    stamp = now.astimezone(UTC).strftime(_STAMP)
    draft, final = folder / f".state-{stamp}-{os.urandom(4).hex()}.part", folder / f"state-{stamp}.db"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _leave_room(path, folder)
        _copy(path, draft, options, give_up)
        _verify(draft, give_up)
        sync_file(draft)
        draft.replace(final)
    except connection.DAMAGE as error:
        raise DamagedDatabase(f"{path} is damaged ({error}), so no backup was made.") from error
    except apsw.InterruptError as error:
        raise Unreachable("no backup was made: it would have taken too long") from error
    except (apsw.Error, OSError) as error:
        raise Unreachable(f"no backup was made: {connection.describe(error)}") from error
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
    sync_folder(folder)
    _rotate(path, final)
    log.info("store.backup file=%s", final.name)
    return final


def backup_if_due(
    path: Path,
    now: datetime,
    options: connection.StoreOptions = connection.DEFAULTS,
    give_up: Callable[[], bool] = _never,
) -> Path | None:
    """A backup, if the last one worth the name is older than a day."""
    made = backups_of(path)
    fresh = bool(made) and timedelta(0) <= now - made_at(made[0]) < MOST_AGE
    if not _holds_something(path, options) or (fresh and _holds_something(made[0], connection.DEFAULTS)):
        return None
    return backup(path, now, options, give_up)


def backup_at_stop(
    path: Path,
    now: datetime,
    options: connection.StoreOptions = connection.DEFAULTS,
    give_up: Callable[[], bool] = _never,
) -> Path | None:
    """A backup of what happened since the last one."""
    made = backups_of(path)
    if not _holds_something(path, options) or (
        made and _marks(made[0], connection.DEFAULTS) == _marks(path, options)
    ):
        return None
    return backup(path, now, options, give_up)


def _rotate(path: Path, newest: Path) -> None:
    """Keep the newest, and the last of each day before: several stops on one day cost no older day."""
    kept = {made_at(newest).date().isoformat()}
    # A clock that was wrong once must not cost the backup that was just made.
    for made in (made for made in backups_of(path) if made != newest):
        day = made_at(made).date().isoformat()
        if day in kept or len(kept) == KEPT:
            made.unlink(missing_ok=True)
        kept.add(day)


def _holds_something(path: Path, options: connection.StoreOptions) -> bool:
    """Whether anything would be missed: words, jobs, people."""
    return any(_marks(path, options))


def _marks(path: Path, options: connection.StoreOptions) -> tuple[int, ...]:
    """How far each table has come that a person would miss; nothing if it cannot be read."""
    if not path.stat().st_size:
        return ()
    marks = ", ".join(f"(SELECT coalesce(max(rowid), 0) FROM {table})" for table in _NUMBERED)
    counts = ", ".join(f"(SELECT count(*) FROM {table})" for table in _COUNTED)
    try:
        with closing(connection.look_into(path, options)) as db:
            row = db.one(f"SELECT {marks}, {counts}")
    except apsw.Error as error:
        log.info("store.backup unreadable=%s problem=%s", path.name, error)
        return ()
    return tuple(row or ())


def _leave_room(path: Path, folder: Path) -> None:
    needed = path.stat().st_size
    if shutil.disk_usage(folder).free < needed + SPARE_BYTES // 4:
        raise Unreachable("no backup was made: there is too little room on the disk")


def _copy(path: Path, draft: Path, options: connection.StoreOptions, give_up: Callable[[], bool]) -> None:
    draft.touch(mode=0o600)
    with (
        closing(connection.connect_reader(path, options)) as source,
        closing(apsw.Connection(str(draft))) as target,
    ):
        # The file counts once it is whole and synced, so its own journal would be work for nothing.
        target.execute("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF").fetchall()
        # Within one transaction all steps see the same moment, whatever is written meanwhile.
        source.run("BEGIN")
        source.one("SELECT 1 FROM facts")
        with target.backup("main", source.connection, "main") as copying:
            while not copying.done:
                if give_up():
                    raise apsw.InterruptError("interrupted")
                copying.step(_PAGES_AT_ONCE)


def _verify(draft: Path, give_up: Callable[[], bool]) -> None:
    with closing(connection.look_into(draft)) as db:
        db.connection.set_progress_handler(give_up, _STEPS_AT_ONCE)
        check_version(db, str(draft))
        problems = connection.problems_of(db)
    if problems:
        raise apsw.CorruptError(problems[0])
