"""Journeys that are cut off: a life of a gateway that ends at the n-th write, and the life after it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from hermes.domain.ports import Store
from hermes.testing.crash import StoppingStore
from hermes.testing.harness import Journey


async def one_life(
    chat: Journey, live: Callable[[Journey], Awaitable[None]], *, stop_at: int = 0, after: bool = True
) -> bool:
    """Live until the story is told or the n-th write (0: whatever comes); whether it was cut off."""
    stores: list[StoppingStore] = []

    def wrap(store: Store) -> Store:
        stores.append(StoppingStore(store, stop_at, after=after))
        return stores[-1]

    if stop_at:
        chat.wrap_store = wrap
    entering = asyncio.create_task(chat.__aenter__())
    while not entering.done() and not any(store.stopped.is_set() for store in stores):
        await asyncio.wait((entering,), timeout=0.01)
    if not entering.done():
        entering.cancel()
        await chat.abandon()
        return True
    living = asyncio.create_task(_whole(chat, live))
    watching: list[asyncio.Task[Any]] = [living]
    if isinstance(chat.store, StoppingStore):
        watching.append(asyncio.create_task(chat.store.stopped.wait()))
    await asyncio.wait(watching, return_when=asyncio.FIRST_COMPLETED)
    crashed = not living.done()
    for task in watching:
        task.cancel()
    if crashed:
        await chat.abandon()
        return True
    await living
    return False


async def _whole(chat: Journey, live: Callable[[Journey], Awaitable[None]]) -> None:
    await live(chat)
    await chat.__aexit__()
