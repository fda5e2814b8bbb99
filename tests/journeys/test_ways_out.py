"""What the settings say of the ways out is what agents and sandboxes get; what cannot hold stops."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from hermes.app.egress import AppEgress, egress_folder
from hermes.domain.errors import Refused, UserError
from hermes.domain.ids import AgentId
from hermes.domain.ports.world import NO_NETWORK, OPEN_NETWORK, BackendRequest, NetworkRules
from hermes.domain.settings.settings import Profile
from hermes.execution.egress.broker import PREFIX
from hermes.state.settings.loader import LoadedSettings, load_settings

TOKEN = "ghp_0123456789abcdefghij"
BROKER = """
agents: {bee: {}}
security:
  broker:
    github: {value: "${GITHUB_TOKEN}", hosts: [api.github.com], variable: GITHUB_TOKEN}
    shared: {value: "${GITHUB_TOKEN}", hosts: ["*.example.org"], agents: ["*"], places: [headers, url]}
"""


def loaded(home: Path, text: str, **environ: str) -> LoadedSettings:
    (home / "config.yaml").write_text(text)
    (home / "config.yaml").chmod(0o600)
    return load_settings(home, {"GITHUB_TOKEN": TOKEN, **environ})


def ways(home: Path, text: str) -> AppEgress:
    found = loaded(home, text)
    assert not found.problems, found.problems
    egress = AppEgress(home, {}, lambda: found.settings)
    egress.check(found.settings)
    return egress


def request(home: Path, found: Any, agent: str, network: NetworkRules) -> BackendRequest:
    return BackendRequest(
        profile=Profile(agent=AgentId(agent), home=home, settings=found),
        workspace=home,
        environ={"PATH": "/bin"},
        share=lambda key, make: make(),
        passthrough=("PATH",),
        network=network,
    )


async def test_a_sandbox_gets_its_way_out_and_the_placeholders_of_its_agent(tmp_path: Path) -> None:
    egress = ways(tmp_path, BROKER)
    settings = loaded(tmp_path, BROKER).settings
    some = NetworkRules(hosts=("api.github.com",))
    for rules in (OPEN_NETWORK, NO_NETWORK):
        plain = request(tmp_path, settings, "main", rules)
        assert egress.lead_out(plain) is plain
    led = egress.lead_out(request(tmp_path, settings, "main", some))
    assert led.environ["GITHUB_TOKEN"].startswith(PREFIX) and TOKEN not in str(led.environ)
    assert led.passthrough == ("PATH", "GITHUB_TOKEN")
    bee = egress.lead_out(request(tmp_path, settings, "bee", some))
    assert "GITHUB_TOKEN" not in bee.environ
    again = ways(tmp_path, BROKER).lead_out(request(tmp_path, settings, "main", some))
    assert again.environ == led.environ  # also after a restart
    assert stat.S_IMODE(os.stat(tmp_path / "egress" / "broker.key").st_mode) == 0o600
    assert led.open_egress is not None and bee.open_egress is not None
    door, other = await led.open_egress(), await bee.open_egress()
    assert door != other and door == await led.open_egress()
    reader, writer = await asyncio.open_unix_connection(door)
    writer.write(b"CONNECT example.org:443 HTTP/1.1\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 403 ")
    writer.close()
    await egress.close()
    assert os.listdir(tmp_path / "egress") == ["broker.key"]


def test_a_power_cut_leaves_no_half_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(descriptor: int) -> None:
        raise OSError("the power is gone")

    with monkeypatch.context() as patched, pytest.raises(OSError, match="power"):
        patched.setattr(os, "fsync", cut)
        ways(tmp_path, BROKER)
    assert os.listdir(tmp_path / "egress") == []
    ways(tmp_path, BROKER)


def test_a_long_home_has_its_sockets_elsewhere(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 120)
    assert egress_folder(tmp_path, {}) == tmp_path / "egress"
    assert len(os.fsencode(egress_folder(long, {}) / "0123456789ab" / "s")) < 100


def test_the_value_is_hidden_everywhere(tmp_path: Path) -> None:
    found = loaded(tmp_path, BROKER)
    assert TOKEN not in repr(found.settings) and "***" in repr(found.settings.security.broker["github"])
    written = BROKER.replace("${GITHUB_TOKEN}", "written-openly-123")
    assert "written-openly" not in loaded(tmp_path, written).secrets.redact("a written-openly-123")
    proxy = loaded(tmp_path, "security: {egress_proxy: 'http://me:pass-word@proxy.example:1'}")
    assert "pass-word" not in proxy.secrets.redact("http://me:pass-word@proxy.example:1")


@pytest.mark.parametrize(
    "entry",
    [
        "{value: '${GITHUB_TOKEN}'}",
        "{value: '${GITHUB_TOKEN}', hosts: []}",
        "{value: '${GITHUB_TOKEN}', hosts: ['']}",
        "{hosts: [a.example]}",
        "{value: '${NOT_SET}', hosts: [a.example]}",
        "{value: '${GITHUB_TOKEN}', hosts: [a.example], places: [cookies]}",
        "{value: '${GITHUB_TOKEN}', hosts: [a.example], agents: {a: b}}",
        "{value: '${GITHUB_TOKEN}', hosts: [a.example], variable: 'A B'}",
        "{value: '${GITHUB_TOKEN}', hosts: [a.example], host: [b.example]}",
        "nonsense",
    ],
)
def test_a_mistake_voids_a_secret(tmp_path: Path, entry: str) -> None:
    found = loaded(tmp_path, f"security: {{broker: {{github: {entry}}}}}")
    assert found.problems and not found.settings.security.broker


def test_an_agent_that_is_not_declared(tmp_path: Path) -> None:
    text = "security: {broker: {x: {value: '${GITHUB_TOKEN}', hosts: [a.example], agents: [nobody]}}}"
    assert "nobody" in str(loaded(tmp_path, text).problems[0])


async def pinned(egress: AppEgress, host: str, port: int = 443) -> bool:
    try:
        await egress.parts.reach().pin(host, port)
    except Refused:
        return False
    return True


async def test_lists_of_the_settings(tmp_path: Path) -> None:
    (tmp_path / "sites.txt").write_text("# ads\nads.example  # all of them\n\n*.tracker.example\n")
    lists = "{enabled: true, domains: [8.8.4.4, bad.example], shared_files: [sites.txt]}"
    egress = ways(tmp_path, f"security: {{website_blocklist: {lists}, private_hosts: [10.0.0.5]}}")
    reach = egress.parts.reach()
    for host in ("bad.example", "x.bad.example", "ads.example", "a.b.ads.example", "a.tracker.example"):
        with pytest.raises(Refused, match="forbid"):
            reach.check(host, 443)
    assert reach.check("good.example", 443) == "good.example"
    assert not await pinned(egress, "8.8.4.4") and await pinned(egress, "8.8.8.8")
    assert await pinned(egress, "10.0.0.5") and not await pinned(egress, "10.0.0.6")
    off = ways(tmp_path, f"security: {{website_blocklist: {lists.replace('true', 'false')}}}")
    assert await pinned(off, "8.8.4.4")
    narrow = ways(tmp_path, "security: {allowed_hosts: [8.8.8.8]}")
    assert await pinned(narrow, "8.8.8.8") and not await pinned(narrow, "8.8.4.4")
    wide = ways(tmp_path, "security: {allow_private_urls: true}")
    assert await pinned(wide, "10.9.9.9") and not await pinned(wide, "169.254.169.254")


@pytest.mark.parametrize(
    "text",
    ["allowed_hosts: []", "allowed_hosts: {a: b}", "website_blocklist: {enabled: true, domains: {a: b}}"],
)
async def test_a_list_that_cannot_be_read_allows_nothing(tmp_path: Path, text: str) -> None:
    found = loaded(tmp_path, f"security: {{{text}}}")
    egress = AppEgress(tmp_path, {}, lambda: found.settings)
    assert not await pinned(egress, "8.8.8.8")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("website_blocklist: {enabled: true, shared_files: [gone.txt]}", "cannot be read"),
        ("egress_proxy: nonsense", "is no proxy"),
        ("egress_proxy: 'ftp://a.example'", "is no proxy"),
    ],
)
def test_what_cannot_hold_stops(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        ways(tmp_path, f"security: {{{text}}}")


@pytest.mark.parametrize(
    "text", ["website_blocklist: yes", "website_blocklist: {enabled: mabye}", "alowed_hosts: [a]"]
)
def test_a_limit_with_a_slip_stops_the_start(tmp_path: Path, text: str) -> None:
    assert loaded(tmp_path, f"security: {{{text}}}").stops
    assert loaded(tmp_path, "agents: {bee: {security: {allowed_hosts: [a.example]}}}").stops


def test_a_damaged_key_is_told(tmp_path: Path) -> None:
    (tmp_path / "egress").mkdir()
    (tmp_path / "egress" / "broker.key").write_bytes(b"short")
    with pytest.raises(UserError, match="is damaged"):
        ways(tmp_path, BROKER)
