"""Hooks run in processes of their own, one for each hook folder, begun at its first event.

Questions and answers are lines of JSON. A process that keeps a call waiting past its time, prints without end
or answers nonsense is killed with all it started, and the next call begins another. Calls that were under way
beside the guilty one are repeated there. One that is still loading is given a while more than its first call,
so that a slow import does not mean that a hook never runs."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from hermes.domain.errors import Unreachable
from hermes.domain.system.hooks import Hook, HookAnswer
from hermes.domain.text import one_line
from hermes.execution.process_tree import descendants, kill_group, send_signal
from hermes.execution.scripts import feed, own_environment

LOADING_SECONDS = 15.0
MOST_OUTPUT = 1 << 20
MOST_ANSWER = 1 << 18
_KEPT_OUTPUT = 4096
_KILL_ROUNDS = 5
_START = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from hermes.execution.hooks import child; sys.path.pop(0); child.main()"
)
_SOURCES = str(Path(__file__).parents[3])


class HookProcesses:
    def __init__(self, home: Path, environ: Mapping[str, str]) -> None:
        self._environ = own_environment(home, environ)
        self._processes: dict[str, asyncio.Task[_HookProcess]] = {}
        self._ending: set[asyncio.Task[None]] = set()

    async def call(self, hook: Hook, event: str, context: Mapping[str, object]) -> HookAnswer:
        seconds = hook.seconds(event)
        end = asyncio.get_running_loop().time() + seconds
        while True:
            process: _HookProcess | None = None
            try:
                async with asyncio.timeout_at(end):
                    process = await self._process(hook)
                    return await process.ask(event, context)
            except TimeoutError:
                if process is not None and process.is_due():
                    process.end("another call kept it waiting", cut=True)
                raise Unreachable(f"it gave no answer within {seconds:g} s") from None
            except _HookInterrupted:
                continue
            except OSError as error:
                raise Unreachable(f"it cannot be started ({error.strerror})") from error

    async def close(self) -> None:
        starts = list(self._processes.values())
        self._processes.clear()
        for start in starts:
            start.cancel()
        if starts:
            await asyncio.wait(starts)
        for start in starts:
            if not start.cancelled() and not start.exception():
                start.result().end("the gateway stops")
        if self._ending:
            await asyncio.wait(self._ending)

    async def _process(self, hook: Hook) -> _HookProcess:
        """The process of a hook. Whoever asks first starts it, and everybody waits for the same one."""
        start = self._processes.get(hook.folder)
        if start is None or (start.done() and (start.exception() or not start.result().lives)):
            start = asyncio.create_task(self._start(hook.folder), name=f"start hook {hook.name}")
            self._processes[hook.folder] = start
        return await asyncio.shield(start)

    async def _start(self, folder: str) -> _HookProcess:
        _, process = await asyncio.get_running_loop().subprocess_exec(
            lambda: _HookProcess(self._ending),
            *(sys.executable, "-I", "-c", _START, _SOURCES, folder),
            cwd="/",
            env=self._environ,
            start_new_session=True,
        )
        return process


class _HookInterrupted(Exception):
    """The process was ended for what another call did."""


class _HookProcess(asyncio.SubprocessProtocol):
    """One process, from its start to its end. `ending` holds the tasks that see processes off."""

    _transport: asyncio.SubprocessTransport

    def __init__(self, ending: set[asyncio.Task[None]]) -> None:
        self._ending = ending
        self._started = time.monotonic()
        self._ready = False
        self._waiting: dict[int, asyncio.Future[object]] = {}
        self._last = 0
        self._line = bytearray()
        self._printed = bytearray()
        self._noise = 0
        self._exited = asyncio.Event()
        self.lives = True

    def is_due(self) -> bool:
        """Whether a call that got no answer is the fault of this process, and not of its loading."""
        return self._ready or time.monotonic() - self._started > LOADING_SECONDS

    async def ask(self, event: str, context: Mapping[str, object]) -> HookAnswer:
        self._last += 1
        number, self._noise = self._last, 0
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            question = json.dumps({"id": number, "event": event, "context": context})
            feed(self._transport, question.encode() + b"\n")
            try:
                answer = await waiting
            finally:
                await asyncio.sleep(0)  # what it printed before may stand right behind in the other pipe
            return HookAnswer(answer=answer, output=self._printed.decode("utf-8", "replace"))
        except Unreachable as error:
            error.add_note(self._printed.decode("utf-8", "replace"))  # shown only to who tests a hook
            raise
        finally:
            self._waiting.pop(number, None)

    def end(self, why: str, *, cut: bool = False) -> None:
        """Kill it. Calls that still wait for it are repeated elsewhere if it was not their fault (`cut`)."""
        if not self.lives:
            return
        self.lives = False
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(_HookInterrupted() if cut else Unreachable(why))
        task = asyncio.create_task(self._see_off(), name=f"end hook process {self._transport.get_pid()}")
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _see_off(self) -> None:
        pid = self._transport.get_pid()
        if self._exited.is_set():
            kill_group(pid)
        else:
            # Killing looks through the whole process table, so it is done beside the loop.
            await asyncio.to_thread(_kill, pid)
            await self._exited.wait()
        self._transport.close()

    # --- what comes from it ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Another loop's transports are of their own family, so there is nothing to check here.
        self._transport = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if not self.lives:
            return
        if fd == 2:
            self._noise += len(data)
            self._printed = (self._printed + data[-_KEPT_OUTPUT:])[-_KEPT_OUTPUT:]
            if self._noise > MOST_OUTPUT:
                self.end(f"it printed more than {MOST_OUTPUT >> 20} MB")
            return
        self._line += data
        if len(self._line) > MOST_ANSWER and b"\n" not in self._line[:MOST_ANSWER]:
            self.end(f"its answer is longer than {MOST_ANSWER >> 10} KB")
            return
        *lines, rest = bytes(self._line).split(b"\n")
        self._line = bytearray(rest)
        for line in lines:
            self._hear(line)

    def process_exited(self) -> None:
        self._exited.set()
        self.end(f"its process ended with code {self._transport.get_returncode()}")

    def _hear(self, line: bytes) -> None:
        try:
            message = json.loads(line)
            number = message.get("id")
        except (ValueError, AttributeError, RecursionError):
            self.end("it wrote where only answers belong")
            return
        self._ready = True
        answer = self._waiting.get(number)
        if answer is None or answer.done():
            return
        if "error" in message:
            answer.set_exception(Unreachable(one_line(str(message["error"]), 200)))
        else:
            answer.set_result(message.get("answer"))


def _kill(pid: int) -> None:
    """The process and all below it, also what left its group: it is held first, so it can start no more."""
    send_signal(pid, signal.SIGSTOP)
    seen: set[int] = set()
    for _ in range(_KILL_ROUNDS):
        new = set(descendants(pid)) - seen
        for other in new:
            send_signal(other, signal.SIGKILL)
        seen |= new
        if not new:
            break
    kill_group(pid)
