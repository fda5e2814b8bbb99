"""The transport of this machine: a small process (`runner.py`) that forks a supervisor for each command. It
is started when first needed, replaced when it has died, and shared by all backends with the same environment.

It gets no environment but the one that is built for commands, so there is nothing in it to find."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from hermes.domain.errors import Unreachable
from hermes.execution.commands.transport import Connection

_START = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from hermes.execution.local import runner; runner.main()"
)
_SOURCES = str(Path(__file__).parents[3])
_END_SECONDS = 3.0
_TRIES = 3


class ForkServer:
    """Its process lives as long as a transport uses it."""

    def __init__(self, *, shell: str, env: Mapping[str, str]) -> None:
        self._shell = shell
        self._env = env
        self._door: socket.socket | None = None
        self._runner: subprocess.Popen[bytes] | None = None
        self._starting = asyncio.Lock()
        self._users: set[ForkTransport] = set()

    async def connect(self, user: ForkTransport) -> Connection:
        """A connection to a supervisor that waits for its request."""
        self._users.add(user)
        for _ in range(_TRIES):
            reader, writer = await self._pass_socket()
            try:
                ready = await reader.read(1)
            except BaseException:
                writer.close()
                raise
            if ready:
                return Connection(reader, writer)
            # The runner was dying when it was handed this.
            writer.close()
            await self._end()
        raise Unreachable("the command runner dies as soon as it is started")

    async def leave(self, user: ForkTransport) -> None:
        """The supervisors it has started live on until their connections are closed."""
        self._users.discard(user)
        if not self._users:
            await self._end()

    async def _end(self) -> None:
        if self._door is not None:
            self._door.close()
            self._door = None
        runner, self._runner = self._runner, None
        if runner is not None:
            await asyncio.to_thread(_see_off, runner)

    async def _pass_socket(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A socket whose other end was given to the runner; it is closed there if the runner is dying."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                async with self._starting:
                    if self._runner is None or self._runner.poll() is not None:
                        await self._end()
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


class ForkTransport:
    """One backend's way to a server that others may use too."""

    def __init__(self, server: ForkServer) -> None:
        self._server = server

    async def connect(self) -> Connection:
        return await self._server.connect(self)

    async def close(self) -> None:
        await self._server.leave(self)


def _see_off(runner: subprocess.Popen[bytes]) -> None:
    try:
        runner.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        runner.kill()
        runner.wait()
