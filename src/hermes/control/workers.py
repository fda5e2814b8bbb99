"""What keeps the gateway's tasks alive: a supervisor of loops, the scope and the idle timer of one run, and
bounded sets of workers, one per key, that live only while they have work.

Ringing a key wakes its worker or starts one. When all places are taken the ring is not kept in memory: the
work is in the store, and as places become free the set pages through the store from where it left off. So a
hundred thousand waiting keys cost nothing but their rows."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Iterator
from datetime import datetime
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct, field

from hermes.domain.chats.rows import UnreadableTurn
from hermes.domain.clock import Clock, SystemClock
from hermes.domain.errors import Unreachable, UserError
from hermes.domain.system.border import Border, contain, describe
from hermes.domain.text import one_line

log = logging.getLogger("hermes.workers")
scope_log = logging.getLogger("hermes.scope")
K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
PAGE = 256
MOST_FAILURES = 3
"""So often in a row something is tried that breaks, before it is given up or left alone for longer."""
HEALTHY_SECONDS = 300.0
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0
_WHY = 200
_SCOPE_GRACE = 5.0


class LoopState(Struct, kw_only=True):
    """What broke in a loop since the start: how often, how often in a row, when last, and why."""

    name: str
    failures: int = 0
    in_a_row: int = 0
    last_at: datetime | None = None
    why: str = ""
    failing: dict[str, tuple[int, datetime]] = field(default_factory=dict)
    """The pieces of its work that broke and were not done since: how often in a row, and when last."""

    def is_well(self, now: datetime) -> bool:
        """Whether it works: neither it nor a piece of its work breaks time and again, or has for a while."""
        for failures, at in self.failing.values():
            if failures >= MOST_FAILURES and (now - at).total_seconds() < HEALTHY_SECONDS:
                return False
        if self.last_at is None or self.in_a_row < MOST_FAILURES:
            return True
        return (now - self.last_at).total_seconds() >= HEALTHY_SECONDS


class Supervisor:
    """Runs the gateway's long-lived loops. One that breaks is logged with its name, is shown in health, and
    goes on after a pause; the longer, the more often it broke in a row."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or SystemClock()
        self.states: dict[str, LoopState] = {}

    def keep(
        self, name: str, live: Callable[[], Awaitable[object]], task: str | None = None
    ) -> asyncio.Task[None]:
        """Run a loop until it returns or is cancelled; `task` names this one among several of its kind."""
        self._state(name)
        return asyncio.create_task(self._keep(name, live), name=task or name)

    async def attempt(self, name: str, work: Callable[[], Awaitable[object]], what: str) -> Exception | None:
        """Do one piece of a loop's work; the error if it broke, after that was logged and noted."""
        try:
            with Border():
                await work()
        except Exception as error:  # the supervisor: whatever it was, it is told of and the loop goes on
            self.note(name, error, what)
            return error
        self.clear(name, what)
        return None

    def note(self, name: str, error: BaseException, what: str) -> None:
        # These say all there is in a sentence.
        trace = None if isinstance(error, (Unreachable, UserError)) else error
        log.error(
            "loop.broke loop=%s task=%s why=%s", name, what, one_line(describe(error), _WHY), exc_info=trace
        )
        state = self._state(name)
        state.failures += 1
        state.last_at = now = self.clock.now()
        recent = {
            piece: (times, at)
            for piece, (times, at) in state.failing.items()
            if (now - at).total_seconds() < HEALTHY_SECONDS
        }
        state.failing = recent | {what: (recent.get(what, (0, now))[0] + 1, now)}
        state.why = one_line(describe(error), _WHY)

    def clear(self, name: str, what: str) -> None:
        state = self.states.get(name)
        if state is not None and state.failing:
            state.failing.pop(what, None)

    def _state(self, name: str) -> LoopState:
        return self.states.setdefault(name, LoopState(name=name))

    async def _keep(self, name: str, live: Callable[[], Awaitable[object]]) -> None:
        state, task = self._state(name), asyncio.current_task()
        while True:
            began = self.clock.monotonic()
            if await self.attempt(name, live, "" if task is None else task.get_name()) is None:
                return
            healthy = self.clock.monotonic() - began >= HEALTHY_SECONDS
            state.in_a_row = 1 if healthy else state.in_a_row + 1
            await self.clock.sleep(pause_after(state.in_a_row))


def pause_after(failures: int) -> float:
    """Seconds to rest after so many failures in a row."""
    return min(_FIRST_PAUSE * 2.0 ** min(failures - 1, 16), _LONGEST_PAUSE)


async def take_each(rows: Iterable[T], take: Callable[[T], Awaitable[object]]) -> None:
    """Take every row, also if one of them breaks. What broke is raised at the end: the loop's supervisor
    tells of it, and the rows are there when the loop looks again."""
    errors: list[Exception] = []
    for row in rows:
        try:
            await take(row)
        except Exception as error:  # raised again below
            errors.append(error)
    if errors:
        raise errors[0] if len(errors) == 1 else ExceptionGroup(f"{len(errors)} rows were not taken", errors)


async def do_each(*steps: Callable[[], Awaitable[object]]) -> None:
    """Do steps that do not hang on each other: one that breaks keeps none of the others from being done."""
    await take_each(steps, lambda step: step())


class Worker(Protocol):
    def ring(self) -> None: ...

    def wind_down(self) -> None:
        """Come to rest soon: finish what is in hand and leave the rest to the next life."""

    async def live(self) -> None:
        """Work until there is nothing left. Must look for work once more if it was rung meanwhile."""


class FailurePolicy(Struct, Generic[K], frozen=True, kw_only=True):
    """What is done about workers that break: `head` names the piece of work that is first for a key, and
    `give_up` ends the one over which a worker breaks each time, by no fault of the store."""

    head: Callable[[K], Awaitable[Hashable]]
    give_up: Callable[[K, Exception], Awaitable[None]]


class _Tries(Struct, kw_only=True):
    """How often in a row a key's worker broke over one piece of work, and how often not by the store."""

    head: Hashable = None
    failures: int = 0
    faults: int = 0


class RungWorker:
    """Does its work, and again for as long as somebody rang meanwhile. What is cut off is begun again in the
    next life."""

    def __init__(self, once: Callable[[], Awaitable[None]]) -> None:
        self._once = once
        self._rung = False

    def ring(self) -> None:
        self._rung = True

    def wind_down(self) -> None:
        """It is not waited for."""

    async def live(self) -> None:
        while True:
            self._rung = False
            await self._once()
            if not self._rung:
                return


class Workers(Generic[K]):
    def __init__(
        self,
        *,
        start: Callable[[K], Worker],
        page: Callable[[int, int], Awaitable[list[tuple[int, K]]]],
        places: int,
        name: str,
        loops: Supervisor | None = None,
        remedy: FailurePolicy[K] | None = None,
    ) -> None:
        self._remedy = remedy
        self._tries: dict[K, _Tries] = {}
        self._start = start
        self._loops = loops or Supervisor()
        self._page = page
        self._places = places
        self._name = name
        self.active: dict[K, Worker] = {}
        """Who has work at this moment."""
        self._tasks: dict[K, asyncio.Task[None]] = {}
        self._held = 0
        self._more = False
        self._wishes = 0
        self._cursor = 0
        self._refill: asyncio.Task[None] | None = None
        self._resting: dict[K, asyncio.Task[None]] = {}
        self._closed = False

    def ring(self, key: K) -> None:
        worker = self.active.get(key)
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
        known = self.active.get(key)
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
        for task in (self._refill, *self._resting.values()):
            if task is not None:
                task.cancel()
        for worker in tuple(self.active.values()):
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
        return len(self.active) + self._held < self._places

    def _enter(self, key: K, worker: Worker) -> None:
        self.active[key] = worker
        self._tasks[key] = asyncio.create_task(self._employ(key, worker), name=f"{self._name} {key}")

    async def _employ(self, key: K, worker: Worker) -> None:
        """The worker's decision to leave and its leaving are one step: no ring can fall between them. Who
        breaks is replaced after a pause, for what there is to do is in the store."""
        failures = 0
        try:
            while True:
                began = self._loops.clock.monotonic()
                error = await self._loops.attempt(self._name, worker.live, f"{self._name} {key}")
                if error is None:
                    self._tries.pop(key, None)
                if error is None or self._closed:
                    return
                if self._loops.clock.monotonic() - began >= HEALTHY_SECONDS:
                    self._tries.pop(key, None)
                tries = await self._count(key, error, failures)
                failures = tries.failures
                if max(failures, tries.faults) >= MOST_FAILURES:
                    break
                # From now on, so that who is rung or given something meanwhile keeps it.
                self.active[key] = worker = self._start(key)
                await self._loops.clock.sleep(pause_after(failures))
            if tries.faults >= MOST_FAILURES and await self._is_given_up(key, error):
                self._tries.pop(key, None)
                self._want_more()
            else:
                self._rest(key)
        finally:
            del self.active[key], self._tasks[key]
            if self._more:
                self._find_more()

    async def _count(self, key: K, error: Exception, failures: int) -> _Tries:
        """Count a failure after so many before it; the count begins anew for another piece of work. What the
        store could not do is no fault of the work, and faults are remembered while the key rests."""
        tries = self._tries.get(key)
        head = None if tries is None else tries.head
        if not isinstance(error, UnreadableTurn):
            head = await self._head_of(key, head)
        if tries is None or tries.head != head:
            tries, failures = _Tries(head=head), 0
        tries.failures = failures + 1
        tries.faults += not isinstance(error, Unreachable)
        if isinstance(error, UnreadableTurn):
            tries.faults = MOST_FAILURES  # it will not be readable the next time
        self._tries[key] = tries
        return tries

    async def _head_of(self, key: K, last: Hashable) -> Hashable:
        """The piece of work that is first now, or the `last` one known if that cannot be found out."""
        head = last

        async def look(remedy: FailurePolicy[K]) -> None:
            nonlocal head
            head = await remedy.head(key)

        if self._remedy is not None:
            await self._loops.attempt(self._name, partial(look, self._remedy), f"head of {self._name} {key}")
        return head

    async def _is_given_up(self, key: K, error: Exception) -> bool:
        if self._remedy is None:
            return False
        ending = partial(self._remedy.give_up, key, error)
        return await self._loops.attempt(self._name, ending, f"{self._name} {key}") is None

    def _rest(self, key: K) -> None:
        """It broke time and again: others get its place, and it is tried again after the longest pause."""

        async def ring_again() -> None:
            await self._loops.clock.sleep(_LONGEST_PAUSE)
            del self._resting[key]
            self.ring(key)

        if key not in self._resting:
            self._resting[key] = asyncio.create_task(ring_again(), name=f"{self._name} {key} rests")

    def _want_more(self) -> None:
        self._more = True
        self._wishes += 1

    def _find_more(self) -> None:
        if not self._closed and (self._refill is None or self._refill.done()):
            self._refill = self._loops.keep(f"{self._name} refill", self._fill)

    async def _fill(self) -> None:
        """Take keys from the store, oldest first, until the places are full or a whole round is done. A wish
        that came during a round may be for what the round had passed or could not see: it gets another."""
        began, wishes = self._cursor, self._wishes
        while self._more and self._has_place():
            page = await self._page(self._cursor, PAGE)
            if not page:
                self._more = began != 0 or wishes != self._wishes
                self._cursor = began = 0
                wishes = self._wishes
            for n, key in page:
                if key not in self.active and key not in self._resting:
                    if not self._has_place():
                        break
                    self._enter(key, self._start(key))
                self._cursor = n


class TaskSet:
    """Tasks that nobody waits for; the log hears what one dies of. They end with their owner."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = begin_contained(work, name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(report_death)

    async def close(self) -> None:
        await end_tasks(self._tasks)


def begin_contained(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    """A task that no exit and no interrupt leaves: the loop would pass them on and end."""
    task = asyncio.create_task(contain(work), name=name)
    task.add_done_callback(lambda done: work.close())  # it may have been cancelled before it began
    return task


async def end_tasks(tasks: Iterable[asyncio.Task[None]]) -> None:
    ending = list(tasks)
    for task in ending:
        task.cancel()
    if ending:
        await asyncio.wait(ending)


def report_death(task: asyncio.Task[Any]) -> None:
    """For a task that is over: the log hears what it died of."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        log.error("worker.died task=%s", task.get_name(), exc_info=error)


async def wait_for_ring(bell: asyncio.Event, clock: Clock, seconds: float, name: str) -> None:
    """Until the bell rings, or for so many seconds."""
    ringing = asyncio.create_task(bell.wait(), name=f"{name} bell")
    alarm = asyncio.create_task(clock.sleep(seconds), name=f"{name} alarm")
    try:
        await asyncio.wait((ringing, alarm), return_when=asyncio.FIRST_COMPLETED)
    finally:
        ringing.cancel()
        alarm.cancel()


# --- around one run of an agent ------------------------------------------------------------


class RunScope:
    """The tasks that go on beside a run (the model's stream, tools). They end with it."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None], name: str, broke: Callable[[str], None]) -> None:
        task = begin_contained(work, name)
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._done(done, broke))

    async def close(self) -> None:
        """Cancel what still runs and wait, but not for ever: a task that will not end is left behind."""
        left = [task for task in self._tasks if not task.done()]
        for task in left:
            task.cancel()
        if left:
            _, stuck = await asyncio.wait(left, timeout=_SCOPE_GRACE)
            for task in stuck:
                scope_log.error("scope.stuck task=%s", task.get_name())

    def _done(self, task: asyncio.Task[None], broke: Callable[[str], None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            scope_log.error("scope.broke task=%s", task.get_name(), exc_info=error)
            broke(describe(error))


class IdleTimer:
    """How long a run may stand still: `give_up` is called once, after so many seconds without an event. Only
    the wait for the next event counts, not a commit or a person's answer. No seconds: never."""

    def __init__(self, seconds: float, give_up: Callable[[], None]) -> None:
        self._seconds = seconds
        self._give_up = give_up
        self._since: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.expired = False

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        self._arm(self._seconds)
        try:
            yield
        finally:
            if self._timer is not None:
                self._timer.cancel()

    def waiting(self, longer: float = 0.0) -> None:
        """From now on something is waited for, so many seconds longer than otherwise."""
        self._since = asyncio.get_running_loop().time() + longer

    def heard(self) -> None:
        self._since = None

    def _arm(self, seconds: float) -> None:
        if self._seconds > 0:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        quiet = 0.0 if self._since is None else asyncio.get_running_loop().time() - self._since
        if quiet < self._seconds:
            self._arm(self._seconds - quiet)
            return
        self.expired = True
        self._give_up()
