"""What a path means in a session: relative ones start where its shell stands."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable

from hermes.domain.errors import UserError
from hermes.domain.ports.world import FileView
from hermes.execution.files.work import FoundFile


class PathsOfSessions:
    """`cwd` tells where a session stands; `home` is what `~` means."""

    def __init__(self, cwd: Callable[[str], Awaitable[str]], home: str) -> None:
        self._cwd = cwd
        self.home = home

    async def resolve(self, session: str, path: str) -> str:
        if "\0" in path:
            raise UserError("A path cannot contain a NUL character.")
        if path == "~" or path.startswith("~/"):
            path = self.home + path[1:]
        return join_path(await self._cwd(session), path or ".")


def join_path(folder: str, path: str) -> str:
    return os.path.normpath(os.path.join(folder, path))


def view_of(file: FoundFile) -> FileView:
    path, size, folder, mode, changed = file
    return FileView(path=path, size=size, folder=folder, mode=mode, changed=changed)
