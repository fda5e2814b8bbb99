"""Journeys that are cut off: a life of a gateway that ends at the n-th write, and the life after it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from hermes.domain.ports import Store
from hermes.testing.crash import StoppingStore
from hermes.testing.harness import Journey

MOST_WRITES = 200
Life = Callable[[Journey], Awaitable[None]]


async def cut_everywhere(
    folder: Path, make: Callable[[Path], Journey], live: Life, *, after: bool, full: bool
) -> int:
    """Tell a story once for each of its writes, stopped there and gone on with in a second life; a sample
    takes each seventh write. `live` must be able to go on from anywhere, and ends with what must be true. How
    many writes the story has."""
    for number in range(1, MOST_WRITES) if full else range(2 if after else 5, MOST_WRITES, 7):
        place = folder / f"write-{number}-{'after' if after else 'before'}"
        place.mkdir()
        chat = make(place)
        try:
            if not await one_life(chat, live, stop_at=number, after=after):
                assert number > 7, "the story was never cut off"
                return number - 1
            await one_life(replace(chat, wrap_store=lambda store: store), live)
        except AssertionError as error:
            raise AssertionError(f"{place.name}: {error}") from error
    raise AssertionError("the story never came to its end")


async def one_life(chat: Journey, live: Life, *, stop_at: int = 0, after: bool = True) -> bool:
    """Live until the story is told or the n-th write (0: whatever comes); whether it was cut off."""
    cut: list[StoppingStore] = []

    def stopping(store: Store) -> Store:
        cut.append(StoppingStore(store, stop_at, after=after))
        return cut[0]

    if stop_at:
        chat.wrap_store = stopping
    entering = asyncio.create_task(chat.__aenter__())
    while not entering.done() and not (cut and cut[0].stopped.is_set()):
        await asyncio.wait((entering,), timeout=0.01)
    if not entering.done():
        entering.cancel()
        await chat.abandon()
        return True
    entering.result()
    living = asyncio.create_task(_whole(chat, live))
    watching: list[asyncio.Task[Any]] = [living, *(asyncio.create_task(one.stopped.wait()) for one in cut)]
    await asyncio.wait(watching, return_when=asyncio.FIRST_COMPLETED)
    crashed = not living.done()
    for task in watching:
        task.cancel()
    if crashed:
        await chat.abandon()
        return True
    await living
    return False


async def _whole(chat: Journey, live: Life) -> None:
    await live(chat)
    await chat.__aexit__()
