"""Files of this machine, served in-process. Relative paths start where the session's shell stands."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import tempfile
from collections.abc import AsyncIterable, Awaitable, Callable
from typing import BinaryIO, TypeVar, TypeVarTuple

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

    def __init__(self, cwd: Callable[[str], Awaitable[str]], home: str) -> None:
        self._cwd = cwd
        self._home = home

    async def read(
        self, session: str, path: str, *, start: int = 0, limit: int = 1 << 20, follow: bool = True
    ) -> bytes:
        return await _beside("read", _read, await self.resolve(session, path), start, limit, follow)

    async def write(self, session: str, path: str, data: bytes | AsyncIterable[bytes]) -> None:
        full = await self.resolve(session, path)
        if isinstance(data, bytes):
            await _beside("written", _write, full, lambda file: file.write(data))
            return
        with tempfile.TemporaryFile() as gathered:
            async for piece in data:
                await asyncio.to_thread(gathered.write, piece)
            gathered.seek(0)
            await _beside("written", _write, full, lambda file: shutil.copyfileobj(gathered, file))

    async def stat(self, session: str, path: str) -> FileView | None:
        return await _beside("looked at", _stat, await self.resolve(session, path))

    async def list(self, session: str, path: str) -> list[FileView]:
        return await _beside("listed", _list, await self.resolve(session, path))

    async def search(self, search: FileSearch) -> FileMatches:
        full = await self.resolve(search.session, search.under)
        if not await asyncio.to_thread(os.path.exists, full):
            raise UserError(f"There is no {full}.")
        return await asyncio.to_thread(search_tree, full, search)

    async def resolve(self, session: str, path: str) -> str:
        if "\0" in path:
            raise UserError("A path cannot contain a NUL character.")
        if path == "~" or path.startswith("~/"):
            path = self._home + path[1:]
        return join_path(await self._cwd(session), path or ".")


def join_path(folder: str, path: str) -> str:
    return os.path.normpath(os.path.join(folder, path))


async def _beside(verb: str, work: Callable[[str, *Ts], T], path: str, *args: *Ts) -> T:
    try:
        return await asyncio.to_thread(work, path, *args)
    except FileNotFoundError:
        raise UserError(f"There is no {path}.") from None
    except IsADirectoryError:
        raise UserError(f"{path} is a folder.") from None
    except ValueError:
        raise UserError(f"{path!r} is no path.") from None
    except OSError as error:
        raise UserError(f"{path} cannot be {verb}: {error.strerror or error}.") from None


def _read(path: str, start: int, limit: int, follow: bool) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not follow and _opened(descriptor, path) != path:
            raise OSError(0, "it leads elsewhere by now")
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError
        if not stat.S_ISREG(mode):
            # A device or a pipe may never end, or never begin.
            raise OSError(0, "it is not a regular file")
        file.seek(start)
        return file.read(limit)


def _opened(descriptor: int, path: str) -> str:
    """The path of an open file, where the system tells it."""
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return os.path.realpath(path)


def _write(path: str, fill: Callable[[BinaryIO], object]) -> None:
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
            fill(file)
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
