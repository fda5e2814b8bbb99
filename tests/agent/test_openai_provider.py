"""The OpenAI wire against the fake model server: the conformance suite, and what only this wire has."""

from __future__ import annotations

from typing import Any

import pytest

from hermes.agent.models.client import Deadlines, ModelClient
from hermes.agent.models.endpoint import HttpProvider, ModelEndpoint
from hermes.agent.models.formats.chat_completions.provider import ChatCompletions
from hermes.domain.errors import FaultKind, ModelFault
from hermes.domain.models.call_options import CallOptions, JsonAnswer
from hermes.domain.settings.declaring import Secret
from hermes.domain.tools.tool import Tool
from hermes.domain.word import replace
from hermes.testing.model_script import FAULTS, Reply
from hermes.testing.model_server import FakeModelServer
from hermes.testing.provider_suite import CHECKS, KEY, LONG, PORT_CHECKS, ask, hear, patience
from tests.agent.driving import tool


def deadlines(seconds: float) -> Deadlines:
    return Deadlines(connect=seconds, first_byte=seconds, idle=seconds, total=4 * seconds)


def streaming(base_url: str, seconds: float = LONG) -> HttpProvider:
    return HttpProvider(
        ModelEndpoint(base_url=base_url, key=Secret(KEY), deadlines=deadlines(seconds)), ChatCompletions()
    )


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_streaming(check) -> None:
    await check(streaming)


@pytest.mark.parametrize("check", PORT_CHECKS, ids=lambda check: check.__name__)
async def test_it_is_a_provider(check) -> None:
    async with FakeModelServer(key=KEY) as server:
        provider = streaming(server.base_url)
        await check(provider)
        await provider.close()


async def test_without_streaming_the_same_is_heard() -> None:
    for name, fault in FAULTS.items():
        if fault.stream_only:
            continue
        async with FakeModelServer([fault.reply]) as server:
            limits = deadlines(patience(fault))
            provider = HttpProvider(
                ModelEndpoint(base_url=server.base_url, stream=False, deadlines=limits), ChatCompletions()
            )
            heard = await hear(provider, ask("go"))
            await provider.close()
            assert not server.requests[0].streams
            if fault.ends == "answer" and isinstance(fault.reply, Reply) and fault.reply.text == "":
                continue
            assert (heard.error is None) == (fault.ends == "answer"), (name, heard.error)


async def test_providers_share_one_client() -> None:
    async with FakeModelServer() as server:
        client = ModelClient()
        endpoint = ModelEndpoint(base_url=server.base_url)
        one, other = (
            HttpProvider(endpoint, ChatCompletions(), client),
            HttpProvider(endpoint, ChatCompletions(), client),
        )
        assert (await hear(one, ask("a"))).text == "a"
        session = client.session()
        assert (await hear(other, ask("b"))).text == "b"
        assert client.session() is session
        await client.close()
        assert session.closed


async def test_a_kept_connection_that_was_closed_is_replaced_at_once() -> None:
    closed = FAULTS["close_before_headers"].reply
    async with FakeModelServer([closed, Reply(text="a"), closed, Reply(text="b")], key=KEY) as server:
        provider = streaming(server.base_url)
        assert (await hear(provider, ask("go"))).error is not None, "a new connection that breaks is a fault"
        assert len(server.requests) == 1
        assert (await hear(provider, ask("go"))).text == "a"
        assert (await hear(provider, ask("go"))).text == "b"
        assert len(server.requests) == 4
        await provider.close()


async def test_a_wrong_address_is_told_in_one_sentence() -> None:
    for address in ("nonsense", "ftp://example.org", "http://"):
        provider = streaming(address)
        heard = await hear(provider, ask("go"))
        assert isinstance(heard.error, ModelFault), (address, heard.error)
        assert heard.error.kind is FaultKind.NO_MODEL
        assert "model.base_url" in str(heard.error)
        await provider.close()


async def test_credentials_in_an_address_are_not_told() -> None:
    async with FakeModelServer([FAULTS["server_error"].reply]) as server:
        provider = streaming(server.base_url.replace("http://", "http://me:secret@"))
        heard = await hear(provider, ask("go"))
        assert isinstance(heard.error, ModelFault) and "secret" not in str(heard.error)
        await provider.close()


async def test_the_key_and_the_limit_are_sent() -> None:
    async with FakeModelServer(key=KEY) as server:
        endpoint = ModelEndpoint(base_url=server.base_url + "/", key=Secret(f" {KEY}\n"), max_tokens=77)
        provider = HttpProvider(endpoint, ChatCompletions())
        assert (await hear(provider, ask("hello"))).text == "hello"
        await provider.close()
        request = server.requests[0]
        assert request.body["max_tokens"] == 77
        assert request.streams and request.wants_usage


async def sent(options: CallOptions, *tools: Tool, max_tokens: int | None = None) -> dict[str, Any]:
    async with FakeModelServer(key=KEY) as server:
        endpoint = ModelEndpoint(base_url=server.base_url, key=Secret(KEY), max_tokens=max_tokens)
        provider = HttpProvider(endpoint, ChatCompletions())
        await hear(provider, replace(ask("hello"), options=options, tools=tools))
        await provider.close()
        return dict(server.requests[0].body)


async def test_a_turns_options_are_sent_under_the_names_of_this_format() -> None:
    schema = JsonAnswer(name="pet", schema='{"type":"object"}', strict=True)
    body = await sent(
        CallOptions(
            json=schema,
            stop=("END",),
            max_tokens=5,
            temperature=0.0,
            top_p=0.5,
            seed=7,
            presence_penalty=1.0,
            frequency_penalty=-1.0,
            effort="low",
            verbosity="high",
            parallel=False,
        ),
        tool("look"),
        max_tokens=77,
    )
    told = {"name": "pet", "schema": {"type": "object"}, "strict": True}
    assert body["response_format"] == {"type": "json_schema", "json_schema": told}
    assert (body["stop"], body["max_tokens"], body["parallel_tool_calls"]) == (["END"], 5, False)
    assert (body["temperature"], body["top_p"], body["seed"]) == (0.0, 0.5, 7)
    assert (body["presence_penalty"], body["frequency_penalty"]) == (1.0, -1.0)
    assert (body["reasoning_effort"], body["verbosity"]) == ("low", "high")
    assert "tool_choice" not in body


async def test_a_call_that_must_be_made_is_sent_as_the_tool_choice() -> None:
    strict = replace(tool("look"), strict=True)
    one = await sent(CallOptions(must_call=("look",), json=JsonAnswer()), strict)
    assert one["tool_choice"] == {"type": "function", "function": {"name": "look"}}
    assert one["tools"][0]["function"]["strict"] is True
    assert "response_format" not in one and "parallel_tool_calls" not in one
    several = await sent(CallOptions(must_call=("look", "read")), tool("look"), tool("read"))
    assert several["tool_choice"] == "required"
    assert "strict" not in several["tools"][0]["function"]
    plain = await sent(CallOptions(json=JsonAnswer()))
    assert plain["response_format"] == {"type": "json_object"}
    assert not {"tool_choice", "stop", "temperature", "max_tokens"} & plain.keys()
