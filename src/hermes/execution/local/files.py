"""Files of this machine, served in-process. Relative paths start where the session's shell stands."""

from __future__ import annotations

import asyncio
import os
import stat
import tempfile
from collections.abc import Callable
from typing import TypeVar

from hermes.domain.errors import UserError
from hermes.domain.ports.world import FileMatches, FileSearch, FileView
from hermes.execution.local.search import search_tree

T = TypeVar("T")
_MOST_LISTED = 10_000


class LocalFiles:
    """The `Files` port. `cwd` tells where a session stands; `home` is what `~` means."""

    def __init__(self, cwd: Callable[[str], str], home: str) -> None:
        self._cwd = cwd
        self._home = home

    async def read(self, session: str, path: str, *, start: int = 0, limit: int = 1 << 20) -> bytes:
        full = self.resolve(session, path)
        return await _beside(lambda: _read(full, start, limit), full, "read")

    async def write(self, session: str, path: str, data: bytes) -> None:
        full = self.resolve(session, path)
        await _beside(lambda: _write(full, data), full, "written")

    async def stat(self, session: str, path: str) -> FileView | None:
        full = self.resolve(session, path)
        return await _beside(lambda: _stat(full), full, "looked at")

    async def list(self, session: str, path: str) -> list[FileView]:
        full = self.resolve(session, path)
        return await _beside(lambda: _list(full), full, "listed")

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


async def _beside(work: Callable[[], T], path: str, verb: str) -> T:
    try:
        return await asyncio.to_thread(work)
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
            os.fchmod(file.fileno(), stat.S_IMODE(before.st_mode) if before else _new_mode())
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, target)
    except BaseException:
        os.unlink(fresh)
        raise


def _new_mode() -> int:
    """What the shell's umask would leave; reading our own means setting it, which is everybody's."""
    return 0o644


def _stat(path: str) -> FileView | None:
    try:
        return _view(os.path.realpath(path))
    except (FileNotFoundError, NotADirectoryError):
        return None


def _view(path: str) -> FileView:
    found = os.stat(path)
    return FileView(
        path=path,
        size=found.st_size,
        folder=stat.S_ISDIR(found.st_mode),
        mode=stat.S_IMODE(found.st_mode),
        changed=found.st_mtime,
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
