"""The gateway's end of streams: programs whose pipes lead to a far end that serves one command after another.

A stream that has carried a command to its end, with nothing left, waits for the next one; its far end has a
shell waiting already. So starting the program (100 to 300 ms for a container) is paid once, and again only
when several commands run beside each other. What was killed, polled or written to is never used again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from hermes.domain.errors import HermesError, Unreachable
from hermes.execution.commands import frames
from hermes.execution.commands.frames import Frame
from hermes.execution.commands.transport import Connection
from hermes.execution.far.pipes import Pipes

_MOST_WAITING = 3
_TRIES = 3
_READY_SECONDS = 30.0
_QUERY_SECONDS = 70.0
_END_SECONDS = 3.0
_MOST_COMPLAINT = 2000
_REQUEST = frozenset((frames.FOLDER, frames.STATE, frames.KEEP, frames.COMMAND, frames.RUN))
_QUESTION = frozenset((frames.INPUT, frames.QUERY))

Explain = Callable[[str], Awaitable[HermesError | None]]
"""What went wrong, from the words that the program left behind; None if it is mended by now."""


class FarStream(Connection):
    """One program and its pipes. `release` takes it back when whoever used it closes it."""

    def __init__(self, child: Pipes, release: Callable[[FarStream], None]) -> None:
        assert child.stdout is not None and child.stderr is not None
        super().__init__(child.stdout, child.stdin)
        self._child = child
        self._release = release
        self._ended = False
        self._clean = True
        self._used = False
        self.lost = False
        self._complaint = bytearray()
        self._hearing = asyncio.create_task(self._hear(child.stderr), name="far stream")

    async def _hear(self, stderr: asyncio.StreamReader) -> None:
        while words := await stderr.read(4096):
            self._complaint = (self._complaint + words)[-_MOST_COMPLAINT:]

    @property
    def usable(self) -> bool:
        # Its last READY may not be read yet, so `at_eof` would not tell that the stream has ended behind it.
        return self._clean and self._child.returncode is None and not getattr(self._reader, "_eof", False)

    def begin(self) -> None:
        self._ended, self._used = False, True

    def send(self, letter: bytes, payload: bytes = b"") -> None:
        self._clean = self._clean and letter in (_REQUEST | _QUESTION)
        super().send(letter, payload)

    async def receive(self) -> Frame | None:
        """None also when nothing of the command is left."""
        while (frame := await super().receive()) is not None:
            letter, payload = frame
            if letter == frames.READY:
                if self._ended or not self._used:
                    return None
                continue  # for the command before this one
            if letter == frames.ENDED:
                self._ended = True
                self._clean = self._clean and payload.split()[2] == b"0"
            return frame
        self._clean, self.lost = False, True
        return None

    async def wait_ready(self) -> bool:
        """Whether the far end waits for a request."""
        await self.receive()
        return self._clean

    def close(self) -> None:
        self._clean = self._clean and (self._ended or not self._used)
        self._release(self)

    def hang_up(self) -> None:
        """The far end then ends what runs there, and leaves."""
        self._clean = False
        super().close()

    async def last_words(self) -> str:
        """What the program complained of before it ended."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_SECONDS):
                await asyncio.shield(self._hearing)
        return self._complaint.decode("utf-8", "replace").strip()

    async def leave(self) -> None:
        """Hang up, and see the program off."""
        self.hang_up()
        try:
            async with asyncio.timeout(_END_SECONDS):
                await self._child.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._child.kill()
            await self._child.wait()
        finally:
            self._hearing.cancel()


class StreamPool:
    """The `Transport` over such streams, and queries beside commands. `start` starts a program whose pipes
    lead to a far end; `explain` tells why one could not."""

    def __init__(self, start: Callable[[], Awaitable[Pipes]], explain: Explain) -> None:
        self._begin = start
        self._explain = explain
        self._waiting: list[FarStream] = []
        self._streams: set[FarStream] = set()
        self._leaving: set[asyncio.Task[None]] = set()

    async def connect(self) -> FarStream:
        while self._waiting:
            stream = self._waiting.pop()
            if stream.usable:
                stream.begin()
                return stream
            self._see_off(stream)
        stream = await self._start()
        stream.begin()
        return stream

    async def warm(self) -> None:
        """Have one that waits."""
        if not any(stream.usable for stream in self._waiting):
            self._waiting.append(await self._start())

    async def query(self, script: str, data: bytes = b"") -> tuple[int, bytes]:
        """The exit code and the whole output of a script for `sh`; at most some megabytes."""
        stream = await self.connect()
        output = b""
        try:
            async with asyncio.timeout(_QUERY_SECONDS):
                stream.send(frames.INPUT, data)
                stream.send(frames.QUERY, script.encode("utf-8", "surrogateescape"))
                while (frame := await stream.receive()) is not None:
                    letter, payload = frame
                    if letter == frames.ENDED:
                        return int(payload.split()[0]), output
                    output += payload
        except TimeoutError:
            pass
        finally:
            stream.close()
        raise Unreachable("the world of the commands did not answer", maybe_done=True)

    async def close(self) -> None:
        for stream in tuple(self._streams):
            self._see_off(stream)
        self._waiting.clear()
        if self._leaving:
            await asyncio.wait(tuple(self._leaving))

    async def _start(self) -> FarStream:
        for _ in range(_TRIES):
            stream = await self._try()
            if stream.usable:
                return stream
            if error := await self._explain(await stream.last_words()):
                raise error
        raise Unreachable("the place of the commands is gone as soon as it is there")

    async def _try(self) -> FarStream:
        child = await self._begin()
        stream = FarStream(child, self._take_back)
        self._streams.add(stream)
        ready = False
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_READY_SECONDS):
                    ready = await stream.wait_ready()
        finally:
            if not ready:
                self._see_off(stream)
        return stream

    def _take_back(self, stream: FarStream) -> None:
        if stream.lost:  # with the place, as a rule, which others may not have heard of yet
            for each in self._waiting:
                self._see_off(each)
            self._waiting.clear()
        if stream.usable and len(self._waiting) < _MOST_WAITING:
            self._waiting.append(stream)
        else:
            self._see_off(stream)

    def _see_off(self, stream: FarStream) -> None:
        if stream not in self._streams:
            return
        self._streams.discard(stream)
        stream.hang_up()
        task = asyncio.create_task(stream.leave(), name="end far stream")
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)
