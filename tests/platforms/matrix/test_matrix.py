"""Matrix: the suite that every adapter passes, and what is Matrix's own."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.chats.address import Address, SourceKind
from hermes.domain.chats.message import Attachment, Body, Button, Inbound, InboundKind, MediaKind
from hermes.domain.errors import NeedsLogin, Refused, Unreachable, UserError
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.word import replace
from hermes.entry.platforms.matrix import adapter, compose
from hermes.entry.platforms.matrix.adapter import UNREADABLE, UNVERIFIED, MatrixAdapter
from hermes.entry.platforms.matrix.convert import KEYS, Room, error_for, to_inbounds
from hermes.testing.platform_suite import (
    CHECKS,
    Check,
    Does,
    Fault,
    Inboxes,
    conform,
    hosted,
    running,
    until,
)
from tests.platforms.matrix.bed import MatrixBed
from tests.platforms.matrix.front import wrong
from tests.platforms.matrix.samples import EVENTS, ME, ROOM, event


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_matrix_conforms(check: Check, full: bool) -> None:
    await conform(check, MatrixBed, full=full)


# --- what events mean ---


def read(name: str) -> Inbound:
    known = {one["event_id"]: one for one in EVENTS.values()}
    found = to_inbounds(EVENTS[name], ROOM, ME, known)
    assert len(found) == 1, f"{name} is not read"
    return found[0]


def test_kinds_of_events() -> None:
    html = read("html")
    assert (html.text, html.mentions_me, html.source.user_name) == ("so **good**", True, "Ann")
    assert (html.source.kind, html.source.chat_name) == (SourceKind.GROUP, "Team")
    answer = read("reply")
    assert answer.text == "no" and answer.reply_to is not None
    assert (answer.reply_to.mine, answer.reply_to.text) == (True, "May I?")
    thread = read("thread")
    assert thread.source.kind is SourceKind.THREAD and thread.source.parent_chat == ROOM.id
    assert thread.reply_to is None, "what is only for programs without threads is no answer"
    assert read("edit").text == "hullo"
    assert read("image").attachments[0].name == "a.png" and read("image").text == ""
    secret = read("encrypted file")
    assert (secret.text, secret.attachments[0].name) == ("look", "a.pdf")
    assert read("sticker").attachments[0].kind is MediaKind.STICKER
    assert read("location").text == "[Location: here, geo:51.5,-0.1]"
    assert read("emote").text == "* waves"
    assert read("notice").source.is_bot, "programs are not answered unless the operator says so"
    assert (read("pressed").what, read("pressed").button) == (InboundKind.BUTTON, "q_1:yes")
    assert (read("reaction").what, read("reaction").text) == (InboundKind.REACTION, "👍")
    gone = read("redaction")
    assert (gone.what, gone.ref) == (InboundKind.DELETED, EVENTS["redaction"]["redacts"])
    newer = {name: value for name, value in EVENTS["redaction"].items() if name != "redacts"}
    assert to_inbounds(newer, ROOM, ME, {}) == (gone,), "newer rooms tell it inside"
    assert to_inbounds({**newer, "content": {}}, ROOM, ME, {}) == ()
    for name in ("ours", "member", "encrypted"):
        assert to_inbounds(EVENTS[name], ROOM, ME, {}) == ()


@pytest.mark.parametrize(
    ("sort", "content"),
    [
        ("m.poll.start", {"m.text": [{"body": "Tea?\n1. Yes\n2. No"}], "m.poll": {}}),
        ("org.matrix.msc3381.poll.start", {"org.matrix.msc1767.text": "Tea?\n1. Yes\n2. No"}),
    ],
)
def test_a_poll_is_told_in_words(sort: str, content: dict[str, Any]) -> None:
    """As Matrix 1.7 and MSC3381, which Element sends, have them."""
    (item,) = to_inbounds({**EVENTS["text"], "type": sort, "content": content}, ROOM, ME, {})
    assert item.text == "[Poll: Tea?\n1. Yes\n2. No]"
    assert not to_inbounds({**EVENTS["text"], "type": sort, "content": {"m.text": []}}, ROOM, ME, {})


def test_only_the_author_edits() -> None:
    forged = {**EVENTS["edit"], "sender": "@bob:localhost"}
    assert to_inbounds(forged, ROOM, ME, {EVENTS["text"]["event_id"]: EVENTS["text"]}) == ()
    assert to_inbounds(EVENTS["edit"], ROOM, ME, {}) == (), "nobody knows whose it was"


def test_who_is_spoken_to() -> None:
    def mentioned(body: str, **more: Any) -> tuple[str, bool]:
        (item,) = to_inbounds(event(50, {"msgtype": "m.text", "body": body, **more}), ROOM, ME, {})
        return item.text, item.mentions_me

    nobody = {"m.mentions": {}}
    assert mentioned("hermes, /status") == ("/status", True)
    assert mentioned("@hermes:localhost what?", **nobody) == ("what?", True)
    assert mentioned("I asked Hermes", **nobody) == ("I asked Hermes", False)
    assert mentioned("hermeneutics: a book", **nobody) == ("hermeneutics: a book", False)
    assert mentioned("and you?", **{"m.mentions": {"user_ids": [ME.id]}}) == ("and you?", True)
    assert mentioned(f"ask {ME.id}") == (f"ask {ME.id}", True)


def test_rooms_of_two_are_private() -> None:
    two = Room(id="!dm:localhost", members={ME.id: "Hermes", "@ann:localhost": "Ann"})
    assert to_inbounds(EVENTS["text"], two, ME, {})[0].source.kind is SourceKind.PRIVATE
    assert to_inbounds(EVENTS["text"], ROOM, ME, {})[0].source.kind is SourceKind.GROUP


# --- what goes out ---


def test_words_with_and_without_markup() -> None:
    made = compose.message(Body(text="<p>a &lt; b</p>"))
    assert made["body"] == "a < b" and "formatted_body" not in made
    html = '<h2>T</h2>\n<ul><li>one</li><li>two</li></ul>\n<p>x<br>y <a href="https://e.invalid/">z</a></p>'
    made = compose.message(Body(text=html))
    assert made["formatted_body"] == html and made["format"] == "org.matrix.custom.html"
    assert made["body"] == "T\n\n- one\n- two\nx\ny z (https://e.invalid/)"
    assert made["m.mentions"] == {}, "nobody is called by what the model happens to say"


def test_what_is_too_long_without_markup_is_shortened() -> None:
    html = '<b>"</b>' * 2000
    made = compose.fitted(compose.message(Body(text=html)), 20_000)
    assert made["formatted_body"] == html and made["body"].endswith("…")
    with pytest.raises(Refused, match="too long"):
        compose.fitted(compose.message(Body(text='"' * 40_000)), compose.EVENT_BYTES)


async def test_threads_and_answers() -> None:
    async with MatrixBed() as bed:
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            thread = await platform.open_thread(bed.chat, "Plans")
            first = await platform.send(thread, Body(text="in it"), key="k1", reply_to=None)
            await platform.send(thread, Body(text="answer"), key="k2", reply_to=first.ref)
            with pytest.raises(Refused, match="no thread"):
                await platform.send(replace(thread, thread="7"), Body(text="x"), key="k3", reply_to=None)
        relations = [one.content.get("m.relates_to") for one in bed.front.sent]
        assert relations == [
            None,
            {
                "rel_type": "m.thread",
                "event_id": thread.thread,
                "is_falling_back": True,
                "m.in_reply_to": {"event_id": thread.thread},
            },
            {
                "rel_type": "m.thread",
                "event_id": thread.thread,
                "is_falling_back": False,
                "m.in_reply_to": {"event_id": first.ref},
            },
        ]


async def test_people_and_aliases_are_addresses() -> None:
    async with MatrixBed() as bed:
        platform = bed.connect()
        bed.server.aliases["#team:localhost"] = bed.group
        ann, bob = (Address(platform="matrix", chat=one.id) for one in (bed.ann, bed.bob))
        await bed.bot.call(
            "PUT", "user", bed.bot.id, "account_data", "m.direct", **{ann.chat: [bed.chat.chat]}
        )
        async with running(platform, Inboxes().accept, None):
            known = await platform.send(ann, Body(text="hello Ann"), key="k1", reply_to=None)
            assert known.to == bed.chat
            new = await platform.send(bob, Body(text="hello Bob"), key="k2", reply_to=None)
            again = await platform.send(bob, Body(text="hello again"), key="k3", reply_to=None)
            assert new.to == again.to != bed.chat
            named = Address(platform="matrix", chat="#team:localhost")
            assert (
                await platform.send(named, Body(text="all"), key="k4", reply_to=None)
            ).to.chat == bed.group
            for place in ("nobody", "#none:localhost"):
                with pytest.raises(Refused):
                    wrong = Address(platform="matrix", chat=place)
                    await platform.send(wrong, Body(text="x"), key="k5", reply_to=None)
        listed = bed.server.account_data[(bed.bot.id, "m.direct")]
        assert listed[bob.chat] == [new.to.chat] and listed[ann.chat] == [bed.chat.chat]


async def test_a_button_is_a_number_to_react_with() -> None:
    async with MatrixBed() as bed:
        inboxes = Inboxes()
        platform = bed.connect()
        async with running(platform, inboxes.accept, None):
            await bed._listening()
            buttons = tuple(Button(label=f"<{n}>", value=f"q:{n}") for n in range(12))
            asked = await platform.send(
                bed.chat, Body(text="Which?", buttons=buttons), key="k", reply_to=None
            )
            assert list(bed.front.reactions.values()) == list(KEYS), "there are no more numbers than these"
            assert "1️⃣ <0>" in bed.shown()[0].text
            await bed.ann.react(bed.chat.chat, asked.ref, KEYS[1].replace("\ufe0f", ""))
            await until(lambda: [one.button for one in inboxes.items] == ["q:1"], "it was not pressed")
            await platform.edit(asked, Body(text="It was 1."))
            await bed.ann.react(bed.chat.chat, asked.ref, KEYS[2])
            await until(lambda: len(inboxes.items) == 2, "a reaction is a reaction")
            assert inboxes.items[1].what is InboundKind.REACTION, "the question is over"


async def test_what_was_sent_is_found_and_made_whole() -> None:
    """A life that ended between the question and its numbers, or between the words and their file."""
    async with MatrixBed() as bed:
        buttons = (Button(label="Yes", value="q:yes"), Button(label="No", value="q:no"))
        asked, fake = Body(text="Which?", buttons=buttons), bed.front.homeserver

        async def homeserver(request: Any) -> Any:
            late = "m.reaction" in request.path or "upload" in request.path
            return wrong(502, "M_UNKNOWN", "no") if late else await fake(request)

        async def open_file(file: Attachment) -> bytes:
            return b"x"

        bed.front.homeserver, bed.open_file = homeserver, open_file
        both = Body(text="look", attachments=(Attachment(kind=MediaKind.FILE, ref="x", name="x"),))
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            for key, body in (("k1", asked), ("k2", both)):
                with pytest.raises(Unreachable):
                    await platform.send(bed.chat, body, key=key, reply_to=None)
        bed.front.homeserver = fake
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            found = await platform.find_sent(bed.chat, "k1")
            assert found is not None and list(bed.front.reactions.values()) == list(KEYS[:2])
            assert await platform.find_sent(bed.chat, "k2") is None, "its file is lacking"
            for number in range(120):
                await platform.edit(found, Body(text=f"{number}"))
            assert await platform.find_sent(bed.chat, "k1") == found
            # Somebody else's mark is nobody's.
            mark = {compose.SENT: compose.transaction("k3")}
            await bed.ann.say(bed.chat.chat, "not yours", **mark)
            assert await platform.find_sent(bed.chat, "k3") is None


async def test_reactions_take_each_others_place() -> None:
    async with MatrixBed() as bed:
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            receipt = await platform.send(bed.chat, Body(text="x"), key="k", reply_to=None)
            await platform.react(receipt, "👀")
            await platform.react(receipt, "✅")
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            await platform.react(receipt, "", instead="✅")
            await platform.react(receipt, "", instead="✅")
        events = [one for _, one in bed.server.rooms[bed.chat.chat].events if one["type"] == "m.reaction"]
        assert len(events) == 2 and all("redacted_because" in one["unsigned"] for one in events)


async def test_reactions_are_not_remembered_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "_MOST_ALIVE", 2)
    async with MatrixBed() as bed:
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            sent = [
                await platform.send(bed.chat, Body(text="x"), key=f"k{n}", reply_to=None) for n in range(4)
            ]
            for receipt in sent:
                await platform.react(receipt, "👀")
            assert [*platform._reacted] == [one.ref for one in sent[2:]]
            for receipt in sent:
                await platform.react(receipt, "✅", instead="👀")
        events = [one for _, one in bed.server.rooms[bed.chat.chat].events if one["type"] == "m.reaction"]
        gone = [one for one in events if "redacted_because" in one["unsigned"]]
        assert len(events) == 8 and len(gone) == 4, "one of ours stands at each message"


async def test_a_draft_that_somebody_deleted() -> None:
    async with MatrixBed() as bed:
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            receipt = await platform.send(bed.chat, Body(text="x"), key="k", reply_to=None)
            await until(lambda: bed.front.listening > 0, "it does not listen")
            await bed.ann.call("PUT", "rooms", bed.chat.chat, "redact", receipt.ref, "t1")
            await until(lambda: receipt.ref not in platform._alive, "nobody noticed")
            with pytest.raises(Refused, match="gone"):
                await platform.edit(receipt, Body(text="y"))


# --- invitations ---


async def test_invitations_of_people_who_may_speak() -> None:
    async with MatrixBed() as bed:
        inboxes = Inboxes()
        bed.welcome = {bed.ann.id}
        async with hosted(bed, inboxes):
            await bed._listening()
            theirs = await bed.bob.call("POST", "createRoom", invite=[bed.bot.id])
            told = await bed.ann.call("POST", "createRoom", invite=[bed.bot.id], is_direct=True)
            room = told["room_id"]
            await bed.ann.say(room, "before you came")
            await until(lambda: inboxes.texts == ["before you came"], lambda: f"got {inboxes.texts}")
            await bed.ann.say(room, "and after")
            await until(lambda: len(inboxes.texts) == 2, "it does not listen there")
        assert bed.server.rooms[theirs["room_id"]].membership(bed.bot.id) == "invite", "a stranger's lies"
        assert bed.server.account_data[(bed.bot.id, "m.direct")] == {bed.ann.id: [room]}


@pytest.mark.parametrize(("rule", "joined"), [("everyone", "join"), ("nobody", "invite")])
async def test_rules_for_invitations(rule: str, joined: str) -> None:
    async with MatrixBed() as bed:
        bed.said["MATRIX_INVITES"] = rule
        bed.welcome = {bed.ann.id}
        told = await bed.ann.call("POST", "createRoom", invite=[bed.bot.id])
        async with running(bed.connect(), Inboxes().accept, None):
            await until(lambda: bed.front.listening > 1, "it does not listen")
            assert bed.server.rooms[told["room_id"]].membership(bed.bot.id) == joined


async def test_what_was_said_before_the_invitation_is_not_ours() -> None:
    async with MatrixBed() as bed:
        bed.said["MATRIX_INVITES"] = "everyone"
        inboxes = Inboxes()
        async with hosted(bed, inboxes):
            await bed._listening()
            room = await bed.ann.room(bed.bob, name="Old")
            for number in range(120):
                await bed.ann.say(room, f"old {number}")
            await bed.ann.call("POST", "rooms", room, "invite", user_id=bed.bot.id)
            await bed.ann.say(room, "hermes: hello")
            await until(lambda: len(inboxes.texts) > 0, "it did not come")
            await asyncio.sleep(0.05)
        assert inboxes.texts == ["hello"]


async def test_an_invitation_that_cannot_be_accepted_yet_is_kept() -> None:
    """The stored point stays before it, so that it is told again after a restart."""
    async with MatrixBed() as bed:
        bed.said["MATRIX_INVITES"] = "everyone"
        inboxes = Inboxes()
        async with hosted(bed, inboxes):
            await bed.do(Does.TEXT, "first")
            await until(lambda: inboxes.texts == ["first"], "it did not come")
        fake, broken = bed.front.homeserver, [True]

        async def homeserver(asked: Any) -> Any:
            if broken[0] and "/join/" in asked.path:
                return wrong(502, "M_UNKNOWN", "federation is slow")
            return await fake(asked)

        bed.front.homeserver = homeserver
        told = await bed.bob.call("POST", "createRoom", invite=[bed.bot.id])
        before = inboxes.cursor
        async with running(bed.connect(), inboxes.accept, inboxes.cursor):
            await bed.do(Does.TEXT, "second")
            await until(lambda: inboxes.texts == ["first", "second"], "an invitation stops everything")
        assert inboxes.cursor == before
        broken[0] = False
        async with running(bed.connect(), inboxes.accept, inboxes.cursor):
            place = bed.server.rooms[told["room_id"]]
            await until(lambda: place.membership(bed.bot.id) == "join", "the invitation is lost")
            await until(lambda: inboxes.cursor != before, "the point stays for ever")
        assert inboxes.texts == ["first", "second"]


# --- where it goes on ---


async def test_a_gap_is_filled() -> None:
    async with MatrixBed() as bed:
        inboxes = Inboxes()
        async with hosted(bed, inboxes):
            await bed.do(Does.TEXT, "first")
            await until(lambda: inboxes.texts == ["first"], "it did not come")
        wanted = ["first", *(f"away {number}" for number in range(370))]
        for text in wanted[1:]:
            await bed.ann.say(bed.chat.chat, text)
        async with hosted(bed, inboxes):
            await until(lambda: len(inboxes.texts) >= len(wanted), lambda: f"got {len(inboxes.texts)}")
        assert inboxes.texts == wanted, "all of it, once, in order"


@pytest.mark.parametrize("cursor", ["x99 @hermes:localhost", "s1 @other:localhost", "s1", "nonsense"])
async def test_a_point_that_is_not_known_here(cursor: str) -> None:
    async with MatrixBed() as bed:
        await bed.ann.say(bed.chat.chat, "long ago")
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, cursor):
            await until(lambda: inboxes.cursor is not None, "it does not begin")
            await bed.ann.say(bed.chat.chat, "now")
            await until(lambda: inboxes.texts == ["now"], lambda: f"got {inboxes.texts}")


# --- files ---


@pytest.mark.parametrize(
    "ref",
    [
        "https://localhost/x",
        "mxc://localhost/../x",
        "mxc://localhost",
        "mxc://a b/c",
        "mxc://localhost/x#k",
        "",
    ],
)
async def test_files_come_from_the_homeserver_alone(ref: str) -> None:
    async with MatrixBed() as bed:

        async def sink(piece: bytes) -> None:
            raise AssertionError("nothing comes")

        with pytest.raises(Refused, match="no file of Matrix's"):
            await bed.connect().fetch(ref, sink)
        assert bed.front.asked == []


async def test_older_homeservers_give_files_to_everybody() -> None:
    async with MatrixBed() as bed:
        bed.server.old_media = True
        url = await bed.ann.upload(b"old", "text/plain")
        pieces: list[bytes] = []

        async def sink(piece: bytes) -> None:
            pieces.append(piece)

        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            await platform.fetch(url, sink)
            with pytest.raises(Refused):
                await platform.fetch("mxc://localhost/none", sink)
            with pytest.raises(Refused, match="MATRIX_ENCRYPTION is off"):
                await platform.fetch(f"{url}#{'A' * 43}#{'B' * 22}#{'C' * 43}", sink)
        assert pieces == [b"old"]


async def test_a_file_that_is_too_large() -> None:
    async with MatrixBed() as bed:
        fake = bed.front.homeserver

        async def homeserver(asked: Any) -> Any:
            if "upload" in asked.path:
                return wrong(413, "M_TOO_LARGE", "Upload request body is too large")
            return await fake(asked)

        async def open_file(file: Attachment) -> bytes:
            return bytes(1000)

        bed.front.homeserver, bed.open_file = homeserver, open_file
        file = Attachment(kind=MediaKind.FILE, ref="x", name="big", mime="application/x-no-such-thing")
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            with pytest.raises(Refused, match="too large"):
                await platform.send(bed.chat, Body(attachments=(file,)), key="k", reply_to=None)


# --- encryption, as far as it needs no keys ---


class Keys:
    """Stands for the keys: they come when a test says so."""

    def __init__(self) -> None:
        self.there = False

    async def absorb(self, told: Any) -> None: ...

    async def close(self) -> None: ...

    doubt = ""
    withheld = False

    def is_withheld(self, event: dict[str, Any]) -> bool:
        return self.withheld

    def decrypt(self, room: str, event: dict[str, Any]) -> dict[str, Any] | None:
        if not self.there:
            return None
        return {**event, "type": "m.room.message", "content": json.loads(event["content"]["ciphertext"])}


async def say_locked(bed: MatrixBed, text: str) -> None:
    inner = json.dumps({"msgtype": "m.text", "body": text})
    content = {"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": inner, "session_id": "s"}
    await bed.ann.send(bed.chat.chat, content, "m.room.encrypted")


def with_keys(bed: MatrixBed, keys: Keys) -> MatrixAdapter:
    platform = bed.connect()

    async def opened(me: Any) -> Any:
        return keys

    platform._open_encryption = opened  # type: ignore[method-assign]
    return platform


async def test_a_message_waits_for_its_key_also_over_a_restart() -> None:
    async with MatrixBed() as bed:
        inboxes, keys = Inboxes(), Keys()
        async with running(with_keys(bed, keys), inboxes.accept, None):
            await bed.do(Does.TEXT, "first")
            await until(lambda: inboxes.texts == ["first"], "it did not come")
            before = inboxes.cursor
            await say_locked(bed, "secret")
            await bed.do(Does.TEXT, "third")
            await until(lambda: inboxes.texts == ["first", "third"], "one lock stops everything")
        assert inboxes.cursor == before
        platform = with_keys(bed, keys)
        async with running(platform, inboxes.accept, inboxes.cursor):
            await until(lambda: bool(platform._locked), "it was forgotten")
            keys.there = True
            await bed.do(Does.TEXT, "fourth")
            await until(lambda: len(inboxes.texts) == 4, "it never came")
        assert inboxes.texts == ["first", "third", "secret", "fourth"]
        assert inboxes.cursor != before


async def test_a_key_that_never_comes_is_told() -> None:
    async with MatrixBed() as bed:
        inboxes = Inboxes()
        platform = with_keys(bed, Keys())
        platform.key_seconds, platform.sync_seconds = 0.0, 0.05
        async with running(platform, inboxes.accept, None):
            await bed._listening()
            await say_locked(bed, "secret")
            await bed.ann.say(bed.chat.chat, "did you read it?")
            await until(lambda: len(inboxes.texts) == 2, lambda: f"got {inboxes.texts}")
        assert sorted(inboxes.texts) == sorted([UNREADABLE, "did you read it?"])


async def test_a_key_that_is_withheld_is_not_waited_for() -> None:
    """Matrix 1.18 (MSC4153): programs give no keys to devices that their account does not vouch for, and may
    say so with `m.room_key.withheld`."""
    async with MatrixBed() as bed:
        inboxes, keys = Inboxes(), Keys()
        keys.doubt = "nobody has verified its device"
        platform = with_keys(bed, keys)
        platform.sync_seconds = 0.05
        async with running(platform, inboxes.accept, None):
            await bed._listening()
            assert platform.notice() == keys.doubt
            await say_locked(bed, "secret")
            await until(lambda: bool(platform._locked), "it does not wait")
            keys.withheld = True
            await until(lambda: inboxes.texts == [UNVERIFIED], lambda: f"got {inboxes.texts}")
            assert platform.notice() == f"1 message without a key: {keys.doubt}"


async def test_a_key_that_comes_when_we_are_sent_out_of_the_room() -> None:
    async with MatrixBed() as bed:
        inboxes, keys = Inboxes(), Keys()
        platform = with_keys(bed, keys)
        platform.sync_seconds = 0.05
        async with running(platform, inboxes.accept, None):
            await bed._listening()
            content = {"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "{}", "session_id": "s"}
            await bed.ann.send(bed.group, content, "m.room.encrypted")
            await until(lambda: bool(platform._locked), "it does not wait")
            bed.server.member(bed.group, bed.ann.id, bed.bot.id, "leave")
            keys.there = True
            await bed.do(Does.TEXT, "elsewhere")
            await until(lambda: inboxes.texts == ["elsewhere"], "one room stops everything")
            await until(lambda: not platform._locked and not platform._held, "it is waited for for ever")


async def test_an_encrypted_chat_does_not_end_in_silence() -> None:
    """Element makes direct chats encrypted (`privateShouldBeEncrypted` in its src/utils/rooms.ts)."""
    async with MatrixBed() as bed:
        bed.welcome = {bed.ann.id}
        algorithm = {"algorithm": "m.megolm.v1.aes-sha2"}
        bed.server.add(bed.chat.chat, bed.ann.id, "m.room.encryption", algorithm, state_key="")
        for life in range(2):
            inboxes = Inboxes()
            async with running(bed.connect(), inboxes.accept, None):
                await bed._listening()
                await say_locked(bed, f"secret {life}")
                await bed.bob.say(bed.group, "hello")
                await until(lambda: inboxes.texts == ["hello"], lambda: f"got {inboxes.texts}")  # noqa: B023
        (message,) = bed.shown()
        assert "cannot read encrypted rooms" in message.text, "once, in a room that is not encrypted"
        place = bed.server.rooms[message.chat]
        assert place.membership(bed.ann.id) == "invite" and ("m.room.encryption", "") not in place.state
        bed.server.member(message.chat, bed.ann.id, bed.ann.id, "leave")
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            await bed._listening()
            await say_locked(bed, "still secret")
            await until(lambda: bed.ann.id in platform._answered, "it notices nothing")
        assert len(bed.shown()) == 1 and len(bed.server.rooms) == 3, "who does not want it is left alone"
        bed.welcome = set()
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            await bed._listening()
            await bed.bob.send(
                await bed.bob.room(bed.bot, direct=True), {"ciphertext": "x"}, "m.room.encrypted"
            )
            await until(lambda: bool(platform._unread), "it notices nothing")
            assert platform.notice() == "1 encrypted room not read: MATRIX_ENCRYPTION is off"
        assert len(bed.shown()) == 1, "strangers are told nothing"


async def test_the_default_reads_encrypted_rooms_only_if_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nio", None)
    async with MatrixBed() as bed:
        bed.said["MATRIX_ENCRYPTION"] = ""
        inboxes, platform = Inboxes(), bed.connect()
        assert (platform._mode, platform._chosen) == ("optional", False)
        async with running(platform, inboxes.accept, None):
            await bed.do(Does.TEXT, "in the open")
            await until(lambda: inboxes.texts == ["in the open"], "what needs no keys is not read")
            await say_locked(bed, "secret")
            await until(lambda: bool(platform._unread), "it notices nothing")
            assert "needs matrix-nio" in platform.notice() and "platforms install matrix" in platform.notice()


@pytest.mark.parametrize(
    ("word", "mode"), [("true", "optional"), ("false", "off"), ("Required", "required"), ("off", "off")]
)
def test_words_for_encryption(word: str, mode: str) -> None:
    """hermes-agent says true and false."""
    said = {"MATRIX_HOMESERVER": "x", "MATRIX_ACCESS_TOKEN": "t", "MATRIX_ENCRYPTION": word}
    context = AdapterContext(
        settings=PlatformSettings(), find=lambda name: Secret(said[name]) if name in said else None
    )
    assert MatrixAdapter(context)._mode == mode


async def test_encrypted_rooms_while_encryption_is_off() -> None:
    async with MatrixBed() as bed:
        algorithm = {"algorithm": "m.megolm.v1.aes-sha2"}
        bed.server.add(bed.chat.chat, bed.ann.id, "m.room.encryption", algorithm, state_key="")
        inboxes = Inboxes()
        platform = bed.connect()
        async with running(platform, inboxes.accept, None):
            with pytest.raises(Refused, match="MATRIX_ENCRYPTION is off"):
                await platform.send(bed.chat, Body(text="secret"), key="k", reply_to=None)
            await bed._listening()
            await say_locked(bed, "secret")
            await bed.ann.say(bed.chat.chat, "not secret")
            await until(lambda: inboxes.texts == ["not secret"], lambda: f"got {inboxes.texts}")
        assert bed.shown() == [], "nothing is said in the open where people expect it to be closed"


async def test_encryption_without_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nio", None)
    async with MatrixBed() as bed:
        bed.said["MATRIX_ENCRYPTION"] = "optional"
        with pytest.raises(UserError, match="needs matrix-nio"):
            await bed.connect().run(Inboxes().accept, None)


# --- bad input: one sentence each ---


@pytest.mark.parametrize(
    ("said", "error", "words"),
    [
        ({}, NeedsLogin, "MATRIX_ACCESS_TOKEN"),
        ({"MATRIX_USER_ID": "@a:b"}, NeedsLogin, "MATRIX_PASSWORD"),
        ({"MATRIX_ACCESS_TOKEN": "two words"}, NeedsLogin, "single word"),
        ({"MATRIX_ACCESS_TOKEN": "t", "MATRIX_HOMESERVER": "ftp://x"}, UserError, "MATRIX_HOMESERVER"),
        ({"MATRIX_ACCESS_TOKEN": "t", "MATRIX_INVITES": "some"}, UserError, "MATRIX_INVITES"),
        ({"MATRIX_ACCESS_TOKEN": "t", "MATRIX_ENCRYPTION": "maybe"}, UserError, "MATRIX_ENCRYPTION"),
        ({"MATRIX_ACCESS_TOKEN": "t", "MATRIX_AUTO_THREAD": "maybe"}, UserError, "MATRIX_AUTO_THREAD"),
    ],
)
def test_settings_that_cannot_be(said: dict[str, str], error: type[Exception], words: str) -> None:
    said = {"MATRIX_HOMESERVER": "matrix.invalid", **said}
    with pytest.raises(error, match=words):
        MatrixAdapter(
            AdapterContext(
                settings=PlatformSettings(), find=lambda name: Secret(said[name]) if name in said else None
            )
        )


async def test_a_wrong_token_parks_and_is_never_told(caplog: pytest.LogCaptureFixture) -> None:
    async with MatrixBed() as bed:
        bed.said["MATRIX_ACCESS_TOKEN"] = "syt_wrong_token_of_somebody"
        with caplog.at_level(logging.DEBUG), pytest.raises(NeedsLogin, match="MATRIX_ACCESS_TOKEN") as error:
            await bed.connect().run(Inboxes().accept, None)
        await bed.front.down()
        with pytest.raises(Unreachable, match="cannot be reached") as gone:
            await bed.connect().run(Inboxes().accept, None)
        assert not gone.value.maybe_done
        assert "syt_wrong" not in f"{error.value} {gone.value} {gone.value.__cause__} {caplog.text}"


async def test_a_password_logs_in_once(tmp_path: Path) -> None:
    async with MatrixBed() as bed:
        bed.folder = tmp_path
        bed.said |= {
            "MATRIX_ACCESS_TOKEN": "",
            "MATRIX_USER_ID": bed.bot.id,
            "MATRIX_PASSWORD": "secret of hermes",
        }
        for _ in range(3):
            assert (await bed.connect().check())[0].good
        asked = [one.json for one in bed.front.asked if one.path.endswith("/login")]
        assert len(asked) == 1 and asked[0]["device_id"].startswith("HERMES")
        bed.server.tokens = {key: user for key, user in bed.server.tokens.items() if user != bed.bot.id}
        with pytest.raises(Unreachable, match="ended the login"):
            await bed.connect().check()
        assert (await bed.connect().check())[0].good, "it logs in again"
        bed.said["MATRIX_PASSWORD"] = "wrong"
        with pytest.raises(NeedsLogin, match="MATRIX_PASSWORD") as error:
            await bed.connect().check()
        assert "wrong" not in str(error.value)


@pytest.mark.parametrize(
    ("status", "answer", "error", "words"),
    [
        (403, {"errcode": "M_FORBIDDEN", "error": "not in room"}, Refused, "not in room"),
        (404, {"errcode": "M_NOT_FOUND"}, Refused, "M_NOT_FOUND"),
        (413, None, Refused, "too large"),
        (401, {"errcode": "M_USER_LOCKED", "error": "locked"}, NeedsLogin, "locked"),
        (401, None, NeedsLogin, "MATRIX_ACCESS_TOKEN"),
        (302, None, Unreachable, "HTTP 302"),
        (404, "<html>", Unreachable, "is MATRIX_HOMESERVER right?"),
        (504, "<html>", Unreachable, "HTTP 504"),
    ],
)
def test_refusals(status: int, answer: Any, error: type[Exception], words: str) -> None:
    found = error_for(status, answer)
    assert type(found) is error and words in str(found)


@pytest.mark.parametrize(
    ("answer", "wait", "after"),
    [
        ({"retry_after_ms": 2500}, "9", 2.5),
        ({"retry_after_ms": "soon"}, "9", 9.0),
        ({}, None, 5.0),
        ({"retry_after_ms": -1}, "never", 5.0),
        ({"retry_after_ms": float("nan")}, None, 5.0),
    ],
)
def test_how_long_to_wait(answer: dict[str, Any], wait: str | None, after: float) -> None:
    found = error_for(429, {"errcode": "M_LIMIT_EXCEEDED", **answer}, wait)
    assert isinstance(found, Unreachable) and found.after == after


async def test_a_sync_that_cannot_be_read() -> None:
    async with MatrixBed() as bed:
        fake = bed.front.homeserver

        async def homeserver(asked: Any) -> Any:
            if "since" in asked.query:
                return wrong(200, "none", "no sync at all")
            return await fake(asked)

        bed.front.homeserver = homeserver
        with pytest.raises(Unreachable, match="where we are"):
            await bed.connect().run(Inboxes().accept, None)


async def test_the_check_says_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    async with MatrixBed() as bed:
        found, encryption = await bed.connect().check()
        assert encryption.good and "off" in encryption.text
        algorithm = {"algorithm": "m.megolm.v1.aes-sha2"}
        bed.server.add(bed.chat.chat, bed.ann.id, "m.room.encryption", algorithm, state_key="")
        count = (await bed.connect().check())[-1]
        assert count.good and count.text == "1 of its 2 rooms are encrypted and not read."
        bed.said["MATRIX_ENCRYPTION"] = ""
        monkeypatch.setattr("hermes.entry.platforms.matrix.encryption.find_spec", lambda name: None)
        count = (await bed.connect().check())[-1]
        assert (
            not count.good
            and "MATRIX_ENCRYPTION optional" in count.hint
            and "platforms install matrix" in count.hint
        )
        bed.said["MATRIX_ENCRYPTION"] = "off"
        assert found.good and "@hermes:localhost, in 2 rooms" in found.text
        for room in bed.server.rooms:
            bed.server.member(room, bed.ann.id, bed.bot.id, "leave")
        assert [one.good for one in await bed.connect().check()] == [True, True, True]
        bed.said["MATRIX_ENCRYPTION"] = "required"
        assert (await bed.connect().check())[-1].hint == "hermes platforms install matrix"


async def test_faults_of_one_room_are_not_anothers() -> None:
    async with MatrixBed() as bed:
        platform = bed.connect()
        here, there = bed.chats(2)
        bed.fail(Fault.GONE, times=99, chat=here)
        async with running(platform, Inboxes().accept, None):
            with pytest.raises(Refused, match="M_FORBIDDEN"):
                await platform.send(here, Body(text="x"), key="k", reply_to=None)
            await platform.send(there, Body(text="x"), key="k", reply_to=None)
