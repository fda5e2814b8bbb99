"""A WebSocket that tasks of its own read and keep alive: events wait in a queue, and behind the last of them
stands the error that ended the connection."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Coroutine
from typing import Any, Generic, TypeVar

import aiohttp

from hermes.domain.errors import HermesError, Unreachable

log = logging.getLogger("hermes.socket")
E = TypeVar("E")
_CLOSE_SECONDS = 1.0


class SocketFeed(Generic[E]):
    """`most_waiting` bounds the queue: a reader that is ahead waits. Without it all is taken at once."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, *, most_waiting: int = 0) -> None:
        self.socket = socket
        self.queue: asyncio.Queue[E | HermesError] = asyncio.Queue(most_waiting)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, *work: Coroutine[Any, Any, None]) -> None:
        """Let these run as long as the connection does. One that breaks ends it: then the adapter hears of
        it, and its host begins again."""
        for task in (asyncio.create_task(task) for task in work):
            task.add_done_callback(self._over)
            self._tasks.append(task)

    def _over(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("socket.broke", exc_info=error)
            self.end(Unreachable(f"the connection's reader broke ({type(error).__name__})"))

    def end(self, error: HermesError) -> None:
        """Nothing comes any more. Where the queue is full the oldest event gives way, and has to be read
        again at the next connection."""
        while self.queue.full():
            self.queue.get_nowait()
        self.queue.put_nowait(error)

    async def next(self) -> E:
        event = await self.queue.get()
        if isinstance(event, HermesError):
            raise event
        return event

    async def events(self) -> AsyncIterator[E]:
        """What comes, until the connection ends with an error."""
        while True:
            yield await self.next()

    async def close(self, code: int = aiohttp.WSCloseCode.OK) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CLOSE_SECONDS)
        with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self.socket.close(code=code)
