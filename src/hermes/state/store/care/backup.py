"""Backups of the database: whole, checked copies in `backups/` beside it, made while the store is in use.
A copy counts only after SQLite found nothing wrong with it. The newest is kept, and the last one of each of
the days before; a database in which nothing happened gives none. There is one a day and one at a stop."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import time
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw

from hermes.domain.clock import Clock
from hermes.domain.errors import HermesError, Unreachable, UserError
from hermes.state.home.wholefile import sync_file, sync_folder
from hermes.state.store import sqlite
from hermes.state.store.care.reserve import SIZE as SPARE_BYTES
from hermes.state.store.migrations import DamagedDatabase, check_version
from hermes.state.store.writer import SqliteStore

log = logging.getLogger("hermes.store")

KEPT = 3
MOST_AGE = timedelta(days=1)
_PAGES_AT_ONCE = 2048
_STEPS_AT_ONCE = 100_000
_NUMBERED = ("inbox", "turns", "journal", "outbox")
_COUNTED = ("sessions", "jobs", "pairings", "grants")
_STAMP = "%Y%m%dT%H%M%SZ"
STOP_SECONDS = 3.0
_NAME = re.compile(r"state-(\d{8}T\d{6}Z)\.db")


def folder_of(path: Path) -> Path:
    return path.parent / "backups"


def backups_of(path: Path) -> list[Path]:
    """The backups of a database, newest first."""
    folder = folder_of(path)
    if not folder.is_dir():
        return []
    return sorted((file for file in folder.iterdir() if _NAME.fullmatch(file.name)), reverse=True)


def made_at(backup_file: Path) -> datetime:
    match = _NAME.fullmatch(backup_file.name)
    assert match is not None
    return datetime.fromisoformat(match[1])


def _never() -> bool:
    return False


def backup(path: Path, now: datetime, give_up: Callable[[], bool] = _never) -> Path:
    """Copy the database as it is at this moment and return where. Blocking; writers go on meanwhile.
    `DamagedDatabase` if the original is damaged, `Unreachable` without room or when `give_up` says so."""
    folder = folder_of(path)
    stamp = now.astimezone(UTC).strftime(_STAMP)
    draft, final = folder / f".state-{stamp}-{os.urandom(4).hex()}.part", folder / f"state-{stamp}.db"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if shutil.disk_usage(folder).free < path.stat().st_size + SPARE_BYTES // 4:
            raise Unreachable("no backup was made: there is too little room on the disk")
        _copy(path, draft, give_up)
        check_copy(draft, give_up)
        sync_file(draft)
        draft.replace(final)
    except sqlite.DAMAGE as error:
        raise DamagedDatabase(f"{path} is damaged ({error}), so no backup was made.") from error
    except apsw.InterruptError as error:
        raise Unreachable("no backup was made: it would have taken too long") from error
    except (apsw.Error, OSError) as error:
        raise Unreachable(f"no backup was made: {sqlite.describe(error)}") from error
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
    sync_folder(folder)
    _rotate(path, final)
    log.info("store.backup file=%s", final.name)
    return final


def backup_if_due(
    path: Path, now: datetime, give_up: Callable[[], bool] = _never, *, at_stop: bool = False
) -> Path | None:
    """A backup, if the last one worth the name is older than a day; at a stop, if anything happened since."""
    marks, last = _marks(path), next(iter(backups_of(path)), None)
    backed_up = _marks(last) if last else ()
    fresh = last is not None and timedelta(0) <= now - made_at(last) < MOST_AGE
    if not any(marks) or (backed_up == marks if at_stop else fresh and any(backed_up)):
        return None
    return backup(path, now, give_up)


def _rotate(path: Path, newest: Path) -> None:
    """Keep the newest, and the last of each day before: several stops on one day cost no older day."""
    kept = {made_at(newest).date().isoformat()}
    # A clock that was wrong once must not cost the backup that was just made.
    for made in (made for made in backups_of(path) if made != newest):
        day = made_at(made).date().isoformat()
        if day in kept or len(kept) == KEPT:
            made.unlink(missing_ok=True)
        kept.add(day)


def _marks(path: Path) -> tuple[int, ...]:
    """How far the tables have come that a person would miss; nothing if they cannot be read."""
    if not path.stat().st_size:
        return ()
    marks = ", ".join(f"(SELECT coalesce(max(rowid), 0) FROM {table})" for table in _NUMBERED)
    counts = ", ".join(f"(SELECT count(*) FROM {table})" for table in _COUNTED)
    try:
        with closing(sqlite.look_into(path)) as db:
            row = db.one(f"SELECT {marks}, {counts}")
    except apsw.Error as error:
        log.info("store.backup unreadable=%s problem=%s", path.name, error)
        return ()
    return tuple(row or ())


def _copy(path: Path, draft: Path, give_up: Callable[[], bool]) -> None:
    with closing(sqlite.connect_reader(path)) as source:
        # Within one transaction all steps see the same moment, whatever is written meanwhile.
        source.run("BEGIN")
        source.one("SELECT 1 FROM facts")
        sqlite.copy_pages(source.connection, draft, _PAGES_AT_ONCE, give_up)


def check_copy(draft: Path, give_up: Callable[[], bool] = _never, name: str = "") -> None:
    """Let SQLite look at a whole copy; an `apsw.Error` if something is wrong with it."""
    with closing(sqlite.look_into(draft)) as db:
        db.connection.set_progress_handler(give_up, _STEPS_AT_ONCE)
        check_version(db, name or str(draft))
        problems = sqlite.problems_of(db)
    if problems:
        raise apsw.CorruptError(problems[0])


def check_archived(copy: Path, archive: Path) -> None:
    """The same for the copy in an archive of the home; a `UserError` says why it cannot be used."""
    try:
        check_copy(copy, name=f"The database in {archive}")
    except apsw.Error as error:
        why = f"The database in {archive} is damaged ({error})."
        raise UserError(why, hint="Use another backup.") from None


class Upkeep:
    """The care of an open database file. It runs beside the writer and may fail without harm: failures are
    logged. A stop waits only a moment for its backup: a large file has that of its last daily round."""

    def __init__(self, *, store: SqliteStore, path: Path, clock: Clock) -> None:
        self._store = store
        self._path = path
        self._clock = clock
        self._until: float | None = None

    async def back_up(self) -> str:
        """A backup if the last one is older than a day, and only of a file that is known to be sound."""
        if self._store.facts.trouble:
            return "left out: the database has trouble"
        made = await asyncio.to_thread(backup_if_due, self._path, self._clock.now(), give_up=self._is_time_up)
        return "nothing was due" if made is None else f"made {made.name}"

    async def examine(self) -> None:
        try:
            await self._store.check_integrity()
        except HermesError as error:
            log.error("store.damaged problem=%s", error)

    async def stop(self, *, hurry: bool) -> None:
        """Back up what happened since the last time; a backup under way has the same moment to end."""
        self._until = time.monotonic() + (0.0 if hurry else STOP_SECONDS)
        if hurry or self._store.facts.trouble:
            return
        try:
            # An accept looks first whether the file is still the one that is open: no other is backed up.
            await self._store.write(lambda tx: None, first=True)
            await asyncio.to_thread(
                backup_if_due, self._path, self._clock.now(), self._is_time_up, at_stop=True
            )
        except (HermesError, OSError, apsw.Error) as error:
            log.warning("store.no_backup why=%s", error)

    def _is_time_up(self) -> bool:
        return self._until is not None and time.monotonic() > self._until
