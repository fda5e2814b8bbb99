"""Journeys with services that add tools to a conversation themselves: the model calls what it found by its
name, and everything else is as with the bridge."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from hermes.agent.models.endpoint import HttpProvider, ModelEndpoint
from hermes.agent.models.formats import load_format
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.models.providers import ANTHROPIC_MESSAGES, CODEX_RESPONSES, PROVIDERS
from hermes.domain.ports.agent import ModelPiece
from hermes.domain.ports.agent import ModelRequest as Asked
from hermes.domain.settings.declaring import Secret
from hermes.domain.tools.deferral import TOOL_CALL, TOOL_SEARCH
from hermes.domain.tools.tool import Approval, Effect, Tool, ToolCall
from hermes.domain.turns.event import ModelSaid, ToolStarted
from hermes.script.agent import AIAgent
from hermes.testing.harness import Journey
from hermes.testing.model_script import Call, ModelRequest, Reply, Said, failure
from hermes.testing.model_server import FakeModelServer
from hermes.testing.provider_suite import KEY
from hermes.testing.tools import world_tools
from tests.journeys.test_deferred_tools import instrument, laboratory

DIRECT = (ANTHROPIC_MESSAGES, CODEX_RESPONSES)
MODEL = "scripted"
"""What journeys call their model."""
AFTER = {ANTHROPIC_MESSAGES: b',"system":', CODEX_RESPONSES: b',"input":'}
"""What follows the tools in a request."""
WEIGH = instrument("weigh_sample", "Weighs a sample on the precision scales.")
FIND = {"query": "precision scales for a sample"}
Answer = Callable[[ModelRequest], Said]


def calling(tool: str, number: int, /, **arguments: object) -> Reply:
    return Reply(calls=[Call(id=f"call_{number}", name=tool, arguments=json.dumps(arguments))])


def blocks(wire: Any) -> list[dict[str, Any]]:
    contents = (message["content"] for message in wire["messages"])
    return [block for content in contents if isinstance(content, list) for block in content]


def results(request: ModelRequest) -> list[str]:
    return [str(message["content"]) for message in request.messages if message["role"] == "tool"]


def find_then(name: str, query: str = FIND["query"]) -> Answer:
    """A model that searches, calls what it found by its name, and tells what came of it."""

    def answer(request: ModelRequest) -> Said:
        done = results(request)
        if not done:
            return calling(TOOL_SEARCH, 0, query=query)
        if len(done) == 1:
            assert f"[{name}]" in done[0] and "properties" not in done[0], done
            return calling(name, 1, sample="gold")
        return Reply(text=done[-1])

    return answer


class Served:
    """A journey whose model is a service of that format; `requests` are what the loop asked it for."""

    def __init__(self, folder: Path, format: str, answer: Answer, *tools: Tool) -> None:
        self.format, self.chat = format, Journey(folder=folder)
        self.chat.tools = [*world_tools(self.chat.world.effect), *laboratory(), *tools]
        self.server = FakeModelServer(answer, key=KEY)
        self.requests: list[Asked] = []

    async def __aenter__(self) -> Served:
        await self.server.__aenter__()
        endpoint = ModelEndpoint(base_url=self.server.base_url, key=Secret(KEY), defers=MODEL)
        self.provider = HttpProvider(endpoint, load_format(self.format))
        await self.chat.__aenter__()
        self.chat.model = self  # type: ignore[assignment]
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.chat.__aexit__(None, None, None)
        await self.provider.close()
        await self.server.__aexit__(None, None, None)

    async def call(self, request: Asked) -> AsyncIterator[ModelPiece]:
        self.requests.append(request)
        async for piece in self.provider.call(request):
            yield piece

    def tool_lists(self) -> list[bytes]:
        """The tools of each request, byte for byte."""
        return [
            request.raw[request.raw.index(b'"tools":[') :].split(AFTER[self.format])[0]
            for request in self.server.requests
        ]

    def calls(self) -> list[ToolCall]:
        said = (entry.record for entry in self.requests[-1].entries)
        return [call for record in said if isinstance(record, ModelSaid) for call in record.calls]


@pytest.mark.parametrize("format", DIRECT)
async def test_what_was_found_is_called_by_its_name(format: str, tmp_path: Path) -> None:
    async with Served(tmp_path, format, find_then("weigh_sample"), WEIGH) as served:
        served.chat.world.write("weigh the gold")
        await served.chat.until_seen("weigh_sample of gold")
        await served.chat.until_idle()
        served.chat.world.write("and now?")
        await served.chat.until(lambda: len(served.server.requests) == 4)
        await served.chat.until_idle()
        lists = served.tool_lists()
        assert len(lists[0]) > 1000 and all(listed == lists[0] for listed in lists)
        wire = served.server.requests[-1].wire
        if format == ANTHROPIC_MESSAGES:
            deferred = [tool for tool in wire["tools"] if tool.get("defer_loading")]
            assert "weigh_sample" in [tool["name"] for tool in deferred] and len(deferred) >= 30
            (found,) = [block for block in blocks(wire) if block.get("tool_use_id") == "call_0"]
            assert found["content"][0] == {"type": "tool_reference", "tool_name": "weigh_sample"}
        else:
            assert not {"weigh_sample", TOOL_CALL} & {tool.get("name") for tool in wire["tools"]}
            (found,) = [item for item in wire["input"] if item["type"] == "tool_search_output"]
            function = found["tools"][0]
            assert function["parameters"] == WEIGH.parameters and function["defer_loading"] is True
        # Records tell what they tell of any call.
        assert [(call.name, call.bridged) for call in served.calls()] == [
            (TOOL_SEARCH, False),
            ("weigh_sample", False),
        ]
        records = [entry.record for entry in served.requests[-1].entries]
        started = [record for record in records if isinstance(record, ToolStarted)]
        assert [(record.name, record.effect) for record in started][1] == ("weigh_sample", Effect.READ)


@pytest.mark.parametrize("format", DIRECT)
async def test_a_call_by_name_leads_around_no_approval(format: str, tmp_path: Path) -> None:
    burn = instrument("burn_sample", "Burns a sample.", approval=Approval.ASK, effect=Effect.ONCE)
    async with Served(tmp_path, format, find_then("burn_sample", "burn a sample"), burn) as served:
        served.chat.world.write("burn it")
        await served.chat.until_seen("burn_sample")
        assert not any("burn_sample of" in seen for seen in served.chat.world.seen())
        served.chat.world.write("/deny")
        await served.chat.until_seen("Denied by the user.")


@pytest.mark.parametrize("format", DIRECT)
async def test_a_tool_that_came_later_is_reached_all_the_same(format: str, tmp_path: Path) -> None:
    def answer(request: ModelRequest) -> Said:
        done = results(request)
        if "now" not in request.last_user_message:
            return Reply(text="not yet")
        if not done:
            return calling(TOOL_SEARCH, 0, query="measure_late")
        if len(done) > 1:
            return Reply(text=done[-1])
        if format == CODEX_RESPONSES:
            return calling("measure_late", 1, sample="it")
        # It was not defined when the session began, so it is told of in words.
        assert "properties" in done[0]
        return calling(TOOL_CALL, 1, name="measure_late", arguments={"sample": "it"})

    async with Served(tmp_path, format, answer) as served:
        runtime = await served.chat.gateway.agents.get(MAIN_AGENT)
        served.chat.world.write("measure")
        await served.chat.until_seen("not yet")
        runtime.toolbox.offer("lab", [instrument("measure_late", "Measures late.")])
        served.chat.world.write("now?")
        await served.chat.until_seen("measure_late of it")
        assert len(set(served.tool_lists())) == 1


@pytest.mark.parametrize("format", DIRECT)
async def test_a_withdrawn_tool_stays_defined_and_is_refused(format: str, tmp_path: Path) -> None:
    def answer(request: ModelRequest) -> Said:
        done = results(request)
        if not done:
            return calling(TOOL_SEARCH, 0, query="assay_late")
        if request.last_message.startswith(("assay_late", "There is no")):
            return Reply(text=request.last_message)
        return calling("assay_late", len(done), sample="gold")

    async with Served(tmp_path, format, answer) as served:
        runtime = await served.chat.gateway.agents.get(MAIN_AGENT)
        runtime.toolbox.offer("lab", [instrument("assay_late", "Runs a late assay.")])
        served.chat.world.write("first")
        await served.chat.until_seen("assay_late of gold")
        runtime.toolbox.withdraw("lab", "it went away")
        served.chat.world.write("second")
        await served.chat.until_seen("There is no tool “assay_late”")
        assert len(set(served.tool_lists())) == 1


REFUSALS = {
    ANTHROPIC_MESSAGES: "tools.9.custom.defer_loading: Extra inputs are not permitted",
    # github.com/Oaklight/llm-rosetta/issues/394
    CODEX_RESPONSES: "Tool 'tool_search' is not supported with gpt-5.4-nano.",
}


@pytest.mark.parametrize("format", DIRECT)
async def test_a_service_that_refuses_it_is_told_of_the_bridge(format: str, tmp_path: Path) -> None:
    def answer(request: ModelRequest) -> Said:
        if b"by their names" in request.raw:
            return failure(400, REFUSALS[format], code="invalid_request_error")
        done = results(request)
        if not done:
            return calling(TOOL_SEARCH, 0, **FIND)
        if len(done) == 1:
            assert "properties" in done[0]
            return calling(TOOL_CALL, 1, name="weigh_sample", arguments={"sample": "gold"})
        return Reply(text=done[-1])

    async with Served(tmp_path, format, answer, WEIGH) as served:
        served.chat.world.write("weigh the gold")
        await served.chat.until_seen("weigh_sample of gold")
        asked = [b"by their names" in request.raw for request in served.server.requests]
        assert asked == [True, False, False, False]


async def test_a_refused_reference_leaves_the_session_to_the_bridge(tmp_path: Path) -> None:
    """What a service finds out in the middle of a session is told in words from then on."""
    answers = find_then("weigh_sample")

    def answer(request: ModelRequest) -> Said:
        if b"tool_reference" in request.raw:
            words = "messages.2: Tool reference 'weigh_sample' has no corresponding tool definition"
            return failure(400, words, code="invalid_request_error")
        done = results(request)
        if len(done) == 1 and "properties" in done[0]:
            return calling(TOOL_CALL, 1, name="weigh_sample", arguments={"sample": "gold"})
        return answers(request)

    async with Served(tmp_path, ANTHROPIC_MESSAGES, answer, WEIGH) as served:
        served.chat.world.write("weigh the gold")
        await served.chat.until_seen("weigh_sample of gold")
        assert b"defer_loading" not in served.server.requests[-1].raw


@pytest.mark.parametrize(
    ("provider", "model", "direct"),
    [
        ("anthropic", "claude-sonnet-4-6", True),
        ("anthropic", "claude-sonnet-4-20250514", True),
        ("anthropic", "claude-opus-5", True),
        ("anthropic", "claude-haiku-4-5-20251001", True),
        ("anthropic", "claude-fable-5", True),
        ("anthropic", "claude-3-5-haiku-latest", False),
        ("anthropic", "claude-3-7-sonnet-20250219", False),
        ("openai", "gpt-5.4", True),
        ("openai", "gpt-5.4-mini", True),
        ("openai", "gpt-5.6", True),
        ("openai", "gpt-5.10", True),
        ("openai", "gpt-5.4-nano", False),
        ("openai", "gpt-5.3-codex", False),
        ("openai", "gpt-5", False),
        ("openai", "o4-mini", False),
        ("openrouter", "anthropic/claude-sonnet-4.6", False),
        ("minimax", "MiniMax-M2.7", False),
    ],
)
def test_who_takes_it(provider: str, model: str, direct: bool) -> None:
    pattern = PROVIDERS[provider].defers
    assert bool(pattern and re.match(pattern, model.lower())) is direct


@pytest.mark.parametrize(
    ("provider", "model", "variable", "mark"),
    [
        ("anthropic", "claude-sonnet-5", "ANTHROPIC_BASE_URL", b'"defer_loading":true'),
        ("anthropic", "claude-3-5-haiku-latest", "ANTHROPIC_BASE_URL", b""),
        ("minimax", "MiniMax-M2.7", "MINIMAX_BASE_URL", b""),
    ],
)
async def test_the_provider_that_is_chosen_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: str, model: str, variable: str, mark: bytes
) -> None:
    async with FakeModelServer([Reply(text="yes")], key=KEY) as server:
        monkeypatch.setenv("HERMES_HOME", str(tmp_path))
        monkeypatch.setenv(variable, server.base_url)
        with AIAgent(model, provider=provider, api_key=KEY, quiet_mode=True) as agent:
            assert await agent.achat("hello") == "yes"
        (request,) = server.requests
    assert b"tool_search" in request.raw
    assert mark in request.raw if mark else b"defer_loading" not in request.raw
