"""The command line as a person types it: what exists answers, what does not is explained."""

from __future__ import annotations

import errno
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from hermes import __version__, cli
from hermes.cli import COMMANDS
from tests import nursery
from tests.cli.command import ROOT, environment, gateway, hermes


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def test_version_and_help(home: Path) -> None:
    assert hermes(home, "--version").out == f"hermes {__version__}\n"
    told = hermes(home, "--help")
    assert told.code == 0 and told.err == "" and all(name in told.out for name in COMMANDS)
    assert hermes(home, "-p", "default", "--help").out == told.out
    assert not home.exists()


def test_alone_it_is_a_chat(home: Path) -> None:
    told = hermes(home)
    assert told.code == 2 and told.err == "hermes: Nothing was said: standard input is empty.\n"
    assert not home.exists()


@pytest.mark.parametrize("command", sorted({name.partition(" ")[0] for name in COMMANDS}))
def test_every_command_has_help(home: Path, command: str) -> None:
    told = hermes(home, command, "--help")
    assert told.code == 0 and told.out.startswith(f"usage: hermes {command}") and told.err == ""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["statsu"], "Did you mean: hermes status"),
        (["xyzzy's", "here?"], """hermes -q 'xyzzy'"'"'s here?'"""),
        (["tell", "me"], "To say it to the agent: hermes -q 'tell me'"),
        (["xyzzy"], "hermes --help"),
        (["--frobnicate"], "no option “--frobnicate”"),
        (["sessions"], "COMMAND"),
        (["sessions", "lst"], "invalid choice"),
        (["sessions", "show"], "required: session"),
        (["sessions", "list", "-n", "0"], "not a number from 1"),
        (["trace"], "required: message"),
        (["gateway", "fly"], "invalid choice"),
    ],
)
def test_wrong_use_is_told_with_exit_code_2(home: Path, words: list[str], says: str) -> None:
    told = hermes(home, *words)
    assert told.code == 2 and says in told.err and told.err.startswith("hermes: ") and told.clean
    assert told.out == "" and not home.exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["sessions", "show", "nosuch"], "There is no session “nosuch”."),
        (["sessions", "export", "nosuch"], "There is no session “nosuch”."),
        (["sessions", "delete", "nosuch", "--yes"], "There is no session “nosuch”."),
        (["sessions", "show", ""], "There is no session “”."),
        (["sessions", "list", "--agent", "nobody"], "There is no agent “nobody”."),
        (["trace", "nosuch"], "There is no message or turn “nosuch”."),
        (["status", "-p", "nobody"], "There is no profile “nobody”"),
        (["-p"], "-p needs the name of a profile."),
    ],
)
def test_what_does_not_exist_is_told_with_exit_code_1(home: Path, words: list[str], says: str) -> None:
    told = hermes(home, *words)
    assert told.code == 1 and says in told.err and told.clean and not home.exists()


def test_empty_states(home: Path) -> None:
    assert hermes(home, "sessions", "list").out.startswith("No sessions yet.")
    assert hermes(home, "sessions", "list", "--json").out == "[]\n"
    assert hermes(home, "sessions", "search", "a", "b").out == "No message matches “a b”.\n"
    told = hermes(home, "status")
    assert told.code == 3 and "not running" in told.out and "hermes gateway run" in told.err
    assert not home.exists()


def test_a_profile_is_a_home(home: Path) -> None:
    (home / "profiles" / "work").mkdir(parents=True)
    for words in (["-p", "work", "status"], ["status", "--profile", "work"], ["--profile=work", "status"]):
        assert f"Home       {home}/profiles/work" in hermes(home, *words).out


def test_invalid_utf8_on_the_command_line(home: Path) -> None:
    bad = b"\xff"
    lines: list[list[str | bytes]] = [
        [bad],
        ["sessions", bad],
        ["sessions", "show", bad],
        ["sessions", "search", bad],
        ["trace", bad],
        ["-p", bad, "status"],
        ["config", "get", bad],
    ]
    for words in lines:
        told = hermes(home, *words)
        assert told.clean and told.code in (0, 1, 2), told


def test_control_characters_do_not_reach_the_terminal(home: Path) -> None:
    told = hermes(home, "sessions", "show", "\x1b]0;owned\x07")
    assert told.code == 1 and "\x1b" not in told.err and "\x07" not in told.err


@pytest.mark.parametrize("words", [["--help"], ["status"], ["config", "show"]])
def test_nobody_reads_the_output(home: Path, words: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    done = nursery.run(
        [sys.executable, "-P", "-m", "hermes", *words],
        env=environment(home), stdout=write, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    os.close(write)
    assert done.returncode == 141 and "Traceback" not in done.stderr and "Broken" not in done.stderr


@pytest.mark.parametrize("words", [["--help"], ["status"], ["config", "schema"]])
def test_no_output_at_all(home: Path, words: list[str]) -> None:
    """`hermes … >&-`, and a full disk behind `>`."""
    closed = nursery.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-P", "-m", "hermes", *words],
        env=environment(home), stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    assert "Traceback" not in closed.stderr and closed.returncode in (0, 1)
    with open("/dev/full", "w") as full:
        done = nursery.run(
            [sys.executable, "-P", "-m", "hermes", *words],
            env=environment(home), stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "The output cannot be written" in done.stderr


@pytest.mark.parametrize(("file", "says"), [("x/gateway.lock", "x/gateway.lock"), (None, "in the home")])
def test_a_full_disk_is_not_taken_for_the_output(
    file: str | None, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(words: list[str]) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", file)

    monkeypatch.setattr(cli, "_answer", fail)
    assert cli.main(["gateway", "run"]) == 1
    told = capsys.readouterr().err
    assert says in told and "cannot be written (No space left on device)" in told and "output" not in told


def test_an_unexpected_error_is_one_sentence_and_a_file(home: Path) -> None:
    (home / "logs").mkdir(parents=True)
    code = (
        "import sys, hermes.admin.commands.status as status, hermes.cli as cli\n"
        "def run(*args): raise ZeroDivisionError('inside sk-secret-key')\n"
        "status.run = run; sys.argv = ['hermes', 'status', '-p', 'sk-secret-key']\n"
        "import hermes.state.home.homes as profiles; home = profiles.find_home\n"
        "profiles.find_home = lambda environ, profile=None: home(environ); sys.exit(cli.main())"
    )
    done = nursery.run(
        [sys.executable, "-P", "-c", code], env=environment(home), capture_output=True, text=True, check=False
    )
    log = home / "logs" / "errors.log"
    assert done.returncode == 1 and "Traceback" not in done.stderr and str(log) in done.stderr
    kept = log.read_text()
    assert "ZeroDivisionError: inside ***" in kept and log.stat().st_mode & 0o077 == 0
    assert " hermes status *** ***\n" in kept and "sk-secret-key" not in kept


def test_colours_only_on_a_terminal(home: Path) -> None:
    def on_a_terminal(**more: str) -> str:
        leader, follower = pty.openpty()
        nursery.run(
            [sys.executable, "-P", "-c", _STRONG], env=environment(home, TERM="xterm", **more),
            stdin=follower, stdout=follower, stderr=follower, check=True, cwd=ROOT,
        )  # fmt: skip
        os.close(follower)
        shown = os.read(leader, 4096).decode()
        os.close(leader)
        return shown

    assert "\x1b[1m" in on_a_terminal()
    assert "\x1b" not in on_a_terminal(NO_COLOR="1")


_STRONG = (
    "import os; from hermes.admin.shell.output import this_console; this_console(os.environ).strong('word')"
)


def test_status_follows_the_gateway(home: Path) -> None:
    with gateway(home) as running:
        told = hermes(home, "status")
        assert f"running (process {running.process.pid}, since" in told.out and "Agents" in told.out
        assert f"ready: home {home}, agents main, platforms none, model demo, the offline" in running.err
        said = [" ".join(line.split()) for line in told.out.splitlines()]
        for start in ("Uptime ", "API off", "Turns none unfinished", "To send nothing", "Watching 0 open"):
            assert any(line.startswith(start) for line in said), said
        live = json.loads(hermes(home, "status", "--json").out)["live"]
        assert live["pid"] == running.process.pid and live["turns"] == {} and live["uptime"] >= 0
        assert running.stop() == 0
    assert "not running; stopped" in hermes(home, "status").out
    assert not (home / "gateway.pid").exists()


def test_status_notices_a_gateway_that_was_cut_off(home: Path) -> None:
    with gateway(home) as running:
        running.process.kill()
        running.process.wait()
    assert (home / "gateway.pid").exists()
    told = hermes(home, "status")
    assert f"the last one (process {running.process.pid}) was cut off" in told.out
    assert '"running": false' in hermes(home, "status", "--json").out
    with gateway(home) as again:
        assert again.stop() == 0
