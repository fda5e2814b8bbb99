"""Stories that somebody lives through at the terminal: what is said, what the model makes of it with the real
tools, and what must be true of screens, effects and transcript after a kill and a second life."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hermes.admin.process.home_files import read_state
from hermes.control.outbound.answers import REPEAT_MARK
from hermes.domain.ids import TurnId
from hermes.domain.turns.event import Entry, Failed, Finished, ModelSaid, Stopped, ToolFinished, UserSaid
from hermes.stream.fold.tool_lines import ToolState
from hermes.testing.history import check_history
from hermes.testing.model_script import Call, ModelRequest, Pace, Reply, message_text
from hermes.testing.model_server import FakeModelServer
from hermes.testing.world import World
from tests.cli.command import PATIENCE, end_gateway, until_gone
from tests.crash import chat_victim
from tests.crash.terminal import ANSWER, IDLE, Left, left, new_home
from tests.crash.wire import refused
from tests.entry.terminal.person import HERMES, Ended, Person, at_terminal

_TOKEN = re.compile(r"\bm\d+\b")
_TOOL = re.compile(r"\b(read|once|slowly|danger)\b")
_UNFINISHED = "Unfinished: “"
_BACK = "Back in "
_DEED = 'echo "once {}" >> effects'
_COMMANDS = {
    "once": _DEED,
    "slowly": "until [ -e go ]; do sleep 0.01; done; " + _DEED,
    "danger": "rm -rf ~/no-such-folder-of-a-test; " + _DEED,
}
KILLED = -signal.SIGKILL
WAITING = "waiting:1"
"""Not a border of the program: the question stands on the screen and nobody has answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What is said, how many rounds of the model it takes, how often each border is passed, and the busy mode
    of what is said while a tool runs."""

    said: tuple[str, ...]
    rounds: int
    borders: Mapping[str, int]
    busy: str = "queue"

    @property
    def points(self) -> list[str]:
        """All points that are passed, each as `point:n`; of the words of an answer, the first and the fourth
        piece."""
        sides = {"look": ("after",)}
        passed = [
            f"{border}.{side}:{number}"
            for border, count in self.borders.items()
            for number in range(1, count + 1)
            for side in sides.get(border, ("before", "after"))
        ]
        return [*passed, "model.middle:1", "model.middle:4"]


def _passing(**counts: int) -> Mapping[str, int]:
    return {"boot": 1, "close": 1, **counts}


STORIES = {
    "plain": Story(said=("m1",), rounds=1, borders=_passing(submit=1, model=1, record=1)),
    "once": Story(said=("m1 once",), rounds=2, borders=_passing(submit=1, model=2, record=3, once=1)),
    "read": Story(said=("m1 read",), rounds=2, borders=_passing(submit=1, model=2, record=3, read=1)),
    "approval": Story(
        said=("m1 danger",),
        rounds=2,
        borders=_passing(submit=1, claim=2, model=2, record=4, once=1, answer=1),
    ),
    "queue": Story(
        said=("m1 slowly", "m2"),
        rounds=3,
        borders=_passing(submit=2, claim=1, model=3, record=4, once=1, look=1),
    ),
    "steer": Story(
        said=("m1 slowly", "m2"),
        rounds=3,
        borders=_passing(submit=2, claim=1, model=2, record=3, once=1, look=1, absorb=1),
        busy="steer",
    ),
}


def token_of(said: str) -> str:
    found = _TOKEN.search(said)
    assert found is not None
    return found.group()


def whole(token: str) -> str:
    return f"answer to {token}: it was done as you wished."


def obliging(request: ModelRequest) -> Reply:
    """The tools that the unanswered messages name, one a round, then an answer to each of them."""
    start = 0
    for at, one in enumerate(request.messages):
        if one["role"] == "assistant" and "tool_calls" not in one:
            start = at + 1
    news = request.messages[start:]
    said = " ".join(message_text(one) for one in news if one["role"] == "user")
    done = sum(one["role"] == "tool" for one in news)
    tools, tokens = _TOOL.findall(said), _TOKEN.findall(said)
    # Pieces that come while the program is slow become one; there must be four at least.
    pace = Pace(between=0.01, sizes=(4,))
    if done < len(tools):
        return Reply(text=None, calls=(_call(tools[done], tokens[0], done),), pace=pace)
    return Reply(text="\n".join(map(whole, tokens)), pace=pace)


def _call(tool: str, token: str, number: int) -> Call:
    if tool == "read":
        return Call(id=f"{token}-{number}", name="read_file", arguments='{"path": "notes"}')
    arguments = json.dumps({"command": _COMMANDS[tool].format(token)})
    return Call(id=f"{token}-{number}", name="terminal", arguments=arguments)


@dataclass(slots=True, kw_only=True)
class Telling:
    """One story on one home, life after life."""

    story: Story
    folder: Path
    server: FakeModelServer
    screens: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        new_home(self.folder, self.server, self.story.busy)
        self.place.mkdir()
        (self.place / "notes").write_text("nothing of note\n")

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def place(self) -> Path:
        return self.folder / "place"

    @property
    def passed(self) -> list[str]:
        """The points that were passed, each as `point:n`."""
        log = self.folder / "passed"
        return log.read_text().splitlines() if log.exists() else []

    @property
    def accepted(self) -> int:
        """How many messages were stored in the first life."""
        return sum(point.startswith("submit.after") for point in self.passed)

    # --- the first life ---

    def live_until(self, kill: str) -> int:
        """The story as it was meant, with the plug pulled at `point:n`; the exit code."""
        told = {chat_victim.KILL_AT: kill, chat_victim.KILL_LOG: str(self.folder / "passed")}
        with at_terminal(self.home, real=chat_victim.__name__, **told) as person:
            with contextlib.suppress(Ended):
                self._live(person, kill)
            code = person.ends()
            self.screens.append(person.seen)
        if code == 0:  # the gateway leaves after the terminal, or is killed on its way out
            until_gone(self.home)
            code = 0 if read_state(self.home)["gateway_state"] == "stopped" else KILLED
        end_gateway(self.home)
        return code

    def _live(self, person: Person, kill: str) -> None:
        person.prompt()
        first, *others = self.story.said
        person.type(first)
        if others:
            self._until_passed(person, "once.before:1")
            for number, words in enumerate(others, 1):
                person.type(words)
                self._until_passed(person, f"look.after:{number}")
        (self.place / "go").touch()
        for words in self.story.said:
            _hear(person, token_of(words), killed=kill == WAITING)
        person.until(IDLE)
        self._until_passed(person, f"record.after:{self.story.borders['record']}")
        person.type("/quit")

    def _until_passed(self, person: Person, point: str) -> None:
        end = time.monotonic() + PATIENCE
        while point not in self.passed:
            if person.process.poll() is not None:
                raise Ended(point)
            assert time.monotonic() < end, f"never came to {point}: {self.passed}"
            time.sleep(0.005)

    # --- the second life ---

    def live_on(self) -> None:
        """What is unfinished is seen to its end, and what was never stored is said again."""
        (self.place / "go").touch()
        with at_terminal(self.home, real=HERMES) as person:
            while person.until_one(ANSWER, IDLE) == ANSWER:
                _allow(person)
            for words in self.story.said[self.accepted :]:
                person.type(words)
                _hear(person, token_of(words))
                person.until(IDLE)
            person.type("/quit")
            assert person.ends() == 0 and "Traceback" not in person.seen, person.seen
            self.screens.append(person.seen)

    # --- what must be true ---

    async def problems(self) -> list[str]:
        """Everything that is wrong with what was seen, done and stored in both lives; empty is good."""
        found = await left(self.home)
        problems = check_history(await self._world()) + list(self._transcript(found)) + refused(self.server)
        if not found.nothing_open:
            problems.append(f"something is still open: {found}")
        shown = [screen.count(whole(token_of(words))) for screen in self.screens for words in self.story.said]
        if max(shown) > 1:
            problems.append("an answer stands twice on one screen")
        # A title is asked for without tools.
        posted = [request for request in self.server.requests if request.method == "POST"]
        asked = sum(bool((request.body or {}).get("tools")) for request in posted)
        if asked > self.story.rounds + 1:
            problems.append(f"the model was asked {asked} times")
        return problems + list(self._deeds(found))

    async def _world(self) -> World:
        """What happened, as the history checker reads it: the terminal is a chat."""
        world = World()
        for words in self.story.said:
            world.write(words)
        await world.ack(len(world.updates))
        for deed in self._effects():
            await world.effect("once", "", deed)
        before, after = self.screens
        resumed, _, again = after.partition(IDLE)
        # Who comes back is shown the last exchanges as such: that is a repeat that says so.
        shown_again = _UNFINISHED in resumed or _BACK in resumed
        for mark, screen in (("", before), (REPEAT_MARK * shown_again, resumed), ("", again)):
            for answer in re.findall(re.escape(whole("m0")).replace("m0", r"m\d+"), screen):
                await world.send("1", f"{mark}{answer}", "")
        return world

    def _effects(self) -> list[str]:
        file = self.place / "effects"
        return [line.removeprefix("once ") for line in file.read_text().splitlines()] if file.exists() else []

    def _transcript(self, found: Left) -> Iterator[str]:
        said = Counter(entry.record.text for entry in found.entries if isinstance(entry.record, UserSaid))
        if said != Counter(self.story.said):
            yield f"said and stored differ: {said}"
        turns: dict[TurnId, list[Entry]] = defaultdict(list)
        for entry in found.entries:
            turns[entry.turn].append(entry)
        for turn, entries in turns.items():
            records = [entry.record for entry in entries]
            if sum(isinstance(one, Finished | Failed | Stopped) for one in records) != 1:
                yield f"{turn} has not one end: {records}"
            if not isinstance(records[-1], Finished):
                yield f"{turn} was not finished: {records}"
            results = Counter(one.call for one in records if isinstance(one, ToolFinished))
            calls = [call.id for one in records if isinstance(one, ModelSaid) for call in one.calls]
            if results != Counter(calls):
                yield f"{turn} called {calls} and has the results {results}"
        for token in map(token_of, self.story.said):
            texts = [one.record.text for one in found.entries if isinstance(one.record, ModelSaid)]
            if sum(whole(token) in text for text in texts) != 1:
                yield f"the answer to {token} is not on record once: {texts}"
        if found.empty_sessions:
            yield "a session without a word was left behind"

    def _deeds(self, found: Left) -> Iterator[str]:
        """A deed is done, once, or it is said that nobody knows."""
        if not set(_TOOL.findall(" ".join(self.story.said))) & set(_COMMANDS):
            return
        results = [entry.record for entry in found.entries if isinstance(entry.record, ToolFinished)]
        unknown = any(result.unknown for result in results)
        if unknown and ToolState.UNKNOWN.value not in "".join(self.screens):
            yield "an unknown outcome was not told"
        if not unknown and len(self._effects()) != 1:
            yield f"the deed was done {len(self._effects())} times"


def _hear(person: Person, token: str, *, killed: bool = False) -> None:
    """Wait for the whole answer; what is asked on the way is allowed, or the plug is pulled there."""
    while person.until_one(ANSWER, whole(token)) == ANSWER:
        if killed:
            person.kill()
        _allow(person)


def _allow(person: Person) -> None:
    person.type("yes")
    person.until("→ ")
