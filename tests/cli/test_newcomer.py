"""A newcomer's first ten minutes, typed at a real terminal without having read anything: every step says what
to do next, nothing ends in a traceback, and at the end a model of theirs answers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import nursery
from tests.cli.command import environment, hermes
from tests.entry.terminal.person import HERMES, at_terminal

KEY = "sk-newcomer-0123456789"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "fruit.txt").write_text("apple\npear\n")
    return folder


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "hermes.testing.model_server", "--key", KEY]
    with nursery.Popen(command, stdout=subprocess.PIPE, env=environment(tmp_path), text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def test_the_first_ten_minutes(home: Path, project: Path, server: str) -> None:
    # What is this? The help begins with what to do.
    text = hermes(home, "--help").out
    assert text.index("First steps:") < text.index("hermes setup") < text.index("Commands:")

    # The first start: an answer without a key, in the folder where they are.
    with at_terminal(home, real=HERMES, cwd=project, TERM="dumb") as person:
        person.until("demo", "/help lists the commands")
        person.prompt()
        person.type("list files")
        person.until("fruit.txt", "hermes setup")
        person.prompt()
        person.type("/new")
        person.prompt()
        person.type("run: rm -rf ~/nope")
        person.until("? Run: rm -rf ~/nope", "4. deny")
        person.type("4")
        person.prompt()
        person.type("/hlep")
        person.until("/help")
        person.prompt()
        person.keys("\x04")
        assert person.ends() == 0 and "To come back:" in person.seen
        assert person.mode == person.before

    # Mistyped words name the right ones; several words are said to the agent.
    for words, meant in (
        (["stauts"], "hermes status"),
        (["--verison"], "--version"),
        (["config", "sett"], "did you mean set?"),
        (["setup", "--providr", "demo"], "did you mean --provider?"),
    ):
        wrong = hermes(home, *words)
        assert wrong.code == 2 and meant in wrong.err and wrong.clean, wrong
    with at_terminal(home, "what is here", real=HERMES, cwd=project, TERM="dumb") as person:
        person.until("fruit.txt")
        person.prompt()
        person.keys("\x04")
        assert person.ends() == 0

    # Empty lists say how to begin.
    for name, how in (
        ("cron", "hermes cron create"),
        ("webhook", "webhook subscribe"),
        ("backup", "backup create"),
    ):
        assert how in hermes(home, name, "list").out

    # A real model: a wrong key is told and asked for again, nothing is shown or kept of it.
    with at_terminal(home, "setup", real=HERMES, rich=True, cwd=project) as person:
        person.until("Who serves your model?")
        person.keys("Another address\r")
        person.until("Its address")
        person.type("ftp://127.0.0.1")
        person.until("That is no address", "Its address")
        person.type(server.removeprefix("http://"))
        person.until("Its key")
        person.type("sk-mistyped-0123456789")
        person.until("It refuses the key")
        person.type(KEY)
        person.until("Which model?")
        person.keys("fake-model\r")
        person.until("fake-model answered after", "What next?")
        person.keys("\x03")
        person.until("Stopped. What was finished is kept")
        assert person.ends() == 130 and person.mode == person.before
        assert "sk-mistyped" not in person.seen and KEY not in person.seen
    assert "sk-mistyped" not in (home / ".env").read_text() and KEY in (home / ".env").read_text()
    answer = hermes(home, "-q", "hello there")
    assert answer.code == 0 and "hello there" in answer.out, answer

    # Everything is as it should be, and they can look around.
    checked = hermes(home, "doctor", "--offline")
    assert checked.clean and "problem settings" not in checked.out
    assert hermes(home, "config", "check").out.endswith("config ok\n")
    assert "fake-model" in hermes(home, "status").out
    assert hermes(home, "sessions", "list").code == 0

    # A platform, left half-way: nothing is changed.
    before = (home / ".env").read_text()
    with at_terminal(home, "platforms", "setup", "telegram", real=HERMES, rich=True, cwd=project) as person:
        person.until("TELEGRAM_BOT_TOKEN")
        person.keys("\x03")
        assert person.ends() == 130 and "Traceback" not in person.seen
    assert (home / ".env").read_text() == before
