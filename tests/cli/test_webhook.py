"""`hermes webhook`: routes made by command, and an event sent to the gateway that runs."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import socket
import stat
import time
from pathlib import Path

import pytest

from hermes.admin.process.home_files import STATE_FILE
from hermes.domain.settings.declaring import Secret
from hermes.entry.host import HostState
from hermes.entry.http.webhooks.signatures import sign
from hermes.state.files.subscriptions import FILE
from hermes.testing.api import ApiWorld
from tests.cli.command import gateway, hermes

CONFIG = "platforms: {webhook: {extra: {port: 0, routes: {fixed: {secret: config secret}, bad: {x: 1}}}}}\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def secret_in(told: str) -> str:
    return next(line.split()[1] for line in told.splitlines() if line.startswith("Secret"))


def test_a_route_is_made_listed_and_removed(home: Path) -> None:
    made = hermes(
        home,
        "webhook",
        "subscribe",
        "ci",
        "--prompt",
        "Build {id}",
        "--events",
        "push, pull",
        "--skills",
        "a,b",
    )
    assert made.code == 0 and "http://127.0.0.1:8644/webhooks/ci" in made.out
    secret = secret_in(made.out)
    assert len(secret) > 30 and "shown only now" in made.err
    kept = json.loads((home / FILE).read_text())["ci"]
    assert kept["secret"] == secret and kept["events"] == ["push", "pull"] and kept["skills"] == ["a", "b"]
    assert stat.S_IMODE((home / FILE).stat().st_mode) == 0o600
    again = hermes(home, "webhook", "subscribe", "ci", "--prompt", "Other")
    assert again.code == 0 and "Secret" not in again.out
    assert json.loads((home / FILE).read_text())["ci"]["secret"] == secret
    listed = hermes(home, "webhook", "list")
    assert "ci" in listed.out and secret not in listed.out + hermes(home, "webhook", "list", "--json").out
    assert hermes(home, "webhook", "remove", "ci").code == 0
    assert hermes(home, "webhook", "list").out.startswith("No webhook routes yet")
    told = json.loads(hermes(home, "webhook", "subscribe", "ci", "--json").out)
    assert told["address"].endswith("/webhooks/ci")
    assert told["secret"] == json.loads((home / FILE).read_text())["ci"]["secret"]
    assert hermes(home, "webhook", "remove", "ci").code == 0
    gone = hermes(home, "webhook", "remove", "ci")
    assert gone.code == 1 and "no route “ci”" in gone.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["a/b"], "is not a valid route name"),
        (["x", "--deliver-only"], "deliver_only"),
        (["x", "--deliver", "github_comment"], "pr_number"),
        (["x", "--deliver", "a:b:c:d"], "not an address"),
        (["x", "--deliver-extra", "repo"], "KEY=VALUE"),
        (["x", "--deliver-extra", "room=1"], "“room”"),
        (["fixed"], "config.yaml"),
    ],
)
def test_what_cannot_be_a_route_is_told(home: Path, words: list[str], says: str) -> None:
    home.mkdir()
    (home / "config.yaml").write_text(CONFIG)
    told = hermes(home, "webhook", "subscribe", *words)
    assert told.code == 1 and says in told.err and told.clean and not (home / FILE).exists()


def test_a_broken_route_is_a_problem_of_the_settings(home: Path) -> None:
    home.mkdir()
    (home / "config.yaml").write_text(CONFIG)
    told = hermes(home, "config", "check")
    assert told.code == 1 and "Webhook route “bad”: “x” is not a key of a route." in told.out
    shown = hermes(home, "config", "show")
    assert shown.code == 0 and "config secret" not in shown.out + told.out
    (home / "config.yaml").write_text(CONFIG.replace(", bad: {x: 1}", ""))
    assert hermes(home, "config", "check").out.endswith("config ok\n")


def test_a_broken_file_is_told_and_kept(home: Path) -> None:
    home.mkdir()
    (home / FILE).write_text("{")
    for words in (["list"], ["subscribe", "x"], ["test", "x"]):
        told = hermes(home, "webhook", *words)
        assert told.code == 1 and "not JSON" in told.err and told.clean
    assert (home / FILE).read_text() == "{"


def test_an_event_is_sent_to_the_gateway_that_runs(home: Path) -> None:
    home.mkdir()
    (home / "config.yaml").write_text(CONFIG)
    assert "No gateway is running" in hermes(home, "webhook", "test", "fixed").err
    with gateway(home):
        told = hermes(home, "webhook", "test", "fixed")
        assert told.code == 0 and told.out.startswith("202 ") and '"accepted"' in told.out
        delivery = json.loads(told.out.partition(" ")[2])["delivery_id"]
        traced = hermes(home, "trace", delivery)
        assert traced.code == 0 and f"webhook:fixed {delivery}: turn" in traced.out and "turn_" in traced.out
        assert hermes(home, "webhook", "subscribe", "new").code == 0
        told = hermes(home, "webhook", "test", "new", "--payload", '{"type": "mine"}')
        assert told.code == 0 and '"event":"mine"' in told.out
        listed = json.loads(hermes(home, "webhook", "list", "--json").out)
        assert listed["address"].startswith("http://127.0.0.1:") and not listed["address"].endswith(":8644")
        states = {row["name"]: row["state"] for row in listed["routes"]}
        assert states["fixed"] == states["new"] == "on" and "“x”" in states["bad"]
        broken = hermes(home, "webhook", "test", "bad")
        assert broken.code == 1 and broken.out.startswith("403 ")
        assert "no route" in hermes(home, "webhook", "test", "gone").err
    log = (home / "logs" / "gateway.log").read_text()
    assert "webhook.accepted route=fixed" in log and "config secret" not in log


async def test_the_first_route_opens_the_port_of_a_gateway_that_runs(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hermes.app.http.DEFAULT_PORT", 0)  # any that is free
    async with ApiWorld(home=home, environ={"API_SERVER_ENABLED": "false"}) as api:
        assert "webhook" not in api.platforms
        made = await asyncio.to_thread(hermes, home, "webhook", "subscribe", "ci")
        assert made.code == 0 and "once a gateway runs" not in made.err
        address = next(line.split()[1] for line in made.out.splitlines() if line.startswith("Address"))
        state, told = api.platforms["webhook"]
        assert state is HostState.CONNECTED and address == f"{told}/webhooks/ci"
        body = b'{"id": 7}'
        headers = {"Content-Type": "application/json"}
        headers |= sign(body, Secret(secret_in(made.out)), now=time.time())
        async with api.http.post(address, data=body, headers=headers) as answer:
            assert answer.status == 202
        tried = await asyncio.to_thread(hermes, home, "webhook", "test", "ci")
        assert tried.code == 0 and tried.out.startswith("202 ")
        # A test settles no scheme, and is taken whatever the scheme is.
        signature = hmac.new(secret_in(made.out).encode(), body, hashlib.sha256).hexdigest()
        headers = {"Content-Type": "application/json", "X-Hub-Signature-256": f"sha256={signature}"}
        async with api.http.post(address, data=body, headers=headers) as answer:
            assert answer.status == 202
        tried = await asyncio.to_thread(hermes, home, "webhook", "test", "ci", "--payload", '{"n": 2}')
        assert tried.code == 0 and tried.out.startswith("202 ")


def test_a_route_may_name_the_scheme_of_its_sender(home: Path) -> None:
    assert hermes(home, "webhook", "subscribe", "pay", "--scheme", "stripe").code == 0
    assert json.loads(hermes(home, "webhook", "list", "--json").out)["routes"][0]["scheme"] == "stripe"
    wrong = hermes(home, "webhook", "subscribe", "pay", "--scheme", "paypal")
    assert wrong.code == 1 and "scheme must be one of svix, github" in wrong.err and wrong.clean


async def test_a_port_that_cannot_be_opened_is_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setattr("hermes.app.http.DEFAULT_PORT", taken.getsockname()[1])
        async with ApiWorld(home=home, environ={"API_SERVER_ENABLED": "false"}):
            made = await asyncio.to_thread(hermes, home, "webhook", "subscribe", "ci")
            assert made.code == 0 and "takes no webhooks" in made.err
            tried = await asyncio.to_thread(hermes, home, "webhook", "test", "ci")
            assert tried.code == 1 and "takes no webhooks" in tried.err and tried.clean
            told = {
                "platforms": {"webhook": {"error_message": "8644 is taken. Choose another WEBHOOK_PORT."}}
            }
            (home / STATE_FILE).write_text(json.dumps(told))
            tried = await asyncio.to_thread(hermes, home, "webhook", "test", "ci")
            assert "takes no webhooks. 8644 is taken. Choose another WEBHOOK_PORT." in tried.err


def test_a_route_that_cannot_do_its_work_is_told_everywhere(home: Path) -> None:
    where = ("--deliver-extra", "repo=me/it", "--deliver-extra", "pr_number={number}")
    made = hermes(home, "webhook", "subscribe", "review", "--deliver", "github_comment", *where)
    assert made.code == 0 and "GITHUB_TOKEN" in made.err and "once a gateway runs" in made.err
    assert "GITHUB_TOKEN" not in hermes(home, "webhook", "list", GITHUB_TOKEN="ghp_x").out
    made = hermes(home, "webhook", "subscribe", "ops", "--agent", "nobody")
    assert made.code == 0 and "no agent “nobody”" in made.err
    rows = json.loads(hermes(home, "webhook", "list", "--json").out)["routes"]
    states = {row["name"]: row["state"] for row in rows}
    assert "GITHUB_TOKEN" in states["review"] and "no agent" in states["ops"]
    routes = "{r: {secret: a long secret, deliver: telegram}, o: {secret: a long secret, agent: nobody}}"
    (home / "config.yaml").write_text(f"platforms: {{webhook: {{extra: {{routes: {routes}}}}}}}\n")
    told = hermes(home, "config", "check")
    assert told.code == 1 and "Webhook route “r”: telegram is not set up here" in told.out
    assert "Webhook route “o”: there is no agent “nobody”" in told.out


def test_the_address_is_the_one_that_the_next_start_opens(home: Path) -> None:
    home.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (home / ".env").write_text(f"API_SERVER_PORT=0\nAPI_SERVER_ENABLED=true\nWEBHOOK_PORT={port}\n")
    told = f"http://127.0.0.1:{port}/webhooks/"
    with gateway(home):
        assert f"{told}ci" in hermes(home, "webhook", "subscribe", "ci").out
    for ours, theirs in ((port, "true"), (port, "false"), (8123, "true")):
        # The last gateway's word is in the home, and counts no more.
        (home / ".env").write_text(f"API_SERVER_ENABLED={theirs}\nWEBHOOK_PORT={ours}\n")
        told = f"http://127.0.0.1:{ours}/webhooks/"
        assert f"{told}<route>" in hermes(home, "webhook", "list").err
        assert f"{told}ci" in hermes(home, "webhook", "subscribe", "ci").out
    (home / ".env").write_text("API_SERVER_ENABLED=true\n")
    assert "http://127.0.0.1:8644/webhooks/" in hermes(home, "webhook", "list").err
    (home / ".env").write_text(f"API_SERVER_PORT=0\nAPI_SERVER_ENABLED=false\nWEBHOOK_PORT={port}\n")
    with gateway(home):
        listed = json.loads(hermes(home, "webhook", "list", "--json").out)
        assert listed["address"] == f"http://127.0.0.1:{port}"
        assert f"webhook: connected (http://127.0.0.1:{port})" in hermes(home, "status").out
    (home / ".env").write_text("WEBHOOK_ENABLED=false\n")
    made = hermes(home, "webhook", "subscribe", "ci")
    assert "http://" not in made.out and "Webhooks are off" in made.err
    assert "Webhooks are off" in hermes(home, "webhook", "list").err
