"""What somebody may ask for a database that no gateway has open: to examine and mend it now, and to make it
as small and as quick as it can be. At a start, repair happens by itself (`repair.py`)."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import apsw
from msgspec import Struct

from hermes.domain.clock import Clock
from hermes.domain.errors import UserError
from hermes.domain.text import size_told
from hermes.state.store import sqlite
from hermes.state.store.care.repair import INDEXES, open_checked
from hermes.state.store.care.walfile import log_of


class OptimizedFile(Struct, frozen=True, kw_only=True):
    before: int
    after: int
    """Bytes of the file and its log."""


async def examine_in_full(path: Path, clock: Clock) -> tuple[str, ...]:
    """Check every page, and mend what is damaged as a start would; what was done."""
    sqlite.suspicion(path).touch()
    opened = await open_checked(path, clock)
    await opened.store.close()
    return opened.notices


def optimize(path: Path) -> OptimizedFile:
    """Merge the search indexes, and write the file anew without what was deleted. Cut off, it stays as it
    was."""
    before = _size(path)
    free = shutil.disk_usage(path.parent).free
    if free < 2 * before:
        raise UserError(
            f"There is too little room to write {path} anew: {size_told(free)} are free.",
            hint=f"Free some space until there are {size_told(2 * before)}, then try again.",
        )
    try:
        with closing(sqlite.open_current(path)) as db:
            for index in (*INDEXES, "memory_words"):
                db.run(f"INSERT INTO {index} ({index}) VALUES ('optimize')")
            db.run("VACUUM")
            db.run("PRAGMA optimize")
            db.run("PRAGMA wal_checkpoint(TRUNCATE)")
    except (apsw.Error, OSError) as error:
        raise sqlite.as_user_error(error, path) from error
    return OptimizedFile(before=before, after=_size(path))


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in (path, log_of(path)) if file.exists())
