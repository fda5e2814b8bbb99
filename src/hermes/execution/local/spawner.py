"""The gateway's end of the runner: starts it when first needed, and opens a line to each command's keeper.

The runner gets no environment but the one that is built for commands, so there is nothing in it to find.

Frames on a connection are a length (4 bytes), a letter and a payload. To the keeper: `r` the request, `k`
kill, `p` poll, `w` words for stdin, `c` close stdin. From it: `a` accepted, before anything happens; `o` live
output, `u` unread output, `h` head, `t` tail, `s` the shell's state, `x` the end (JSON), `p` the answer to a
poll (JSON). It closes the connection when nothing of the command is left.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hermes.domain.errors import Unreachable, UserError
from hermes.execution.local import frames

_START = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from hermes.execution.local import runner; runner.main()"
)
_SOURCES = str(Path(__file__).parents[3])
_LARGEST_FRAME = 64 << 20
_END_SECONDS = 3.0
_TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLimits:
    """How much of a command's output is kept, and what it may write."""

    head: int = 20_000
    tail: int = 30_000
    saved: int = 16 << 20
    file_size: int = 0
    """The largest file a command may write, in bytes; 0 = any (RLIMIT_FSIZE)."""
    grace: float = 0.3
    """Seconds between the polite and the final signal when time is up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnRequest:
    """What a keeper needs to know."""

    command: str
    cwd: str
    env: Mapping[str, str]
    state: str
    timeout: float
    file: str
    background: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandEnd:
    """What a keeper told of the end of its command."""

    facts: Mapping[str, Any]
    head: bytes
    tail: bytes
    unread: bytes
    state: bytes


@dataclass(slots=True)
class CommandConnection:
    """A connection to one keeper. One task at a time may listen."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    polled: Callable[[bytes, int], None] = field(default=lambda data, dropped: None)

    async def hear_accepted(self) -> bool:
        try:
            frame = await self._receive()
        except asyncio.CancelledError:
            self.close()
            raise
        return frame is not None and frame[0] == frames.ACCEPTED

    async def hear_end(self, output: Callable[[bytes], None]) -> CommandEnd | None:
        """Listen until the command has ended; None if its keeper died."""
        parts: dict[bytes, bytes] = {}
        while True:
            frame = await self._receive()
            if frame is None:
                return None
            letter, payload = frame
            if letter == frames.LIVE_OUTPUT:
                output(payload)
            elif letter == frames.POLL:
                self.polled(parts.pop(frames.UNREAD, b""), int(json.loads(payload)["dropped"]))
            elif letter == frames.ENDED:
                head, tail = parts.get(frames.HEAD, b""), parts.get(frames.TAIL, b"")
                unread, state = parts.get(frames.UNREAD, b""), parts.get(frames.SHELL_STATE, b"")
                return CommandEnd(facts=json.loads(payload), head=head, tail=tail, unread=unread, state=state)
            else:
                parts[letter] = payload

    async def hear_silence(self) -> None:
        """Listen until nothing of the command is left, answering polls meanwhile."""
        unread = b""
        while (frame := await self._receive()) is not None:
            letter, payload = frame
            if letter == frames.UNREAD:
                unread = payload
            elif letter == frames.POLL:
                self.polled(unread, int(json.loads(payload)["dropped"]))

    def send(self, letter: bytes, payload: bytes = b"") -> None:
        if not self.writer.is_closing():
            self.writer.write(frames.pack_frame(letter, payload))

    async def end(self) -> None:
        """Kill everything the command started, and wait until it is gone."""
        self.send(frames.KILL, b"0")
        try:
            async with asyncio.timeout(_END_SECONDS):
                while await self._receive() is not None:
                    pass
        except TimeoutError:
            pass
        finally:
            self.close()

    def close(self) -> None:
        """A keeper whose line is closed ends its command."""
        self.writer.close()

    async def _receive(self) -> tuple[bytes, bytes] | None:
        try:
            (length,) = struct.unpack(">I", await self.reader.readexactly(4))
            if length > _LARGEST_FRAME:
                return None
            frame = await self.reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        return frame[:1], frame[1:]


class Spawner:
    """Runs commands through one runner process; a runner that died is replaced."""

    def __init__(self, *, shell: str, env: Mapping[str, str], limits: CommandLimits) -> None:
        self._shell = shell
        self._env = env
        self._limits = limits
        self._door: socket.socket | None = None
        self._runner: subprocess.Popen[bytes] | None = None
        self._starting = asyncio.Lock()

    async def open(self, request: SpawnRequest) -> CommandConnection:
        if "\0" in request.command:
            raise UserError("A command cannot contain a NUL character.")
        for _ in range(_TRIES):
            line = await self._try(request)
            if await line.hear_accepted():
                return line
            # The runner was dying when it was handed this: nothing has happened yet.
            line.close()
            await self._discard()
        raise Unreachable("the command runner dies as soon as it is started")

    async def _try(self, request: SpawnRequest) -> CommandConnection:
        ours, theirs = socket.socketpair()
        try:
            await self._hand_over(theirs)
        except OSError as error:
            ours.close()
            raise Unreachable(f"the command runner cannot be started ({error})") from error
        finally:
            theirs.close()
        ours.setblocking(False)
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        line = CommandConnection(reader, writer)
        line.send(frames.REQUEST, json.dumps(self._request_fields(request)).encode())
        return line

    async def close(self) -> None:
        await self._discard()

    async def _discard(self) -> None:
        if self._door is not None:
            self._door.close()
            self._door = None
        runner, self._runner = self._runner, None
        if runner is not None:
            await asyncio.to_thread(_see_off, runner)

    def _request_fields(self, request: SpawnRequest) -> dict[str, object]:
        limits = self._limits
        return {
            "command": request.command,
            "cwd": request.cwd,
            "state": (request.state or _exports(self._env)) + _exports(request.env),
            "timeout": request.timeout,
            "grace": limits.grace,
            "head": limits.head,
            "tail": limits.tail,
            "file": request.file,
            "file_limit": limits.saved,
            "live": not request.background,
            "stdin": request.background,
        }

    async def _hand_over(self, theirs: socket.socket) -> None:
        async with self._starting:
            if self._runner is None or self._runner.poll() is not None or not _pass(self._door, theirs):
                await asyncio.to_thread(self._start)
                if not _pass(self._door, theirs):
                    raise OSError("it does not listen")

    def _start(self) -> None:
        if self._door is not None:
            self._door.close()
        if self._runner is not None:
            _see_off(self._runner)
        ours, theirs = socket.socketpair()
        arguments = [_SOURCES, str(theirs.fileno()), self._shell, str(self._limits.file_size)]
        with theirs:
            self._runner = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _START, *arguments],
                env=dict(self._env),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )
        self._door = ours


def _pass(door: socket.socket | None, theirs: socket.socket) -> bool:
    if door is None:
        return False
    try:
        socket.send_fds(door, [b"!"], [theirs.fileno()])
    except OSError:
        return False
    return True


def _exports(env: Mapping[str, str]) -> str:
    return "".join(f"\nexport {name}='{_quoted(value)}'" for name, value in env.items())


def _quoted(value: str) -> str:
    return value.replace("'", "'\\''")


def _see_off(runner: subprocess.Popen[bytes]) -> None:
    try:
        runner.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        runner.kill()
        runner.wait()
