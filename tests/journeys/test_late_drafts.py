"""The store answers late, and meanwhile other things happen: the draft of a turn that is over must not be
shown over its answer, an answer comes before what is said after it, and no message is overheard."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from hermes.domain.chats.address import Address
from hermes.domain.ids import AgentId
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.ports.store import Store, Tx
from hermes.domain.settings.settings import DisplaySettings
from hermes.domain.turns.turn import BusyMode
from hermes.testing.clock import settle
from hermes.testing.crash import unit_name
from hermes.testing.harness import PATIENCE, Journey, open_settings
from hermes.testing.model import Say, last_words
from hermes.testing.world import Deed

T = TypeVar("T")
ANSWER = "one two three four"


class Late:
    """A store that does some units only, or tells of them only, after an event."""

    def __init__(self, **held: asyncio.Event) -> None:
        """By what a unit is called: `before_draft`, `after_record`."""
        self._held = held
        self.met: dict[str, asyncio.Event] = defaultdict(asyncio.Event)

    def wrap(self, store: Store) -> Store:
        return _LateStore(store, self)

    async def pause(self, moment: str) -> None:
        self.met[moment].set()
        if moment in self._held:
            await self._held[moment].wait()


class _LateStore:
    def __init__(self, store: Store, late: Late) -> None:
        self._store, self._late = store, late

    async def write(self, unit: Callable[[Tx], T], *, first: bool = False, ends: bool = False) -> T:
        await self._late.pause(f"before_{unit_name(unit)}")
        result = await self._store.write(unit, first=first, ends=ends)
        await self._late.pause(f"after_{unit_name(unit)}")
        return result

    async def read(self, query: Callable[[Tx], T]) -> T:
        return await self._store.read(query)

    def scoped(self, agent: AgentId) -> Store:
        return _LateStore(self._store.scoped(agent), self._late)


async def test_a_draft_is_not_shown_over_the_answer(tmp_path: Path) -> None:
    begin, tell = asyncio.Event(), asyncio.Event()
    late = Late(after_draft=begin, after_record=tell)
    # It says the second half when the first is about to be shown.
    script = [Say(text=ANSWER, pieces=4, halt=late.met["after_draft"])]
    async with Journey(folder=tmp_path, script=script, wrap_store=late.wrap) as chat:
        chat.world.write("hello")
        await asyncio.wait_for(late.met["after_record"].wait(), PATIENCE)
        chat.gateway.delivery.ring(Address(platform="fake", chat="1"))
        begin.set()
        await chat.until(lambda: any(one.text == ANSWER for one in chat.world.did(Deed.EDITED)))
        while await chat.database.read(lambda tx: tx.outbox.waiting("fake", 0, 1)):
            await settle()
        await settle()
        tell.set()
        await chat.until_idle()
        assert chat.world.seen() == [ANSWER]


async def test_a_draft_is_not_begun_when_the_answer_is_there(tmp_path: Path) -> None:
    begin = asyncio.Event()
    late = Late(before_draft=begin)
    script = [Say(text=ANSWER, pieces=4, halt=late.met["before_draft"])]
    async with Journey(folder=tmp_path, script=script, wrap_store=late.wrap) as chat:
        chat.world.write("hello")
        await asyncio.wait_for(late.met["after_record"].wait(), PATIENCE)
        begin.set()
        await chat.until_seen(ANSWER)
        await chat.until_idle()
        assert chat.world.seen() == [ANSWER] and len(chat.world.log) == len(chat.world.did(Deed.SENT)) + 2


async def test_an_answer_comes_before_the_next_ones_draft(tmp_path: Path) -> None:
    look, hold = asyncio.Event(), asyncio.Event()
    late = Late(after_attempt=look)
    settings = open_settings(display=DisplaySettings(busy_input_mode=BusyMode.QUEUE))

    def script(request: ModelRequest) -> Say:
        words = last_words(request)
        return Say(text=f"answer to {words}", pieces=2, hold=hold if words == "second" else None)

    async with Journey(folder=tmp_path, script=script, settings=settings, wrap_store=late.wrap) as chat:
        chat.world.write("first")
        chat.world.write("second")
        await chat.until(lambda: len(chat.model.requests) == 2)
        await settle()
        look.set()
        await chat.until_seen("answer to first", "answer to second ▉")
        hold.set()
        await chat.until_idle()
        assert chat.world.seen() == ["answer to first", "answer to second"]


async def test_a_message_that_comes_before_the_end_is_heard_of_is_answered(tmp_path: Path) -> None:
    tell = asyncio.Event()
    late = Late(after_record=tell)
    async with Journey(folder=tmp_path, kind="plain", wrap_store=late.wrap) as chat:
        chat.world.write("first")
        await asyncio.wait_for(late.met["after_record"].wait(), PATIENCE)
        chat.world.write("second")
        await chat.until_taken()
        tell.set()
        await chat.until_seen("You said: first", "You said: second")
