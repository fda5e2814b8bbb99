"""What carries the frames of a command: one stream of bytes for each, so that a flood on one stalls no other.

A transport gives the gateway a `Connection` to a supervisor that waits for a request: sockets of a fork
server on this machine, pipes of a program (`docker exec -i`, `ssh`) elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import Protocol

from hermes.execution.commands.frames import Frame, FrameDecoder, pack_frame

_READ = 1 << 16
_END_SECONDS = 3.0


class Connection:
    """The gateway's end of one command's stream. One task at a time may listen to it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = FrameDecoder()
        self._arrived: deque[Frame] = deque()

    def send(self, letter: bytes, payload: bytes = b"") -> None:
        if not self._writer.is_closing():
            self._writer.write(pack_frame(letter, payload))

    async def drain(self) -> None:
        """Wait until most of what was sent is on its way."""
        with contextlib.suppress(OSError):
            await self._writer.drain()

    async def receive(self) -> Frame | None:
        """The next frame; None when the other end is gone, or does not speak in frames."""
        while not self._arrived:
            try:
                data = await self._reader.read(_READ)
                self._arrived += self._decoder.feed(data)
            except (OSError, ValueError):
                return None
            if not data:
                return None
        return self._arrived.popleft()

    def close(self) -> None:
        self._writer.close()


class Transport(Protocol):
    async def connect(self) -> Connection:
        """A stream to a supervisor that waits for a request; an `Unreachable` if there is none."""

    async def close(self) -> None:
        """Let go of what it holds; it may connect again afterwards."""
