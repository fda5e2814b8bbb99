"""Files of this machine, served in-process. Relative paths start where the session's shell stands."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import threading
from collections.abc import AsyncIterable, Callable
from typing import TypeVar, TypeVarTuple

from hermes.domain.errors import UserError
from hermes.domain.ports.world import FileMatches, FileSearch, FileView
from hermes.execution.files.paths import PathsOfSessions, view_of
from hermes.execution.files.work import find_file, list_folder, read_file, remove_file, why_not, write_file

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class LocalFiles(PathsOfSessions):
    """The `Files` port."""

    async def read(
        self, session: str, path: str, *, start: int = 0, limit: int = 1 << 20, follow: bool = True
    ) -> bytes:
        return await _beside("read", read_file, await self.resolve(session, path), start, limit, follow)

    async def write(
        self,
        session: str,
        path: str,
        data: bytes | AsyncIterable[bytes] | None,
        *,
        follow: bool = True,
        mode: int = 0,
    ) -> None:
        full = await self.resolve(session, path)
        if data is None:
            await _beside("removed", remove_file, full, follow)
            return
        if isinstance(data, bytes):
            await _beside("written", write_file, full, lambda file: file.write(data), follow, mode)
            return
        with tempfile.TemporaryFile() as gathered:
            async for piece in data:
                await asyncio.to_thread(gathered.write, piece)
            gathered.seek(0)
            await _beside(
                "written", write_file, full, lambda file: shutil.copyfileobj(gathered, file), follow, mode
            )

    async def stat(self, session: str, path: str) -> FileView | None:
        found = await _beside("looked at", find_file, await self.resolve(session, path))
        return None if found is None else view_of(found)

    async def list(self, session: str, path: str) -> list[FileView]:
        return [*map(view_of, await _beside("listed", list_folder, await self.resolve(session, path)))]

    async def search(self, search: FileSearch) -> FileMatches:
        full = await self.resolve(search.session, search.under)
        if not await asyncio.to_thread(os.path.exists, full):
            raise UserError(f"There is no {full}.")
        from hermes.execution.files.search import search_tree

        over = threading.Event()
        try:
            return await asyncio.to_thread(search_tree, full, search, over.is_set)
        finally:
            over.set()


async def _beside(verb: str, work: Callable[[str, *Ts], T], path: str, *args: *Ts) -> T:
    try:
        return await asyncio.to_thread(work, path, *args)
    except (OSError, ValueError) as error:
        raise UserError(why_not(verb, path, error)) from None
