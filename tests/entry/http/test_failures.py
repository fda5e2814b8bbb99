"""Turns that fail: the kind of the fault stays, nobody hears what is not for them, nothing is repeated."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from hermes.domain.errors import FaultKind, ModelFault
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.ports.agent import ModelPiece, ModelRequest
from hermes.domain.turns.event import Failed, FaultCause, Stopped, ToolFinished
from hermes.entry.http.ask import turns
from hermes.entry.http.site import streams
from hermes.stream.fold.failures import failure_facts
from hermes.testing.api import ApiWorld, Heard
from hermes.testing.model import Say, ScriptedModel, call, last_words, say
from hermes.testing.model_script import RawReply
from hermes.testing.model_server import FakeModelServer
from hermes.testing.tools import world_tools
from tests.entry.http.talking import CHAT, PHONE, TWO_KEYS, chunks, journal, said, sessions, words

Headers = dict[str, str]
SECRET_PLACE = "http://10.0.0.9/v1 did not accept the key."
KINDS = {
    FaultKind.TOO_LONG: (400, "context_length_exceeded", "invalid_request_error"),
    FaultKind.BUSY: (503, "model_busy", "server_error"),
    FaultKind.LIMITED_UNTIL: (429, "rate_limit_exceeded", "rate_limit_error"),
    FaultKind.NO_CREDIT: (429, "insufficient_quota", "rate_limit_error"),
    FaultKind.BAD_KEY: (502, "model_credentials_refused", "server_error"),
    FaultKind.NO_MODEL: (502, "model_unavailable", "server_error"),
    FaultKind.NO_IMAGES: (400, "images_not_supported", "invalid_request_error"),
    FaultKind.FILTERED: (400, "content_filter", "invalid_request_error"),
    FaultKind.BAD_REQUEST: (400, "model_refused_request", "invalid_request_error"),
    FaultKind.BROKEN: (502, "model_unreachable", "server_error"),
}


def failing(home: Path, kind: FaultKind) -> ApiWorld:
    until = datetime.now(UTC) + timedelta(seconds=90) if kind is FaultKind.LIMITED_UNTIL else None
    error = ModelFault(
        SECRET_PLACE, kind=kind, hint="Begin anew with /new.", after=0.0, until=until, quote="bad top_p"
    )
    model = ScriptedModel(lambda request: Say(error=error))
    return ApiWorld(home=home, provider=model, tools=(), config=TWO_KEYS)


@pytest.mark.parametrize("kind", FaultKind)
async def test_the_kind_of_a_fault_decides_the_status(kind: FaultKind, tmp_path: Path) -> None:
    async with failing(tmp_path / "home", kind) as api:
        heard = await api.post(CHAT, words("hi"), headers=PHONE)
        streamed = await api.post(CHAT, words("hi", stream=True), headers=PHONE)
        admin = await api.post(CHAT, words("hi"))
        responded = await api.post("/v1/responses", {"input": "hi"}, headers=PHONE)
        path = f"/v1/responses/{responded.json['hermes']['response_id']}"
        response = (await api.get(path, headers=PHONE)).json
        detailed = await api.post("/v1/responses", {"input": "hi"})
    status, code, sort = KINDS[kind]
    assert response["status"] == "failed"
    assert response["error"] == {"type": sort, "code": code, "message": heard.json["error"]["message"]}
    assert detailed.json["error"] == admin.json["error"]
    for answer in (heard, streamed, responded):
        error = answer.json["error"]
        assert (answer.status, error["code"], error["type"]) == (status, code, sort)
        assert answer.headers["x-should-retry"] == "false"
        assert "10.0.0.9" not in str(answer.data) and "/new" not in str(answer.data)
        assert ("bad top_p" in error["message"]) is (kind is FaultKind.BAD_REQUEST)
        after = answer.headers.get("Retry-After")
        assert (80 < int(after or 0) <= 90) is (kind is FaultKind.LIMITED_UNTIL)
    assert ("10.0.0.9" in admin.json["error"]["message"]) is (kind is not FaultKind.TOO_LONG)
    assert "/new" not in str(admin.data)


@pytest.mark.parametrize("kind", FaultKind)
async def test_runs_and_sessions_tell_of_a_fault_as_other_doors_do(kind: FaultKind, tmp_path: Path) -> None:
    async with failing(tmp_path / "home", kind) as api:
        failed = await api.post(CHAT, words("hi"), headers=PHONE)
        why = failed.json["error"]["message"]
        path = f"/v1/runs/{failed.headers['X-Hermes-Run-Id']}"
        assert (await api.get(path, headers=PHONE)).json["error"] == why
        events = [event async for event in api.events(f"{path}/events", method="GET", headers=PHONE)]
        assert json.loads(events[-1].data)["error"] == why
        named = {**PHONE, "X-Hermes-Session-Id": "s"}
        await api.post(CHAT, words("hi"), headers=named)
        said = await api.post("/api/sessions/s/chat", {"message": "hi"}, headers=PHONE)
        assert said.json["error"]["code"] == KINDS[kind][1] and said.json["error"]["message"] == why
        streamed = api.events("/api/sessions/s/chat/stream", {"message": "hi"}, headers=PHONE)
        told = [json.loads(event.data) async for event in streamed if event.name == "error"]
        assert [each["message"] for each in told] == [why]
        shown = (await api.get(path)).json["error"]
        assert ("10.0.0.9" in shown) is (kind is not FaultKind.TOO_LONG), "for who runs the gateway"


def test_of_long_words_of_a_service_only_the_beginning_is_told() -> None:
    """A provider from a plugin may quote anything, and looking for addresses takes long in a long text."""
    late = "x " * 240 + "at http://10.0.0.9:8000/v1/models " + "y" * 9_000
    for quoted in ("a" * 100_000, "a." * 50_000, late):
        cause = FaultCause(kind=FaultKind.BAD_REQUEST, detail="no", quote=quoted)
        message = failure_facts(Failed(reason="no", cause=cause)).message
        assert len(message) < 1_000 and "10.0" not in message


@pytest.mark.parametrize(
    "place",
    [
        "http://10.0.0.9:8000/v1/x",
        "10.0.0.9:8000",
        "[fd00::1]:80",
        "llm.lan:8000",
        "localhost",
        "/srv/models/m",
    ],
)
def test_what_a_service_said_names_no_place(place: str) -> None:
    cause = FaultCause(kind=FaultKind.BAD_REQUEST, detail=place, quote=f"top_p 1.5 and/or {place} is bad")
    end = Failed(reason=place, cause=cause)
    assert "It says: top_p 1.5 and/or … is bad." in failure_facts(end).message
    assert place in failure_facts(end, detailed=True).message


@pytest.mark.parametrize(
    ("reply", "status", "code"),
    [
        (RawReply(status=429, headers={"Retry-After": "0"}), 429, "rate_limit_exceeded"),
        (
            RawReply(status=400, body=b'{"error": {"code": "context_length_exceeded", "message": "long"}}'),
            400,
            "context_length_exceeded",
        ),
        (RawReply(status=400, body=b'{"error": {"message": "no such seed"}}'), 400, "model_refused_request"),
        (RawReply(status=401), 502, "model_credentials_refused"),
    ],
)
async def test_what_a_service_answers_keeps_its_kind_through_the_gateway(
    reply: RawReply, status: int, code: str, tmp_path: Path
) -> None:
    async with FakeModelServer(lambda request: reply) as server:
        config = f"model: {{provider: custom, base_url: '{server.base_url}', default: m}}"
        async with ApiWorld(home=tmp_path / "home", provider=None, tools=(), config=config) as api:
            heard = await api.post(CHAT, words("hi"))
    assert (heard.status, heard.json["error"]["code"]) == (status, code)
    assert ("Retry-After" in heard.headers) is (status == 429)


class LateModel(ScriptedModel):
    """Fails once it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.fail = asyncio.Event()

    async def call(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        await self.fail.wait()
        raise ModelFault("no", kind=FaultKind.TOO_LONG)
        yield


async def test_a_stream_that_was_late_tells_its_failure_in_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that hears nothing for a while is answered, and then an error can only be a part of it."""
    monkeypatch.setattr(streams, "HELD_SECONDS", 0.0)
    monkeypatch.setattr(streams, "_LOOK_SECONDS", 0.01)
    model = LateModel()
    async with ApiWorld(home=tmp_path / "home", provider=model, tools=()) as api:
        async with api.http.post(api.address + CHAT, json=words("hi", stream=True)) as response:
            assert response.status == 200 and "X-Hermes-Run-Id" in response.headers
            model.fail.set()
            text = await response.text()
    assert '"code":"context_length_exceeded"' in text and text.endswith("data: [DONE]\n\n")


# --- clients that try again by themselves ---


class Acting:
    """A model whose tool acts before it fails, and a client that counts its tries."""

    def __init__(self, home: Path, config: str = TWO_KEYS) -> None:
        self.done: list[str] = []
        self.waiting, self.hold = asyncio.Event(), asyncio.Event()
        self.model = ScriptedModel(self._script)
        tools = tuple(world_tools(self._act))
        self.api = ApiWorld(home=home, provider=self.model, tools=tools, config=config)

    async def _act(self, name: str, key: str, token: str) -> None:
        self.done.append(token)

    def _script(self, request: ModelRequest) -> Say:
        asked = last_words(request)
        acted = any(isinstance(entry.record, ToolFinished) for entry in request.entries)
        if "act" in asked and not acted:
            acting = call("once", '{"token": "m1"}')
            return replace(acting, text="I begin.") if "speak" in asked else acting
        if "fail" in asked:
            return Say(error=ModelFault("no", kind=FaultKind.BAD_KEY))
        if "wait" in asked:
            self.waiting.set()
            return Say(text="waited", hold=self.hold)
        return say(f"answer {len(self.model.requests)}")

    async def ask(
        self, text: str, tries: int | None = None, *, stream: bool = False, by: Headers | None = None
    ) -> Heard:
        counted = {} if tries is None else {"X-Stainless-Retry-Count": str(tries)}
        counted |= by or {}
        return await self.api.post(CHAT, words(text, stream=stream), headers=counted)

    async def respond(self, given: object, tries: int, **more: object) -> Heard:
        counted = {"X-Stainless-Retry-Count": str(tries)}
        body = {"input": given, "store": False, **more}
        return await self.api.post("/v1/responses", body, headers=counted)


async def ends(api: ApiWorld) -> list[object]:
    """The last records of all sessions."""
    journals = [await journal(api, session.id) for session in await sessions(api)]
    return [entries[-1].record for entries in journals if entries]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_later_try_of_what_did_something_is_the_same_turn(stream: bool, tmp_path: Path) -> None:
    world = Acting(tmp_path / "home")
    async with world.api:
        first = await world.ask("act and fail", 0, stream=stream)
        again = [await world.ask("act and fail", tries, stream=stream) for tries in (1, 2)]
        assert world.done == ["m1"] and len(await sessions(world.api)) == 1
        for each in (first, *again):
            assert "model_credentials_refused" in str(each.data) and each.status == (200 if stream else 502)
            assert each.headers["X-Hermes-Run-Id"] == first.headers["X-Hermes-Run-Id"]
        # By somebody else, or with other words, it is another turn.
        await world.ask("act and fail", 1, stream=stream, by=PHONE)
        await world.ask("act and fail!", 1, stream=stream)
        assert len(await sessions(world.api)) == 3


@pytest.mark.parametrize("stream", [False, True])
async def test_what_failed_after_it_acted_is_not_run_again_for_a_client_that_counts_no_tries(
    stream: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The AI SDK repeats every 5xx by itself, whatever the headers say. A restart changes nothing."""
    world = Acting(tmp_path / "home")
    async with world.api:
        first = await world.ask("act and fail", stream=stream)
        again = await world.ask("act and fail", stream=stream)
        assert first.headers["X-Hermes-Run-Id"] == again.headers["X-Hermes-Run-Id"]
        assert "not run again" not in str(first.data) and "send an Idempotency-Key" in str(again.data)
        assert world.done == ["m1"] and len(world.model.requests) == 2
    world = Acting(tmp_path / "home")
    async with world.api:
        assert (await world.ask("act and fail", stream=stream)).status == first.status
        assert not world.model.requests
        # Who wants it run again gives it a key, or waits.
        await world.ask("act and fail", stream=stream, by={"Idempotency-Key": "again"})
        assert world.done == ["m1"] and len(world.model.requests) == 2
        monkeypatch.setattr(turns, "FAILURE_KEPT", timedelta(0))
        await world.ask("act and fail", stream=stream)
        assert world.done == ["m1", "m1"] and len(world.model.requests) == 4


async def test_what_failed_in_a_session_after_it_acted_is_not_run_again_either(tmp_path: Path) -> None:
    world = Acting(tmp_path / "home")
    async with world.api as api:
        for _ in range(2):
            assert (await world.ask("act and fail", by={"X-Hermes-Session-Id": "s"})).status == 502
        assert (await world.ask("act and fail", by={"X-Hermes-Session-Id": "t"})).status == 502
        assert world.done == ["m1", "m1"] and said(await journal(api, "s")) == ["act and fail"]


async def test_what_was_answered_or_left_is_run_again_when_it_is_asked_again(tmp_path: Path) -> None:
    world = Acting(tmp_path / "home")
    async with world.api as api:
        for _ in range(2):
            assert (await world.ask("act")).status == 200
        assert world.done == ["m1", "m1"]
        asking = asyncio.create_task(world.ask("act and wait"))
        await asyncio.wait_for(world.waiting.wait(), 20)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        for _ in range(4000):
            if any(isinstance(end, Stopped) for end in await ends(api)):
                break
            await asyncio.sleep(0.01)
        world.hold.set()
        assert (await world.ask("act and wait")).status == 200
        assert world.done == ["m1"] * 4


async def test_a_later_try_gets_the_answer_that_was_lost_on_its_way(tmp_path: Path) -> None:
    world = Acting(tmp_path / "home")
    async with world.api:
        first = await world.ask("act", 0)
        again = await world.ask("act", 1)
        assert again.json == first.json and world.done == ["m1"]


async def test_a_later_try_of_what_was_turned_away_is_no_repeat_of_an_older_request(tmp_path: Path) -> None:
    """Somebody asks the same again and again, and once there is no place for the first try."""
    world = Acting(tmp_path / "home", "platforms: {api_server: {max_concurrent_runs: 1}}\n")
    async with world.api:
        first = await world.ask("act", 0)
        other = asyncio.create_task(world.ask("wait", 0))
        await world.waiting.wait()
        assert (await world.ask("act", 0)).status == 429
        world.hold.set()
        await other
        second = await world.ask("act", 1)
        assert second.json["id"] != first.json["id"] and world.done == ["m1", "m1"]
        # And a further try of that one is it.
        assert (await world.ask("act", 2)).json == second.json


@pytest.mark.parametrize("stream", [False, True])
async def test_a_later_try_of_a_response_that_is_not_stored_is_the_same_turn(
    stream: bool, tmp_path: Path
) -> None:
    world = Acting(tmp_path / "home")
    async with world.api:
        asked = {"stream": stream, "metadata": {"for": "me"}}
        first = await world.respond("act", 0, **asked)
        again = await world.respond("act", 1, **asked)
        assert world.done == ["m1"] and len(await sessions(world.api)) == 1
        assert again.data == first.data and b'"for":"me"' in first.data
        # It can still not be looked up, and asked anew it is another turn.
        name = first.headers["X-Hermes-Run-Id"].replace("run_", "resp_")
        assert (await world.api.get(f"/v1/responses/{name}")).status == 404
        await world.respond("act", 0, **asked)
        await world.respond("fail", 0)
        await world.respond("fail", 1)
        assert len(await sessions(world.api)) == 4


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("chain", [None, "plans"])
async def test_a_later_try_of_a_stored_response_is_the_same_turn(
    chain: str | None, stream: bool, tmp_path: Path
) -> None:
    """Also in a named conversation, and while the first try runs and takes the only place there is."""
    limited = "platforms: {api_server: {max_concurrent_runs: 1}}\n"
    world = Acting(tmp_path / "home", limited)
    async with world.api:
        asked = {"stream": stream, "store": True} | ({"conversation": chain} if chain else {})
        first = asyncio.create_task(world.respond("act and wait", 0, **asked))
        await asyncio.wait_for(world.waiting.wait(), 20)
        second = asyncio.create_task(world.respond("act and wait", 1, **asked))
        world.hold.set()
        assert (await second).data == (await first).data and world.done == ["m1"]
        assert (await world.respond("act and wait", 2, **asked)).data == (await first).data
        name = (await first).headers["X-Hermes-Run-Id"].replace("run_", "resp_")
        assert (await world.api.get(f"/v1/responses/{name}")).status == 200
        # Asked anew it is another turn, and so are other words.
        for text, tries in (("act and wait", 0), ("act", 1)):
            await world.respond(text, tries, **asked)
        assert world.done == ["m1"] * (1 if chain else 3)
        assert len(world.model.requests) == (4 if chain else 6)


async def test_a_try_while_an_earlier_one_is_being_stopped_does_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client gave up on its first try in the middle of a tool; its second is told to wait, and the third
    is given what came of the first."""
    world = Acting(tmp_path / "home")

    async def act(name: str, key: str, token: str) -> None:
        world.done.append(token)
        world.waiting.set()
        while not world.hold.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await world.hold.wait()

    monkeypatch.setattr(turns, "RETRY_SECONDS", 0.0)
    world.api.tools = tuple(world_tools(act))
    async with world.api as api:
        asking = asyncio.create_task(world.ask("act", 0))
        await asyncio.wait_for(world.waiting.wait(), 20)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        (session,) = await sessions(api)
        for _ in range(4000):
            (turn,) = await api.app.gateway.read(MAIN_AGENT, lambda tx: tx.turns.open_of(session.id))
            if turn.stop is not None:
                break
            await asyncio.sleep(0.01)
        told = await world.ask("act", 1)
        assert told.status == 503 and told.headers["Retry-After"] == "1"
        world.hold.set()
        for _ in range(4000):
            if any(isinstance(end, Stopped) for end in await ends(api)):
                break
            await asyncio.sleep(0.01)
        again = await world.ask("act", 2)
        assert again.headers["X-Hermes-Run-Id"] == turns.run_name(turn) and world.done == ["m1"]


async def leave(world: Acting, asking: Coroutine[object, object, Heard]) -> None:
    """Ask, and hang up while the model still speaks."""
    task = asyncio.ensure_future(asking)
    await asyncio.wait_for(world.waiting.wait(), 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def until(told: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(4000):
        if await told():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not happen")


@pytest.mark.parametrize("unstored", [False, True])
async def test_a_later_try_joins_a_run_whose_first_try_was_given_up(unstored: bool, tmp_path: Path) -> None:
    """OpenAI's libraries give up after their timeout, and come back at once."""
    world = Acting(tmp_path / "home")
    ask = partial(world.respond if unstored else world.ask, "speak, act and wait")
    async with world.api as api:
        await leave(world, ask(0))
        (session,) = await sessions(api)
        (turn,) = await api.app.gateway.read(MAIN_AGENT, lambda tx: tx.turns.open_of(session.id))

        async def is_left() -> bool:
            return not api.app.gateway.feeds.is_watched(turn.id)

        await until(is_left)
        again = asyncio.ensure_future(ask(1))
        await asyncio.sleep(0.1)
        world.hold.set()
        answer = await again
    assert (answer.status, world.done) == (200, ["m1"]) and "waited" in str(answer.data)


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("door", ["chat", "chat stream", "responses"])
async def test_what_its_client_left_is_no_answer_to_a_later_try(
    door: str, restart: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it had said by then must not look like its answer, whoever stopped it: nobody, after a kill."""
    monkeypatch.setattr(turns, "RETRY_SECONDS", 60.0 if restart else 0.0)

    def ask(world: Acting, tries: int) -> Coroutine[object, object, Heard]:
        text = "speak, act and wait"
        streamed = door == "chat stream"
        return world.respond(text, tries) if door == "responses" else world.ask(text, tries, stream=streamed)

    world = Acting(tmp_path / "home")
    async with contextlib.AsyncExitStack() as lives:
        api = await lives.enter_async_context(world.api)
        await leave(world, ask(world, 0))
        if restart:
            await lives.aclose()
            world = Acting(tmp_path / "home")
            api = await lives.enter_async_context(world.api)

        async def is_stopped() -> bool:
            return any(isinstance(end, Stopped) for end in await ends(api))

        await until(is_stopped)
        again = await ask(world, 1)
        assert "because its client disconnected. It had used tools" in str(again.data)
        assert b'"code":"agent_incomplete"' in again.data and b'finish_reason":"stop' not in again.data
        assert again.status == (200 if door == "chat stream" else 502)
        assert len(await sessions(api)) == 1
        # To ask anew is another request.
        world.hold.set()
        assert (await ask(world, 0)).status == 200


@pytest.mark.parametrize("store", [False, True])
async def test_a_response_that_failed_after_it_acted_is_not_run_again(store: bool, tmp_path: Path) -> None:
    """pydantic-ai counts no tries, and took an empty answer for a reason to ask again."""
    world = Acting(tmp_path / "home")
    async with world.api as api:
        body = {"input": "act and fail", "store": store}
        first, again = [await api.post("/v1/responses", body) for _ in range(2)]
        assert (first.status, again.status, world.done) == (502, 502, ["m1"])
        assert first.headers["X-Hermes-Run-Id"] == again.headers["X-Hermes-Run-Id"]
        assert "not run again" not in str(first.data) and "send an Idempotency-Key" in str(again.data)
        # One that is made in the background is looked up, and tells of its failure there.
        if store:
            made = await api.post("/v1/responses", {**body, "background": True})
            assert made.status == 200


async def test_results_that_a_later_try_brings_to_an_unstored_response_count_once(tmp_path: Path) -> None:
    function = {"type": "function", "name": "weather", "parameters": {"type": "object"}}

    def script(request: ModelRequest) -> Say:
        results = [entry for entry in request.entries if isinstance(entry.record, ToolFinished)]
        return say("rain, then") if results else call("weather", "{}")

    model = ScriptedModel(script)
    world = Acting(tmp_path / "home")
    world.api = ApiWorld(home=tmp_path / "home", provider=model)
    async with world.api:
        asked = (await world.respond("how is it?", 0, tools=[function])).json
        (wanted,) = asked["output"]
        result = {"type": "function_call_output", "call_id": wanted["call_id"], "output": "rain"}
        given = [{"role": "user", "content": "how is it?"}, wanted, result]
        done = await world.respond(given, 0, tools=[function])
        again = await world.respond(given, 1, tools=[function])
        assert done.json["id"] == f"{asked['id']}_2" and again.json == done.json
        assert len(model.requests) == 2 and len(await sessions(world.api)) == 1


async def test_a_turn_that_failed_before_it_did_anything_is_tried_again(tmp_path: Path) -> None:
    world = Acting(tmp_path / "home")
    async with world.api:
        await world.ask("fail", 0)
        await world.ask("fail", 1)
        assert len(world.model.requests) == 2 and len(await sessions(world.api)) == 2


async def test_what_is_told_beside_a_stream_is_never_an_event_of_its_own(tmp_path: Path) -> None:
    world = Acting(tmp_path / "home")
    async with world.api as api:
        events = [event async for event in api.events(CHAT, words("act", stream=True))]
        assert {event.name for event in events} == {"message"} and len(chunks(events)) > 3
