"""The gateway that a terminal starts: a process of its own, one for all terminals, which outlives each of
them and leaves after the last."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import DEVNULL, PIPE

import pytest

from hermes.admin.process.home_files import LockHolder, home_holder, read_state
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.turns.event import Finished, ToolStarted
from hermes.state.home.homes import DATABASE_FILE
from hermes.state.store.sqlite import StoreOptions
from hermes.state.store.writer import SqliteStore
from tests.cli.command import PATIENCE, ROOT, Said, gateway, hermes, until_gone
from tests.cli.test_chat import chat, command, surroundings
from tests.crash.terminal import left
from tests.entry.terminal.person import HERMES, Person, at_terminal
from tests.nursery import Popen

COUNT = " ".join(map(str, range(1, 31))) + " done counting"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return folder


def holder(home: Path) -> LockHolder:
    found = home_holder(home)
    assert found is not None and found.pid, "no gateway runs"
    return found


def until_there(file: Path) -> None:
    end = time.monotonic() + PATIENCE
    while not file.exists():
        assert time.monotonic() < end, file
        time.sleep(0.02)


def kill_gateway(home: Path) -> int:
    pid = holder(home).pid
    os.kill(pid, signal.SIGKILL)
    return pid


# --- its life ---


def test_it_outlives_the_terminal_that_started_it_and_leaves_after_the_last(home: Path) -> None:
    with at_terminal(home) as first:
        first.prompt()
        ours = holder(home)
        assert ours.pid != first.process.pid and os.getsid(ours.pid) == ours.pid
        with at_terminal(home) as second:
            second.prompt()
            second.type("hello")
            second.until("You said: hello", "❯ ")
            first.kill_terminal()
            second.type("still there?")
            second.until("You said: still there?", "❯ ")
            assert holder(home) == ours and "gone" not in second.seen
            second.type("/quit")
            assert second.ends() == 0
    until_gone(home)
    state = read_state(home)
    assert state["gateway_state"] == "stopped" and state["exit_reason"] == "no terminal uses it any more"
    assert not (home / "gateway.pid").exists()


async def test_what_a_killed_terminal_has_said_is_answered_before_it_leaves(home: Path) -> None:
    with at_terminal(home) as person:
        person.prompt()
        person.type("count")
        person.until("1 2")
        person.kill_terminal()
    until_gone(home)
    found = await left(home)
    assert found.nothing_open and found.said(f"{COUNT} ") == 1


def test_terminals_that_start_together_get_one(home: Path) -> None:
    with contextlib.ExitStack() as together:
        people = [together.enter_context(at_terminal(home)) for _ in range(4)]
        for person in people:
            person.prompt()
        ours = holder(home)
        for number, person in enumerate(people):
            person.type(f"from {number}")
        for number, person in enumerate(people):
            person.until(f"You said: from {number}", "❯ ")
        assert holder(home) == ours
    assert read_state(home)["pid"] == ours.pid


def test_terminals_that_started_together_stay_when_it_dies(home: Path) -> None:
    """Of the gateways that they start only one gets the home; that the others did not is no failure."""
    with contextlib.ExitStack() as together:
        people = [together.enter_context(at_terminal(home)) for _ in range(3)]
        for person in people:
            person.prompt()
        for death in range(2):
            kill_gateway(home)
            for person in people:
                person.until("The gateway is gone; waiting for it …", "It is back.")
            for number, person in enumerate(people):
                person.type(f"{death} from {number}")
                person.until(f"You said: {death} from {number}", "❯ ")
        for person in people:
            person.type("/quit")
            assert person.ends() == 0
    until_gone(home)


def test_a_message_alone_starts_one_and_the_next_uses_it(home: Path) -> None:
    assert chat(home, "-z", "one").out == "You said: one\n"
    ours = holder(home)
    assert chat(home, "-z", "two").out == "You said: two\n"
    assert holder(home) == ours
    until_gone(home)


# --- it dies, is stopped, or is told to stay ---


async def test_killed_in_the_middle_it_is_started_again_and_the_turn_goes_on(home: Path) -> None:
    (home / "hold").touch()
    with at_terminal(home) as person:
        person.prompt()
        person.type("count")
        person.until("1 2 3")
        before = kill_gateway(home)
        person.until("The gateway is gone; waiting for it …", "It is back.")
        (home / "hold").unlink()
        person.until("done counting", "❯ ")
        person.type("hello")
        person.until("You said: hello", "❯ ")
        assert holder(home).pid != before
        person.type("/quit")
        assert person.ends() == 0
    until_gone(home)
    found = await left(home)
    assert found.nothing_open and found.count(Finished) == 2


async def test_a_tool_is_not_repeated_when_it_is_started_again(home: Path) -> None:
    with at_terminal(home) as person:
        person.prompt()
        person.type("once slowly")
        person.until("· once slowly …")
        until_there(home / "effects")
        kill_gateway(home)
        person.until("It is back.", "The tool said: Interrupted", "❯ ")
    assert (home / "effects").read_text() == "once slowly\n"
    until_gone(home)
    assert (await left(home)).count(ToolStarted) == 1


def test_stopped_by_hand_it_stays_stopped(home: Path) -> None:
    with at_terminal(home) as person:
        person.prompt()
        assert hermes(home, "gateway", "stop").code == 0
        person.until("The gateway is gone; waiting for it …")
        person.type("are you there?")
        person.until("Your message is kept")
        assert home_holder(home) is None
        person.leaves()
        assert "Not sent: “are you there?”" in person.seen


def test_told_to_stay_it_stays(home: Path) -> None:
    assert hermes(home, "-z", "hello").code == 0
    ours = holder(home)
    assert read_state(home)["temporary"] is True
    said = hermes(home, "gateway", "start")
    assert said.code == 0 and "stays from now on" in said.out
    assert "already runs" in hermes(home, "gateway", "start").out
    assert read_state(home)["temporary"] is False
    with at_terminal(home, real=HERMES) as person:
        person.until(f"Attached to the gateway (process {ours.pid}).", "❯ ")
        person.type("/quit")
        assert person.ends() == 0
    restarted = hermes(home, "gateway", "restart")
    assert restarted.code == 0, restarted
    assert read_state(home)["temporary"] is False
    assert hermes(home, "gateway", "stop").code == 0


def test_a_gateway_in_the_foreground_takes_over(home: Path) -> None:
    with at_terminal(home, real=HERMES) as person:
        person.prompt()
        with gateway(home) as running:
            assert holder(home).pid == running.process.pid
            person.until("It is back.")
            person.type("hello")
            person.until("demo model", "❯ ")
            assert running.stop() == 0


# --- what goes wrong ---


def test_why_it_does_not_start(home: Path) -> None:
    (home / "config.yaml").write_text("model: [")
    said = hermes(home, "-q", "hello")
    assert said.code == 78 and said.out == "" and said.clean
    assert "config.yaml" in said.err and said.err.startswith("hermes: ")


def test_another_version_is_told(home: Path) -> None:
    script = (str(ROOT / "tests" / "cli" / "words_gateway.py"), str(home))
    with gateway(home, script=script, PYTHONPATH=f"{ROOT / 'src'}:{ROOT}", WORDS_VERSION="0.0.7"):
        said = chat(home, "-q", "hello")
        assert said.code == 0 and said.out == "You said: hello \n" and said.err.count("\n") == 1
        assert "is version 0.0.7, this command is version" in said.err
        assert "hermes gateway restart" in said.err and chat(home, "-z", "hello").err == ""


def test_one_that_is_left_behind_makes_way_for_other_settings(home: Path) -> None:
    assert hermes(home, "-z", "hello").code == 0
    before = holder(home)
    assert hermes(home, "-z", "hello").code == 0 and holder(home) == before
    said = hermes(home, "-z", "hello", OPENAI_API_KEY="k", OPENAI_BASE_URL="http://127.0.0.1:9/v1")
    other = holder(home)
    assert other != before and "demo model" not in said.out, said
    (home / "config.yaml").write_text("timezone: Europe/Paris\n")
    with at_terminal(home, real=HERMES) as person:
        person.prompt()
        used = holder(home)
        assert used not in (before, other)
        said = hermes(home, "-q", "hello", HERMES_TIMEZONE="Asia/Tokyo")
        assert "with other settings or variables" in said.err and holder(home) == used


# --- folders ---


@contextlib.contextmanager
def in_folder(home: Path, name: str, *words: str) -> Iterator[Person]:
    folder = home.parent / name
    folder.mkdir(exist_ok=True)
    (folder / f"only-in-{name}").touch()
    with at_terminal(home, *words, real=HERMES, cwd=folder) as person:
        person.prompt()
        yield person


def test_each_terminal_works_in_its_own_folder(home: Path) -> None:
    with in_folder(home, "p1") as first, in_folder(home, "p2") as second:
        for person, name in ((second, "p2"), (first, "p1")):
            person.type("list files")
            person.until(f"only-in-{name}", "❯ ")
            person.type("run: pwd")
            person.until(f"/{name}\n", "❯ ")
            person.type("/new")
            person.until("New session.", "❯ ")
            person.type("write here.txt: milk")
            until_there(home.parent / name / "here.txt")


def say_in(home: Path, folder: Path, *words: str) -> Said:
    process = Popen(
        command(home, *words), env=surroundings(home), cwd=folder, stdin=DEVNULL, stdout=PIPE, stderr=PIPE,
        text=True,
    )  # fmt: skip
    out, err = process.communicate(timeout=PATIENCE)
    return Said(process.returncode, out, err)


async def test_a_session_keeps_its_folder_and_says_if_it_is_gone(home: Path, tmp_path: Path) -> None:
    place, other = tmp_path / "place", tmp_path / "other"
    for folder in (place, other):
        folder.mkdir()
    assert say_in(home, place, "-z", "hello").code == 0
    assert say_in(home, other, "-q", "again", "--continue").err == f"hermes: It works in {place}.\n"
    place.rmdir()
    said = say_in(home, other, "-q", "and again", "--continue")
    assert said.code == 0 and f"Its folder {place} is gone" in said.err
    until_gone(home)
    async with SqliteStore(home / DATABASE_FILE, StoreOptions(reserve_bytes=0)) as store:
        sessions = await store.scoped(MAIN_AGENT).read(lambda tx: tx.sessions.find("", 9))
    assert [session.workspace for session in sessions] == [str(place)]


# --- what was said before ---


def test_who_comes_back_sees_what_was_said_last(home: Path) -> None:
    for words in ("one", "two", "three"):
        assert chat(home, "-z", words, *(("--continue",) if words != "one" else ())).code == 0
    with at_terminal(home, "--continue") as person:
        person.until("Back in", "› two", "You said: two", "› three", "You said: three", "❯ ")
        assert "You said: one" not in person.seen
        person.type("/new")
        person.until("New session. /resume ")
        back = re.findall(r"/resume (\S+) goes back", person.until(" goes back."))[-1]
        person.type(f"/resume {back}")
        person.until("› three", "You said: three", "❯ ")


def test_a_prompt_begins_the_conversation(home: Path) -> None:
    with at_terminal(home, "what is this") as person:
        person.until("❯ what is this", "You said: what is this", "❯ ")
        person.type("more")
        person.until("You said: more", "❯ ")
    said = hermes(home, "what is this", HERMES_NO_PROBE="1")
    assert said.code == 0 and said.err == "" and said.out
    assert hermes(home, "statsu").err.count("Did you mean: hermes status") == 1
    assert "There is no command “hello”" in hermes(home, "hello").err
    assert "Give the message once" in hermes(home, "what is this", "-q", "x").err
