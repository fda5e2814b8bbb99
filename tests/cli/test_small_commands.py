"""Commands that do one small thing each: fallback, dump, memory status and reset, plugins, profile show and
rename, gateway list, hooks doctor, sessions stats and browse, skills check."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import ROOT, environment, gateway, hermes
from tests.entry.terminal.person import HERMES, at_terminal

SECRET = "gsk-0123456789abcdef"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def rows(home: Path, *words: str) -> list[dict[str, object]]:
    listed: list[dict[str, object]] = json.loads(hermes(home, *words, "--json").out)
    return listed


def test_a_package_that_is_missing_is_one_sentence(home: Path) -> None:
    code = "import sys; sys.modules['msgspec'] = None; from hermes.cli import main; sys.exit(main())"
    command = [sys.executable, "-P", "-c", code, "status"]
    done = subprocess.run(command, env=environment(home), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.startswith("hermes: A part of Hermes cannot be loaded (")
    assert "it is made anew" in done.stderr or "Install Hermes again" in done.stderr


def test_fallback_models(home: Path) -> None:
    assert "hermes fallback add" in hermes(home, "fallback", "list").out
    added = hermes(home, "fallback", "add", "groq:llama")
    assert added.code == 0 and "GROQ_API_KEY" in added.err
    assert hermes(home, "fallback", "add", "openrouter:a/b").code == 0
    assert "dry run" in hermes(home, "fallback", "add", "openai:c", "--dry-run").out
    assert [row["model"] for row in rows(home, "fallback", "list")] == ["llama", "a/b"]
    assert "provider:model" in hermes(home, "fallback", "add", "llama").err
    assert hermes(home, "fallback", "remove", "3").code == 1
    assert hermes(home, "fallback", "remove", "1").code == 0
    assert [row["model"] for row in rows(home, "fallback", "list")] == ["a/b"]
    assert hermes(home, "fallback", "clear").code == 0 and rows(home, "fallback", "list") == []


def test_a_dump_tells_all_but_secrets(home: Path) -> None:
    assert hermes(home, "config", "set", "GROQ_API_KEY", SECRET).code == 0
    assert hermes(home, "config", "set", "agent.max_turns", "7").code == 0
    said = hermes(home, "dump")
    assert said.code == 0 and "agent.max_turns: 7" in said.out and "GROQ_API_KEY" in said.out
    assert SECRET not in said.out and "gsk-" not in said.out
    told = json.loads(hermes(home, "dump", "--json", "--show-keys").out)
    assert told["settings"]["agent.max_turns"] == 7 and told["gateway"] == "not running"
    assert "GROQ_API_KEY=gsk-…ef" in told["keys"] and SECRET not in json.dumps(told)


def test_memory_is_counted_and_reset(home: Path) -> None:
    assert json.loads(hermes(home, "memory", "status", "--json").out)["entries"] == 0
    assert "Nothing is noted." in hermes(home, "memory", "reset", "-y").out
    assert "memory.provider is none" in hermes(home, "memory", "off").out
    assert "did you mean user?" in hermes(home, "memory", "reset", "--target", "usr").err


def test_plugins_profiles_hooks_skills(home: Path) -> None:
    unknown = hermes(home, "plugins", "disable", "weather")
    assert unknown.code == 1 and "There is no plugin" in unknown.err
    hermes(home, "profile", "create", "work")
    hermes(home, "profile", "use", "work")
    assert hermes(home, "profile", "rename", "work", "office").code == 0
    shown = json.loads(hermes(home, "profile", "show", "office", "--json").out)
    assert shown["home"].endswith("/profiles/office") and shown["gateway"] == "not running"
    assert (home / "active_profile").read_text() == "office\n", "it is still the one in use"
    assert "keeps its name" in hermes(home, "profile", "rename", "default", "x").err
    assert hermes(home, "profile", "rename", "office", "Bad Name").code == 1
    hermes(home, "profile", "use", "default")
    broken = home / "hooks" / "mine"
    broken.mkdir(parents=True)
    assert hermes(home, "hooks", "doctor").code == 0 or "mine" in hermes(home, "hooks", "doctor").err
    (broken / "HOOK.yaml").write_text("events: [no:such]\n")
    sick = hermes(home, "hooks", "doctor")
    assert sick.code == 1 and "mine" in sick.err
    told = json.loads(hermes(home, "hooks", "doctor", "--json").out)
    assert told["hooks"] == [] and "mine" in str(told["problems"])
    assert "No skill was installed" in hermes(home, "skills", "check").out


def test_gateways_are_listed(home: Path) -> None:
    assert "hermes gateway start" in hermes(home, "gateway", "list").out
    with gateway(home):
        assert str(home) in [row["home"] for row in rows(home, "gateway", "list")]


def test_conversations_are_counted_and_chosen(home: Path) -> None:
    assert "No sessions yet" in hermes(home, "sessions", "stats").out
    assert "No sessions yet" in hermes(home, "sessions", "browse").out
    assert hermes(home, "-z", "my cat is called Minka").code == 0
    assert json.loads(hermes(home, "sessions", "stats", "--json").out)["sessions"] == 1
    assert hermes(home, "sessions", "browse").code == 1
    with at_terminal(home, "sessions", "browse", real=HERMES, rich=True, TERM="dumb") as person:
        person.until("Which conversation?", "Its number or name:")
        person.type("1")
        person.until("Back in")
        person.prompt()
        person.keys("\x04")
        assert person.ends() == 0


def test_hermes_is_removed_from_the_machine(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "hermes").symlink_to(ROOT / "hermes")
    path = f"{folder}:/usr/bin:/bin"
    assert "nothing to remove" in hermes(home, "uninstall").out
    assert hermes(home, "-z", "hello").code == 0
    shown = hermes(home, "uninstall", "--full", "--dry-run", PATH=path)
    assert str(folder / "hermes") in shown.out and str(home) in shown.out and home.is_dir()
    assert "--yes" in hermes(home, "uninstall", PATH=path).err and (folder / "hermes").is_symlink()
    assert f"still in {home}" in hermes(home, "uninstall", "--yes", PATH=path).out
    assert not (folder / "hermes").is_symlink() and (ROOT / "hermes").is_file() and home.is_dir()
    with gateway(home) as running:
        assert hermes(home, "uninstall", "--full", "--yes", PATH=path).code == 0
        assert running.process.wait(60) == 0 and not home.exists()
    strange = tmp_path / "strange"
    strange.mkdir()
    (strange / "thesis.txt").write_text("mine")
    refused = hermes(strange, "uninstall", "--full", "--yes")
    assert refused.code == 1 and "does not look like a home" in refused.err
    assert (strange / "thesis.txt").exists()
