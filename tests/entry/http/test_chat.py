"""Chat completions: shapes, sessions, pictures, and clients that go away."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hermes.agent.models.formats.chat_completions.request import encode_messages
from hermes.domain.chats.message import MediaKind
from hermes.domain.errors import Refused
from hermes.domain.ids import SessionId
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.turns.event import Ending, Finished, Stopped
from hermes.domain.turns.turn import Speaker, Turn
from hermes.domain.word import replace
from hermes.entry.http.site.headers import TELLING
from hermes.testing.api import ApiWorld
from hermes.testing.model import Say, ScriptedModel, call, echo, say
from hermes.testing.tools import world_tools
from tests.entry.http.talking import (
    CHAT,
    PHONE,
    TWO_KEYS,
    beside,
    chunks,
    content,
    ended,
    journal,
    said,
    sessions,
    words,
)

PNG = b"\x89PNG\r\n\x1a\n" + b"x" * 20


async def nothing(name: str, key: str, token: str) -> None:
    return None


def data_url(data: bytes, mime: str = "image/png") -> str:
    return f"data:{mime};base64,{base64.b64encode(data).decode()}"


def picture(url: str) -> dict[str, object]:
    parts = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": url}}]
    return {"messages": [{"role": "user", "content": parts}]}


# --- shapes ---


@pytest.mark.parametrize("apart", [False, True])
async def test_a_stream_has_the_chunks_that_clients_expect(apart: bool, tmp_path: Path) -> None:
    async with ApiWorld(home=tmp_path / "home", provider=ScriptedModel([say("one two", pieces=3)])) as api:
        more = {"stream_options": {"include_usage": True}} if apart else {}
        events = [event async for event in api.events(CHAT, words("hi", stream=True, **more))]
    assert events[-1].data == "[DONE]"
    parts = chunks(events)
    assert parts[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert content(events) == "one two"
    assert {part["id"] for part in parts} == {parts[0]["id"]}
    usage = {
        "prompt_tokens": 1,
        "completion_tokens": 2,
        "total_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }
    last = parts[-1]
    if apart:
        assert (last["choices"], last["usage"]) == ([], usage)
        last = parts[-2]
        assert "usage" not in last
    else:
        assert last["usage"] == usage
    assert last["choices"][0]["finish_reason"] == "stop"
    assert all(part["choices"] for part in parts[: -1 if apart else None])


async def test_tools_at_work_are_events_beside_the_answer(tmp_path: Path) -> None:
    script = [call("read", '{"token": "m1"}'), say("done")]
    world = ApiWorld(
        home=tmp_path / "home", provider=ScriptedModel(script), tools=tuple(world_tools(nothing))
    )
    async with world as api:
        events = [event async for event in api.events(CHAT, words("go", stream=True))]
    progress = beside(events, "hermes.tool.progress")
    assert [(one["tool"], one["status"]) for one in progress] == [("read", "running"), ("read", "completed")]
    assert progress[0]["toolCallId"] == progress[1]["toolCallId"] == "call_read"
    assert all(
        part["choices"][0]["delta"] == {} for part in chunks(events) if "event" in part.get("hermes", ())
    )
    assert content(events) == "done"


async def test_thoughts_between_tags_are_reasoning_and_no_content(tmp_path: Path) -> None:
    """Ollama and vLLM hand out the thoughts of many models so."""

    def script(request: ModelRequest) -> Say:
        return say("<think>\nA riddle.</think>\n\nForty-two.", pieces=9)

    async with ApiWorld(home=tmp_path / "home", provider=ScriptedModel(script)) as api:
        heard = await api.post(CHAT, words("hi"))
        events = [event async for event in api.events(CHAT, words("hi", stream=True))]
    message = heard.json["choices"][0]["message"]
    assert (message["content"], message["reasoning_content"]) == ("Forty-two.", "A riddle.")
    deltas = [part["choices"][0]["delta"] for part in chunks(events)]
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == "A riddle."
    assert content(events) == "Forty-two."


async def test_the_words_beside_a_call_of_the_client_have_no_thoughts(tmp_path: Path) -> None:
    tools = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
    asking = call("weather", "{}")
    script = [replace(asking, text="<think>Ask first.</think>One moment.")]
    async with ApiWorld(home=tmp_path / "home", provider=ScriptedModel(script)) as api:
        heard = await api.post(CHAT, words("hi", tools=tools))
    message = heard.json["choices"][0]["message"]
    assert [one["function"]["name"] for one in message["tool_calls"]] == ["weather"]
    assert (message["content"], message["reasoning_content"]) == ("One moment.", "Ask first.")


async def test_an_answer_that_was_cut_says_so(tmp_path: Path) -> None:
    def script(request: ModelRequest) -> Say:
        return Say(text="and so on", ending=Ending.LENGTH)

    async with ApiWorld(home=tmp_path / "home", provider=ScriptedModel(script)) as api:
        heard = await api.post(CHAT, words("hi"))
        events = [event async for event in api.events(CHAT, words("hi", stream=True))]
    assert heard.json["choices"][0]["finish_reason"] == "length"
    assert chunks(events)[-1]["choices"][0]["finish_reason"] == "length"


async def test_without_any_words_it_is_a_bad_gateway(tmp_path: Path) -> None:
    model = ScriptedModel(lambda request: Say(error=Refused("The model said no")))
    async with ApiWorld(home=tmp_path / "home", provider=model) as api:
        heard = await api.post(CHAT, words("hi"))
        assert (heard.status, heard.json["error"]["code"]) == (502, "agent_incomplete")
        assert "The model said no" in heard.json["error"]["message"]
        assert heard.headers["X-Hermes-Completed"] == "false"
        assert heard.headers["X-Hermes-Partial"] == "false"
        assert "The model said no" in heard.headers["X-Hermes-Error"]
        assert heard.headers["X-Hermes-Run-Id"].startswith("run_")
        assert heard.headers["x-should-retry"] == "false"
        streamed = await api.post(CHAT, words("hi", stream=True))
        assert (streamed.status, streamed.json["error"]) == (502, heard.json["error"])
        assert streamed.headers["x-should-retry"] == "false"
        assert streamed.headers["X-Hermes-Run-Id"].startswith("run_")


async def test_a_turn_that_fails_gives_its_last_words(tmp_path: Path) -> None:
    """Those of its latest round, if it never came to an answer."""
    script = [
        replace(call("read", '{"token": "m1"}', id="c1"), text="First I look."),
        replace(call("read", '{"token": "m2"}', id="c2"), text="Then I look again."),
        Say(error=Refused("The model said no")),
    ]
    tools = tuple(world_tools(nothing))
    async with ApiWorld(home=tmp_path / "home", provider=ScriptedModel(script), tools=tools) as api:
        heard = await api.post(CHAT, words("go"))
    assert (heard.status, heard.headers["x-should-retry"]) == (502, "false")
    assert heard.json["hermes"] == {
        "completed": False,
        "partial": True,
        "failed": True,
        "content": "Then I look again.",
    }
    assert heard.headers["X-Hermes-Partial"] == "true"


async def test_a_stream_that_fails_after_its_first_words_ends_with_an_error(tmp_path: Path) -> None:
    script = [
        replace(call("read", '{"token": "m1"}', id="c1"), text="First I look."),
        Say(error=Refused("The model said no")),
    ]
    tools = tuple(world_tools(nothing))
    async with ApiWorld(home=tmp_path / "home", provider=ScriptedModel(script), tools=tools) as api:
        events = [event async for event in api.events(CHAT, words("go", stream=True))]
    *said_before, last = chunks(events)
    assert last["error"]["code"] == "agent_incomplete" and "said no" in last["error"]["message"]
    assert last["error"].keys() == {"message", "type", "param", "code"}
    assert not any(part["choices"][0]["finish_reason"] for part in said_before)
    assert events[-1].data == "[DONE]"


@pytest.mark.parametrize("name", TELLING)
@pytest.mark.parametrize("value", [" ", "a/b", "..\\x", "n" * 300])
async def test_a_header_that_is_no_name_is_refused_used_or_not(name: str, value: str, tmp_path: Path) -> None:
    ways = {CHAT: words("hi"), "/v1/runs": {"input": "hi"}, "/v1/responses": {"input": "hi"}}
    async with ApiWorld(home=tmp_path / "home", provider=ScriptedModel(echo)) as api:
        for way, body in ways.items():
            heard = await api.post(way, body, headers={name: value})
            assert heard.status == 400 and heard.json["error"]["param"] == name, (way, heard.json)
        assert await sessions(api) == []


async def test_what_was_said_before_it_was_stopped_is_given(tmp_path: Path) -> None:
    hold = asyncio.Event()
    model = ScriptedModel([Say(text="half an ans", hold=hold)])
    headers = {"X-Hermes-Session-Id": "s", "X-Hermes-Session-Key": "ann"}
    async with ApiWorld(home=tmp_path / "home", provider=model) as api:
        asking = asyncio.create_task(api.post(CHAT, words("hi"), headers=headers))
        turn = await running(api, "s")
        await api.app.gateway.stop_turn(turn.agent, turn.id, "stopped by hand")
        heard = await asking
    assert heard.status == 200
    assert heard.json["choices"][0]["message"]["content"] == "half an ans"
    assert heard.json["hermes"] == {
        "completed": False,
        "partial": True,
        "failed": False,
        "error": "stopped by hand",
        "error_code": "agent_stopped",
    }
    assert heard.headers["X-Hermes-Partial"] == "true"
    assert (heard.headers["X-Hermes-Session-Id"], heard.headers["X-Hermes-Session-Key"]) == ("s", "ann")


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"n": 2}, "unsupported_parameter"),
        ({"tool_choice": "required"}, "unsupported_tool_choice"),
        ({"tool_choice": {"type": "function", "function": {"name": "x"}}}, "unsupported_tool_choice"),
        ({"tools": [{"type": "web_search"}]}, "unsupported_tool"),
        ({"tools": [{"type": "function", "function": {"name": "no blanks"}}]}, "invalid_request"),
        ({"tools": [{"function": {"name": "a"}}, {"function": {"name": "a"}}]}, "invalid_request"),
        ({"tools": [{"function": {"name": f"a{n}"}} for n in range(129)]}, "invalid_request"),
        ({"messages": [{"role": "assistant", "content": ""}]}, "invalid_request"),
        ({"messages": [{"role": "function", "name": "f", "content": "42"}]}, "invalid_request"),
        ({"messages": [{"role": "tool", "content": "42"}]}, "invalid_request"),
        ({"messages": [{"role": "wizard", "content": "hi"}]}, "invalid_request"),
    ],
)
async def test_what_cannot_be_done_is_refused(more: dict[str, object], code: str, tmp_path: Path) -> None:
    async with ApiWorld(home=tmp_path / "home") as api:
        heard = await api.post(CHAT, {**words("hi"), **more})
        assert (heard.status, heard.json["error"]["code"]) == (400, code)
        assert heard.json["error"]["message"].endswith(".")
        assert not await sessions(api)


# --- sessions ---


async def test_a_conversation_of_its_own_keeps_only_what_is_said_now(tmp_path: Path) -> None:
    model = ScriptedModel(echo)
    body = {
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "my name is Ann"},
            {"role": "assistant", "content": "hello Ann"},
            {"role": "user", "content": "who am I?"},
        ]
    }
    async with ApiWorld(home=tmp_path / "home", provider=model) as api:
        first, second = await api.post(CHAT, body), await api.post(CHAT, body)
        names = [one.headers["X-Hermes-Session-Id"] for one in (first, second)]
        assert names[0] != names[1], "two clients that begin alike share a session"
        assert said(await journal(api, names[0])) == ["who am I?"]
        request = model.requests[0]
        assert [(one.by, one.text) for one in request.history] == [
            (Speaker.USER, "my name is Ann"),
            (Speaker.AGENT, "hello Ann"),
        ]
        assert request.system.endswith("Be kind.")
        assert all(one.expires_at is not None for one in await sessions(api))


async def test_a_days_old_conversation_is_forgotten_unless_somebody_came_back(tmp_path: Path) -> None:
    async with ApiWorld(home=tmp_path / "home") as api:
        gone, kept = [(await api.post(CHAT, words("hi"))).headers["X-Hermes-Session-Id"] for _ in range(2)]
        await api.post(CHAT, words("again"), headers={"X-Hermes-Session-Id": kept})
        now = datetime.now(UTC)
        later = now + timedelta(days=1, minutes=1)
        await api.app.store.write(lambda tx: tx.recovery.prune(now, later))
        assert [one.id for one in await sessions(api)] == [kept]
        assert await journal(api, gone) == []


async def test_a_named_session_is_told_its_own_history_not_the_requests(tmp_path: Path) -> None:
    model = ScriptedModel(echo)
    headers = {"X-Hermes-Session-Id": "notes"}
    async with ApiWorld(home=tmp_path / "home", provider=model) as api:
        await api.post(CHAT, words("first"), headers=headers)
        body = {
            "messages": [
                {"role": "user", "content": "made up"},
                {"role": "assistant", "content": "made up too"},
                {"role": "user", "content": "second"},
            ]
        }
        heard = await api.post(CHAT, body, headers=headers)
        assert heard.json["choices"][0]["message"]["content"] == "You said: second"
        assert model.requests[1].history == ()
        assert said(await journal(api, "notes")) == ["first", "second"]
        assert (await sessions(api))[0].expires_at is None


async def test_a_session_of_another_key_or_agent_is_not_entered(tmp_path: Path) -> None:
    async with ApiWorld(home=tmp_path / "home", config=TWO_KEYS) as api:
        headers = {"X-Hermes-Session-Id": "mine"}
        await api.post(CHAT, words("secret"), headers=headers)
        foreign = await api.post(CHAT, words("hi"), headers={**PHONE, **headers})
        assert (foreign.status, foreign.json["error"]["code"]) == (404, "not_found")
        other = await api.post(CHAT, words("hi", model="helper"), headers=headers)
        assert (other.status, other.json["error"]["code"]) == (409, "session_exists")
        assert said(await journal(api, "mine")) == ["secret"]


async def test_only_lasting_sessions_have_a_log(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with ApiWorld(home=home) as api:
        passing = await api.post(CHAT, words("first"))
        await api.post(CHAT, words("hi"), headers={"X-Hermes-Session-Id": "notes"})
    assert [path.name for path in (home / "sessions").glob("*.jsonl")] == ["notes.jsonl"]
    name = passing.headers["X-Hermes-Session-Id"]
    async with ApiWorld(home=home) as api:
        await api.post(CHAT, words("second"), headers={"X-Hermes-Session-Id": name})
    lines = (home / "sessions" / f"{name}.jsonl").read_text().splitlines()
    assert len(lines) == 4, "a session that somebody came back to has its log from the beginning"


async def test_chats_and_threads_of_a_client_are_sessions(tmp_path: Path) -> None:
    async with ApiWorld(home=tmp_path / "home", config=TWO_KEYS) as api:

        async def session(chat: str, thread: str = "", key: dict[str, str] | None = None) -> str:
            headers = {"X-Hermes-Chat-Id": chat, "X-Hermes-User-Id": "ann", **(key or {})}
            if thread:
                headers["X-Hermes-Thread-Id"] = thread
            heard = await api.post(CHAT, words("hi"), headers=headers)
            assert heard.status == 200
            return heard.headers["X-Hermes-Session-Id"]

        kitchen = await session("kitchen")
        assert await session("kitchen") == kitchen
        others = [await session("attic"), await session("kitchen", "t1"), await session("kitchen", key=PHONE)]
        assert len({kitchen, *others}) == 4
        assert await session("kitchen", "t1") == others[1]
        alone = await api.post(CHAT, words("hi"), headers={"X-Hermes-Thread-Id": "t1"})
        assert alone.status == 400
        found = {one.id: one for one in await sessions(api)}
        assert found[SessionId(kitchen)].expires_at is None


# --- pictures ---


async def test_a_picture_is_stored_before_the_turn_and_shown_to_the_model(tmp_path: Path) -> None:
    model = ScriptedModel(echo)
    async with ApiWorld(home=tmp_path / "home", provider=model) as api:
        heard = await api.post(CHAT, picture(data_url(PNG)))
        assert heard.status == 200
        assert list(model.requests[0].images.values()) == [data_url(PNG)]
        entries = await journal(api, heard.headers["X-Hermes-Session-Id"])
        (image,) = entries[0].record.attachments
        assert (image.mime, image.size) == ("image/png", len(PNG))
        assert not image.ref.startswith("data:")
        await api.post(CHAT, picture("https://pictures.example/cat.png"))
        entries = await journal(api, (await sessions(api))[0].id)
        assert entries[0].record.attachments[0].ref == "https://pictures.example/cat.png"


async def test_pictures_of_the_own_network_may_be_allowed(tmp_path: Path) -> None:
    config = "platforms: {api_server: {allow_private_images: true}}"
    async with ApiWorld(home=tmp_path / "home", config=config) as api:
        assert (await api.post(CHAT, picture("http://192.168.1.20/cat.png"))).status == 200


@pytest.mark.parametrize(
    ("url", "code"),
    [
        (data_url(PNG, "image/svg+xml"), "invalid_image"),
        (data_url(b"GIF89a"), "invalid_image"),
        ("data:image/png;base64,!!!!", "invalid_image"),
        ("data:image/png,plain", "invalid_image"),
        (data_url(PNG + b"x" * 5_000_000), "image_too_large"),
        ("file:///etc/passwd", "unsupported_content_type"),
        ("data:text/html;base64,AAAA", "unsupported_content_type"),
        ("http://169.254.169.254/latest/meta-data", "invalid_image"),
        ("https://127.0.0.1:8080/a.png", "invalid_image"),
        ("https://inside.example/a.png", "invalid_image"),
        ("https://gone.example/a.png", "invalid_image"),
    ],
    ids=[
        "svg",
        "wrong type",
        "no base64",
        "not encoded",
        "large",
        "file",
        "html",
        "metadata",
        "loopback",
        "inside",
        "unknown",
    ],
)
async def test_a_wrong_picture_starts_nothing(url: str, code: str, tmp_path: Path) -> None:
    async with ApiWorld(home=tmp_path / "home") as api:
        body = io.BytesIO(json.dumps(picture(url)).encode())
        heard = await api.ask("POST", CHAT, data=body, headers={"Content-Type": "application/json"})
        assert (heard.status, heard.json["error"]["code"]) == (400, code)
        assert not await sessions(api)


# --- clients that go away ---


async def running(api: ApiWorld, session: str | None = None) -> Turn:
    """The turn that runs now, once it has spoken to the model."""
    for _ in range(8000):
        for one in await sessions(api):
            turns = await api.app.store.read(lambda tx, one=one: tx.turns.open_of(one.id))
            if turns and api.provider.requests and session in (None, one.id):
                return turns[0]
        await asyncio.sleep(0.005)
    raise AssertionError("nothing runs")


async def leave_midway(api: ApiWorld, *, stream: bool, headers: dict[str, str]) -> None:
    """Ask, and hang up while the model is still speaking."""
    if stream:
        body = words("hi", stream=True)
        async with api.http.post(api.address + CHAT, json=body, headers=headers) as response:
            await response.content.readuntil(b"half")
            response.close()
        return
    asking = asyncio.create_task(api.post(CHAT, words("hi"), headers=headers))
    await running(api)
    asking.cancel()
    await asyncio.wait((asking,))


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_goes_away_stops_its_run(stream: bool, tmp_path: Path) -> None:
    model = ScriptedModel([Say(text="half an answer", hold=asyncio.Event())])
    async with ApiWorld(home=tmp_path / "home", provider=model) as api:
        await leave_midway(api, stream=stream, headers={})
        end = await ended(api)
        assert isinstance(end, Stopped) and end.reason == "client gone"
        assert end.usage is not None and end.usage.prompt > 0, "the service bills the call all the same"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("headers", [{"X-Hermes-Session-Id": "s"}, {"Idempotency-Key": "k"}])
async def test_one_that_can_come_back_does_not(stream: bool, headers: dict[str, str], tmp_path: Path) -> None:
    hold = asyncio.Event()
    model = ScriptedModel([Say(text="half an answer", hold=hold)])
    async with ApiWorld(home=tmp_path / "home", provider=model) as api:
        await leave_midway(api, stream=stream, headers=headers)
        await asyncio.sleep(0.1)
        hold.set()
        assert await ended(api) == Finished()


async def test_by_choice_every_run_is_finished(tmp_path: Path) -> None:
    hold = asyncio.Event()
    model = ScriptedModel([Say(text="half an answer", hold=hold)])
    config = "platforms: {api_server: {on_disconnect: finish}}"
    async with ApiWorld(home=tmp_path / "home", provider=model, config=config) as api:
        await leave_midway(api, stream=True, headers={})
        await asyncio.sleep(0.1)
        hold.set()
        assert await ended(api) == Finished()


async def test_many_streams_on_a_slow_model_all_reach_it(tmp_path: Path) -> None:
    hold = asyncio.Event()
    model = ScriptedModel(lambda request: Say(text="slowly", hold=hold))
    async with ApiWorld(home=tmp_path / "home", provider=model) as api:

        async def one() -> str:
            return content([event async for event in api.events(CHAT, words("hi", stream=True))])

        asking = [asyncio.create_task(one()) for _ in range(64)]
        for _ in range(6000):
            if len(model.requests) == 64:
                break
            await asyncio.sleep(0.01)
        hold.set()
        assert len(model.requests) == 64
        assert set(await asyncio.gather(*asking)) == {"slowly"}


# --- what is said reaches the model, whole and in its place ---


async def heard_by_model(home: Path, messages: list[dict[str, object]]) -> list[dict[str, object]]:
    """What goes over the wire to the model for these messages, but the system prompt."""
    model = ScriptedModel([say("ok")])
    async with ApiWorld(home=home, provider=model, tools=()) as api:
        heard = await api.post(CHAT, {"messages": messages})
        assert heard.status == 200, heard.data
    request = model.requests[0]
    images = {image.sha256 or "": "data:…" for message in request.history for image in message.attachments}
    sent = json.loads(b"[" + encode_messages(replace(request, images=images)) + b"]")
    return [message for message in sent if message != {"role": "system", "content": request.system}]


@pytest.mark.parametrize("role", ["user", "system"])
async def test_long_texts_are_not_cut(role: str, tmp_path: Path) -> None:
    parts = [{"type": "text", "text": "A" * 70_000 + " END"}]
    hi, go = ({"role": "user", "content": text} for text in ("hi", "go"))
    sent = await heard_by_model(tmp_path / "home", [hi, {"role": role, "content": parts}, go])
    assert any("A END" in str(message["content"]) for message in sent)


CALLED = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
}


async def test_nothing_is_said_after_results_that_nothing_waits_for(tmp_path: Path) -> None:
    result = {"role": "tool", "tool_call_id": "c1", "content": "seen"}
    sent = await heard_by_model(tmp_path / "home", [{"role": "user", "content": "hi"}, CALLED, result])
    assert [message["role"] for message in sent] == ["user", "assistant", "tool"]
    assert sent[-1]["content"] == "seen"


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        (
            [{"role": "user", "content": "hi"}, {"role": "tool", "tool_call_id": "zzq", "content": "x"}],
            "messages",
        ),
        (
            [{"role": "tool", "tool_call_id": "zzq", "content": "x"}, {"role": "user", "content": "hi"}],
            "messages",
        ),
        ([{"role": "user"}], "messages[0].content"),
        ([{"role": "user", "content": None}], "messages[0].content"),
    ],
)
async def test_what_belongs_to_nothing_or_says_nothing_is_refused(
    messages: list[dict[str, object]], param: str, tmp_path: Path
) -> None:
    async with ApiWorld(home=tmp_path / "home") as api:
        heard = await api.post(CHAT, {"messages": messages})
        assert (heard.status, heard.json["error"]["param"]) == (400, param)
        assert not await sessions(api)


async def test_a_turn_that_began_with_results_goes_on_with_them_alone(tmp_path: Path) -> None:
    model = ScriptedModel([call("read", '{"token": "m1"}'), say("ok")])
    tools = tuple(world_tools(nothing))
    result = {"role": "tool", "tool_call_id": "c1", "content": "seen"}
    messages = [{"role": "user", "content": "hi"}, CALLED, result]
    async with ApiWorld(home=tmp_path / "home", provider=model, tools=tools) as api:
        await api.post(CHAT, {"messages": messages})
    sent = json.loads(b"[" + encode_messages(replace(model.requests[1], memory={})) + b"]")
    roles = ["system", "user", "assistant", "tool", "assistant", "tool"]
    assert [message["role"] for message in sent] == roles


async def test_pictures_in_results_are_shown(tmp_path: Path) -> None:
    part = {"type": "image_url", "image_url": {"url": data_url(PNG)}}
    parts = [{"type": "text", "text": "see"}, part]
    result = {"role": "tool", "tool_call_id": "c1", "content": parts}
    sent = await heard_by_model(
        tmp_path / "home",
        [{"role": "user", "content": "hi"}, CALLED, result, {"role": "user", "content": "what is it?"}],
    )
    assert sent[2]["content"] == "see"
    assert [part["type"] for part in sent[3]["content"]] == ["text", "image_url"]  # type: ignore[attr-defined]


async def test_system_messages_keep_their_place(tmp_path: Path) -> None:
    sent = await heard_by_model(
        tmp_path / "home",
        [
            {"role": "system", "content": "first"},
            {"role": "user", "content": "one"},
            {"role": "developer", "content": "middle"},
            {"role": "assistant", "content": "1"},
            {"role": "user", "content": "two"},
            {"role": "system", "content": "last"},
        ],
    )
    told = [(message["role"], message["content"]) for message in sent]
    assert told == [
        ("user", "one"),
        ("system", "middle"),
        ("assistant", "1"),
        ("system", "last"),
        ("user", "two"),
    ]


async def test_in_a_session_all_system_messages_are_instructions(tmp_path: Path) -> None:
    model = ScriptedModel([say("ok")])
    messages = [
        {"role": "user", "content": "one"},
        {"role": "system", "content": "middle"},
        {"role": "user", "content": "two"},
    ]
    async with ApiWorld(home=tmp_path / "home", provider=model, tools=()) as api:
        await api.post(CHAT, {"messages": messages}, headers={"X-Hermes-Session-Id": "s"})
    assert model.requests[0].system.endswith("middle") and not model.requests[0].history


async def test_a_reply_at_the_end_is_continued(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "count"}, {"role": "assistant", "content": "one, t"}]
    sent = await heard_by_model(tmp_path / "home", messages)  # type: ignore[arg-type]
    assert [message["role"] for message in sent] == ["user", "assistant", "user"]
    assert sent[1]["content"] == "one, t" and "Go on exactly where" in str(sent[2]["content"])
    async with ApiWorld(home=tmp_path / "home", provider=ScriptedModel([])) as api:
        refused = await api.post(CHAT, {"messages": messages}, headers={"X-Hermes-Session-Id": "s"})
        assert refused.status == 400 and "session" in refused.json["error"]["message"]


def file_part(data: bytes, name: str = "notes.txt", **more: object) -> dict[str, Any]:
    return {"type": "file", "file": {"file_data": base64.b64encode(data).decode(), "filename": name, **more}}


async def test_a_file_inside_a_request_reaches_the_agent(tmp_path: Path) -> None:
    """Words of a small text, the place of any other; and of one in an earlier message what it was."""
    model = ScriptedModel([say("read"), say("again")])
    pdf = b"%PDF-1.7\n\x00\x01"
    async with ApiWorld(home=tmp_path / "home", provider=model, tools=()) as api:
        parts = [{"type": "text", "text": "read"}, file_part(b"milk, bread"), file_part(pdf, "a/b.pdf")]
        first = {"role": "user", "content": parts}
        heard = await api.post(CHAT, {"messages": [first]})
        assert heard.status == 200, heard.data
        text, paper = model.requests[0].entries[-1].record.attachments
        assert (text.kind, text.name, text.text) == (MediaKind.FILE, "notes.txt", "milk, bread")
        assert (paper.name, paper.mime, paper.problem) == ("b.pdf", "application/pdf", None)
        assert await asyncio.to_thread(Path(paper.path or "").read_bytes) == pdf
        answer = heard.json["choices"][0]["message"]
        body = {"messages": [first, answer, {"role": "user", "content": "and now?"}]}
        assert (await api.post(CHAT, body)).status == 200
        text, paper = model.requests[1].history[0].attachments
        assert (text.text, text.pending, paper.note) == (
            "milk, bread",
            False,
            "sent earlier, not at hand now",
        )


async def test_a_file_of_a_response_and_of_a_session(tmp_path: Path) -> None:
    model = ScriptedModel([say("one"), say("two")])
    async with ApiWorld(home=tmp_path / "home", provider=model, tools=()) as api:
        data = "data:text/plain;base64," + base64.b64encode(b"milk").decode()
        part = {"type": "input_file", "filename": "n.txt", "file_data": data}
        heard = await api.post("/v1/responses", {"input": [{"role": "user", "content": [part]}]})
        assert heard.status == 200, heard.data
        items = (await api.get(f"/v1/responses/{heard.json['id']}/input_items")).json["data"]
        assert items[0]["content"] == [{"type": "input_file", "filename": "n.txt"}]
        session = (await api.post("/api/sessions", {})).json["id"]
        assert (await api.post(f"/api/sessions/{session}/chat", {"message": [part]})).status == 200
        assert [one.entries[-1].record.attachments[0].text for one in model.requests] == ["milk", "milk"]


@pytest.mark.parametrize(
    ("part", "says"),
    [
        ({"type": "file", "file": {"file_id": "file-1"}}, "nothing is uploaded or fetched here"),
        ({"type": "input_file", "file_url": "https://example.org/a.pdf"}, "inside the request"),
        ({"type": "file", "file": {"file_data": "?"}}, "The file's data is not base64."),
        ({"type": "input_audio", "text": "x"}, "text and images are, and files."),
    ],
)
async def test_files_that_cannot_be_taken(tmp_path: Path, part: dict[str, Any], says: str) -> None:
    async with ApiWorld(home=tmp_path / "home", tools=()) as api:
        heard = await api.post(CHAT, {"messages": [{"role": "user", "content": [part]}]})
        assert heard.status == 400 and says in heard.json["error"]["message"]
