"""`hermes hooks`, and the hooks of a gateway that runs: how they are is told, and BOOT.md is done."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.cli.command import PATIENCE, ROOT, gateway, hermes

CODE = """
def handle(event, context):
    print("heard", event)
    if event == "gateway:startup":
        open("started", "w").write(str(context["platforms"]))
    if event == "gate:tool":
        return "nonsense"
    return {"decision": "deny", "message": context.get("user_id", "nobody")}
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    for name, manifest in (
        ("good", "description: says no\nevents: [gateway:startup, 'command:*', 'gate:tool']\n"),
        ("bad", "events:\n- agent:ends\n"),
    ):
        (home / "hooks" / name).mkdir(parents=True)
        (home / "hooks" / name / "HOOK.yaml").write_text(manifest)
        (home / "hooks" / name / "handler.py").write_text(CODE)
    return home


def until(what: Path) -> None:
    end = time.monotonic() + PATIENCE
    while not what.exists():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_list(home: Path) -> None:
    said = hermes(home, "hooks", "list")
    assert said.code == 0 and "good" in said.out and "says no" in said.out and said.clean
    assert "hooks/bad/HOOK.yaml:2: There is no event “agent:ends”. Did you mean agent:end?" in said.err
    told = json.loads(hermes(home, "hooks", "list", "--json").out)
    assert [hook["name"] for hook in told["hooks"]] == ["good"] and len(told["problems"]) == 1
    assert "No hooks." in hermes(home.parent / "empty", "hooks", "list").out


def test_test(home: Path) -> None:
    said = hermes(home, "hooks", "test", "command:new", "--json", '{"user_id": "u7"}')
    assert said.code == 0 and said.out.startswith('good: answered {"decision": "deny", "message": "u7"}')
    assert "printed: heard command:new" in said.out
    broken = hermes(home, "hooks", "test", "gate:tool")
    assert broken.code == 1 and "failed: it answered a str" in broken.out and "is denied" in broken.out
    assert "No hook follows agent:end." in hermes(home, "hooks", "test", "agent:end").out
    folder = home / "hooks" / "raises"
    folder.mkdir()
    (folder / "HOOK.yaml").write_text("name: raises\nevents: [agent:end]\n")
    (folder / "handler.py").write_text(
        "def handle(event, context):\n    print('first')\n    raise ValueError('kaputt')\n"
    )
    raised = hermes(home, "hooks", "test", "agent:end")
    assert raised.code == 1 and "raises: failed: ValueError in handler.py, line 3" in raised.out
    assert "  first\n" in raised.out and "  ValueError: kaputt\n" in raised.out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["agent:ends"], "Did you mean agent:end?"),
        (["command:*"], "There is no event “command:*”."),
        (["agent:end", "--json", "{"], "The context is not JSON"),
        (["agent:end", "--json", "[]"], "The context must be a JSON object."),
    ],
)
def test_bad_words(home: Path, words: list[str], told: str) -> None:
    said = hermes(home, "hooks", "test", *words)
    assert said.code == 1 and told in said.err and said.clean


def test_hooks_of_plugins_are_tried_too(home: Path) -> None:
    site = home.parent / "site"
    (site / "hx_hook-1.dist-info").mkdir(parents=True)
    (site / "hx_hook-1.dist-info" / "METADATA").write_text("Name: hx-hook\nVersion: 1\n")
    entries = "[hermes.hooks]\nfaulty = hx_hook:faulty\nodd = hx_hook:odd\n"
    (site / "hx_hook-1.dist-info" / "entry_points.txt").write_text(entries)
    source = "def faulty(event, context): raise RuntimeError('no ' + context['x'])\n"
    (site / "hx_hook.py").write_text(source + "def odd(event, context): return {1, 2}\n")
    path = {"PYTHONPATH": f"{ROOT / 'src'}:{site}"}
    tried = hermes(home, "hooks", "test", "agent:start", "--json", '{"x": "ink"}', **path)
    assert tried.code == 1 and "faulty: failed: RuntimeError" in tried.out, tried.err
    assert "RuntimeError: no ink" in tried.out and "odd: answered" in tried.out
    (site / "hx_hook.py").write_text("raise RuntimeError('gone')\n")
    listed = hermes(home, "hooks", "list", **path)
    assert listed.code == 0 and "plugin.broken" not in listed.err, "a line for the log"
    assert "RuntimeError: gone" in hermes(home, "plugins", "list", **path).out


def test_a_gateway_with_hooks_and_a_boot_file(home: Path) -> None:
    (home / "BOOT.md").write_text("Say hello to the morning.")
    with gateway(home) as running:
        until(home / "hooks" / "good" / "started")
        running.until("boot.ended")
        assert "hook.left_out hooks/bad/HOOK.yaml:2" in running.err
        status = hermes(home, "status")
        assert "left out" in status.out and "hooks/bad/HOOK.yaml" in status.out and "good" not in status.out
        assert running.stop() == 0
    shown = hermes(home, "sessions", "search", "morning")
    assert "boot_" in shown.out and shown.out.count("boot_") >= 1
