"""What `providers` says of an endpoint is honoured by the calls to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.agent.models.builtin import make_openai_compatible
from hermes.agent.models.choose import ModelAccess, ModelChoice
from hermes.agent.models.client import tls_of
from hermes.agent.models.registry import Models
from hermes.agent.models.servers import list_models
from hermes.app.agents.models import _spell_choice
from hermes.domain.errors import FaultKind, ModelFault, Unreachable
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.models.call_options import CallOptions
from hermes.domain.models.model_facts import ModelFacts
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.providers import EndpointOptions
from hermes.domain.settings.settings import ModelSettings
from hermes.domain.word import replace
from hermes.testing.model_script import Reply
from hermes.testing.model_server import FakeModelServer
from hermes.testing.provider_suite import ask


async def test_headers_body_and_limits_reach_the_service() -> None:
    options = EndpointOptions(
        headers=(("X-Team", Secret("blue")),),
        extra_body='{"top_k": 5}',
        token_limit="max_completion_tokens",
        request_timeout=7.0,
        stale_timeout=3.0,
    )
    async with FakeModelServer([Reply(text="ok")]) as server:
        settings = ModelSettings(base_url=server.base_url, max_tokens=321, options=options)
        provider = make_openai_compatible(settings)
        async for _ in provider.call(ask("hi")):
            pass
        await provider.close()
    (seen,) = server.requests
    assert seen.headers["X-Team"] == "blue"
    assert (seen.body["top_k"], seen.body["max_completion_tokens"]) == (5, 321)
    assert "max_tokens" not in seen.body
    limits = provider._endpoint.deadlines
    assert (limits.total, limits.idle, limits.first_byte) == (7.0, 3.0, 3.0)


async def test_a_model_that_thinks_far_away_may_be_silent_for_long() -> None:
    provider = make_openai_compatible(
        ModelSettings(base_url="https://api.x.ai/v1"), lambda model: ModelFacts(thinking=model == "grok")
    )
    grok, other = (replace(ask("hi"), model=name) for name in ("grok", "other"))
    assert provider._deadlines(grok).idle >= 600 and provider._deadlines(grok).total >= 1800
    assert provider._deadlines(other).idle == 60
    quick = replace(grok, options=CallOptions(effort="none"))
    assert provider._deadlines(quick).idle == 60
    set_short = ModelSettings(base_url="https://api.x.ai/v1", options=EndpointOptions(stale_timeout=3.0))
    provider = make_openai_compatible(set_short, lambda model: ModelFacts(thinking=True))
    assert provider._deadlines(grok).idle == 3.0, "the settings count"


async def test_a_query_stays_behind_the_path() -> None:
    async with FakeModelServer([Reply(text="ok")]) as server:
        url = f"{server.base_url}?api-version=2024-10-21"
        provider = make_openai_compatible(ModelSettings(base_url=url))
        async for _ in provider.call(ask("hi")):
            pass
        await provider.close()
    assert str(provider._url("m")) == f"{server.base_url}/chat/completions?api-version=2024-10-21"
    choice = ModelChoice(way=ModelAccess.HTTP, model="m", base_url=url, format="chat_completions")
    async with FakeModelServer(models=("m",)) as server:
        url = f"{server.base_url}?api-version=2024-10-21"
        assert (await list_models(replace(choice, base_url=url))).names == ("m",)


@pytest.mark.parametrize("key", ["sk-abc\ndef", "sk-schlüssel€"])
async def test_a_key_that_is_none_is_said_to_be_the_key(key: str) -> None:
    provider = make_openai_compatible(ModelSettings(base_url="http://127.0.0.1:9/v1", api_key=Secret(key)))
    with pytest.raises(ModelFault, match=r"the key for http://127.0.0.1:9/v1 has a line end") as raised:
        async for _ in provider.call(ask("hi")):
            pass
    assert raised.value.kind is FaultKind.BAD_KEY and key not in str(raised.value)
    await provider.close()


async def test_an_address_is_named_without_its_credentials() -> None:
    choice = ModelChoice(
        way=ModelAccess.HTTP, model="m", base_url="http://bob:hunter2@127.0.0.1:9/v1?key=abc-secret"
    )
    with pytest.raises(Unreachable, match=r"no list of models from http://127.0.0.1:9/v1$"):
        await Models().refresh({MAIN_AGENT: choice})
    assert "hunter2" not in _spell_choice(choice) and "abc-secret" not in _spell_choice(choice)


def test_certificates_are_checked_as_the_settings_say(tmp_path: Path) -> None:
    assert tls_of(EndpointOptions()) is True
    assert tls_of(EndpointOptions(ssl_verify=False)) is False
    for path in (tmp_path / "none.pem", tmp_path):
        with pytest.raises(ModelFault, match="holds no certificate"):
            tls_of(EndpointOptions(ssl_ca_cert=str(path)))
