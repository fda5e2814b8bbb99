"""What a stream to a far world hangs on: the pipes of a program of this machine that leads there, or of one
that runs there by the means of a vendor's SDK."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, cast

from hermes.domain.errors import Unreachable
from hermes.execution.far.programs import ProgramEnd

_PIECE = 1 << 16
_FULL = 1 << 20
_HANG_UP_SECONDS = 5.0


class Inlet(Protocol):
    """The writing end."""

    def write(self, data: bytes, /) -> None: ...

    async def drain(self) -> None: ...

    def close(self) -> None: ...

    def is_closing(self) -> bool: ...


class Pipes(Protocol):
    """A program that runs. A process of this machine is one."""

    @property
    def stdin(self) -> Any:
        """An `Inlet`."""

    @property
    def stdout(self) -> asyncio.StreamReader | None: ...

    @property
    def stderr(self) -> asyncio.StreamReader | None: ...

    @property
    def returncode(self) -> int | None: ...

    def kill(self) -> None: ...

    async def wait(self) -> int: ...


async def start_program(argv: Sequence[str], env: Mapping[str, str]) -> Pipes:
    """An `Unreachable` if it cannot be started."""
    pipe = asyncio.subprocess.PIPE
    try:
        return await asyncio.create_subprocess_exec(
            *argv, stdin=pipe, stdout=pipe, stderr=pipe, env=dict(env), start_new_session=True, cwd="/"
        )
    except OSError as error:
        raise Unreachable(f"{argv[0]} cannot be started ({error.strerror})") from error


async def finish(pipes: Pipes, seconds: float) -> ProgramEnd:
    """Read a program to its end; an `Unreachable` if it takes longer."""
    assert pipes.stdout is not None and pipes.stderr is not None
    try:
        async with asyncio.timeout(seconds):
            output, words = await asyncio.gather(pipes.stdout.read(), pipes.stderr.read())
            pipes.stdin.close()
            code = await pipes.wait()
    except TimeoutError:
        raise Unreachable(f"the place of the commands did not answer within {seconds:g} s") from None
    finally:
        if pipes.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                pipes.kill()
            await pipes.wait()
    return ProgramEnd(code=code, output=output, complaint=words.decode("utf-8", "replace").strip())


class RemotePipes:
    """Those of a program that a vendor's SDK runs. What is written goes to `send`, in order; when the writing
    end is closed, `hang_up` ends the program. Whoever hears it calls `feed`, and `end` once."""

    def __init__(
        self, send: Callable[[bytes], Awaitable[None]], hang_up: Callable[[], Awaitable[None]]
    ) -> None:
        self.stdout = asyncio.StreamReader(limit=_PIECE)
        self.stderr = asyncio.StreamReader()
        self.stdin = self
        self.returncode: int | None = None
        self._send, self._hang_up = send, hang_up
        self._waiting = bytearray()
        self._closing = False
        self._changed = asyncio.Event()
        self._drained = asyncio.Event()
        self._drained.set()
        self._room = asyncio.Event()
        self._room.set()
        self._watching: asyncio.Task[None] | None = None
        # The reader asks its transport to pause while nobody takes what there is.
        self.stdout.set_transport(cast(asyncio.Transport, self))
        self._carrying = asyncio.create_task(self._carry(), name="remote pipes")

    # --- the reading end ---

    def pause_reading(self) -> None:
        self._room.clear()

    def resume_reading(self) -> None:
        self._room.set()

    async def feed(self, data: bytes) -> None:
        """Waits while nobody takes what there is."""
        await self._room.wait()
        if self.returncode is None:
            self.stdout.feed_data(data)

    def end(self, code: int, words: str = "") -> None:
        if self.returncode is None:
            self.returncode = code
            if words:
                self.stderr.feed_data(words.encode())
            self.stdout.feed_eof()
            self.stderr.feed_eof()
            self._closing = True
            self._changed.set()
            self._drained.set()
            self._room.set()

    def watched_by(self, task: asyncio.Task[None]) -> None:
        """The task that sees the program's end; it goes with these pipes."""
        self._watching = task

    # --- the writing end ---

    def write(self, data: bytes, /) -> None:
        self._waiting += data
        if len(self._waiting) > _FULL:
            self._drained.clear()
        self._changed.set()

    async def drain(self) -> None:
        await self._drained.wait()

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._closing = True
        self._changed.set()

    async def _carry(self) -> None:
        words = ""
        try:
            while self._waiting or not self._closing:
                self._changed.clear()
                while self._waiting and self.returncode is None:
                    piece = bytes(self._waiting[:_PIECE])
                    del self._waiting[:_PIECE]
                    await self._send(piece)
                self._drained.set()
                if self.returncode is not None:
                    break
                if not self._closing:
                    await self._changed.wait()
        except Exception as error:  # whatever an SDK raises: the stream is lost
            words = str(error)
        finally:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(_HANG_UP_SECONDS):
                    await self._hang_up()
            self.end(255, words)
            if self._watching is not None:
                self._watching.cancel()

    def kill(self) -> None:
        self._carrying.cancel()

    async def wait(self) -> int:
        await asyncio.wait((self._carrying,))
        self.end(255)
        assert self.returncode is not None
        return self.returncode
