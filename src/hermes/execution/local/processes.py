"""Processes in the background: each has an id, belongs to a session, and ends with the backend.

A process is watched by a task of its own until nothing of it is left. Finished ones are kept for a while, so
that their last words can still be read."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from hermes.domain.errors import UserError
from hermes.domain.ports.world import ProcessView
from hermes.execution.local import frames
from hermes.execution.local.spawner import CommandConnection, CommandEnd

_MOST_RUNNING = 64
_KEPT_SECONDS = 1800.0
_ANSWER_SECONDS = 2.0


@dataclass(slots=True, kw_only=True)
class BackgroundProcess:
    """One background process."""

    id: str
    session: str
    command: str
    cwd: str
    line: CommandConnection
    file: str
    ended: Callable[[ProcessView], None]
    started: float = field(default_factory=time.monotonic)
    stopped: float | None = None
    code: int | None = None
    unread: bytes = b""
    dropped: int = 0
    saved: str = ""
    over: asyncio.Event = field(default_factory=asyncio.Event)
    answers: list[asyncio.Future[None]] = field(default_factory=list)

    def view(self, *, take: bool) -> ProcessView:
        output = self.unread.decode("utf-8", "replace") if take else ""
        dropped = self.dropped if take else 0
        if take:
            self.unread, self.dropped = b"", 0
        return ProcessView(
            id=self.id,
            command=self.command,
            cwd=self.cwd,
            seconds=(self.stopped or time.monotonic()) - self.started,
            running=self.stopped is None,
            code=self.code,
            output=output,
            dropped=dropped,
            saved=self.saved,
        )

    def polled(self, data: bytes, dropped: int) -> None:
        self.unread += data
        self.dropped = dropped
        for answer in self.answers:
            if not answer.done():
                answer.set_result(None)
        self.answers.clear()

    async def watch(self) -> None:
        """Live with the process until nothing of it is left."""
        try:
            if self.code is None:
                self._note(await self.line.hear_end(lambda data: None))
            await self.line.hear_silence()
        finally:
            self.stopped = time.monotonic()
            self.line.close()
            self.polled(b"", self.dropped)
            self.over.set()
        self.ended(self.view(take=False))

    def _note(self, end: CommandEnd | None) -> None:
        if end is None:
            self.code = 137
            return
        self.code = int(end.facts["code"])
        self.unread += end.unread
        self.dropped = int(end.facts["dropped"])
        self.saved = str(end.facts["file"])


class ProcessTable:
    """The `Processes` port over keepers."""

    def __init__(self) -> None:
        self._processes: dict[str, BackgroundProcess] = {}
        self._watchers: set[asyncio.Task[None]] = set()

    def check_room(self) -> None:
        self._forget()
        if sum(process.stopped is None for process in self._processes.values()) >= _MOST_RUNNING:
            raise UserError(f"{_MOST_RUNNING} processes run already.", hint="Kill one that is not needed.")

    def add(self, process: BackgroundProcess) -> None:
        self._processes[process.id] = process
        process.line.polled = process.polled
        watcher = asyncio.create_task(process.watch(), name=f"process {process.id}")
        self._watchers.add(watcher)
        watcher.add_done_callback(self._watchers.discard)

    def find(self, process: str) -> ProcessView | None:
        """Whoever's it is: for judging what is sent to it."""
        found = self._processes.get(process)
        return None if found is None else found.view(take=False)

    async def list(self, session: str) -> list[ProcessView]:
        self._forget()
        return [one.view(take=False) for one in self._processes.values() if one.session == session]

    async def poll(self, session: str, process: str) -> ProcessView:
        found = self._get(session, process)
        await self._refresh(found)
        return found.view(take=True)

    async def wait(self, session: str, process: str, seconds: float) -> ProcessView:
        found = self._get(session, process)
        try:
            async with asyncio.timeout(seconds):
                await found.over.wait()
        except TimeoutError:
            await self._refresh(found)
        return found.view(take=True)

    async def kill(self, session: str, process: str) -> ProcessView:
        found = self._get(session, process)
        if found.stopped is None:
            found.line.send(frames.KILL, b"0.3")
            try:
                async with asyncio.timeout(_ANSWER_SECONDS + 1):
                    await found.over.wait()
            except TimeoutError:
                pass
        return found.view(take=True)

    async def write(self, session: str, process: str, data: bytes, *, close: bool = False) -> None:
        found = self._get(session, process)
        if found.stopped is not None:
            raise UserError(f"{process} has ended (exit code {found.code}).")
        found.line.send(frames.WRITE, data)
        if close:
            found.line.send(frames.CLOSE_STDIN)

    async def close(self) -> None:
        for process in self._processes.values():
            if process.stopped is None:
                process.line.send(frames.KILL, b"0")
        if self._watchers:
            _, left = await asyncio.wait(self._watchers, timeout=_ANSWER_SECONDS + 1)
            for watcher in left:
                watcher.cancel()

    async def _refresh(self, process: BackgroundProcess) -> None:
        if process.stopped is not None:
            return
        answer = asyncio.get_running_loop().create_future()
        process.answers.append(answer)
        process.line.send(frames.POLL)
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                await answer
        except TimeoutError:
            return

    def _get(self, session: str, process: str) -> BackgroundProcess:
        found = self._processes.get(process)
        if found is None or found.session != session:
            known = [one.id for one in self._processes.values() if one.session == session]
            hint = f"Known here: {', '.join(known)}." if known else "None runs here."
            raise UserError(f"There is no process “{process}”.", hint=hint)
        return found

    def _forget(self) -> None:
        limit = time.monotonic() - _KEPT_SECONDS
        old = [one.id for one in self._processes.values() if one.stopped is not None and one.stopped < limit]
        for process in old:
            del self._processes[process]


def new_process_id() -> str:
    return f"proc_{secrets.token_hex(3)}"
