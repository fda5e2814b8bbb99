"""The gateway's end of the runner: starts it when first needed, replaces it when it has died, and opens a
connection to the supervisor of each command.

The runner gets no environment but the one that is built for commands, so there is nothing in it to find."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from hermes.domain.errors import Unreachable
from hermes.execution.local import frames

_START = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from hermes.execution.local import runner; runner.main()"
)
_SOURCES = str(Path(__file__).parents[3])
_LARGEST_FRAME = 64 << 20
_END_SECONDS = 3.0
_TRIES = 3

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def receive_frame(reader: asyncio.StreamReader) -> tuple[bytes, bytes] | None:
    """The next frame's letter and payload; None when the supervisor is gone."""
    try:
        (length,) = struct.unpack(">I", await reader.readexactly(4))
        if length > _LARGEST_FRAME:
            return None
        frame = await reader.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    return frame[:1], frame[1:]


class Spawner:
    """Runs commands through one runner process."""

    def __init__(self, *, shell: str, env: Mapping[str, str]) -> None:
        self._shell = shell
        self._env = env
        self._door: socket.socket | None = None
        self._runner: subprocess.Popen[bytes] | None = None
        self._starting = asyncio.Lock()

    async def open(self, request: Mapping[str, object]) -> Connection:
        """A connection to a supervisor that has accepted the request."""
        frame = frames.pack_frame(frames.REQUEST, json.dumps(request).encode())
        for _ in range(_TRIES):
            reader, writer = await self._connect()
            writer.write(frame)
            accepted = False
            try:
                accepted = await receive_frame(reader) == (frames.ACCEPTED, b"")
            finally:
                if not accepted:
                    writer.close()
            if accepted:
                return reader, writer
            # The runner was dying when it was handed this: nothing has happened yet.
            await self.close()
        raise Unreachable("the command runner dies as soon as it is started")

    async def close(self) -> None:
        """Let the runner go; the supervisors it has started live on until their connections are closed."""
        if self._door is not None:
            self._door.close()
            self._door = None
        runner, self._runner = self._runner, None
        if runner is not None:
            await asyncio.to_thread(_see_off, runner)

    async def _connect(self) -> Connection:
        """A connection whose other end was given to the runner; it is closed there if the runner is dying."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                async with self._starting:
                    if self._runner is None or self._runner.poll() is not None:
                        await self.close()
                        await asyncio.to_thread(self._start)
            except OSError as error:
                ours.close()
                raise Unreachable(f"the command runner cannot be started ({error})") from error
            if self._door is not None:
                with contextlib.suppress(OSError):
                    socket.send_fds(self._door, [b"!"], [theirs.fileno()])
        ours.setblocking(False)
        return await asyncio.open_unix_connection(sock=ours)

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._runner = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _START, _SOURCES, str(theirs.fileno()), self._shell],
                env=dict(self._env),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )
        self._door = ours


def _see_off(runner: subprocess.Popen[bytes]) -> None:
    try:
        runner.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        runner.kill()
        runner.wait()
