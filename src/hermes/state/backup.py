"""Backups of the database: whole, checked copies in `backups/` beside it, made while the store is in use.
A copy counts only after SQLite found nothing wrong with it; the newest few are kept."""

from __future__ import annotations

import logging
import re
import shutil
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw

from hermes.domain.errors import Unreachable
from hermes.state.db import Damaged
from hermes.state.engine import DAMAGE, DEFAULTS, StoreOptions, connect, describe, look_into, problems_of
from hermes.state.migrate import check_version
from hermes.state.reserve import SIZE as SPARE_BYTES
from hermes.state.wholefile import sync_file, sync_folder

log = logging.getLogger("hermes.store")

KEPT = 3
MOST_AGE = timedelta(days=1)
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


def backup(path: Path, now: datetime, options: StoreOptions = DEFAULTS) -> Path:
    """Copy the database as it is at this moment and return where. Blocking; writers go on meanwhile.

    `Damaged` if the original turns out to be, `Unreachable` if there is no room."""
    folder = folder_of(path)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _leave_room(path, folder)
    stamp = now.astimezone(UTC).strftime(_STAMP)
    draft, final = folder / f".state-{stamp}.part", folder / f"state-{stamp}.db"
    try:
        _copy(path, draft, options)
        _verify(draft)
        sync_file(draft)
        draft.replace(final)
    except DAMAGE as error:
        raise Damaged(f"{path} is damaged ({error}), so no backup was made.") from error
    except (apsw.Error, OSError) as error:
        raise Unreachable(f"no backup was made: {describe(error)}") from error
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(folder)
    for old in backups_of(path)[KEPT:]:
        old.unlink(missing_ok=True)
    log.info("store.backup file=%s", final.name)
    return final


def backup_if_due(path: Path, now: datetime, options: StoreOptions = DEFAULTS) -> Path | None:
    """A backup, if the last one is older than a day; for the daily round and the clean stop."""
    made = backups_of(path)
    if made and timedelta(0) <= now - made_at(made[0]) < MOST_AGE:
        return None
    return backup(path, now, options)


def _leave_room(path: Path, folder: Path) -> None:
    needed = path.stat().st_size
    if shutil.disk_usage(folder).free < needed + SPARE_BYTES // 4:
        raise Unreachable("no backup was made: there is too little room on the disk")


def _copy(path: Path, draft: Path, options: StoreOptions) -> None:
    draft.unlink(missing_ok=True)
    draft.touch(mode=0o600)
    with closing(connect(path, options)) as db:
        db.run("VACUUM INTO ?", str(draft))


def _verify(draft: Path) -> None:
    with closing(look_into(draft)) as db:
        check_version(db, str(draft))
        problems = problems_of(db)
    if problems:
        raise apsw.CorruptError(problems[0])
