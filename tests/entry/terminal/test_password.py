"""A password for sudo, asked for at a real terminal while the command waits: shown and kept nowhere."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.chat_child import REAL_TOOLS
from tests.cli.command import ROOT, gateway
from tests.entry.terminal.glass import READY, Glass
from tests.entry.terminal.person import Person, at_terminal

PASSWORD = "pw-Rr7-x9Q"
# The program of this name runs as root here, as the real one does, so its child is given the password.
SUDO = f"""#!/bin/sh
[ "$1" = -A ] && shift
for try in 1 2 3; do
  word=$("$SUDO_ASKPASS") || {{ echo 'sudo: no password was provided' >&2; exit 1; }}
  [ "$word" = {PASSWORD} ] && exec "$@"
  echo 'Sorry, try again.' >&2
done
exit 1
"""


def approve(person: Person, line: str) -> None:
    person.type(f"run {line}")
    person.until("answer ❯ ")
    person.type("once")


@pytest.mark.root
def test_it_is_asked_for_in_the_rich_chat(tmp_path: Path) -> None:
    home, programs = tmp_path / "home", tmp_path / "bin"
    home.mkdir(mode=0o700)
    programs.mkdir()
    (programs / "sudo").write_text(SUDO)
    (programs / "sudo").chmod(0o755)
    child = [str(ROOT / "tests/cli/words_gateway.py"), str(home)]
    given = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PATH": f"{programs}:/usr/bin:/bin", REAL_TOOLS: "1"}
    with gateway(home, script=child, **given), at_terminal(home, rich=True) as person:
        glass = Glass(person)
        glass.until("Gateway", "❯")
        for number, keys, outcome in ((42, f"{PASSWORD}\r", "one 42"), (43, "", "two 43")):
            person.type(f"run sudo echo {outcome.split()[0]} $(({number - 2} + 2))")
            glass.until(READY, "⚠ ❯")
            person.keys("1")
            if keys:
                glass.until("The password for sudo (not shown) ❯")
                person.keys(keys)
            glass.until(outcome, gone="1. once")
        person.type("/new")
        glass.until("New session")
        person.type("run sudo echo three; echo over")
        glass.until("New session", READY, "⚠ ❯")
        person.keys("1")
        glass.until("(not shown) ❯")
        person.keys("\x1b")
        glass.until("No password was given for sudo.")
        person.type("/quit")
        assert person.ends() == 0
    assert PASSWORD not in person.raw


@pytest.mark.root
def test_it_is_asked_for_and_kept_nowhere(tmp_path: Path) -> None:
    home, programs = tmp_path / "home", tmp_path / "bin"
    home.mkdir(mode=0o700)
    programs.mkdir()
    (programs / "sudo").write_text(SUDO)
    (programs / "sudo").chmod(0o755)
    child = [str(ROOT / "tests/cli/words_gateway.py"), str(home)]
    given = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PATH": f"{programs}:/usr/bin:/bin", REAL_TOOLS: "1"}
    with gateway(home, script=child, **given), at_terminal(home) as person:
        person.until("Attached", "❯ ")
        approve(person, "sudo echo one $((40 + 2))")
        person.until("The password for sudo (not shown) ❯ ")
        person.type("wrong word")
        person.until("Wrong. The password for sudo (not shown) ❯ ")
        person.type(PASSWORD)
        person.until("The tool said:", "one 42", "❯ ")
        approve(person, "sudo echo two $((40 + 3))")  # kept for the session
        person.until("The tool said: two 43", "❯ ")
        person.type("/new")
        person.until("❯ ")
        approve(person, "sudo echo three $((40 + 4)); echo over")
        person.until("(not shown) ❯ ")
        person.keys("\x1b")
        person.until("The tool said:", "over", "No password was given for sudo.", "❯ ")
        person.type("run declare -f sudo; echo [$SUDO_ASKPASS] $((50 + 5))")
        person.until("The tool said: [] 55", "❯ ")
        person.type("/quit")
        assert person.ends() == 0
    assert PASSWORD not in person.raw and "wrong word" not in person.raw
    for word in (PASSWORD, "wrong word"):
        found = subprocess.run(["grep", "-rl", word, str(home)], capture_output=True, text=True, check=False)
        assert found.stdout == "", "no row, log, history or state of a shell has it"
