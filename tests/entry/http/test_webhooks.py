"""Events from outside, through the real server: what wakes an agent, what does not, and that each is one."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import io
import json
import logging
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.chats.address import Address
from hermes.domain.errors import HermesError, Refused, Unreachable
from hermes.domain.ids import MAIN_AGENT, AgentId, CallId
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.event import ToolFinished
from hermes.domain.turns.turn import Cause, TurnState
from hermes.entry.host import HostState
from hermes.entry.platforms.github.adapter import GithubAdapter
from hermes.state.files.subscriptions import change
from hermes.testing.api import ApiWorld, Heard
from hermes.testing.model import Say, ScriptedModel, last_words, say
from hermes.testing.platform import fake_platform
from hermes.testing.tools import world_tools
from hermes.testing.world import World
from tests.platforms.fake_github import FakeGithub

SECRET = "the secret of the route"
CONFIG = """
platforms:
  fake: {allow_all_users: true, allowed_users: [u1]}
  webhook:
    extra:
      routes:
        gh:
          secret: the secret of the route
          prompt: "Look at #{number} of {user.login}: {title}"
        off: {secret: the secret of the route, enabled: false}
        broken: {secret: the secret of the route, promt: x}
        picky:
          secret: the secret of the route
          events: [opened, closed]
          filters: [{field: user.login, in_file: people.txt}, {not: {field: title, regex: "^WIP"}}]
        scripted: {secret: the secret of the route, script: change.sh, prompt: "{word} {output}"}
        open: {secret: INSECURE_NO_AUTH}
        chat: {secret: the secret of the route, deliver: "fake:77", prompt: "{text}"}
        narrow: {secret: the secret of the route, prompt: "{text}", toolsets: [file]}
        relay: {secret: the secret of the route, deliver: fake, deliver_only: true, prompt: "Build {text}",
                deliver_extra: {chat_id: "{room}"}}
        home: {secret: the secret of the route, deliver: fake, deliver_only: true, prompt: "Build {text}"}
        named: {secret: the secret of the route, deliver: "fake:#ops", deliver_only: true, prompt: "{text}"}
        lost: {secret: the secret of the route, deliver: "nowhere:1"}
        short: {secret: abc}
        bound: {secret: the secret of the route, agent: ops, prompt: "{text}"}
        pinged: {secret: the secret of the route, events: [ping]}
"""
EVENT: dict[str, Any] = {
    "type": "opened",
    "number": 7,
    "user": {"login": "ada"},
    "title": "Typo",
    "text": "t",
}


def github(body: bytes, delivery: str = "d-1", event: str = "watch", secret: str = SECRET) -> dict[str, str]:
    signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {
        "Content-Type": "application/json",
        "X-Hub-Signature-256": f"sha256={signature}",
        "X-GitHub-Delivery": delivery,
        "X-GitHub-Event": event,
    }


def v2(body: bytes, now: float, secret: str = SECRET) -> dict[str, str]:
    sent = str(int(now))
    digits = hmac.new(secret.encode(), f"{sent}.".encode() + body, hashlib.sha256).hexdigest()
    return {"X-Webhook-Timestamp": sent, "X-Webhook-Signature-V2": digits}


async def send(
    api: ApiWorld, route: str, payload: object = EVENT, *, delivery: str = "d-1", **headers: str
) -> Heard:
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return await api.ask("POST", f"/webhooks/{route}", data=body, headers=github(body, delivery) | named)


async def turns(api: ApiWorld) -> list[Any]:
    """Every turn there is."""
    sessions = await api.app.store.read(lambda tx: tx.sessions.find("", 1000))
    entries = [
        entry
        for session in sessions
        for entry in await api.app.store.read(lambda tx, known=session: tx.journal.read(known.id))
    ]
    open_turns = [
        turn.id
        for session in sessions
        for turn in await api.app.store.read(lambda tx, known=session: tx.turns.open_of(known.id))
    ]
    return sorted({entry.turn for entry in entries} | set(open_turns))


def unfenced(text: str) -> str:
    """Words for an agent without the marks around what came from outside."""
    return re.sub(r"</?outside [0-9a-f]+>", "", text)


async def said_to(model: ScriptedModel, count: int = 1) -> list[str]:
    end = time.monotonic() + 40
    while len(model.requests) < count:
        assert time.monotonic() < end, "the agent was not woken"
        await _moment()
    return [last_words(request) for request in model.requests]


async def _moment() -> None:
    await asyncio.sleep(0.01)


def world(tmp_path: Path, **more: Any) -> ApiWorld:
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    return ApiWorld(home=home, config=CONFIG, **more)


# --- what wakes ---


async def test_an_event_wakes_the_agent_in_a_session_of_its_own(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with world(tmp_path, provider=model) as api:
        heard = await send(api, "gh")
        assert heard.status == 202
        assert heard.json == {"status": "accepted", "route": "gh", "event": "watch", "delivery_id": "d-1"}
        (words,) = await said_to(model)
        assert unfenced(words).endswith("Look at #7 of ada: Typo") and "data" in words
        await send(api, "gh", EVENT | {"number": 8}, delivery="d-2")
        await said_to(model, 2)
        sessions = await api.app.store.read(lambda tx: tx.sessions.find(""))
        assert {session.place for session in sessions} == {"webhook:gh:d-1", "webhook:gh:d-2"}
        keys = await api.app.store.read(lambda tx: tx.bindings.of(sessions[0].id))
        assert str(keys[0][0]).startswith("agent:main:webhook:webhook:gh:d-")
        turn = await api.app.store.read(
            lambda tx: tx.requests.find("webhook:gh", key=f"id:d-1:{_sha(EVENT)}") and _turn(tx)
        )
        assert turn is not None and turn.cause is Cause.WEBHOOK and turn.reply is None


def _sha(payload: object) -> str:
    return hashlib.sha256(json.dumps(payload).encode()).hexdigest()


def _turn(tx: Any) -> Any:
    (known,) = tx.requests.find("webhook:gh", key=f"id:d-1:{_sha(EVENT)}")
    return tx.turns.get(known.turn)


async def test_a_route_may_have_few_toolsets(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with world(tmp_path, provider=model) as api:
        assert (await send(api, "narrow", {"text": "look"})).status == 202
        await said_to(model)
        assert (await send(api, "gh", delivery="2")).status == 202
        await said_to(model, 2)
        narrow, wide = ({tool.toolset for tool in request.tools} for request in model.requests)
        assert narrow == {"file"} < wide


async def test_the_same_delivery_to_two_routes_is_two_events(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with world(tmp_path, provider=model) as api:
        assert (await send(api, "gh")).status == 202
        assert (await send(api, "chat-of-file")).status == 404
        change(api.home, "chat-of-file", {"secret": SECRET})
        assert (await send(api, "chat-of-file")).status == 202
        await said_to(model, 2)


async def test_an_array_a_form_and_a_bare_value_work(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with world(tmp_path, provider=model) as api:
        change(api.home, "any", {"secret": SECRET, "prompt": "{0.a} {a} {__raw__}"})
        assert (await send(api, "any", [{"a": "first"}], delivery="1")).status == 202
        form = {"Content_Type": "application/x-www-form-urlencoded"}
        assert (await send(api, "any", b"a=one&b=&c=1&c=2", delivery="2", **form)).status == 202
        assert (
            await send(api, "any", b"payload=%7B%22a%22%3A%20%22inside%22%7D", delivery="3", **form)
        ).status == 202
        assert (await send(api, "any", b"17", delivery="4")).status == 202
        said = await said_to(model, 4)
        assert "first" in said[0] and "one" in said[1] and "inside" in said[2] and said[3].endswith("{a} 17")


async def test_all_schemes_over_the_wire(tmp_path: Path) -> None:
    async with world(tmp_path) as api:
        body = json.dumps(EVENT).encode()
        now, json_type = str(int(time.time())), {"Content-Type": "application/json"}
        change(api.home, "any", {"secret": SECRET})
        change(api.home, "timed", {"secret": SECRET})

        async def sent(route: str, **headers: str) -> int:
            named = {name.replace("_", "-"): text for name, text in headers.items()}
            return (await api.ask("POST", f"/webhooks/{route}", data=body, headers=json_type | named)).status

        digest = hmac.digest(SECRET.encode(), f"msg_9.{now}.".encode() + body, "sha256")
        svix = "v1," + base64.b64encode(digest).decode()
        assert await sent("gh", svix_id="msg_9", svix_timestamp=now, svix_signature=svix) == 202
        assert await sent("narrow", X_Gitlab_Token=SECRET, X_Gitlab_Event="Push Hook") == 202
        assert await sent("timed", **v2(body, float(now))) == 202
        v1 = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        assert await sent("any", X_Webhook_Signature=v1, X_Request_ID="r-1") == 202


async def test_for_an_agent_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    config = CONFIG + "agents:\n  ops: {}\n"
    model = ScriptedModel()
    async with ApiWorld(home=tmp_path / "home", config=config, provider=model) as api:
        body = json.dumps(EVENT).encode()
        heard = await api.ask("POST", "/p/ops/webhooks/gh", data=body, headers=github(body))
        assert heard.status == 202
        await said_to(model)
        ours = await api.app.store.scoped(AgentId("ops")).read(lambda tx: tx.sessions.find(""))
        assert len(ours) == 1 and not await api.app.store.read(lambda tx: tx.sessions.find(""))
        heard = await api.ask("POST", "/p/nobody/webhooks/gh", data=body, headers=github(body))
        assert (heard.status, heard.json["error"]["code"]) == (404, "unknown_agent")


async def test_a_route_that_is_bound_reaches_its_agent_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    model = ScriptedModel()
    async with ApiWorld(
        home=tmp_path / "home", config=CONFIG + "agents:\n  ops: {}\n  spy: {}\n", provider=model
    ) as api:
        body = json.dumps(EVENT).encode()
        for other in ("spy", "main"):
            heard = await api.ask("POST", f"/p/{other}/webhooks/bound", data=body, headers=github(body))
            assert (heard.status, heard.json["error"]["code"]) == (403, "wrong_agent")
        assert (await send(api, "bound")).status == 202
        await said_to(model)
        ours = await api.app.store.scoped(AgentId("ops")).read(lambda tx: tx.sessions.find(""))
        assert len(ours) == 1 and not await api.app.store.read(lambda tx: tx.sessions.find(""))
        heard = await api.ask("POST", "/p/ops/webhooks/bound", data=body, headers=github(body))
        assert heard.json["status"] == "duplicate"


async def test_a_route_that_is_bound_to_nobody_takes_nothing(tmp_path: Path) -> None:
    async with world(tmp_path) as api:
        heard = await send(api, "bound")
        assert (heard.status, heard.json["error"]["code"]) == (502, "unknown_agent")
        assert not await turns(api)


async def test_a_ping_wakes_nobody(tmp_path: Path) -> None:
    ping = {"zen": "Keep it logically awesome.", "hook_id": 1}
    async with world(tmp_path) as api:
        heard = await send(api, "gh", ping, X_GitHub_Event="ping")
        assert (heard.status, heard.json["status"], heard.json["reason"]) == (200, "ignored", "ping")
        assert not await turns(api)
        assert (await send(api, "pinged", ping, X_GitHub_Event="ping")).status == 202, "it was asked for"


async def test_a_changed_name_of_an_event_is_noticed(tmp_path: Path) -> None:
    async with world(tmp_path) as api:
        heard = await send(api, "gh", {"zen": "x"}, X_GitHub_Event="push")
        assert (heard.status, heard.json["error"]["code"]) == (400, "event_mismatch")
        assert not await turns(api)


async def test_slack_hears_its_challenge(tmp_path: Path) -> None:
    def signed(payload: object) -> tuple[bytes, dict[str, str]]:
        body, now = json.dumps(payload).encode(), str(int(time.time()))
        digits = hmac.new(SECRET.encode(), f"v0:{now}:".encode() + body, hashlib.sha256).hexdigest()
        names = {"X-Slack-Request-Timestamp": now, "X-Slack-Signature": f"v0={digits}"}
        return body, names | {"Content-Type": "application/json"}

    async with world(tmp_path) as api:
        body, headers = signed({"type": "url_verification", "challenge": "3eZbrw1a"})
        heard = await api.ask("POST", "/webhooks/gh", data=body, headers=headers)
        assert (heard.status, heard.json) == (200, {"challenge": "3eZbrw1a"})
        assert not await turns(api)
        body, headers = signed({"type": "event_callback", "event": {"type": "app_mention"}, "event_id": "E"})
        heard = await api.ask("POST", "/webhooks/gh", data=body, headers=headers)
        assert (heard.status, heard.json["event"]) == (202, "app_mention")


async def test_linear_is_answered_with_the_one_status_that_it_takes_for_success(tmp_path: Path) -> None:
    """Its retries may bear another time, and are the same event all the same."""

    async def post(payload: object) -> Heard:
        body = json.dumps(payload).encode()
        digits = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        names = {"Linear-Signature": digits, "Linear-Delivery": "d-1", "Content-Type": "application/json"}
        return await api.ask("POST", "/webhooks/gh", data=body, headers=names)

    now = int(time.time() * 1000)
    event = {"type": "Issue", "action": "create", "webhookTimestamp": now}
    async with world(tmp_path) as api:
        heard = await post(event)
        assert (heard.status, heard.json["status"], heard.json["event"]) == (200, "accepted", "Issue")
        again = await post(event | {"webhookTimestamp": now + 1})
        assert (again.status, again.json["status"]) == (200, "duplicate")
        late = await post(event | {"webhookTimestamp": now - 8 * 86_400_000})
        assert late.status == 401 and len(await turns(api)) == 1


async def test_what_would_need_an_approval_is_denied_at_once(tmp_path: Path) -> None:
    ran: list[str] = []

    async def act(name: str, key: str, token: str) -> None:
        ran.append(name)

    def answer(request: ModelRequest) -> Say:
        results = [entry.record for entry in request.entries if isinstance(entry.record, ToolFinished)]
        if results:
            return say(results[-1].text)
        return Say(calls=(ToolCall(id=CallId("c1"), name="danger", arguments="{}"),))

    model = ScriptedModel(answer)
    async with world(tmp_path, provider=model, tools=tuple(world_tools(act))) as api:
        assert (await send(api, "gh")).status == 202
        await said_to(model, 2)
        result = [one.record for one in model.requests[1].entries if isinstance(one.record, ToolFinished)][-1]
        assert result.failed and "nobody is there to be asked" in result.text
        assert not ran and not (await api.get("/v1/questions")).json["data"]


async def test_it_comes_to_the_gateway_by_any_name(tmp_path: Path) -> None:
    """Senders reach it through proxies and tunnels: what is signed needs no right name."""
    async with world(tmp_path) as api:
        assert (await send(api, "gh", Host="hooks.example.org")).status == 202
        assert (await api.get("/v1/models", headers={"Host": "hooks.example.org"})).status == 403


async def test_without_authentication_only_for_programs_of_this_machine(tmp_path: Path) -> None:
    async with world(tmp_path) as api:
        bare = {"Content-Type": "application/json"}
        assert (await api.ask("POST", "/webhooks/open", data=b"{}", headers=bare)).status == 202
        for outside in (
            {"Host": "hooks.example.org"},
            {"Origin": "https://evil.example.org"},
            {"X-Forwarded-For": "8.8.8.8"},
            {"Forwarded": "for=8.8.8.8"},
            {"X-Forwarded-Proto": "https"},
            {"X-Real-IP": "8.8.8.8"},
            {"CF-Connecting-IP": "8.8.8.8"},
            {"True-Client-IP": "8.8.8.8"},
            {"Via": "1.1 proxy"},
        ):
            heard = await api.ask("POST", "/webhooks/open", data=b"[1]", headers=bare | outside)
            assert heard.status == 401
        assert (await send(api, "short")).status == 401  # signed with another secret
        body = json.dumps(EVENT).encode()
        signed = github(body, secret="abc")
        assert (await api.ask("POST", "/webhooks/short", data=body, headers=signed)).status == 202
        through_proxy = signed | {"Host": "hooks.example.org", "X-GitHub-Delivery": "d-2"}
        assert (await api.ask("POST", "/webhooks/short", data=body, headers=through_proxy)).status == 401


# --- what does not wake ---


async def test_events_and_filters(tmp_path: Path) -> None:
    async with world(tmp_path) as api:
        (api.home / "people.txt").write_text("ada\n\nbob\n")

        async def sent(delivery: str, event: str = "opened", **changed: Any) -> tuple[str, str]:
            body = json.dumps(EVENT | changed).encode()
            heard = await api.ask("POST", "/webhooks/picky", data=body, headers=github(body, delivery, event))
            return heard.json["status"], heard.json.get("reason", "")

        assert await sent("1") == ("accepted", "")
        assert await sent("2", event="labeled") == ("ignored", "event")
        assert await sent("3", user={"login": "eve"}) == ("ignored", "filter")
        assert await sent("4", title="WIP: Typo") == ("ignored", "filter")
        assert len(await turns(api)) == 1


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("""cat > /dev/null; echo '{"word": "changed"}'""", "changed {output}"),
        ("grep -o Typo", "{word} Typo"),
        ("cat > /dev/null", None),
        ("echo '[SILENT]'", None),
        ("echo '{}'; exit 3", None),
        ("sleep 100", None),
    ],
)
async def test_scripts(tmp_path: Path, script: str, words: str | None) -> None:
    model = ScriptedModel()
    (tmp_path / "home" / "scripts").mkdir(parents=True)
    (tmp_path / "home" / "scripts" / "change.sh").write_text(script)
    environ = {"WEBHOOK_SCRIPT_TIMEOUT_SECONDS": "1", "OPENAI_API_KEY": "x"}
    async with world(tmp_path, provider=model, environ=environ) as api:
        heard = await send(api, "scripted")
        if words is None:
            assert (heard.status, heard.json["status"], heard.json["reason"]) == (200, "ignored", "script")
            assert not await turns(api)
        else:
            assert heard.status == 202
            assert unfenced((await said_to(model))[0]).endswith(words)


async def test_a_repeat_runs_no_script(tmp_path: Path) -> None:
    (tmp_path / "home" / "scripts").mkdir(parents=True)
    (tmp_path / "home" / "scripts" / "change.sh").write_text("echo ran >> ran; echo '{}'")
    async with world(tmp_path) as api:
        assert (await send(api, "scripted")).json["status"] == "accepted"
        assert (await send(api, "scripted")).json["status"] == "duplicate"
        assert (api.home / "scripts" / "ran").read_text() == "ran\n"


async def test_a_route_takes_so_many_events_a_minute(tmp_path: Path) -> None:
    async with world(tmp_path, environ={"WEBHOOK_RATE_LIMIT": "3"}) as api:
        forged = [
            (await send(api, "gh", X_Hub_Signature_256="sha256=0", delivery=str(n))).status for n in range(5)
        ]
        assert forged == [401] * 5, "a forgery uses up nothing"
        heard = [await send(api, "gh", EVENT | {"number": n}, delivery=str(n)) for n in range(5)]
        assert [one.status for one in heard] == [202, 202, 202, 429, 429]
        assert (
            heard[-1].json["error"]["code"] == "too_many_events" and int(heard[-1].headers["Retry-After"]) > 0
        )
        assert (await send(api, "picky")).status == 200, "each route counts for itself"


BODY = json.dumps(EVENT).encode()
BAD: dict[str, tuple[str, bytes, Mapping[str, str], int, str]] = {
    "unknown route": ("gone", BODY, {}, 404, "unknown_route"),
    "path in the name": ("..%2Fgh", BODY, {}, 404, "unknown_route"),
    "disabled": ("off", BODY, {}, 403, "route_disabled"),
    "broken route": ("broken", BODY, {}, 403, "route_disabled"),
    "oversize": ("gh", b'"' + b"x" * 1_048_576 + b'"', {}, 413, "body_too_large"),
    "no signature": ("gh", BODY, {"X-Hub-Signature-256": ""}, 401, "bad_signature"),
    "bad signature": ("gh", BODY, {"X-Hub-Signature-256": "sha256=" + "0" * 64}, 401, "bad_signature"),
    "bad earlier scheme": ("gh", BODY, {"svix-id": "1"}, 401, "bad_signature"),
    "bad JSON": ("gh", b'{"a":', {}, 400, "invalid_json"),
    "no JSON number": ("gh", b'{"a": NaN}', {}, 400, "invalid_json"),
    "not UTF-8": ("gh", b'{"a": "\xff"}', {}, 400, "invalid_json"),
    "deep JSON": ("gh", b"[" * 100_000 + b"]" * 100_000, {}, 400, "invalid_json"),
    "rather deep JSON": ("gh", b"[" * 70 + b"]" * 70, {}, 400, "invalid_json"),
    "empty": ("gh", b"", {}, 400, "invalid_json"),
    "bad form": ("gh", b"a;b", {"Content-Type": "application/x-www-form-urlencoded"}, 400, "invalid_form"),
    "plain text": ("gh", BODY, {"Content-Type": "text/plain"}, 415, "unsupported_content_type"),
    "no platform": ("lost", BODY, {}, 502, "no_target"),
}


@pytest.mark.parametrize("name", BAD)
async def test_bad_input(tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    route, body, headers, status, code = BAD[name]
    caplog.set_level(logging.DEBUG)
    model = ScriptedModel()
    async with world(tmp_path, provider=model) as api:
        genuine = github(body)
        url = URL(f"{api.address}/webhooks/{route}", encoded=True)
        async with api.http.post(url, data=io.BytesIO(body), headers=genuine | headers) as response:
            heard = await response.json()
        assert (response.status, heard["error"]["code"]) == (status, code)
        assert heard["error"].keys() == {"message", "type", "param", "code"}
        assert not await turns(api) and not model.requests
        assert not await api.app.store.read(lambda tx: tx.sessions.find(""))
    for told in (caplog.text, json.dumps(heard)):
        assert SECRET not in told and genuine["X-Hub-Signature-256"] not in told and "Typo" not in told


async def test_a_stale_or_early_time(tmp_path: Path) -> None:
    async with world(tmp_path) as api:
        for away in (-400.0, 400.0):
            headers = v2(BODY, time.time() + away) | {"Content-Type": "application/json"}
            heard = await api.ask("POST", "/webhooks/gh", data=BODY, headers=headers)
            assert (heard.status, heard.json["error"]["code"]) == (401, "bad_signature")
        assert not await turns(api)


async def test_a_body_that_does_not_say_its_size_is_cut_off(tmp_path: Path) -> None:
    async def endless() -> Any:
        for _ in range(40):
            yield b"x" * 65_536

    async with world(tmp_path) as api:
        try:
            heard = await api.ask(
                "POST", "/webhooks/gh", data=endless(), headers={"Content-Type": "application/json"}
            )
            assert heard.status == 413
        except aiohttp.ClientOSError:
            pass  # it was still writing when it was told
        assert not await turns(api)


async def test_webhooks_can_be_switched_off(tmp_path: Path) -> None:
    async with world(tmp_path, environ={"WEBHOOK_ENABLED": "false"}) as api:
        heard = await send(api, "gh")
        assert (heard.status, heard.json["error"]["code"]) == (404, "unknown_route")


# --- once ---


async def test_twenty_replays_after_a_restart_cause_no_turn(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with world(tmp_path, provider=model) as api:
        assert (await send(api, "gh")).json["status"] == "accepted"
        await said_to(model)
        before = await turns(api)
    again = ScriptedModel()
    async with world(tmp_path, provider=again) as api:
        for _ in range(20):
            heard = await send(api, "gh")
            assert (heard.status, heard.json["status"]) == (200, "duplicate")
        assert await turns(api) == before and not again.requests


async def test_twenty_at_once_are_one(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with world(tmp_path, provider=model) as api:
        heard = await asyncio.gather(*(send(api, "gh") for _ in range(20)))
        told = sorted(one.json["status"] for one in heard)
        assert told == ["accepted"] + ["duplicate"] * 19
        await said_to(model)
        assert len(await turns(api)) == 1


@pytest.mark.parametrize(
    "copied",
    [{"X-GitHub-Delivery": "d-2"}, {"X-Request-ID": "zz"}, {}],
    ids=["other id", "foreign id", "no id"],
)
async def test_a_copied_request_of_github_is_known_by_its_body(
    tmp_path: Path, copied: dict[str, str]
) -> None:
    """GitHub does not sign the id of a delivery."""
    async with world(tmp_path) as api:
        assert (await send(api, "gh")).json["status"] == "accepted"
        headers = {name: text for name, text in github(BODY).items() if name != "X-GitHub-Delivery"}
        heard = await api.ask("POST", "/webhooks/gh", data=BODY, headers=headers | copied)
        assert (heard.status, heard.json["status"]) == (200, "duplicate")
        assert len(await turns(api)) == 1


async def test_without_an_id_the_body_counts(tmp_path: Path) -> None:
    async with world(tmp_path) as api:
        v1 = {
            "Content-Type": "application/json",
            "X-Webhook-Signature": hmac.new(SECRET.encode(), BODY, hashlib.sha256).hexdigest(),
        }
        told = [
            (await api.ask("POST", "/webhooks/gh", data=BODY, headers=v1)).json["status"] for _ in range(3)
        ]
        assert told == ["accepted", "duplicate", "duplicate"]


async def test_a_copied_request_under_another_id_is_known_by_its_signed_time(tmp_path: Path) -> None:
    async with world(tmp_path) as api:
        signed = v2(BODY, time.time()) | {"Content-Type": "application/json"}
        told = [
            (await api.ask("POST", "/webhooks/gh", data=BODY, headers=signed | {"X-Request-ID": name})).json
            for name in ("one", "two", "one")
        ]
        assert [one["status"] for one in told] == ["accepted", "duplicate", "duplicate"]


@pytest.mark.parametrize("restart", [False, True])
async def test_the_first_event_settles_the_scheme_of_its_route(
    tmp_path: Path, restart: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """What one scheme signs would otherwise count in another: again, or without its time."""
    now = time.time()
    old, form = str(int(now - 100_000)), b"id=7&status=failed"
    signed = f"{old}.".encode() + form
    digits = hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()
    forms = {"Content-Type": "application/x-www-form-urlencoded"}
    stripe = v2(BODY, now)["X-Webhook-Signature-V2"]

    async def post(api: ApiWorld, body: bytes, **headers: str) -> int:
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        kind = {"Content-Type": "application/json"} if body == BODY else forms
        return (await api.ask("POST", "/webhooks/gh", data=body, headers=kind | named)).status

    async def attack(api: ApiWorld) -> None:
        assert await post(api, BODY, X_Request_ID="other", **v2(BODY, now)) == 401, "Stripe's, as V2"
        assert await post(api, form, X_Webhook_Timestamp=old, X_Webhook_Signature_V2=digits) == 401
        assert await post(api, signed, X_Webhook_Signature=digits) == 401, "without its time"
        assert await post(api, signed, X_Hub_Signature_256=f"sha256={digits}") == 401
        coded = base64.b64encode(bytes.fromhex(digits)).decode()
        assert await post(api, signed, X_Shopify_Hmac_Sha256=coded) == 401
        assert len(await turns(api)) == 1

    async with world(tmp_path) as api:
        assert await post(api, BODY, Stripe_Signature=f"t={int(now)},v1={stripe}") == 202
        if not restart:
            await attack(api)
    if restart:
        async with world(tmp_path) as api:
            await attack(api)
    assert "takes events signed as stripe" in caplog.text and "subscribe gh --scheme" in caplog.text


async def test_a_route_takes_the_scheme_that_is_set_and_a_new_setting_counts(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    config = CONFIG.replace("        gh:\n", "        gh:\n          scheme: {}\n")
    body = json.dumps(EVENT).encode()
    for number, (scheme, status) in enumerate((("github", 202), ("v2", 401), ("github", 202))):
        event = body + b" " * number
        async with ApiWorld(home=tmp_path / "home", config=config.replace("{}", scheme, 1)) as api:
            assert (await send(api, "gh", event, delivery=f"d-{number}")).status == status


async def test_a_wrong_signature_settles_nothing(tmp_path: Path) -> None:
    async with world(tmp_path) as api:
        assert (await send(api, "gh", X_Hub_Signature_256="sha256=" + "0" * 64)).status == 401
        signed = v2(BODY, time.time()) | {"Content-Type": "application/json"}
        assert (await api.ask("POST", "/webhooks/gh", data=BODY, headers=signed)).status == 202


# --- where the answer goes ---


class Trouble:
    def __init__(self, *errors: HermesError) -> None:
        self._errors = list(errors)

    def __call__(self, what: str, chat: str) -> HermesError | None:
        return self._errors.pop(0) if what == "send" and self._errors else None


async def until_reached(api: ApiWorld, platform: str = "fake") -> None:
    """The gateway answers before its accounts are connected; what comes then is queued."""
    end = time.monotonic() + 40
    while not api.app.gateway.reaches(Address(platform=platform, chat="9")):
        assert time.monotonic() < end, "it was not connected"
        await _moment()


async def until_seen(chat: World, text: str) -> None:
    end = time.monotonic() + 40
    while not any(text in seen for seen in chat.seen()):
        assert time.monotonic() < end, chat.seen()
        await _moment()


async def test_the_answer_goes_to_the_chat_of_the_route(tmp_path: Path) -> None:
    chat = World()
    async with world(tmp_path, accounts={"fake": fake_platform("plain", chat)}) as api:
        assert (await send(api, "chat")).status == 202
        await until_seen(chat, "You said:")
        assert {message.chat for message in chat.messages.values()} == {"77"}


async def test_what_is_only_delivered_needs_no_agent(tmp_path: Path) -> None:
    chat, model = World(), ScriptedModel()
    async with world(tmp_path, provider=model, accounts={"fake": fake_platform("plain", chat)}) as api:
        await until_reached(api)
        heard = await send(api, "relay", {"text": "is *green*", "room": "9"})
        assert heard.status == 200
        assert (heard.json["status"], heard.json["target"]) == ("delivered", "fake:9")
        assert chat.seen("9") == ["Build is green"]
        assert (await send(api, "relay", {"text": "is *green*", "room": "9"})).json["status"] == "duplicate"
        assert chat.seen("9") == ["Build is green"] and not model.requests


async def test_events_go_to_the_home_channel_and_to_chats_by_name(tmp_path: Path) -> None:
    chat = World()
    async with world(tmp_path, accounts={"fake": fake_platform("plain", chat)}) as api:
        for route in ("home", "named"):
            nowhere = await send(api, route, {"text": "early"}, delivery="0")
            assert (nowhere.status, nowhere.json["error"]["code"]) == (502, "no_target")
        chat.write("/sethome", chat="9", chat_name="Ops")
        await until_seen(chat, "now the home channel")
        for route in ("home", "named"):
            heard = await send(api, route, {"text": f"for {route}"}, delivery="1")
            assert (heard.json["status"], heard.json["target"]) == ("delivered", "fake:9")
        assert chat.seen("9")[1:] == ["Build for home", "for named"]


async def test_what_cannot_be_delivered_is_told(tmp_path: Path) -> None:
    chat = World(trouble=Trouble(Refused("blocked"), Unreachable("slow", after=0.2)))
    async with world(tmp_path, accounts={"fake": fake_platform("plain", chat)}) as api:
        await until_reached(api)
        refused = await send(api, "relay", {"text": "one", "room": "9"}, delivery="1")
        assert (refused.status, refused.json["error"]["code"]) == (502, "not_delivered")
        queued = await send(api, "relay", {"text": "two", "room": "9"}, delivery="2")
        assert (queued.status, queued.json["status"]) == (202, "queued")
        await until_seen(chat, "Build two")
        nowhere = await send(api, "relay", {"text": "three"}, delivery="3")
        assert (nowhere.status, nowhere.json["error"]["code"]) == (502, "no_target")
        assert chat.seen() == ["Build two"]


async def test_what_is_only_delivered_survives_a_platform_that_is_down(tmp_path: Path) -> None:
    chat = World()
    down = fake_platform("plain", chat)

    async def refuse(*args: object, **more: object) -> None:
        raise Unreachable("no network")

    down.run = refuse  # type: ignore[method-assign, assignment]
    async with world(tmp_path, accounts={"fake": down}) as api:
        api.app.gateway.detach("fake")
        heard = await send(api, "relay", {"text": "later", "room": "9"})
        assert (heard.status, heard.json["status"]) == (202, "queued")
    async with world(tmp_path, accounts={"fake": fake_platform("plain", chat)}) as api:
        await until_seen(chat, "Build later")
        assert (await send(api, "relay", {"text": "later", "room": "9"})).json["status"] == "duplicate"
    assert chat.seen() == ["Build later"]


async def test_the_answer_becomes_a_comment_on_github(tmp_path: Path) -> None:
    route = {
        "secret": SECRET,
        "prompt": "{title}",
        "deliver": "github_comment",
        "deliver_extra": {"repo": "{repository.full_name}", "pr_number": "{number}"},
    }
    event = {"title": "Typo", "number": 7, "repository": {"full_name": "me/it"}}
    async with FakeGithub() as stage:
        settings = PlatformSettings(extra={"api_url": stage.url})
        adapter = GithubAdapter(
            AdapterContext(
                settings=settings, find=lambda name: Secret("t0ken") if name == "GITHUB_TOKEN" else None
            )
        )
        async with world(tmp_path, accounts={"github": adapter}) as api:
            change(api.home, "review", route)
            assert (await send(api, "review", event)).status == 202
            end = time.monotonic() + 40
            while not stage.seen():
                assert time.monotonic() < end, "there is no comment"
                await _moment()
            assert (await send(api, "review", event)).json["status"] == "duplicate"
            assert ["Typo" in seen for seen in stage.seen()] == [True]
            elsewhere = event | {"repository": {"full_name": "../../user/keys"}}
            assert (await send(api, "review", elsewhere, delivery="2")).status == 502
            assert {asked.split("?")[0] for asked in stage.asked} == {"POST /repos/me/it/issues/7/comments"}


async def test_a_comment_without_an_account_on_github_is_refused(tmp_path: Path) -> None:
    route = {
        "secret": SECRET,
        "deliver": "github_comment",
        "deliver_extra": {"repo": "me/it", "pr_number": "{number}"},
    }
    async with world(tmp_path) as api:
        change(api.home, "review", route)
        heard = await send(api, "review")
        assert (heard.status, heard.json["error"]["code"]) == (502, "no_target")
        assert "github is not set up here" in heard.json["error"]["message"] and not await turns(api)


# --- the port ---


async def test_a_port_of_their_own(tmp_path: Path) -> None:
    async with world(tmp_path, environ={"WEBHOOK_PORT": "0"}) as api:
        state, address = api.platforms["webhook"]
        assert state is HostState.CONNECTED and address != api.address
        heard = await api.http.post(f"{address}/webhooks/gh", data=BODY, headers=github(BODY))
        assert heard.status == 202
        for path in ("/v1/chat/completions", "/v1/models"):
            assert (await api.http.post(address + path, json={})).status == 404
        assert (await api.http.get(f"{address}/health")).status == 200


async def test_their_port_is_open_beside_that_of_the_api(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Senders know its address, so the API must not move it. (The usual number may be taken in a test.)"""
    monkeypatch.setattr("hermes.app.http.DEFAULT_PORT", 0)
    async with world(tmp_path) as api:
        state, address = api.platforms["webhook"]
        assert api.address and state is HostState.CONNECTED and address != api.address
        for place, status in ((address, 202), (api.address, 200)):  # the second is known already
            heard = await api.http.post(f"{place}/webhooks/gh", data=BODY, headers=github(BODY))
            assert heard.status == status


async def test_the_port_opens_where_there_is_no_other_server(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    config = CONFIG.replace("    extra:\n", "    extra:\n      port: 0\n", 1)
    environ = {"API_SERVER_ENABLED": "false"}
    async with ApiWorld(home=tmp_path / "home", config=config, environ=environ) as api:
        assert api.address == ""
        _, address = api.platforms["webhook"]
        heard = await api.http.post(f"{address}/webhooks/gh", data=BODY, headers=github(BODY))
        assert heard.status == 202


async def test_a_turn_of_a_webhook_ends(tmp_path: Path) -> None:
    async with world(tmp_path) as api:
        await send(api, "gh")
        end = time.monotonic() + 40
        while True:
            turn = await api.app.store.read(_turn)
            if turn.state is TurnState.DONE:
                break
            assert time.monotonic() < end
            await _moment()
        assert turn.agent == MAIN_AGENT
