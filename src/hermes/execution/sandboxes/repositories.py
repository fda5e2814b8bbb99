"""What git would run or obey outside, of the repositories in a folder that a sandbox is given: their hooks
and settings. Inside these can be read and not changed, and no folder above them can be moved away.

The folder is walked by descriptors: a link that a command has put there may lead anywhere. Repositories that
commands make later are theirs."""

from __future__ import annotations

import contextlib
import logging
import os
import stat
from collections.abc import Iterator
from pathlib import PurePosixPath

from msgspec import Struct

from hermes.execution.files.ignoring import SKIPPED

log = logging.getLogger("hermes.sandbox")
_DEPTH, _MODULE_DEPTH = 3, 6
_MOST_FOLDERS = 2000
_GIT = ".git"
_HOOKS = "hooks"
_HELD = (_HOOKS, "config", "config.worktree")


class Guard(Struct, frozen=True, kw_only=True):
    """A place in the folder that is mounted upon itself, and so stays where it is. Where there are no hooks
    there is no `descriptor`, and none may come."""

    path: str
    descriptor: int | None
    writable: bool


def open_guards(workspace: int, opened: contextlib.ExitStack) -> list[Guard]:
    """Those above before those below. Their descriptors are closed with `opened`."""
    held = {path for place in _holding(workspace, _GIT, ".", _DEPTH) for path in _held(workspace, place)}
    above = {str(parent) for path in held for parent in PurePosixPath(path).parents} - {"."}
    guards = (_guard(workspace, path, opened, writable=path in above) for path in sorted(held | above))
    return [guard for guard in guards if guard is not None]


def _held(workspace: int, folder: str) -> Iterator[str]:
    """In a folder with a repository: its hooks and settings, and those of its submodules. It may also be a
    file that says where the repository is: commands must not make it lead to theirs."""
    git = os.path.normpath(f"{folder}/{_GIT}")
    yield git
    for place in (git, *_holding(workspace, "HEAD", f"{git}/modules", _MODULE_DEPTH)):
        yield from (f"{place}/{name}" for name in _HELD)


def _holding(workspace: int, name: str, top: str, depth: int) -> Iterator[str]:
    """The folders that hold something of this name."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for looked, (path, folders, files, _) in enumerate(os.fwalk(top, dir_fd=workspace)):
            if name in folders or name in files:
                yield path
            if looked > _MOST_FOLDERS:
                log.warning("sandbox.repositories_unguarded folders_seen=%d", looked)
                return
            deep = path.count("/") - top.count("/") >= depth
            folders[:] = () if deep else (folder for folder in folders if folder not in SKIPPED)


def _guard(workspace: int, path: str, opened: contextlib.ExitStack, *, writable: bool) -> Guard | None:
    """None where there is nothing of the kind: a link, or something that has gone meanwhile."""
    descriptor = workspace
    try:
        for name in path.split("/"):
            descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor)
            opened.callback(os.close, descriptor)
    except FileNotFoundError:
        is_hooks = os.path.basename(path) == _HOOKS
        return Guard(path=path, descriptor=None, writable=False) if is_hooks else None
    except OSError:
        return None
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISLNK(mode):
        return None
    return Guard(path=path, descriptor=descriptor, writable=writable and stat.S_ISDIR(mode))
