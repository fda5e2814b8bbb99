"""The plug is pulled from outside while somebody talks with the real command through a pty, at four moments
of an answer. At the borders inside the program it is killed by `test_terminal_matrix`."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hermes.domain.turns.event import Finished, ToolStarted
from hermes.testing.model_script import Call, ModelRequest, Pace, Reply
from hermes.testing.model_server import FakeModelServer
from tests.cli.command import PATIENCE
from tests.crash.terminal import ANSWER, IDLE, left, new_home, serving
from tests.entry.terminal.person import HERMES, Person, at_terminal
from tests.sampling import sampled

TALE = "one two three four five six seven eight nine ten eleven twelve thirteen and that was the tale."
DONE = "It was done as you wished."
GONE = "~/no-such-folder-of-a-test"
DEED = f"rm -rf {GONE} && echo did >> effects"
_SLOWLY = Pace(first_byte=1.0, between=0.1, sizes=(6,))


def teller(request: ModelRequest) -> Reply:
    last = request.last_message
    if last.startswith("tell"):
        return Reply(text=TALE, pace=_SLOWLY)
    if last.startswith("clean"):
        return Reply(text=None, calls=(Call(name="terminal", arguments=json.dumps({"command": DEED})),))
    return Reply(text="Good day." if last.startswith("hello") else DONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    server: FakeModelServer

    def asked(self, words: str) -> int:
        """How many requests of turns there were with these words at their end; a title is asked for without
        tools."""
        requests = [request for request in self.server.requests if (request.body or {}).get("tools")]
        return sum(words in request.last_message for request in requests)

    def until_asked(self, words: str) -> None:
        end = time.monotonic() + PATIENCE
        while not self.asked(words):
            assert time.monotonic() < end, f"nobody asked “{words}”"
            time.sleep(0.01)


@pytest.fixture
def model() -> Iterator[Model]:
    with serving(teller) as server:
        yield Model(server=server)


@pytest.fixture
def home(tmp_path: Path, model: Model) -> Path:
    return new_home(tmp_path, model.server)


@contextlib.contextmanager
def killed_after(home: Path, words: str) -> Iterator[Person]:
    """Somebody says this; the plug is pulled when the block ends."""
    with at_terminal(home, real=HERMES) as person:
        person.prompt()
        person.type(words)
        yield person
        person.kill()


@contextlib.contextmanager
def started_again(home: Path) -> Iterator[Person]:
    """The command once more; at the end of the block it still talks, and leaves when told."""
    with at_terminal(home, real=HERMES) as person:
        yield person
        person.type("hello")
        person.until("Good day.", IDLE)
        person.type("/quit")
        assert person.ends() == 0 and "Traceback" not in person.seen


async def test_killed_before_the_first_word(home: Path, model: Model) -> None:
    with killed_after(home, "tell me the tale") as person:
        model.until_asked("tell me")
    assert "one two" not in person.seen
    await told_after_all(home, model)


@pytest.mark.parametrize("word", sampled([("two",), ("seven",), ("ten",)], {("seven",)}))
async def test_killed_in_the_middle(home: Path, model: Model, word: str) -> None:
    with killed_after(home, "tell me the tale") as person:
        person.until(word)
    assert "the tale." not in person.seen
    await told_after_all(home, model)


async def test_killed_while_an_approval_is_open(home: Path, model: Model) -> None:
    effects = home.parent / "place" / "effects"
    with killed_after(home, "clean up") as person:
        person.until(GONE, ANSWER)
    assert not effects.exists()
    with started_again(home) as person:
        person.until("Unfinished: “clean up”.", GONE, ANSWER)
        person.type("yes")
        person.until(DONE, IDLE)
    assert effects.read_text() == "did\n"
    found = await left(home)
    assert found.nothing_open and found.said(DONE) == 1 and found.count(ToolStarted) == 1
    assert model.asked("clean up") == 1, "the call was on record: nobody has to think of it again"


async def test_killed_after_the_last_word(home: Path, model: Model) -> None:
    """The answer may or may not have been stored by then; it is said again only if it was not."""
    with killed_after(home, "tell me the tale") as person:
        person.until("the tale.")
    with started_again(home) as person:
        person.until(IDLE)
    again = "Unfinished" in person.seen
    assert person.seen.count(TALE) == again
    await whole_and_once(home, model, asked=1 + again)


async def told_after_all(home: Path, model: Model) -> None:
    with started_again(home) as person:
        person.until("Unfinished: “tell me the tale”.", TALE, IDLE)
    assert person.seen.count(TALE) == 1
    await whole_and_once(home, model)


async def whole_and_once(home: Path, model: Model, asked: int = 2) -> None:
    """The tale is on record once, both turns ended once, and the model was asked no more than necessary."""
    found = await left(home)
    assert found.nothing_open
    assert found.said(TALE) == 1 and found.count(Finished) == 2
    assert model.asked("tell me") == asked
