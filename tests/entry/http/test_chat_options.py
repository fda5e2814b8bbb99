"""What a chat request says about its answer is honoured or refused by name, never ignored."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hermes.domain.models.call_options import CallOptions, JsonAnswer
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.turns.event import Ending, ToolFinished
from hermes.testing.api import ApiWorld
from hermes.testing.model import Say, ScriptedModel, call, say
from tests.entry.http.talking import CHAT, chunks, words
from tests.entry.http.test_client_tools import TOOLS, calls_of, with_results

SCHEMA = {"type": "object", "properties": {"age": {"type": "integer"}}}
PET = {"type": "json_schema", "json_schema": {"name": "pet", "schema": SCHEMA, "strict": True}}
NAMED = {"type": "function", "function": {"name": "weather"}}


def allowed(mode: str, *names: str) -> dict[str, Any]:
    tools = [{"type": "function", "function": {"name": name}} for name in names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}


async def asked_with(home: Path, **more: object) -> ModelRequest:
    model = ScriptedModel([say("{}")])
    async with ApiWorld(home=home, provider=model, tools=()) as api:
        heard = await api.post(CHAT, words("go", **more))
        assert heard.status == 200, heard.data
    return model.requests[0]


async def test_what_reaches_the_model(tmp_path: Path) -> None:
    request = await asked_with(
        tmp_path / "home",
        response_format=PET,
        stop="END",
        max_tokens=40,
        max_completion_tokens=40,
        temperature=0,
        top_p=0.5,
        seed=7,
        presence_penalty=1,
        frequency_penalty=-1,
        reasoning_effort="high",
        verbosity="low",
        parallel_tool_calls=False,
        user="u",
        metadata={"a": "b"},
        store=True,
        n=1,
        service_tier="auto",
        logprobs=False,
        modalities=["text"],
    )
    schema = '{"type":"object","properties":{"age":{"type":"integer"}}}'
    assert request.options == CallOptions(
        json=JsonAnswer(name="pet", schema=schema, strict=True),
        stop=("END",),
        max_tokens=40,
        temperature=0.0,
        top_p=0.5,
        seed=7,
        presence_penalty=1.0,
        frequency_penalty=-1.0,
        effort="high",
        verbosity="low",
        parallel=False,
    )


@pytest.mark.parametrize(
    ("choice", "offered", "must"),
    [
        ("auto", ["weather", "stocks"], ()),
        ("none", [], ()),
        ("required", ["weather", "stocks"], ("weather", "stocks")),
        (NAMED, ["weather"], ("weather",)),
        (allowed("auto", "stocks"), ["stocks"], ()),
        (allowed("required", "stocks"), ["stocks"], ("stocks",)),
    ],
)
async def test_tool_choice(choice: object, offered: list[str], must: tuple[str, ...], tmp_path: Path) -> None:
    request = await asked_with(tmp_path / "home", tools=TOOLS, tool_choice=choice)
    assert [tool.name for tool in request.tools] == offered
    assert request.options.must_call == must


REFUSED: list[tuple[str, object]] = [
    ("n", 2),
    ("functions", [{"name": "f"}]),
    ("function_call", {"name": "f"}),
    ("logprobs", True),
    ("top_logprobs", 3),
    ("logit_bias", {"50256": -100}),
    ("modalities", ["text", "audio"]),
    ("audio", {"voice": "alloy"}),
    ("prediction", {"type": "content", "content": "x"}),
    ("service_tier", "flex"),
    ("web_search_options", {}),
    ("top_k", 40),
    ("response_format", {"type": "grammar"}),
    ("response_format", {"type": "json_schema"}),
    ("response_format", {"type": "json_schema", "json_schema": {"name": "a b", "schema": {}}}),
    ("stop", ["a", "b", "c", "d", "e"]),
    ("stop", ""),
    ("temperature", 3),
    ("max_tokens", 0),
    ("reasoning_effort", "enormous"),
    ("tool_choice", "maybe"),
    ("tool_choice", "required"),
    ("tool_choice", NAMED),
    ("tool_choice", {"type": "allowed_tools", "allowed_tools": {"mode": "all", "tools": []}}),
    ("tool_choice", {"type": "custom", "custom": {"name": "x"}}),
]


async def test_what_is_not_honoured_is_refused_by_name(tmp_path: Path) -> None:
    async with ApiWorld(home=tmp_path / "home", provider=ScriptedModel([]), tools=()) as api:
        for param, value in REFUSED:
            heard = await api.post(CHAT, words("go", **{param: value}))
            assert (heard.status, heard.json["error"]["param"]) == (400, param)
            assert param.partition("_")[0] in heard.json["error"]["message"]


async def test_a_limit_is_told_as_the_finish_reason(tmp_path: Path) -> None:
    model = ScriptedModel(lambda request: Say(text="one two", ending=Ending.LENGTH))
    async with ApiWorld(home=tmp_path / "home", provider=model, tools=()) as api:
        heard = await api.post(CHAT, words("go", max_tokens=2))
        choice = heard.json["choices"][0]
        assert (choice["message"]["content"], choice["finish_reason"]) == ("one two", "length")
        events = [
            event async for event in api.events(CHAT, words("go", max_completion_tokens=2, stream=True))
        ]
        assert chunks(events)[-1]["choices"][0]["finish_reason"] == "length"
        assert len(model.requests) == 2


async def test_a_request_with_results_brings_its_own_options(tmp_path: Path) -> None:
    def script(request: ModelRequest) -> Say:
        results = [entry for entry in request.entries if isinstance(entry.record, ToolFinished)]
        return call("weather", id=f"w{len(results)}") if len(results) < 2 else say("done")

    model = ScriptedModel(script)
    home = tmp_path / "home"
    async with ApiWorld(home=home, provider=model, tools=()) as api:
        first = calls_of(await api.post(CHAT, words("go", tools=TOOLS, tool_choice="required", seed=1)))
    # A turn that waited through a restart has them as well.
    async with ApiWorld(home=home, provider=model, tools=()) as api:
        body = with_results(first, "rain", tool_choice=NAMED, temperature=1)
        second = calls_of(await api.post(CHAT, body))
        heard = await api.post(CHAT, with_results(second, "sun"))
        assert heard.json["choices"][0]["message"]["content"] == "done"
    one, two, three = (request.options for request in model.requests)
    assert one == CallOptions(must_call=("weather", "stocks"), seed=1)
    assert two == CallOptions(must_call=("weather",), temperature=1.0)
    assert three == CallOptions()


async def test_a_stop_text_ends_the_call(tmp_path: Path) -> None:
    """Nothing is wanted of a service that does not know such texts after it, and nothing there can fail."""
    breaks = ScriptedModel([Say(text="one STOP two", breaks_after=10)])
    never_ends = ScriptedModel([Say(text="one STOP two", pieces=3, hold=asyncio.Event())])
    for number, each in enumerate((breaks, never_ends)):
        async with ApiWorld(home=tmp_path / str(number), provider=each) as api:
            heard = await api.post(CHAT, words("hi", stop=["STOP"]))
            assert heard.status == 200
            assert heard.json["choices"][0]["message"]["content"] == "one"
            assert heard.json["choices"][0]["finish_reason"] == "stop"
            assert len(each.requests) == 1


async def test_an_option_of_the_stream_may_be_null(tmp_path: Path) -> None:
    async with ApiWorld(home=tmp_path, provider=ScriptedModel([say("fine")])) as api:
        heard = await api.post(CHAT, words("hi", stream=True, stream_options={"include_usage": None}))
        assert heard.status == 200


@pytest.mark.parametrize(
    ("path", "body", "param", "code", "says"),
    [
        (CHAT, {}, "messages", "missing_required_parameter", "The request lacks “messages”."),
        ("/v1/responses", {}, "input", "missing_required_parameter", "The request lacks “input”."),
        ("/v1/runs", {}, "input", "missing_required_parameter", "The request lacks “input”."),
        (
            CHAT,
            {"messages": [{"content": "x"}]},
            "messages[0].role",
            "missing_required_parameter",
            "The request lacks “role” at “messages[0]”.",
        ),
        (
            "/v1/responses",
            {"input": "x", "text": {"format": {"type": "json_schema", "name": 3}}},
            "text.format.name",
            "invalid_request",
            "text.format is not right at “name”: Expected `str`, got `int`.",
        ),
        (
            CHAT,
            words("x", stream_options={"include_usage": True}),
            "stream_options",
            "invalid_request",
            "stream_options is for a stream: send stream: true too.",
        ),
        (
            CHAT,
            words("x", stream=True, stream_options={"usage": True}),
            "stream_options.usage",
            "unsupported_parameter",
            "The request has “usage” at “stream_options”, which is not supported here: leave it out.",
        ),
        (
            CHAT,
            words("x", max_tokens=5, max_completion_tokens=7),
            "max_tokens",
            "invalid_request",
            "max_tokens and max_completion_tokens say different things: leave max_tokens out.",
        ),
        (
            CHAT,
            {"messages": [{"role": "user", "content": "x", "name": "[Ann] x"}]},
            "messages[0].name",
            "invalid_request",
            "A name is 1 to 64 characters without spaces, brackets and slashes.",
        ),
    ],
)
async def test_what_is_wrong_is_named_once_and_exactly(
    tmp_path: Path, path: str, body: dict[str, object], param: str, code: str, says: str
) -> None:
    async with ApiWorld(home=tmp_path / "home", tools=()) as api:
        heard = await api.post(path, body)
        facts = heard.json["error"]
        assert (heard.status, facts["param"], facts["code"], facts["message"]) == (400, param, code, says)


async def test_the_model_is_told_who_of_several_people_speaks(tmp_path: Path) -> None:
    model = ScriptedModel([say("Hello both.")])
    async with ApiWorld(home=tmp_path / "home", provider=model, tools=()) as api:
        messages = [
            {"role": "user", "content": "I am tall", "name": "ann"},
            {"role": "assistant", "content": "Noted.", "name": "helper"},
            {"role": "user", "content": "and I am small", "name": "bob"},
        ]
        assert (await api.post(CHAT, {"messages": messages})).status == 200
    request = model.requests[0]
    assert [message.text for message in request.history] == ["[ann] I am tall", "Noted."]
    assert request.entries[-1].record.text == "[bob] and I am small"


HALF = rb"a\ud83d, b\uDE00 c\ud83d\ude00 d\\ud83d"
"""Two halves, a whole one, and a backslash with letters behind it."""


@pytest.mark.parametrize("path", [CHAT, "/v1/responses"])
async def test_half_a_character_does_not_cost_the_request(tmp_path: Path, path: str) -> None:
    """JavaScript cuts texts in the middle of an emoji and writes the half as an escape."""
    model = ScriptedModel([say("ok")])
    async with ApiWorld(home=tmp_path / "home", provider=model, tools=()) as api:
        body = b'{"messages":[{"role":"user","content":"%s"}]}' if path == CHAT else b'{"input":"%s"}'
        kind = {"Content-Type": "application/json"}
        async with api.http.post(api.address + path, data=body % HALF, headers=kind) as heard:
            assert heard.status == 200, await heard.text()
    assert model.requests[0].entries[-1].record.text == "a\ufffd, b\ufffd c😀 d\\ud83d"
