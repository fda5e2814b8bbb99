"""The OpenAI wire against the fake model server: the conformance suite, and what only this wire has."""

from __future__ import annotations

import pytest

from hermes.agent.models.client import Deadlines, ModelClient
from hermes.agent.models.endpoint import HttpProvider, ModelEndpoint
from hermes.agent.models.formats.chat_completions.provider import ChatCompletions
from hermes.domain.errors import FaultKind, ModelFault
from hermes.domain.settings.declaring import Secret
from hermes.testing.model_script import FAULTS, Reply
from hermes.testing.model_server import FakeModelServer
from hermes.testing.provider_suite import CHECKS, KEY, LONG, PORT_CHECKS, ask, hear, patience


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
