"""A clock that stands still until it is told to move. Sleepers wake in the order of their time."""

from __future__ import annotations

import asyncio
import heapq
import time
from datetime import UTC, datetime, timedelta

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

    async def sleep(self, seconds: float) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._count += 1
        heapq.heappush(self._sleepers, (self._elapsed + max(seconds, 0.0), self._count, waiter))
        await waiter

    async def advance(self, seconds: float) -> None:
        """Let time pass, stopping at every sleeper on the way so that it can act at its own time."""
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


async def settle(rounds: int = 20) -> None:
    """Let everything that is ready run, the store's threads included."""
    for _ in range(rounds):
        await asyncio.sleep(0)
    await asyncio.sleep(0.002)
    for _ in range(rounds):
        await asyncio.sleep(0)


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
