"""A secret reaches the hosts it is bound to, over TLS, and nobody else: no agent, no host, no answer."""

from __future__ import annotations

import asyncio
import base64
import html
import json
import logging
import os
import re
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

from hermes.domain.errors import Refused
from hermes.domain.ids import AgentId
from hermes.domain.ports.world import FetchedPage, WebRequest
from hermes.domain.settings.declaring import Secret
from hermes.execution.egress import forwarder
from hermes.execution.egress.broker import PREFIX, AgentBroker, BoundSecret, Mask
from hermes.execution.egress.client import EgressClient
from hermes.execution.egress.parts import EgressParts
from hermes.execution.egress.wire import Wire
from tests.execution.egress_site import (
    HOST,
    MAIN,
    OTHER,
    Site,
    make_certificate,
    open_proxy,
    open_site,
    reach,
    rules,
    say,
)

VALUE = 'ghp_"the/real+value 0123456789'
KEY = b"k" * 32


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    return make_certificate(tmp_path_factory.mktemp("tls"))


class Stage:
    """A site with TLS, a client and a proxy of two agents; `main` has a secret for the site."""

    def __init__(self, site: Site, trust: ssl.SSLContext, *places: str) -> None:
        self.site = site
        self.trust = trust
        self.broker = AgentBroker(
            "main",
            [
                BoundSecret(
                    name="github",
                    value=Secret(VALUE),
                    hosts=(f"{HOST}:{site.tls_port}",),
                    places=frozenset(places or ("headers",)),
                    variable="GITHUB_TOKEN",
                )
            ],
            KEY,
        )
        self.held = self.broker.placeholders["github"]
        self.url = f"https://{HOST}:{site.tls_port}"
        self.other = f"https://{OTHER}:{site.tls_port}"

    async def ask(self, url: str, agent: str = "main", **more: object) -> FetchedPage:
        brokers = {"main": self.broker}
        parts = EgressParts(
            reach=reach,
            wire=lambda: Wire(tls=self.trust),
            broker=lambda name: brokers.get(name) or AgentBroker(name),
        )
        return await EgressClient(parts, agent).request(WebRequest(url=url, **more))  # type: ignore[arg-type]

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.held}"}

    def is_clean(self) -> bool:
        """Whether nothing but what was bound has seen the value."""
        text = repr([(seen.path, seen.headers, seen.body) for seen in self.site.seen if not seen.tls])
        return VALUE not in text and repr(VALUE)[1:-1] not in text


@pytest.fixture
async def stage(certificates: tuple[ssl.SSLContext, ssl.SSLContext]) -> AsyncIterator[Stage]:
    serving, trust = certificates
    async with open_site(serving) as site:
        yield Stage(site, trust)


def test_placeholders_stay_the_same_and_differ_by_agent() -> None:
    secrets = [BoundSecret(name=name, value=Secret(VALUE), hosts=("a.example",)) for name in ("one", "two")]
    one = AgentBroker("main", secrets, KEY).placeholders
    assert one == AgentBroker("main", secrets, KEY).placeholders
    others = (AgentBroker("bee", secrets, KEY), AgentBroker("main", secrets, b"x" * 32))
    spelled = {*one.values(), *(held for each in others for held in each.placeholders.values())}
    assert len(spelled) == 6 and all(held.startswith(PREFIX) and VALUE not in held for held in spelled)


async def test_the_value_goes_to_its_host_and_the_answer_comes_without_it(stage: Stage) -> None:
    page = await stage.ask(f"{stage.url}/echo", headers=stage.bearer)
    assert stage.site.seen[-1].headers["authorization"] == f"Bearer {VALUE}" and stage.site.seen[-1].tls
    assert VALUE.encode() not in page.data and stage.held.encode() in page.data
    page = await stage.ask(f"{stage.url}/pieces", headers=stage.bearer)
    assert page.data == f"Bearer {stage.held}".encode() and page.headers["x-echo"] == f"Bearer {stage.held}"


async def test_a_password_of_basic_authentication(stage: Stage) -> None:
    login = base64.b64encode(f"me:{stage.held}".encode()).decode()
    page = await stage.ask(f"{stage.url}/echo", headers={"Authorization": f"Basic {login}"})
    sent = stage.site.seen[-1].headers["authorization"].removeprefix("Basic ")
    assert base64.b64decode(sent).decode() == f"me:{VALUE}"
    assert sent.encode() not in page.data and login.encode() in page.data


@pytest.mark.parametrize("place", ["headers", "url", "body"])
async def test_only_the_places_that_were_said(stage: Stage, place: str) -> None:
    asked = {
        "headers": {"url": f"{stage.url}/echo", "headers": stage.bearer},
        "url": {"url": f"{stage.url}/echo?key={stage.held}"},
        "body": {"url": f"{stage.url}/echo", "method": "POST", "body": f"k={stage.held}".encode()},
    }
    only = Stage(stage.site, stage.trust, place)
    for kind, more in asked.items():
        if kind == place:
            page = await only.ask(**more)  # type: ignore[arg-type]
            assert VALUE.encode() not in page.data and b"%22the%2Freal" not in page.data
            assert "the" in repr(stage.site.seen.pop())
        else:
            with pytest.raises(Refused, match=f"may not stand in the {kind}"):
                await only.ask(**more)  # type: ignore[arg-type]
    assert not stage.site.seen


async def test_nobody_else_gets_it(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    plain = f"http://{HOST}:{stage.site.port}"
    wrong = f"{PREFIX}{'0' * 32}"
    for url, more in (
        (f"{stage.other}/echo", {"headers": stage.bearer}),  # another host
        (f"{plain}/echo", {"headers": stage.bearer}),  # in the clear, another port
        (f"{stage.url}/echo", {"headers": stage.bearer, "agent": "bee"}),  # another agent
        (f"{stage.other}/echo?k={stage.held}", {}),
        (f"{stage.other}/echo", {"method": "POST", "body": stage.held.encode()}),
        (f"{stage.url}/echo", {"headers": {"X": wrong}}),  # nobody's
        (f"{stage.other}/echo", {"headers": {"Authorization": _basic(f"me:{stage.held}")}}),
    ):
        with pytest.raises(Refused, match="placeholder for a secret was not sent"):
            await stage.ask(url, **more)  # type: ignore[arg-type]
    assert not stage.site.seen
    assert caplog.text.count("broker.refused") == 7 and VALUE not in caplog.text


async def test_a_redirect_takes_it_nowhere(stage: Stage) -> None:
    for status in (301, 302, 303, 307, 308):
        for target in (f"{stage.other}/echo", f"http://{HOST}:{stage.site.port}/echo"):
            page = await stage.ask(f"{stage.url}/to?s={status}&u={target}", headers=stage.bearer, redirects=3)
            assert VALUE.encode() not in page.data
            assert "authorization" not in stage.site.seen[-1].headers
    await stage.ask(f"{stage.url}/to?u=/echo", headers=stage.bearer, redirects=3)
    assert stage.site.seen[-1].headers["authorization"] == f"Bearer {VALUE}"
    assert stage.is_clean()


async def test_an_answer_that_sends_the_value_on(stage: Stage) -> None:
    """The address of a redirect holds what was sent: it is a placeholder again, which goes nowhere."""
    only = Stage(stage.site, stage.trust, "url")
    with pytest.raises(Refused, match="was not sent"):
        await only.ask(f"{stage.url}/to?u={stage.other}/{stage.held}", redirects=3)
    assert len(stage.site.seen) == 1


def test_a_value_that_is_cut_between_pieces() -> None:
    for size in (1, 2, 3, 5, 100):
        mask = Mask(((b"secret-value", b"***"),))
        text = b"a secret-value, secret-valu and secret-valuesecret-value"
        pieces = [mask.feed(text[at : at + size]) for at in range(0, len(text), size)]
        assert b"".join([*pieces, mask.end()]) == b"a ***, secret-valu and ******"


# --- commands in a sandbox ---


@pytest.fixture
async def door(stage: Stage, tmp_path: Path) -> AsyncIterator[Path]:
    async with open_proxy(tmp_path / "e", stage.broker, stage.trust) as proxy:
        hosts = (
            f"{HOST}:{stage.site.tls_port}",
            f"{OTHER}:{stage.site.tls_port}",
            f"{HOST}:{stage.site.port}",
        )
        yield await proxy.open(MAIN, rules(*hosts))


def get(stage: Stage, path: str, held: str = "", *, port: int = 0, more: str = "") -> bytes:
    place = f"{HOST}:{port or stage.site.tls_port}"
    said = f"Authorization: Bearer {held or stage.held}\r\n{more}"
    return f"GET http://{place}{path} HTTP/1.1\r\n{said}\r\n".encode()


async def test_a_plain_request_goes_out_over_tls_with_the_value(stage: Stage, door: Path) -> None:
    for path in ("/echo", "/pieces"):
        answer = await say(door, get(stage, path, more="Accept-Encoding: gzip\r\n"))
        assert answer.startswith(b"HTTP/1.1 200 "), answer
        assert VALUE.encode() not in answer and stage.held.encode() in answer.replace(b"\r\n1\r\n", b"")
        seen = stage.site.seen[-1]
        assert seen.tls and seen.headers["authorization"] == f"Bearer {VALUE}"
        assert seen.headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("by", ["client", "proxy"])
async def test_what_a_host_kept_comes_back_without_the_value(stage: Stage, door: Path, by: str) -> None:
    """Also if the request has no placeholder in it, and in the forms in which sites tell things."""
    plain = json.dumps(VALUE)
    forms = [VALUE, plain, plain.replace("/", "\\/"), html.escape(VALUE), quote(VALUE), quote_plus(VALUE)]
    for form in forms:
        stage.site.kept = f"<{form}>"
        if by == "client":
            told = (await stage.ask(f"{stage.url}/kept", headers={"Range": "bytes=7-20"})).data
        else:
            told = await say(door, get(stage, "/kept", "x", more="Range: bytes=7-20\r\nIf-Range: x\r\n"))
            told = re.sub(rb"\r\n[0-9a-f]+\r\n", b"", told)  # the chunks
        assert stage.held.encode() in told and form.strip('"').encode() not in told, form
        assert not {"range", "if-range"} & set(stage.site.seen[-1].headers)
    other = get(stage, "/kept", "x", more="Range: bytes=7-20\r\n").replace(HOST.encode(), OTHER.encode())
    await say(door, other.replace(b"http:", b"https:"))
    assert stage.site.seen[-1].headers["range"] == "bytes=7-20"


async def test_no_tunnel_leads_to_a_host_with_a_secret(stage: Stage, door: Path) -> None:
    for host, status in ((HOST, b"403"), (OTHER, b"200")):
        place = f"{host}:{stage.site.tls_port}"
        asked = f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n".encode()
        assert (await say(door, asked)).startswith(b"HTTP/1.1 " + status)


async def test_the_proxy_sends_a_placeholder_nowhere_else(stage: Stage, door: Path, tmp_path: Path) -> None:
    plain = get(stage, "/echo", port=stage.site.port)
    elsewhere = get(stage, "/echo").replace(HOST.encode(), OTHER.encode())
    in_url = f"GET http://{OTHER}:{stage.site.tls_port}/echo?{stage.held} HTTP/1.1\r\n\r\n".encode()
    for request in (plain, elsewhere, in_url, get(stage, f"/echo?{stage.held}", "x")):
        answer = await say(door, request)
        assert answer.startswith(b"HTTP/1.1 403 ") and b"was not sent" in answer, answer
    body = f"POST http://{HOST}:{stage.site.port}/echo HTTP/1.1\r\nContent-Length: 46\r\n\r\n{stage.held}"
    assert b" 200 " not in await say(door, body.encode())
    assert not stage.site.seen
    async with open_proxy(tmp_path / "f", stage.broker, stage.trust) as proxy:
        bee = await proxy.open(AgentId("bee"), rules(f"{HOST}:{stage.site.tls_port}"))
        answer = await say(bee, get(stage, "/echo").replace(b"http:", b"https:"))
        assert answer.startswith(b"HTTP/1.1 403 ") and not stage.site.seen


async def test_an_answer_that_hides_its_words(stage: Stage, door: Path) -> None:
    assert (await say(door, get(stage, "/gzip"))).startswith(b"HTTP/1.1 502 ")


async def test_a_redirect_to_itself_stays_with_the_proxy(stage: Stage, door: Path) -> None:
    place = f"{HOST}:{stage.site.tls_port}"
    answer = await say(door, get(stage, f"/to?u=https://{place}/echo"))
    assert f"location: http://{place}/echo\r\n".encode() in answer.lower()
    answer = await say(door, get(stage, f"/to?u={stage.other}/echo"))
    assert f"location: {stage.other}/echo\r\n".encode() in answer.lower()


async def test_curl_in_a_sandbox_uses_a_secret_that_it_never_sees(
    stage: Stage, door: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", str(forwarder.__file__), "0", str(door), "--until-stdin-ends",
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None and process.stdin is not None
    port = int(await process.stdout.readline())
    environ = {
        "PATH": os.environ["PATH"],
        "http_proxy": f"http://127.0.0.1:{port}",
        **stage.broker.variables,
    }
    assert environ["GITHUB_TOKEN"] == stage.held
    url = f"http://{HOST}:{stage.site.tls_port}/echo"
    command = (
        f'curl -sS -H "Authorization: token $GITHUB_TOKEN" {url}; curl -sS -u "me:$GITHUB_TOKEN" {url}; env'
    )
    shell = await asyncio.create_subprocess_exec(
        "sh", "-c", command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environ
    )
    output, _ = await shell.communicate()
    assert [seen.headers["authorization"].split()[0] for seen in stage.site.seen] == ["token", "Basic"]
    assert stage.site.seen[0].headers["authorization"] == f"token {VALUE}"
    encoded = stage.site.seen[1].headers["authorization"].split()[1]
    assert VALUE not in output.decode() and encoded not in output.decode() and VALUE not in caplog.text
    process.stdin.close()
    assert await process.wait() == 0


def _basic(login: str) -> str:
    return f"Basic {base64.b64encode(login.encode()).decode()}"
