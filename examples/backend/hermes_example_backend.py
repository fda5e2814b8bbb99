"""A backend plugin: commands run as they do in `local`, and each is written to `audit.log` in the agent's
home before it runs. Choose it with `terminal: {backend: audited}`, or with `backend: audited` of a route."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from hermes import plugins
from hermes.domain.ports.world import (
    Backend,
    BackendRequest,
    Command,
    CommandResult,
    Files,
    Processes,
    ProcessView,
    World,
)

HERMES_API = 1


def make_audited(request: BackendRequest) -> AuditedBackend:
    """Starts nothing yet: `open` does."""
    return AuditedBackend(plugins.backends()["local"](request), request.home / "audit.log")


class AuditedBackend:
    def __init__(self, inner: Backend, log: Path) -> None:
        self._inner = inner
        self._log = log

    async def run(self, command: Command, output: Callable[[str], None]) -> CommandResult:
        await asyncio.to_thread(self._note, command)
        return await self._inner.run(command, output)

    async def start(self, command: Command, ended: Callable[[ProcessView], None]) -> ProcessView:
        await asyncio.to_thread(self._note, command)
        return await self._inner.start(command, ended)

    def _note(self, command: Command) -> None:
        """If the log cannot be written, the command does not run."""
        with self._log.open("a", encoding="utf-8") as file:
            file.write(f"{datetime.now(UTC).isoformat()} {command.session} {command.text!r}\n")

    # --- as it is in `local` ---

    @property
    def files(self) -> Files:
        return self._inner.files

    @property
    def processes(self) -> Processes:
        return self._inner.processes

    async def place(self, session: str = "") -> World:
        return await self._inner.place(session)

    async def cwd(self, session: str) -> str:
        return await self._inner.cwd(session)

    async def open(self) -> None:
        await self._inner.open()

    async def health(self) -> str:
        return await self._inner.health()

    def idle(self) -> bool:
        return self._inner.idle()

    async def close(self) -> None:
        await self._inner.close()
