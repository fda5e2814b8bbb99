"""What is done with one file or folder, and the sentence for what cannot be done. It blocks, and imports
nothing but the standard library: a small process inside a sandbox runs it too."""

from __future__ import annotations

import os
import stat

_MOST_LISTED = 10_000
_TRIES = 3
_NEW_MODE = 0o644
"""What the shell's umask would leave; reading our own means setting it, which is everybody's."""


TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO
FoundFile = tuple[str, int, bool, int, float]
"""A file or folder: its path, absolute and through no symbolic link; size; whether it is a folder; mode; and
when it was changed."""


def read_file(path: str, start: int, limit: int, follow: bool) -> bytes:
    with os.fdopen(_open_at(path, follow), "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError
        if not stat.S_ISREG(mode):
            # A device or a pipe may never end, or never begin.
            raise OSError(0, "it is not a regular file")
        file.seek(start)
        return file.read(limit)


def _open_at(path: str, follow: bool, flags: int = 0) -> int:
    """Opened for reading. Without `follow` it is what has this very path: looked at when it is open, since a
    path may lead elsewhere a moment later. One that was replaced meanwhile is opened anew."""
    for _ in range(_TRIES):
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
        if follow or _opened(descriptor, path) == path:
            return descriptor
        os.close(descriptor)
    raise OSError(0, "it leads elsewhere by now")


def _opened(descriptor: int, path: str) -> str:
    """The path of an open file, where the system tells it."""
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return os.path.realpath(path)


def write_file(path: str, fill: Callable[[BinaryIO], object], follow: bool = True, mode: int = 0) -> None:
    folder, name = os.path.split(os.path.realpath(path) if follow else path)
    if not follow:
        _check_way(folder)
    os.makedirs(folder, exist_ok=True)
    place = _open_at(folder, follow, os.O_DIRECTORY)
    fresh = f".hermes-{os.urandom(8).hex()}"
    try:
        mode = _mode_there(name, place, mode or _NEW_MODE)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=place)
        try:
            with os.fdopen(descriptor, "wb") as file:
                fill(file)
                os.fchmod(file.fileno(), mode)
                file.flush()
                os.fsync(file.fileno())
            os.replace(fresh, name, src_dir_fd=place, dst_dir_fd=place)
        except BaseException:
            os.unlink(fresh, dir_fd=place)
            raise
    finally:
        os.close(place)


def _check_way(folder: str) -> None:
    """What there is of the path leads through no link, before folders are made in it."""
    while folder and not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    os.close(_open_at(folder, False, os.O_DIRECTORY))


def remove_file(path: str, follow: bool = True) -> None:
    folder, name = os.path.split(path)
    place = _open_at(folder, follow, os.O_DIRECTORY)
    try:
        if stat.S_ISDIR(os.stat(name, dir_fd=place, follow_symlinks=False).st_mode):
            raise IsADirectoryError
        os.unlink(name, dir_fd=place)
    finally:
        os.close(place)


def _mode_there(name: str, place: int, fresh: int) -> int:
    """That of the file which is replaced, `fresh` if there is none; raised is why it must not be replaced."""
    try:
        before = os.stat(name, dir_fd=place, follow_symlinks=False)
    except FileNotFoundError:
        return fresh
    if stat.S_ISDIR(before.st_mode):
        raise IsADirectoryError
    if stat.S_ISLNK(before.st_mode):
        raise OSError(0, "it leads elsewhere by now")
    if not stat.S_ISREG(before.st_mode):
        raise OSError(0, "it is not a regular file")
    if not os.access(name, os.W_OK, dir_fd=place):
        raise PermissionError(0, "permission denied")
    return stat.S_IMODE(before.st_mode)


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
