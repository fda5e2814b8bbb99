"""Background processes that a session waits to hear of: that they ended, or wrote what it watches for.

Each is a row, together with what it wrote that the session was not told yet. A process ends with its gateway,
so the next life tells of every row that it finds. One that writes what is watched for all the time is told of
at most every 15 seconds, and after three such times in a row only once more, when it ends."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct

from hermes.control.core import GatewayCore
from hermes.control.sessions.callers import wake_session
from hermes.control.workers import wait_for_ring
from hermes.domain.chats.rows import AwaitedProcess
from hermes.domain.ports.store import Tx
from hermes.domain.safety.outside import fence
from hermes.domain.turns.turn import Turn
from hermes.domain.word import replace

T = TypeVar("T")
log = logging.getLogger("hermes.processes")
_BETWEEN = 15.0
_MOST_HELD = 3
_MOST_LINES = 20
_BURST, _BURST_SECONDS, _REST_SECONDS = 15, 10.0, 30.0
_IDLE_SECONDS = 3600.0
_TOO_MUCH = "It writes that too often, so you will only be told when it ends."


class _Pace(Struct, kw_only=True):
    """When a session may be told of a process again, and how often in a row it had to wait for that."""

    process: AwaitedProcess
    news: bool = False
    held: bool = False
    times_held: int = 0
    next_at: float = 0.0


class AwaitedProcesses:
    """`announce` has a turn that woke a session begin."""

    def __init__(self, core: GatewayCore, announce: Callable[[Turn], None]) -> None:
        self._core = core
        self._announce = announce
        self._bell = asyncio.Event()
        self._paces: dict[str, _Pace] = {}
        self._expected: set[str] = set()
        self._ended: set[str] = set()  # before anybody expected it
        self._recent: deque[float] = deque(maxlen=_BURST)
        self._rests_until = 0.0

    async def live(self) -> None:
        while True:
            self._bell.clear()
            await wait_for_ring(self._bell, self._core.clock, await self._tell_due(), "processes")

    async def tell_lost(self) -> None:
        """At the start of a life, before any turn runs: the processes of earlier ones are over."""
        for process in await self._core.store.read(lambda tx: tx.processes.all()):
            log.info("process.lost process=%s session=%s", process.id, process.session)
            lost = replace(process, notify=True)
            await self._tell(lost, "ended with the gateway, which was stopped", over=True)

    async def expect(self, process: AwaitedProcess) -> None:
        """The session waits for this one, unless it is over already."""
        if process.id in self._ended:
            self._ended.discard(process.id)
            return
        self._expected.add(process.id)
        await self._write(process, lambda tx, stored: tx.processes.put(stored))

    async def wrote(self, process: AwaitedProcess, lines: tuple[str, ...]) -> None:
        """It wrote lines that are watched for."""
        pace = self._paces.setdefault(process.id, _Pace(process=process))
        if pace.times_held >= _MOST_HELD:
            return

        def add(tx: Tx, stored: AwaitedProcess) -> None:
            tx.processes.put(replace(stored, lines=(*stored.lines, *lines)[-_MOST_LINES:]))

        await self._write(process, add)
        pace.news, pace.held = True, pace.held or self._core.clock.monotonic() < pace.next_at
        self._bell.set()

    async def ended(self, process: AwaitedProcess, code: int | None) -> None:
        self._paces.pop(process.id, None)
        if process.id in self._expected:
            self._expected.discard(process.id)
        else:
            self._ended.add(process.id)
        self._announced(await self._tell(process, f"ended with code {code}", over=True))

    async def _tell_due(self) -> float:
        """Tell what may be told now; the seconds until there is more to tell."""
        now, soonest = self._core.clock.monotonic(), _IDLE_SECONDS
        for pace in [pace for pace in self._paces.values() if pace.news]:
            due = max(pace.next_at, self._rests_until)
            if now < due:
                soonest = min(soonest, due - now)
                continue
            pace.times_held = pace.times_held + 1 if pace.held else 0
            pace.news, pace.held, pace.next_at = False, False, now + _BETWEEN
            too_much = pace.times_held >= _MOST_HELD
            self._announced(await self._tell(pace.process, "wrote what you watch for", too_much=too_much))
            self._recent.append(now)
            if len(self._recent) == _BURST and now - self._recent[0] < _BURST_SECONDS:
                self._rests_until = now + _REST_SECONDS
        return soonest

    def _announced(self, turn: Turn | None) -> None:
        if turn is not None:
            self._announce(turn)

    async def _tell(
        self, process: AwaitedProcess, what: str, *, over: bool = False, too_much: bool = False
    ) -> Turn | None:
        """A turn that tells its session what it was not told yet, in the same commit as that is noted."""
        now = self._core.clock.now()

        def tell(tx: Tx, stored: AwaitedProcess) -> Turn | None:
            if over:
                tx.processes.remove(stored.id)
            else:
                tx.processes.put(replace(stored, lines=(), notify=stored.notify or too_much))
            if not stored.lines and not (over and (stored.notify or process.notify)):
                return None
            words = f"[Background process {stored.id} {what}: {stored.command}]"
            if stored.lines:
                words += "\n" + fence("\n".join(stored.lines), stored.id)
            outside = stored.outside and bool(stored.lines)
            words += f"\n{_TOO_MUCH}" if too_much else ""
            return wake_session(tx, stored.session, words, now, stored.turn, outside=outside)

        return await self._write(process, tell)

    async def _write(self, process: AwaitedProcess, unit: Callable[[Tx, AwaitedProcess], T]) -> T:
        store = self._core.store.scoped(process.agent)
        return await store.write(lambda tx: unit(tx, tx.processes.get(process.id) or process))
