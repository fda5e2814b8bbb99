"""Journeys with more tools than a request has room for: the model finds them, and a call through the bridge
is in every respect a call of the tool itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from hermes.agent.models.endpoint import ModelEndpoint
from hermes.agent.models.formats.chat_completions.request import encode_request
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.tools.deferral import BUDGET, TOOL_CALL, TOOL_SEARCH
from hermes.domain.tools.tool import Approval, Effect, Tool, ToolContext, ToolResult
from hermes.domain.turns.event import ModelSaid, ToolFinished, ToolStarted
from hermes.testing.harness import Journey
from hermes.testing.model import Say, call, say
from hermes.testing.tools import world_tools
from tests.journeys.test_toolbox import LabSource

ENDPOINT = ModelEndpoint(base_url="")


def instrument(name: str, what: str, **facts: object) -> Tool:
    async def run(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        return ToolResult(text=f"{name} of {arguments.get('sample')}")

    schema = {"type": "object", "properties": {"sample": {"type": "string", "description": "x" * 200}}}
    given = {"effect": Effect.READ, **facts}
    return Tool(name=name, description=what, parameters=schema, run=run, toolset="lab", **given)  # type: ignore[arg-type]


def laboratory(count: int = 40) -> list[Tool]:
    return [instrument(f"assay_{n}", f"Runs assay number {n} on a sample of blood.") for n in range(count)]


def through(name: str, **arguments: object) -> Say:
    return call(TOOL_CALL, json.dumps({"name": name, "arguments": arguments}))


def results(request: ModelRequest) -> list[str]:
    return [entry.record.text for entry in request.entries if isinstance(entry.record, ToolFinished)]


async def test_a_deferred_tool_is_found_and_called_as_itself(tmp_path: Path) -> None:
    weigh = instrument("weigh_sample", "Weighs a sample on the precision scales.")

    def script(request: ModelRequest) -> Say:
        done = results(request)
        if not done:
            return call(TOOL_SEARCH, '{"query": "precision scales for a sample"}')
        if len(done) == 1:
            assert json.loads(done[0])[0] == {
                "name": "weigh_sample",
                "description": weigh.description,
                "parameters": weigh.parameters,
            }
            return through("weigh_sample", sample="gold")
        return say(done[1])

    chat = Journey(folder=tmp_path, script=script)
    chat.tools = [*world_tools(chat.world.effect), *laboratory(), weigh]
    async with chat:
        chat.world.write("weigh the gold")
        await chat.until_seen("weigh_sample of gold")
        await chat.until_idle()
        offered = [[tool.name for tool in request.tools] for request in chat.model.requests]
        assert "weigh_sample" not in offered[0] and {TOOL_SEARCH, TOOL_CALL} <= set(offered[0])
        assert all(names == offered[0] for names in offered)
        assert any(tool.name == "weigh_sample" for tool in chat.model.requests[0].deferred)
        # Records tell of the tool itself; the model sees its call as it made it.
        entries = chat.model.requests[-1].entries
        calls = [
            one for entry in entries if isinstance(entry.record, ModelSaid) for one in entry.record.calls
        ]
        assert [one.name for one in calls] == [TOOL_SEARCH, "weigh_sample"]
        started = [entry.record for entry in entries if isinstance(entry.record, ToolStarted)]
        assert [(one.name, one.effect) for one in started][1] == ("weigh_sample", Effect.READ)
        wire = json.loads(encode_request(chat.model.requests[-1], ENDPOINT))
        made = [one["function"] for message in wire["messages"] for one in message.get("tool_calls", ())]
        assert made[1]["name"] == TOOL_CALL
        assert json.loads(made[1]["arguments"]) == {"name": "weigh_sample", "arguments": {"sample": "gold"}}


async def test_the_bridge_leads_around_no_approval(tmp_path: Path) -> None:
    burn = instrument("burn_sample", "Burns a sample.", approval=Approval.ASK, effect=Effect.ONCE)

    def script(request: ModelRequest) -> Say:
        done = results(request)
        return say(done[-1]) if done else through("burn_sample", sample="gold")

    chat = Journey(folder=tmp_path, script=script)
    chat.tools = [*world_tools(chat.world.effect), *laboratory(), burn]
    async with chat:
        chat.world.write("burn it")
        await chat.until_seen("burn_sample")
        assert not any("burn_sample of" in seen for seen in chat.world.seen())
        chat.world.write("/deny")
        await chat.until_seen("Denied by the user.")


async def test_words_from_outside_do_not_keep_tools_from_being_found(tmp_path: Path) -> None:
    async def read(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        return ToolResult(text="a page", outside=True)

    schema = {"type": "object"}
    page = Tool(name="read_page", description="Reads.", parameters=schema, run=read, effect=Effect.READ)
    weigh = instrument("weigh_sample", "Weighs a sample on the precision scales.")

    def script(request: ModelRequest) -> Say:
        done = results(request)
        if len(done) == 1:
            return call(TOOL_SEARCH, '{"query": "precision scales for a sample"}')
        return say(f"found {json.loads(done[1])[0]['name']}") if done else call("read_page")

    chat = Journey(folder=tmp_path, script=script)
    chat.tools = [*world_tools(chat.world.effect), page, *laboratory(), weigh]
    async with chat:
        chat.world.write("look")
        await chat.until_seen("found weigh_sample")
        assert not any("Asked because" in seen for seen in chat.world.seen())


async def test_a_withdrawn_tool_is_not_reached_through_the_bridge(tmp_path: Path) -> None:
    def script(request: ModelRequest) -> Say:
        last = request.entries[-1].record
        return say(last.text) if isinstance(last, ToolFinished) else through("assay_3", sample="gold")

    async with Journey(folder=tmp_path, script=script) as chat:
        runtime = await chat.gateway.agents.get(MAIN_AGENT)
        runtime.toolbox.offer("lab", laboratory())
        chat.world.write("first")
        await chat.until_seen("assay_3 of gold")
        runtime.toolbox.withdraw("lab", "it went away")
        chat.world.write("second")
        await chat.until_seen("There is no tool “assay_3”")


async def test_a_tool_that_came_later_reaches_an_open_session_through_the_bridge(tmp_path: Path) -> None:
    def script(request: ModelRequest) -> Say:
        done = results(request)
        if len(request.entries) < 3:
            return say("not yet")
        if not done:
            return call(TOOL_SEARCH, '{"query": "measure_late"}')
        return through("measure_late", sample="it") if len(done) == 1 else say(done[-1])

    async with Journey(folder=tmp_path, script=script) as chat:
        runtime = await chat.gateway.agents.get(MAIN_AGENT)
        source = LabSource()
        runtime.toolbox.offer("lab", await source.tools())
        chat.world.write("measure")
        await chat.until_seen("not yet")
        runtime.toolbox.offer("lab", [instrument("measure_late", "Measures late.")])
        chat.world.write("now?")
        await chat.until_seen("measure_late of it")
        tools = [[tool.name for tool in request.tools] for request in chat.model.requests]
        assert all(names == tools[0] for names in tools) and "measure_late" not in tools[0]


async def test_two_hundred_tools_of_plugins_take_no_more_room(tmp_path: Path) -> None:
    chat = Journey(folder=tmp_path)
    chat.tools = [*world_tools(chat.world.effect), *laboratory(200)]
    async with chat:
        chat.world.write("hi")
        await chat.until_seen("You said: hi")
        request = chat.model.requests[0]
        sizes = len(encode_request(request, ENDPOINT))
        assert sizes - len(request.system.encode()) <= BUDGET + 400
        assert len(request.deferred) >= 190
