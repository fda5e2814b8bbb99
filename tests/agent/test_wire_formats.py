"""Our wire formats against the fake model server, which speaks them as the official SDKs accept it."""

from __future__ import annotations

import pytest

from hermes.agent.models.endpoint import HttpProvider, ModelEndpoint
from hermes.agent.models.formats import load_format
from hermes.domain.providers import ANTHROPIC_MESSAGES, CHAT_COMPLETIONS, CODEX_RESPONSES
from hermes.domain.settings.declaring import Secret
from hermes.testing.model_script import FAULTS, Reply
from hermes.testing.model_server import FakeModelServer
from hermes.testing.provider_suite import CHECKS, KEY, LONG, PORT_CHECKS, ask, hear, patience
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
