"""What carries the frames of a command: one stream of bytes for each, so that a flood on one stalls no other.

A transport gives the gateway a `Connection` to a supervisor that waits for a request. The one here starts a
process per command and talks to its pipes, which is all that `docker exec -i` and `ssh` offer."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Protocol

from hermes.domain.errors import Unreachable
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


class PipeTransport:
    """Runs `argv` for each command, and speaks with it over its standard input and output."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        self._argv = argv
        self._env = env
        self._left: set[asyncio.Task[int]] = set()

    async def connect(self) -> Connection:
        pipe = asyncio.subprocess.PIPE
        try:
            child = await asyncio.create_subprocess_exec(
                *self._argv, stdin=pipe, stdout=pipe, env=dict(self._env), start_new_session=True, cwd="/"
            )
        except OSError as error:
            raise Unreachable(f"{self._argv[0]} cannot be started ({error.strerror})") from error
        assert child.stdin is not None and child.stdout is not None
        leaving = asyncio.create_task(child.wait(), name=f"command runner {child.pid}")
        self._left.add(leaving)
        leaving.add_done_callback(self._left.discard)
        return Connection(child.stdout, child.stdin)

    async def close(self) -> None:
        """Each child leaves by itself once its connection is closed."""
        if self._left:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_END_SECONDS):
                    await asyncio.wait(tuple(self._left))
