"""Webhooks out: signed requests to a server of the test, through the adapter and through the whole outbox."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from hermes.admin.shell.command import perform
from hermes.admin.shell.output import CliConsole
from hermes.app.accounts import DeclaredAccount
from hermes.control.outbound.sending import OutboundMessage
from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Body
from hermes.domain.chats.rows import OutState
from hermes.domain.errors import HermesError, Refused, Unreachable
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.safety.hosts import is_public
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.platforms import PlatformSettings
from hermes.entry.http.webhooks.signatures import Headers, SignatureScheme, verify
from hermes.entry.platforms.webhook.adapter import WebhookAdapter
from hermes.entry.platforms.webhook.convert import WebhookTarget, error_for, read_targets, target_problems
from hermes.entry.platforms.webhook.manifest import MANIFEST
from hermes.execution.egress.client import EgressClient
from hermes.execution.egress.parts import EgressParts
from hermes.execution.egress.reach import Reach
from hermes.state.settings.loader import load_settings
from hermes.testing.clock import FakeClock
from hermes.testing.harness import Journey, open_settings
from hermes.testing.platform_suite import (
    CHECKS,
    RECEIVING,
    WHOLE,
    Check,
    Does,
    Fault,
    Shown,
    conform,
)
from hermes.testing.served import Route, ServedBed, ServedFake

OPS = Address(platform="webhook", chat="ops")
SECRET = Secret("a-long-secret-of-the-operator")


@dataclass
class Receiver(ServedFake):
    """Somebody's server."""

    chat = OPS

    bodies: list[dict[str, Any]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    taken: list[str] = field(default_factory=list)
    schemes: set[SignatureScheme] = field(default_factory=set)
    answers: list[web.Response] = field(default_factory=list)

    def routes(self) -> Iterable[Route]:
        yield "POST", "/in", self.answer

    def seen(self) -> list[str]:
        return [body["data"]["text"] for body in self.bodies]

    def failed(self, fault: Fault) -> web.Response:
        gone = fault is Fault.GONE
        return web.Response(status=410) if gone else web.Response(status=429, headers={"Retry-After": "3"})

    async def answer(self, request: web.Request) -> web.StreamResponse:
        data = await request.read()
        when = float(request.headers["webhook-timestamp"])
        headers = Headers(request.headers.items())
        self.schemes.add(verify(headers, data, SECRET, now=when, loopback=False).scheme)
        self.ids.append(request.headers["webhook-id"])
        return await self.troubled(request, OPS.chat, lambda: self._take(request, data))

    async def _take(self, request: web.Request, data: bytes) -> web.Response:
        if self.answers:
            return self.answers.pop(0)
        self.bodies.append(json.loads(data))
        self.taken.append(request.headers["webhook-id"])
        return web.Response(status=204)


def block(url: str, **more: object) -> PlatformSettings:
    return PlatformSettings(trees={"targets": {"ops": {"url": url, "secret": SECRET, **more}}})


def local(stage: Receiver) -> PlatformSettings:
    return block(f"http://127.0.0.1:{stage.port}/in", allow_private=True)


def nothing(variable: str) -> Secret | None:
    return None


def context(settings: PlatformSettings) -> AdapterContext:
    egress = EgressClient(EgressParts(reach=lambda: Reach(look_up=book)))
    return AdapterContext(settings=settings, find=nothing, egress=egress)


class WebhookBed(ServedBed):
    """Somebody's server, to which an adapter that only sends posts."""

    manifest = MANIFEST
    receives = frozenset()
    faults = frozenset({Fault.TOO_FAST, Fault.TOO_FAST_ALL, Fault.GONE, Fault.BROKEN})
    chat = OPS
    exempt = {
        **{check.__name__: "nothing comes in here" for check in (*RECEIVING, *WHOLE)},
        "check_a_key_is_sent_once_where_promised": "who gets it drops what has the same id",
    }

    def __init__(self, *, full: bool = False) -> None:
        super().__init__(full=full)
        self.server = Receiver()

    def connect(self) -> WebhookAdapter:
        return WebhookAdapter(context(local(self.server)))

    def chats(self, count: int) -> list[Address]:
        raise AssertionError("there is one target")

    async def do(self, does: Does, text: str, *, chat: Address | None = None, on: str = "") -> None:
        raise AssertionError("nothing comes in here")

    def shown(self, chat: Address | None = None) -> list[Shown]:
        sent = zip(self.server.taken, self.server.seen(), strict=True)
        return [Shown(ref=ref, chat=OPS.chat, text=text) for ref, text in sent]


@asynccontextmanager
async def running(platform: WebhookAdapter) -> AsyncIterator[WebhookAdapter]:
    async def never(items: object, cursor: str | None) -> None:
        raise AssertionError("nothing comes in here")

    task = asyncio.create_task(platform.run(never, None))
    await asyncio.sleep(0)
    try:
        yield platform
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def post(platform: WebhookAdapter, to: Address = OPS) -> None:
    await platform.send(to, Body(text="hello"), key="turn_1:0", reply_to=None)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_a_webhook_conforms(check: Check, full: bool) -> None:
    await conform(check, WebhookBed, full=full)


async def test_a_message_is_signed_and_keeps_its_id() -> None:
    async with Receiver() as stage, running(WebhookAdapter(context(local(stage)))) as platform:
        await post(platform)
        await post(platform)
        assert len(set(stage.ids)) == 1 and stage.schemes == {SignatureScheme.SVIX}
        assert stage.bodies[0]["type"] == "message" and stage.bodies[0]["data"]["target"] == "ops"


@pytest.mark.parametrize("status", [200, 299, 301, 308, 400, 401, 404, 408, 425, 429, 500, 503])
def test_answers_become_errors(status: int) -> None:
    error = error_for(WebhookTarget(name="ops"), status, {"Retry-After": "7"})
    if status < 300:
        assert error is None
    elif status in (408, 425, 429, 500, 503):
        assert isinstance(error, Unreachable) and error.after == 7.0 and error.maybe_done == (status >= 500)
    else:
        assert isinstance(error, Refused)


async def test_a_redirect_is_not_followed_and_nobody_there_is_tried_again() -> None:
    async with Receiver() as stage, running(WebhookAdapter(context(local(stage)))) as platform:
        stage.answers = [web.Response(status=302, headers={"Location": "/in"})]
        with pytest.raises(Refused, match="that is not followed"):
            await post(platform)
        assert stage.bodies == []
    async with running(WebhookAdapter(context(local(stage)))) as platform:
        with pytest.raises(Unreachable) as error:
            await post(platform)
        assert not error.value.maybe_done


async def book(name: str, port: int) -> Sequence[str]:
    """Every name leads to this machine."""
    return ["127.0.0.1"]


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "[::1]", "10.0.0.7", "169.254.169.254", "2130706433", "a.example"]
)
async def test_a_place_that_is_not_public_has_to_be_allowed(host: str) -> None:
    async with running(WebhookAdapter(context(block(f"https://{host}/in")))) as platform:
        with pytest.raises(Refused, match=r"not the open one.*allow_private: true"):
            await post(platform)


async def test_an_allowed_name_may_lead_to_this_machine() -> None:
    async with Receiver() as stage:
        settings = block(f"http://a.example:{stage.port}/in", allow_private=True)
        async with running(WebhookAdapter(context(settings))) as platform:
            await post(platform)
        assert stage.seen() == ["hello"]


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True),
        ("2606:4700::1111", True),
        ("192.168.1.1", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("fe80::1%eth0", False),
        ("fd00::1", False),
        ("::ffff:10.0.0.1", False),
        ("64:ff9b::7f00:1", False),
        ("2002:7f00:1::", False),
        ("::127.0.0.1", False),
        ("::ffff:0:7f00:1", False),
        ("no address", False),
    ],
)
def test_which_addresses_are_public(address: str, public: bool) -> None:
    assert is_public(address) is public


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"url": "https://a.example/in"}, "it has no secret to sign with; set WEBHOOK_MY_OPS_SECRET"),
        ({"url": "http://a.example/in", "secret": SECRET}, "is not https"),
        ({"url": "ftp://a.example/in", "secret": SECRET}, "its url must be https"),
        ({"url": "https://u:p@a.example/in", "secret": SECRET}, "its url must be https"),
        ({"url": "https://a.example:x/in", "secret": SECRET}, "its url must be https"),
        ({"secret": SECRET}, "its url must be https"),
        ({"url": "https://a.example", "secret": SECRET, "hedaers": 1}, "it has no key “hedaers”"),
    ],
)
async def test_what_is_wrong_with_a_target_is_said(entry: dict[str, Any], told: str) -> None:
    tree = {"my-ops": entry}
    [problem] = target_problems(tree, nothing)
    assert told in problem
    async with running(WebhookAdapter(context(PlatformSettings(trees={"targets": tree})))) as platform:
        with pytest.raises(Refused, match="cannot be used"):
            await post(platform, Address(platform="webhook", chat="my-ops"))
        with pytest.raises(Refused, match="there is no webhook target"):
            await post(platform)


def test_a_secret_may_be_a_variable() -> None:
    tree = {"my-ops": "https://a.example/in"}
    said = read_targets(tree, lambda name: SECRET if name == "WEBHOOK_MY_OPS_SECRET" else None)
    assert said["my-ops"].secret == SECRET and not said["my-ops"].problem
    assert list(target_problems(["x"], nothing)) != []


def test_targets_in_the_settings_enable_it_and_are_checked(tmp_path: Path) -> None:
    import io

    config = tmp_path / "config.yaml"
    config.write_text("platforms: {webhook: {targets: {ops: {url: 'https://a.example/in'}}}}\n")
    config.chmod(0o600)
    loaded = load_settings(tmp_path, {})
    assert DeclaredAccount(manifest=MANIFEST, loaded=loaded).enabled
    assert not DeclaredAccount(manifest=MANIFEST, loaded=load_settings(tmp_path / "other", {})).enabled
    out, err = io.StringIO(), io.StringIO()
    assert perform("config", ["check"], tmp_path, {}, CliConsole(out=out, err=err)) != 0
    assert "platforms.webhook.targets.ops: it has no secret" in out.getvalue()
    (tmp_path / ".env").write_text("WEBHOOK_OPS_SECRET=a-long-secret-of-the-operator\n")
    (tmp_path / ".env").chmod(0o600)
    out = io.StringIO()
    assert perform("config", ["check"], tmp_path, {}, CliConsole(out=out, err=err)) == 0, out.getvalue()


async def test_the_outbox_retries_and_reports(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    clock = FakeClock()
    async with Receiver() as stage, running(WebhookAdapter(context(local(stage)))) as platform:
        home = PlatformSettings(allow_all_users=True, home_channel="home")
        settings = open_settings(platforms={"fake": home, "webhook": local(stage)})
        async with Journey(folder=tmp_path, settings=settings, clock=clock) as chat:
            chat.gateway.attach("webhook", platform)
            stage.answers = [web.Response(status=503), web.Response(status=429)]
            letter = OutboundMessage(
                key="a", target="webhook:ops, fake", body=Body(text="the build is green")
            )
            await chat.gateway.courier.post(MAIN_AGENT, letter)
            while not stage.bodies:
                await clock.advance(1.0)
            assert stage.seen() == ["the build is green"] and len(set(stage.ids)) == 1
            await chat.until_seen("the build is green", chat="home")
            stage.answers = [web.Response(status=404)]
            await chat.gateway.courier.post(
                MAIN_AGENT, OutboundMessage(key="b", target="webhook:ops", body=Body(text="gone"))
            )
            [row] = [None]
            async with asyncio.timeout(60):
                while row is None:
                    dead = await chat.database.read(lambda tx: tx.outbox.find((OutState.DEAD,)))
                    row = dead[0] if dead else None
                    await asyncio.sleep(0.005)
            assert "the webhook “ops” says 404" in row.error
            with pytest.raises(HermesError, match="There is no webhook target “nowhere”"):
                await chat.gateway.courier.post(
                    MAIN_AGENT, OutboundMessage(key="c", target="webhook:nowhere", body=Body(text="x"))
                )
    assert SECRET.reveal() not in caplog.text
