"""The transport of this machine: a small process (`runner.py`) that forks a supervisor for each command. It
is started when first needed, replaced when it has died, and shared by all backends with the same environment.

It gets no environment but the one that is built for commands, so there is nothing in it to find. In a sandbox
it runs inside, where a second door leads to the files."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from hermes.domain.errors import Unreachable
from hermes.domain.text import one_line
from hermes.execution.commands.transport import Connection
from hermes.execution.process_tree import descendants, send_signal

_START = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from hermes.execution.commands import runner; runner.main()"
)
_SOURCES = str(Path(__file__).parents[3])
_END_SECONDS = 3.0
_READY_SECONDS = 30.0
_TRIES = 3
_MOST_COMPLAINT = 2000

Launch = Callable[[Sequence[int], IO[bytes]], "subprocess.Popen[bytes]"]
"""Starts the runner with these sockets open, and this file for what it complains of. Blocks."""


def launch_here(shell: str, env: Mapping[str, str]) -> Launch:
    """As a plain process of this machine."""

    def launch(doors: Sequence[int], complaint: IO[bytes]) -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-I", "-S", "-c", _START, _SOURCES, str(doors[0]), shell]
        return start_apart(argv, env, doors, complaint)

    return launch


def start_apart(
    argv: Sequence[str], env: Mapping[str, str], descriptors: Sequence[int], complaint: IO[bytes]
) -> subprocess.Popen[bytes]:
    """A process with nothing of ours but these descriptors, and this file for what it complains of."""
    return subprocess.Popen(
        argv,
        env=dict(env),
        pass_fds=descriptors,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=complaint,
        start_new_session=True,
        cwd="/",
    )


class ForkServer:
    """Its process lives as long as a transport uses it. It has so many `doors`: the first is for commands."""

    def __init__(self, launch: Launch, *, doors: int = 1) -> None:
        self._launch = launch
        self._count = doors
        self._doors: list[socket.socket] = []
        self._runner: subprocess.Popen[bytes] | None = None
        self._complaint: IO[bytes] | None = None
        self._last_words = ""
        self._changing = asyncio.Lock()
        self._users: set[ForkTransport] = set()

    @property
    def runs(self) -> bool:
        return self._runner is not None and self._runner.poll() is None

    async def connect(self, user: ForkTransport, door: int = 0) -> Connection:
        """A connection to a supervisor that waits for its request; or to whatever is behind the door."""
        self._users.add(user)
        for _ in range(_TRIES):
            runner, reader, writer = await self._pass_socket(door)
            try:
                async with asyncio.timeout(_READY_SECONDS):
                    ready = await reader.read(1)
            except BaseException as error:
                writer.close()
                if isinstance(error, TimeoutError):
                    raise Unreachable(f"the command runner did nothing for {_READY_SECONDS:g} s") from None
                raise
            if ready:
                return Connection(reader, writer)
            # The runner was dying when it was handed this.
            writer.close()
            async with self._changing:
                if self._runner is runner:  # nobody has replaced it yet
                    await self._end()
        why = f" ({self._last_words})" if self._last_words else ""
        raise Unreachable(f"the command runner dies as soon as it is started{why}")

    async def leave(self, user: ForkTransport) -> None:
        """The supervisors it has started live on until their connections are closed."""
        self._users.discard(user)
        async with self._changing:
            if not self._users:
                await self._end()

    async def kill(self) -> None:
        """At once, with everything below it, whoever uses it; the next use starts another."""
        async with self._changing:
            if self._runner is not None:
                await asyncio.to_thread(_kill_tree, self._runner)
            await self._end()

    async def _end(self) -> None:
        for door in self._doors:
            door.close()
        self._doors = []
        runner, self._runner = self._runner, None
        if runner is not None:
            await asyncio.to_thread(_see_off, runner)
        complaint, self._complaint = self._complaint, None
        if complaint is not None:
            self._last_words = await asyncio.to_thread(_read_end, complaint)

    async def _pass_socket(
        self, door: int
    ) -> tuple[subprocess.Popen[bytes] | None, asyncio.StreamReader, asyncio.StreamWriter]:
        """A socket whose other end was given to this runner; it is closed there if the runner is dying."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                async with self._changing:
                    if not self.runs:
                        await self._end()
                        await asyncio.to_thread(self._start)
                    with contextlib.suppress(OSError):
                        socket.send_fds(self._doors[door], [b"!"], [theirs.fileno()])
                    runner = self._runner
            except BaseException as error:
                ours.close()
                if isinstance(error, OSError):
                    raise Unreachable(f"the command runner cannot be started ({error})") from error
                raise
        ours.setblocking(False)
        return runner, *await asyncio.open_unix_connection(sock=ours)

    def _start(self) -> None:
        self._complaint = tempfile.TemporaryFile()  # noqa: SIM115
        pairs = [socket.socketpair() for _ in range(self._count)]
        try:
            self._runner = self._launch([theirs.fileno() for _, theirs in pairs], self._complaint)
        except BaseException:
            for ours, _ in pairs:
                ours.close()
            raise
        finally:
            for _, theirs in pairs:
                theirs.close()
        self._doors = [ours for ours, _ in pairs]


class ForkTransport:
    """One backend's way to a server that others may use too."""

    def __init__(self, server: ForkServer) -> None:
        self._server = server

    async def connect(self) -> Connection:
        return await self._server.connect(self)

    async def connect_files(self) -> Connection:
        return await self._server.connect(self, 1)

    async def close(self) -> None:
        await self._server.leave(self)


def _kill_tree(runner: subprocess.Popen[bytes]) -> None:
    for pid in (*descendants(runner.pid), runner.pid):
        send_signal(pid, signal.SIGKILL)


def _see_off(runner: subprocess.Popen[bytes]) -> None:
    try:
        runner.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        runner.kill()
        runner.wait()


def _read_end(complaint: IO[bytes]) -> str:
    """The last line of what was written to it."""
    with complaint:
        complaint.seek(max(complaint.seek(0, os.SEEK_END) - _MOST_COMPLAINT, 0))
        lines = complaint.read().decode("utf-8", "replace").strip().splitlines()
    return one_line(lines[-1], 200) if lines else ""
