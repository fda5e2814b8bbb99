"""Functions of the client's own: called in the standard shape, answered by id, over restarts."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from hermes.domain.ids import CallId
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.event import Finished, Stopped, ToolFinished
from hermes.testing.api import ApiWorld, Heard
from hermes.testing.model import Say, ScriptedModel, say
from hermes.testing.tools import world_tools
from tests.entry.http.talking import (
    CHAT,
    PHONE,
    chunks,
    content,
    ended,
    journal,
    said,
    sessions,
    words,
)

PLACE = {"type": "object", "properties": {"place": {"type": "string"}}}
TOOLS = [
    {"type": "function", "function": {"name": "weather", "description": "Tell it.", "parameters": PLACE}},
    {"type": "function", "function": {"name": "stocks"}},
]


async def nothing(name: str, key: str, token: str) -> None:
    return None


def both(request: ModelRequest) -> Say:
    """Calls one tool of the agent's and two of the client's, then says what they gave."""
    results = [entry.record for entry in request.entries if isinstance(entry.record, ToolFinished)]
    if results:
        return say("; ".join(f"{one.call}={one.text}" for one in results))
    names = ("weather", "read", "stocks")
    calls = tuple(ToolCall(id=CallId(f"c_{name}"), name=name, arguments='{"place": "x"}') for name in names)
    return Say(text="Let me see.", calls=calls)


def world(home: Path, model: ScriptedModel | None = None) -> ApiWorld:
    return ApiWorld(home=home, provider=model or ScriptedModel(both), tools=tuple(world_tools(nothing)))


def with_results(calls: list[dict[str, Any]], *given: str, **more: object) -> dict[str, object]:
    """The request that brings results, with the whole conversation as clients send it."""
    told = [
        {"role": "tool", "tool_call_id": one["id"], "content": text}
        for one, text in zip(calls, given, strict=False)
    ]
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        *told,
    ]
    return {"model": "hermes-agent", "messages": messages, "tools": TOOLS, **more}


def calls_of(heard: Heard) -> list[dict[str, Any]]:
    choice = heard.json["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    return list(choice["message"]["tool_calls"])


ANSWER = "c_read=read did ; c_weather=rain; c_stocks=up"


async def test_calls_come_back_in_one_piece_and_results_resume_the_turn(tmp_path: Path) -> None:
    model = ScriptedModel(both)
    async with world(tmp_path / "home", model) as api:
        heard = await api.post(CHAT, words("go", tools=TOOLS, parallel_tool_calls=True))
        calls = calls_of(heard)
        assert [one["function"]["name"] for one in calls] == ["weather", "stocks"]
        assert calls[0]["type"] == "function"
        assert json.loads(calls[0]["function"]["arguments"]) == {"place": "x"}
        assert heard.json["choices"][0]["message"]["content"] == "Let me see."
        offered = {tool.name: tool for tool in model.requests[0].tools}
        assert offered["weather"].parameters == PLACE
        assert offered["weather"].description == "Tell it."
        after = await api.post(CHAT, with_results(calls, "rain", "up"))
        choice = after.json["choices"][0]
        assert (choice["message"]["content"], choice["finish_reason"]) == (ANSWER, "stop")
        assert after.headers["X-Hermes-Run-Id"] == heard.headers["X-Hermes-Run-Id"]
        assert after.json["usage"]["completion_tokens"] == len(ANSWER.split())
        (session,) = await sessions(api)
        assert said(await journal(api, session.id)) == ["go"]


async def test_the_same_as_streams(tmp_path: Path) -> None:
    async with world(tmp_path / "home") as api:
        events = [event async for event in api.events(CHAT, words("go", stream=True, tools=TOOLS))]
        deltas = [chunk["choices"][0]["delta"] for chunk in chunks(events)]
        calls = [one for delta in deltas for one in delta.get("tool_calls", [])]
        assert [(one["index"], one["function"]["name"]) for one in calls] == [(0, "weather"), (1, "stocks")]
        assert chunks(events)[-1]["choices"][0]["finish_reason"] == "tool_calls"
        assert content(events) == "Let me see."
        body = with_results(calls, "rain", "up", stream=True)
        events = [event async for event in api.events(CHAT, body)]
        assert content(events) == ANSWER
        assert chunks(events)[-1]["choices"][0]["finish_reason"] == "stop"


async def test_a_restart_in_between_does_not_matter(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with world(home) as api:
        calls = calls_of(await api.post(CHAT, words("go", tools=TOOLS)))
    model = ScriptedModel(both)
    async with world(home, model) as api:
        heard = await api.post(CHAT, with_results(calls, "rain", "up"))
        assert heard.json["choices"][0]["message"]["content"] == ANSWER
        assert len(model.requests) == 1
        assert await ended(api) == Finished()


async def test_all_results_come_together(tmp_path: Path) -> None:
    async with world(tmp_path / "home") as api:
        calls = calls_of(await api.post(CHAT, words("go", tools=TOOLS)))
        heard = await api.post(CHAT, with_results(calls, "rain"))
        assert heard.status == 400
        assert calls[1]["id"] in heard.json["error"]["message"]
        heard = await api.post(CHAT, with_results(calls, "rain", "up"))
        assert heard.json["choices"][0]["message"]["content"] == ANSWER


async def test_results_that_nothing_waits_for_are_a_conversation_of_their_own(tmp_path: Path) -> None:
    """Already answered, or another server's: the request tells everything that is needed to go on."""
    model = ScriptedModel(both)
    async with world(tmp_path / "home", model) as api:
        calls = calls_of(await api.post(CHAT, words("go", tools=TOOLS)))
        await api.post(CHAT, with_results(calls, "rain", "up"))
        again = await api.post(CHAT, with_results(calls, "snow", "down"))
        assert again.status == 200
        assert [one.text for one in model.requests[-1].history] == ["go", "", "snow", "down"]
        foreign = [{**calls[0], "id": "call_of_another"}]
        assert (await api.post(CHAT, with_results(foreign, "rain"))).status == 200
        lost = await api.post(CHAT, with_results(foreign, "rain"), headers={"X-Hermes-Session-Id": "s"})
        assert (lost.status, lost.json["error"]["code"]) == (409, "tool_call_not_pending")


async def test_a_result_that_is_waited_for_is_text(tmp_path: Path) -> None:
    async with world(tmp_path / "home") as api:
        calls = calls_of(await api.post(CHAT, words("go", tools=TOOLS)))
        body = with_results(calls, "rain", "up")
        picture = [{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]
        body["messages"][-1]["content"] = picture  # type: ignore[index]
        heard = await api.post(CHAT, body)
        assert heard.status == 400 and "text alone" in heard.json["error"]["message"]
        after = await api.post(CHAT, with_results(calls, "rain", "up"))
        assert after.json["choices"][0]["message"]["content"] == ANSWER


async def test_tool_choice_none_offers_nothing(tmp_path: Path) -> None:
    model = ScriptedModel([say("no tools")])
    async with world(tmp_path / "home", model) as api:
        heard = await api.post(CHAT, words("go", tools=TOOLS, tool_choice="none"))
        assert heard.json["choices"][0]["message"] == {"role": "assistant", "content": "no tools"}
        assert "weather" not in [tool.name for tool in model.requests[0].tools]


async def test_results_of_another_key_resume_nothing(tmp_path: Path) -> None:
    config = (
        "platforms: {api_server: {keys: {phone: {key: another long secret 1, scopes: [sessions, chat]}}}}"
    )
    model = ScriptedModel(both)
    api = ApiWorld(home=tmp_path / "home", provider=model, tools=tuple(world_tools(nothing)), config=config)
    async with api:
        calls = calls_of(await api.post(CHAT, words("go", tools=TOOLS)))
        await api.post(CHAT, with_results(calls, "lies", "lies"), headers=PHONE)
        heard = await api.post(CHAT, with_results(calls, "rain", "up"))
        assert heard.json["choices"][0]["message"]["content"] == ANSWER


@pytest.mark.parametrize("stream", [True, False])
async def test_bringing_results_twice_under_one_key_is_once(stream: bool, tmp_path: Path) -> None:
    home, key = tmp_path / "home", {"Idempotency-Key": "results"}
    first_key = {"Idempotency-Key": "question"}
    async with world(home) as api:
        asked = words("go", tools=TOOLS)
        calls = calls_of(await api.post(CHAT, asked, headers=first_key))
        body = with_results(calls, "rain", "up", stream=stream)
        assert await answer(api, body, key) == ANSWER
        assert await answer(api, body, key) == ANSWER
        assert calls_of(await api.post(CHAT, asked, headers=first_key)) == calls, "the same answer again"
        assert len(await sessions(api)) == 1
    model = ScriptedModel([])
    async with world(home, model) as api:
        assert await answer(api, body, key) == ANSWER
        assert not model.requests


async def answer(api: ApiWorld, body: dict[str, object], headers: dict[str, str]) -> str:
    if body["stream"]:
        return content([event async for event in api.events(CHAT, body, headers=headers)])
    return str((await api.post(CHAT, body, headers=headers)).json["choices"][0]["message"]["content"])


async def test_a_client_that_leaves_after_bringing_results_stops_the_run(tmp_path: Path) -> None:
    hold = asyncio.Event()

    def script(request: ModelRequest) -> Say:
        reply = both(request)
        return reply if reply.calls else Say(text="half an answer", hold=hold)

    async with world(tmp_path / "home", ScriptedModel(script)) as api:
        calls = calls_of(await api.post(CHAT, words("go", tools=TOOLS)))
        body = with_results(calls, "rain", "up", stream=True)
        async with api.http.post(api.address + CHAT, json=body) as response:
            await response.content.readuntil(b"half")
            response.close()
        end = await ended(api)
        assert isinstance(end, Stopped) and end.reason == "client gone"
