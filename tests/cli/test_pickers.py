"""Lists to choose from, at a real terminal: arrow keys, typing, leaving, and a terminal that can do less."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import yaml

from tests.entry.terminal.person import HERMES, at_terminal

DOWN, ESCAPE, CTRL_C, CTRL_Z = "\x1b[B", "\x1b", "\x03", "\x1a"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def off(home: Path) -> list[str]:
    path = home / "config.yaml"
    held = yaml.safe_load(path.read_text()) if path.exists() else {}
    return held.get("agent", {}).get("disabled_toolsets", [])


def test_toolsets_are_switched_with_keys(home: Path) -> None:
    with at_terminal(home, "tools", real=HERMES, rich=True) as person:
        person.until("Which toolsets?", "Esc leaves")
        person.keys("cronjob")
        person.until("❯ [x] cronjob")
        person.keys(" ")
        person.until("❯ [ ] cronjob")
        person.keys("\x15todo")
        person.until("❯ [x] todo")
        person.keys(" \r")
        person.until("cronjob, todo: disabled")
        assert person.ends() == 0 and person.mode == person.before
    assert sorted(off(home)) == ["cronjob", "todo"]
    with at_terminal(home, "tools", real=HERMES, rich=True) as person:
        person.until("Esc leaves")
        person.keys("cronjob")
        person.until("❯ [ ] cronjob")
        person.keys(" \r")
        assert person.ends() == 0
    assert off(home) == ["todo"]


@pytest.mark.parametrize(("key", "code"), [(ESCAPE, 1), (CTRL_C, 130), ("\x04", 1)])
def test_whoever_leaves_changes_nothing(home: Path, key: str, code: int) -> None:
    with at_terminal(home, "tools", real=HERMES, rich=True) as person:
        person.until("Esc leaves")
        person.keys(f" {DOWN} ")
        person.until("[ ]")
        person.keys(key)
        assert person.ends() == code and "Traceback" not in person.seen
        assert person.mode == person.before
    assert off(home) == []


def test_it_can_be_suspended_and_resized(home: Path) -> None:
    with at_terminal(home, "tools", real=HERMES, rich=True) as person:
        person.until("Esc leaves")
        person.resize(2)
        person.resize(80)
        person.until("Esc leaves")
        person.keys(CTRL_Z)
        person._wait(lambda: person.mode == person.before, ["the terminal as it was"])
        person.process.send_signal(signal.SIGCONT)
        person.until("Esc leaves")
        person.keys(f"{DOWN}\r")
        assert person.ends() == 0 and "Nothing was changed." in person.seen


def test_a_terminal_that_cannot_draw_gets_numbers(home: Path) -> None:
    with at_terminal(home, "skills", real=HERMES, rich=True, TERM="dumb") as person:
        person.until("1. [x]", "Enter saves:")
        person.type("1, nonsense")
        person.until("There is no “nonsense” in the list.", "1. [ ]", "Enter saves:")
        person.type("")
        person.until("is disabled.")
        assert person.ends() == 0 and "\x1b[" not in person.raw
    with at_terminal(home, "setup", "model", real=HERMES, rich=True, TERM="dumb") as person:
        person.until("Who serves your model?", "Its number or name:")
        person.type("nobody")
        person.until("There is no “nobody” in the list.", "Its number or name:")
        person.type("None yet")
        person.until("The demo model answers now.")
        assert person.ends() == 0


def test_a_window_of_one_column(home: Path) -> None:
    with at_terminal(home, "tools", real=HERMES, rich=True) as person:
        person.until("Esc leaves")
        person.resize(1)
        person.keys(DOWN)
        person.keys(ESCAPE)
        assert person.ends() == 1 and "Traceback" not in person.seen
