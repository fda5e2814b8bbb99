"""Runs: begun, watched from anywhere, answered, stopped, and found again after a restart."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hermes.control.sessions.repeats import id_for
from hermes.control.sessions.submission import SessionTarget, Submission
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.ids import MAIN_AGENT, CallId, SessionId
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.sse import SseEvent
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.turn import BusyMode, TurnInput
from hermes.testing.api import ApiWorld
from hermes.testing.model import Say, ScriptedModel, call, last_words, say
from hermes.testing.tools import world_tools

PHONE = {"Authorization": "Bearer another long secret 1"}
KEYS = """
platforms:
  api_server:
    keys:
      phone: {key: another long secret 1, scopes: [chat]}
"""


@dataclass
class World:
    """What the tools did, and a model that can be held back."""

    done: list[str] = field(default_factory=list)
    hold: asyncio.Event | None = None

    async def act(self, tool: str, key: str, token: str) -> None:
        self.done.append(f"{tool} {token}")

    def script(self, request: ModelRequest) -> Say:
        words = last_words(request)
        answered = type(request.entries[-1].record).__name__ != "UserSaid"
        if answered:
            return say("All done.", pieces=3)
        match words.split()[0]:
            case "danger":
                return call("danger", '{"token": "x"}')
            case "twice":
                calls = [
                    ToolCall(id=CallId(f"c{n}"), name="read", arguments='{"token": "r"}') for n in (1, 2)
                ]
                return Say(text="Looking.", calls=tuple(calls), pieces=2)
            case "which":
                return call("clarify", '{"question": "Which one?", "options": ["Red", "Blue"]}')
            case "wait":
                return Say(text="I am thinking about it", pieces=5, hold=self.hold)
            case _:
                return say(f"You said: {words}", pieces=4)

    def api(self, home: Path, **more: Any) -> ApiWorld:
        return ApiWorld(
            home=home, provider=ScriptedModel(self.script), tools=tuple(world_tools(self.act)), **more
        )


@pytest.fixture
def world() -> World:
    return World(hold=asyncio.Event())


async def begin(api: ApiWorld, words: str, **more: Any) -> str:
    heard = await api.post("/v1/runs", {"input": words, **more})
    assert heard.status == 202, heard.data
    assert heard.json["status"] == "started"
    return str(heard.json["run_id"])


async def status(api: ApiWorld, run: str) -> Any:
    heard = await api.get(f"/v1/runs/{run}")
    assert heard.status == 200
    return heard.json


async def becomes(api: ApiWorld, run: str, wanted: str) -> Any:
    async with asyncio.timeout(60):
        while True:
            shown = await status(api, run)
            if shown["status"] == wanted:
                return shown
            await asyncio.sleep(0.01)


async def watched(api: ApiWorld, run: str, **options: Any) -> list[tuple[str, dict[str, Any]]]:
    path = f"/v1/runs/{run}/events"
    return [told(event) async for event in api.events(path, method="GET", **options)]


def told(event: SseEvent) -> tuple[str, dict[str, Any]]:
    return event.id, json.loads(event.data)


def names(events: list[tuple[str, dict[str, Any]]]) -> list[str]:
    return [data["event"] for _, data in events]


def text_of(events: list[tuple[str, dict[str, Any]]]) -> str:
    """The words as a client puts them together."""
    words = ""
    for _, data in events:
        match data["event"]:
            case "message.delta":
                words += data["delta"]
            case "message.snapshot":
                words = data["text"]
            case "message.reset":
                words = ""
    return words


async def test_a_run_is_done_and_its_status_tells_of_it(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        run = await begin(api, "hello")
        assert run.startswith("run_")
        shown = await becomes(api, run, "completed")
        assert shown["object"] == "hermes.run"
        assert shown["output"] == "You said: hello"
        assert shown["last_event"] == "run.completed"
        assert shown["usage"]["total_tokens"] == shown["usage"]["input_tokens"] + 3
        assert shown["session_id"].startswith("api_")
        assert shown["model"] == "hermes-agent"
        assert shown["updated_at"] >= shown["created_at"]
        assert "error" not in shown


async def test_a_finished_run_is_replayed_whole_to_anybody(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        run = await begin(api, "twice over")
        await becomes(api, run, "completed")
        first, second = await asyncio.gather(watched(api, run), watched(api, run))
        assert names(first) == names(second)
        assert [name for name in names(first) if name.startswith("tool")] == [
            "tool.started",
            "tool.started",
            "tool.completed",
            "tool.completed",
        ]
        assert names(first)[-1] == "run.completed"
        assert first[-1][1]["output"] == "All done."
        ids = [int(ident) for ident, _ in first if ident]
        assert ids == sorted(ids)
        times = [data["timestamp"] for _, data in first]
        assert "message.delta" in names(first) and times == sorted(times)


async def test_whoever_comes_back_gets_only_the_rest(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        run = await begin(api, "twice over")
        await becomes(api, run, "completed")
        whole = await watched(api, run)
        seen = whole[-3][0]
        rest = await watched(api, run, headers={"Last-Event-ID": seen})
        assert [one for one in whole if int(one[0]) > int(seen)][-1] == rest[-1]
        assert all(int(ident) > int(seen) for ident, data in rest if data["event"].startswith("tool."))
        assert names(await watched(api, run, params={"after": seen})) == names(rest)
        heard = await api.get(f"/v1/runs/{run}/events", headers={"Last-Event-ID": whole[-1][0]})
        assert heard.status == 204


async def test_a_late_watcher_gets_what_was_said_as_one_snapshot(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        run = await begin(api, "wait")
        live = asyncio.create_task(watched(api, run))
        path, seen = f"/v1/runs/{run}/events", []
        async for event in api.events(path, method="GET"):
            seen.append(told(event))
            if text_of(seen) == "I am thinking about it":
                break
        late = api.events(path, method="GET")
        told_late = [told(await anext(late))]
        assert world.hold is not None
        world.hold.set()
        assert text_of(await live) == "I am thinking about it"
        told_late += [told(event) async for event in late]
        assert names(told_late) == ["message.snapshot", "run.completed"]
        assert text_of(told_late) == "I am thinking about it"


async def test_an_approval_is_asked_and_given(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        run = await begin(api, "danger")
        watching = asyncio.create_task(watched(api, run))
        shown = await becomes(api, run, "waiting_for_approval")
        assert shown["last_event"] == "approval.request"
        [question] = shown["questions"]
        assert question["options"] == ["once", "session", "always", "deny"]
        assert world.done == []
        heard = await api.post(f"/v1/runs/{run}/approval", {"choice": "allow"})
        assert heard.json == {
            "object": "hermes.run.approval_response",
            "run_id": run,
            "choice": "once",
            "resolved": 1,
        }
        events = await watching
        asked = next(data for _, data in events if data["event"] == "approval.request")
        assert asked["question_id"] == question["id"]
        assert question["action"] == '{"token": "x"}'
        assert asked["description"] == "May I do x?"
        assert "approval.responded" in names(events)
        assert world.done == ["danger x"]
        late = {"choice": "deny", "question_id": question["id"]}
        heard = await api.post(f"/v1/runs/{run}/approval", late)
        assert (heard.status, heard.json["error"]["code"]) == (409, "approval_not_pending")
        assert heard.json["error"]["message"] == "This was already answered. (answered)"
        heard = await api.post(f"/v1/runs/{run}/approval", {"choice": "once"})
        assert (heard.status, heard.json["error"]["code"]) == (409, "approval_not_active")


async def test_a_denied_deed_is_not_done(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        run = await begin(api, "danger")
        await becomes(api, run, "waiting_for_approval")
        heard = await api.post(f"/v1/runs/{run}/approval", {"choice": "perhaps"})
        assert (heard.status, heard.json["error"]["param"]) == (400, "choice")
        heard = await api.post(f"/v1/runs/{run}/approval", {"choice": "deny", "all": True})
        assert heard.json["resolved"] == 1
        assert (await becomes(api, run, "completed"))["output"] == "All done."
        assert world.done == []


async def test_nothing_to_approve(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        run = await begin(api, "wait")
        await becomes(api, run, "running")
        heard = await api.post(f"/v1/runs/{run}/approval", {"choice": "once"})
        assert (heard.status, heard.json["error"]["code"]) == (409, "approval_not_pending")


@pytest.mark.parametrize("body", [{"choice": 2}, {"choice": "Blue"}, {"text": "Blue"}])
async def test_a_clarification_is_answered(tmp_path: Path, world: World, body: dict[str, Any]) -> None:
    async with world.api(tmp_path / "home") as api:
        run = await begin(api, "which")
        shown = await becomes(api, run, "waiting_for_approval")
        assert shown["questions"][0]["options"] == ["Red", "Blue"]
        for wrong in ({"text": " "}, {}, {"text": "a", "choice": "Red"}):
            assert (await api.post(f"/v1/runs/{run}/clarify", wrong)).status == 400
        heard = await api.post(f"/v1/runs/{run}/approval", {"choice": "once"})
        assert heard.json["error"]["code"] == "approval_not_pending"
        wrong_way = {"choice": "once", "question_id": shown["questions"][0]["id"]}
        assert (await api.post(f"/v1/runs/{run}/approval", wrong_way)).status == 400
        heard = await api.post(f"/v1/runs/{run}/clarify", body)
        assert (heard.status, heard.json["resolved"]) == (200, 1)
        await becomes(api, run, "completed")
        journal = await api.app.store.read(lambda tx: tx.journal.read(SessionId(shown["session_id"])))
        assert "Blue" in [getattr(entry.record, "text", "") for entry in journal]


async def test_a_run_is_stopped(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        run = await begin(api, "wait")
        watching = asyncio.create_task(watched(api, run))
        await becomes(api, run, "running")
        heard = await api.post(f"/v1/runs/{run}/stop")
        assert heard.json["status"] in ("stopping", "cancelled")
        events = await watching
        assert names(events)[-1] == "run.cancelled"
        shown = await becomes(api, run, "cancelled")
        assert shown["error"] == "stopped by the client"
        assert (await api.post(f"/v1/runs/{run}/stop")).json["status"] == "cancelled"


async def test_a_parked_run_is_stopped_too(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        run = await begin(api, "danger")
        await becomes(api, run, "waiting_for_approval")
        await api.post(f"/v1/runs/{run}/stop")
        assert (await becomes(api, run, "cancelled"))["questions"] == []


async def test_a_run_outlives_the_client_and_the_gateway(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        run = await begin(api, "danger")
        shown = await becomes(api, run, "waiting_for_approval")
    async with world.api(tmp_path / "home") as api:
        assert (await status(api, run))["questions"] == shown["questions"]
        watching = asyncio.create_task(watched(api, run))
        assert (await api.post(f"/v1/runs/{run}/approval", {"choice": "once"})).status == 200
        assert names(await watching)[-1] == "run.completed"
    async with world.api(tmp_path / "home") as api:
        assert (await status(api, run))["output"] == "All done."
        assert text_of(await watched(api, run)) == "All done."


async def test_runs_of_one_session_go_on_from_each_other(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        first = await begin(api, "one", session_id="notes")
        second = await begin(api, "two", session_id="notes")
        assert (await becomes(api, second, "completed"))["session_id"] == "notes"
        assert (await status(api, first))["output"] == "You said: one"
        assert (await status(api, second))["output"] == "You said: two"
        third = await begin(api, "three", previous_response_id=second)
        assert (await becomes(api, third, "completed"))["session_id"] == "notes"
        aside = await begin(api, "four", previous_response_id=first.replace("run_", "resp_"))
        assert (await becomes(api, aside, "completed"))["session_id"] != "notes"


async def test_the_same_key_is_the_same_run(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        headers = {"Idempotency-Key": "k1"}
        asked = [api.post("/v1/runs", {"input": "hi"}, headers=headers) for _ in range(5)]
        runs = {heard.json["run_id"] for heard in await asyncio.gather(*asked)}
        assert len(runs) == 1
        heard = await api.post("/v1/runs", {"input": "other"}, headers=headers)
        assert (heard.status, heard.json["error"]["code"]) == (422, "idempotency_key_reused")
    async with world.api(tmp_path / "home") as api:
        heard = await api.post("/v1/runs", {"input": "hi"}, headers=headers)
        assert {heard.json["run_id"]} == runs


async def test_the_list_has_the_keys_own_runs_newest_first(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home", config=KEYS) as api:
        runs = [await begin(api, f"hi {number}") for number in range(3)]
        await api.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]})
        await api.post("/v1/runs", {"input": "from the phone"}, headers=PHONE)
        shown = (await api.get("/v1/runs")).json
        assert [run["run_id"] for run in shown["data"]] == runs[::-1]
        assert len((await api.get("/v1/runs?limit=2")).json["data"]) == 2
        assert (await api.get("/v1/runs?limit=1000")).status == 400


async def test_a_key_sees_and_answers_only_its_own_runs(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home", config=KEYS) as api:
        run = await begin(api, "danger")
        await becomes(api, run, "waiting_for_approval")
        for path in (f"/v1/runs/{run}", f"/v1/runs/{run}/events"):
            assert (await api.get(path, headers=PHONE)).status == 404
        for path in ("stop", "approval"):
            body = {"choice": "once"} if path == "approval" else None
            assert (await api.post(f"/v1/runs/{run}/{path}", body, headers=PHONE)).status == 404
        assert (await status(api, run))["status"] == "waiting_for_approval"
        assert world.done == []


async def test_a_run_whose_words_joined_another_follows_it(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        first = await begin(api, "danger", session_id="s")
        await becomes(api, first, "waiting_for_approval")
        me = Source(address=Address(platform="api_server", chat="s"), kind=SourceKind.API, user="default")
        turn = await api.app.gateway.submit(
            Submission(
                agent=MAIN_AGENT,
                source=me,
                input=TurnInput(text="and be quick"),
                place=SessionTarget(session=SessionId("s")),
                busy=BusyMode.STEER,
            )
        )
        joined = id_for("run_", turn.id)
        shown = await becomes(api, joined, "completed")
        assert shown["output"] == (await status(api, first))["output"] != ""
        assert names(await watched(api, joined))[-1] == "run.completed"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "missing_required_parameter"),
        ({"input": ""}, "invalid_request"),
        ({"input": []}, "invalid_request"),
        ({"input": [{"role": "assistant", "content": " "}]}, "invalid_request"),
        ({"input": [{"role": "tool", "tool_call_id": "c", "content": "x"}]}, "invalid_request"),
        ({"input": "x", "session_id": "../x"}, "invalid_request"),
        ({"input": "x", "model": "none"}, "model_not_found"),
        ({"input": "x", "previous_response_id": "nonsense"}, "previous_response_not_found"),
        ({"input": "x", "previous_response_id": "resp_gone"}, "not_found"),
    ],
)
async def test_what_cannot_be_run(tmp_path: Path, world: World, body: dict[str, Any], code: str) -> None:
    async with world.api(tmp_path / "home") as api:
        heard = await api.post("/v1/runs", body)
        assert heard.json["error"]["code"] == code
        assert heard.status == (404 if "not_found" in code else 400)
        assert not await api.app.store.read(lambda tx: tx.sessions.find(""))


async def test_what_is_not_there(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        for name in ("run_none", "nonsense", "resp_x"):
            heard = await api.get(f"/v1/runs/{name}")
            assert (heard.status, heard.json["error"]["code"]) == (404, "run_not_found")
            assert (await api.get(f"/v1/runs/{name}/events")).status == 404
            assert (await api.post(f"/v1/runs/{name}/stop")).status == 404
        run = await begin(api, "hi")
        for seen in ("x", "-1", "9" * 30):
            heard = await api.get(f"/v1/runs/{run}/events", headers={"Last-Event-ID": seen})
            assert heard.status == 400
        assert (await api.get(f"/v1/runs/{run}/events?after=x")).status == 400
