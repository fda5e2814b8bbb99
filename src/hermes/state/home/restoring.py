"""Putting an archive back in place of a home.

Its life: everything is unpacked and checked in `.restoring/` → `ready` is written, and from now on the
restore is finished, never taken back → what stood in the home moves to `before-restore/<time>/` → `moved` is
written → what was unpacked moves in → `.restoring/` goes. A crash anywhere leaves the home as it was, or a
restore that `hermes backup restore` finishes; until then nothing else works on it. A quick backup replaces
only the files that it holds. The database comes back as a backup of itself, so the next start treats it as
one: what may have gone on since is marked, and never done again."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path
from typing import IO

from hermes.domain.errors import UserError
from hermes.state.home.archive import (
    BACKUPS_FOLDER,
    BEFORE_RESTORE,
    KEPT_OUT,
    ArchiveManifest,
    Progress,
    unpack_archive,
)
from hermes.state.home.homes import RESTORED_MARK, RESTORING
from hermes.state.home.wholefile import sync_folder, write_whole

_READY, _MOVED, _NEW, _OVERLAY = "ready", "moved", "new", "overlay"
_STAYING = KEPT_OUT - {BACKUPS_FOLDER} | {"gateway.lock", "gateway.pid"}
"""What no restore touches: with it the files of the process that restores."""
_MOUNTS = Path("/proc/self/mountinfo")
_OCTAL = re.compile(r"\\([0-7]{3})")


def is_unfinished(home: Path) -> bool:
    return (home / RESTORING / _READY).exists()


def restore(
    home: Path,
    source: Path,
    progress: Progress,
    content: IO[bytes] | None = None,
    check: Callable[[Path, Path], None] = lambda database, source: None,
) -> ArchiveManifest:
    """Put an archive in place of what stands in a home that nobody else works on, if the `check` of its
    database has nothing against it. Blocking."""
    staging = home / RESTORING
    if is_unfinished(home):
        raise UserError("An earlier restore is not finished.", hint="Finish it: hermes backup restore")
    _check_mounts(home)
    shutil.rmtree(staging, ignore_errors=True)
    (staging / _NEW).mkdir(mode=0o700, parents=True)
    try:
        manifest = unpack_archive(source, staging / _NEW, progress, content)
        if manifest.database:
            check(staging / _NEW / manifest.database, source)
            write_whole(staging / _NEW / RESTORED_MARK, b"")
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    for folder, _, _ in os.walk(staging):
        sync_folder(Path(folder))
    if manifest.quick:
        write_whole(staging / _OVERLAY, b"")
    name = _free(home / BEFORE_RESTORE / f"{datetime.now(UTC):%Y%m%d-%H%M%S}").name
    write_whole(staging / _READY, name.encode())
    finish_restore(home)
    return manifest


def _check_mounts(home: Path) -> None:
    """A folder on which something is mounted cannot be moved, or what is mounted hides what came back."""
    try:
        lines = _MOUNTS.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return  # no Linux
    places = (_OCTAL.sub(lambda match: chr(int(match[1], 8)), line.split()[4]) for line in lines)
    inside = os.path.realpath(home) + os.sep
    for place in (place for place in places if place.startswith(inside)):
        if place.removeprefix(inside).partition(os.sep)[0] not in _STAYING:
            raise UserError(
                f"{place} is a mount point: a restore cannot move it.",
                hint="Unmount it for the restore, or restore into another home (HERMES_HOME).",
            )


def finish_restore(home: Path) -> Path:
    """Finish a restore that was made ready; where the home's earlier content is now."""
    staging = home / RESTORING
    new, overlay = staging / _NEW, (staging / _OVERLAY).exists()
    aside = home / BEFORE_RESTORE / (staging / _READY).read_text()
    try:
        if not (staging / _MOVED).exists():
            aside.mkdir(mode=0o700, parents=True, exist_ok=True)
            names = _files(new) if overlay else sorted(set(os.listdir(home)) - _STAYING)
            for name in (name for name in names if os.path.lexists(home / name)):
                _move(home / name, aside / name)
            sync_folder(home)
            write_whole(staging / _MOVED, b"")
        for name in _files(new) if overlay else sorted(os.listdir(new)):
            if os.path.lexists(home / name):  # somebody made it since
                _move(home / name, _free(aside / name))
            _move(new / name, home / name)
        sync_folder(home)
    except OSError as error:
        raise UserError(
            f"{error.filename} cannot be moved ({error.strerror}).",
            hint="Mend that, and finish: hermes backup restore",
        ) from None
    (staging / _READY).unlink()
    sync_folder(staging)
    shutil.rmtree(staging, ignore_errors=True)
    return aside


def _files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


def _move(old: Path, new: Path) -> None:
    new.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.rename(old, new)
    sync_folder(new.parent)


def _free(path: Path) -> Path:
    """The path, or one like it that is not taken."""
    others = (path.with_name(f"{path.name}-{n}") for n in count(2))
    return next(each for each in chain([path], others) if not os.path.lexists(each))
