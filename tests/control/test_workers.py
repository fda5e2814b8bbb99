"""The set of workers: whoever was rung for, or may be found in the store, gets a worker."""

from __future__ import annotations

import asyncio

from hermes.control.workers import Workers
from hermes.testing.clock import settle


class Shelf:
    """Keys in a store that answers when it is let; who works on one takes it off, if nothing keeps him."""

    def __init__(self, *keys: str, places: int = 9) -> None:
        self.rows = dict(enumerate(keys, 1))
        self.done: list[str] = []
        self.asked = asyncio.Event()
        self.answers, self.work = asyncio.Event(), asyncio.Event()
        self.answers.set()
        self.work.set()
        self.workers: Workers[str] = Workers(
            start=lambda key: Taker(key, self), page=self._page, places=places, name="taker"
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
