"""Commands that run, each with the connection to its supervisor, and the table of those in the background.

A background process has an id, belongs to a session and ends with the backend. A task of its own watches it
until nothing of it is left. Finished ones are kept for a while, so that their last words can still be
read."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable

from msgspec import Struct, field

from hermes.domain.errors import UserError
from hermes.domain.ports.world import AskPassword, HearCall, ProcessView, Wrote
from hermes.execution.commands import frames
from hermes.execution.commands.transport import Connection

_MOST_RUNNING = 64
_KEPT_SECONDS = 1800.0
_ANSWER_SECONDS = 2.0
_END_SECONDS = 3.0
_MOST_CALLS = 64
_LONGEST_CALL = 8 << 20
_LOG_BYTES = 200_000
_LONGEST_LINE = 1000
_MOST_TOLD = 20


class CommandEnd(Struct, frozen=True, kw_only=True):
    """How a command ended. `left` is whether something of it still runs; `cut` is how many bytes are in
    neither head nor tail; `gone` is a folder that the command could not start in."""

    code: int
    timed_out: bool
    left: bool
    cut: int
    dropped: int
    file: str
    gone: str
    head: bytes
    tail: bytes
    unread: bytes
    state: bytes


class RunningCommand(Struct, kw_only=True):
    """A command, from its start until nothing of it is left. One task at a time may listen to it. `log` is
    the end of what it has written, after `lost` bytes; up to the byte `position` somebody has read it."""

    id: str
    session: str
    text: str
    cwd: str
    connection: Connection
    password: AskPassword | None = None
    hear: HearCall | None = None
    terminal: bool = False
    watched: tuple[bytes, ...] = ()
    wrote: Wrote = lambda view, lines: None
    looked: int = 0
    ended: Callable[[ProcessView], None] = lambda view: None
    started: float = field(default_factory=time.monotonic)
    code: int | None = None
    stopped: float | None = None
    log: bytearray = field(default_factory=bytearray)
    lost: int = 0
    position: int = 0
    saved: str = ""
    over: asyncio.Event = field(default_factory=asyncio.Event)
    answered: asyncio.Event = field(default_factory=asyncio.Event)

    def view(self, *, take: bool = False, whole: bool = False) -> ProcessView:
        """With what was not read before (`take`), or with all that is kept (`whole`)."""
        output, dropped = b"", 0
        if take or whole:
            since = 0 if whole else self.position
            output, dropped = bytes(self.log[max(since - self.lost, 0) :]), max(self.lost - since, 0)
        if take:
            self.position = self.lost + len(self.log)
        return ProcessView(
            id=self.id,
            command=self.text,
            cwd=self.cwd,
            seconds=(self.stopped or time.monotonic()) - self.started,
            running=self.stopped is None,
            code=self.code,
            output=output.decode("utf-8", "replace"),
            dropped=dropped,
            saved=self.saved,
        )

    async def hear_end(self, output: Callable[[bytes], None] = lambda data: None) -> CommandEnd | None:
        """Listen until the command has ended; None when its supervisor is gone."""
        asking: set[asyncio.Task[None]] = set()
        try:
            return await self._hear_end(output, asking)
        finally:
            for task in asking:
                task.cancel()

    async def _hear_end(
        self, output: Callable[[bytes], None], asking: set[asyncio.Task[None]]
    ) -> CommandEnd | None:
        parts: dict[bytes, bytes] = {}
        called = bytearray()
        while (frame := await self.connection.receive()) is not None:
            letter, payload = frame
            if letter == frames.LIVE_OUTPUT:
                output(payload)
            elif letter == frames.ASKED:
                asking.add(asyncio.create_task(self._ask(int(payload)), name=f"password for {self.id}"))
            elif letter == frames.CALLED:
                called += payload
                self._take_calls(called, asking, over=not payload)
            elif letter == frames.POLL:
                self._add(parts.pop(frames.UNREAD, b""), int(payload))
                self.answered.set()
            elif letter == frames.ENDED:
                code, timed_out, left, cut, dropped = map(int, payload.split())
                return CommandEnd(
                    code=code,
                    timed_out=bool(timed_out),
                    left=bool(left),
                    cut=cut,
                    dropped=dropped,
                    file=os.fsdecode(parts.get(frames.SAVED, b"")),
                    gone=os.fsdecode(parts.get(frames.GONE, b"")),
                    head=parts[frames.HEAD],
                    tail=parts[frames.TAIL],
                    unread=parts.get(frames.UNREAD, b""),
                    state=parts[frames.SHELL_STATE],
                )
            else:
                parts[letter] = payload
        return None

    def _add(self, data: bytes, dropped: int) -> None:
        """What it has written since, without so many bytes before that."""
        if dropped:
            self.lost += len(self.log) + dropped
            self.log.clear()
        self.log += data
        old = max(len(self.log) - _LOG_BYTES, 0)
        del self.log[:old]
        self.lost += old
        if self.watched:
            self._look()

    def _look(self) -> None:
        """Tell of new lines with what is watched for; the last one may not be over yet."""
        end = self.lost + len(self.log)
        lines = self.log[max(self.looked - self.lost, 0) :].split(b"\n")
        found = [line for line in lines if any(text in line for text in self.watched)]
        last_told = bool(found) and found[-1] is lines[-1]
        self.looked = end if last_told else end - min(len(lines[-1]), _LONGEST_LINE)
        if found:
            told = [bytes(line[:_LONGEST_LINE]).decode("utf-8", "replace") for line in found[-_MOST_TOLD:]]
            self.wrote(self.view(), tuple(told))

    def _take_calls(self, called: bytearray, asking: set[asyncio.Task[None]], *, over: bool) -> None:
        """Have whole lines answered. A program that floods, or that nobody can read, is ended."""
        try:
            if self.hear is not None:
                self._hear_lines(called, self.hear, asking)
        except ValueError:
            self.hear = None
            self.connection.send(frames.KILL, b"0")
        if over:
            self.hear = None
            for task in asking:
                task.cancel()
            self.connection.send(frames.CLOSE_STDIN)

    def _hear_lines(self, called: bytearray, hear: HearCall, asking: set[asyncio.Task[None]]) -> None:
        end = called.rfind(b"\n") + 1
        lines = bytes(called[:end]).split(b"\n")[:-1]
        del called[:end]
        asking -= {task for task in asking if task.done()}
        for line in lines:
            work = hear(b"" if len(asking) > _MOST_CALLS else line)
            if work is not None:
                asking.add(asyncio.create_task(self._answer(work), name=f"call of {self.id}"))
        if len(called) > _LONGEST_CALL:
            hear(b"")

    async def _answer(self, work: Callable[[], Awaitable[bytes]]) -> None:
        self.connection.send(frames.WRITE, await work() + b"\n")

    async def _ask(self, before: int) -> None:
        """Answer, whatever happens: sudo waits for it."""
        word = b""
        try:
            if self.password is not None:
                word = (await self.password(before)).encode("utf-8", "surrogateescape")
        finally:
            self.connection.send(frames.PASSWORD, word)

    async def watch(self) -> None:
        """Stay with a background process until nothing of it is left."""
        try:
            if self.code is None:
                end = await self.hear_end()
                self.code = 137 if end is None else end.code
                if end is not None:
                    self._add(end.unread, end.dropped)
                    self.saved = end.file
            await self.hear_end()
        finally:
            self.stopped = time.monotonic()
            self.connection.close()
            self.answered.set()
            self.over.set()
        self.ended(self.view())

    async def refresh(self) -> None:
        """Fetch what it has said since."""
        if self.stopped is None:
            self.answered.clear()
            self.connection.send(frames.POLL)
            await _within(_ANSWER_SECONDS, self.answered)

    async def kill(self) -> None:
        """Kill everything the command started, and wait until it is gone. For whoever listens to it."""
        self.connection.send(frames.KILL, b"0")
        self.connection.send(frames.CLOSE_STDIN)
        try:
            async with asyncio.timeout(_END_SECONDS):
                while await self.connection.receive() is not None:
                    pass
        except TimeoutError:
            pass
        finally:
            self.connection.close()


class ProcessTable:
    """The `Processes` port."""

    def __init__(self) -> None:
        self._processes: dict[str, RunningCommand] = {}
        self._watchers: set[asyncio.Task[None]] = set()

    @property
    def running(self) -> int:
        return sum(process.stopped is None for process in self._processes.values())

    def check_room(self) -> None:
        self._forget()
        if self.running >= _MOST_RUNNING:
            raise UserError(f"{_MOST_RUNNING} processes run already.", hint="Kill one that is not needed.")

    def add(self, process: RunningCommand) -> None:
        self._processes[process.id] = process
        watcher = asyncio.create_task(process.watch(), name=f"process {process.id}")
        self._watchers.add(watcher)
        watcher.add_done_callback(self._watchers.discard)

    async def list(self, session: str) -> list[ProcessView]:
        self._forget()
        return [process.view() for process in self._of(session)]

    async def poll(self, session: str, id: str, *, whole: bool = False) -> ProcessView:
        process = self._get(session, id)
        await process.refresh()
        return process.view(take=not whole, whole=whole)

    async def wait(self, session: str, id: str, seconds: float) -> ProcessView:
        process = self._get(session, id)
        await _within(seconds, process.over)
        await process.refresh()
        return process.view(take=True)

    async def kill(self, session: str, id: str) -> ProcessView:
        process = self._get(session, id)
        if process.stopped is None:
            process.connection.send(frames.KILL, b"0.3")
            await _within(_END_SECONDS, process.over)
        return process.view(take=True)

    async def write(self, session: str, id: str, data: bytes, *, close: bool = False) -> None:
        process = self._get(session, id)
        if process.stopped is not None:
            raise UserError(f"{id} has ended (exit code {process.code}).")
        process.connection.send(frames.WRITE, data.replace(b"\n", b"\r") if process.terminal else data)
        if close:
            process.connection.send(frames.CLOSE_STDIN)

    async def close(self) -> None:
        for process in self._processes.values():
            if process.stopped is None:
                process.connection.send(frames.KILL, b"0")
        if self._watchers:
            _, left = await asyncio.wait(self._watchers, timeout=_END_SECONDS)
            for watcher in left:
                watcher.cancel()

    def _of(self, session: str) -> Iterable[RunningCommand]:
        return (process for process in self._processes.values() if process.session == session)

    def _get(self, session: str, id: str) -> RunningCommand:
        ours = {process.id: process for process in self._of(session)}
        if id not in ours:
            hint = f"Known here: {', '.join(ours)}." if ours else "None runs here."
            raise UserError(f"There is no process “{id}”.", hint=hint)
        return ours[id]

    def _forget(self) -> None:
        limit = time.monotonic() - _KEPT_SECONDS
        for process in list(self._processes.values()):
            if process.stopped is not None and process.stopped < limit:
                del self._processes[process.id]


async def _within(seconds: float, event: asyncio.Event) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def new_process_id() -> str:
    return f"proc_{secrets.token_hex(3)}"
