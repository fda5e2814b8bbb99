"""The backend port over several backends: whichever belongs to the session that a call is for."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Collection

from hermes.domain.ports.world import (
    Command,
    CommandResult,
    FileMatches,
    FileSearch,
    FileView,
    ProcessView,
    World,
)
from hermes.execution.backend_life import KeptBackend

Choose = Callable[[str], Awaitable[KeptBackend]]
"""The backend of a session; it may have to be made."""


class RoutedBackend:
    """`all` are those it may choose from. Each opens with its first use, so there is nothing to open here."""

    def __init__(self, choose: Choose, all: Callable[[], Collection[KeptBackend]]) -> None:
        self._choose = choose
        self._all = all
        self.files = RoutedFiles(choose)
        self.processes = RoutedProcesses(choose)

    async def open(self) -> None:
        return

    async def health(self) -> str:
        return "; ".join(f"{kept.name}: {kept.trouble}" for kept in self._all() if kept.trouble)

    def idle(self) -> bool:
        return all(kept.idle() for kept in self._all())

    async def close(self) -> None:
        for kept in tuple(self._all()):
            await kept.close()

    async def place(self, session: str = "") -> World:
        return await (await self._choose(session)).place()

    async def cwd(self, session: str) -> str:
        return await (await self._choose(session)).ask(lambda backend: backend.cwd(session))

    async def run(self, command: Command, output: Callable[[str], None]) -> CommandResult:
        return await (await self._choose(command.session)).use(lambda backend: backend.run(command, output))

    async def start(self, command: Command, ended: Callable[[ProcessView], None]) -> ProcessView:
        return await (await self._choose(command.session)).use(lambda backend: backend.start(command, ended))


class RoutedFiles:
    """The `Files` port."""

    def __init__(self, choose: Choose) -> None:
        self._choose = choose

    async def read(
        self, session: str, path: str, *, start: int = 0, limit: int = 1 << 20, follow: bool = True
    ) -> bytes:
        return await (await self._choose(session)).use(
            lambda backend: backend.files.read(session, path, start=start, limit=limit, follow=follow)
        )

    async def write(
        self,
        session: str,
        path: str,
        data: bytes | AsyncIterable[bytes] | None,
        *,
        follow: bool = True,
        mode: int = 0,
    ) -> None:
        await (await self._choose(session)).use(
            lambda backend: backend.files.write(session, path, data, follow=follow, mode=mode)
        )

    async def stat(self, session: str, path: str) -> FileView | None:
        return await (await self._choose(session)).use(lambda backend: backend.files.stat(session, path))

    async def list(self, session: str, path: str) -> list[FileView]:
        return await (await self._choose(session)).use(lambda backend: backend.files.list(session, path))

    async def search(self, search: FileSearch) -> FileMatches:
        return await (await self._choose(search.session)).use(lambda backend: backend.files.search(search))


class RoutedProcesses:
    """The `Processes` port."""

    def __init__(self, choose: Choose) -> None:
        self._choose = choose

    async def list(self, session: str) -> list[ProcessView]:
        """Asked often and by nobody in particular, so it opens nothing."""
        return await (await self._choose(session)).ask(lambda backend: backend.processes.list(session))

    async def poll(self, session: str, process: str, *, whole: bool = False) -> ProcessView:
        return await (await self._choose(session)).use(
            lambda backend: backend.processes.poll(session, process, whole=whole)
        )

    async def wait(self, session: str, process: str, seconds: float) -> ProcessView:
        return await (await self._choose(session)).use(
            lambda backend: backend.processes.wait(session, process, seconds)
        )

    async def kill(self, session: str, process: str) -> ProcessView:
        return await (await self._choose(session)).use(
            lambda backend: backend.processes.kill(session, process)
        )

    async def write(self, session: str, process: str, data: bytes, *, close: bool = False) -> None:
        await (await self._choose(session)).use(
            lambda backend: backend.processes.write(session, process, data, close=close)
        )
