"""Journeys with a toolbox that changes: a source that goes away in the middle of a turn, and toolsets that
depend on the platform, the route and the person's door."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from hermes.app.agents.tools import ASK_SECONDS, OpenSources, TurnLimits
from hermes.control.workers import Supervisor
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.settings.settings import HostedAgent, PlatformToolsets, Route, RouteMatch, Settings
from hermes.domain.tools.tool import Effect, Tool, ToolContext, ToolResult
from hermes.domain.tools.toolbox import Toolbox, ToolsetLimit, write_tool_list
from hermes.domain.turns.event import ToolFinished
from hermes.domain.word import replace
from hermes.testing.clock import FakeClock, settle
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import Say, call, say
from hermes.testing.tools import world_tools


def plain(name: str, toolset: str = "lab") -> Tool:
    async def run(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        return ToolResult(text=f"{name} for {context.source.user if context.source else 'nobody'}")

    return Tool(name=name, description=name, parameters={}, run=run, toolset=toolset, effect=Effect.READ)


class LabSource:
    """A source that a test leads by the hand."""

    def __init__(self, *tools: Tool) -> None:
        self.offered: Sequence[Tool] = tools
        self.opened = self.closed = 0
        self.breaks: BaseException | None = None
        self._news = asyncio.Event()

    async def open(self) -> None:
        self.opened += 1

    async def tools(self) -> Sequence[Tool]:
        if self.breaks is not None:
            raise self.breaks
        return self.offered

    async def changed(self) -> None:
        await self._news.wait()
        self._news.clear()

    async def close(self) -> None:
        self.closed += 1

    def ring(self) -> None:
        self._news.set()


def results(request: ModelRequest) -> list[str]:
    return [entry.record.text for entry in request.entries if isinstance(entry.record, ToolFinished)]


async def test_a_tool_withdrawn_in_mid_turn_is_refused_and_the_turn_goes_on(tmp_path: Path) -> None:
    box: list[Toolbox] = []

    def script(request: ModelRequest) -> Say:
        done = len(results(request))
        if done == 2:
            return say("; ".join(results(request)))
        if done == 1:
            box[0].withdraw("lab", "it went away")
        return call("measure")

    async with Journey(folder=tmp_path, script=script) as chat:
        runtime = await chat.gateway.agents.get(MAIN_AGENT)
        box.append(runtime.toolbox)
        runtime.toolbox.offer("lab", [plain("measure")])
        chat.world.write("measure it twice")
        await chat.until_seen("measure for u1; Not run: measure is not available any more.")
        # What the model was offered in this turn stays: its schema is part of the prefix.
        offered = [[tool.name for tool in request.tools] for request in chat.model.requests]
        assert offered[0] == offered[-1] and "measure" in offered[-1]


async def test_platforms_and_routes_narrow_the_tools_of_a_turn(tmp_path: Path) -> None:
    group = Route(match=RouteMatch(chat_id="7"), agent=MAIN_AGENT, toolsets=("core",))
    settings = open_settings(
        platform_toolsets={"fake": PlatformToolsets(toolsets=("lab", "core"))}, routes=(group,)
    )
    limits = TurnLimits(settings=lambda: settings, agent=MAIN_AGENT, main=ToolsetLimit(disabled=("once",)))
    chat = Journey(folder=tmp_path, settings=settings, limits_of=limits)
    chat.tools = [*world_tools(chat.world.effect), plain("measure"), plain("terminal", "terminal")]
    async with chat:
        chat.world.write("hi", chat="1")
        chat.world.write("hi", chat="7")
        await chat.until(lambda: len(chat.model.requests) == 2)
        by_chat = sorted({tool.name for tool in request.tools} for request in chat.model.requests)
        core = {"read", "keyed", "danger", "clarify"}
        assert sorted(by_chat, key=len) == [core, {*core, "measure"}]


async def test_an_agents_own_limit_counts_for_a_turn_that_runs(tmp_path: Path) -> None:
    bee = AgentId("bee")
    settings = open_settings(agents={"bee": HostedAgent()}, default_agent=bee)
    live: list[Settings] = [settings]
    limits = TurnLimits(settings=lambda: live[-1], agent=bee)

    def script(request: ModelRequest) -> Say:
        done = len(results(request))
        if done == 3:
            return say("; ".join(results(request)))
        if done:
            narrower = {"bee": HostedAgent(disabled_toolsets=("lab",))} if done == 1 else {}
            live.append(replace(settings, agents=narrower))
        return call("measure" if done < 2 else "weigh")

    chat = Journey(
        folder=tmp_path, settings=settings, script=script, limits_of=limits, agents=("main", "bee")
    )
    chat.tools = [plain("measure"), plain("weigh", "scales")]
    async with chat:
        chat.world.write("measure it twice, then weigh it")
        gone = "is not available any more. Go on without it."
        await chat.until_seen(f"measure for u1; Not run: measure {gone}; Not run: weigh {gone}")


async def test_a_source_that_breaks_is_opened_again_and_shown_in_health(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = FakeClock()
    loops, box, source = Supervisor(clock), Toolbox([plain("own", "own")]), LabSource(plain("measure"))
    sources = OpenSources(toolbox=box, sources={"lab": source}, loops=loops)
    await sources.open()
    assert list(box.all) == ["own", "measure"]
    source.offered = [replace(plain("weigh"), parameters={"type": "array"}), plain("count")]
    source.ring()
    await settle()
    await clock.advance(ASK_SECONDS)
    assert list(box.all) == ["own", "count"] and list(box.problems) == ["lab/weigh"]
    source.breaks = RuntimeError("the cable is out")
    source.ring()
    await settle()
    await clock.advance(ASK_SECONDS)
    assert list(box.all) == ["own"] and "the cable is out" in box.problems["lab"]
    assert "the cable is out" in loops.states["tools of lab"].why and source.closed == 1
    source.breaks = None
    await clock.advance(5)
    await settle()
    assert list(box.all) == ["own", "count"] and source.opened == 2
    assert "tools.withdrawn source=lab why=" in caplog.text
    caplog.clear()
    await sources.close()
    assert list(box.all) == ["own"] and source.closed == 2
    warnings = [record for record in caplog.records if record.levelname == "WARNING"]
    assert not warnings, "a warning of what was asked for"


async def test_the_tools_of_a_session_stay_the_same_over_turns_and_restarts(tmp_path: Path) -> None:
    def script(request: ModelRequest) -> Say:
        last = request.entries[-1].record
        return say(last.text) if isinstance(last, ToolFinished) else call("measure")

    async with Journey(folder=tmp_path, script=script) as chat:
        box = (await chat.gateway.agents.get(MAIN_AGENT)).toolbox
        box.offer("lab", [plain("measure")])
        chat.world.write("first")
        await chat.until_seen("measure for u1")
        first = chat.model.requests[0].tools
        box.offer("lab", [plain("measure"), plain("weigh")])
        chat.world.write("second", chat="1")
        await chat.until(lambda: len(chat.model.requests) == 4)
        assert write_tool_list(chat.model.requests[-1].tools) == write_tool_list(first)
        chat.world.write("third", chat="2", user="u2")
        await chat.until(lambda: len(chat.model.requests) >= 5)
        assert "weigh" in {tool.name for tool in chat.model.requests[4].tools}, (
            "a new session has what is new"
        )
        await chat.until_idle()
    world = chat.world
    async with Journey(folder=tmp_path, script=script, world=world) as chat:
        world.write("fourth", chat="1")
        await chat.until_seen("Not run: measure is not available any more. Go on without it.", chat="1")
        assert write_tool_list(chat.model.requests[0].tools) == write_tool_list(first)


async def test_a_session_does_without_toolsets_and_gets_them_back(tmp_path: Path) -> None:
    settings = open_settings(platform_toolsets={"fake": PlatformToolsets(toolsets=("all", "-scales"))})
    limits = TurnLimits(settings=lambda: settings, agent=MAIN_AGENT)

    def script(request: ModelRequest) -> Say:
        last = request.entries[-1].record
        return say(last.text) if isinstance(last, ToolFinished) else call("measure")

    tools = [plain("measure"), plain("weigh", "scales")]
    async with Journey(
        folder=tmp_path, settings=settings, script=script, limits_of=limits, tools=tools
    ) as chat:
        chat.world.write("measure")
        await chat.until_seen("measure for u1")
        chat.world.write("/tools")
        await chat.until_seen("- lab: measure")
        chat.world.write("/tools disable labb")
        await chat.until_seen("Did you mean lab?")
        chat.world.write("/tools disable lab")
        await chat.until_seen("Off in this session from now on: lab.")
        chat.world.write("measure")
        await chat.until_seen("measure is not available any more")
        await chat.until_idle()
    async with Journey(
        folder=tmp_path, settings=settings, script=script, limits_of=limits, tools=tools, world=chat.world
    ) as chat:
        chat.world.write("/toolsets")
        await chat.until_seen("~~measure~~")
        chat.world.write("/tools enable scales")
        await chat.until_seen("“scales” is not available here, so it stays off.")
        chat.world.write("/tools enable lab")
        await chat.until_seen("On again in this session: lab.")
        chat.world.write("/tools frobnicate")
        await chat.until_seen("/tools does not know “frobnicate”.")
        chat.world.write("measure")
        await chat.until(lambda: chat.world.seen("1").count("measure for u1") == 2)
