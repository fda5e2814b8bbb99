"""Our wire formats against the fake model server, which speaks them as the official SDKs accept it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hermes.agent.models.effort import nearest_effort
from hermes.agent.models.encoding import in_order
from hermes.agent.models.endpoint import HttpProvider, ModelEndpoint
from hermes.agent.models.formats import load_format
from hermes.domain.chats.message import Attachment, MediaKind
from hermes.domain.errors import FaultKind, ModelFault
from hermes.domain.ids import CallId
from hermes.domain.models.call_options import CallOptions, JsonAnswer
from hermes.domain.models.model_facts import ModelFacts
from hermes.domain.models.providers import (
    ANTHROPIC_MESSAGES,
    CHAT_COMPLETIONS,
    CODEX_RESPONSES,
    CacheStyle,
    ReasoningField,
)
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.settings.declaring import Secret
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.event import Kept, ModelSaid, Notice, ToolFinished, UserSaid
from hermes.domain.word import replace
from hermes.testing.model_script import FAULTS, Framing, Reply, Said, failure
from hermes.testing.model_script import ModelRequest as Seen
from hermes.testing.model_server import FakeModelServer
from hermes.testing.provider_suite import A_TOOL, CHECKS, KEY, LONG, PORT_CHECKS, ask, hear, patience
from tests.agent.test_openai_provider import deadlines

NEW = (CODEX_RESPONSES, ANTHROPIC_MESSAGES)
ALL = (CHAT_COMPLETIONS, *NEW)


def provider_of(name: str, base_url: str, seconds: float = LONG, **fields: object) -> HttpProvider:
    endpoint = ModelEndpoint(base_url=base_url, key=Secret(KEY), deadlines=deadlines(seconds), **fields)
    return HttpProvider(endpoint, load_format(name))


@pytest.mark.parametrize("name", NEW)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_streaming(name: str, check) -> None:
    await check(lambda base_url, seconds: provider_of(name, base_url, seconds))


@pytest.mark.parametrize("name", NEW)
@pytest.mark.parametrize("check", PORT_CHECKS, ids=lambda check: check.__name__)
async def test_it_is_a_provider(name: str, check) -> None:
    async with FakeModelServer(key=KEY) as server:
        provider = provider_of(name, server.base_url)
        await check(provider)
        await provider.close()


@pytest.mark.parametrize("name", NEW)
async def test_without_streaming_the_same_is_heard(name: str) -> None:
    for title, fault in FAULTS.items():
        if fault.stream_only:
            continue
        async with FakeModelServer([fault.reply]) as server:
            provider = provider_of(name, server.base_url, patience(fault), stream=False)
            heard = await hear(provider, ask("go"))
            await provider.close()
            assert not server.requests[0].streams
            if fault.ends == "answer" and isinstance(fault.reply, Reply) and fault.reply.text == "":
                continue
            assert (heard.error is None) == (fault.ends == "answer"), (title, heard.error)


# --- options -----------------------------------------------------------------------------------------

WIDE = ModelFacts(max_output=64_000, thinking=True)
EVERY = CallOptions(
    json=JsonAnswer(name="pet", schema='{"type":"object"}', strict=True),
    stop=("END", "\n"),
    max_tokens=5000,
    temperature=0.0,
    top_p=0.5,
    parallel=False,
)


async def sent(
    name: str, options: CallOptions, model: str = "fake-model", **fields: object
) -> dict[str, Any]:
    """The body of a request as it was on the wire."""
    async with FakeModelServer(key=KEY) as server:
        provider = provider_of(name, server.base_url, facts=lambda model: WIDE, **fields)
        asked = replace(ask("hello", tools=[A_TOOL]), options=options, model=model, cache_key="k")
        assert (await hear(provider, asked)).error is None
        await provider.close()
        return dict(server.requests[0].wire)


async def test_options_have_the_names_of_the_responses_format() -> None:
    body = await sent(CODEX_RESPONSES, replace(EVERY, verbosity="low"))
    assert body["store"] is False and body["include"] == ["reasoning.encrypted_content"]
    form = {"type": "json_schema", "name": "pet", "schema": {"type": "object"}, "strict": True}
    assert body["text"] == {"verbosity": "low", "format": form}
    assert (body["max_output_tokens"], body["temperature"], body["top_p"]) == (5000, 0.0, 0.5)
    assert body["parallel_tool_calls"] is False and "stop" not in body
    assert body["tools"][0]["strict"] is False and body["tools"][0]["name"] == "write_file"
    chosen = await sent(CODEX_RESPONSES, CallOptions(must_call=("write_file",), json=JsonAnswer()))
    assert chosen["tool_choice"] == {"type": "function", "name": "write_file"} and "text" not in chosen
    assert (await sent(CODEX_RESPONSES, CallOptions(must_call=("a", "b"))))["tool_choice"] == "required"
    assert (await sent(CODEX_RESPONSES, CallOptions(json=JsonAnswer())))["text"] == {
        "format": {"type": "json_object"}
    }
    assert "max_output_tokens" not in await sent(CODEX_RESPONSES, EVERY, token_limit="")


async def test_options_have_the_names_of_the_messages_format() -> None:
    body = await sent(ANTHROPIC_MESSAGES, EVERY)
    assert body["output_config"] == {"format": {"type": "json_schema", "schema": {"type": "object"}}}
    assert (body["max_tokens"], body["temperature"], body["top_p"]) == (5000, 0.0, 0.5)
    assert body["stop_sequences"] == ["END"]
    assert body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    chosen = await sent(
        ANTHROPIC_MESSAGES, CallOptions(must_call=("write_file",), effort="high", parallel=False)
    )
    assert chosen["tool_choice"] == {"type": "tool", "name": "write_file", "disable_parallel_tool_use": True}
    assert "thinking" not in chosen, "thinking does not go with a call that must be made"
    assert (await sent(ANTHROPIC_MESSAGES, CallOptions(must_call=("a", "b"))))["tool_choice"] == {
        "type": "any"
    }
    assert (await sent(ANTHROPIC_MESSAGES, CallOptions()))["max_tokens"] == 64_000
    assert (await sent(ANTHROPIC_MESSAGES, CallOptions(), max_tokens=77))["max_tokens"] == 77


@pytest.mark.parametrize(
    ("name", "options", "word"),
    [
        *((name, CallOptions(seed=1), "seed") for name in NEW),
        *((name, CallOptions(presence_penalty=0.5), "presence_penalty") for name in NEW),
        *((name, CallOptions(frequency_penalty=0.0), "frequency_penalty") for name in NEW),
        (ANTHROPIC_MESSAGES, CallOptions(verbosity="low"), "verbosity"),
        (ANTHROPIC_MESSAGES, CallOptions(json=JsonAnswer()), "schema"),
    ],
)
async def test_what_a_format_has_no_word_for_is_refused_by_name(
    name: str, options: CallOptions, word: str
) -> None:
    async with FakeModelServer(key=KEY) as server:
        provider = provider_of(name, server.base_url)
        error = (await hear(provider, replace(ask("go"), options=options))).error
        await provider.close()
        assert isinstance(error, ModelFault) and error.kind is FaultKind.BAD_REQUEST
        assert word in error.message and error.hint and not server.requests


EFFORTS: list[tuple[str, str, str, dict[str, object]]] = [
    (CHAT_COMPLETIONS, "gpt-5", "high", {"reasoning_effort": "high"}),
    (CODEX_RESPONSES, "gpt-5", "max", {"reasoning": {"effort": "max", "summary": "auto"}}),
    (CODEX_RESPONSES, "gpt-5", "", {"reasoning": {"summary": "auto"}}),
    (ANTHROPIC_MESSAGES, "claude-sonnet-4-5", "none", {"thinking": {"type": "disabled"}}),
    (
        ANTHROPIC_MESSAGES,
        "claude-sonnet-4-20250514",
        "medium",
        {"thinking": {"type": "enabled", "budget_tokens": 10_240}},
    ),
    (ANTHROPIC_MESSAGES, "kimi-k2", "max", {"thinking": {"type": "enabled", "budget_tokens": 62_976}}),
    (ANTHROPIC_MESSAGES, "kimi-k2", "ultra", {"thinking": {"type": "enabled", "budget_tokens": 62_976}}),
    (CODEX_RESPONSES, "gpt-5", "ultra", {"reasoning": {"effort": "max", "summary": "auto"}}),
    *(
        (
            ANTHROPIC_MESSAGES,
            model,
            effort,
            {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": level}},
        )
        for model, effort, level in (
            ("claude-opus-4-6", "minimal", "low"),
            ("claude-opus-4-6", "xhigh", "high"),
            ("anthropic/claude-opus-4.7", "xhigh", "xhigh"),
            ("claude-fable-5", "max", "max"),
        )
    ),
]


@pytest.mark.parametrize(("name", "model", "effort", "fields"), EFFORTS)
async def test_an_effort_is_told_in_the_words_of_each_format(
    name: str, model: str, effort: str, fields: dict[str, object]
) -> None:
    body = await sent(name, CallOptions(effort=effort), model)
    assert body.items() >= fields.items()


async def test_an_effort_is_an_object_where_the_provider_wants_one() -> None:
    options = CallOptions(effort="max")
    body = await sent(CHAT_COMPLETIONS, options, reasoning=ReasoningField.OBJECT)
    assert body["reasoning"] == {"effort": "xhigh"} and "reasoning_effort" not in body


async def test_a_small_limit_leaves_no_room_for_thoughts() -> None:
    body = await sent(ANTHROPIC_MESSAGES, CallOptions(effort="high", max_tokens=1500), "claude-haiku-4-5")
    assert "thinking" not in body


def test_the_nearest_effort() -> None:
    assert nearest_effort("minimal", ("low", "high")) == "low"
    assert nearest_effort("medium", ("low", "high")) == "low"
    assert nearest_effort("max", ("low", "high")) == "high"
    assert nearest_effort("none", ("low", "high")) == "" == nearest_effort("", ("low",))
    assert nearest_effort("ultra", ("low", "max")) == "max"
    assert nearest_effort("beyond", ("low",)) == "beyond", "what we do not know is the service's to judge"


# --- the address and the key -------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["", "/", "/v1", "/v1/"])
async def test_the_address_of_messages_may_end_in_its_version_or_not(ending: str) -> None:
    async with FakeModelServer(key=KEY) as server:
        provider = provider_of(ANTHROPIC_MESSAGES, server.base_url.removesuffix("/v1") + ending)
        assert (await hear(provider, ask("hello"))).text == "hello"
        await provider.close()
        assert server.requests[0].path == "/v1/messages"
        assert server.requests[0].headers["anthropic-version"] == "2023-06-01"


def test_a_token_of_a_login_is_shown_as_a_bearers() -> None:
    wire = load_format(ANTHROPIC_MESSAGES)
    assert wire.headers("sk-ant-api03-x") == {
        "anthropic-version": "2023-06-01",
        "x-api-key": "sk-ant-api03-x",
    }
    token = wire.headers("sk-ant-oat01-x")
    assert token["Authorization"] == "Bearer sk-ant-oat01-x" and "x-api-key" not in token
    assert load_format("responses").name == CODEX_RESPONSES


# --- results with pictures ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
async def test_pictures_of_results(name: str) -> None:
    """They stand in the result where a format can show them there, and follow all results elsewhere."""
    calls = (ToolCall(id=CallId("c1"), name="look"), ToolCall(id=CallId("c2"), name="look"))
    picture = Attachment(kind=MediaKind.IMAGE, ref="r", sha256="ab", mime="image/png")
    data = "data:image/png;base64,AAAA"
    records = [
        UserSaid(text="look"),
        ModelSaid(calls=calls),
        ToolFinished(call=CallId("c1"), text="a cat", attachments=(picture,)),
        ToolFinished(call=CallId("c2"), text="nothing"),
    ]
    entries = [replace(ask("x").entries[0], seq=seq, record=record) for seq, record in enumerate(records)]
    async with FakeModelServer([Reply(text="ok")], key=KEY) as server:
        provider = provider_of(name, server.base_url)
        asked = replace(ask("x"), entries=entries, images={"ab": data})
        assert (await hear(provider, asked)).error is None
        await provider.close()
        roles = [message["role"] for message in server.requests[0].messages]
        shown = [message for message in server.requests[0].messages if data in str(message)]
    extra = ["user"] if name == CHAT_COMPLETIONS else []
    assert roles == ["system", "user", "assistant", "tool", "tool", *extra]
    assert [message["role"] for message in shown] == [extra[0] if extra else "tool"]


@pytest.mark.parametrize("name", NEW)
async def test_ids_of_calls_that_come_again_are_told_apart(name: str) -> None:
    """Some models name their first call the same in every reply, which Claude refuses."""
    records = []
    for number in range(3):
        call = ToolCall(id=CallId("call_0"), name="look")
        records += [
            UserSaid(text=f"look {number}"),
            ModelSaid(calls=(call,)),
            ToolFinished(call=call.id, text=f"seen {number}"),
        ]
    entries = [replace(ask("x").entries[0], seq=seq, record=record) for seq, record in enumerate(records)]
    async with FakeModelServer([Reply(text="ok")], key=KEY) as server:
        provider = provider_of(name, server.base_url)
        assert (await hear(provider, replace(ask("x"), entries=entries))).error is None
        await provider.close()
        sent = server.requests[0].messages
    made = [call["id"] for message in sent for call in message.get("tool_calls", ())]
    results = [(message["tool_call_id"], message["content"]) for message in sent if message["role"] == "tool"]
    assert made[0] == "call_0" and len(set(made)) == 3
    assert results == [(id, f"seen {number}") for number, id in enumerate(made)]


# --- what is kept, in order --------------------------------------------------------------------------


def test_parts_come_back_in_the_order_in_which_they_came() -> None:
    seal: dict[str, object] = {"type": "thinking", "signature": "s"}
    marks = [{"text": 3}, seal, {"text": 2, "phase": "x"}, {"call": 1}, {"call": 0}]
    assert list(in_order(marks, "abcde", 2)) == [{"text": "abc"}, seal, {"text": "de", "phase": "x"}, 1, 0]
    changed = [{"text": "ab"}, seal, 0, 1]
    assert list(in_order([{"text": 9}, seal, {"text": 2}, {"call": 0}], "ab", 2)) == changed
    assert list(in_order([seal, {"call": 0}, {"call": 7}, {"call": 0}], "ab", 1)) == [seal, {"text": "ab"}, 0]
    assert list(in_order([], "", 0)) == []


# --- features that a service refuses -----------------------------------------------------------------

SIGNATURE = "messages.1.content.0: Invalid `signature` in `thinking` block"
REFUSALS: list[tuple[str, str, str, dict[str, object]]] = [
    (ANTHROPIC_MESSAGES, SIGNATURE, "kept", {}),
    (CODEX_RESPONSES, "The encrypted content gAAA...Rg== could not be verified.", "kept", {}),
    (CODEX_RESPONSES, "Encrypted content is not supported with this model.", "encrypted", {}),
    (
        CODEX_RESPONSES,
        "Unsupported parameter: 'reasoning.effort' is not supported here.",
        "effort",
        {},
    ),
    (CHAT_COMPLETIONS, "Unrecognized request argument supplied: reasoning_effort", "effort", {}),
    (ANTHROPIC_MESSAGES, "adaptive thinking is not supported on this model", "effort", {}),
    (
        CHAT_COMPLETIONS,
        "Unsupported parameter: 'max_tokens' is not supported with this model. "
        "Use 'max_completion_tokens' instead.",
        "token_limit",
        {"max_tokens": 50},
    ),
    (
        CHAT_COMPLETIONS,
        "role `tool`: content should be a string",
        "cache_marks",
        {"caching": CacheStyle.MARKS},
    ),
    (ANTHROPIC_MESSAGES, "system.0.cache_control: Extra inputs are not permitted", "cache_marks", {}),
]


def sealed_talk(name: str) -> ModelRequest:
    """A conversation with something that the service wants back."""
    seal = {
        ANTHROPIC_MESSAGES: {"type": "redacted_thinking", "data": '"seal"'},
        CODEX_RESPONSES: {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": '"seal"'},
    }.get(name, {})
    talk = ask("go", "ok", "go on", tools=[A_TOOL])
    kept = Kept(format=name, model="claude-x", text=json.dumps([seal, {"text": 2}]))
    entries = [talk.entries[0], replace(talk.entries[1], record=ModelSaid(text="ok", kept=kept))]
    return replace(
        talk,
        entries=[*entries, talk.entries[2]],
        model="claude-x",
        options=CallOptions(effort="low"),
        memory={},
    )


def uses(name: str, feature: str, wire: dict[str, Any]) -> bool:
    text = json.dumps(wire)
    match feature:
        case "kept":
            return "seal" in text
        case "encrypted":
            return "include" in wire
        case "effort":
            return bool({"reasoning", "reasoning_effort", "thinking"} & wire.keys())
        case "token_limit":
            return "max_tokens" in wire
        case _:
            return "cache_control" in text


@pytest.mark.parametrize(("name", "words", "feature", "fields"), REFUSALS)
async def test_a_refused_feature_is_left_out_once_and_remembered(
    name: str, words: str, feature: str, fields: dict[str, object]
) -> None:
    def answer(request: Seen) -> Said:
        refused = uses(name, feature, request.wire)
        return failure(400, words) if refused else Reply(text="fine")

    async with FakeModelServer(answer, key=KEY) as server:
        provider = provider_of(name, server.base_url, facts=lambda model: WIDE, **fields)
        asked = sealed_talk(name)
        heard = await hear(provider, asked)
        assert heard.text == "fine" and len(server.requests) == 2, heard.error
        notices = [piece.text for piece in heard.pieces if isinstance(piece, Notice)]
        assert bool(notices) == (feature == "effort"), notices
        again = await hear(provider, asked)
        assert again.text == "fine" and len(server.requests) == 3, "it is not remembered"
        assert not any(isinstance(piece, Notice) for piece in again.pieces)
        await provider.close()


async def test_a_service_that_refuses_for_ever_is_not_asked_for_ever() -> None:
    for name, words, _, fields in REFUSALS:
        async with FakeModelServer(lambda request, words=words: failure(400, words), key=KEY) as server:
            provider = provider_of(name, server.base_url, **fields)
            asked = sealed_talk(name)
            for count in (2, 3):
                error = (await hear(provider, asked)).error
                assert isinstance(error, ModelFault) and not error.is_passing
                assert len(server.requests) == count, words
            await provider.close()


@pytest.mark.parametrize(
    ("name", "error", "kind"),
    [
        (ANTHROPIC_MESSAGES, {"type": "overloaded_error", "message": "Overloaded"}, FaultKind.BUSY),
        (ANTHROPIC_MESSAGES, {"type": "rate_limit_error", "message": "slower"}, FaultKind.BUSY),
        (ANTHROPIC_MESSAGES, {"type": "api_error", "message": "Internal"}, FaultKind.BROKEN),
        (ANTHROPIC_MESSAGES, {"type": "authentication_error", "message": "no"}, FaultKind.BAD_KEY),
        (ANTHROPIC_MESSAGES, {"type": "billing_error", "message": "pay"}, FaultKind.NO_CREDIT),
        (ANTHROPIC_MESSAGES, {"type": "not_found_error", "message": "model: x"}, FaultKind.NO_MODEL),
        (ANTHROPIC_MESSAGES, {"type": "invalid_request_error", "message": "no"}, FaultKind.BAD_REQUEST),
        (ANTHROPIC_MESSAGES, {"type": "request_too_large", "message": "no"}, FaultKind.TOO_LONG),
        (CODEX_RESPONSES, {"code": "server_error", "message": "sorry"}, FaultKind.BROKEN),
        (CODEX_RESPONSES, {"code": "rate_limit_exceeded", "message": "slower"}, FaultKind.BUSY),
        (CODEX_RESPONSES, {"code": "context_length_exceeded", "message": "no"}, FaultKind.TOO_LONG),
        (CODEX_RESPONSES, {"code": "invalid_prompt", "message": "no"}, FaultKind.BAD_REQUEST),
        (CODEX_RESPONSES, {"code": "bio_policy", "message": "no"}, FaultKind.FILTERED),
        (CODEX_RESPONSES, {"code": "invalid_image_format", "message": "no"}, FaultKind.NO_IMAGES),
    ],
)
async def test_errors_inside_a_stream_have_their_kinds(
    name: str, error: dict[str, str], kind: FaultKind
) -> None:
    events = {
        ANTHROPIC_MESSAGES: [{"type": "error", "error": error}],
        CODEX_RESPONSES: [
            {"type": "error", **error, "sequence_number": 3},
            {"type": "response.failed", "response": {"status": "failed", "error": error}},
        ],
    }[name]
    for event in events:
        junk = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
        framing = Framing(junk=junk, done=False)
        async with FakeModelServer([Reply(text="One two three four", framing=framing)], key=KEY) as server:
            provider = provider_of(name, server.base_url)
            heard = await hear(provider, ask("go"))
            await provider.close()
            assert isinstance(heard.error, ModelFault) and heard.error.kind is kind, heard
