"""Rooms that are upgraded: the conversation goes on in the new one, and nobody leads it astray by that."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Body
from hermes.domain.errors import Refused
from hermes.testing.platform_suite import Inboxes, running, until
from tests.platforms.matrix import upgrades
from tests.platforms.matrix.bed import MatrixBed


async def test_the_conversation_goes_on_in_the_new_room(tmp_path: Path) -> None:
    await upgrades.the_conversation_goes_on_in_the_new_room(MatrixBed(), tmp_path)


async def test_what_is_due_waits_for_the_invitation(tmp_path: Path) -> None:
    await upgrades.what_is_due_waits_for_the_invitation(MatrixBed(), tmp_path)


async def test_it_follows_into_a_room_that_is_open() -> None:
    await upgrades.it_follows_into_a_room_that_is_open(MatrixBed())


async def test_a_room_that_only_claims_to_go_on_with_another() -> None:
    async with MatrixBed() as bed:
        inboxes = Inboxes()
        bed.welcome = {bed.ann.id}
        claim = {"predecessor": {"room_id": bed.group}}
        async with running(bed.connect(), inboxes.accept, None):
            await bed._listening()
            theirs = bed.server.create(bed.bob.id, invite=[bed.bot.id], creation_content=claim)
            hers = bed.server.create(bed.ann.id, invite=[bed.bot.id, bed.bob.id], creation_content=claim)
            await bed.bob.call("POST", "join", hers)
            await bed.ann.say(hers, "hello")
            await until(lambda: inboxes.texts == ["hello"], "she is welcome, and so is her room")
        assert bed.server.rooms[theirs].membership(bed.bot.id) == "invite", "a stranger's lies"
        assert inboxes.items[0].source.address.chat == hers, "the other room says nothing of it"


async def test_who_closes_a_room_cannot_send_us_anywhere() -> None:
    async with MatrixBed() as bed:
        platform = bed.connect()
        elsewhere = bed.server.create(bed.bob.id, preset="public_chat")
        closed = {"body": "Go there", "replacement_room": elsewhere}
        async with running(platform, Inboxes().accept, None):
            await bed._listening()
            bed.server.add(bed.group, bed.bob.id, "m.room.tombstone", closed, state_key="")
            place = bed.server.rooms[elsewhere]
            moves = lambda: [  # noqa: E731
                event["content"]["membership"]
                for _, event in place.events
                if event.get("state_key") == bed.bot.id
            ]
            await until(lambda: moves() == ["join", "leave"], lambda: f"it went {moves()}")
            to = Address(platform="matrix", chat=bed.group)
            with pytest.raises(Refused, match="does not go on with it"):
                await platform.send(to, Body(text="x"), key="k", reply_to=None)
        assert bed.shown() == [], "nothing is said in a room that was closed"


async def test_with_no_invitations_it_stays_where_it_is() -> None:
    async with MatrixBed() as bed:
        bed.said["MATRIX_INVITES"] = "nobody"
        inboxes = Inboxes()
        old = await bed.ann.room(bed.bot, bed.bob, preset="public_chat")
        async with running(bed.connect(), inboxes.accept, None):
            await bed._listening()
            new = await upgrades.upgrade(bed.ann, old)
            await bed.ann.say(bed.chat.chat, "did you see it?")
            await until(lambda: bool(inboxes.texts), "it does not listen")
        assert bed.server.rooms[new].membership(bed.bot.id) == "leave"
