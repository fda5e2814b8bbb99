"""A clock that stands still until it is told to move. Sleepers wake in the order of their time."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections import Counter
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from weakref import WeakKeyDictionary

START = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


class FakeClock:
    def __init__(self, start: datetime = START) -> None:
        self._now = start
        self._elapsed = 0.0
        self._count = 0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._elapsed

    @property
    def sleepers(self) -> int:
        return sum(1 for _, _, waiter in self._sleepers if not waiter.done())

    def sleep(self, seconds: float) -> Coroutine[Any, Any, None]:
        """It counts from now on, also if the task that sleeps begins later: time that passed in between would
        be slept once more, and nobody would wake the sleeper."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._count += 1
        heapq.heappush(self._sleepers, (self._elapsed + max(seconds, 0.0), self._count, waiter))
        return _wait(waiter)

    async def advance(self, seconds: float) -> None:
        """Let time pass, stopping at every sleeper on the way so that it can act at its own time."""
        await _finish()
        end = self._elapsed + seconds
        while self._sleepers and self._sleepers[0][0] <= end:
            at, _, waiter = heapq.heappop(self._sleepers)
            self._move(max(at, self._elapsed))
            if not waiter.done():
                waiter.set_result(None)
                await settle()
        self._move(end)
        await settle()

    async def leap(self, seconds: float) -> None:
        """Let time pass all at once: whoever sleeps wakes at its end, late and once."""
        await _finish()
        self._move(self._elapsed + seconds)
        while self._sleepers and self._sleepers[0][0] <= self._elapsed:
            _, _, waiter = heapq.heappop(self._sleepers)
            if not waiter.done():
                waiter.set_result(None)
        await settle()

    def jump(self, seconds: float) -> None:
        """The wall clock is set; no time passes."""
        self._now += timedelta(seconds=seconds)

    def _move(self, to: float) -> None:
        self._now += timedelta(seconds=to - self._elapsed)
        self._elapsed = to


async def _wait(waiter: asyncio.Future[None]) -> None:
    await waiter


_LONGEST = 10.0
_busy: WeakKeyDictionary[asyncio.AbstractEventLoop, Counter[str]] = WeakKeyDictionary()


@contextmanager
def working(what: str) -> Iterator[None]:
    """A thread is at work for this loop: `settle` waits for it."""
    busy = _busy.setdefault(asyncio.get_running_loop(), Counter())
    busy[what] += 1
    try:
        yield
    finally:
        busy[what] -= 1


async def _finish() -> None:
    """What is under way happens before time passes."""
    if _busy.setdefault(asyncio.get_running_loop(), Counter()).total():
        await settle()


async def settle(rounds: int = 20) -> None:
    """Let everything that is ready run, the threads of a journey's store included, however slow they are."""
    busy = _busy.setdefault(asyncio.get_running_loop(), Counter())
    end = time.monotonic() + _LONGEST
    for _ in range(rounds):
        await asyncio.sleep(0)
    await asyncio.sleep(0.002)
    while True:
        for _ in range(rounds):
            await asyncio.sleep(0)
        if not busy.total() or time.monotonic() > end:
            return
        await asyncio.sleep(0.001)


class QuickClock:
    """A clock on which time passes so many times faster than on the wall."""

    def __init__(self, factor: float = 100.0, start: datetime = START) -> None:
        self._factor = factor
        self._start = start
        self._began = time.monotonic()

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return (time.monotonic() - self._began) * self._factor

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self._factor)
