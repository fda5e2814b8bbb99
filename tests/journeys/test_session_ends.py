"""Hooks hear of the end of a session that is over by itself, whoever ends it and wherever the gateway is
killed meanwhile; a possible repeat is marked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import pytest

from hermes.control.hooks.dispatch import Hooks
from hermes.control.hooks.endings import noted_ends
from hermes.domain.errors import Unreachable
from hermes.domain.ids import AgentId
from hermes.domain.ports.store import Store, Tx
from hermes.domain.settings.settings import ResetMode, ResetSettings
from hermes.domain.system.hooks import Hook, HookAnswer
from hermes.domain.word import replace
from hermes.testing.clock import FakeClock
from hermes.testing.harness import Journey, open_settings
from hermes.testing.world import World
from tests.journeys.cut import MOST_WRITES, one_life, stops

HOURS = 7200.0
T = TypeVar("T")
SETTINGS = open_settings(session_reset=ResetSettings(mode=ResetMode.IDLE, idle_minutes=60))


class Listening:
    """A hook outside of the gateway: what it has heard outlives any crash."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str, bool]] = []

    async def call(self, hook: Hook, event: str, context: Mapping[str, object]) -> HookAnswer:
        self.heard.append((event, str(context["session_id"]), bool(context.get("repeated"))))
        return HookAnswer()

    async def close(self) -> None:
        """Nothing is open."""

    def hooks(self) -> Hooks:
        return Hooks([([Hook(name="notes", folder="notes", events=("session:*",))], self)])

    @property
    def ends(self) -> list[tuple[str, bool]]:
        return [(session, repeated) for event, session, repeated in self.heard if event == "session:end"]


async def no_end_is_left(chat: Journey) -> bool:
    return not await chat.store.read(noted_ends)


@pytest.mark.parametrize("by_message", [False, True])
@pytest.mark.parametrize("after", [False, True])
async def test_an_end_is_told_wherever_the_gateway_is_killed(
    tmp_path: Path, full: bool, by_message: bool, after: bool
) -> None:
    for number in stops(full, MOST_WRITES, f"{by_message}{after}"):
        listening, world, clock = Listening(), World(), FakeClock()
        written: list[str] = []

        async def say(chat: Journey, text: str, world: World = world, written: list[str] = written) -> None:
            if text not in written:
                written.append(text)
                world.write(text)
            await chat.until_seen(f"You said: {text}")
            await chat.until_idle()

        async def story(chat: Journey, listening: Listening = listening, clock: FakeClock = clock) -> None:
            await say(chat, "hello")
            if clock.monotonic() < HOURS:
                clock.jump(HOURS)
            if by_message:
                await say(chat, "again")
            else:
                await chat.gateway.sessions_expiry.sweep()
            await chat.until(lambda: bool(listening.ends))
            while not await no_end_is_left(chat):
                await chat.until_idle()

        place = tmp_path / f"write-{number}"
        place.mkdir()
        chat = Journey(folder=place, world=world, clock=clock, settings=SETTINGS, hooks=listening.hooks())
        was_cut = await one_life(chat, story, stop_at=number, after=after)
        if was_cut:
            following = replace(chat, wrap_store=lambda store: store, hooks=listening.hooks())
            await one_life(following, story)
        sessions = {session for session, _ in listening.ends}
        assert len(sessions) == 1, f"write {number}: {listening.heard}"
        assert [repeated for _, repeated in listening.ends].count(False) <= 1, f"write {number}"
        assert [repeated for _, repeated in listening.ends].count(True) <= 1, f"write {number}"
        assert not [event for event, *_ in listening.heard if event == "session:reset"], "nobody asked"
        if not was_cut:
            assert listening.ends == [(sessions.pop(), False)]
            return
    raise AssertionError("the story never came to its end")


async def test_an_end_that_was_noted_and_not_told_is_told_at_the_next_start(tmp_path: Path) -> None:
    world, clock, listening = World(), FakeClock(), Listening()
    deaf = Hooks([([Hook(name="notes", folder="notes", events=("session:end",))], _Silent())])
    async with Journey(folder=tmp_path, world=world, clock=clock, settings=SETTINGS, hooks=deaf) as chat:
        world.write("hello")
        await chat.until_seen("You said: hello")
        await chat.until_idle()
        clock.jump(HOURS)
        assert await chat.gateway.sessions_expiry.sweep() == 1
        (noted,) = await chat.store.read(noted_ends)
        await deaf.close()
    again = listening.hooks()
    async with Journey(folder=tmp_path, world=world, clock=clock, settings=SETTINGS, hooks=again) as chat:
        await chat.until(lambda: bool(listening.ends))
        assert listening.ends == [(noted.session, True)]
        while not await no_end_is_left(chat):
            await chat.until_idle()
    async with Journey(folder=tmp_path, world=world, clock=clock, settings=SETTINGS, hooks=again) as chat:
        await chat.until_idle()
        assert len(listening.ends) == 1


class _Full:
    """A store whose disk is full when the first end is struck out."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.failed = False

    async def write(self, unit: Callable[[Tx], T], *, first: bool = False, ends: bool = False) -> T:
        if "_strike_out" in repr(unit) and not self.failed:
            self.failed = True
            raise Unreachable("the disk is full")
        return await self._store.write(unit, first=first, ends=ends)

    async def read(self, query: Callable[[Tx], T]) -> T:
        return await self._store.read(query)

    def scoped(self, agent: AgentId) -> Store:
        return self._store.scoped(agent)


async def test_an_end_that_could_not_be_struck_out_does_not_swallow_the_next(tmp_path: Path) -> None:
    world, clock, listening = World(), FakeClock(), Listening()
    journey = Journey(
        folder=tmp_path,
        world=world,
        clock=clock,
        settings=SETTINGS,
        hooks=listening.hooks(),
        wrap_store=_Full,
    )
    async with journey as chat:
        store = chat.store
        assert isinstance(store, _Full)
        world.write("hello")
        await chat.until_seen("You said: hello")
        await chat.until_idle()
        clock.jump(HOURS)
        assert await chat.gateway.sessions_expiry.sweep() == 1
        await chat.until(lambda: store.failed)
        (noted,) = await chat.store.read(noted_ends)
        for _ in range(20):
            await clock.advance(10.0)
        assert await no_end_is_left(chat) and len(listening.ends) == 1
        chat.gateway.events.emit(noted)
        await chat.until(lambda: len(listening.ends) == 2)


class _Silent(Listening):
    """Never comes to its end."""

    async def call(self, hook: Hook, event: str, context: Mapping[str, object]) -> HookAnswer:
        await asyncio.Event().wait()
        return HookAnswer()
