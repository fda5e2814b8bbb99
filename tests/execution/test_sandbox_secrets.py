"""In a real sandbox: listed hosts are reached, others are not; a secret is used that nothing inside sees."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from hermes.app.egress import AppEgress
from hermes.domain.ports.world import Backend, Command, NetworkRules
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.egress import BrokeredSecret
from hermes.domain.settings.settings import SecuritySettings, Settings
from hermes.domain.word import replace
from hermes.execution.egress.broker import PREFIX
from hermes.execution.egress.wire import Wire
from hermes.execution.sandboxes.bubblewrap import make_bubblewrap
from hermes.testing.backends import backend_request
from tests.execution.beds import install
from tests.execution.egress_site import HOST, OTHER, make_certificate, open_site, reach

VALUE = "the-real-value-0123456789"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    return make_certificate(tmp_path_factory.mktemp("tls"))


async def output(backend: Backend, text: str) -> str:
    return (await backend.run(Command(text=text, session="s"), lambda words: None)).output


async def test_a_command_in_a_sandbox_uses_a_secret(
    tmp_path: Path, certificates: tuple[ssl.SSLContext, ssl.SSLContext]
) -> None:
    install("bubblewrap", "bwrap")
    install("curl", "curl")
    serving, trust = certificates
    async with open_site(serving) as site:
        place = f"{HOST}:{site.tls_port}"
        bound = BrokeredSecret(value=Secret(VALUE), hosts=(place,), variable="API_TOKEN")
        settings = Settings(security=SecuritySettings(broker={"api": bound}))
        egress = AppEgress(tmp_path / "home", {}, lambda: settings)
        egress.check(settings)
        egress.parts = replace(egress.parts, reach=reach, wire=lambda: Wire(tls=trust))
        egress.proxy._around = egress.parts
        (tmp_path / "work").mkdir()
        request = backend_request(
            home=tmp_path / "home",
            workspace=tmp_path / "work",
            environ={"PATH": "/usr/bin:/bin", "API_TOKEN": VALUE},
            network=NetworkRules(hosts=(place, f"{HOST}:{site.port}")),
        )
        backend = make_bubblewrap(egress.lead_out(request))
        await backend.open()
        try:
            assert await output(backend, f"curl -sS http://{HOST}:{site.port}/hello") == "hello"
            asked = f'curl -sS -H "Authorization: Bearer $API_TOKEN" http://{place}/echo; env'
            told = await output(backend, asked)
            assert site.seen[-1].headers["authorization"] == f"Bearer {VALUE}" and site.seen[-1].tls
            assert VALUE not in told and told.count(PREFIX) >= 2
            seen = len(site.seen)
            assert "not among the hosts" in await output(
                backend, f"curl -sS http://{OTHER}:{site.port}/hello"
            )
            away = f"curl -sS --noproxy '*' -m 5 http://127.0.0.1:{site.port}/hello || echo not reached"
            assert "not reached" in await output(backend, away)
            processes = "cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' ' '"
            assert VALUE not in await output(backend, processes)
            assert len(site.seen) == seen
        finally:
            await backend.close()
            await egress.close()
