"""Files of this machine, served in-process. Relative paths start where the session's shell stands."""

from __future__ import annotations

import asyncio
import os
import stat
import tempfile
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

from hermes.domain.errors import UserError
from hermes.domain.ports.world import FileMatches, FileSearch, FileView
from hermes.execution.local.search import search_tree

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
_MOST_LISTED = 10_000
_NEW_MODE = 0o644
"""What the shell's umask would leave; reading our own means setting it, which is everybody's."""


class LocalFiles:
    """The `Files` port. `cwd` tells where a session stands; `home` is what `~` means."""

    def __init__(self, cwd: Callable[[str], str], home: str) -> None:
        self._cwd = cwd
        self._home = home

    async def read(self, session: str, path: str, *, start: int = 0, limit: int = 1 << 20) -> bytes:
        return await _beside("read", _read, self.resolve(session, path), start, limit)

    async def write(self, session: str, path: str, data: bytes) -> None:
        await _beside("written", _write, self.resolve(session, path), data)

    async def stat(self, session: str, path: str) -> FileView | None:
        return await _beside("looked at", _stat, self.resolve(session, path))

    async def list(self, session: str, path: str) -> list[FileView]:
        return await _beside("listed", _list, self.resolve(session, path))

    async def search(self, search: FileSearch) -> FileMatches:
        full = self.resolve(search.session, search.under)
        if not await asyncio.to_thread(os.path.exists, full):
            raise UserError(f"There is no {full}.")
        return await asyncio.to_thread(search_tree, full, search)

    def resolve(self, session: str, path: str) -> str:
        if "\0" in path:
            raise UserError("A path cannot contain a NUL character.")
        if path == "~" or path.startswith("~/"):
            path = self._home + path[1:]
        return os.path.normpath(os.path.join(self._cwd(session), path or "."))


async def _beside(verb: str, work: Callable[[str, *Ts], T], path: str, *args: *Ts) -> T:
    try:
        return await asyncio.to_thread(work, path, *args)
    except FileNotFoundError:
        raise UserError(f"There is no {path}.") from None
    except IsADirectoryError:
        raise UserError(f"{path} is a folder.") from None
    except OSError as error:
        raise UserError(f"{path} cannot be {verb}: {error.strerror or error}.") from None


def _read(path: str, start: int, limit: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError
        if not stat.S_ISREG(mode):
            # A device or a pipe may never end, or never begin.
            raise OSError(0, "it is not a regular file")
        file.seek(start)
        return file.read(limit)


def _write(path: str, data: bytes) -> None:
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    try:
        before: os.stat_result | None = os.stat(target)
    except FileNotFoundError:
        before = None
    if before is not None and not stat.S_ISREG(before.st_mode):
        raise IsADirectoryError if stat.S_ISDIR(before.st_mode) else OSError(0, "it is not a regular file")
    if before is not None and not os.access(target, os.W_OK):
        raise PermissionError(0, "permission denied")
    os.makedirs(folder, exist_ok=True)
    descriptor, fresh = tempfile.mkstemp(prefix=".hermes-", dir=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), stat.S_IMODE(before.st_mode) if before else _NEW_MODE)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, target)
    except BaseException:
        os.unlink(fresh)
        raise


def _stat(path: str) -> FileView | None:
    try:
        return _view(os.path.realpath(path))
    except (FileNotFoundError, NotADirectoryError):
        return None


def _view(path: str) -> FileView:
    info = os.stat(path)
    return FileView(
        path=path,
        size=info.st_size,
        folder=stat.S_ISDIR(info.st_mode),
        mode=stat.S_IMODE(info.st_mode),
        changed=info.st_mtime,
    )


def _list(path: str) -> list[FileView]:
    names = sorted(os.listdir(path))[:_MOST_LISTED]
    views: list[FileView] = []
    for name in names:
        try:
            views.append(_view(os.path.join(path, name)))
        except OSError:
            continue
    return views
