"""Checks of units of work: whole or not at all, apart from each other, and done when they are said to be."""

from __future__ import annotations

import asyncio
from functools import partial

from hermes.domain.errors import Refused, Unreachable
from hermes.domain.ids import SessionId
from hermes.domain.ports.store import Store, Tx
from hermes.testing.store_suite.expect import raises
from hermes.testing.store_suite.samples import NOW, OTHER_AGENT, OpenStore, add_talk, entry, inbound, session

S1 = SessionId("s1")


class _Odd(BaseException):
    """Not an `Exception`: what a broad `except Exception` would let through."""


def _append(seq: int, tx: Tx) -> None:
    tx.journal.append(S1, [entry(seq)])


def _accept(delivery: str, tx: Tx) -> int:
    return tx.inbox.add("fake", [inbound(delivery)], None, NOW)


async def check_a_failing_unit_leaves_nothing_and_spoils_no_other(open_store: OpenStore) -> None:
    async with open_store() as store:
        await store.write(add_talk)

        def unit(tx: Tx, number: int) -> int:
            tx.sessions.add(session(f"n{number}"))
            if number % 3 == 1:
                raise Refused(f"no {number}")
            if number % 3 == 2:
                raise _Odd(number)
            return number

        async def write(number: int) -> int:
            return await store.write(lambda tx: unit(tx, number), first=number % 2 == 0)

        results = await asyncio.gather(*(write(number) for number in range(60)), return_exceptions=True)
        kinds = [type(result) for result in results]
        assert kinds == [(int, Refused, _Odd)[number % 3] for number in range(60)]
        assert [result for result in results if isinstance(result, int)] == list(range(0, 60, 3))
        there = {one.id for one in await store.read(lambda tx: tx.sessions.find("", 100))}
        assert there == {"s1", *(f"n{number}" for number in range(0, 60, 3))}


async def check_any_error_comes_back_to_who_asked(open_store: OpenStore) -> None:
    async with open_store() as store:
        for error in (StopIteration(), KeyError("k"), UnicodeError("u"), RecursionError()):

            def fail(tx: Tx, error: Exception = error) -> None:
                tx.sessions.add(session("nobody"))
                raise error

            expected = RuntimeError if isinstance(error, StopIteration) else type(error)
            await raises(expected, store.write(fail))
            await raises(expected, store.read(fail))
        assert await store.read(lambda tx: tx.sessions.find("")) == []


async def check_a_unit_reads_what_it_wrote_and_so_does_whoever_waited(open_store: OpenStore) -> None:
    async with open_store() as store:
        await store.write(add_talk)
        for seq in range(1, 20):

            def append(tx: Tx, seq: int = seq) -> int:
                tx.journal.append(S1, [entry(seq)])
                return len(tx.journal.read(S1))

            assert await store.write(append) == seq
            assert await store.read(lambda tx: len(tx.journal.read(S1))) == seq


async def check_a_query_sees_one_state(open_store: OpenStore) -> None:
    """Two reads of one query agree, whatever is committed between them."""
    async with open_store() as store:
        await store.write(add_talk)
        done = False

        async def keep_writing() -> None:
            seq = 0
            while not done:
                seq += 1
                await store.write(partial(_append, seq))

        writer = asyncio.create_task(keep_writing())
        try:
            for _ in range(30):
                first, second = await store.read(
                    lambda tx: (len(tx.journal.read(S1)), len(tx.journal.read(S1)))
                )
                assert first == second
        finally:
            done = True
            await writer


async def check_a_waiter_that_left_does_not_undo_the_commit(open_store: OpenStore) -> None:
    async with open_store() as store:
        waiting = [asyncio.create_task(store.write(partial(_accept, f"d{n}"))) for n in range(20)]
        await asyncio.sleep(0)
        for task in waiting[::2]:
            task.cancel()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(result, asyncio.CancelledError) for result in results[::2])
        await store.write(lambda tx: None)
        assert len(await store.read(lambda tx: tx.inbox.pending(0, 100))) == 20


async def check_units_keep_the_order_they_were_asked_in(open_store: OpenStore) -> None:
    async with open_store() as store:
        order: list[int] = []

        def note(number: int, _tx: Tx) -> None:
            order.append(number)

        await asyncio.gather(*(store.write(partial(note, n)) for n in range(300)))
        assert order == list(range(300))


async def check_a_closed_store_says_so(open_store: OpenStore) -> None:
    async with open_store() as store:
        handle: Store = store.scoped(OTHER_AGENT)
        asked = [asyncio.create_task(store.write(lambda tx: tx.sessions.find(""))) for _ in range(50)]
        await asyncio.sleep(0)
    assert await asyncio.gather(*asked) == [[]] * 50
    for closed in (store, handle):
        await raises(Unreachable, closed.write(lambda tx: None))
        await raises(Unreachable, closed.write(lambda tx: None, first=True))
        await raises(Unreachable, closed.read(lambda tx: None))


CHECKS = (
    check_a_failing_unit_leaves_nothing_and_spoils_no_other,
    check_any_error_comes_back_to_who_asked,
    check_a_unit_reads_what_it_wrote_and_so_does_whoever_waited,
    check_a_query_sees_one_state,
    check_a_waiter_that_left_does_not_undo_the_commit,
    check_units_keep_the_order_they_were_asked_in,
    check_a_closed_store_says_so,
)
