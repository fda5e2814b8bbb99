"""What must be true when a room is upgraded, on whichever homeserver: told by the tests of the fake and by
those of a real one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hermes.control.outbound.sending import OutboundMessage
from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Body
from hermes.domain.errors import Refused
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.word import replace
from hermes.testing.clock import QuickClock
from hermes.testing.harness import Journey, open_settings
from hermes.testing.platform_suite import Inboxes, running, until
from tests.platforms.matrix.bed import MatrixBed
from tests.platforms.matrix.people import Person


async def upgrade(person: Person, room: str) -> str:
    told = await person.call("POST", "rooms", room, "upgrade", new_version="12")
    return str(told["replacement_room"])


async def until_there(bed: MatrixBed, room: str) -> None:
    """Wait for the bot to come to a room of Ann's."""
    async with asyncio.timeout(60):
        while True:
            told = await bed.ann.call("GET", "rooms", room, "joined_members")
            if bed.bot.id in told["joined"]:
                return
            await asyncio.sleep(0.02)


def heard_of(chat: Journey) -> str:
    """What the model was told in its last request, all of it."""
    return " ".join(str(entry.record) for entry in chat.model.requests[-1].entries)


async def the_conversation_goes_on_in_the_new_room(bed: MatrixBed, folder: Path) -> None:
    """Bob, whom nobody told the gateway of, rules the room; he upgrades it and asks everybody over."""
    async with bed:
        only = PlatformSettings(allowed_users=(bed.ann.id,), unauthorized_dm_behavior="ignore")
        settings = open_settings(platforms={"matrix": only})
        old = await bed.bob.room(bed.ann, bed.bot, name="Plans")
        async with Journey(
            folder=folder, account="matrix", connect_platform=bed.connect, settings=settings
        ) as chat:
            await bed._listening()
            await bed.ann.say(old, "Hermes: remember the teapot")
            await until(lambda: any("teapot" in one.text for one in bed.shown()), "no answer in the old room")
            await chat.until_idle()
            said = len(bed.shown(Address(platform="matrix", chat=old)))
            new = await upgrade(bed.bob, old)
            for one in (bed.bot, bed.ann):
                await bed.bob.call("POST", "rooms", new, "invite", user_id=one.id)
            await bed.ann.call("POST", "join", new)
            await bed.ann.say(new, "Hermes: what was it?")
            await until(
                lambda: any("what was it" in one.text for one in bed.shown()), lambda: f"got {bed.shown()}"
            )
            await chat.until_idle()
            assert "teapot" in heard_of(chat), "the conversation goes on"
        there = bed.shown(Address(platform="matrix", chat=new))
        assert there and len(bed.shown(Address(platform="matrix", chat=old))) == said


async def what_is_due_waits_for_the_invitation(bed: MatrixBed, folder: Path) -> None:
    """A room is upgraded and nobody thinks of the bot: what it has to say there waits till one does."""
    async with bed:
        old = await bed.ann.room(bed.bot, bed.bob, name="Plans")
        to = Address(platform="matrix", chat=old)
        async with Journey(
            folder=folder,
            account="matrix",
            connect_platform=bed.connect,
            settings=open_settings(platforms={"matrix": PlatformSettings(allow_all_users=True)}),
            clock=QuickClock(300.0),
        ) as chat:
            await bed._listening()
            new = await upgrade(bed.ann, old)
            await until(lambda: bool(chat.platform._rooms._after.get(old)), "it does not hear of it")
            for text in ("one", "two", "three"):
                letter = OutboundMessage(key=text, target=str(to), body=Body(text=text))
                await chat.gateway.courier.post(MAIN_AGENT, letter)
            first = await chat.store.read(lambda tx: tx.outbox.head(to))
            while first is not None and not first.error:
                await asyncio.sleep(0.005)
                first = await chat.store.read(lambda tx: tx.outbox.head(to))
            assert first is not None and "invite us there" in first.error and not bed.shown()
            await bed.ann.call("POST", "rooms", new, "invite", user_id=bed.bot.id)
            await chat.until_idle()
        assert [one.text for one in bed.shown(Address(platform="matrix", chat=new))] == [
            "one",
            "two",
            "three",
        ]
        assert len(bed.shown()) == 3


async def it_follows_into_a_room_that_is_open(bed: MatrixBed) -> None:
    async with bed:
        inboxes = Inboxes()
        old = await bed.ann.room(bed.bot, bed.bob, name="Square", preset="public_chat")
        platform = bed.connect()
        to = Address(platform="matrix", chat=old)
        async with running(platform, inboxes.accept, None):
            await bed._listening()
            first = await platform.send(to, Body(text="here"), key="k1", reply_to=None)
            new = await upgrade(bed.ann, old)
            await bed.bob.call("POST", "join", new)
            await until_there(bed, new)
            threaded = replace(to, thread=first.ref)
            sent = await platform.send(threaded, Body(text="there"), key="k2", reply_to=first.ref)
            assert (sent.to.chat, sent.to.thread) == (new, None), "a thread of the old room stays there"
            await platform.typing(to)
            with pytest.raises(Refused, match="replaced"):
                await platform.edit(first, Body(text="too late"))
            root = await bed.bob.say(new, "a thread")
            await bed.bob.say(new, "hello", **{"m.relates_to": {"rel_type": "m.thread", "event_id": root}})
            await until(lambda: "hello" in inboxes.texts, lambda: f"got {inboxes.texts}")
            source = next(one.source for one in inboxes.items if one.text == "hello")
            assert (source.address.chat, source.parent_chat) == (old, new), "lists may name either"
            sent = await platform.send(source.address, Body(text="in it"), key="k3", reply_to=None)
            assert (sent.to.chat, sent.to.thread) == (new, root)
        # What it knows of this it asks for anew.
        platform = bed.connect()
        async with running(platform, inboxes.accept, inboxes.cursor):
            sent = await platform.send(to, Body(text="later"), key="k4", reply_to=None)
            assert sent.to.chat == new
            newer = await upgrade(bed.ann, new)
            await until(lambda: bool(platform._rooms._after.get(new)), "it does not hear of it")
            await until_there(bed, newer)
            await bed.ann.say(newer, "and on")
            await until(lambda: "and on" in inboxes.texts, "it does not listen there")
        assert inboxes.items[-1].source.address.chat == old
