"""Where people share a session, a turn is of the person who spoke: what they allowed counts for their words
alone."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hermes.domain.ids import MAIN_AGENT
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.ports.store import Tx
from hermes.domain.settings.settings import DisplaySettings
from hermes.domain.tools.tool import Effect, Tool, ToolContext, ToolResult
from hermes.domain.turns.event import Entry, ToolFinished, UserSaid
from hermes.domain.turns.turn import BusyMode
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import Say, call, last_words, say
from hermes.testing.tools import world_tools
from hermes.testing.world import Deed, World


def script(request: ModelRequest) -> Say:
    """Each message gets what it asks for, and else an answer."""
    since = [entry.record for entry in request.entries if isinstance(entry.record, UserSaid | ToolFinished)]
    words = last_words(request)
    if isinstance(since[-1], ToolFinished):
        return say(f"done: {words}")
    if "delete it" in words:
        return call("danger", '{"token": "x"}', id=f"c{len(since)}")
    if "begin" in words:
        return call("wait", id=f"c{len(since)}")
    return say(f"You said: {words}")


@dataclass
class Topic:
    """A topic in which Ann, Mallory and an admin write, and a tool that works until it is let go."""

    folder: Path
    mode: BusyMode = BusyMode.STEER
    world: World = field(default_factory=World)
    started: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    def open(self) -> Journey:
        wait = Tool(name="wait", description="", parameters={}, run=self._wait, effect=Effect.READ)
        return Journey(
            folder=self.folder,
            script=script,
            kind="plain",
            world=self.world,
            settings=open_settings(display=DisplaySettings(busy_input_mode=self.mode)),
            tools=[*world_tools(self.world.effect), wait],
            is_admin=lambda source: source.person == "root",
        )

    async def _wait(self, context: ToolContext, arguments: object) -> ToolResult:
        self.started.set()
        await self.go.wait()
        return ToolResult(text="waited")

    def write(self, user: str, text: str) -> None:
        self.world.write(text, chat="7", kind="thread", thread="t", user=user, name=user.title())

    @property
    def deletions(self) -> int:
        return len(self.world.did(Deed.EFFECT))

    async def allow(self, chat: Journey, how: str) -> None:
        """Ann has it deleted, and allows it for longer."""
        self.write("ann", "delete it")
        await chat.until_seen("May I do x?")
        self.write("ann", how)
        await chat.until_seen("done: delete it")
        await chat.until_idle()

    async def begin(self, chat: Journey) -> None:
        """Ann has something done that takes a while."""
        self.write("ann", "begin")
        await asyncio.wait_for(self.started.wait(), 40)

    def asked(self) -> int:
        return sum("May I do x?" in seen for seen in self.world.seen())


async def journal(chat: Journey) -> list[Entry]:
    def look(tx: Tx) -> list[Entry]:
        return [entry for one in tx.sessions.find("") for entry in tx.journal.read(one.id)]

    return await chat.database.read(look)


@pytest.mark.parametrize("words", ["delete it", "/steer delete it"])
async def test_words_of_another_do_not_join_a_turn(words: str, tmp_path: Path) -> None:
    topic = Topic(tmp_path)
    async with topic.open() as chat:
        await topic.allow(chat, "always")
        await topic.begin(chat)
        topic.write("mallory", words)
        await chat.until_taken()
        topic.go.set()
        await chat.until(lambda: topic.asked() == 2 or topic.deletions == 2)
        assert (topic.asked(), topic.deletions) == (2, 1)
        said = [entry.record for entry in await journal(chat) if isinstance(entry.record, UserSaid)]
        assert [one.text for one in said if one.steering] == []
        assert said[-1].author == "Mallory"
        if words.startswith("/"):
            assert any("Queued behind 1." in seen for seen in topic.world.seen())


async def test_words_of_ones_own_join_past_those_of_another(tmp_path: Path) -> None:
    topic = Topic(tmp_path)
    async with topic.open() as chat:
        await topic.begin(chat)
        topic.write("mallory", "what is this?")
        topic.write("ann", "and hurry")
        await chat.until_taken()
        topic.go.set()
        await chat.until_seen("You said: and hurry", "You said: what is this?")
        await chat.until_idle()
        said = [entry.record for entry in await journal(chat) if isinstance(entry.record, UserSaid)]
        assert [(one.text, one.steering) for one in said] == [
            ("begin", False),
            ("and hurry", True),
            ("what is this?", False),
        ]


@pytest.mark.parametrize("how", ["session", "always"])
async def test_what_one_person_allowed_is_asked_of_another(how: str, tmp_path: Path) -> None:
    topic = Topic(tmp_path)
    async with topic.open() as chat:
        await topic.allow(chat, how)
        topic.write("ann", "delete it again")
        await chat.until_seen("done: delete it again")
        topic.write("mallory", "delete it as well")
        await chat.until(lambda: topic.asked() == 2 or topic.deletions == 3)
        assert (topic.asked(), topic.deletions) == (2, 2)


@pytest.mark.parametrize("how", ["session", "always"])
async def test_what_something_that_happened_makes_of_it_is_asked(how: str, tmp_path: Path) -> None:
    """What ends in the background may have been anybody's, and the words that tell of it anybody's too."""
    topic = Topic(tmp_path)
    async with topic.open() as chat:
        await topic.allow(chat, how)
        sessions = await chat.database.read(lambda tx: tx.sessions.find(""))
        await chat.gateway.wake(MAIN_AGENT, sessions[0].id, "It ended and said: delete it")
        await chat.until(lambda: topic.asked() == 2 or topic.deletions == 2)
        assert (topic.asked(), topic.deletions) == (2, 1)


@pytest.mark.parametrize("command", ["/stop", "/new", "/reset"])
async def test_a_question_is_not_ended_by_commands_of_another(command: str, tmp_path: Path) -> None:
    topic = Topic(tmp_path)
    async with topic.open() as chat:
        topic.write("ann", "delete it")
        await chat.until_seen("May I do x?")
        topic.write("mallory", command)
        await chat.until(lambda: any("somebody else" in seen for seen in topic.world.seen()))
        topic.write("ann", "yes")
        await chat.until_seen("done: delete it")
        assert topic.deletions == 1


async def test_a_session_is_not_taken_from_who_was_asked_in_its_background(tmp_path: Path) -> None:
    topic = Topic(tmp_path)
    async with topic.open() as chat:
        topic.write("ann", "hello")
        await chat.until_seen("You said: hello")
        first = (await chat.database.read(lambda tx: tx.sessions.find("")))[0].id
        topic.write("ann", "/branch")
        await chat.until_seen("a copy")
        topic.write("ann", "/background delete it")
        await chat.until_seen("May I do x?")
        commands = ["/new", "/branch", f"/resume {first}", f"/sessions {first}"]
        for command in commands:
            topic.write("mallory", command)
        await chat.until_taken()
        assert sum("has to wait" in seen for seen in topic.world.seen()) == len(commands)
        topic.write("ann", "/approve")
        await chat.until(lambda: topic.deletions == 1)
        await chat.until_idle()


async def test_everybody_stops_their_own(tmp_path: Path) -> None:
    topic = Topic(tmp_path, mode=BusyMode.QUEUE)
    async with topic.open() as chat:
        await topic.begin(chat)
        topic.write("mallory", "/stop")
        await chat.until_seen("What runs here is somebody else's.")
        topic.write("mallory", "never mind me")
        topic.write("mallory", "/stop")
        await chat.until_seen("“never mind me”. What others asked for goes on.")
        topic.write("ann", "/stop")
        await chat.until(lambda: any(seen.endswith("Stopped.") for seen in topic.world.seen()))
        await chat.until_idle()
        assert not any("You said" in seen or "done:" in seen for seen in topic.world.seen())


@pytest.mark.parametrize("command", ["/stop", "/new"])
async def test_an_admin_stops_everybodys(command: str, tmp_path: Path) -> None:
    topic = Topic(tmp_path)
    async with topic.open() as chat:
        topic.write("ann", "delete it")
        await chat.until_seen("May I do x?")
        topic.write("root", command)
        await chat.until_idle()
        assert not await chat.database.read(lambda tx: tx.questions.open_of(None))
        assert not topic.deletions
