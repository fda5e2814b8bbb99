"""What is done with one file or folder, and the sentence for what cannot be done. It blocks, and imports
nothing but the standard library: a small process inside a sandbox runs it too."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

_MOST_LISTED = 10_000
_NEW_MODE = 0o644
"""What the shell's umask would leave; reading our own means setting it, which is everybody's."""


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO
FoundFile = tuple[str, int, bool, int, float]
"""A file or folder: its path, absolute and through no symbolic link; size; whether it is a folder; mode; and
when it was changed."""


def read_file(path: str, start: int, limit: int, follow: bool) -> bytes:
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


def write_file(path: str, fill: Callable[[BinaryIO], object]) -> None:
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
    import tempfile  # it loads much, which a new sandbox need not wait for

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


def find_file(path: str) -> FoundFile | None:
    try:
        return _found(os.path.realpath(path))
    except (FileNotFoundError, NotADirectoryError):
        return None


def list_folder(path: str) -> list[FoundFile]:
    names = sorted(os.listdir(path))[:_MOST_LISTED]
    found: list[FoundFile] = []
    for name in names:
        try:
            found.append(_found(os.path.join(path, name)))
        except OSError:
            continue
    return found


def _found(path: str) -> FoundFile:
    info = os.stat(path)
    return path, info.st_size, stat.S_ISDIR(info.st_mode), stat.S_IMODE(info.st_mode), info.st_mtime


def why_not(verb: str, path: str, error: OSError | ValueError) -> str:
    """One sentence for what was raised here."""
    if isinstance(error, FileNotFoundError):
        return f"There is no {path}."
    if isinstance(error, IsADirectoryError):
        return f"{path} is a folder."
    if isinstance(error, ValueError):
        return f"{path!r} is no path."
    return f"{path} cannot be {verb}: {error.strerror or error}."
