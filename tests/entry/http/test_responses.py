"""The Responses API: chains and conversations, functions of the client, stored responses and how to come back
to them, also after a crash."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hermes.domain.errors import FaultKind, ModelFault, UserError
from hermes.domain.ids import CallId
from hermes.domain.models.call_options import NO_OPTIONS, CallOptions, JsonAnswer
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.event import Ending, ToolFinished, UserSaid
from hermes.domain.turns.turn import Speaker, TurnState
from hermes.testing.api import ApiWorld
from hermes.testing.model import Say, ScriptedModel, call, last_words, say
from hermes.testing.tools import world_tools

PATH = "/v1/responses"
PHONE = {"Authorization": "Bearer another long secret 1"}
KEYS = """
platforms:
  api_server:
    keys:
      phone: {key: another long secret 1, scopes: [chat]}
"""
WEATHER = {
    "type": "function",
    "name": "weather",
    "description": "The weather somewhere.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJ"
    "RU5ErkJggg=="
)
PICTURE = {"type": "input_image", "image_url": PIXEL}
STORY = "Once upon a time there was a gateway that forgot nothing"


@dataclass
class World:
    """A model whose answers follow from the words, and that can be held back."""

    hold: asyncio.Event = field(default_factory=asyncio.Event)
    requests: list[ModelRequest] = field(default_factory=list)

    async def act(self, tool: str, key: str, token: str) -> None:
        pass

    def script(self, request: ModelRequest) -> Say:
        self.requests.append(request)
        words = last_words(request)
        done = [entry.record for entry in request.entries if isinstance(entry.record, ToolFinished)]
        spoken = [entry.record.text for entry in request.entries if isinstance(entry.record, UserSaid)]
        tools = not isinstance(request.entries[-1].record, UserSaid)
        match words.split()[0] if words else "":
            case "weather" if not tools:
                cities = ("Bonn", "Rome")
                calls = [_call("weather", f'{{"city": "{city}"}}', f"c_{city}") for city in cities]
                return Say(text="I ask.", calls=(*calls, _call("read", '{"token": "x"}', "c_read")))
            case "weather":
                return say("; ".join(one.text for one in done))
            case "danger" if not tools:
                return call("danger", '{"token": "x"}')
            case "both" if not tools:
                return Say(calls=tuple(_call("danger", f'{{"token": "{n}"}}', f"c_{n}") for n in "xy"))
            case "read" if not tools:
                return call("read", '{"token": "x"}')
            case "story":
                return Say(text=STORY, pieces=12, hold=self.hold)
            case "riddle":
                return Say(thought="Hm, forty and two.", text=STORY, pieces=12, hold=self.hold)
            case "long":
                return Say(text="no end", ending=Ending.LENGTH)
            case _:
                return say(" + ".join(spoken) + f" [{request.system[-12:]}]", pieces=3)

    def api(self, home: Path, **more: Any) -> ApiWorld:
        model = ScriptedModel(self.script)
        return ApiWorld(home=home, provider=model, tools=tuple(world_tools(self.act)), **more)


def _call(name: str, arguments: str, ident: str) -> ToolCall:
    return ToolCall(id=CallId(ident), name=name, arguments=arguments)


@pytest.fixture
def world() -> World:
    return World()


async def ask(api: ApiWorld, given: Any, status: int = 200, **more: Any) -> Any:
    headers = more.pop("headers", None)
    heard = await api.post(PATH, {"input": given, **more}, headers=headers)
    assert heard.status == status, heard.data
    return heard.json


async def read(api: ApiWorld, name: str, status: int = 200, **options: Any) -> Any:
    heard = await api.get(f"{PATH}/{name}", **options)
    assert heard.status == status, heard.data
    return heard.json


async def until(api: ApiWorld, name: str, *states: str) -> Any:
    for _ in range(8000):
        found = await read(api, name)
        if found["status"] in states:
            return found
        await asyncio.sleep(0.005)
    raise AssertionError(f"it is still {found['status']}")


async def stream(api: ApiWorld, path: str, body: Any = None, *, most: int = 1000) -> list[Any]:
    """Events as they come, at most so many of them."""
    told: list[Any] = []
    events = api.events(path, body, method="GET" if body is None else "POST")
    async for event in events:
        if event.data == "[DONE]":
            break
        told.append(json.loads(event.data))
        assert told[-1]["type"] == event.name
        if len(told) >= most:
            break
    await events.aclose()  # type: ignore[attr-defined]
    return told


def text(response: Any) -> str:
    """What the client's library calls `output_text`."""
    messages = [item for item in response["output"] if item["type"] == "message"]
    return "".join(part["text"] for item in messages for part in item["content"])


def spoken(events: list[Any]) -> str:
    return "".join(one["delta"] for one in events if one["type"] == "response.output_text.delta")


def calls(response: Any) -> list[Any]:
    return [item for item in response["output"] if item["type"] == "function_call"]


def result(made: Any, output: str) -> dict[str, str]:
    return {"type": "function_call_output", "call_id": made["call_id"], "output": output}


# --- asking and going on


async def test_an_answer_is_whole_and_can_be_read_again(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        first = await ask(api, "hello", metadata={"a": "b"}, instructions="Be brief. ok")
        assert first["object"] == "response"
        assert first["status"] == "completed"
        assert text(first) == "hello [Be brief. ok]"
        assert first["usage"]["total_tokens"] > 0
        assert (first["metadata"], first["instructions"]) == ({"a": "b"}, "Be brief. ok")
        assert await read(api, first["id"]) == first


async def test_a_chain_goes_on_and_its_instructions_with_it(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        one = await ask(api, "a", instructions="Speak kindly")
        two = await ask(api, "b", previous_response_id=one["id"])
        assert text(two) == "a + b [Speak kindly]"
        assert (two["previous_response_id"], two["instructions"]) == (one["id"], "Speak kindly")
        three = await ask(api, "c", previous_response_id=two["id"], instructions="Be harsh now!")
        assert text(three) == "a + b + c [e harsh now!]"


async def test_going_on_from_an_earlier_response_branches(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        one = await ask(api, "a")
        two = await ask(api, "b", previous_response_id=one["id"])
        other = await ask(api, "x", previous_response_id=one["id"])
        assert text(other).startswith("a + x [")
        assert text(await ask(api, "c", previous_response_id=two["id"])).startswith("a + b + c [")
        assert text(await ask(api, "y", previous_response_id=other["id"])).startswith("a + x + y [")


async def test_two_that_go_on_from_one_response_at_once_do_not_hear_each_other(
    tmp_path: Path, world: World
) -> None:
    async with world.api(tmp_path / "home") as api:
        one = await ask(api, "a")
        await ask(api, "story", previous_response_id=one["id"], background=True)
        other = await ask(api, "x", previous_response_id=one["id"])
        assert text(other).startswith("a + x [")
        world.hold.set()


async def test_what_still_runs_cannot_be_gone_on_from(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        one = await ask(api, "story", background=True)
        refused = await ask(api, "b", 409, previous_response_id=one["id"])
        assert refused["error"]["code"] == "still_running"
        world.hold.set()
        await until(api, one["id"], "completed")
        assert text(await ask(api, "b", previous_response_id=one["id"])).startswith("story + b [")


async def test_a_conversation_is_a_chain_by_name_for_each_key(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home", config=KEYS) as api:
        first = await ask(api, "a", conversation="trip", instructions="Speak kindly")
        assert first["conversation"] == {"id": "trip"}
        assert text(await ask(api, "b", conversation={"id": "trip"})) == "a + b [Speak kindly]"
        assert text(await ask(api, "z", conversation="trip", headers=PHONE)).startswith("z [")
        assert text(await ask(api, "q", conversation="other")).startswith("q [")


async def test_words_to_a_busy_conversation_wait_for_their_turn(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        one = await ask(api, "story", conversation="trip", background=True)
        two = await ask(api, "b", conversation="trip", background=True)
        assert two["status"] == "queued"
        world.hold.set()
        assert text(await until(api, two["id"], "completed")).startswith("story + b [")
        assert (await read(api, one["id"]))["status"] == "completed"


async def test_what_the_input_says_of_before_is_told_to_the_model(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        given = [
            {"role": "developer", "content": "Count."},
            {"role": "user", "content": "one"},
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "1", "annotations": []}],
            },
            {"type": "function_call", "call_id": "c9", "name": "add", "arguments": "{}", "id": "fc_1"},
            {"type": "function_call_output", "call_id": "c9", "output": "2"},
            {"role": "user", "content": [{"type": "input_text", "text": "two"}]},
        ]
        answer = await ask(api, given, conversation_history=[{"role": "user", "content": "zero"}])
        history = world.requests[-1].history
        assert [earlier.text for earlier in history] == ["zero", "Count.", "one", "1", "2"]
        assert history[1].by is Speaker.SYSTEM and history[3].calls[0].name == "add"
        kept = await read(api, f"{answer['id']}/input_items", params={"order": "asc"})
        assert [item["type"] for item in kept["data"]] == [
            "message",
            "message",
            "message",
            "message",
            "function_call",
            "function_call_output",
            "message",
        ]
        assert [item["role"] for item in kept["data"][:2]] == ["user", "system"]
        page = await read(api, f"{answer['id']}/input_items", params={"limit": "2"})
        assert [item["id"] for item in page["data"]] == [item["id"] for item in kept["data"][:-3:-1]]
        assert page["has_more"] is True
        after = {"limit": "50", "after": page["last_id"]}
        rest = await read(api, f"{answer['id']}/input_items", params=after)
        assert len(rest["data"]) == 5
        assert rest["has_more"] is False


async def test_only_the_last_hundred_of_a_long_past_are_told_if_so_wished(
    tmp_path: Path, world: World
) -> None:
    async with world.api(tmp_path / "home") as api:
        past = [{"role": ("user", "assistant")[n % 2], "content": str(n)} for n in range(140)]
        await ask(api, "now", conversation_history=past, truncation="auto")
        assert len(world.requests[-1].history) == 100
        assert world.requests[-1].history[0].text == "40"
        await ask(api, "now", conversation_history=past)
        assert len(world.requests[-1].history) == 140


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({"input": []}, 400, "input"),
        ({"input": " "}, 400, "input"),
        ({"input": 5}, 400, "input"),
        ({}, 400, "input"),
        ({"input": [{"role": "assistant", "content": "hi"}]}, 400, "input"),
        ({"input": [{"role": "king", "content": "hi"}]}, 400, "input[0].role"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, 404, "input[0].id"),
        ({"input": [{"type": "item_reference", "id": "msg_0123_0"}]}, 404, "input[0].id"),
        ({"input": [{"type": "item_reference", "id": "mcpr_q_9"}]}, 404, "input[0].id"),
        ({"input": [{"type": "computer_call", "call_id": "x"}]}, 400, "input[0].type"),
        ({"input": [{"type": "mcp_approval_response", "approve": True}]}, 400, "input[0]"),
        (
            {
                "input": [
                    {"type": "mcp_approval_response", "approval_request_id": "mcpr_q_9", "approve": True}
                ]
            },
            404,
            None,
        ),
        ({"input": [{"type": "function_call_output", "output": "x"}]}, 400, "input[0].call_id"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_file"}]}]},
            400,
            "input[0].content[0].file_data",
        ),
        ({"input": "x", "previous_response_id": "resp_1", "conversation": "y"}, 400, "previous_response_id"),
        ({"input": "x", "conversation": ""}, 400, "conversation"),
        (
            {"input": "x", "conversation": "y", "conversation_history": [{"role": "user", "content": "a"}]},
            400,
            "conversation_history",
        ),
        ({"input": "x", "background": True, "store": False}, 400, "background"),
        ({"input": "x", "truncation": "sometimes"}, 400, "truncation"),
        ({"input": "x", "tool_choice": "maybe"}, 400, "tool_choice"),
        ({"input": "x", "tools": [{"type": "function", "name": "a b"}]}, 400, "tools[0]"),
        ({"input": "x", "tools": [{"type": "web_search"}]}, 400, "tools[0]"),
        ({"input": "x", "include": ["message.output_text.logprobs"]}, 400, "include"),
        ({"input": "x", "service_tier": "priority"}, 400, "service_tier"),
        (
            {"input": "x", "stream_options": {"include_obfuscation": True}},
            400,
            "stream_options.include_obfuscation",
        ),
        ({"input": "x", "prompt": {"id": "pmpt_1"}}, 400, "prompt"),
        ({"input": "x", "max_tool_calls": 3}, 400, "max_tool_calls"),
        ({"input": "x", "metadata": {str(n): "v" for n in range(17)}}, 400, "metadata"),
        ({"input": "x", "previous_response_id": "resp_0123"}, 404, None),
        ({"input": "x", "previous_response_id": "../x"}, 404, None),
        ({"input": "x", "model": "gpt-none"}, 404, "model"),
    ],
)
async def test_bad_requests_are_told_what_is_wrong(
    tmp_path: Path, body: dict[str, Any], status: int, param: str | None
) -> None:
    async with ApiWorld(home=tmp_path / "home") as api:
        heard = await api.post(PATH, body)
        assert (heard.status, heard.json["error"]["param"]) == (status, param), heard.data
        assert heard.json["error"]["message"].endswith(".")
        assert not await api.app.store.read(lambda tx: tx.sessions.find(""))


async def test_a_task_goes_on_from_nothing(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        first = await ask(api, "hello", model="hermes-agent:task")
        assert (first["model"], world.requests[-1].tools) == ("hermes-agent:task", ())
        for chained in ({"previous_response_id": first["id"]}, {"conversation": "c"}):
            refused = await ask(api, "and?", 400, model="hermes-agent:task", **chained)
            assert [refused["error"]["param"]] == list(chained)
        going_on = await ask(api, "and?", model="hermes-agent", previous_response_id=first["id"])
        assert text(going_on).startswith("hello + and? [")


# --- own tools, and people


async def test_own_tools_are_items_of_the_answer(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        answer = await ask(api, "read it")
        kinds = [item["type"] for item in answer["output"]]
        assert kinds == ["mcp_call", "message"]
        own = answer["output"][0]
        assert (own["name"], own["status"], own["arguments"]) == ("read", "completed", '{"token": "x"}')
        assert own["output"]
        events = await stream(api, f"{PATH}/{answer['id']}?stream=true")
        assert events[-1]["response"] == answer


def approval(asked: Any, *, approve: bool = True, **more: Any) -> dict[str, Any]:
    """What a client answers to the request for an approval at the end of a response."""
    item = asked["output"][-1]
    assert item["type"] == "mcp_approval_request"
    return {
        "type": "mcp_approval_response",
        "approval_request_id": item["id"],
        "approve": approve,
        **more,
    }


@pytest.mark.parametrize("approve", [True, False])
async def test_a_client_approves_what_it_was_asked(tmp_path: Path, world: World, approve: bool) -> None:
    async with world.api(tmp_path / "home") as api:
        asked = await ask(api, "danger zone")
        assert asked["status"] == "completed"
        assert asked["output"][-1]["name"] == "danger"
        assert asked["hermes"]["pending"]["options"] == ["once", "session", "always", "deny"]
        assert await read(api, asked["id"]) == asked
        given = approval(asked, approve=approve, reason="not today")
        done = await ask(api, [given], previous_response_id=asked["id"])
        assert done["id"] == asked["hermes"]["next"] == f"{asked['id']}_2"
        assert done["previous_response_id"] == asked["id"]
        own, message = done["output"]
        assert (own["type"], own["approval_request_id"]) == ("mcp_call", given["approval_request_id"])
        assert (own["status"], message["type"]) == ("completed" if approve else "failed", "message")
        assert await ask(api, [given], previous_response_id=asked["id"]) == done, "the same once more"
        other = {**given, "approve": not approve}
        await ask(api, [other], 409, previous_response_id=asked["id"])
        assert await read(api, done["id"]) == done
        assert "hermes" not in await read(api, asked["id"])
        further = await ask(api, "and now", previous_response_id=done["id"])
        assert text(further).startswith("danger zone + and now [")


async def test_every_approval_of_an_input_counts_for_its_own_question(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        asked = await ask(api, "both dangers")
        first = approval(asked)
        further = await ask(api, [first], previous_response_id=asked["id"])
        second = approval(further, approve=False)
        other = approval(await ask(api, "danger zone"))
        await ask(api, [{**first, "approve": False}, second], 409, previous_response_id=further["id"])
        await ask(api, [other, second], 400, previous_response_id=further["id"])
        await ask(api, [other, second], 400)
        assert await read(api, further["id"]) == further, "all of them count, or none"
        done = await ask(api, [second, first], previous_response_id=further["id"])
        assert done["id"] == further["hermes"]["next"]
        assert await ask(api, [second, first], previous_response_id=further["id"]) == done, "once more"
        assert (done["output"][0]["arguments"], done["output"][0]["status"]) == ('{"token": "y"}', "failed")


async def test_who_stores_nothing_sends_the_whole_exchange_with_the_approval(
    tmp_path: Path, world: World
) -> None:
    async with world.api(tmp_path / "home") as api:
        before: list[Any] = [{"role": "user", "content": "danger zone"}]
        asked = await ask(api, before)
        kept = [{"type": "item_reference", "id": item["id"]} for item in asked["output"]]
        done = await ask(api, [*before, *kept, approval(asked)])
        assert done["output"][0]["status"] == "completed"
        exchange = [*before, *kept, approval(asked), *done["output"], {"role": "user", "content": "thanks"}]
        assert text(await ask(api, exchange)).startswith("thanks [")
        assert world.requests[-1].history[0].text == "danger zone"
        assert world.requests[-1].history[1].calls[0].name == "danger"


@pytest.mark.parametrize("further", [[], ["and now"]])
@pytest.mark.parametrize("shown", [False, True])
async def test_what_was_said_before_an_approval_is_not_said_again(
    shown: bool, further: list[str], tmp_path: Path, world: World
) -> None:
    """The AI SDK sends the whole exchange, with what it was asked or without it."""
    async with world.api(tmp_path / "home") as api:
        before: list[Any] = [{"role": "user", "content": "danger zone"}]
        asked = await ask(api, before)
        after = [{"role": "user", "content": each} for each in further]
        given = [*before, *(asked["output"][-1:] if shown else []), approval(asked), *after]
        assert (await ask(api, given))["id"] == asked["hermes"]["next"]
        entries = [entry.record for entry in world.requests[-1].entries]
        assert [each.text for each in entries if isinstance(each, UserSaid)] == ["danger zone", *further]
    async with world.api(tmp_path / "other") as api:
        asked = await ask(api, "danger zone")
        given = [*after, approval(asked)]
        await ask(api, given, previous_response_id=asked["id"])
        entries = [entry.record for entry in world.requests[-1].entries]
        told = [each.text for each in entries if isinstance(each, UserSaid)]
        assert told == ["danger zone", *further], "what is chained is all new"


async def test_only_the_key_that_asked_may_approve(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home", config=KEYS) as api:
        asked = await ask(api, "danger zone", headers=PHONE)
        await ask(api, [approval(asked)], 403)
        mine = await ask(api, "danger zone")
        await ask(api, [approval(mine)], 404, headers=PHONE)
        elsewhere = await ask(api, "hello")
        await ask(api, [approval(mine)], 400, previous_response_id=elsewhere["id"])
        state = await api.get(f"/v1/questions/{mine['hermes']['pending']['id']}")
        assert state.json["status"] == "open"


async def test_an_approval_that_is_given_elsewhere_goes_on_as_the_next_response(
    tmp_path: Path, world: World
) -> None:
    async with world.api(tmp_path / "home") as api:
        asked = await ask(api, "danger zone")
        await read(api, f"{asked['id']}_3", 404)
        following = asked["hermes"]["next"]
        assert (await read(api, following))["status"] == "in_progress"
        watching = asyncio.create_task(stream(api, f"{PATH}/{following}?stream=true"))
        given = await api.post(f"/v1/questions/{asked['hermes']['pending']['id']}", {"choice": "once"})
        assert given.status == 200
        events = await watching
        assert events[-1]["type"] == "response.completed"
        assert [item["type"] for item in events[-1]["response"]["output"]] == ["mcp_call", "message"]
        assert await read(api, following) == events[-1]["response"]
        refused = await api.ask("DELETE", f"{PATH}/{following}")
        assert (refused.status, asked["id"] in refused.json["error"]["message"]) == (400, True)
        assert text(await ask(api, "b", previous_response_id=following)).startswith("danger zone + b [")


@pytest.mark.parametrize("chained", ["previous_response_id", "conversation"])
async def test_words_answer_what_their_chain_waits_for(tmp_path: Path, world: World, chained: str) -> None:
    async with world.api(tmp_path / "home") as api:
        asked = await ask(api, "danger zone", **({"conversation": "c"} if chained == "conversation" else {}))
        chain = {chained: "c" if chained == "conversation" else asked["id"]}
        other = await ask(api, "what is that?", 409, **chain)
        assert other["error"]["code"] == "question_open"
        assert other["error"]["message"].endswith("Answer yes, session, always or no.")
        done = await ask(api, "yes", **chain)
        assert done["id"] == f"{asked['id']}_2"
        assert done["output"][0]["status"] == "completed"


@pytest.mark.parametrize("words", [False, True])
async def test_an_approval_is_asked_for_in_words_that_the_next_message_answers(
    words: bool, tmp_path: Path, world: World
) -> None:
    """openai-agents cannot take the item, and pydantic-ai shows nothing else; both send all of it again."""
    config = "platforms: {api_server: {approval_requests: words}}" if words else ""
    async with world.api(tmp_path / "home", config=config) as api:
        before: list[Any] = [{"role": "user", "content": "danger zone"}]
        asked = await ask(api, before, store=False)
        kinds = [item["type"] for item in asked["output"]]
        assert kinds == ["message"] if words else kinds == ["message", "mcp_approval_request"]
        assert "Answer yes, session, always or no. (Question q_" in text(asked)
        answer = {"role": "user", "content": "yes"}
        done = await ask(api, [*before, *asked["output"], answer], store=False)
        assert (done["id"], done["output"][0]["status"]) == (asked["hermes"]["next"], "completed")
        # Without the words it is another conversation, in which the model knows that something was asked.
        told = {"type": "mcp_approval_request", "id": "mcpr_q_9", "name": "danger", "arguments": "{}"}
        await ask(api, [*before, told, answer], store=False)
        assert world.requests[-1].history[1].text == "(I asked for an approval: danger {})"


async def test_a_wish_for_approvals_that_nobody_knows_is_refused(tmp_path: Path, world: World) -> None:
    with pytest.raises(UserError, match="no way to ask"):
        async with world.api(
            tmp_path / "home", config="platforms: {api_server: {approval_requests: loudly}}"
        ):
            pass


async def test_what_is_cut_leaves_no_result_without_its_call(tmp_path: Path, world: World) -> None:
    called = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c1", "output": "seen"}
    async with world.api(tmp_path / "home") as api:
        later = [{"role": "user", "content": f"m{n}"} for n in range(100)]
        later[1::2] = [{"role": "assistant", "content": "ok"}] * 50
        given = [called, result, *later[1:], {"role": "user", "content": "now"}]
        await ask(api, given, truncation="auto")
        assert len(world.requests[-1].history) == 99


async def test_a_response_that_waits_for_an_approval_can_be_cancelled(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        asked = await ask(api, "danger zone", background=True)
        waiting = await until(api, asked["id"], "completed")
        assert waiting["output"][-1]["type"] == "mcp_approval_request"
        cancelled = await api.post(f"{PATH}/{asked['id']}/cancel")
        assert (cancelled.json["status"], cancelled.json.get("hermes")) == ("cancelled", None)
        await ask(api, [approval(waiting)], 409)


async def test_an_item_may_be_named_by_its_id(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home", config=KEYS) as api:
        first = await ask(api, "read it")
        asked = await ask(api, "weather", tools=[WEATHER])
        kept = await read(api, f"{first['id']}/input_items")
        named = [kept["data"][0], *first["output"]]
        references = [{"type": "item_reference", "id": item["id"]} for item in named]
        del references[0]["type"]  # OpenAI takes it without
        await ask(api, [*references, {"role": "user", "content": "and?"}])
        own = first["output"][0]
        assert [earlier.text for earlier in world.requests[-1].history] == [
            "read it",
            "",
            own["output"],
            text(first),
        ]
        assert world.requests[-1].history[1].calls[0].name == "read"
        made = [{"type": "item_reference", "id": item["id"]} for item in calls(asked)]
        results = [result(item, "rain") for item in calls(asked)]
        going_on = await ask(api, [{"role": "user", "content": "weather"}, *made, *results])
        assert going_on["id"] == f"{asked['id']}_2"
        others = [{"type": "item_reference", "id": named[1]["id"]}, {"role": "user", "content": "x"}]
        missing = await ask(api, others, 404, headers=PHONE)
        assert missing["error"]["code"] == "item_not_found"
        assert (await api.ask("DELETE", f"{PATH}/{first['id']}")).status == 200
        await ask(api, others, 404)


@pytest.mark.parametrize("store", [True, False])
async def test_words_and_pictures_that_come_with_results_join_the_turn(
    tmp_path: Path, world: World, store: bool
) -> None:
    async with world.api(tmp_path / "home") as api:
        asked = await ask(api, "weather", tools=[WEATHER], store=store)
        bonn, rome = calls(asked)
        seen = {**result(bonn, ""), "output": [{"type": "input_text", "text": "rain"}, PICTURE]}
        given: list[Any] = [seen, result(rome, "sun"), {"role": "user", "content": "weather, briefly"}]
        more: dict[str, Any] = {"previous_response_id": asked["id"]}
        if not store:
            given, more = [{"role": "user", "content": "weather"}, *asked["output"], *given], {"store": False}
        done = await ask(api, given, **more)
        assert done["id"] == f"{asked['id']}_2"
        entries = [entry.record for entry in world.requests[-1].entries]
        results = [record.text for record in entries if isinstance(record, ToolFinished)]
        assert results[-2:] == ["rain", "sun"]
        joined = entries[-1]
        assert isinstance(joined, UserSaid)
        assert joined.text.endswith("weather, briefly")
        assert [file.mime for file in joined.attachments] == ["image/png"]
        spoken = [record for record in entries if isinstance(record, UserSaid)]
        assert len(spoken) == 2, "the words are said once, before the model is asked again"


async def test_a_picture_in_an_earlier_result_is_shown_to_the_model(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        given = [
            {"role": "user", "content": "look"},
            {"type": "function_call", "call_id": "c1", "name": "shot", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": [PICTURE]},
            {"role": "user", "content": "well?"},
        ]
        await ask(api, given)
        assert [file.mime for file in world.requests[-1].history[2].attachments] == ["image/png"]
        (image,) = world.requests[-1].images or {}
        assert image == world.requests[-1].history[2].attachments[0].sha256


async def test_names_of_other_resources_are_no_responses(tmp_path: Path) -> None:
    async with ApiWorld(home=tmp_path / "home") as api:
        for method, path in [
            ("POST", f"{PATH}/input_tokens"),
            ("POST", f"{PATH}/compact"),
            ("POST", "/v1/conversations"),
        ]:
            heard = await api.ask(method, path, json={"input": "x"})
            assert (heard.status, heard.json["error"]["code"]) == (404, "unknown_url"), path


@pytest.mark.parametrize("path", ["completions", "embeddings", "audio/speech", "files", "images/generations"])
async def test_what_openai_has_and_this_has_not_is_refused_with_what_there_is(
    path: str, tmp_path: Path
) -> None:
    async with ApiWorld(home=tmp_path / "home") as api:
        heard = await api.post(f"/v1/{path}", {"input": "x"})
        assert (heard.status, heard.json["error"]["code"]) == (404, "unknown_url")
        named = f"/v1/{path.partition('/')[0]} is not offered here. There are /v1/chat/completions,"
        assert heard.json["error"]["message"].startswith(named)


async def test_how_an_answer_is_wanted_is_told_to_the_model_and_shown_again(
    tmp_path: Path, world: World
) -> None:
    form = {"type": "json_schema", "name": "city", "schema": {"type": "object"}, "strict": True}
    wishes = {
        "text": {"format": form, "verbosity": "low"},
        "reasoning": {"effort": "low"},
        "max_output_tokens": 50,
        "temperature": 0.5,
        "top_p": 0.9,
        "presence_penalty": 0.1,
        "frequency_penalty": 0.2,
        "tool_choice": {"type": "function", "name": "weather"},
        "parallel_tool_calls": False,
    }
    labels = {"user": "u", "safety_identifier": "s", "prompt_cache_key": "k", "metadata": {"a": "b"}}
    async with world.api(tmp_path / "home") as api:
        answer = await ask(
            api,
            "hello",
            tools=[WEATHER],
            include=["reasoning.encrypted_content"],
            service_tier="auto",
            top_logprobs=0,
            **wishes,
            **labels,
        )
        asked = world.requests[-1].options
        assert asked == CallOptions(
            must_call=("weather",),
            parallel=False,
            json=JsonAnswer(name="city", schema='{"type":"object"}', strict=True),
            max_tokens=50,
            temperature=0.5,
            top_p=0.9,
            presence_penalty=0.1,
            frequency_penalty=0.2,
            effort="low",
            verbosity="low",
        )
        shown = {name: answer[name] for name in (*wishes, *labels)}
        assert shown == {**wishes, **labels, "reasoning": {"effort": "low", "summary": None}}
        assert await read(api, answer["id"]) == answer
        plain = await ask(api, "hello")
        assert world.requests[-1].options == NO_OPTIONS
        assert (plain["temperature"], plain["text"]["format"]) == (1.0, {"type": "text"})


async def test_a_part_of_a_turn_has_the_wishes_of_its_own_request(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        asked = await ask(api, "weather", tools=[WEATHER], temperature=0.1)
        results = [result(item, "rain") for item in calls(asked)]
        await ask(api, results, previous_response_id=asked["id"], temperature=0.7)
        assert [request.options.temperature for request in world.requests] == [0.1, 0.7]


async def test_a_stream_ends_as_the_standard_says(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        heard = await api.post(PATH, {"input": "hello", "stream": True})
        assert heard.data.endswith(b"data: [DONE]\n\n")
        assert heard.data.count(b"[DONE]") == 1


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (FaultKind.TOO_LONG, "context_length_exceeded"),
        (FaultKind.LIMITED_UNTIL, "rate_limit_exceeded"),
        (FaultKind.BAD_KEY, "model_credentials_refused"),
        (None, "server_error"),
    ],
)
async def test_a_failure_says_of_what_kind_it_is(tmp_path: Path, kind: FaultKind | None, code: str) -> None:
    until = datetime(2100, 1, 1, tzinfo=UTC)
    secret = "http://10.0.0.7:9999 did not want it"

    def script(request: ModelRequest) -> Say:
        if kind is None:
            raise RuntimeError("the script is wrong")
        return Say(error=ModelFault(secret, kind=kind, until=until))

    async with ApiWorld(home=tmp_path / "home", provider=ScriptedModel(script), config=KEYS) as api:
        failed = await api.post(PATH, {"input": "hello"}, headers=PHONE)
        assert failed.status >= 400 and secret not in str(failed.data)
        answer = await read(api, failed.json["hermes"]["response_id"], headers=PHONE)
        assert (answer["status"], answer["error"]["code"]) == ("failed", code)
        assert secret not in json.dumps(answer), "only who may administer the gateway is told addresses"
        events = await stream(api, PATH, {"input": "hello", "stream": True})
        assert events[-1]["type"] == "response.failed"
        assert events[-1]["response"]["error"]["code"] == code


async def test_an_answer_that_was_cut_says_why(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        answer = await ask(api, "long")
        assert answer["status"] == "incomplete"
        assert answer["incomplete_details"] == {"reason": "max_output_tokens"}


# --- functions of the client


@pytest.mark.parametrize("stateless", [False, True])
async def test_results_of_the_clients_functions_go_on_with_the_turn(
    tmp_path: Path, world: World, stateless: bool
) -> None:
    async with world.api(tmp_path / "home") as api:
        asked = await ask(api, "weather", tools=[WEATHER], store=not stateless)
        assert asked["status"] == "completed"
        assert [tool["name"] for tool in asked["tools"]] == ["weather"]
        bonn, rome = calls(asked)
        assert json.loads(rome["arguments"]) == {"city": "Rome"}
        results = [result(bonn, "rain"), result(rome, "sun")]
        more: dict[str, Any] = {"store": False} if stateless else {"previous_response_id": asked["id"]}
        given = [{"role": "user", "content": "weather"}, *asked["output"], *results] if stateless else results
        done = await ask(api, given, tools=[WEATHER], **more)
        assert text(done).endswith("rain; sun")
        assert [item["type"] for item in done["output"]] == ["message"]
        assert done["id"] == f"{asked['id']}_2"
        assert done["previous_response_id"] == asked["id"]
        if stateless:
            await read(api, asked["id"], 404)
            await read(api, done["id"], 404)
            return
        assert await read(api, asked["id"]) == asked
        assert await read(api, done["id"]) == done
        kept = await read(api, f"{done['id']}/input_items", params={"order": "asc"})
        assert [(item["call_id"], item["output"]) for item in kept["data"]] == [
            (bonn["call_id"], "rain"),
            (rome["call_id"], "sun"),
        ]
        further = await ask(api, "thanks", previous_response_id=done["id"])
        assert text(further).startswith("weather + thanks [")


async def test_results_once_more_are_the_same_response_and_other_ones_are_refused(
    tmp_path: Path, world: World
) -> None:
    async with world.api(tmp_path / "home") as api:
        asked = await ask(api, "weather", tools=[WEATHER])
        bonn, rome = calls(asked)
        before = {"previous_response_id": asked["id"]}
        missing = await ask(api, [result(bonn, "rain")], 400, **before)
        assert rome["call_id"] in missing["error"]["message"]
        owed = await ask(api, "never mind", 400, **before)
        assert "no result" in owed["error"]["message"]
        foreign = {"type": "function_call_output", "call_id": "call_9", "output": "x"}
        await ask(api, [foreign], 400, **before)
        done = await ask(api, [result(bonn, "rain"), result(rome, "sun")], **before)
        assert await ask(api, [result(bonn, "rain"), result(rome, "sun")], **before) == done
        refused = await ask(api, [result(bonn, "snow"), result(rome, "sun")], 409, **before)
        assert bonn["call_id"] in refused["error"]["message"]


async def test_nobody_else_can_give_results(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home", config=KEYS) as api:
        asked = await ask(api, "weather", tools=[WEATHER])
        results = [result(made, "hail") for made in calls(asked)]
        await ask(api, results, 404, previous_response_id=asked["id"], headers=PHONE)
        for more in ({}, {"conversation": "c"}):
            other = await ask(api, results, 400, headers=PHONE, **more)
            assert "belongs to no call" in other["error"]["message"] and other["error"]["param"] == "input"
        assert "hail" not in text(await ask(api, "x", headers=PHONE))
        assert (await read(api, asked["id"]))["status"] == "completed"
        assert world.requests[-1].history == ()


async def test_a_function_call_is_streamed(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        body = {"input": "weather", "tools": [WEATHER], "stream": True}
        events = await stream(api, PATH, body)
        assert events[-1]["type"] == "response.completed"
        done = [one for one in events if one["type"] == "response.function_call_arguments.done"]
        assert [one["name"] for one in done] == ["weather", "weather"]
        results = [result(made, "rain") for made in calls(events[-1]["response"])]
        again = {"input": results, "previous_response_id": events[-1]["response"]["id"], "stream": True}
        events = await stream(api, PATH, again)
        assert spoken(events).endswith("rain; rain")
        assert events[0]["response"]["id"].endswith("_2")


# --- keeping, leaving, coming back


async def test_who_may_see_a_response(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home", config=KEYS) as api:
        mine = await ask(api, "a")
        theirs = await ask(api, "b", headers=PHONE)
        await read(api, mine["id"], 404, headers=PHONE)
        for path, method in ((mine["id"], "DELETE"), (f"{mine['id']}/cancel", "POST")):
            assert (await api.ask(method, f"{PATH}/{path}", headers=PHONE)).status == 404
        await ask(api, "x", 404, previous_response_id=mine["id"], headers=PHONE)
        assert (await read(api, theirs["id"]))["status"] == "completed", "this key may see all sessions"


async def test_a_deleted_response_is_gone(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        one = await ask(api, "a")
        gone = await api.ask("DELETE", f"{PATH}/{one['id']}")
        assert gone.json == {"id": one["id"], "object": "response.deleted", "deleted": True}
        assert (await read(api, one["id"], 404))["error"]["code"] == "response_not_found"
        assert (await api.ask("DELETE", f"{PATH}/{one['id']}")).status == 404
        await ask(api, "b", 404, previous_response_id=one["id"])


async def test_deleting_stops_what_still_runs_and_not_what_came_of_it(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        one = await ask(api, "story", background=True)
        assert (await api.ask("DELETE", f"{PATH}/{one['id']}")).status == 200
        turn = "turn_" + one["id"].removeprefix("resp_")
        assert [seen async for seen in api.app.gateway.watch("main", turn)]  # type: ignore[arg-type]
        found = await api.app.store.read(lambda tx: tx.turns.get(turn))  # type: ignore[arg-type]
        assert found.state is TurnState.STOPPED
        asked = await ask(api, "weather", tools=[WEATHER])
        results = [result(made, "rain") for made in calls(asked)]
        done = await ask(api, results, previous_response_id=asked["id"])
        await api.ask("DELETE", f"{PATH}/{asked['id']}")
        assert await read(api, done["id"]) == done
        run = await api.post("/v1/runs", {"input": "and now?", "previous_response_id": done["id"]})
        assert run.status == 202


async def test_pictures_are_shown_to_the_model_and_named_among_the_items(
    tmp_path: Path, world: World
) -> None:
    async with world.api(tmp_path / "home") as api:
        address = "https://pictures.example/cat.png"
        parts = [{"type": "input_text", "text": "look"}, {"type": "input_image", "image_url": address}]
        answer = await ask(api, [{"role": "user", "content": parts}])
        (said,) = [one.record for one in world.requests[-1].entries if isinstance(one.record, UserSaid)]
        assert [image.ref for image in said.attachments] == [address]
        (item,) = (await read(api, f"{answer['id']}/input_items"))["data"]
        assert [part["type"] for part in item["content"]] == ["input_text", "input_image"]
        assert item["content"][1]["image_url"] == address


async def test_what_is_not_stored_cannot_be_found(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        one = await ask(api, "a", store=False)
        assert one["store"] is False
        await read(api, one["id"], 404)
        keyed = {"headers": {"Idempotency-Key": "k1"}}
        two = await ask(api, "b", store=False, **keyed)
        await read(api, two["id"], 404)
        assert await ask(api, "b", store=False, headers={"Idempotency-Key": "k1"}) == two


async def test_one_key_is_one_response(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        one = await ask(api, "a", headers={"Idempotency-Key": "k1"})
        assert await ask(api, "a", headers={"Idempotency-Key": "k1"}) == one
        refused = await ask(api, "b", 422, headers={"Idempotency-Key": "k1"})
        assert refused["error"]["code"] == "idempotency_key_reused"


@pytest.mark.parametrize("store", [True, False])
async def test_a_client_that_leaves(tmp_path: Path, world: World, store: bool) -> None:
    async with world.api(tmp_path / "home") as api:
        body = {"input": "story", "stream": True, "store": store}
        events = await stream(api, PATH, body, most=8)
        name = events[0]["response"]["id"]
        turn = "turn_" + name.removeprefix("resp_")
        if store:
            world.hold.set()
            assert text(await until(api, name, "completed")) == STORY
            return
        for _ in range(8000):
            found = await api.app.store.read(lambda tx: tx.turns.get(turn))  # type: ignore[arg-type]
            if found.state is TurnState.STOPPED:
                break
            await asyncio.sleep(0.005)
        assert found.state is TurnState.STOPPED
        assert not await api.app.store.read(lambda tx: tx.requests.get(name))


async def test_in_the_background_and_cancelled(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        one = await ask(api, "story", background=True)
        assert one["status"] in ("queued", "in_progress")
        await until(api, one["id"], "in_progress")
        stopped = await api.post(f"{PATH}/{one['id']}/cancel")
        assert (stopped.status, stopped.json["status"]) == (200, "cancelled")
        assert (await api.post(f"{PATH}/{one['id']}/cancel")).json == stopped.json
        assert await read(api, one["id"]) == stopped.json


async def test_a_stream_is_joined_again_from_any_event_on(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        heard = await stream(api, PATH, {"input": "story", "stream": True}, most=8)
        name = heard[0]["response"]["id"]
        rejoined = f"{PATH}/{name}?stream=true&starting_after={heard[-1]['sequence_number']}"
        joining = asyncio.create_task(stream(api, rejoined))
        await asyncio.sleep(0.05)
        world.hold.set()
        rest = await joining
        check_story(heard + rest)
        late = await stream(api, rejoined)
        check_story(heard + late)
        whole = await stream(api, f"{PATH}/{name}?stream=true")
        assert whole[-1] == rest[-1]


async def test_thoughts_are_told_to_who_asks_for_them_and_keep_their_numbers(
    tmp_path: Path, world: World
) -> None:
    """Streamed, looked up, come back to with any number, in the next life too, and named in an input."""
    body = {"input": "riddle", "stream": True, "reasoning": {"summary": "auto"}}
    world.hold.set()
    async with world.api(tmp_path / "home") as api:
        told = await stream(api, PATH, body)
        answer = told[-1]["response"]
        thought, message = answer["output"]
        assert (thought["type"], thought["summary"]) == (
            "reasoning",
            [{"type": "summary_text", "text": "Hm, forty and two."}],
        )
        assert text(answer) == STORY and answer["reasoning"] == {"effort": None, "summary": "auto"}
        assert await read(api, answer["id"]) == answer
        named = [{"type": "item_reference", "id": each["id"]} for each in (thought, message)]
        spoken = {"role": "user", "content": "riddle"}
        again = await ask(api, [spoken, *named, {"role": "user", "content": "so?"}])
        assert text(again).startswith("so?")
        silent = await ask(api, "riddle")
        assert [each["type"] for each in silent["output"]] == ["message"]
        refused = await ask(api, "riddle", 400, reasoning={"summary": "long"})
        assert refused["error"]["param"] == "reasoning.summary"
    async with world.api(tmp_path / "home") as api:
        for place in range(0, len(told) - 1, 3):
            number = told[place]["sequence_number"]
            rest = await stream(api, f"{PATH}/{answer['id']}?stream=true&starting_after={number}")
            for kind, words in (("output_text", STORY), ("reasoning_summary_text", "Hm, forty and two.")):
                heard = [
                    each for each in told[: place + 1] + rest if each["type"] == f"response.{kind}.delta"
                ]
                assert "".join(each["delta"] for each in heard) == words
            assert rest[-1] == told[-1]


async def test_thoughts_of_an_answer_that_is_stopped_are_stored_with_it(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        asked = {"background": True, "reasoning": {"summary": "concise"}}
        name = (await ask(api, "riddle", **asked))["id"]
        watching = await stream(api, f"{PATH}/{name}?stream=true", most=11)
        kinds = [each["item"]["type"] for each in watching if "item" in each]
        assert kinds == ["reasoning", "reasoning", "message"]
        stopped = (await api.post(f"{PATH}/{name}/cancel")).json
        assert stopped["status"] == "cancelled"
        assert [each["type"] for each in stopped["output"]] == ["reasoning", "message"]
        assert stopped["output"][0]["summary"][0]["text"] == "Hm, forty and two."


def check_story(events: list[Any]) -> None:
    assert spoken(events) == STORY
    numbers = [one["sequence_number"] for one in events]
    assert numbers == sorted(set(numbers))
    kinds = [one["type"].removeprefix("response.") for one in events if "delta" not in one["type"]]
    assert kinds == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert text(events[-1]["response"]) == STORY


async def test_a_stored_stream_outlives_a_restart(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        heard = await stream(api, PATH, {"input": "story", "stream": True}, most=8)
    name = heard[0]["response"]["id"]
    world.hold.set()
    async with world.api(tmp_path / "home") as api:
        number = heard[-1]["sequence_number"]
        check_story(heard + await stream(api, f"{PATH}/{name}?stream=true&starting_after={number}"))
        assert (await read(api, name))["status"] == "completed"
