"""Settings that change under a running gateway: adopted as a whole with `hermes config apply` or by watching,
or refused as a whole while the old ones go on."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.command import ROOT, gateway, hermes

BEFORE = "agents:\n  bee: {}\ndisplay:\n  tool_progress: off\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    (folder / "config.yaml").write_text(BEFORE)
    return folder


def agents_of(home: Path) -> list[str]:
    agents: list[str] = json.loads((home / "gateway_state.json").read_text())["agents"]
    return agents


def until(what: Callable[[], bool], seconds: float = 40.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not come to it"
        time.sleep(0.05)


def test_a_changed_boundary_is_named(home: Path) -> None:
    route = "routes:\n- match: {platform: webhook}\n  agent: main\n  backend: bubblewrap\n"
    with gateway(home):
        (home / "config.yaml").write_text(f"{BEFORE}{route}")
        told = hermes(home, "config", "apply")
        assert told.code == 0 and "routes" in told.out, told
        named = [line for line in told.out.splitlines() if line.startswith("Sandbox of")]
        assert named and all("routes[0]" in line and "bubblewrap" in line for line in named)
        assert "Sandbox" not in hermes(home, "config", "apply").out


def test_whoever_sets_something_hears_that_the_gateway_does_not_know_it_yet(home: Path) -> None:
    words = ("config", "set", "agent.max_turns", "7")
    assert "adopts it" not in hermes(home, *words).err
    with gateway(home):
        for each in (words, ("config", "unset", "agent.max_turns")):
            assert (
                f"The running gateway adopts it with: HERMES_HOME={home} hermes config apply"
                in hermes(home, *each).err
            )
        hermes(home, "config", "set", "gateway.watch_config", "true")
        assert "adopts it" not in hermes(home, *words).err


def test_a_change_is_adopted_as_a_whole_or_not_at_all(home: Path) -> None:
    with gateway(home) as running:
        assert hermes(home, "config", "apply").out.startswith("No setting has changed. The gateway looks")
        (home / "config.yaml").write_text("agents:\n  ant: {}\ngateway:\n  cache_mb: 8\n")
        told = hermes(home, "config", "apply")
        assert told.code == 0, told
        assert "agents.bee" in told.out and "agents.ant" in told.out and "display.tool_progress" in told.out
        assert (
            f"Takes effect after a restart (HERMES_HOME={home} hermes gateway restart): gateway.cache_mb."
            in told.out
        )
        assert agents_of(home) == ["ant", "main"]
        (home / "config.yaml").write_text("agents:\n  fly: {}\nagent:\n  max_turns: lots\n")
        refused = hermes(home, "config", "apply")
        assert refused.code == 1 and "config.yaml:4: agent.max_turns must be a whole number" in refused.err
        assert agents_of(home) == ["ant", "main"], "half of a wrong file was adopted"
        assert "max_turns" in json.loads((home / "gateway_state.json").read_text())["settings_problem"]
        (home / "config.yaml").write_text("toolsets: [termnal]\n")
        assert "There is no toolset “termnal”" in hermes(home, "config", "apply").err
        assert "Traceback" not in running.err
        (home / "config.yaml").write_text(BEFORE)
        assert hermes(home, "config", "apply").code == 0 and agents_of(home) == ["bee", "main"]
        assert json.loads((home / "gateway_state.json").read_text())["settings_problem"] == ""
        assert running.stop() == 0


def test_a_watched_file_is_adopted_when_it_is_saved(home: Path) -> None:
    watched = "gateway:\n  watch_config: true\n"
    (home / "config.yaml").write_text(BEFORE + watched)
    with gateway(home) as running:
        (home / "config.yaml").write_text("agents: {\n")  # somebody is still writing
        until(lambda: "settings.refused" in running.err or "settings_problem" in _state(home))
        assert agents_of(home) == ["bee", "main"]
        (home / "config.yaml").write_text("agents:\n  ant: {}\n" + watched)
        until(lambda: agents_of(home) == ["ant", "main"])
        assert "Traceback" not in running.err and running.stop() == 0


def test_status_tells_what_counts_after_a_refusal(home: Path) -> None:
    config = home / "config.yaml"
    config.write_text("approvals: {mode: manual}\n")
    with gateway(home) as running:
        config.write_text('approvals: {mode: "off"}\n')
        assert hermes(home, "config", "apply").code == 0
        config.write_text("approvals: {mode: sometimes}\n")
        refused = hermes(home, "config", "apply")
        assert refused.code == 1 and refused.err.rstrip().endswith("The settings from before count.")
        assert "Until you fix it" not in refused.err
        shown = hermes(home, "status").out
        assert "off (nobody is asked" in shown and "Until you fix it" not in shown
        assert json.loads(hermes(home, "status", "--json").out)["approvals"] == "off"
        assert running.stop() == 0
    assert json.loads(hermes(home, "status", "--json").out)["approvals"] == "manual"


def test_what_waits_for_a_restart_is_what_differs_from_the_start(home: Path) -> None:
    config = home / "config.yaml"
    waits = f"Takes effect after a restart (HERMES_HOME={home} hermes gateway restart): gateway.cache_mb."
    with gateway(home) as running:
        config.write_text(BEFORE + "gateway:\n  cache_mb: 8\n")
        assert waits in hermes(home, "config", "apply").out
        config.write_text("agents:\n  bee: {}\ngateway:\n  cache_mb: 8\n")
        assert waits in hermes(home, "config", "apply").out, "it still waits"
        assert waits in hermes(home, "config", "apply").out
        config.write_text(BEFORE)
        assert "Counts after" not in hermes(home, "config", "apply").out, "nothing waits any more"
        assert running.stop() == 0


def test_a_file_that_is_gone_is_not_adopted(home: Path) -> None:
    with gateway(home) as running:
        (home / "config.yaml").unlink()
        refused = hermes(home, "config", "apply")
        assert refused.code == 1 and "config.yaml is gone, and its limits with it." in refused.err
        assert agents_of(home) == ["bee", "main"]
        assert running.stop() == 0


PLUGIN = """
from hermes.control.commands.registry import CommandReply, command
from hermes.domain.tools.tool import Tool, ToolResult

async def run(context, arguments):
    return ToolResult(text="")

IT = Tool(name="hx_there", description="It is there.", parameters={}, run=run, toolset="hx_there")

@command("hx", "Say hello.")
def say(call):
    return CommandReply(text="hello")
"""


def test_plugins_are_those_of_the_start_until_a_restart(home: Path) -> None:
    place = home.parent / "site"
    (place / "hx_more-2.dist-info").mkdir(parents=True)
    (place / "hx_more-2.dist-info" / "METADATA").write_text("Name: hx-more\nVersion: 2\n")
    entries = "[hermes.tools]\nhx = hx_more:IT\n[hermes.commands]\nhx = hx_more\n"
    (place / "hx_more-2.dist-info" / "entry_points.txt").write_text(entries)
    (place / "hx_more.py").write_text(PLUGIN)
    config, there = home / "config.yaml", "toolsets: [hx_there]\n"
    config.write_text(there)
    with gateway(home, PYTHONPATH=f"{ROOT / 'src'}:{place}") as running:
        config.write_text(there + "plugins: {disabled: [hx-more]}\n")
        applied = hermes(home, "config", "apply")
        assert applied.code == 0, "its toolset is gone: " + applied.err
        assert (
            f"Takes effect after a restart (HERMES_HOME={home} hermes gateway restart): plugins.disabled."
            in applied.out
        )
        assert running.stop() == 0


def test_a_plugin_that_was_installed_meanwhile_counts_after_a_restart(home: Path) -> None:
    """And one that was removed is missed by the restart, not by the next process."""
    place, config, example = home.parent / "site", home / "config.yaml", ROOT / "examples" / "provider"
    path = {"PYTHONPATH": f"{ROOT / 'src'}:{place}"}
    place.mkdir()
    assert hermes(home, "gateway", "start", **path).code == 0
    info = place / "hx_parrot-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: hx-parrot\nVersion: 1\n")
    module = "hermes_example_provider"
    (info / "entry_points.txt").write_text(f"[hermes.providers]\nparrot = {module}:make_provider\n")
    shutil.copy(example / f"{module}.py", place)
    config.write_text("model: {provider: parrot}\nagents: {bird: {provider: parrot}}\n")
    refused = hermes(home, "config", "apply", **path)
    assert refused.code == 1 and "Plugins were installed" in refused.err, refused.err
    assert "hermes gateway restart" in refused.err
    restarted = hermes(home, "gateway", "restart", **path)
    assert restarted.code == 0, restarted.err
    said = hermes(home, "-q", "hello", **path)
    assert "Squawk! hello" in said.out, said.err
    shutil.rmtree(info)
    missed = hermes(home, "gateway", "restart", **path)
    assert missed.code == 78 and "parrot" in missed.err and missed.clean, missed.err


def _state(home: Path) -> str:
    return (home / "gateway_state.json").read_text()


def test_without_a_gateway_the_settings_are_only_checked(home: Path) -> None:
    told = hermes(home, "config", "apply")
    assert told.code == 0 and told.out.startswith("No gateway runs here; the settings are correct")
    (home / "config.yaml").write_text("modle: x\n")
    assert "config.yaml:1: “modle” is not a known setting" in hermes(home, "config", "apply").err


def test_a_prefill_file_that_is_lost_is_told(home: Path) -> None:
    """Settings are not adopted with it; the gateway goes on with what it read at its start."""
    prefill = home / "before.json"
    prefill.write_text('[{"role": "user", "content": "hi"}]')
    (home / "config.yaml").write_text(f"{BEFORE}prefill_messages_file: before.json\n")
    with gateway(home) as running:
        assert hermes(home, "config", "apply").code == 0
        prefill.unlink()
        refused = hermes(home, "config", "apply")
        assert "before.json cannot be read" in refused.out + refused.err, refused
        assert "before.json cannot be read" in hermes(home, "config", "check").out
        assert running.stop() == 0
