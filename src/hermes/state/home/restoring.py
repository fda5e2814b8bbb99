"""Putting an archive back in place of a home.

Its life: everything is unpacked and checked in `.restoring/` → `ready` is written, and from now on the
restore is finished, never taken back → what stood in the home moves to `before-restore/<time>/` → `moved` is
written → what was unpacked moves in → `.restoring/` goes. A crash anywhere leaves the home as it was, or a
restore that `hermes backup restore` finishes; until then no gateway starts on it. The database comes back as
a backup of itself, so the next start treats it as one: what may have gone on since is marked, and never done
again."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

from hermes.domain.errors import UserError
from hermes.state.home.archive import (
    BACKUPS_FOLDER,
    BEFORE_RESTORE,
    KEPT_OUT,
    ArchiveManifest,
    Progress,
    unpack_archive,
)
from hermes.state.home.homes import RESTORING
from hermes.state.home.wholefile import sync_folder, write_whole

_READY, _MOVED, _NEW = "ready", "moved", "new"
_OURS_NOW = ("gateway.lock", "gateway.pid")
"""Files of the process that restores."""


def is_unfinished(home: Path) -> bool:
    return (home / RESTORING / _READY).exists()


def restore(home: Path, source: Path, progress: Progress) -> ArchiveManifest:
    """Put an archive in place of what stands in a home that nobody else works on. Blocking."""
    staging = home / RESTORING
    if is_unfinished(home):
        raise UserError("An earlier restore is not finished.", hint="Finish it: hermes backup restore")
    shutil.rmtree(staging, ignore_errors=True)
    (staging / _NEW).mkdir(mode=0o700, parents=True)
    try:
        manifest = unpack_archive(source, staging / _NEW, progress)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    for folder, _, _ in os.walk(staging):
        sync_folder(Path(folder))
    write_whole(staging / _READY, f"{datetime.now(UTC):%Y%m%d-%H%M%S}".encode())
    finish_restore(home)
    return manifest


def finish_restore(home: Path) -> Path:
    """Finish a restore that was made ready; where the home's earlier content is now."""
    staging = home / RESTORING
    aside = home / BEFORE_RESTORE / (staging / _READY).read_text()
    if not (staging / _MOVED).exists():
        aside.parent.mkdir(mode=0o700, exist_ok=True)
        aside.mkdir(mode=0o700, exist_ok=True)
        kept = KEPT_OUT - {BACKUPS_FOLDER} | set(_OURS_NOW)
        for name in sorted(name for name in os.listdir(home) if name not in kept):
            os.rename(home / name, aside / name)
        sync_folder(aside)
        sync_folder(home)
        write_whole(staging / _MOVED, b"")
    for name in sorted(os.listdir(staging / _NEW)):
        os.rename(staging / _NEW / name, home / name)
    sync_folder(home)
    (staging / _READY).unlink()
    sync_folder(staging)
    shutil.rmtree(staging, ignore_errors=True)
    return aside
