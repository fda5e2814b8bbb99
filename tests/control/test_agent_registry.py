"""The contract of the agents' registry: a runtime is built once, on its first use; what cannot be built is
refused with one sentence, and tried again later; what is idle is let go; another generation of settings
brings other runtimes."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from hermes.app.agents import registry
from hermes.app.agents.registry import AgentRegistry
from hermes.control.core import AgentUnavailable, Runtime
from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.settings.settings import Profile, Settings
from hermes.state.store.writer import SqliteStore

BEE, ANT = AgentId("bee"), AgentId("ant")


class Hive:
    """Builds runtimes that do nothing, as slowly or badly as told."""

    def __init__(self) -> None:
        self.builds: Counter[AgentId] = Counter()
        self.released: list[AgentId] = []
        self.wrong: dict[AgentId, Exception] = {}
        self.busy: set[AgentId] = set()
        self.may_build = asyncio.Event()
        self.may_build.set()

    async def build(self, agent: AgentId) -> Runtime:
        self.builds[agent] += 1
        await self.may_build.wait()
        if agent in self.wrong:
            raise self.wrong[agent]
        profile = Profile(agent=agent, home=Path("/nowhere"), settings=Settings())
        return Runtime(profile=profile, agent=None, store=SqliteStore(None))  # type: ignore[arg-type]

    async def release(self, agent: AgentId) -> bool:
        if agent in self.busy:
            return False
        self.released.append(agent)
        return True

    def registry(self, *ids: AgentId) -> AgentRegistry:
        return AgentRegistry(ids or (MAIN_AGENT, BEE, ANT), self.build, self.release)


async def test_it_is_built_once_however_many_ask_for_it() -> None:
    hive = Hive()
    agents = hive.registry()
    assert list(agents) == [MAIN_AGENT, BEE, ANT] and BEE in agents and not hive.builds
    hive.may_build.clear()
    asking = [asyncio.create_task(agents.get(BEE)) for _ in range(9)]
    gone = asyncio.create_task(agents.get(BEE))
    await asyncio.sleep(0)
    gone.cancel()  # whoever leaves takes nothing away from the others
    await asyncio.sleep(0)
    assert agents.built(BEE) is None
    hive.may_build.set()
    runtimes = await asyncio.gather(*asking)
    assert len({id(runtime) for runtime in runtimes}) == 1 and agents.built(BEE) is runtimes[0]
    assert await agents.get(BEE) is runtimes[0] and hive.builds == {BEE: 1}


async def test_what_cannot_be_built_stays_there_and_is_refused_with_a_sentence() -> None:
    hive = Hive()
    agents = hive.registry()
    hive.wrong[BEE] = UserError("there is no toolset “x”.")
    hive.wrong[ANT] = OSError("no space")
    for _ in range(2):
        with pytest.raises(UserError, match="The agent “bee” cannot be used: there is no toolset “x”"):
            await agents.get(BEE)
    with pytest.raises(UserError, match="no space"):
        await agents.get(ANT)
    assert list(agents) == [MAIN_AGENT, BEE, ANT] and len(agents) == 3 and BEE in agents
    assert hive.builds[BEE] == 1, "it was tried again at once"
    with pytest.raises(UserError, match="There is no agent “fly”"):
        await agents.get(AgentId("fly"))
    hive.wrong[MAIN_AGENT] = UserError("no home")
    with pytest.raises(UserError, match=r"^no home$"):
        await agents.get(MAIN_AGENT)


async def test_whatever_building_raises_ends_as_one_sentence_and_is_tried_again_when_asked() -> None:
    hive = Hive()
    agents = hive.registry()
    hive.wrong = {BEE: ZeroDivisionError("division\nby zero"), MAIN_AGENT: KeyError("licence")}
    with pytest.raises(UserError, match="“bee” cannot be used: ZeroDivisionError: division by zero"):
        await agents.get(BEE)
    assert BEE in agents and agents.broken[BEE].startswith("ZeroDivisionError")
    with pytest.raises(UserError, match=r"^KeyError: 'licence'$"):
        await agents.get(MAIN_AGENT)
    hive.wrong = {}
    agents.retry()
    assert BEE in agents and (await agents.get(BEE)).profile.agent == BEE


async def test_what_was_put_right_is_there_again_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    hive = Hive()
    agents = hive.registry()
    hive.wrong = {BEE: UserError("no home")}
    with pytest.raises(AgentUnavailable, match="no home"):
        await agents.get(BEE)
    monkeypatch.setattr(registry, "RETRY_SECONDS", 0.0)
    with pytest.raises(AgentUnavailable, match="no home"):
        await agents.get(BEE)
    assert hive.builds[BEE] == 2
    hive.wrong = {}
    assert (await agents.get(BEE)).profile.agent == BEE and not agents.broken


async def test_what_is_not_let_go_does_not_come_into_the_next_generation() -> None:
    hive, after = Hive(), Hive()
    asked, hold = asyncio.Event(), asyncio.Event()

    async def release(agent: AgentId) -> bool:
        asked.set()
        await hold.wait()
        return False

    agents = AgentRegistry((MAIN_AGENT, BEE, ANT), hive.build, release)
    for agent in (BEE, ANT):
        await agents.get(agent)
    going = asyncio.create_task(agents.let_go(busy=(), idle_seconds=0))
    await asked.wait()
    agents.renew((MAIN_AGENT, BEE), after.build, after.release, await after.build(MAIN_AGENT))
    hold.set()
    assert await going == 0 and agents.built(BEE) is None
    await agents.get(BEE)
    assert after.builds[BEE] == 1


async def test_what_is_idle_is_let_go_and_built_again() -> None:
    hive = Hive()
    agents = hive.registry()
    first, _, kept = await agents.get(BEE), await agents.get(MAIN_AGENT), await agents.get(ANT)
    assert await agents.let_go(busy=(), idle_seconds=3600) == 0, "it was used a moment ago"
    hive.busy.add(ANT)  # a process of it runs
    assert await agents.let_go(busy=(BEE,), idle_seconds=0) == 0
    assert await agents.let_go(busy=(), idle_seconds=0) == 1
    assert hive.released == [BEE] and agents.built(BEE) is None and agents.built(ANT) is kept
    assert agents.built(MAIN_AGENT) is not None
    assert await agents.get(BEE) is not first


async def test_another_generation_brings_other_agents() -> None:
    hive, after = Hive(), Hive()
    agents = hive.registry()
    hive.wrong[ANT] = UserError("broken")
    with pytest.raises(UserError):
        await agents.get(ANT)
    held = await agents.get(MAIN_AGENT)
    hive.may_build.clear()
    late = asyncio.create_task(agents.get(BEE))
    await asyncio.sleep(0)
    main = await after.build(MAIN_AGENT)
    agents.renew((MAIN_AGENT, ANT, BEE), after.build, after.release, main)
    hive.may_build.set()
    old = await late  # whoever asked before gets what was asked for, and nobody else does
    assert await agents.get(BEE) is not old and await agents.get(MAIN_AGENT) is main is not held
    assert (await agents.get(ANT)).profile.agent == ANT, "what was broken is tried again"
    agents.renew((MAIN_AGENT,), after.build, after.release, main)
    with pytest.raises(UserError, match="There is no agent “bee”"):
        await agents.get(BEE)
