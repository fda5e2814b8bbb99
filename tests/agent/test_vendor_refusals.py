"""What vendors are known to refuse, each in its own words: the request goes on without it, or one sentence
says what to do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hermes.agent.context.compress import Compressor, Summariser
from hermes.agent.models.endpoint import ModelEndpoint
from hermes.agent.models.faults import fault_for, read_error
from hermes.agent.models.formats.anthropic_messages.request import encode_request
from hermes.agent.models.formats.chat_completions.reply import read_chunk
from hermes.agent.models.roles import ChosenModel
from hermes.app.agents.compression import summariser
from hermes.domain.clock import SystemClock
from hermes.domain.errors import FaultKind, ModelFault
from hermes.domain.ids import CallId
from hermes.domain.models.call_options import CallOptions
from hermes.domain.models.model_facts import ModelFacts
from hermes.domain.models.providers import ANTHROPIC_MESSAGES, CHAT_COMPLETIONS, CODEX_RESPONSES
from hermes.domain.models.usage import Usage
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.settings.compression import CompressionSettings
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.event import Failed, Kept, ModelSaid, Notice, ToolFinished, UserSaid
from hermes.domain.word import replace
from hermes.testing.model import Say, ScriptedModel
from hermes.testing.model_script import ModelRequest as Seen
from hermes.testing.model_script import RawReply, Reply, Said, failure
from hermes.testing.model_server import FakeModelServer
from hermes.testing.provider_suite import KEY, ask, hear
from tests.agent.driving import Driver, loop_of
from tests.agent.test_pool import chained, fault
from tests.agent.test_wire_formats import provider_of

# github.com/continuedev/continue/issues/9283 and 9602
UNVERIFIED = (
    "Your organization must be verified to generate reasoning summaries. Please go to: "
    "https://platform.openai.com/settings/organization/general and click on Verify Organization."
)
UNSTREAMED = "Your organization must be verified to stream this model. Please go to: https://platform.op…"
NO_TEMPERATURE = "Unsupported parameter: 'temperature' is not supported with this model."
# github.com/anomalyco/opencode/issues/1680
BAD_ID = "Tool call id was {} but must be a-z, A-Z, 0-9, with a length of 9."
# ai.google.dev/gemini-api/docs/thought-signatures
UNSIGNED = "Function call is missing a thought_signature in functionCall parts. This is required for tools"


def talk_with_calls(model: str) -> ModelRequest:
    call = ToolCall(id=CallId("toolu_01A09q90qw90lq917835lq9"), name="look", arguments='{"at":"a"}')
    seal = json.dumps({"extra_content": {call.id: {"google": {"thought_signature": "SIG"}}}})
    records = [
        UserSaid(text="look"),
        ModelSaid(calls=(call,), kept=Kept(format=CHAT_COMPLETIONS, model="gemini-3-pro", text=seal)),
        ToolFinished(call=call.id, text="seen"),
    ]
    first = ask("x")
    entries = [replace(first.entries[0], seq=seq, record=record) for seq, record in enumerate(records)]
    return replace(first, entries=entries, model=model, memory={})


async def wires(name: str, asked: ModelRequest, answer: Any) -> tuple[list[dict[str, Any]], list[str]]:
    """The bodies of the requests until there was an answer, and of the next call; and what was said of it."""
    async with FakeModelServer(answer, key=KEY) as server:
        provider = provider_of(name, server.base_url, facts=lambda model: ModelFacts(thinking=True))
        notices: list[str] = []
        for _ in range(2):
            heard = await hear(provider, asked)
            assert heard.text == "fine", heard.error
            notices += [piece.text for piece in heard.pieces if isinstance(piece, Notice)]
        await provider.close()
        return [request.wire for request in server.requests], notices


async def test_an_organization_that_is_not_verified_can_use_models_that_think() -> None:
    def answer(request: Seen) -> Said:
        if "summary" in request.wire.get("reasoning", {}):
            return failure(400, UNVERIFIED, code="unsupported_value")
        if request.wire.get("stream"):
            return failure(400, UNSTREAMED, code="unsupported_value")
        refused = "temperature" in request.wire
        return failure(400, NO_TEMPERATURE) if refused else Reply(text="fine")

    asked = replace(ask("hi"), model="gpt-5", options=CallOptions(effort="low", temperature=0.7), memory={})
    sent, notices = await wires(CODEX_RESPONSES, asked, answer)
    assert len(sent) == 5 and sent[3]["reasoning"] == {"effort": "low"}, "the effort stays"
    assert len(notices) == 3 and "organization" in notices[0] and "temperature" in notices[2]


async def test_mistral_is_given_ids_that_it_takes() -> None:
    def answer(request: Seen) -> Said:
        ids = [call["id"] for message in request.messages for call in message.get("tool_calls") or ()]
        bad = [id for id in ids if len(id) != 9 or not id.isalnum()]
        return failure(400, BAD_ID.format(bad[0])) if bad else Reply(text="fine")

    sent, _ = await wires(CHAT_COMPLETIONS, talk_with_calls("mistral-medium-latest"), answer)
    assert len(sent) == 3
    *_, reply, result = sent[1]["messages"]
    assert reply["tool_calls"][0]["id"] == result["tool_call_id"]


async def test_a_signature_that_was_lost_is_stood_in_for() -> None:
    def signatures(request: Seen) -> list[str]:
        calls = (call for message in request.wire["messages"] for call in message.get("tool_calls") or ())
        return [call.get("extra_content", {}).get("google", {}).get("thought_signature") for call in calls]

    def answer(request: Seen) -> Said:
        return Reply(text="fine") if all(signatures(request)) else failure(400, UNSIGNED)

    assert len((await wires(CHAT_COMPLETIONS, talk_with_calls("gemini-3-flash"), answer))[0]) == 3
    kept, _ = await wires(CHAT_COMPLETIONS, talk_with_calls("gemini-3-pro"), answer)
    assert len(kept) == 2 and "SIG" in json.dumps(kept[0]), "its own goes back as it is"


def test_no_temperature_goes_with_thinking() -> None:
    def sent(**options: Any) -> dict[str, Any]:
        given = CallOptions(temperature=0.2, top_p=0.5, **options)
        asked = replace(ask("hi"), model="claude-sonnet-4-5", options=given)
        return json.loads(encode_request(asked, ModelEndpoint(base_url="http://x")))

    assert not {"temperature", "top_p"} & sent(effort="high").keys()
    for plain in (sent(), sent(effort="none")):
        assert (plain["temperature"], plain["top_p"]) == (0.2, 0.5)


# --- limits ------------------------------------------------------------------------------------------


def read(status: int, body: object) -> ModelFault:
    return fault_for(read_error(status, {}, json.dumps(body).encode()), model="tiny", place="http://x/v1")


def gemini(limit: int) -> object:
    """github.com/RooCodeInc/Roo-Code/issues/3883"""
    words = (
        "You exceeded your current quota, please check your plan and billing details. For more information "
        "on this error, head to: https://ai.google.dev/gemini-api/docs/rate-limits.\n* Quota exceeded for "
        f"metric: generativelanguage.googleapis.com/generate_content_free_tier_requests, limit: {limit}"
    )
    details = [
        {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{}]},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "35s"},
    ]
    return [{"error": {"code": 429, "message": words, "status": "RESOURCE_EXHAUSTED", "details": details}}]


def test_a_limit_per_minute_is_no_empty_account() -> None:
    limited = read(429, gemini(10))
    assert limited.kind is FaultKind.LIMITED_UNTIL and limited.after == 35 and limited.is_passing
    assert read(429, gemini(0)).kind is FaultKind.NO_CREDIT, "waiting does not help who has no share at all"


@pytest.mark.parametrize(
    ("body"),
    [
        # xAI: github.com/cline/cline/issues/3120
        {
            "code": "Client specified an invalid argument",
            "error": "This model's maximum prompt length is 131072 but the request contains 136973 tokens.",
        },
        # Kimi: github.com/MoonshotAI/kimi-cli/issues/2011
        {"error": {"message": "Your request exceeded model token limit: 262144 (requested: 269030)"}},
        # Z.AI: github.com/mangowhoiscloud/geode/pull/668
        {"error": {"code": "1261", "message": "Prompt exceeds max length"}},
        {"error": {"code": "1261", "message": "…"}},
        {
            "error": {
                "message": "prompt token count of 130000 exceeds the limit of 128000",
                "code": "model_max_prompt_tokens_exceeded",
            }
        },
    ],
)
def test_too_long_in_the_words_of_each_vendor(body: object) -> None:
    assert read(400, body).kind is FaultKind.TOO_LONG


@pytest.mark.parametrize(
    ("status", "words"),
    [(404, "No endpoints found that support tool use."), (400, "library/tiny:latest does not support tools")],
)
def test_a_model_without_tools_is_named(status: int, words: str) -> None:
    refused = read(status, {"error": {"message": words, "code": status}})
    assert refused.kind is FaultKind.NO_MODEL
    assert "“tiny” at http://x/v1 takes no tools. Choose another with /model" in str(refused)


# --- who cannot read it, and who does not tell it ----------------------------------------------------


def compressor(choose: Any) -> Compressor:
    return Compressor(
        model="fake-model",
        settings=CompressionSettings,
        facts=lambda model: ModelFacts(window=1_000_000),
        choose=choose,
    )


async def test_a_small_fallback_teaches_nothing_of_the_agents_own_model() -> None:
    async def nobody(model: str) -> Summariser:
        raise AssertionError("nothing is summarised for it")

    quote = "This model's maximum context length is 8192 tokens. However, you requested 20000 tokens"
    small = Say(error=ModelFault("too long", kind=FaultKind.TOO_LONG, quote=quote))
    own = ScriptedModel([fault(FaultKind.NO_CREDIT)])
    loop = loop_of(chained(own, ScriptedModel([small])))
    loop._compressor = compressor(nobody)
    (*_, last) = await Driver(loop).say("x" * 40_000)
    assert isinstance(last, Failed) and "too long for spare-1" in last.reason
    limits = loop._compressor.limits("fake-model")
    assert limits is not None and limits.window == 1_000_000


async def test_the_next_of_the_chain_may_read_more() -> None:
    small = ScriptedModel([fault(FaultKind.TOO_LONG)])
    own, big = ScriptedModel([fault(FaultKind.NO_CREDIT)]), ScriptedModel([Say(text="read")])
    records = await Driver(loop_of(chained(own, small, big))).say("x" * 40_000)
    assert any(isinstance(record, ModelSaid) and record.text == "read" for record in records)


@pytest.mark.parametrize("name", [CHAT_COMPLETIONS, CODEX_RESPONSES, ANTHROPIC_MESSAGES])
async def test_a_summary_that_is_cut_is_none(name: str) -> None:
    async with FakeModelServer([Reply(text="## Goal: build the th", finish="length")], key=KEY) as server:
        provider = provider_of(name, server.base_url)
        chosen = ChosenModel(provider=provider, model="m", facts=ModelFacts())
        with pytest.raises(ModelFault, match="did not come to the end"):
            await summariser(chosen, SystemClock()).ask("Summarise.", "a conversation")
        await provider.close()


NO = "I'm sorry, I can't assist with that."
PART = {"type": "message", "content": [{"type": "refusal", "refusal": NO}]}
REFUSING: list[tuple[str, list[dict[str, Any]]]] = [
    (
        CHAT_COMPLETIONS,
        [{"choices": [{"delta": {"refusal": NO}}]}, {"choices": [{"delta": {}, "finish_reason": "stop"}]}],
    ),
    (
        CODEX_RESPONSES,
        [
            {"type": "response.refusal.delta", "output_index": 0, "delta": NO},
            {"type": "response.completed", "response": {"status": "completed"}},
        ],
    ),
    (
        CODEX_RESPONSES,
        [
            {"type": "response.output_item.done", "output_index": 0, "item": PART},
            {"type": "response.completed", "response": {"status": "completed"}},
        ],
    ),
]


@pytest.mark.parametrize(("name", "events"), REFUSING)
async def test_a_summary_that_is_a_refusal_is_none(name: str, events: list[dict[str, Any]]) -> None:
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    raw = RawReply(body=body, headers={"Content-Type": "text/event-stream"})
    async with FakeModelServer(lambda request: raw, key=KEY) as server:
        provider = provider_of(name, server.base_url)
        chosen = ChosenModel(provider=provider, model="m", facts=ModelFacts())
        with pytest.raises(ModelFault, match="refused to answer"):
            await summariser(chosen, SystemClock()).ask("Summarise.", "a conversation")
        assert (await hear(provider, ask("hi"))).text == NO, "people hear it"
        await provider.close()


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        # xAI: thoughts beside the answer (docs.x.ai).
        (
            {
                "prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 160,
                "completion_tokens_details": {"reasoning_tokens": 50},
            },
            Usage(prompt=100, completion=60, reasoning=50),
        ),
        # OpenAI: thoughts in the answer.
        (
            {
                "prompt_tokens": 100, "completion_tokens": 60, "total_tokens": 160,
                "completion_tokens_details": {"reasoning_tokens": 50},
            },
            Usage(prompt=100, completion=60, reasoning=50),
        ),
        # OpenRouter: what it charged.
        ({"prompt_tokens": 5, "completion_tokens": 1, "cost": 0.5}, Usage(prompt=5, completion=1, cost=0.5)),
    ],
)  # fmt: skip
def test_the_bill_is_read_as_each_vendor_writes_it(usage: dict[str, object], expected: Usage) -> None:
    chunk = read_chunk(json.dumps({"choices": [], "usage": usage}).encode())
    assert chunk.usage is not None and chunk.usage.read() == expected
