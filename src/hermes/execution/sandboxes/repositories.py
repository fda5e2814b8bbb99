"""What git would run or obey outside, of the repositories in a folder that a sandbox is given: their hooks
and settings, and the files that say where these are. Inside these can be read and not changed, and no folder
above them can be moved away.

The folder is walked by descriptors: a link that a command has put there may lead anywhere. Repositories that
commands make later are theirs."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

from msgspec import Struct

from hermes.execution.files.ignoring import SKIPPED

log = logging.getLogger("hermes.sandbox")
_DEPTH, _MODULE_DEPTH = 3, 6
_MOST_FOLDERS = 2000
_MOST_READ = 64 << 10
_GIT = ".git"
_HOOKS, _CONFIG, _COMMON, _MORE = "hooks", "config", "commondir", "config.worktree"
_HERE, _ONCE_HERE = b"./\n", b".\n"
"""In a `commondir`: hooks and settings are in this very folder, as they are without that file. With the
latter, which earlier versions wrote, libgit2 1.9 finds no repository there."""
_BARE = re.compile(rb"^\s*bare\s*(=\s*(true|yes|on|1)\s*)?$", re.IGNORECASE | re.MULTILINE)
_OWN_MORE = re.compile(rb"^\s*worktreeconfig\b", re.IGNORECASE | re.MULTILINE)


class Guard(Struct, frozen=True, kw_only=True):
    """A place in the folder that is mounted upon itself, and so stays where it is. Where there are no hooks
    there is no `descriptor`, and none may come."""

    path: str
    descriptor: int | None
    writable: bool


def open_guards(workspace: int, opened: contextlib.ExitStack) -> list[Guard]:
    """Those above before those below. Their descriptors are closed with `opened`."""
    files, repositories = _find(workspace)
    held, sealed, free = set(files), set[str](), set[str]()
    for place in repositories:
        held |= {_under(place, name) for name in (_HOOKS, _CONFIG, _COMMON, _MORE)}
        config = _read(workspace, _under(place, _CONFIG))
        if _BARE.search(config):  # git would take it for another kind of repository if it had a `commondir`
            sealed.add(place)
            free |= {_under(place, name) for name in _folders(workspace, place) if name != _HOOKS}
        else:
            _create(workspace, _under(place, _COMMON), _HERE)
            _mend(workspace, _under(place, _COMMON))
        if _OWN_MORE.search(config):
            for tree in (place, *_holding(workspace, _is_part, _under(place, "worktrees"), 1)):
                _create(workspace, _under(tree, _MORE), b"")
    above = {str(parent) for path in held for parent in PurePosixPath(path).parents} | free
    paths = sorted((held | sealed | above) - {"."})
    guards = (_guard(workspace, path, opened, writable=path in above - sealed) for path in paths)
    return [guard for guard in guards if guard is not None]


def _find(workspace: int) -> tuple[set[str], dict[str, None]]:
    """The `.git` of every folder, which may also be a file that leads to a repository, and the repositories:
    those that are meant, and those of their submodules and worktrees."""
    files, repositories = set[str](), dict[str, None]()
    waiting: list[str | None] = []
    for folder in _holding(workspace, _has_git, ".", _DEPTH):
        git = _under(folder, _GIT)
        files.add(git)
        named = _read(workspace, git).removeprefix(b"gitdir:").strip()
        waiting.append(_led(workspace, folder, named) if named else git)
    waiting += _holding(workspace, _is_bare, ".", _DEPTH)
    while waiting:
        place = waiting.pop()
        if place is None or place in repositories:
            continue
        repositories[place] = None
        for folder in ("modules", "worktrees"):
            waiting += _holding(workspace, _is_part, _under(place, folder), _MODULE_DEPTH)
        if common := _read(workspace, _under(place, _COMMON)).strip():
            waiting.append(_led(workspace, place, common))
    return files, repositories


def _has_git(folders: list[str], files: list[str]) -> bool:
    return _GIT in folders or _GIT in files


def _is_bare(folders: list[str], files: list[str]) -> bool:
    return "HEAD" in files and "objects" in folders


def _is_part(folders: list[str], files: list[str]) -> bool:
    """Told by what commands cannot move away, for the next sandbox of the folder."""
    return _CONFIG in files or _COMMON in files


def _under(folder: str, name: str) -> str:
    return os.path.normpath(f"{folder}/{name}")


def _led(workspace: int, folder: str, words: bytes) -> str | None:
    """The place in the workspace that a file in this folder names; None if it is elsewhere."""
    top = os.readlink(f"/proc/self/fd/{workspace}")
    path = os.path.relpath(os.path.join(top, folder, os.fsdecode(words)), top)
    return None if path == ".." or path.startswith("../") else path


def _holding(
    workspace: int, holds: Callable[[list[str], list[str]], bool], top: str, depth: int
) -> Iterator[str]:
    """The folders that hold something."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for looked, (path, folders, files, _) in enumerate(os.fwalk(top, dir_fd=workspace)):
            if holds(folders, files):
                yield os.path.normpath(path)
            if looked > _MOST_FOLDERS:
                log.warning("sandbox.repositories_unguarded folders_seen=%d", looked)
                return
            deep = path.count("/") - top.count("/") >= depth
            skipped = {*SKIPPED, "objects", "refs", "logs"} if "HEAD" in files else SKIPPED
            folders[:] = () if deep else (folder for folder in folders if folder not in skipped)


def _open(workspace: int, path: str, opened: contextlib.ExitStack) -> int:
    """Without following a link; an `OSError` where there is none, or a link above it."""
    descriptor = workspace
    for name in path.split("/"):
        descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor)
        opened.callback(os.close, descriptor)
    return descriptor


def _read(workspace: int, path: str) -> bytes:
    """What is in a file; nothing if it is none."""
    with contextlib.ExitStack() as opened, contextlib.suppress(OSError):
        descriptor = _open(workspace, path, opened)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            with open(f"/proc/self/fd/{descriptor}", "rb") as file:
                return file.read(_MOST_READ)
    return b""


def _folders(workspace: int, path: str) -> list[str]:
    with contextlib.suppress(StopIteration, OSError):
        return next(os.fwalk(path, dir_fd=workspace))[1]
    return []


def _create(workspace: int, path: str, content: bytes) -> None:
    """If there is nothing of the name; where it cannot be made, commands cannot make it either."""
    folder, name = os.path.split(path)
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.ExitStack() as opened, contextlib.suppress(OSError):
        above = _open(workspace, folder or ".", opened)
        descriptor = os.open(name, flags, 0o644, dir_fd=above)
        opened.callback(os.close, descriptor)
        os.write(descriptor, content)


def _mend(workspace: int, path: str) -> None:
    """In the same file, which other sandboxes may hold, and in one step: git may read it meanwhile."""
    with contextlib.ExitStack() as opened, contextlib.suppress(OSError):
        if _read(workspace, path) == _ONCE_HERE:
            place = f"/proc/self/fd/{_open(workspace, path, opened)}"
            descriptor = os.open(place, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            opened.callback(os.close, descriptor)
            os.write(descriptor, _HERE)


def _guard(workspace: int, path: str, opened: contextlib.ExitStack, *, writable: bool) -> Guard | None:
    """None where there is nothing of the kind: a link, or something that has gone meanwhile."""
    try:
        descriptor = _open(workspace, path, opened)
    except FileNotFoundError:
        is_hooks = os.path.basename(path) == _HOOKS
        return Guard(path=path, descriptor=None, writable=False) if is_hooks else None
    except OSError:
        return None
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISLNK(mode):
        return None
    return Guard(path=path, descriptor=descriptor, writable=writable and stat.S_ISDIR(mode))
