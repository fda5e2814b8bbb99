"""`hermes mcp`: what it writes, what it shows, and that bad input is one sentence."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.command import gateway, hermes
from tests.mcp.bed import HERE

SERVER = ("--command", sys.executable, "--args", "-I", "-S", str(HERE / "plain_server.py"))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    (folder / "config.yaml").write_text("# mine\ntimezone: UTC\n")
    return folder


def listed(home: Path) -> list[dict[str, object]]:
    return json.loads(hermes(home, "mcp", "list", "--json").out)


def test_a_server_is_added_tested_and_removed(home: Path) -> None:
    given = ("--env", "DEEP_TOKEN=abcdef123456", "--env", "MODE=x", "--backend", "local")
    added = hermes(home, "mcp", "add", "one", *given, *SERVER)
    assert added.code == 0, added
    text = (home / "config.yaml").read_text()
    assert "backend: local" in text and "# mine" in text and "abcdef" not in text and "${DEEP_TOKEN}" in text
    assert "DEEP_TOKEN=abcdef123456" in (home / ".env").read_text()
    assert listed(home)[0]["tools"] is None
    tested = hermes(home, "mcp", "test", "one")
    assert tested.code == 0 and "one works: 2025-11-25, 1 tools" in tested.out and "echo" in tested.out, (
        tested
    )
    assert listed(home)[0]["tools"] == 1
    assert "mcp__one__echo" in hermes(home, "tools", "list").out
    assert hermes(home, "tools", "disable", "mcp-one").code == 0
    states = json.loads(hermes(home, "tools", "list", "--json").out)["toolsets"]
    assert {one["name"]: one["state"] for one in states}["mcp-one"] == "off"
    assert hermes(home, "mcp", "remove", "one").code == 0
    assert not listed(home) and not (home / "mcp" / "one.json").exists()
    assert "# mine" in (home / "config.yaml").read_text()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("add", "required: name"),
        ("add x__y --url http://h", "cannot be called"),
        ("add x", "Name a --command or a --url"),
        ("add x --command a --url http://h", "Name a --command or a --url"),
        ("add x --url nonsense", "an address that begins with http"),
        ("add x --env NOTHING --command a", "NAME=VALUE"),
        ("login nobody", "There is no MCP server “nobody”"),
        ("test nobody", "There is no MCP server “nobody”"),
        ("remove nobody", "There is no MCP server “nobody”"),
        ("accept nobody", "There is no MCP server “nobody”"),
        ("list --agent nobody", "There is no agent “nobody”"),
    ],
)
def test_bad_input_is_one_sentence(home: Path, words: str, complaint: str) -> None:
    said = hermes(home, "mcp", *words.split())
    assert said.code != 0 and complaint in said.err and said.clean, said


def test_a_server_that_does_not_work_says_why(home: Path) -> None:
    assert hermes(home, "mcp", "add", "bad", "--command", "no-such-program").code == 0
    said = hermes(home, "mcp", "test", "bad")
    assert said.code == 1 and "bad cannot be used" in said.err and "not found" in said.err and said.clean, (
        said
    )


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ("{}", "does not say which server it is"),
        ("{command: a, url: 'http://h'}", "does not say which server it is"),
        ("{command: a, timeout: soon}", "mcp_servers.x.timeout must be a number"),
        ("{comand: a}", "Did you mean “mcp_servers.x.command”?"),
        ("{command: a, agents: [nobody]}", "names the agent “nobody”"),
        ("{command: a, env: {K: '${NOT_SET}'}}", "refers to ${NOT_SET}"),
        ("{command: a, sampling: {enabled: maybe}}", "must be true or false"),
    ],
)
def test_mistakes_in_the_settings_are_told(home: Path, entry: str, complaint: str) -> None:
    (home / "config.yaml").write_text(f"mcp_servers:\n  x: {entry}\n")
    said = hermes(home, "config", "check")
    assert said.code == 1 and complaint in said.out and said.clean, said


def test_a_running_gateway_adopts_servers_and_what_is_accepted(home: Path) -> None:
    with gateway(home):
        assert hermes(home, "mcp", "add", "one", "--env", "ABOUT=Now.", *SERVER).code == 0
        assert hermes(home, "mcp", "test", "one").code == 0
        pins = home / "mcp" / "one.json"
        pins.write_text(pins.read_text().replace("Now.", "Before."))
        assert hermes(home, "mcp", "test", "one").code == 0
        assert listed(home)[0]["waiting"] == ["echo"]
        shown = hermes(home, "mcp", "accept", "one", "-y")
        assert shown.code == 0 and "Before." in shown.out and "Now." in shown.out, shown
        assert listed(home)[0]["waiting"] == [] and listed(home)[0]["tools"] == 1


def test_a_login_at_what_has_none_is_one_sentence(home: Path) -> None:
    assert hermes(home, "mcp", "add", "one", *SERVER).code == 0
    said = hermes(home, "mcp", "login", "one")
    assert said.code == 1 and "is a program, and has no login" in said.err and said.clean, said
    assert hermes(home, "mcp", "add", "two", "--url", "http://127.0.0.1:9", "--auth", "oauth").code == 0
    said = hermes(home, "mcp", "login", "two")
    assert said.code == 1 and "The login at two failed" in said.err and said.clean, said
    said = hermes(home, "mcp", "test", "two")
    assert said.code == 1 and "hermes mcp login two" in said.err and said.clean, said


def test_a_server_that_nobody_calls_costs_the_gateway_nothing(home: Path) -> None:
    """Its tools are known, and neither it nor the SDK is loaded."""
    assert hermes(home, "mcp", "add", "one", *SERVER).code == 0
    assert hermes(home, "mcp", "test", "one").code == 0
    with gateway(home) as running:
        loaded = Path(f"/proc/{running.process.pid}/maps").read_text()
        assert "pydantic_core" not in loaded and "msgspec" in loaded
