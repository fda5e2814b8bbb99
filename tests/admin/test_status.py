"""`hermes status`: which model answers and why, and never a key."""

from __future__ import annotations

import asyncio
import io
import json
import os
import pwd
import shutil
from pathlib import Path
from typing import Any

import pytest

from hermes.admin.commands import status
from hermes.admin.commands.doctor import _gateway_checks
from hermes.admin.commands.status import live_pairs, provider_line
from hermes.admin.process.home_files import GATEWAY, STATE_FILE, hold_home, home_holder
from hermes.admin.process.run import tell_problems
from hermes.admin.shell.boundary_lines import boundary_lines
from hermes.admin.shell.command import perform
from hermes.admin.shell.output import CliConsole
from hermes.app.agents.ladder import boundary_facts
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.ports.world import OPEN_NETWORK, Boundary, World
from hermes.domain.settings.settings import Route, RouteMatch, Settings, TerminalSettings
from hermes.domain.word import replace
from hermes.state.settings.loader import load_settings
from hermes.testing.backends import fake_probes

KEY = "sk-test-0123456789abcdef"


def told(home: Path, *, as_json: bool = False, **environ: str) -> str:
    out = io.StringIO()
    console = CliConsole(out=out, err=io.StringIO())
    words = ["--json"] if as_json else []
    holder = home_holder(home)
    running = holder is not None and holder.what == GATEWAY
    code = perform("status", words, home, {"HERMES_NO_PROBE": "1", **environ}, console)
    assert code == (0 if running else status.NOT_RUNNING)
    return out.getvalue()


def facts(home: Path, **environ: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(told(home, as_json=True, **environ))
    return found


def test_without_anything_it_is_the_demo_model(tmp_path: Path) -> None:
    text = told(tmp_path)
    assert "the offline demo model, not an AI" in text and "no key and no address is set" in text
    assert facts(tmp_path)["provider"] == "demo"


@pytest.mark.parametrize(
    ("environ", "model", "provider"),
    [
        ({"OPENAI_API_KEY": KEY}, "gpt-4.1-mini", "openai"),
        ({"OPENROUTER_API_KEY": KEY}, "openrouter/auto", "openrouter"),
        ({"OPENAI_API_KEY": KEY, "HERMES_MODEL": "o9"}, "o9", "openai"),
        ({"OPENAI_BASE_URL": f"http://me:{KEY}@127.0.0.1:9/v1", "HERMES_MODEL": "m"}, "m", "custom"),
        ({"HERMES_INFERENCE_PROVIDER": "openrouter"}, "", "openrouter"),
        ({"HERMES_INFERENCE_PROVIDER": "nobody"}, "", "nobody"),
    ],
)
def test_model_provider_and_why(tmp_path: Path, environ: dict[str, str], model: str, provider: str) -> None:
    found = facts(tmp_path, **environ)
    assert (found["model"], found["provider"]) == (model, provider) and found["model_why"]
    assert KEY not in told(tmp_path, **environ) + json.dumps(found)


def test_a_running_gateway_says_it_itself(tmp_path: Path) -> None:
    said = {
        "gateway_state": "running",
        "agents": ["main"],
        "model": "qwen3 by Ollama",
        "model_name": "qwen3",
        "model_provider": "ollama",
        "model_why": "it runs here",
    }
    (tmp_path / STATE_FILE).write_text(json.dumps(said))
    with hold_home(tmp_path, GATEWAY):
        text = told(tmp_path)
        assert "qwen3" in text and "ollama" in text and "it runs here" in text
        assert facts(tmp_path)["model_line"] == "qwen3 by Ollama"


@pytest.mark.parametrize("trouble", ["the disk is full", ""])
def test_it_says_why_nothing_can_be_stored(
    trouble: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = {"pid": 1, "facts": {"store_trouble": trouble}, "inbox": 0, "turns": {}, "outbox": {}}
    monkeypatch.setattr(status, "ask_gateway", lambda home, environ: {**live, "open_streams": 0})
    _expect(tmp_path, trouble)


@pytest.mark.parametrize("trouble", ["gateway.db cannot be written: the disk is full.", ""])
def test_it_says_what_a_start_waits_for(trouble: str, tmp_path: Path) -> None:
    _expect(tmp_path, trouble, waits=trouble)


@pytest.mark.parametrize("free", [0, 1 << 30])
def test_a_start_that_cannot_write_its_state_is_not_called_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int
) -> None:
    earlier = {"gateway_state": "stopped", "pid": 1, "platforms": {"telegram": {"state": "connected"}}}
    (tmp_path / STATE_FILE).write_text(json.dumps(earlier))
    usage = shutil.disk_usage(tmp_path)._replace(free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with hold_home(tmp_path, GATEWAY):
        out = io.StringIO()
        console = CliConsole(out=out, err=io.StringIO())
        code = perform("status", [], tmp_path, {"HERMES_NO_PROBE": "1"}, console)
    text = out.getvalue()
    assert "starting (" in text and "stopped" not in text and "connected" not in text
    assert (code, "nothing can be stored: the disk is full" in text) == (0 if free else 1, not free)


def _expect(home: Path, trouble: str, **state: str) -> None:
    with hold_home(home, GATEWAY):
        (home / STATE_FILE).write_text(json.dumps({"gateway_state": "starting", **state}))
        for words in ([], ["--json"]):
            out = io.StringIO()
            console = CliConsole(out=out, err=io.StringIO())
            code = perform("status", words, home, {"HERMES_NO_PROBE": "1"}, console)
            assert code == (1 if trouble else 0)
            assert trouble in out.getvalue()
            assert ("nothing can be stored" in out.getvalue()) == bool(trouble and not words)


def test_a_loop_that_broke_is_told() -> None:
    why = {"last_at": "2026-01-05T12:00:00+00:00", "why": "OSError: too many open files"}
    loops = [
        {"name": "intake", "ok": True, "failures": 1, **why},
        {"name": "cron", "ok": False, "failures": 7, **why},
        {"name": "expiry", "ok": True, "failures": 0, "last_at": None, "why": ""},
    ]
    live = {"facts": {"loops": loops}, "outbox": {}, "inbox": 0, "turns": {}, "open_streams": 0}
    pairs = dict(live_pairs(live))
    assert (
        pairs["Broke"].startswith("intake, 1 × since the start") and "too many open files" in pairs["Broke"]
    )
    assert pairs["Broken"].startswith("cron, 7 × since the start")
    assert "expiry" not in str(pairs)


def test_a_chore_that_failed_is_told() -> None:
    why = "/mnt/usb cannot be made (No such file or directory)."
    chores = [
        {"name": "usage", "every": 60.0, "last_at": "x", "outcome": "all counted", "ok": True},
        {"name": "home backup", "every": 60.0, "last_at": "x", "outcome": why, "ok": False},
    ]
    live = {"facts": {"chores": chores}, "outbox": {}, "inbox": 0, "turns": {}, "open_streams": 0}
    assert dict(live_pairs(live))["Failed"] == f"home backup: {why}"
    checks = {check.name: check for check in _gateway_checks(live, ())}
    assert checks.keys() == {"home backup", "gateway"} and checks["home backup"].detail == why


def test_the_sandbox_is_named(tmp_path: Path) -> None:
    here = f"none; commands run as {pwd.getpwuid(os.getuid()).pw_name} on this machine"
    assert f"terminal: {here}\n" in (text := told(tmp_path))
    assert "else: the strongest sandbox that works here; see: hermes doctor" in text
    assert facts(tmp_path)["sandbox"] == "auto"
    assert f"owner and admins: {here}\n" in told(tmp_path, TERMINAL_ENV="local")
    assert facts(tmp_path, TERMINAL_ENV="local")["sandbox"] == "none"
    assert "that of the backend bubblewrap" in told(tmp_path, TERMINAL_ENV="bubblewrap")


def test_a_gateway_says_what_holds_whose_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    route = Route(match=RouteMatch(platform="telegram"), agent=MAIN_AGENT, backend="docker")

    def shown(settings: Settings, *works: str) -> list[str]:
        probes = asyncio.run(fake_probes(*works).get())
        told_facts = {"boundaries": boundary_facts(settings, probes), "backends": [ILL]}
        live = {"pid": 1, "facts": told_facts, "inbox": 0, "turns": {}, "outbox": {}, "open_streams": 0}
        monkeypatch.setattr(status, "ask_gateway", lambda home, environ: live)
        return [line.split("  ", 1)[1].strip() for line in told(tmp_path).splitlines() if "Sandbox" in line]

    here = f"none; commands run as {pwd.getpwuid(os.getuid()).pw_name} on this machine"
    ill = "the backend box of main: it rattles"
    assert shown(Settings(), "bubblewrap") == [
        "owner and admins: bubblewrap (workspace only, network open)",
        f"terminal: {here}",
        "strangers: bubblewrap (a folder of their own, network none)",
        ill,
    ]
    assert shown(Settings()) == [
        "owner and admins: none; every command is asked for, because no sandbox works here"
        " (hermes doctor tells why)",
        f"terminal: {here}",
        "strangers: commands are refused. Commands and files of people who are neither owner nor admin need"
        " a sandbox, and none works on this machine. See what is missing: hermes doctor",
        ill,
    ]
    assert shown(Settings(routes=(route,)), "landlock")[0].endswith(
        "landlock (workspace only, network open, weak)"
    )
    assert shown(Settings(routes=(route,)), "landlock")[-2] == (
        "owner and admins by routes[0], strangers by routes[0]: docker does not work, so commands are"
        " refused: docker is not installed. Install docker."
    )


def test_a_backend_of_a_plugin_is_no_sandbox_until_it_says_so() -> None:
    own, probes = Settings(terminal=TerminalSettings(backend="audited")), ()
    assert boundary_lines(boundary_facts(own, probes)) == [
        "owner and admins, terminal: audited (no known sandbox, network open)",
        "strangers: audited (no known sandbox, network none; commands run only if it proves to be one)",
    ]
    world = World(workspace="/w", home="/h", system="", shell="")
    owners, strangers = boundary_lines(boundary_facts(own, probes, {("audited", OPEN_NETWORK): world}))
    assert owners == "owner and admins, terminal: audited (no sandbox, network open)"
    assert strangers.startswith("strangers: commands are refused. ")
    held = replace(world, boundary=Boundary.SANDBOX)
    owners, strangers = boundary_lines(boundary_facts(own, probes, {("audited", OPEN_NETWORK): held}))
    assert owners == "owner and admins, terminal: audited (workspace only, network open)"
    assert strangers == "strangers: audited (a folder of their own, network none)"


def test_no_boundary_is_named_that_does_not_hold() -> None:
    probes = asyncio.run(fake_probes("landlock").get())

    def lines(backend: str, *network: str) -> list[str]:
        own = Settings(terminal=TerminalSettings(backend=backend, network=network))
        return boundary_lines(boundary_facts(own, probes))

    owners, strangers = lines("ssh")
    assert owners == "owner and admins, terminal: ssh (no sandbox, network open)"
    assert (
        strangers.startswith("strangers: commands are refused. ") and "the backend ssh does not" in strangers
    )
    for backend, network in (("ssh", "none"), ("ssh", "pypi.org"), ("landlock", "pypi.org")):
        refused = f"commands are refused. The backend {backend} cannot limit the network, and here it must."
        assert lines(backend, network)[0].startswith(f"owner and admins, terminal: {refused}")
    owners, strangers = lines("landlock", "none")
    assert owners == "owner and admins, terminal: landlock (workspace only, network none, weak)"
    assert strangers.startswith("strangers: commands are refused. ")


ILL = {"agent": "main", "backend": "box", "trouble": "it rattles"}


@pytest.mark.parametrize(
    ("file", "text"), [(".env", "SOME_API_KEY=abcdefgh\n"), ("config.yaml", "model: {api_key: abcdefgh}\n")]
)
def test_files_that_others_can_read_are_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, file: str, text: str
) -> None:
    path = tmp_path / file
    path.write_text(text)
    tmp_path.chmod(0o755)
    path.chmod(0o644)
    [line] = facts(tmp_path)["exposed"]
    assert line == f"{path}: Others on this machine can read it. Make it yours alone: chmod 600 {path}"
    tell_problems(load_settings(tmp_path, {}))
    assert f"settings.exposed {line}" in caplog.text
    tmp_path.chmod(0o700)
    assert facts(tmp_path)["exposed"] == []
    tmp_path.chmod(0o755)
    path.chmod(0o600)
    assert facts(tmp_path)["exposed"] == []
    (tmp_path / "config.yaml").write_text("timezone: UTC\n")
    (tmp_path / "config.yaml").chmod(0o644)
    assert facts(tmp_path)["exposed"] == []


@pytest.mark.parametrize(
    ("told", "line"),
    [
        ({"asked_at": "x", "models": 3}, "Groq (https://g/v1): reachable, 3 models"),
        (
            {"asked_at": "x", "fault": "it refuses the key", "models": 3},
            "Groq (https://g/v1): it refuses the key",
        ),
        ({}, "Groq (https://g/v1): not asked yet"),
        (
            {"call_fault": "no credit", "call_at": "2020-01-01T00:00:00+00:00"},
            "Groq (https://g/v1): not asked yet; the last call failed",
        ),
    ],
)
def test_a_line_says_how_a_provider_is(told: dict[str, Any], line: str) -> None:
    empty = {"title": "Groq", "url": "https://g/v1", "models": 0, "fault": "", "asked_at": ""}
    assert provider_line({**empty, "call_fault": "", "call_at": "", **told}).startswith(line)
