"""The plug is pulled while somebody talks with the real command through a pty, at four moments of an answer.
The model is a server in a process of its own, which sees who asks and how often."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hermes.domain.event import Entry, Finished, ModelSaid, ToolStarted
from hermes.domain.ids import MAIN_AGENT, SessionId
from hermes.domain.ports import Tx
from hermes.domain.turn import Turn
from hermes.state.profiles import DATABASE_FILE
from hermes.state.sqlite import SqliteStore
from tests.cli.command import PATIENCE, ROOT, environment, hermes
from tests.entry.terminal.person import Person, at_terminal

TALE = "one two three four five six seven eight nine ten eleven twelve thirteen and that was the tale."
DONE = "It was done as you wished."
GONE = "~/no-such-folder-of-a-test"
DEED = f"rm -rf {GONE} && echo did >> effects"
_SLOWLY = {"first_byte": 1.0, "between": 0.1, "sizes": [6]}
_CALL = {"id": "call_1", "name": "terminal", "arguments": json.dumps({"command": DEED})}
SCRIPT = {
    "rules": [
        {"match": "^tell", "reply": {"text": TALE, "pace": _SLOWLY}},
        {"match": "^clean", "reply": {"text": None, "calls": [_CALL]}},
        {"match": "^hello", "reply": {"text": "Good day."}},
        {"match": "", "reply": {"text": DONE}},
    ]
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    url: str
    log: Path

    def asked(self, words: str) -> int:
        """How many requests there were with these words at their end."""
        found = 0
        for line in self.log.read_text().splitlines():
            told = json.loads(line)
            if told["what"] == "request" and isinstance(told["body"], dict):
                found += words in str(told["body"]["messages"][-1]["content"])
        return found

    def until_asked(self, words: str) -> None:
        end = time.monotonic() + PATIENCE
        while not self.asked(words):
            assert time.monotonic() < end, f"nobody asked “{words}”"
            time.sleep(0.01)


@pytest.fixture
def model(tmp_path: Path) -> Iterator[Model]:
    script, log = tmp_path / "script.json", tmp_path / "model.log"
    script.write_text(json.dumps(SCRIPT))
    log.touch()
    command = [sys.executable, "-m", "hermes.testing.model_server", "--script", script, "--log", log]
    env = environment(tmp_path, PYTHONPATH=str(ROOT / "src"))
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env, text=True) as process:
        assert process.stdout is not None
        try:
            yield Model(url=process.stdout.readline().strip(), log=log)
        finally:
            process.kill()


@pytest.fixture
def home(tmp_path: Path, model: Model) -> Path:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "config.yaml").write_text(f"model: {{default: fake-model, base_url: '{model.url}'}}\n")
    return home


@contextlib.contextmanager
def started(home: Path) -> Iterator[Person]:
    with at_terminal(home, real=True) as person:
        yield person


def says_hello_and_leaves(person: Person) -> None:
    person.type("hello")
    person.until("Good day.", "❯ ")
    person.type("/quit")
    assert person.ends() == 0 and "Traceback" not in person.seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What stands in the database after the last life."""

    entries: list[Entry]
    open_turns: list[Turn]
    open_questions: int
    due: int

    @property
    def nothing_open(self) -> bool:
        return not (self.open_turns or self.open_questions or self.due)

    def said(self, text: str) -> int:
        records = (entry.record for entry in self.entries)
        return sum(isinstance(one, ModelSaid) and one.text == text for one in records)

    def count(self, kind: type[object]) -> int:
        return sum(isinstance(entry.record, kind) for entry in self.entries)


async def left(home: Path) -> Left:
    """Of all sessions, as the command lists them."""
    listed = hermes(home, "sessions", "list").out.splitlines()[1:]
    sessions = [SessionId(line.split()[0]) for line in listed]

    def look(tx: Tx) -> Left:
        assert all(tx.sessions.get(one) is not None for one in sessions), listed
        return Left(
            entries=[entry for one in sessions for entry in tx.journal.read(one)],
            open_turns=[turn for one in sessions for turn in tx.turns.open_of(one)],
            open_questions=sum(len(tx.questions.open_of(one)) for one in sessions),
            due=len(tx.recovery.due(0, 9)) + len(tx.inbox.pending(0, 9)),
        )

    async with SqliteStore(home / DATABASE_FILE) as store:
        return await store.scoped(MAIN_AGENT).read(look)


async def test_killed_before_the_first_word(home: Path, model: Model) -> None:
    with started(home) as person:
        person.prompt()
        person.type("tell me the tale")
        model.until_asked("tell me")
        person.kill()
        assert "one two" not in person.seen
    with started(home) as person:
        person.until("Unfinished: “tell me the tale”.", TALE, "❯ ")
        says_hello_and_leaves(person)
        assert person.seen.count(TALE) == 1
    await whole_and_once(home, model)


@pytest.mark.parametrize("word", ["two", "seven", "ten"])
async def test_killed_in_the_middle(home: Path, model: Model, full: bool, word: str) -> None:
    if not full and word != "seven":
        pytest.skip("in the full run")
    with started(home) as person:
        person.prompt()
        person.type("tell me the tale")
        person.until(word)
        person.kill()
        assert "the tale." not in person.seen
    with started(home) as person:
        person.until("Unfinished: “tell me the tale”.", TALE, "❯ ")
        says_hello_and_leaves(person)
        assert person.seen.count(TALE) == 1
    await whole_and_once(home, model)


async def test_killed_while_an_approval_is_open(home: Path, model: Model) -> None:
    effects = home.parent / "place" / "effects"
    with started(home) as person:
        person.prompt()
        person.type("clean up")
        person.until(GONE, "answer ❯ ")
        person.kill()
        assert not effects.exists()
    with started(home) as person:
        person.until("Unfinished: “clean up”.", GONE, "answer ❯ ")
        person.type("yes")
        person.until(DONE, "❯ ")
        says_hello_and_leaves(person)
    assert effects.read_text() == "did\n"
    found = await left(home)
    assert found.nothing_open and found.said(DONE) == 1 and found.count(ToolStarted) == 1
    assert model.asked("clean up") == 1, "the call was on record: nobody has to think of it again"


async def test_killed_after_the_last_word(home: Path, model: Model) -> None:
    """The answer may or may not have been stored by then; it is said again only if it was not."""
    with started(home) as person:
        person.prompt()
        person.type("tell me the tale")
        person.until("the tale.")
        person.kill()
    with started(home) as person:
        person.until("❯ ")
        says_hello_and_leaves(person)
        again = "Unfinished" in person.seen
        assert person.seen.count(TALE) == again
    await whole_and_once(home, model, asked=1 + again)


async def whole_and_once(home: Path, model: Model, asked: int = 2) -> None:
    """The tale is on record once, both turns ended once, and the model was asked no more than necessary."""
    found = await left(home)
    assert found.nothing_open
    assert found.said(TALE) == 1 and found.count(Finished) == 2
    assert model.asked("tell me") == asked
