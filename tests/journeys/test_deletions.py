"""Messages that people delete: as long as nobody has begun to answer, they were never said."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hermes.domain.ids import AgentId
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.settings import DisplaySettings, Route, RouteMatch
from hermes.domain.turns.turn import BusyMode
from hermes.testing.harness import Journey, open_settings
from hermes.testing.world import Update
from tests.journeys.cut import cut_everywhere
from tests.journeys.test_busy import Held
from tests.journeys.test_edits import QUEUE, behind_another, ends, write_once

BEGUN = "ignored: deletion, its turn has begun"
NO_MESSAGE = "ignored: deletion of something that is no message to the agent"

DELETED, GONE = "deletion", "withdrawn: it was deleted"


def delete(chat: Journey, message: Update, **more: object) -> None:
    """It is gone; who did it is not told."""
    chat.world.write("", deletes=message.delivery, user="", **more)  # type: ignore[arg-type]


def told(chat: Journey) -> str:
    """Everything the model was ever told."""
    return " ".join(str(entry.record) for request in chat.model.requests for entry in request.entries)


@pytest.mark.parametrize("mode", [BusyMode.QUEUE, BusyMode.STEER])
async def test_what_waits_is_withdrawn_and_what_is_answered_is_not(tmp_path: Path, mode: BusyMode) -> None:
    settings = open_settings(display=DisplaySettings(busy_input_mode=mode))
    script = Held("first")
    async with Journey(folder=tmp_path, script=script, settings=settings) as chat:
        await behind_another(chat, script)
        waiting = chat.world.write("secret")
        await chat.until_taken()
        delete(chat, waiting)
        chat.world.write("", deletes="d1", user="")
        await chat.until_taken()
        script.go.set()
        chat.world.write("third")
        await chat.until_idle()
        assert "secret" not in told(chat) and "third" in told(chat)
        assert not any("secret" in text or "stopped" in text for text in chat.world.seen())
        assert await ends(chat, waiting.delivery) == ["turn", DELETED]
        assert await ends(chat, "d1") == ["turn", BEGUN]
        chat.world.repeat(chat.world.updates[2])
        await chat.until_idle()
        assert await ends(chat, waiting.delivery) == ["turn", DELETED], "what was told twice counts once"


async def test_what_was_deleted_while_nobody_was_there_was_never_said(tmp_path: Path) -> None:
    chat = Journey(folder=tmp_path, settings=QUEUE)
    said, command, early = (
        chat.world.write("secret"), chat.world.write("/title Secret"), chat.world.write("x", deletes="d9"),
    )  # fmt: skip
    delete(chat, said)
    delete(chat, command)
    chat.world.write("other", edits=said.delivery)
    chat.world.write("hello")
    assert chat.world.write("more").delivery == "d8"
    # Its deletion came first.
    assert chat.world.write("too late").delivery == early.deletes
    async with chat:
        await chat.until_seen("You said: hello", "You said: more")
        await chat.until_idle()
        assert len(chat.world.seen()) == 2
        assert "ecret" not in told(chat) and "too late" not in told(chat)
        assert (await ends(chat, said.delivery))[:2] == [GONE, DELETED]
        assert await ends(chat, command.delivery) == [GONE, DELETED]
        assert await ends(chat, "d9") == [DELETED, GONE]


async def test_deletions_that_change_nothing(tmp_path: Path) -> None:
    script = Held("first")
    async with Journey(folder=tmp_path, script=script, settings=QUEUE) as chat:
        await behind_another(chat, script)
        waiting, command = chat.world.write("second"), chat.world.write("/queue third")
        await chat.until_taken()
        chat.world.write("", deletes=waiting.delivery, user="", chat="2")
        delete(chat, command)
        await chat.until_taken()
        script.go.set()
        await chat.until_seen("You said: second", "You said: third")
        assert await ends(chat, waiting.delivery) == ["turn", NO_MESSAGE]
        assert await ends(chat, command.delivery) == ["command: queue", NO_MESSAGE]


async def test_in_whichever_thread_and_of_whichever_agent(tmp_path: Path) -> None:
    """Who looks after the message knows it, not who would look after a message by nobody."""

    route = Route(match=RouteMatch(user_id="u2"), agent=AgentId("shop"))
    settings = open_settings(display=DisplaySettings(busy_input_mode=BusyMode.QUEUE), routes=(route,))
    script = Held("first")
    async with Journey(folder=tmp_path, script=script, settings=settings, agents=("main", "shop")) as chat:
        place = {"user": "u2", "kind": "thread", "thread": "t"}
        chat.world.write("first", **place)  # type: ignore[arg-type]
        await chat.until_seen("a long answer to first")
        waiting = chat.world.write("secret", **place)  # type: ignore[arg-type]
        await chat.until_taken()
        delete(chat, waiting, kind="group")
        await chat.until_taken()
        script.go.set()
        await chat.until_idle()
        assert "secret" not in told(chat)
        assert await ends(chat, waiting.delivery) == ["turn", DELETED]


async def test_pieces_of_one_message(tmp_path: Path) -> None:
    """What is left of them is answered; without any left, nothing is."""
    script = Held("first")
    async with Journey(folder=tmp_path, script=script, settings=QUEUE) as chat:
        await behind_another(chat, script)
        pieces = [
            chat.world.write(text, group="g", uploads=(chat.world.photo(text.encode(), f"{text}.jpg"),))
            for text in ("mango", "melon", "lemon")
        ]
        await chat.until_taken()
        delete(chat, pieces[0])
        chat.world.write("Melon", edits=pieces[1].delivery)
        await chat.until_taken()
        delete(chat, pieces[1])
        others = [chat.world.write(text, group="h") for text in ("olive", "onion")]
        await chat.until_taken()
        for one in others:
            delete(chat, one)
        await chat.until_taken()
        script.go.set()
        await chat.until_seen("lemon")
        await chat.until_idle()
        assert "lemon.jpg" in told(chat)
        assert not any(word in told(chat) for word in ("mango", "melon", "Melon", "olive", "onion"))


async def test_a_message_whose_file_is_on_its_way(tmp_path: Path) -> None:

    async with Journey(folder=tmp_path, settings=QUEUE) as chat:
        chat.world.holding = asyncio.Event()
        waiting = chat.world.write("look", uploads=(chat.world.photo(b"x" * 200_000),))
        await chat.until_taken()
        delete(chat, waiting)
        await chat.until_idle()
        assert chat.model.requests == [] and chat.world.seen() == []
        chat.world.holding.set()


async def test_what_others_said_in_a_group(tmp_path: Path) -> None:
    only = PlatformSettings(
        allow_all_users=True, require_mention=True, observe_unmentioned_group_messages=True
    )
    async with Journey(folder=tmp_path, settings=open_settings(platforms={"fake": only})) as chat:
        said = [chat.world.write(text, kind="group", user="u2") for text in ("tea at four", "my pin is 1234")]
        await chat.until_taken()
        delete(chat, said[1], kind="group")
        await chat.until_taken()
        chat.world.write("when?", kind="group", mentions_us=True)
        await chat.until_seen("when?")
        chat.world.write("and?", kind="group", mentions_us=True, reply_to=said[1].delivery)
        await chat.until_seen("and?")
        assert "tea at four" in told(chat) and "1234" not in told(chat)


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
async def test_stopped_at_each_write(tmp_path: Path, full: bool, after: bool) -> None:
    def make(folder: Path) -> Journey:
        chat = Journey(folder=folder, script=Held("first"), settings=QUEUE)
        delete(chat, chat.world.write("secret 1"))
        chat.world.write("first")
        return chat

    await cut_everywhere(tmp_path, make, story, after=after, full=full)


async def story(chat: Journey) -> None:
    """A message is deleted before anybody has looked at it, and another one while it waits its turn."""
    script = chat.script
    assert isinstance(script, Held)
    await chat.until_seen("a long answer to first")
    write_once(chat, "secret 2", lambda: chat.world.write("secret 2"))
    await chat.until_taken()
    if all(update.deletes != "d4" for update in chat.world.updates):
        chat.world.write("", deletes="d4", user="")
    await chat.until_taken()
    write_once(chat, "third", lambda: chat.world.write("third"))
    script.go.set()
    await chat.until_seen("You said: third")
    await chat.until_idle()
    assert [text.split()[-1] for text in chat.world.seen()] == ["first", "third"]
    assert "secret" not in told(chat)
    assert await ends(chat, "d1") == [GONE, DELETED]
    assert await ends(chat, "d4") == ["turn", DELETED]
