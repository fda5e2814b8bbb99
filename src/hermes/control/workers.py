"""A bounded set of workers, one per key, that live only while they have work.

Ringing a key wakes its worker or starts one. When all places are taken the ring is not kept in memory: the
work is in the store, and as places become free the set pages through the store from where it left off. So a
hundred thousand waiting keys cost nothing but their rows.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Hashable, Iterator
from typing import Generic, Protocol, TypeVar

log = logging.getLogger("hermes.workers")
K = TypeVar("K", bound=Hashable)
PAGE = 256


class Worker(Protocol):
    def ring(self) -> None: ...

    def wind_down(self) -> None:
        """Come to rest soon: finish what is in hand and leave the rest to the next life."""

    async def live(self) -> None:
        """Work until there is nothing left. Must look for work once more if it was rung meanwhile."""


class Workers(Generic[K]):
    def __init__(
        self,
        *,
        start: Callable[[K], Worker],
        page: Callable[[int, int], Awaitable[list[tuple[int, K]]]],
        places: int,
        name: str,
    ) -> None:
        self._start = start
        self._page = page
        self._places = places
        self._name = name
        self._active: dict[K, Worker] = {}
        self._tasks: dict[K, asyncio.Task[None]] = {}
        self._held = 0
        self._more = False
        self._wishes = 0
        self._cursor = 0
        self._refill: asyncio.Task[None] | None = None
        self._closed = False

    def __len__(self) -> int:
        return len(self._active)

    @property
    def keys(self) -> tuple[K, ...]:
        """Who has work at this moment."""
        return tuple(self._active)

    def get(self, key: K) -> Worker | None:
        return self._active.get(key)

    def ring(self, key: K) -> None:
        worker = self._active.get(key)
        if worker is not None:
            worker.ring()
        elif self._closed:
            return
        elif self._has_place():
            self._enter(key, self._start(key))
        else:
            self._want_more()

    @contextlib.contextmanager
    def hold_place(self) -> Iterator[bool]:
        """Keep a place meanwhile for a worker that is to `enter`; False if there is none."""
        free = not self._closed and self._has_place()
        self._held += free
        try:
            yield free
        finally:
            self._held -= free
            if self._more:
                self._find_more()

    def enter(self, key: K, worker: Worker) -> None:
        """Start a worker that has its first work in hand, in a place that was held. Where one is at work on
        the key already, it finds that work in the store like any other."""
        known = self._active.get(key)
        if known is not None:
            known.ring()
        elif not self._closed:
            self._enter(key, worker)

    def search(self) -> None:
        """There may be work in the store that nobody rang for."""
        self._want_more()
        self._find_more()

    async def close(self, grace: float, hurry: asyncio.Event) -> None:
        """Let workers come to a stop; after the grace, or when it hurries, stop them."""
        self._closed = True
        if self._refill is not None:
            self._refill.cancel()
        for worker in tuple(self._active.values()):
            worker.wind_down()
        tasks = list(self._tasks.values())
        if not tasks:
            return
        ended = asyncio.ensure_future(asyncio.wait(tasks))
        hurried = asyncio.ensure_future(hurry.wait())
        await asyncio.wait((ended, hurried), timeout=grace, return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        hurried.cancel()
        late = [task for task in tasks if not task.done()]
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=5.0)

    def _has_place(self) -> bool:
        return len(self._active) + self._held < self._places

    def _enter(self, key: K, worker: Worker) -> None:
        self._active[key] = worker
        task = asyncio.create_task(self._employ(key, worker), name=f"{self._name} {key}")
        task.add_done_callback(report_death)
        self._tasks[key] = task

    async def _employ(self, key: K, worker: Worker) -> None:
        """The worker's decision to leave and its leaving are one step: no ring can fall between them."""
        try:
            await worker.live()
        finally:
            del self._active[key], self._tasks[key]
            if self._more:
                self._find_more()

    def _want_more(self) -> None:
        self._more = True
        self._wishes += 1

    def _find_more(self) -> None:
        if not self._closed and (self._refill is None or self._refill.done()):
            self._refill = asyncio.create_task(self._fill(), name=f"{self._name} refill")

    async def _fill(self) -> None:
        """Take keys from the store, oldest first, until the places are full or a whole round is done. A wish
        that came during a round may be for what the round had passed or could not see: it gets another."""
        began, wishes = self._cursor, self._wishes
        while self._more and self._has_place():
            page = await self._page(self._cursor, PAGE)
            if not page:
                self._more = began > 0 or wishes != self._wishes
                self._cursor = began = 0
                wishes = self._wishes
            for n, key in page:
                if key not in self._active:
                    if not self._has_place():
                        break
                    self._enter(key, self._start(key))
                self._cursor = n


def report_death(task: asyncio.Task[None]) -> None:
    """For a task that is over: the log hears what it died of."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        log.error("worker.died task=%s", task.get_name(), exc_info=error)
