"""Open event streams. One task looks after all of them: it keeps quiet ones alive and cuts those whose reader
has stopped reading. What a slow reader has not read waits in its own transport and delays
nobody else.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import TypeVar

from aiohttp import web

from hermes.control.workers import Supervisor
from hermes.domain.sse import comment
from hermes.entry.http.site.free_memory import FreeMemory

T = TypeVar("T")
QUIET_SECONDS = 15.0
HELD_SECONDS = 5.0
STALLED_SECONDS = 30.0
_LOOK_SECONDS = 2.0
_KERNEL_BYTES = 64 * 1024
_BUFFER_BYTES = 16 * 1024
_LOOKS_AFTERWARDS = 30
"""How often free memory is still looked at when no stream is open: the turns behind them end later."""
_KEEP_ALIVE = comment("keep-alive")
_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache, no-store",
    "X-Accel-Buffering": "no",
}


class EventStream:
    """One stream to one client. It opens with the first bytes that are written; until then it can give way to
    another answer, like one with the status of an error."""

    def __init__(self, request: web.Request, headers: Mapping[str, str]) -> None:
        self.opened = False
        self._opening = asyncio.Lock()
        self._gave_way = False
        self.response = web.StreamResponse(headers={**_HEADERS, **headers})
        self.request = request
        self.written = time.monotonic()
        self.waiting_since: float | None = None

    async def open(self) -> None:
        async with self._opening:
            if self._gave_way:
                raise ConnectionError("another answer was given")
            if self.opened:
                return
            await self.response.prepare(self.request)
            self.opened = True
        transport = self.request.transport
        if transport is not None:
            transport.set_write_buffer_limits(high=_BUFFER_BYTES)
            # What a reader leaves unread shall pile up little here and in the kernel.
            _set_option(transport, socket.SO_SNDBUF, _KERNEL_BYTES)

    async def give_way(self) -> bool:
        """Whether nothing was sent. Then nothing will be."""
        async with self._opening:
            self._gave_way = not self.opened
        return self._gave_way

    async def write(self, data: bytes) -> None:
        if not data:
            return
        if not self.opened:
            await self.open()
        self.waiting_since = self.waiting_since or time.monotonic()
        try:
            # In slices, each of which may wait for the reader: the transport is given no more ahead of it.
            for start in range(0, len(data), _BUFFER_BYTES):
                await self.response.write(data[start : start + _BUFFER_BYTES])
        finally:
            self.waiting_since = None
        self.written = time.monotonic()

    def cut(self) -> None:
        transport = self.request.transport
        if transport is not None:
            # Without lingering: the kernel drops what was not read, and the reader learns of it at once.
            _set_option(transport, socket.SO_LINGER, struct.pack("ii", 1, 0))
            transport.abort()

    async def keep_alive(self) -> None:
        if self.waiting_since is not None:
            return  # in the middle of an event
        with contextlib.suppress(ConnectionError):
            await self.write(_KEEP_ALIVE)


def _set_option(transport: asyncio.Transport, option: int, value: int | bytes) -> None:
    sock = transport.get_extra_info("socket")
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, option, value)


class Streams:
    """The streams that are open now."""

    def __init__(self, loops: Supervisor | None = None) -> None:
        self._loops = loops or Supervisor()
        self._open: set[EventStream] = set()
        self._beats: set[asyncio.Task[None]] = set()
        self._looking: asyncio.Task[None] | None = None
        self._memory = FreeMemory()

    def __len__(self) -> int:
        return len(self._open)

    async def send(
        self,
        request: web.Request,
        seen: AsyncGenerator[T],
        encode: Callable[[T], bytes],
        *,
        headers: Mapping[str, str],
        first: bytes = b"",
        ended: Callable[[], bool] = lambda: False,
        held: bool = False,
    ) -> EventStream:
        """Write a feed to its end, or until `ended`; a client that goes away ends this with an error. With
        `held` it opens with the first words, or when they are late."""
        stream = EventStream(request, headers)
        if not held:
            await stream.open()
        self._open.add(stream)
        if self._looking is None:
            self._looking = self._loops.keep("event streams", self._look_after)
        try:
            await stream.write(first)
            async with contextlib.aclosing(seen):
                async for item in seen:
                    await stream.write(encode(item))
                    if ended():
                        break
        finally:
            self._open.discard(stream)
        return stream

    async def _look_after(self) -> None:
        looks = 0
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            looks = _LOOKS_AFTERWARDS if self._open else looks - 1
            if looks > 0:
                await asyncio.to_thread(self._memory.give_back)
            now = time.monotonic()
            for stream in list(self._open):
                if stream.waiting_since is not None:
                    if now - stream.waiting_since > STALLED_SECONDS:
                        stream.cut()
                elif now - stream.written > (QUIET_SECONDS if stream.opened else HELD_SECONDS):
                    # Somebody between could think it dead.
                    task = asyncio.create_task(stream.keep_alive(), name="keep-alive")
                    self._beats.add(task)
                    task.add_done_callback(self._beats.discard)

    async def close(self) -> None:
        """Wait for no stream whose client can come back for the rest: a GET can be asked again."""
        for stream in list(self._open):
            if stream.request.method == "GET":
                stream.cut()
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait((self._looking,))
