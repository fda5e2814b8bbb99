"""A suspect is alone: it waits for those that have begun, and others wait for it, one suspect at a time."""

from __future__ import annotations

import asyncio

import pytest

from hermes.control.turn import actors as quarantine
from hermes.control.turn.actors import Quarantine
from hermes.domain.ids import SessionId

A, B, C = SessionId("a"), SessionId("b"), SessionId("c")


async def settled(*tasks: asyncio.Task[None]) -> list[bool]:
    """Which of them are done, when everything that can go on has gone on."""
    for _ in range(10):
        await asyncio.sleep(0)
    return [task.done() for task in tasks]


async def test_turns_begin_side_by_side_while_nobody_is_suspected() -> None:
    place = Quarantine()
    await place.begin(A)
    await place.begin(B)
    assert place.open


async def test_a_suspect_waits_for_what_has_begun_and_others_wait_for_it() -> None:
    place = Quarantine()
    await place.begin(A)
    suspect = asyncio.create_task(place.isolate(B))
    assert await settled(suspect) == [False]
    other = asyncio.create_task(place.begin(C))
    assert await settled(other) == [False] and not place.open
    place.settle(A)
    assert await settled(suspect, other) == [True, False]
    await place.begin(B)
    assert await settled(other) == [False]
    place.settle(B)
    assert await settled(other) == [True] and place.open


async def test_what_begins_in_another_way_counts_too() -> None:
    place = Quarantine()
    place.note(A)
    suspect = asyncio.create_task(place.isolate(B))
    assert await settled(suspect) == [False]
    place.settle(A)
    assert await settled(suspect) == [True]


async def test_one_suspect_at_a_time_and_others_begin_in_between() -> None:
    place = Quarantine()
    await place.isolate(A)
    await place.begin(A)
    second, other = asyncio.create_task(place.isolate(B)), asyncio.create_task(place.begin(C))
    assert await settled(second, other) == [False, False]
    place.settle(A)
    # C goes first though B was there before: it waited for A, and would wait for every suspect else.
    assert await settled(second, other) == [False, True]
    place.settle(C)
    assert await settled(second) == [True]


async def test_nobody_waits_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quarantine, "ALONE_SECONDS", 0.01)
    place = Quarantine()
    await place.begin(A)
    await place.isolate(B)  # although A has added nothing
    await place.begin(B)
    await place.begin(C)  # although B has added nothing
    assert place.open
    place.settle(B)
    await place.isolate(B)
    place.settle(B)
    assert place.open


@pytest.mark.parametrize("alone", [True, False])
async def test_a_suspect_that_is_cancelled_holds_up_nobody(alone: bool) -> None:
    place = Quarantine()
    if not alone:
        await place.isolate(C)
    place.note(A)
    suspect = asyncio.create_task(place.isolate(B))
    await settled(suspect)
    suspect.cancel()
    await settled(suspect)
    assert suspect.cancelled() and place.open is alone
    place.settle(C)
    assert place.open
    place.settle(A)
    await place.isolate(A)
