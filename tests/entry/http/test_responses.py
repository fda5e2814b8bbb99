"""The Responses API: chains and conversations, functions of the client, stored responses and how to come back
to them, also after a crash."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hermes.domain.event import Ending, ToolFinished, UserSaid
from hermes.domain.ids import CallId
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.tool import ToolCall
from hermes.domain.turn import TurnState
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
            case "read" if not tools:
                return call("read", '{"token": "x"}')
            case "story":
                return Say(text=STORY, pieces=12, hold=self.hold)
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
        assert [earlier.text for earlier in history] == ["zero", "one", "1", "2"]
        assert history[2].calls[0].name == "add"
        assert world.requests[-1].system.endswith("Count.")
        kept = await read(api, f"{answer['id']}/input_items", params={"order": "asc"})
        assert [item["type"] for item in kept["data"]] == [
            "message",
            "message",
            "message",
            "function_call",
            "function_call_output",
            "message",
        ]
        page = await read(api, f"{answer['id']}/input_items", params={"limit": "2"})
        assert [item["id"] for item in page["data"]] == [item["id"] for item in kept["data"][:-3:-1]]
        assert page["has_more"] is True
        after = {"limit": "50", "after": page["last_id"]}
        rest = await read(api, f"{answer['id']}/input_items", params=after)
        assert len(rest["data"]) == 4
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
        ({}, 400, None),
        ({"input": [{"role": "assistant", "content": "hi"}]}, 400, "input"),
        ({"input": [{"role": "king", "content": "hi"}]}, 400, "input[0].role"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, 400, "input[0].type"),
        ({"input": [{"type": "function_call_output", "output": "x"}]}, 400, "input[0].call_id"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_file"}]}]},
            400,
            "input[0].content[0].type",
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


# --- own tools, and people


async def test_own_tools_are_items_of_the_answer(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        answer = await ask(api, "read it")
        kinds = [item["type"] for item in answer["output"]]
        assert kinds == ["function_call", "function_call_output", "message"]
        assert answer["output"][0]["call_id"] == answer["output"][1]["call_id"]
        events = await stream(api, f"{PATH}/{answer['id']}?stream=true")
        assert events[-1]["response"] == answer


async def test_a_response_that_needs_an_approval_says_so_and_goes_on(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        answer = await ask(api, "danger zone")
        assert answer["status"] == "incomplete"
        assert answer["incomplete_details"] == {"reason": None}
        pending = answer["hermes"]["pending"]
        assert (pending["kind"], pending["options"]) == ("approval", ["once", "session", "always", "deny"])
        assert await read(api, answer["id"]) == answer
        watching = asyncio.create_task(stream(api, f"{PATH}/{answer['id']}?stream=true"))
        given = await api.post(f"/v1/questions/{pending['id']}", {"choice": "once"})
        assert given.status == 200
        events = await watching
        names = [event["type"] for event in events if event["type"].startswith("hermes.")]
        assert names == ["hermes.approval.request", "hermes.approval.responded"]
        assert events[-1]["response"]["status"] == "completed"
        assert events[-1]["response"] == await read(api, answer["id"])


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
        asked = await ask(api, "weather", tools=[WEATHER, {"type": "web_search"}], store=not stateless)
        assert asked["status"] == "completed"
        assert [tool["name"] for tool in asked["tools"]] == ["weather"]
        own, bonn, rome = calls(asked)
        assert (own["name"], json.loads(rome["arguments"])) == ("read", {"city": "Rome"})
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
        _, bonn, rome = calls(asked)
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
        results = [result(made, "hail") for made in calls(asked)[1:]]
        await ask(api, results, 404, previous_response_id=asked["id"], headers=PHONE)
        other = await ask(api, results, headers=PHONE)
        assert "hail" not in text(await ask(api, "x", headers=PHONE))
        assert not other["id"].startswith(asked["id"])
        assert (await read(api, asked["id"]))["status"] == "completed"
        assert world.requests[-1].history == ()


async def test_a_function_call_is_streamed(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        body = {"input": "weather", "tools": [WEATHER], "stream": True}
        events = await stream(api, PATH, body)
        assert events[-1]["type"] == "response.completed"
        done = [one for one in events if one["type"] == "response.function_call_arguments.done"]
        assert [one["name"] for one in done] == ["read", "weather", "weather"]
        results = [result(made, "rain") for made in calls(events[-1]["response"])[1:]]
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
        results = [result(made, "rain") for made in calls(asked)[1:]]
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
