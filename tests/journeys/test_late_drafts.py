"""The answer stands in the chat before its session has heard that the end was stored: the draft, which knows
of no end yet, must not be shown over it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from hermes.domain.address import Address
from hermes.domain.ids import AgentId
from hermes.domain.ports import ModelRequest, Store, Tx
from hermes.testing.clock import settle
from hermes.testing.crash import unit_name
from hermes.testing.harness import Journey
from hermes.testing.model import Say
from hermes.testing.world import Deed

T = TypeVar("T")
ANSWER = "one two three four"


class Late:
    """A store that begins no draft before `begin`, and tells of the end of a turn only after `tell`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.asked, self.begin, self.ended, self.tell = (asyncio.Event() for _ in range(4))

    async def write(self, unit: Callable[[Tx], T], *, first: bool = False) -> T:
        name = unit_name(unit)
        if name == "draft":
            self.asked.set()
            await self.begin.wait()
        result = await self._store.write(unit, first=first)
        if name == "record":
            self.ended.set()
            await self.tell.wait()
        return result

    async def read(self, query: Callable[[Tx], T]) -> T:
        return await self._store.read(query)

    def scoped(self, agent: AgentId) -> Store:
        scoped = Late(self._store.scoped(agent))
        scoped.__dict__ |= {name: one for name, one in vars(self).items() if name != "_store"}
        return scoped


async def test_a_draft_is_not_shown_over_the_answer(tmp_path: Path) -> None:
    def script(request: ModelRequest) -> Say:
        """Says the second half when the first is about to be shown."""
        return Say(text=ANSWER, pieces=4, halt=store.asked)

    async with Journey(folder=tmp_path, script=script, wrap_store=Late) as chat:
        store = chat.store
        assert isinstance(store, Late)
        chat.world.write("hello")
        await asyncio.wait_for(store.ended.wait(), 40)
        chat.gateway.deliver(Address(platform="fake", chat="1"))
        store.begin.set()
        await chat.until(lambda: any(one.text == ANSWER for one in chat.world.did(Deed.EDITED)))
        while await chat.database.read(lambda tx: tx.outbox.waiting("fake", 0, 1)):
            await settle()
        await settle()
        store.tell.set()
        await chat.until_idle()
        assert chat.world.seen() == [ANSWER]
