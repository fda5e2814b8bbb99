"""A home of OpenClaw moves in: everything once, nothing over what is here, whatever stops it."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hermes.admin.commands.migrate import _from_openclaw
from hermes.domain.errors import UserError
from hermes.state.home.homes import prepare_home
from hermes.state.moving.arriving import Arrival
from hermes.state.moving.json5 import parse_json5
from hermes.state.moving.openclaw import read_openclaw
from hermes.state.moving.openclaw_sessions import read_object
from tests.cli.command import gateway, hermes
from tests.cli.openclaw_home import make_home

CUT = 77
NOW = datetime(2026, 11, 1, tzinfo=UTC)


def told(home: Path, *words: str) -> str:
    said = hermes(home, *words)
    assert said.code == 0 and said.clean, said
    return said.out


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("database", [False, True], ids=["files", "databases"])
def test_a_home_moves_in_once(database: bool, tmp_path: Path) -> None:
    old, home = make_home(tmp_path / ".openclaw", database=database), tmp_path / "home"
    before = content(old)
    planned = told(home, "migrate", "--dry-run")  # it is found where it stands
    assert "3 conversations" in planned and not home.exists()
    done = told(home, "migrate", str(old), "-y")
    assert content(old) == before
    taken, _, left = done.partition("Left out:")
    assert "3 conversations (0 were here already)" in taken and "3 scheduled jobs" in taken
    for what in (
        "the agent work", "HEARTBEAT.md", "channels.whatsapp", "channels.discord: it is switched off",
        "allowFrom: everybody", "dmPolicy: open", "unheard/of", "tools.elevated", "gateway.auth.token",
        "job Script", "job Past", "job Lima: it is paused", "the login openai-codex:me", "EDITOR_THEME",
        "account work of telegram", "1 runs of jobs",
    ):  # fmt: skip
        assert what in left, what
    assert database or "2 lines of conversations: damaged" in left
    assert "theirs" not in done and "telegram-0123456789" not in done  # no secret is printed
    _check_settings(home)
    _check_files(home)
    again = told(home, "migrate", str(old), "-y")
    assert (
        "0 conversations (3 were here already)" in again
        and "SOUL.md (identity)" in again.partition("Kept")[2]
    )
    _check_conversations(home, "503" if database else "501")


def _check_settings(home: Path) -> None:
    for key, value in {
        "model.default": "little", "model.provider": "custom:house", "timezone": "Europe/Berlin",
        "terminal.timeout": "60.0", "TELEGRAM_ALLOWED_USERS": "77,78", "TELEGRAM_ALLOWED_CHATS": "-100500",
    }.items():  # fmt: skip
        assert told(home, "config", "get", key).strip() == value, key
    secrets = (home / ".env").read_text()
    for line in ("HOUSE_API_KEY=house-0123456789", "TELEGRAM_BOT_TOKEN=77:telegram-0123456789"):
        assert line in secrets
    assert "ANTHROPIC_API_KEY=sk-ant-0123456789" in secrets
    assert "OPENCLAW" not in secrets and "EDITOR_THEME" not in secrets and "DISCORD" not in secrets
    written = (home / "config.yaml").read_text()
    assert "notes-server" in written and "claude-sonnet-4-6" in written and "house-0123456789" not in written


def _check_files(home: Path) -> None:
    assert (home / "SOUL.md").read_text() == "You are Old Claw."
    assert (home / "workspace/AGENTS.md").read_text() == "# House rules"
    assert (home / "memories/MEMORY.md").read_text().split("\n§\n") == [
        "2026-01-01: Moved the jars.", "2026-01-02: Bought marmalade.",
        "Pets: The cat is called Tea.", "Pets: The dog is called Ink.\n",
    ]  # fmt: skip
    assert (home / "skills/knots/SKILL.md").exists() and (home / "skills/baking/SKILL.md").exists()
    assert not (home / "skills/baking/away").is_symlink()


def _check_conversations(home: Path, paired: str) -> None:
    shown = told(home, "sessions", "show", "aaaa-1")
    assert "marmalade" in shown and "one jar" in shown and "In the cellar." in shown and "attic" not in shown
    assert "Jam" in told(home, "sessions", "list")
    garden = told(home, "sessions", "show", "bbbb-2")
    assert "They plan a garden." in garden and "Tulips." in garden and "Roses" not in garden
    with gateway(home, HERMES_MODEL="demo", TELEGRAM_ENABLED="false"):
        jobs = told(home, "cron", "list", "--all")
        assert "Morning brief" in jobs and "telegram:77" in jobs and "Tick" in jobs and "Lima" in jobs
        assert paired in told(home, "pairing", "list")


def test_what_is_here_stays(tmp_path: Path) -> None:
    old, home = make_home(tmp_path / "old", database=False, config="clawdbot.json"), tmp_path / "home"
    (home / "memories").mkdir(parents=True)
    (home / "SOUL.md").write_text("You are mine.")
    (home / "memories/MEMORY.md").write_text("Mine.")
    (home / "config.yaml").write_text("# mine\nmodel: demo\ntelegram:\n  allowed_users: [5]\n")
    (home / ".env").write_text("ANTHROPIC_API_KEY=mine-0123456789\n")
    done = told(home, "migrate", str(old), "-y")
    kept = done.partition("Kept as they are here:")[2].partition("Left out:")[0]
    for what in ("SOUL.md", "MEMORY.md", "model.default", "ANTHROPIC_API_KEY", "TELEGRAM_ALLOWED_USERS"):
        assert what in kept, what
    assert (home / "SOUL.md").read_text() == "You are mine."
    assert (home / "memories/MEMORY.md").read_text() == "Mine."
    secrets, written = (home / ".env").read_text(), (home / "config.yaml").read_text()
    assert "TELEGRAM" not in secrets and "mine-0123456789" in secrets and "sk-ant" not in secrets
    assert written.startswith("# mine\nmodel: demo\n") and "custom:house" not in written


def test_cut_at_every_write_it_is_done_by_the_next(tmp_path: Path) -> None:
    old = make_home(tmp_path / "old", database=False)
    whole = _arrived(old, tmp_path / "whole")
    for number in range(1, 200):
        home = tmp_path / f"cut{number}"
        child = os.fork()
        if child == 0:  # it goes as by a power cut: nothing is cleaned up
            _die_at(number, home)
            _arrived(old, home)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in (0, CUT)
        parts = {name for name in content(home) if name.endswith((".moving", ".part"))}
        assert _arrived(old, home).keys() - parts == whole.keys()
        assert {name: data for name, data in content(home).items() if name in whole} == whole
        if code == 0:
            break
    assert code == 0 and number > 20


def _arrived(old: Path, home: Path) -> dict[str, bytes]:
    prepare_home(home)
    _from_openclaw(old, Arrival(home=home, dry=False))
    history = ("cache/", "logs/")
    return {name: data for name, data in content(home).items() if not name.startswith(history)}


def _die_at(number: int, home: Path) -> None:
    count = 0

    def hook(event: str, values: tuple[object, ...]) -> None:
        nonlocal count
        writes = event == "open" and isinstance(values[2], int) and values[2] & (os.O_WRONLY | os.O_RDWR)
        if (event in ("os.rename", "os.mkdir") or writes) and str(home) in str(values[0]):
            count += 1
            if count == number:
                os._exit(CUT)

    sys.addaudithook(hook)


@pytest.mark.parametrize(
    ("config", "says"),
    [("{ agents: { ", "cannot be read"), ("[]", "it is no object"), ("{ a: @ }", "line 1 is not JSON5")],
)
def test_settings_that_cannot_be_read_are_said(config: str, says: str, tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.mkdir()
    (old / "openclaw.json").write_text(config)
    said = hermes(tmp_path / "home", "migrate", str(old), "-y")
    assert said.code == 1 and says in said.err and said.clean, said


def _with(tree: Any, value: Any) -> Iterator[Any]:
    """The tree with a value in each of its places, one after the other."""
    yield value
    for name in tree if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ():
        for inner in _with(tree[name], value):
            changed = tree.copy()
            changed[name] = inner
            yield changed


@pytest.mark.parametrize("odd", [["x"], 5, {"a": []}], ids=["list", "number", "object"])
def test_what_is_of_another_kind_than_it_should_be_stops_nothing_unsaid(odd: Any, tmp_path: Path) -> None:
    old = make_home(tmp_path / ".openclaw", database=False)
    for path in [path for path in old.rglob("*.json*") if path.is_file()]:
        whole = path.read_text()
        lines, read = ([whole], parse_json5) if path.suffix == ".json" else (whole.splitlines(), read_object)
        for number, line in enumerate(lines):
            for tree in _with(read(line), odd):
                path.write_text("\n".join([*lines[:number], json.dumps(tree), *lines[number + 1 :]]))
                with contextlib.suppress(UserError):
                    list(read_openclaw(old, NOW).sessions)
        path.write_text(whole)


def test_a_conversation_nested_without_end_is_damaged(tmp_path: Path) -> None:
    old = make_home(tmp_path / ".openclaw", database=False)
    before = list(read_openclaw(old, NOW).sessions)
    (old / "agents" / "main" / "sessions" / "deep.jsonl").write_text("[" * 100_000)
    assert list((after := read_openclaw(old, NOW)).sessions) == before
    assert "3 lines of conversations: damaged" in after.sessions.left


def test_a_database_that_is_none_is_said(tmp_path: Path) -> None:
    old = make_home(tmp_path / "old", database=True)
    (old / "agents/main/agent/openclaw-agent.sqlite").write_bytes(b"torn" * 2000)
    said = hermes(tmp_path / "home", "migrate", str(old), "-y")
    assert said.code == 1 and "cannot be read as the database of OpenClaw" in said.err and said.clean, said


def test_no_room_is_said_and_the_next_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, home = make_home(tmp_path / "old", database=False), tmp_path / "home"
    said = hermes(home, "migrate", str(old), "-y", before=("prlimit", "--fsize=20"))
    assert said.code == 1 and "cannot be written" in said.err and said.clean, said
    assert "3 conversations (0 were here already)" in told(home, "migrate", str(old), "-y")


def test_json5_is_read_as_its_makers_say() -> None:
    text = r"""// a
    { a: 1, 'b-c': "it's", "d": 'say \"\'hi\' \u00e4\x41 \
here', e: [+.5, 0xFF, 5., -1e3, 1.e2,], f: true, /* g: 1, } */ h: null, $i_: "a//b /* c */", }"""
    assert parse_json5(text) == {
        "a": 1, "b-c": "it's", "d": "say \"'hi' äA here", "e": [0.5, 255, 5.0, -1000.0, 100.0],
        "f": True, "h": None, "$i_": "a//b /* c */",
    }  # fmt: skip
    for wrong in ("{a:1} {", "{a:}", "{,}", "[1 2]", "{a:'x}", "{a:1x}"):
        with pytest.raises(ValueError, match=r"."):
            parse_json5(wrong)


def test_a_home_that_hermes_agent_did_not_use_is_nothing_to_move(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.yaml").write_text("{}\n")
    said = hermes(home, "migrate", "--dry-run", HOME=str(tmp_path))
    assert said.code == 1 and f"Hermes Agent did not use {home}" in said.err and not said.out
