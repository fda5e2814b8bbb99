"""Hooks run in processes of their own, one for each hook folder, begun at its first event.

Questions and answers are lines of JSON. A process that keeps a call waiting past its time, prints without end
or answers nonsense is killed with all it started, and the next call begins another. Calls that were under way
beside the guilty one are repeated there. One that is still loading is given a while more than its first call,
so that a slow import does not mean that a hook never runs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

from hermes.domain.errors import Unreachable
from hermes.domain.hooks import Hook, HookAnswer
from hermes.domain.text import one_line
from hermes.execution.process_tree import descendants, send_signal
from hermes.execution.scripts import KEPT

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
        self._environ = {name: environ[name] for name in KEPT if name in environ}
        self._environ["HERMES_HOME"] = str(home)
        self._lives: dict[str, _HookProcess] = {}
        self._starting: dict[str, asyncio.Task[_HookProcess]] = {}
        self._ending: set[asyncio.Task[None]] = set()

    async def call(self, hook: Hook, event: str, context: Mapping[str, object]) -> HookAnswer:
        seconds = hook.seconds(event)
        end = asyncio.get_running_loop().time() + seconds
        while True:
            life: _HookProcess | None = None
            try:
                async with asyncio.timeout_at(end):
                    life = await self._life(hook)
                    return await life.ask(event, context)
            except TimeoutError:
                if life is not None and life.is_due():
                    life.end("another call kept it waiting", cut=True)
                raise Unreachable(f"it gave no answer within {seconds:g} s") from None
            except _HookInterrupted:
                continue
            except OSError as error:
                raise Unreachable(f"it cannot be started ({error.strerror})") from error

    async def close(self) -> None:
        for task in self._starting.values():
            task.cancel()
        for life in list(self._lives.values()):
            life.end("the gateway stops")
        if self._starting:
            await asyncio.wait(self._starting.values())
        if self._ending:
            await asyncio.wait(self._ending)

    async def _life(self, hook: Hook) -> _HookProcess:
        """The process of a hook. Whoever asks first begins it, and everybody waits for the same one."""
        known = self._lives.get(hook.folder)
        if known is not None and known.lives:
            return known
        starting = self._starting.get(hook.folder)
        if starting is None:
            starting = asyncio.create_task(self._start(hook), name=f"start hook {hook.name}")
            self._starting[hook.folder] = starting
            starting.add_done_callback(lambda _: self._starting.pop(hook.folder, None))
        return await asyncio.shield(starting)

    async def _start(self, hook: Hook) -> _HookProcess:
        loop = asyncio.get_running_loop()
        life = _HookProcess(loop, self._see_off)
        await loop.subprocess_exec(
            lambda: life,
            sys.executable,
            "-I",
            "-c",
            _START,
            _SOURCES,
            hook.folder,
            cwd="/",
            env=self._environ,
            start_new_session=True,
        )
        self._lives[hook.folder] = life
        return life

    def _see_off(self, life: _HookProcess) -> None:
        """Killing looks through the whole process table, so it is done beside the loop."""

        async def see_off() -> None:
            if life.exited.done():
                _kill_group(life.pid)
            else:
                await asyncio.to_thread(_kill, life.pid)
                await asyncio.wait((life.exited,))
            life.close()

        task = asyncio.get_running_loop().create_task(see_off(), name=f"end hook process {life.pid}")
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


class _HookInterrupted(Exception):
    """The process was ended for what another call did."""


class _HookProcess(asyncio.SubprocessProtocol):
    """One process, from its start to its end."""

    def __init__(self, loop: asyncio.AbstractEventLoop, see_off: Callable[[_HookProcess], None]) -> None:
        self._loop = loop
        self._see_off = see_off
        self._transport: asyncio.SubprocessTransport | None = None
        self._began = loop.time()
        self._ready = False
        self._waiting: dict[int, asyncio.Future[object]] = {}
        self._last = 0
        self._line = bytearray()
        self._printed = bytearray()
        self._noise = 0
        self.lives = True
        self.exited: asyncio.Future[None] = loop.create_future()

    @property
    def pid(self) -> int:
        assert self._transport is not None
        return self._transport.get_pid()

    def is_due(self) -> bool:
        """Whether a call that got no answer is the fault of this process, and not of its loading."""
        return self._ready or self._loop.time() - self._began > LOADING_SECONDS

    async def ask(self, event: str, context: Mapping[str, object]) -> HookAnswer:
        self._last += 1
        number, self._noise = self._last, 0
        answer: asyncio.Future[object] = self._loop.create_future()
        self._waiting[number] = answer
        try:
            self._write({"id": number, "event": event, "context": context})
            said = await answer
            await asyncio.sleep(0)  # what it printed before may stand right behind in the other pipe
            return HookAnswer(answer=said, output=self._printed.decode("utf-8", "replace"))
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
        self._see_off(self)

    def close(self) -> None:
        assert self._transport is not None
        self._transport.close()

    def _write(self, words: Mapping[str, object]) -> None:
        assert self._transport is not None
        stdin = cast(asyncio.WriteTransport, self._transport.get_pipe_transport(0))
        # A process that has ended already has closed it, which uvloop takes for a mistake of ours.
        with contextlib.suppress(RuntimeError):
            stdin.write(json.dumps(words).encode() + b"\n")

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
        code = self._transport.get_returncode() if self._transport is not None else None
        if not self.exited.done():
            self.exited.set_result(None)
        self.end(f"its process ended with code {code}")

    def _hear(self, line: bytes) -> None:
        try:
            said = json.loads(line)
            number = said.get("id")
        except (ValueError, AttributeError, RecursionError):
            self.end("it wrote where only answers belong")
            return
        self._ready = True
        answer = self._waiting.get(number)
        if answer is None or answer.done():
            return
        if "error" in said:
            answer.set_exception(Unreachable(one_line(str(said["error"]), 200)))
        else:
            answer.set_result(said.get("answer"))


def _kill(pid: int) -> None:
    """The process and all below it, also what left its group: it is held first, so it can begin no more."""
    send_signal(pid, signal.SIGSTOP)
    seen: set[int] = set()
    for _ in range(_KILL_ROUNDS):
        new = set(descendants(pid)) - seen
        for other in new:
            send_signal(other, signal.SIGKILL)
        seen |= new
        if not new:
            break
    _kill_group(pid)


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
