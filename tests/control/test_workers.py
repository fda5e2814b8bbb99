"""The set of workers: whoever was rung for, or may be found in the store, gets a worker."""

from __future__ import annotations

import asyncio

import pytest

from hermes.control.workers import (
    HEALTHY_SECONDS,
    MOST_FAILURES,
    FailurePolicy,
    Supervisor,
    Workers,
    take_each,
)
from hermes.domain.errors import Unreachable
from hermes.testing.clock import FakeClock, settle


class Shelf:
    """Keys in a store that answers when it is let; who works on one takes it off, if nothing keeps him."""

    def __init__(self, *keys: str, places: int = 9) -> None:
        self.rows = dict(enumerate(keys, 1))
        self.done: list[str] = []
        self.asked = asyncio.Event()
        self.answers, self.work = asyncio.Event(), asyncio.Event()
        self.clock = FakeClock()
        self.breaks: dict[str, int] = {}
        self.tries: list[str] = []
        self.answers.set()
        self.work.set()
        self.workers: Workers[str] = Workers(
            start=lambda key: Taker(key, self),
            page=self._page,
            places=places,
            name="taker",
            loops=Supervisor(self.clock),
        )

    async def _page(self, after: int, limit: int) -> list[tuple[int, str]]:
        found = [(n, key) for n, key in self.rows.items() if n > after]
        self.asked.set()
        await self.answers.wait()
        return found


class Taker:
    def __init__(self, key: str, shelf: Shelf) -> None:
        self._key, self._shelf = key, shelf

    def ring(self) -> None: ...

    def wind_down(self) -> None: ...

    async def live(self) -> None:
        await self._shelf.work.wait()
        self._shelf.tries.append(self._key)
        if self._shelf.breaks.get(self._key, 0) > 0:
            self._shelf.breaks[self._key] -= 1
            raise Unreachable("not now")
        self._shelf.rows = {n: key for n, key in self._shelf.rows.items() if key != self._key}
        self._shelf.done.append(self._key)


async def put_while_it_looks(shelf: Shelf, place: int, key: str) -> None:
    shelf.answers.clear()
    shelf.workers.search()
    await shelf.asked.wait()
    shelf.rows[place] = key
    shelf.workers.search()
    shelf.answers.set()
    await settle()


async def test_what_came_while_it_looked_is_looked_for_again() -> None:
    """As when the second account comes up while the first one's rows are being read."""
    shelf = Shelf()
    await put_while_it_looks(shelf, 1, "second")
    assert shelf.done == ["second"]


async def test_what_lies_before_the_place_it_has_come_to_is_found_too() -> None:
    shelf = Shelf("first", "first of all")
    del shelf.rows[1]
    await put_while_it_looks(shelf, 1, "second")
    assert sorted(shelf.done) == ["first of all", "second"]


async def test_a_ring_that_finds_no_place_is_not_forgotten_by_a_look_that_began_before_it() -> None:
    shelf = Shelf(places=1)
    shelf.answers.clear()
    shelf.work.clear()
    shelf.workers.search()
    await shelf.asked.wait()
    for n, key in enumerate(("first", "second"), 1):
        shelf.rows[n] = key
        shelf.workers.ring(key)
    shelf.answers.set()
    await settle()
    shelf.work.set()
    await settle()
    assert shelf.done == ["first", "second"]


async def test_a_worker_that_breaks_is_replaced_after_a_pause() -> None:
    shelf = Shelf("one", "two")
    shelf.breaks["one"] = MOST_FAILURES - 1
    shelf.workers.search()
    await settle()
    assert shelf.done == ["two"] and shelf.tries.count("one") == 1
    await shelf.clock.advance(3)
    assert shelf.done == ["two", "one"] and shelf.tries.count("one") == MOST_FAILURES


async def test_one_that_always_breaks_gives_up_its_place_and_is_tried_again_much_later() -> None:
    shelf = Shelf("one", "two", places=1)
    shelf.breaks["one"] = MOST_FAILURES + 1
    shelf.workers.search()
    await settle()
    await shelf.clock.advance(30)
    assert shelf.done == ["two"] and shelf.tries.count("one") == MOST_FAILURES
    shelf.workers.search()
    await settle()
    assert shelf.tries.count("one") == MOST_FAILURES, "it rests"
    await shelf.clock.advance(70)
    assert shelf.done == ["two", "one"]
    await shelf.workers.close(1.0, asyncio.Event())


async def test_whoever_rests_is_not_waited_for_at_the_end() -> None:
    shelf = Shelf("one")
    shelf.breaks["one"] = 99
    shelf.workers.search()
    await settle()
    await shelf.clock.advance(30)
    await shelf.workers.close(1.0, asyncio.Event())
    await settle()
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("taker")]


# --- what is given up ---


class Queue:
    """The turns of one session: its worker does them in order and meets the errors planned for each."""

    def __init__(self, **errors: list[Exception]) -> None:
        self.turns, self.errors = list(errors), errors
        self.done: list[str] = []
        self.given_up: list[tuple[str, str]] = []
        self.clock = FakeClock()
        self.workers: Workers[str] = Workers(
            start=lambda key: self,
            page=self._page,
            places=9,
            name="session",
            loops=Supervisor(self.clock),
            remedy=FailurePolicy(head=self._head, give_up=self._give_up),
        )

    def ring(self) -> None: ...

    def wind_down(self) -> None: ...

    async def live(self) -> None:
        while self.turns:
            if self.errors[self.turns[0]]:
                raise self.errors[self.turns[0]].pop(0)
            self.done.append(self.turns.pop(0))

    async def run(self) -> None:
        self.workers.ring("s")
        await settle()
        await self.clock.advance(400)
        await self.workers.close(1.0, asyncio.Event())

    async def _page(self, after: int, limit: int) -> list[tuple[int, str]]:
        return [(1, "s")] if self.turns and not after else []

    async def _head(self, key: str) -> str | None:
        return self.turns[0] if self.turns else None

    async def _give_up(self, key: str, error: Exception) -> None:
        self.given_up.append((self.turns.pop(0), str(error)))


def faults(count: int) -> list[Exception]:
    return [RuntimeError("a fault") for _ in range(count)]


async def test_failures_are_counted_for_each_turn_alone() -> None:
    queue = Queue(a=faults(1), b=faults(1), c=faults(2), d=faults(MOST_FAILURES), e=[])
    await queue.run()
    assert queue.done == ["a", "b", "c", "e"] and queue.given_up == [("d", "a fault")]


async def test_what_the_store_could_not_do_is_no_fault_of_the_turn() -> None:
    gone: list[Exception] = [Unreachable("disk"), Unreachable("disk")]
    queue = Queue(a=[*gone, *faults(1)], b=[*faults(2), *gone, *gone], c=[*gone, *faults(3)], d=[])
    await queue.run()
    assert queue.done == ["a", "b", "d"] and queue.given_up == [("c", "a fault")]


async def test_another_turn_at_the_head_begins_with_a_clean_slate() -> None:
    queue = Queue(a=faults(2), b=faults(1))
    queue.workers.ring("s")
    await settle()
    await queue.clock.advance(2)
    assert not queue.errors["a"]
    queue.turns.remove("a")  # somebody stopped it
    await queue.run()
    assert queue.done == ["b"] and not queue.given_up


# --- loops ---


class Loop:
    """Breaks as often as it is told, after so many seconds."""

    def __init__(self, clock: FakeClock, times: int, seconds: float = 0.0) -> None:
        self._clock, self._times, self._seconds = clock, times, seconds
        self.began: list[float] = []

    async def live(self) -> None:
        self.began.append(self._clock.monotonic())
        if self._seconds:
            await self._clock.sleep(self._seconds)
        if len(self.began) <= self._times:
            raise RuntimeError(f"number {len(self.began)}")


async def test_a_loop_goes_on_after_pauses_that_grow(caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    loops, loop = Supervisor(clock), Loop(clock, 9)
    task = loops.keep("rounds", loop.live)
    await settle()
    state = loops.states["rounds"]
    assert (state.failures, state.why, state.is_well(clock.now())) == (1, "RuntimeError: number 1", True)
    await clock.advance(4)
    assert not state.is_well(clock.now())
    await clock.advance(400)
    assert loop.began == [0, 1, 3, 7, 15, 31, 63, 123, 183, 243]
    assert task.done() and state.failures == 9
    await clock.advance(HEALTHY_SECONDS)
    assert state.is_well(clock.now())
    assert "loop.broke loop=rounds" in caplog.text and "Traceback" in caplog.text


async def test_a_loop_that_worked_for_long_begins_with_short_pauses_again() -> None:
    clock = FakeClock()
    loops, loop = Supervisor(clock), Loop(clock, 9, HEALTHY_SECONDS)
    task = loops.keep("rounds", loop.live)
    await settle()
    await clock.advance(5 * HEALTHY_SECONDS)
    assert loop.began[:4] == [0, 301, 602, 903] and loops.states["rounds"].is_well(clock.now())
    task.cancel()
    await asyncio.wait((task,))
    assert task.cancelled()


async def test_rows_behind_one_that_breaks_are_taken_too() -> None:
    taken: list[int] = []

    async def take(row: int) -> None:
        if row in (1, 3):
            raise ValueError(f"row {row}")
        taken.append(row)

    with pytest.raises(ExceptionGroup) as caught:
        await take_each([1, 2, 3, 4], take)
    assert [str(error) for error in caught.value.exceptions] == ["row 1", "row 3"] and taken == [2, 4]
    with pytest.raises(ValueError, match="row 1"):
        await take_each([1, 2], take)


async def test_health_shows_a_piece_of_work_that_breaks_again_and_again_until_it_is_done() -> None:
    clock = FakeClock()
    loops = Supervisor(clock)

    async def attempt(piece: str, error: Exception | None) -> None:
        async def work() -> None:
            if error is not None:
                raise error

        await loops.attempt("session", work, piece)

    for _ in range(MOST_FAILURES):
        assert not loops.states or loops.states["session"].is_well(clock.now())
        await attempt("bad", RuntimeError("a fault"))
        await attempt("good", None)
    assert not loops.states["session"].is_well(clock.now()), "what others do well does not hide it"
    await attempt("bad", None)
    assert loops.states["session"].is_well(clock.now())
