"""Journeys that are cut off: a life of a gateway that ends at the n-th write, and the life after it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from zlib import crc32

from hermes.domain.word import replace
from hermes.testing.crash import StoppingStore
from hermes.testing.harness import Journey

MOST_WRITES = 200
Life = Callable[[Journey], Awaitable[None]]
SAMPLED = 4
"""The sample run stops a story at every fourth write; at which, differs from story to story."""


def stops(full: bool, most: int, story: str, *, first: int = 1) -> range:
    """At which writes a story is stopped. It ends by itself when it has fewer."""
    if full:
        return range(first, most)
    return range(first + crc32(story.encode()) % SAMPLED, most, SAMPLED)


async def cut_everywhere(
    folder: Path, make: Callable[[Path], Journey], live: Life, *, after: bool, full: bool
) -> int:
    """Tell a story once for each of its writes, stopped there and gone on with in a second life; a sample
    takes some of them. `live` must be able to go on from anywhere, and ends with what must be true. How
    many writes the story has."""
    for number in stops(full, MOST_WRITES, folder.name)[:: 1 if full else 4]:
        place = folder / f"write-{number}-{'after' if after else 'before'}"
        place.mkdir()
        chat = make(place)
        try:
            if not await one_life(chat, live, stop_at=number, after=after):
                assert number > SAMPLED, "the story was never cut off"
                return number - 1
            await one_life(replace(chat, wrap_store=lambda store: store), live)
        except AssertionError as error:
            raise AssertionError(f"{place.name}: {error}") from error
    raise AssertionError("the story never came to its end")


async def one_life(chat: Journey, live: Life, *, stop_at: int = 0, after: bool = True) -> bool:
    """Live until the story is told or the n-th write (0: whatever comes); whether it was cut off. The
    writes of starting and of stopping count too."""
    stopped = asyncio.Event()
    if stop_at:
        chat.wrap_store = lambda store: StoppingStore(store, stop_at, after=after, stopped=stopped)
    living = asyncio.create_task(_whole(chat, live))
    watching = asyncio.create_task(stopped.wait())
    await asyncio.wait((living, watching), return_when=asyncio.FIRST_COMPLETED)
    watching.cancel()
    if living.done():
        living.result()
        return False
    assert isinstance(chat.store, StoppingStore)
    chat.store.kill()
    living.cancel()
    await asyncio.gather(living, return_exceptions=True)
    await chat.abandon()
    return True


async def _whole(chat: Journey, live: Life) -> None:
    await chat.__aenter__()
    await live(chat)
    await chat.__aexit__()
