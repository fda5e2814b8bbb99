"""Conversations on Matrix through a whole gateway that is stopped at each of its writes: each message is
answered, once, in its place."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hermes.control.outbound.answers import REPEAT_MARK
from hermes.domain.chats.address import Address
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.word import replace
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import Say, echo
from hermes.testing.platform_suite import Shown, until
from tests.journeys.cut import MOST_WRITES, SAMPLED, one_life, stops
from tests.platforms.matrix.bed import MatrixBed
from tests.platforms.matrix.upgrades import upgrade

SETTINGS = open_settings(platforms={"matrix": PlatformSettings(allow_all_users=True)})


@dataclass
class Story:
    """People do each thing once, in whichever life of the gateway it comes to that."""

    bed: MatrixBed
    done: dict[str, str] = field(default_factory=dict)
    told: str = ""
    """What the model was told last, in whichever life."""

    def echo(self, request: ModelRequest) -> Say:
        self.told = " ".join(str(entry.record) for entry in request.entries)
        return echo(request)

    async def once(self, name: str, deed: Callable[[], Awaitable[str]]) -> str:
        if name not in self.done:
            self.done[name] = await deed()
        return self.done[name]

    async def begun(self, chat: Journey) -> None:
        """Nothing is kept for who was never there: people write once the first point is stored."""
        while await chat.gateway.cursor("matrix") is None:
            await chat.until(lambda: self.bed.front.listening > 0)

    async def answered(self, text: str) -> None:
        wanted = f"You said: {text}"
        await until(
            lambda: any(wanted in one.text for one in self.bed.shown()),
            lambda: f"“{text}” is not answered; people see {self.bed.shown()}",
        )

    def once_at(self, room: str, text: str) -> Shown:
        place = Address(platform="matrix", chat=room)
        said = [one for one in self.bed.shown() if f"You said: {text}" in one.text]
        found = [one for one in said if REPEAT_MARK not in one.text]
        assert len(found) == 1, f"{len(found)} answers to “{text}”: {found}"
        assert found[0] in self.bed.shown(place), f"“{text}” is answered elsewhere"
        return found[0]


async def talk(story: Story, chat: Journey) -> None:
    """In a private room, and in another one where the answer begins a thread."""
    bed = story.bed
    await story.begun(chat)
    await story.once("hello", lambda: bed.ann.say(bed.chat.chat, "hello"))
    await story.answered("hello")
    root = await story.once("mention", lambda: bed.ann.say(bed.group, "Hermes: and here?"))
    await story.answered("and here?")
    relation = {"m.relates_to": {"rel_type": "m.thread", "event_id": root}}
    await story.once("inside", lambda: bed.bob.say(bed.group, "and me?", **relation))
    await story.answered("and me?")
    await chat.until_idle()
    assert story.once_at(bed.chat.chat, "hello").thread is None
    for text in ("and here?", "and me?"):
        assert story.once_at(bed.group, text).thread == root
    assert "and here?" in story.told and "hello" not in story.told, "the thread is a conversation of its own"


async def move(story: Story, chat: Journey) -> None:
    """A room is upgraded between two messages."""
    bed = story.bed
    await story.begun(chat)
    await story.once("first", lambda: bed.ann.say(bed.chat.chat, "the teapot is blue"))
    await story.answered("the teapot is blue")
    if "upgrade" not in story.done:
        # A draft that has all the words looks like the answer.
        await chat.until_idle()
    new = await story.once("upgrade", lambda: upgrade(bed.ann, bed.chat.chat))

    async def invite() -> str:
        await bed.ann.call("POST", "rooms", new, "invite", user_id=bed.bot.id)
        return await bed.ann.say(new, "what is blue?")

    await story.once("invite", invite)
    await story.answered("what is blue?")
    await chat.until_idle()
    story.once_at(bed.chat.chat, "the teapot is blue")
    story.once_at(new, "what is blue?")
    assert "teapot" in story.told, "the conversation goes on"


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
@pytest.mark.parametrize("tell", [talk, move])
async def test_stopped_at_each_write(
    tmp_path: Path, full: bool, tell: Callable[[Story, Journey], Awaitable[None]], after: bool
) -> None:
    for number in stops(full, MOST_WRITES, f"{tell.__name__} {after}")[:: 1 if full else 4]:
        folder = tmp_path / str(number)
        folder.mkdir()
        bed = MatrixBed()
        bed.said["MATRIX_AUTO_THREAD"] = "true"
        bed.welcome = {"@ann:localhost"}
        async with bed:
            story = Story(bed)
            chat = Journey(
                folder=folder,
                account="matrix",
                connect_platform=bed.connect,
                settings=SETTINGS,
                script=story.echo,
            )
            live = lambda chat: tell(story, chat)  # noqa: E731, B023
            if not await one_life(chat, live, stop_at=number, after=after):
                assert number > SAMPLED, "the story was never cut off"
                return
            await one_life(replace(chat, wrap_store=lambda store: store), live)
    raise AssertionError("the story never came to its end")


async def test_commands_begin_with_an_exclamation_mark(tmp_path: Path) -> None:
    """Element keeps what begins with a slash for itself."""
    async with MatrixBed() as bed:
        async with Journey(
            folder=tmp_path, account="matrix", connect_platform=bed.connect, settings=SETTINGS
        ):
            await bed._listening()
            for text in ("!whoami", "hermes: !whoami"):
                await bed.ann.say(bed.group, text)
            await until(
                lambda: sum("@ann:localhost" in one.text for one in bed.shown()) == 2,
                lambda: f"people see {bed.shown()}",
            )
