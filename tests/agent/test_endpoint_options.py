"""What `providers` says of an endpoint is honoured by the calls to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.agent.models.builtin import make_openai_compatible
from hermes.agent.models.client import tls_of
from hermes.domain.errors import ModelFault
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.providers import EndpointOptions
from hermes.domain.settings.settings import ModelSettings
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


def test_certificates_are_checked_as_the_settings_say(tmp_path: Path) -> None:
    assert tls_of(EndpointOptions()) is True
    assert tls_of(EndpointOptions(ssl_verify=False)) is False
    for path in (tmp_path / "none.pem", tmp_path):
        with pytest.raises(ModelFault, match="holds no certificate"):
            tls_of(EndpointOptions(ssl_ca_cert=str(path)))
