"""Chats with a gateway of another process, through a real pty: two on one home, and chats whose gateway is
killed and started again under them."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import nursery
from tests.cli.chat_child import COUNTED
from tests.cli.command import ROOT, Running, environment, gateway, hermes
from tests.entry.terminal.person import CHILD as CHAT
from tests.entry.terminal.person import Person, at_terminal

COUNT = " ".join(map(str, range(1, COUNTED + 1))) + " done counting"
CHILD = str(ROOT / "tests" / "cli" / "words_gateway.py")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return folder


@contextlib.contextmanager
def words_gateway(home: Path) -> Iterator[Running]:
    path = f"{ROOT / 'src'}:{ROOT}"
    with gateway(home, script=[CHILD, str(home)], PYTHONPATH=path) as running:
        yield running


def sessions(home: Path) -> list[str]:
    return [line.split()[0] for line in hermes(home, "sessions", "list").out.splitlines()[1:]]


def effects(home: Path) -> str:
    file = home / "effects"
    return file.read_text() if file.exists() else ""


def test_what_is_shown_is_what_the_settings_of_the_gateway_say(home: Path) -> None:
    (home / "config.yaml").write_text("display: {tool_progress: off, show_reasoning: true}\n")
    with words_gateway(home), at_terminal(home) as person:
        person.until("Attached", "❯ ")
        person.type("read notes")
        person.until("The tool said: read did notes", "❯ ")
        person.type("ponder this")
        person.until("let me think", "You said: ponder this", "❯ ")
        assert "· read notes" not in person.seen


def test_a_conversation_with_a_gateway_that_runs(home: Path) -> None:
    with words_gateway(home) as running, at_terminal(home) as person:
        attached = f"Attached to the gateway (process {running.process.pid})."
        person.until("Hermes", "Model:", attached, "❯ ")
        person.type("hello there")
        person.until("You said: hello there", "❯ ")
        person.type("danger zone")
        person.until("? May I do zone?", "answer ❯ ")
        person.type("yes")
        person.until("The tool said: danger did zone", "❯ ")
        assert effects(home) == "danger zone\n"
        person.type("/title attached talk")
        person.until("now called “attached talk”", "❯ ")
        person.type("/frobnicate")
        person.until("There is no command /frobnicate.", "❯ ")
        (home / "hold").touch()
        person.type("count")
        person.until("1 2 3")
        person.process.send_signal(signal.SIGINT)
        person.until("— stopped: interrupted —", "❯ ")
        person.type("/quit")
        assert person.ends() == 0 and "Traceback" not in person.seen
        assert person.mode == person.before
        shown = hermes(home, "sessions", "show", "attached talk").out
        assert "hello there" in shown and "stopped: interrupted" in shown
        assert running.stop() == 0


def test_two_terminals_on_one_home_are_two_conversations(home: Path) -> None:
    with at_terminal(home) as first:
        first.prompt()
        with at_terminal(home) as second:
            second.prompt()
            first.type("/help")
            first.until("/whoami", "❯ ")
            second.type("/help")
            second.until("/whoami", "❯ ")
            second.type("from the second")
            second.until("You said: from the second", "❯ ")
            first.type("from the first")
            first.until("You said: from the first", "❯ ")
            second.type("the second again")
            second.until("You said: the second again", "❯ ")
            second.type("/title second")
            second.until("is now called", "❯ ")
            first.type("/title first")
            first.until("is now called", "❯ ")
            first.type("/quit")
            assert first.ends() == 0
            second.type("and again")
            second.until("You said: and again", "❯ ")
            second.type("/quit")
            assert second.ends() == 0
            assert "is gone" not in second.seen
    one, other = (hermes(home, "sessions", "show", title).out for title in ("first", "second"))
    assert "from the first" in one and "second" not in one
    assert "from the second" in other and "the second again" in other and "from the first" not in other


def test_what_another_terminal_watches_is_left_to_it(home: Path) -> None:
    (home / "hold").touch()
    with words_gateway(home) as running:
        with at_terminal(home) as first:
            first.prompt()
            first.type("count")
            first.until("1 2 3")
            with at_terminal(home) as second:
                second.prompt()
                assert "Unfinished" not in second.seen
                second.type("hello")
                second.until("You said: hello", "❯ ")
            first.kill_terminal()
        with at_terminal(home) as again:
            again.until("Unfinished: “count”.")
            (home / "hold").unlink()
            again.until(COUNT, "❯ ")
        assert running.stop() == 0


def restarted(home: Path, person: Person, running: Running) -> None:
    running.process.kill()
    running.process.wait()
    person.until("The gateway is gone; waiting for it …")


def test_killed_in_mid_answer_and_started_again(home: Path) -> None:
    (home / "hold").touch()
    with words_gateway(home) as running, at_terminal(home) as person:
        person.prompt()
        person.type("count")
        person.until("1 2 3 4 5")
        restarted(home, person, running)
        (home / "hold").unlink()
        assert "done counting" not in person.seen
        with words_gateway(home) as again:
            person.until("It is back.", COUNT, "❯ ")
            person.type("hello")
            person.until("You said: hello", "❯ ")
            assert person.seen.count(COUNT) == 1 and person.seen.count("done counting") == 1
            person.type("/quit")
            assert person.ends() == 0 and "Traceback" not in person.seen
            [session] = sessions(home)
            shown = hermes(home, "sessions", "show", session).out
            assert shown.count("done counting") == 1 and shown.count("user:\ncount") == 1
            assert again.stop() == 0


def test_words_written_while_it_is_gone_are_sent_once(home: Path) -> None:
    with words_gateway(home) as running, at_terminal(home) as person:
        person.prompt()
        person.type("hello")
        person.until("You said: hello", "❯ ")
        restarted(home, person, running)
        person.type("while you were out")
        person.until("Your message is kept and sent when the gateway is back.")
        person.type("and this")
        person.until("Your message is kept")
        person.type("/status")
        person.until("✗ The gateway is not there, so this was not done.")
        with words_gateway(home) as again:
            person.until("It is back.", "You said: while you were out", "You said: and this", "❯ ")
            assert person.seen.count("You said: while you were out") == 1
            assert again.stop() == 0
            person.until("The gateway is gone")
            person.process.send_signal(signal.SIGINT)
            assert person.ends() == 130
    [session] = sessions(home)
    shown = hermes(home, "sessions", "show", session).out
    assert shown.count("You said: while you were out") == 1 and shown.count("You said: and this") == 1


def test_leaving_while_it_is_gone_tells_what_was_not_sent(home: Path) -> None:
    with words_gateway(home) as running, at_terminal(home) as person:
        person.prompt()
        person.type("hello")
        person.until("You said: hello", "❯ ")
        restarted(home, person, running)
        person.type("never heard")
        person.until("Your message is kept")
        person.process.send_signal(signal.SIGINT)
        assert person.ends() == 130
        assert "Not sent: “never heard”" in person.seen and person.mode == person.before


def test_killed_while_an_approval_is_open(home: Path) -> None:
    with words_gateway(home) as running, at_terminal(home) as person:
        person.prompt()
        person.type("danger zone")
        person.until("? May I do zone?", "answer ❯ ")
        restarted(home, person, running)
        person.type("yes")
        person.until("✗ The gateway is not there", "answer ❯ ")
        assert effects(home) == ""
        with words_gateway(home):
            person.until("It is back.")
            person.type("yes")
            person.until("The tool said: danger did zone", "❯ ")
            assert effects(home) == "danger zone\n"


def test_a_single_message_is_answered_by_the_gateway_that_comes_back(home: Path) -> None:
    (home / "hold").touch()
    with words_gateway(home) as running, at_terminal(home, "-q", "count") as person:
        person.until("1 2 3 4 5")
        restarted(home, person, running)
        (home / "hold").unlink()
        with words_gateway(home):
            person.until(COUNT)
            assert person.ends() == 0
        assert person.seen.count(COUNT) == 1


@pytest.mark.parametrize("option", ["-q", "-z"])
def test_in_a_pipe_words_are_continued_and_not_said_again(home: Path, option: str) -> None:
    command = [sys.executable, str(CHAT), str(home), option, "count"]
    env = environment(home, PYTHONPATH=f"{ROOT / 'src'}:{ROOT}")
    (home / "hold").touch()
    with words_gateway(home) as running:
        script = nursery.Popen(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with script:
            assert script.stdout is not None and script.stderr is not None
            first = script.stdout.read(10) if option == "-q" else ""
            while option == "-z" and not sessions(home):
                time.sleep(0.05)
            running.process.kill()
            running.process.wait()
            (home / "hold").unlink()
            with words_gateway(home):
                # Not `communicate`: it would not know what `read` has taken from the pipe beyond its ten.
                out, err = script.stdout.read(), script.stderr.read()
    assert (first + out).split() == COUNT.split()
    assert script.returncode == 0
    assert "The gateway is gone; waiting for it …\nhermes: It is back.\n" in err and "Traceback" not in err


def test_a_stale_socket_is_nobody(home: Path) -> None:
    with words_gateway(home) as running:
        running.process.kill()
        running.process.wait()
    assert (home / "gateway.sock").is_socket()
    with at_terminal(home) as person:
        person.prompt()
        assert "Attached" not in person.seen
        person.type("hello")
        person.until("You said: hello", "❯ ")
        person.type("/quit")
        assert person.ends() == 0
    assert len(sessions(home)) == 1
