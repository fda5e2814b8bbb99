"""The life of a backend, whoever wrote it: opened on its first use and within a deadline, closed once nothing
has used it for a while, opened again by the next use. What foreign code raises becomes one sentence, so that
it costs the call that met it and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from hermes.domain.clock import Clock
from hermes.domain.errors import HermesError, Unreachable
from hermes.domain.ports.world import Backend, World
from hermes.domain.system.border import Border, describe
from hermes.domain.text import one_line
from hermes.domain.word import replace

log = logging.getLogger("hermes.backend")
T = TypeVar("T")
OPEN_SECONDS = 60.0
_CLOSE_SECONDS = 10.0
_HEALTH_SECONDS = 5.0


class KeptBackend:
    """A backend by its name, with what is known of it: its `world` once it was asked, its last `trouble`."""

    def __init__(
        self, name: str, backend: Backend, clock: Clock, *, open_seconds: float = OPEN_SECONDS
    ) -> None:
        self.name = name
        self.world: World | None = None
        self.trouble = ""
        self.is_open = False
        self._backend = backend
        self._clock = clock
        self._open_seconds = open_seconds
        self._users = 0
        self._used_at = clock.monotonic()
        self._changing = asyncio.Lock()

    async def use(self, work: Callable[[Backend], Awaitable[T]]) -> T:
        """Do something with the backend, opened."""
        self._users += 1
        try:
            async with self._changing:
                if not self.is_open:
                    await self._open()
            return await self._guard(lambda: work(self._backend), None)
        finally:
            self._users -= 1
            self._used_at = self._clock.monotonic()

    async def _open(self) -> None:
        try:
            await self._guard(self._backend.open, self._open_seconds)
        except BaseException:  # also of who was cancelled: what was begun is not left behind
            with contextlib.suppress(HermesError):
                await self._guard(self._backend.close, _CLOSE_SECONDS)
            raise
        self.is_open = True

    async def ask(self, work: Callable[[Backend], Awaitable[T]]) -> T:
        """Ask the backend for something that it knows without being open."""
        return await self._guard(lambda: work(self._backend), self._open_seconds)

    async def place(self) -> World:
        if self.world is None:
            world = await self.ask(lambda backend: backend.place())
            if not _is_world(world):
                raise Unreachable(f"the backend {self.name} does not say where its commands run")
            self.world = replace(world, backend=self.name)
        return self.world

    def idle(self) -> bool:
        return not self._users and (not self.is_open or self._backend.idle())

    async def tend(self, seconds: float) -> None:
        """Note how it is, and let it go if nothing has used it for so long."""
        try:
            await self.place()
            self.trouble = await self._health() if self.is_open else ""
            if self._clock.monotonic() - self._used_at >= seconds:
                await self.close(only_idle=True)
        except HermesError as error:
            self.trouble = one_line(str(error), 200)

    async def _health(self) -> str:
        return one_line(str(await self._guard(self._backend.health, _HEALTH_SECONDS)), 200)

    async def close(self, *, only_idle: bool = False) -> None:
        async with self._changing:
            if not self.is_open or (only_idle and not self.idle()):
                return
            self.is_open = False
            log.info("backend.closed backend=%s", self.name)
            await self._guard(self._backend.close, _CLOSE_SECONDS)

    async def _guard(self, work: Callable[[], Awaitable[T]], seconds: float | None) -> T:
        try:
            async with asyncio.timeout(seconds):
                with Border():
                    return await work()
        except HermesError:
            raise
        except TimeoutError:
            why = "took too long" if seconds is None else f"did not answer within {seconds:g} s"
            raise Unreachable(f"the backend {self.name} {why}", maybe_done=seconds is None) from None
        except Exception as error:  # a plugin may raise anything
            log.exception("backend.broke backend=%s", self.name)
            why = one_line(describe(error), 200)
            raise Unreachable(f"the backend {self.name} broke ({why})", maybe_done=True) from error


def _is_world(world: object) -> bool:
    """Whether approvals may be judged by it."""
    if not isinstance(world, World):
        return False
    texts = (world.workspace, world.home, world.system, world.shell, world.sandbox, world.host)
    folders = (world.workspace, world.home)
    return all(isinstance(text, str) for text in texts) and all(path.startswith("/") for path in folders)
