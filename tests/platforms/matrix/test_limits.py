"""A homeserver that takes little: Synapse takes ten events of an account, then one in five seconds, over all
rooms (`rc_message` in its config/ratelimiting.py). Edits, reactions and their removal count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Body
from hermes.domain.errors import Unreachable
from hermes.domain.settings.platforms import PlatformSettings
from hermes.entry.platforms.matrix.manifest import MANIFEST
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import echo
from hermes.testing.platform_suite import Does, Inboxes, running, until
from tests.platforms.matrix.bed import MatrixBed
from tests.platforms.matrix.front import wrong
from tests.platforms.matrix.test_matrix import Keys, with_keys


def events(bed: MatrixBed) -> int:
    """How many events the bot has asked for."""
    return len([one for one in bed.front.asked if one.method == "PUT" and {"send", "redact"} & {*one.parts}])


async def test_an_edit_that_changes_nothing_is_not_sent() -> None:
    """The final of a short answer says what its draft shows already."""
    async with MatrixBed() as bed:
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            draft = await platform.send(bed.chat, Body(text="<p>The answer</p>"), key="k", reply_to=None)
            await platform.edit(draft, Body(text="<p>The answer</p>"))
            assert events(bed) == 1
            await platform.edit(draft, Body(text="<p>The answer is 42</p>"))
            await platform.edit(draft, Body(text="<p>The answer is 42</p>"))
            assert events(bed) == 2 and bed.shown()[0].text == "The answer is 42"
            await platform.edit(draft, Body(text="<p>The answer</p>"))
            assert bed.shown()[0].text == "The answer"


async def test_an_edit_of_which_nobody_knows_is_sent_again() -> None:
    async with MatrixBed() as bed:
        platform, fake = bed.connect(), bed.front.homeserver

        async def homeserver(asked: Any) -> Any:
            answer = await fake(asked)
            lost = b"m.replace" in asked.body and b"lost" in asked.body
            return wrong(502, "M_UNKNOWN", "the answer is lost") if lost else answer

        bed.front.homeserver = homeserver
        async with running(platform, Inboxes().accept, None):
            draft = await platform.send(bed.chat, Body(text="one"), key="k", reply_to=None)
            with pytest.raises(Unreachable):
                await platform.edit(draft, Body(text="lost"))
            await platform.edit(draft, Body(text="one"))
        replaced = bed.server.find(bed.chat.chat, draft.ref)["unsigned"]["m.relations"]["m.replace"]
        assert replaced["content"]["m.new_content"]["body"] == "one", "it may have shown the other"


async def test_what_the_first_refusal_teaches_counts_for_the_whole_account() -> None:
    async with MatrixBed() as bed:
        here, there = bed.chats(2)
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            first = await platform.send(here, Body(text="one"), key="k1", reply_to=None)
            await platform.react(first, "👀")
            assert platform.capabilities == MANIFEST.capabilities
            bed.server.left[bed.bot.id] = 0
            with pytest.raises(Unreachable, match="slower") as refusal:
                await platform.send(there, Body(text="two"), key="k2", reply_to=None)
            assert refusal.value.after == 5.0
            assert platform.capabilities.edit_interval == 5.0 > (MANIFEST.capabilities.edit_interval or 0.0)
            before = events(bed)
            with pytest.raises(Unreachable, match="messages come first"):
                await platform.react(first, "👀")
            assert events(bed) == before, "a sign is not even tried"
            with pytest.raises(Unreachable, match="slower"):
                await platform.react(first, "✅", instead="👀")
            bed.server.left[bed.bot.id] = 1
            await platform.react(first, "✅", instead="👀")
            assert bed.server.left[bed.bot.id] == 0 and bed.front.reactions == {}, "only what is wrong goes"


async def test_a_short_answer_takes_one_event(tmp_path: Path) -> None:
    """The final of a draft that says it all is no event, and a quick answer needs no signs."""
    async with MatrixBed() as bed:
        settings = open_settings(platforms={"matrix": PlatformSettings(allow_all_users=True)})
        chat = Journey(
            folder=tmp_path, account="matrix", connect_platform=bed.connect, settings=settings, script=echo
        )
        async with chat:
            await bed.do(Does.TEXT, "hello")
            await until(lambda: bool(bed.shown()), "no answer")
            await chat.until_idle()
            assert events(bed) == 1 and "You said: hello" in bed.shown()[0].text


# --- direct chats that the bot begins ---


@pytest.mark.parametrize("encrypts", [False, True], ids=["plain", "encrypted"])
async def test_a_person_who_has_not_come_yet_is_asked_once(encrypts: bool) -> None:
    """Synapse takes 0.003 invitations of a user in a second (`rc_invites`)."""
    async with MatrixBed() as bed:
        to, rooms = Address(platform="matrix", chat=bed.bob.id), set()
        for number in range(3):
            platform = with_keys(bed, Sealing()) if encrypts else bed.connect()
            async with running(platform, Inboxes().accept, None):
                sent = await platform.send(to, Body(text=f"{number}"), key=f"k{number}", reply_to=None)
                rooms.add(sent.to.chat)
        (room,) = rooms
        assert bed.server.rooms[room].membership(bed.bob.id) == "invite"
        assert (("m.room.encryption", "") in bed.server.rooms[room].state) is encrypts
        bed.server.member(room, bed.bob.id, bed.bob.id, "leave")
        platform = with_keys(bed, Sealing()) if encrypts else bed.connect()
        async with running(platform, Inboxes().accept, None):
            sent = await platform.send(to, Body(text="again"), key="k9", reply_to=None)
        assert sent.to.chat not in rooms, "who went away is asked anew"


async def test_a_direct_chat_in_which_we_cannot_write_is_left_aside() -> None:
    async with MatrixBed() as bed:
        algorithm = {"algorithm": "m.megolm.v1.aes-sha2"}
        bed.server.add(bed.chat.chat, bed.ann.id, "m.room.encryption", algorithm, state_key="")
        listed = {bed.ann.id: [bed.chat.chat]}
        await bed.bot.call("PUT", "user", bed.bot.id, "account_data", "m.direct", **listed)
        platform = bed.connect()
        to = Address(platform="matrix", chat=bed.ann.id)
        async with running(platform, Inboxes().accept, None):
            sent = await platform.send(to, Body(text="x"), key="k", reply_to=None)
        assert sent.to.chat != bed.chat.chat and bed.shown()[0].text == "x"


class Sealing(Keys):
    """Encrypts, for all that a room can tell."""

    async def encrypt(self, room: Any, sort: str, content: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        return "m.room.encrypted", {"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "x", "session_id": "s"}


# --- rooms of many ---


async def test_a_member_who_is_told_again_costs_nothing() -> None:
    """With lazy loading a sync tells of each speaker who they are (Client-Server API, “Lazy-loading room
    members”)."""
    async with MatrixBed() as bed:
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            await platform._who()
            await platform._rooms.get(bed.group)
            asked = len(bed.front.asked)
            event = dict(bed.server.rooms[bed.group].state[("m.room.member", bed.bob.id)])
            platform._rooms.heed(bed.group, [event])
            await platform._rooms.get(bed.group)
            assert not [one for one in bed.front.asked[asked:] if "joined_members" in one.path]
            event["content"] = {**event["content"], "displayname": "Robert"}
            platform._rooms.heed(bed.group, [event])
            await platform._rooms.get(bed.group)
            assert [one for one in bed.front.asked[asked:] if "joined_members" in one.path]
