"""Conversations over HTTP: found, begun, changed, branched, talked in and deleted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes.domain.ids import SessionId, TurnId
from hermes.domain.ports.agent import ModelRequest
from hermes.testing.api import ApiWorld
from hermes.testing.model import Say, ScriptedModel, call, last_words, say
from hermes.testing.tools import world_tools

PHONE = {"Authorization": "Bearer another long secret 1"}
KEYS = """
platforms:
  api_server:
    keys:
      phone: {key: another long secret 1, scopes: [chat]}
agents:
  helper: {}
"""


class World:
    """A model that obeys, tools that do nothing, and a lock for answers that shall take long."""

    def __init__(self) -> None:
        self.hold = asyncio.Event()
        self.model = ScriptedModel(self.script)
        self.done: list[str] = []

    def script(self, request: ModelRequest) -> Say:
        words = last_words(request)
        if type(request.entries[-1].record).__name__ != "UserSaid":
            return say("All done.", pieces=3)
        match words.split()[0]:
            case "danger" | "read" as tool:
                return Say(text="Let me see.", calls=call(tool, '{"token": "x"}').calls, pieces=2)
            case "wait":
                return Say(text="I am thinking about it", pieces=5, hold=self.hold)
            case _:
                return say(f"You said: {words}", pieces=4)

    async def act(self, tool: str, key: str, token: str) -> None:
        self.done.append(tool)

    def api(self, home: Path, **more: Any) -> ApiWorld:
        return ApiWorld(home=home, provider=self.model, tools=tuple(world_tools(self.act)), **more)


@pytest.fixture
def world() -> World:
    return World()


async def eventually(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while True:
            if happened():
                return
            await asyncio.sleep(0.01)


async def begin(api: ApiWorld, **body: Any) -> Any:
    heard = await api.post("/api/sessions", body)
    assert heard.status == 201, heard.data
    return heard.json


async def talk(api: ApiWorld, session: str, words: str, **options: Any) -> Any:
    heard = await api.post(f"/api/sessions/{session}/chat", {"message": words}, **options)
    assert heard.status == 200, heard.data
    return heard.json


async def listed(api: ApiWorld, query: str = "", **options: Any) -> list[str]:
    heard = await api.get(f"/api/sessions{query}", **options)
    assert heard.status == 200, heard.data
    return [session["id"] for session in heard.json["data"]]


async def said(api: ApiWorld, session: str) -> list[tuple[str, str | None]]:
    heard = await api.get(f"/api/sessions/{session}/messages")
    return [(message["role"], message["content"]) for message in heard.json["data"]]


async def test_a_session_is_begun_and_talked_in(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        begun = await begin(api, id="notes", title="My notes", system_prompt="Be brief.")
        assert (begun["id"], begun["title"], begun["source"]) == ("notes", "My notes", "api_server")
        answer = await talk(api, "notes", "hello")
        assert answer["object"] == "hermes.session.chat.completion"
        assert answer["message"] == {"role": "assistant", "content": "You said: hello"}
        assert answer["session_id"] == "notes"
        assert answer["usage"]["total_tokens"] > 0
        assert "hermes" not in answer
        assert world.model.requests[-1].system.startswith("Be brief.")
        assert (await api.get(f"/v1/runs/{answer['run_id']}")).json["status"] == "completed"
        assert await said(api, "notes") == [("user", "hello"), ("assistant", "You said: hello")]
        assert (await api.get("/api/sessions/notes")).json["last_active"] > begun["last_active"]


async def test_a_name_is_given_once_among_all_agents(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home", config=KEYS) as api:
        await begin(api, id="notes", title="Notes")
        for model in ("hermes-agent", "helper"):
            heard = await api.post("/api/sessions", {"id": "notes", "model": model})
            assert (heard.status, heard.json["error"]["code"]) == (409, "session_exists")
        hello = {"messages": [{"role": "user", "content": "hi"}], "model": "helper"}
        heard = await api.post("/v1/chat/completions", hello, headers={"X-Hermes-Session-Id": "notes"})
        assert heard.status == 409
        heard = await api.post("/api/sessions", {"title": "Notes"})
        assert heard.status == 400


async def test_the_list_goes_page_by_page_over_all_agents(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home", config=KEYS) as api:
        for number in range(6):
            await begin(api, id=f"s{number}", model="helper" if number % 2 else "hermes-agent")
        assert await listed(api) == ["s5", "s4", "s3", "s2", "s1", "s0"]
        page = (await api.get("/api/sessions?limit=2&offset=1")).json
        assert [one["id"] for one in page["data"]] == ["s4", "s3"]
        assert (page["limit"], page["offset"], page["has_more"]) == (2, 1, True)
        assert not (await api.get("/api/sessions?limit=2&offset=4")).json["has_more"]
        assert await listed(api, "?source=api_server&limit=1") == ["s5"]
        assert await listed(api, "?source=telegram") == []
        for wrong in ("?limit=0", "?limit=201", "?offset=-1", "?limit=x"):
            assert (await api.get(f"/api/sessions{wrong}")).status == 400


async def test_sessions_are_found_by_name_and_by_what_was_said(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home", config=KEYS) as api:
        await begin(api, id="fruit", title="Plums")
        await begin(api, id="other")
        await talk(api, "other", "we need plums and milk")
        heard = (await api.get("/api/sessions?q=plums")).json
        assert {one["id"] for one in heard["data"]} == {"fruit", "other"}
        hit = next(one for one in heard["data"] if one["id"] == "other")
        assert "plums" in hit["match"]["excerpt"]
        assert await listed(api, "?q=plums", headers=PHONE) == []
        assert await listed(api, "?q=milk") == ["other"]
        assert await listed(api, "?q=nothing") == []


async def test_a_key_without_the_scope_sees_only_its_own(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home", config=KEYS) as api:
        await begin(api, id="mine")
        await api.post("/api/sessions", {"id": "phones"}, headers=PHONE)
        assert await listed(api, headers=PHONE) == ["phones"]
        assert await listed(api) == ["phones", "mine"]
        for method, path, body in [
            ("GET", "", None),
            ("GET", "/messages", None),
            ("PATCH", "", {"title": "x"}),
            ("DELETE", "", None),
            ("POST", "/fork", None),
            ("POST", "/chat", {"message": "hi"}),
            ("POST", "/chat/stream", {"message": "hi"}),
        ]:
            heard = await api.ask(method, f"/api/sessions/mine{path}", json=body, headers=PHONE)
            assert (heard.status, heard.json["error"]["code"]) == (404, "session_not_found")
        assert await said(api, "mine") == []


async def test_only_title_and_end_can_be_changed(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        await begin(api, id="a", title="First")
        await begin(api, id="b")
        heard = await api.ask("PATCH", "/api/sessions/b", json={"title": " Second \n one "})
        assert heard.json["title"] == "Second one"
        heard = await api.ask("PATCH", "/api/sessions/b", json={"end_reason": "done"})
        assert (heard.json["title"], heard.json["end_reason"]) == ("Second one", "done")
        heard = await api.ask("PATCH", "/api/sessions/b", json={"title": None, "end_reason": None})
        assert (heard.json["title"], heard.json["end_reason"]) == (None, None)
        for wrong in ({}, {"model": "x"}, {"title": "First"}, {"title": "x" * 201}, {"title": 5}):
            assert (await api.ask("PATCH", "/api/sessions/b", json=wrong)).status == 400
        assert (await api.ask("PATCH", "/api/sessions/none", json={"title": "x"})).status == 404


async def test_a_fork_goes_its_own_way(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        await begin(api, id="tree", title="Tree")
        await talk(api, "tree", "read this")
        heard = await api.post("/api/sessions/tree/fork")
        assert heard.status == 201
        branch = heard.json
        assert (branch["parent_session_id"], branch["title"]) == ("tree", "Tree #2")
        assert (await api.get("/api/sessions/tree")).json["end_reason"] == "branched"
        assert await said(api, branch["id"]) == await said(api, "tree")
        await talk(api, branch["id"], "only here")
        assert ("user", "only here") not in await said(api, "tree")
        assert set(await listed(api)) == {"tree", branch["id"]}


async def test_what_was_split_off_by_the_way_is_shown_on_demand(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        first = await api.post("/v1/runs", {"input": "one", "session_id": "s"})
        second = await api.post("/v1/runs", {"input": "two", "session_id": "s"})
        async for _ in api.events(f"/v1/runs/{second.json['run_id']}/events", method="GET"):
            pass
        body = {"input": "aside", "previous_response_id": first.json["run_id"]}
        aside = (await api.post("/v1/runs", body)).json["session_id"]
        assert aside != "s"
        assert await listed(api) == ["s"]
        assert set(await listed(api, "?include_children=true")) == {"s", aside}


async def test_messages_are_in_the_openai_format(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        await begin(api, id="s")
        await talk(api, "s", "read it")
        told = (await api.get("/api/sessions/s/messages")).json["data"]
        assert [message["role"] for message in told] == ["user", "assistant", "tool", "assistant"]
        [made] = told[1]["tool_calls"]
        assert (made["type"], made["function"]["name"]) == ("function", "read")
        assert told[2]["tool_call_id"] == made["id"]
        assert "tool_calls" not in told[0]
        ids = [message["id"] for message in told]
        assert ids == sorted(ids)


async def test_a_chat_that_needs_an_approval_says_so(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        await begin(api, id="s")
        answer = await talk(api, "s", "danger")
        [question] = answer["hermes"]["questions"]
        assert question["options"] == ["once", "session", "always", "deny"]
        run = answer["run_id"]
        assert (await api.post(f"/v1/runs/{run}/approval", {"choice": "once"})).status == 200
        async for _ in api.events(f"/v1/runs/{run}/events", method="GET"):
            pass
        assert world.done == ["danger"]
        assert (await said(api, "s"))[-1] == ("assistant", "All done.")


async def test_a_chat_streams_named_events(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        await begin(api, id="s")
        seen: list[tuple[str, dict[str, Any]]] = []
        async for event in api.events(
            "/api/sessions/s/chat/stream", {"input": "danger", "instructions": "x"}
        ):
            seen.append((event.name, json.loads(event.data)))
            if event.name == "approval.request":
                path = f"/v1/runs/{seen[0][1]['run_id']}/approval"
                assert (await api.post(path, {"choice": "once"})).status == 200
        names = [name for name, _ in seen]
        assert names[:2] == ["run.started", "message.started"]
        assert [name for name in names if name.startswith(("tool", "approval"))] == [
            "approval.request",
            "tool.started",
            "tool.progress",
            "tool.completed",
        ]
        assert names[-3:] == ["assistant.completed", "run.completed", "done"]
        assert [data["seq"] for _, data in seen] == list(range(1, len(seen) + 1))
        assert all(data["session_id"] == "s" and data["run_id"] and data["ts"] for _, data in seen)
        words = "".join(data["delta"] for name, data in seen if name == "assistant.delta")
        assert words == "Let me see.\n\nAll done."
        completed, ended = seen[-3][1], seen[-2][1]
        assert (completed["content"], completed["completed"]) == ("All done.", True)
        assert [message["role"] for message in ended["messages"]] == [
            "user",
            "assistant",
            "tool",
            "assistant",
        ]
        assert ended["usage"]["total_tokens"] > 0


async def test_a_stream_whose_turn_is_stopped_ends_whole(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        await begin(api, id="s")
        names = []
        async for event in api.events("/api/sessions/s/chat/stream", {"message": "wait"}):
            names.append(event.name)
            if names.count("assistant.delta") == 1 and event.name == "assistant.delta":
                run = json.loads(event.data)["run_id"]
                await api.post(f"/v1/runs/{run}/stop")
        assert names[-3:] == ["assistant.completed", "run.cancelled", "done"]


@pytest.mark.parametrize("body", [{}, {"message": ""}, {"message": []}, {"message": [{"type": "file"}]}])
async def test_saying_nothing_is_refused(tmp_path: Path, world: World, body: dict[str, Any]) -> None:
    async with world.api(tmp_path / "home") as api:
        await begin(api, id="s")
        for path in ("chat", "chat/stream"):
            assert (await api.post(f"/api/sessions/s/{path}", body)).status == 400
        assert await said(api, "s") == []


async def test_nothing_is_left_of_a_deleted_session(tmp_path: Path, world: World) -> None:
    home = tmp_path / "home"
    async with world.api(home) as api:
        await begin(api, id="secret")
        answer = await talk(api, "secret", "the word is marzipan")
        await eventually(lambda: bool(list(home.glob("sessions/*.jsonl"))))
        heard = await api.ask("DELETE", "/api/sessions/secret")
        assert heard.json == {"id": "secret", "object": "hermes.session.deleted", "deleted": True}
        assert not list(home.glob("sessions/*.jsonl"))
        assert (await api.get("/api/sessions/secret")).status == 404
        assert (await api.get(f"/v1/runs/{answer['run_id']}")).status == 404
        assert await listed(api, "?q=marzipan") == []
        assert (await api.ask("DELETE", "/api/sessions/secret")).status == 404
        await begin(api, id="secret")
        await talk(api, "secret", "what was the word")
        told = [entry.record for entry in world.model.requests[-1].entries]
        assert "marzipan" not in str(told)


@pytest.mark.parametrize("words", ["wait", "danger"])
async def test_deleting_stops_what_goes_on(tmp_path: Path, world: World, words: str) -> None:
    async with world.api(tmp_path / "home") as api:
        runs = []
        for said_now in (words, "and then this"):
            heard = await api.post("/v1/runs", {"input": said_now, "session_id": "s"})
            runs.append(heard.json["run_id"])
        await eventually(lambda: len(world.model.requests) == 1)
        watchers = [asyncio.create_task(_watch(api, run)) for run in runs]
        turns = [TurnId(run.replace("run_", "turn_", 1)) for run in runs]
        await eventually(lambda: all(map(api.app.gateway.feeds.is_watched, turns)))
        assert (await api.ask("DELETE", "/api/sessions/s")).status == 200
        for names in await asyncio.gather(*watchers):
            assert names[-1] == "run.cancelled"
        assert world.done == []
        assert not await api.app.store.read(lambda tx: tx.turns.open_of(SessionId("s")))
        await begin(api, id="s")
        assert (await talk(api, "s", "hello"))["message"]["content"] == "You said: hello"


async def _watch(api: ApiWorld, run: str) -> list[str]:
    path = f"/v1/runs/{run}/events"
    return [json.loads(event.data)["event"] async for event in api.events(path, method="GET")]


async def test_deleting_and_beginning_again_in_a_crowd_mixes_nothing_up(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:

        async def speak(number: int) -> None:
            for _ in range(10):
                heard = await api.post("/v1/runs", {"input": f"word {number}", "session_id": "s"})
                assert heard.status == 202

        async def delete() -> None:
            for _ in range(10):
                assert (await api.ask("DELETE", "/api/sessions/s")).status in (200, 404)
                await asyncio.sleep(0.01)

        async with asyncio.timeout(60):
            await asyncio.gather(*(speak(number) for number in range(4)), delete(), delete())
            await api.ask("DELETE", "/api/sessions/s")
            await begin(api, id="s")
            await talk(api, "s", "a clean start")
        assert await said(api, "s") == [("user", "a clean start"), ("assistant", "You said: a clean start")]
        told = world.model.requests[-1].entries
        assert [entry.seq for entry in told] == [1]


async def test_a_deletion_that_an_actor_did_not_see_makes_it_begin_anew(tmp_path: Path, world: World) -> None:
    """The row goes away under a running actor; what comes next under the same name is another session."""
    async with world.api(tmp_path / "home") as api:
        await api.post("/v1/runs", {"input": "wait", "session_id": "s"})
        await eventually(lambda: len(world.model.requests) == 1)
        await api.app.store.write(lambda tx: tx.sessions.delete(SessionId("s")))
        heard = await api.post("/v1/runs", {"input": "hello", "session_id": "s"})
        world.hold.set()
        names = await _watch(api, heard.json["run_id"])
        assert names[-1] == "run.completed"
        assert await said(api, "s") == [("user", "hello"), ("assistant", "You said: hello")]
