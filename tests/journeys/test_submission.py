"""What a door hands in: asked again it is the same, and it is done even if whoever asked has gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from hermes.control.sessions.repeats import NewRequest
from hermes.control.sessions.submission import Submission
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.ports.store import Store, Tx
from hermes.domain.settings.settings import ApprovalSettings
from hermes.domain.turns.event import Entry, Finished
from hermes.domain.turns.turn import Cause, ReplyPlace, TurnAction, TurnInput, TurnState
from hermes.testing.clock import FakeClock
from hermes.testing.harness import PATIENCE, Journey, open_settings
from hermes.testing.model import call, say
from hermes.testing.world import Deed

T = TypeVar("T")


def event(name: str, *keys: str, **more: object) -> Submission:
    source = Source(address=Address(platform="webhook", chat="route", thread=name), kind=SourceKind.WEBHOOK)
    asked: dict[str, object] = {"input": TurnInput(text=name), **more}
    return Submission(
        agent=MAIN_AGENT,
        source=source,
        cause=Cause.WEBHOOK,
        request=NewRequest(prefix="hook_", owner="webhook:route", key=keys[0], also=keys[1:]),
        **asked,  # type: ignore[arg-type]
    )


async def test_one_known_key_of_several_makes_it_the_same(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path) as chat:
        first = await chat.gateway.ask(event("one", "a", "b"))
        assert first.fresh
        for keys in (("a",), ("b",), ("c", "b"), ("a", "d")):
            again = await chat.gateway.ask(event("again", *keys))
            assert not again.fresh and again.turn.id == first.turn.id
        assert (await chat.gateway.ask(event("two", "c", "d"))).fresh, "what was not taken left no key"


async def test_words_that_are_passed_on_need_no_model(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, kind="plain") as chat:
        to = ReplyPlace(to=Address(platform="fake", chat="5"))
        words = TurnInput(text="The build is green.", action=TurnAction.RELAY)
        done = await chat.gateway.ask(event("one", "a", input=words, reply=to))
        await chat.until_seen("The build is green.", chat="5")
        turn = await chat.database.read(lambda tx: tx.turns.get(done.turn.id))
        assert turn is not None and turn.state is TurnState.DONE and not chat.model.requests


async def test_what_an_event_may_not_do_is_denied_by_silence(tmp_path: Path) -> None:
    clock = FakeClock()
    script = [call("danger", '{"token": "x"}'), say("it was not done")]
    settings = open_settings(approvals=ApprovalSettings(timeout=600.0))
    async with Journey(folder=tmp_path, script=script, clock=clock, settings=settings) as chat:
        asked = await chat.gateway.ask(event("one", "a"))
        await chat.until(lambda: len(chat.model.requests) == 1)
        await clock.advance(590)
        assert len(chat.model.requests) == 1
        await clock.advance(20)
        async with asyncio.timeout(PATIENCE):
            seen = [one async for one in chat.gateway.watch(MAIN_AGENT, asked.turn.id)]
        last = seen[-1]
        assert isinstance(last, Entry) and isinstance(last.record, Finished)
        assert not chat.world.did(Deed.EFFECT)


class Slow:
    """A store whose answers come late: the commit is there, and nobody has heard of it yet."""

    def __init__(self, store: Store, committed: asyncio.Event) -> None:
        self._store = store
        self._committed = committed

    async def write(self, unit: Callable[[Tx], T], *, first: bool = False, ends: bool = False) -> T:
        result = await self._store.write(unit, first=first, ends=ends)
        if getattr(unit, "__qualname__", "") == "SubmitTurn.unit":
            self._committed.set()
            await asyncio.sleep(60)
        return result

    async def read(self, query: Callable[[Tx], T]) -> T:
        return await self._store.read(query)

    def scoped(self, agent: AgentId) -> Store:
        return Slow(self._store.scoped(agent), self._committed)


async def test_who_leaves_during_the_commit_is_answered_all_the_same(tmp_path: Path) -> None:
    committed = asyncio.Event()
    async with Journey(folder=tmp_path, wrap_store=lambda store: Slow(store, committed)) as chat:
        asking = asyncio.create_task(chat.gateway.ask(event("one", "a")))
        await committed.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await chat.until(lambda: len(chat.model.requests) == 1)
        await chat.until_idle()
