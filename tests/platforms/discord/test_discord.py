"""Discord: the suite that every adapter passes, with sessions that last and without, and what is its own."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import logging
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.chats.address import Address, SourceKind
from hermes.domain.chats.capabilities import MenuEntry
from hermes.domain.chats.message import Attachment, Body, Button, Inbound, InboundKind, MediaKind
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.word import replace
from hermes.entry.platforms.discord.adapter import DiscordAdapter
from hermes.entry.platforms.discord.api import DiscordApi, DiscordResponse, _route, agent_of, error_for
from hermes.entry.platforms.discord.convert import (
    DiscordChannel,
    DiscordContext,
    components,
    is_snowflake,
    nonce,
    ogg_seconds,
    to_inbounds,
)
from hermes.entry.platforms.discord.cursor import DiscordCursor
from hermes.entry.platforms.discord.socket import (
    DiscordEvent,
    DiscordSessionEnded,
    close_error,
    own_gateway,
)
from hermes.testing.clock import FakeClock
from hermes.testing.platform_suite import (
    CHECKS,
    PATIENCE,
    RECEIVING,
    Check,
    Does,
    Fault,
    Inboxes,
    conform,
    hosted,
    running,
    until,
)
from hermes.testing.platform_suite.payloads import _mutated
from tests.platforms.discord.bed import ME, DiscordBed, ForgetfulBed
from tests.platforms.discord.objects import APPLICATION, BOT, FORUM, GENERAL, GUILD, THREAD, guild_of
from tests.platforms.discord.samples import EVENTS, NUMBER, ROLE, buttons
from tests.platforms.discord.server import TOKEN, Wrong

NOW = datetime(2026, 11, 16, tzinfo=UTC)
MIB = 1024 * 1024
HERE = DiscordContext(me=ME, place=DiscordChannel(name="general"), guild=GUILD, mine=frozenset({ROLE}))
INSIDE = replace(HERE, place=DiscordChannel(name="plans", parent=GENERAL))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_discord_conforms(check: Check, full: bool) -> None:
    await conform(check, DiscordBed, full=full)


@pytest.mark.parametrize("check", RECEIVING[:-1], ids=lambda check: check.__name__)
async def test_discord_conforms_without_sessions(check: Check, full: bool) -> None:
    await conform(check, ForgetfulBed, full=full)


# --- what people do ---


def one(name: str, scene: DiscordContext = HERE) -> Inbound:
    (found,) = to_inbounds(EVENTS[name], scene)
    return found


@pytest.mark.parametrize(
    ("name", "text", "mentioned"),
    [
        ("text", "hello 😀 <b>there", False),
        ("mention first", "what now?", True),
        ("mention old", "what now?", True),
        ("mention", "hi @Hermes and @Bob", True),
        ("mention by role", "what now?", True),
        ("mention of another", "@Bob what now?", False),
        ("typed command", "/status now", True),
        ("command", "/status now", False),
        ("bare command", "/new", False),
        ("sticker", "[Sticker: Wave]", False),
        ("poll", "[Poll: Tea? (yes, no)]", False),
        ("forwarded", "[Forwarded] old words", False),
        ("box", "Build 7\nfailed", False),
    ],
)
def test_words_and_mentions(name: str, text: str, mentioned: bool) -> None:
    assert (one(name).text, one(name).mentions_me) == (text, mentioned)


@pytest.mark.parametrize(
    ("name", "others", "bots"),
    [
        ("mention of another", True, False),
        ("mention of a bot", True, True),
        ("mention", True, False),
        ("reply", False, False),
        ("reply to us about another", False, False),
        ("shared", False, False),
    ],
)
def test_who_else_is_named(name: str, others: bool, bots: bool) -> None:
    """Another bot always counts, people unless the operator says otherwise. Who is answered is not named."""
    assert one(name).mentions_others is others
    lenient = replace(HERE, me=replace(ME, leaves_others=False))
    assert one(name, lenient).mentions_others is bots


@pytest.mark.parametrize(
    ("name", "kind", "mime"),
    [
        ("image", MediaKind.IMAGE, "image/png"),
        ("voice", MediaKind.VOICE, "audio/ogg"),
        ("audio", MediaKind.AUDIO, "audio/mpeg"),
        ("video", MediaKind.VIDEO, "video/mp4"),
        ("file", MediaKind.FILE, "text/plain"),
        ("unknown file", MediaKind.FILE, None),
        ("forwarded file", MediaKind.IMAGE, "image/png"),
    ],
)
def test_files(name: str, kind: MediaKind, mime: str | None) -> None:
    (file,) = one(name).attachments
    assert (file.kind, file.mime, file.size) == (kind, mime, 1234)
    assert "http" not in file.ref, "an address that ends after a day is of no use tomorrow"


def test_places_and_people() -> None:
    private = one("text", DiscordContext(me=ME)).source
    assert (private.kind, private.user_name, private.guild) == (SourceKind.PRIVATE, "Ann", None)
    shared = one("shared").source
    assert (shared.kind, shared.user_name, shared.roles) == (SourceKind.GROUP, "Annie", (ROLE,))
    assert (shared.chat_name, shared.guild) == ("general", GUILD)
    thread = one("thread", INSIDE).source
    assert thread.address == Address(platform="discord", chat=GENERAL, thread=THREAD)
    assert (thread.kind, thread.parent_chat) == (SourceKind.THREAD, GENERAL)
    assert one("button in a thread").source.address == thread.address
    assert one("of a bot").source.is_bot and one("of a webhook").source.is_bot


def test_other_happenings() -> None:
    assert one("reply to us").reply_to is not None and one("reply to us").reply_to.mine
    assert one("reply").reply_to is not None and not one("reply").reply_to.mine
    assert one("reply to nothing").reply_to.ref == "1306"
    assert one("edit").what is InboundKind.EDIT and one("edit").delivery != one("text").delivery
    assert (one("reaction").what, one("reaction").text) == (InboundKind.REACTION, "👍")
    assert (one("button").what, one("button").button, one("button").ref) == (
        InboundKind.BUTTON,
        "q_1:yes",
        "1306",
    )
    for name, ref in (("deleted", 1), ("deleted here", 2)):
        gone = one(name)
        assert (gone.what, gone.ref, gone.source.user) == (InboundKind.DELETED, str(NUMBER + ref), None)
    assert one("deleted").delivery not in (one("text").delivery, one("edit").delivery)
    many = to_inbounds(EVENTS["many deleted"], HERE)
    assert [(gone.what, gone.ref) for gone in many] == [
        (InboundKind.DELETED, str(NUMBER + at)) for at in (3, 4)
    ]
    for name in ("ours", "unfurled", "service", "our reaction", "completion", "other"):
        assert to_inbounds(EVENTS[name], HERE) == (), name


# --- buttons, voice, nonces ---


def test_long_values_are_told_by_their_label() -> None:
    first, second = "a choice of many words " * 3, "another choice of many words " * 2
    start = "q_" + "0" * 60 + ":"
    shown = [Button(label=label, value=start + label) for label in (first, second)]
    (row,) = components([*shown, Button(label="x", value="y" * 101), Button(label="", value="z")])
    ids = [button["custom_id"] for button in row["components"]]
    assert len(set(ids)) == 2 and all(len(data) <= 100 for data in ids)
    pressed = EVENTS["button"]["d"]
    message = {**pressed["message"], "components": buttons((first, ids[0]), (second, ids[1]))}
    event = {"t": "INTERACTION_CREATE", "d": {**pressed, "message": message, "data": {"custom_id": ids[1]}}}
    assert to_inbounds(event, HERE)[0].button == start + second


def test_many_buttons_stand_in_rows_of_five() -> None:
    rows = components([Button(label=str(n), value=str(n)) for n in range(40)])
    assert [len(row["components"]) for row in rows] == [5] * 5


def test_a_nonce_is_short_and_a_chats_own() -> None:
    here, there = (Address(platform="discord", chat=chat) for chat in ("1", "2"))
    assert len(nonce(here, "k")) == 25 and nonce(here, "k") == nonce(here, "k")
    assert len({nonce(here, "k"), nonce(there, "k"), nonce(here, "l")}) == 3


def test_the_length_of_a_recording() -> None:
    page = b"OggS\x00\x04" + (48_000 * 3).to_bytes(8, "little") + bytes(20)
    assert ogg_seconds(b"OggS" + bytes(40) + page) == 3.0
    assert ogg_seconds(b"no ogg at all" * 1000) == 3.25
    assert ogg_seconds(b"") == 0.1


async def test_commands_and_buttons_are_answered_and_a_menu_is_shown() -> None:
    async with DiscordBed() as bed:
        inboxes, platform = Inboxes(), bed.connect()
        async with running(platform, inboxes.accept, None):
            body = Body(text="May I?", buttons=(Button(label="Yes", value="q_1:yes"),))
            asked = await platform.send(bed.chat, body, key="k", reply_to=None)
            await bed.do(Does.BUTTON, "q_1:yes", on=asked.ref)
            await bed.do(Does.COMMAND, "/status now")
            await until(lambda: len(bed.server.answered) == 2, "Discord shows a failure")
            assert [said["type"] for _, said in bed.server.answered] == [6, 4]
            assert bed.server.answered[1][1]["data"] == {"flags": 64, "content": "✓ /status now"}
            entries = [MenuEntry(name=name, summary="what it does") for name in ("status", "Not One")]
            await platform.show_menu([*entries, MenuEntry(name="ask", summary="x", takes_text=True)])
            assert [(one["name"], len(one["options"])) for one in bed.server.commands] == [
                ("status", 0),
                ("ask", 1),
            ]


async def test_an_interaction_is_stored_before_it_is_answered() -> None:
    async with DiscordBed() as bed:
        gate = asyncio.Event()

        async def accept(items: Sequence[Inbound], cursor: str | None) -> None:
            if items:
                await gate.wait()

        async with running(bed.connect(), accept, None):
            await bed.do(Does.COMMAND, "/status")
            await asyncio.sleep(0.1)
            assert bed.server.answered == []
            gate.set()
            await until(lambda: len(bed.server.answered) == 1, "never answered")


async def test_a_reaction_is_taken_back() -> None:
    async with DiscordBed() as bed:
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            sent = await platform.send(bed.chat, Body(text="x"), key="k", reply_to=None)
            await platform.react(sent, "👀")
            await platform.react(sent, "", instead="👀")
        assert bed.server.sent[0].message["reactions"] == []


async def test_threads_and_forums() -> None:
    async with DiscordBed() as bed:
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            general = Address(platform="discord", chat=GENERAL)
            thread = await platform.open_thread(general, "Plans " * 40)
            sent = await platform.send(thread, Body(text="in it"), key="k", reply_to=None)
            await platform.edit(sent, Body(text="still in it"))
            post = await platform.open_thread(Address(platform="discord", chat=FORUM), "Idea")
            assert post.chat == FORUM and bed.server.channels[post.thread]["type"] == 11
            with pytest.raises(Refused, match="no threads"):
                await platform.open_thread(bed.chat, "none here")
        assert [(one.chat, one.text) for one in bed.shown()] == [(thread.thread, "still in it")]


async def test_a_thread_hangs_on_a_message_where_it_may_not_stand_alone() -> None:
    async with DiscordBed() as bed:
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            general = Address(platform="discord", chat=GENERAL)
            bed.server.threads_from_messages.add(GENERAL)
            thread = await platform.open_thread(general, "Plans @everyone")
            await platform.send(thread, Body(text="in it"), key="k", reply_to=None)
            assert [(one.chat, one.text) for one in bed.shown()] == [
                (GENERAL, "Plans @everyone"), (thread.thread, "in it")
            ]  # fmt: skip
            bed.server.no_threads.add(GENERAL)
            with pytest.raises(Refused):
                await platform.open_thread(general, "No more")
            assert "No more" not in [one.text for one in bed.shown()]


async def test_voice_with_words_goes_as_a_file() -> None:
    async with DiscordBed() as bed:

        async def open_file(file: Attachment) -> bytes:
            return bed.content

        bed.open_file = open_file
        platform = bed.connect()
        voice = Attachment(kind=MediaKind.VOICE, ref="x", name="a.ogg", mime="audio/ogg")
        async with running(platform, Inboxes().accept, None):
            await platform.send(bed.chat, Body(text="listen", attachments=(voice,)), key="k", reply_to=None)
            await platform.send(bed.chat, Body(attachments=(voice,)), key="l", reply_to=None)
        assert [one.files[0][0] for one in bed.shown()] == [MediaKind.AUDIO, MediaKind.VOICE]


@pytest.mark.parametrize(("status", "code"), [(403, 50013), (403, 50173), (400, 50173)])
async def test_voice_goes_as_a_file_where_voice_messages_are_not_allowed(status: int, code: int) -> None:
    async with DiscordBed() as bed:

        async def open_file(file: Attachment) -> bytes:
            return bed.content

        bed.open_file = open_file
        bed.server.no_voice = Wrong(status, code, "You cannot send voice messages in this channel")
        voice = Attachment(kind=MediaKind.VOICE, ref="x", name="a.ogg", mime="audio/ogg")
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            await platform.send(bed.chat, Body(attachments=(voice,)), key="k", reply_to=None)
        assert [one.files for one in bed.shown()] == [((MediaKind.AUDIO, bed.content),)]


@pytest.mark.parametrize("chat", ["@502", "502"])
async def test_a_person_is_reached_by_a_private_chat(chat: str) -> None:
    """By the number that Discord's programs give, with or without the sign before it."""
    async with DiscordBed() as bed:
        platform, to = bed.connect(), Address(platform="discord", chat=chat)
        async with running(platform, Inboxes().accept, None):
            first = await platform.send(to, Body(text="one"), key="k1", reply_to=None)
            again = await platform.send(to, Body(text="one"), key="k1", reply_to=None)
            await platform.edit(first, Body(text="uno"))
            second = await platform.send(to, Body(text="two"), key="k2", reply_to=None)
        assert (first, first.to.chat, second.to.chat) == (again, "9502", "9502")
        assert [(one.chat, one.text) for one in bed.shown()] == [("9502", "uno"), ("9502", "two")]
        asked = [path for _, path, _ in bed.server.calls if path == "users/@me/channels"]
        assert len(asked) == 1, "it is asked for once"


@pytest.mark.parametrize(("chat", "words"), [("@404", "Invalid Recipient"), ("404", "Unknown Channel")])
async def test_a_number_that_is_nobodys_is_refused(chat: str, words: str) -> None:
    async with DiscordBed() as bed:
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            with pytest.raises(Refused, match=words):
                await platform.send(
                    Address(platform="discord", chat=chat), Body(text="x"), key="k", reply_to=None
                )
        assert bed.shown() == []


async def test_a_person_who_takes_no_messages_is_told_as_such() -> None:
    async with DiscordBed() as bed:
        bed.fail(Fault.GONE, chat=Address(platform="discord", chat="9502"))
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            with pytest.raises(Refused, match="Cannot send messages to this user"):
                await platform.send(
                    Address(platform="discord", chat="502"), Body(text="x"), key="k", reply_to=None
                )


async def test_a_forum_that_wants_a_tag_gets_one() -> None:
    async with DiscordBed() as bed:
        tags = [{"id": "61", "name": "admins", "moderated": True}, {"id": "62", "name": "all"}]
        bed.server.channels[FORUM] |= {"flags": 1 << 4, "available_tags": tags}
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            post = await platform.open_thread(Address(platform="discord", chat=FORUM), "An idea")
        assert post.thread in bed.server.channels
        assert bed.server.calls[-1][2]["applied_tags"] == ["62"]


async def test_a_forwarded_file_is_fetched() -> None:
    async with DiscordBed() as bed:
        got: list[bytes] = []

        async def sink(piece: bytes) -> None:
            got.append(piece)

        platform, inboxes = bed.connect(), Inboxes()
        async with running(platform, inboxes.accept, None):
            await until(lambda: bed.server.met > 0, "it never came")
            picture = bed.server.keep_file(bed.content, "a.png", "image/png")
            bed.server.say(
                "501", "", message_snapshots=[{"message": {"content": "", "attachments": [picture]}}]
            )
            await until(lambda: len(inboxes.items) == 1, "it never came")
            await platform.fetch(inboxes.items[0].attachments[0].ref, sink)
        assert b"".join(got) == bed.content


async def test_everybody_is_not_woken() -> None:
    async with DiscordBed() as bed:
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            await platform.send(bed.chat, Body(text="@everyone"), key="k", reply_to=None)
        asked = next(asked for method, path, asked in bed.server.calls if path.endswith("/messages"))
        assert asked["allowed_mentions"]["parse"] == ["users"]


# --- the gateway ---


async def test_a_session_is_taken_up_again_and_not_ended_by_us() -> None:
    async with DiscordBed() as bed:
        inboxes = Inboxes()
        for number in range(3):
            async with hosted(bed, inboxes):
                await bed.do(Does.TEXT, f"number {number}")
                await until(lambda: len(inboxes.items) == number + 1, "it never came")  # noqa: B023
        assert (bed.server.identified, bed.server.resumed) == (1, 2)


@pytest.mark.parametrize("way", ["reconnect", "invalid", "resumable", "4009", "4007", "4000", "beat"])
async def test_ways_in_which_a_connection_ends(way: str) -> None:
    async with DiscordBed() as bed:
        inboxes = Inboxes()
        async with hosted(bed, inboxes):
            await bed.do(Does.TEXT, "first")
            await until(lambda: inboxes.texts == ["first"], "the first message is missing")
            server = bed.server
            match way:
                case "reconnect":
                    await server.ask_all(7)
                case "invalid" | "resumable":
                    await server.ask_all(9, way == "resumable")
                case "beat":
                    await server.ask_all(1)
                case _:
                    await server.hang_up(int(way))
            if way in ("4009", "4007", "invalid"):
                server.sessions.clear()
            await bed.do(Does.TEXT, "second")
            await until(lambda: inboxes.texts == ["first", "second"], "the second message is missing")


async def test_unanswered_heartbeats_end_it() -> None:
    async with DiscordBed() as bed:
        bed.server.beats, bed.server.silent = 5000.0, True
        with pytest.raises(Unreachable, match="heartbeats"):
            await bed.connect().run(Inboxes().accept, None)


async def test_answered_heartbeats_are_a_sign_of_life() -> None:
    async with DiscordBed() as bed:
        bed.server.beats = 2000.0
        inboxes, platform, clock = Inboxes(), bed.connect(), FakeClock()
        platform._context = replace(platform._context, clock=clock)
        async with running(platform, inboxes.accept, None):
            await until(lambda: bed.server.met > 0 and clock.sleepers > 0, "it never came")
            for _ in range(5):
                before = inboxes.batches
                await clock.advance(2.0)
                await until(lambda: inboxes.batches > before, "no sign of life")  # noqa: B023


async def test_whatever_the_gateway_says_the_error_is_ours(full: bool) -> None:
    async with DiscordBed() as bed:
        platform, dice = bed.connect(), random.Random(7)
        platform._mark = DiscordCursor(began=1, newest=1)
        guild = guild_of(bed.server.channels, [ROLE])
        ready = {"session_id": "s", "resume_gateway_url": bed.server.gateway_url, "guilds": [{"id": GUILD}]}
        told = {"READY": ready, "GUILD_CREATE": guild, "GUILD_DELETE": {"id": GUILD}}
        told |= {"THREAD_CREATE": bed.server.channels[THREAD]}
        told |= {event["t"]: event["d"] for event in EVENTS.values()}
        inboxes = Inboxes()
        for _ in range(3000 if full else 300):
            name = dice.choice(list(told))
            event = DiscordEvent(name=name, number=5, data=_mutated(copy.deepcopy(told[name]), dice))
            with contextlib.suppress(HermesError):
                await platform._hear(inboxes.accept, event, bed.server.gateway_url, NOW)
        await platform.api.close()


async def test_one_identify_a_connection() -> None:
    async with DiscordBed() as bed:
        task = asyncio.create_task(bed.connect().run(Inboxes().accept, None))
        await until(lambda: bed.server.identified > 0, "never there")
        await bed.server.ask_all(9, False)
        with pytest.raises(Unreachable, match="ended the session"):
            await task
        assert bed.server.identified == 1


@pytest.mark.parametrize("code", [1000, 1001, 4000])
async def test_a_session_that_discord_does_not_take_up_is_given_up(code: int) -> None:
    """It may close without a word, for hours: then a new session begins, and what was missed is read. Each
    connection is of a new adapter, as after a restart: the tries are counted in the cursor."""
    async with DiscordBed() as bed:
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, None):
            await bed.do(Does.TEXT, "first")
            await until(lambda: inboxes.texts == ["first"], "the first message is missing")
        bed.server.drops_resumes = code
        bed.server.say("501", "missed")
        for _ in range(3):
            with pytest.raises(Unreachable, match="closed the connection"):
                await bed.connect().run(inboxes.accept, inboxes.cursor)
        assert bed.server.identified == 1
        async with running(bed.connect(), inboxes.accept, inboxes.cursor):
            await until(lambda: inboxes.texts == ["first", "missed"], "it never came back")
        assert bed.server.identified == 2
        bed.server.drops_resumes = None
        async with running(bed.connect(), inboxes.accept, inboxes.cursor):
            await until(lambda: bed.server.resumed == 1, "the new session is not taken up")


async def test_a_host_of_sessions_that_is_gone_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = DiscordApi.connect

    async def reach(api: DiscordApi, url: str, **more: Any) -> Any:
        if "gone.discord.gg" in url:
            raise Unreachable("Name or service not known")
        return await connect(api, url, **more)

    monkeypatch.setattr(DiscordApi, "connect", reach)
    async with DiscordBed() as bed:
        inboxes = Inboxes()
        cursor = DiscordCursor(session="s", number=1, url="wss://gone.discord.gg", began=1, newest=1)
        inboxes.cursor = cursor.cursor()
        for _ in range(3):
            with pytest.raises(Unreachable, match="Name or service"):
                await bed.connect().run(inboxes.accept, inboxes.cursor)
        async with running(bed.connect(), inboxes.accept, inboxes.cursor):
            await until(lambda: bed.server.identified == 1, "it never came back")


async def test_a_session_that_works_may_be_taken_up_as_often_as_it_takes() -> None:
    async with DiscordBed() as bed:
        inboxes = Inboxes()
        for number in range(6):
            async with running(bed.connect(), inboxes.accept, inboxes.cursor):
                await until(lambda: bed.server.identified + bed.server.resumed > number, "it never came")  # noqa: B023
                await bed.do(Does.TEXT, f"number {number}")
                await until(lambda: len(inboxes.items) == number + 1, "it never heard")  # noqa: B023
        assert (bed.server.identified, bed.server.resumed) == (1, 5)


async def test_what_cannot_be_understood_ends_it() -> None:
    async with DiscordBed() as bed:
        task = asyncio.create_task(bed.connect().run(Inboxes().accept, None))
        await until(lambda: bed.server.identified > 0, "never there")
        for session in bed.server.sessions.values():
            await session.socket.socket.send_bytes(b"no zlib\x00\x00\xff\xff")
        with pytest.raises(Unreachable, match="understood"):
            await task


@pytest.mark.parametrize(
    ("url", "known", "good"),
    [
        ("wss://gateway-us-east1-b.discord.gg", "wss://gateway.discord.gg", True),
        ("wss://gateway.discord.gg:443/", "wss://gateway.discord.gg", True),
        ("ws://gateway.discord.gg", "wss://gateway.discord.gg", False),
        ("wss://discord.gg.example.invalid", "wss://gateway.discord.gg", False),
        ("wss://a@evil.invalid/.discord.gg", "wss://gateway.discord.gg", False),
        ("ws://127.0.0.1:5", "ws://127.0.0.1:5", True),
        (None, "wss://gateway.discord.gg", False),
        ("wss://[bad", "wss://gateway.discord.gg", False),
    ],
)
def test_the_token_goes_to_discord_alone(url: object, known: str, good: bool) -> None:
    assert (own_gateway(url, known) is not None) == good


# --- what was missed ---


async def test_channels_threads_and_unknown_chats_are_read_after_a_gap() -> None:
    async with ForgetfulBed() as bed:
        bed.server.channel("777")
        bed.settings = PlatformSettings(allowed_users=("777",), allowed_roles=(ROLE,))
        inboxes = Inboxes()
        async with hosted(bed, inboxes):
            await bed.do(Does.TEXT, "first")
            await until(lambda: inboxes.texts == ["first"], "the first message is missing")
        bed.server.say(GENERAL, f"<@{BOT['id']}> to all", mentions=[BOT])
        for number in range(150):
            bed.server.say(THREAD, f"thread {number}")
        bed.server.say("777", "I never wrote before", user="777")
        async with hosted(bed, inboxes):
            await until(lambda: len(inboxes.items) == 153, lambda: f"only {len(inboxes.items)}")
        found = {item.text: item for item in inboxes.items}
        assert found["to all"].source.roles == (ROLE,) and found["to all"].mentions_me
        assert found["thread 149"].source.address == Address(platform="discord", chat=GENERAL, thread=THREAD)
        assert [item.text for item in inboxes.items if item.source.address.thread == THREAD] == [
            f"thread {number}" for number in range(150)
        ]
        assert found["I never wrote before"].source.kind is SourceKind.PRIVATE


async def test_a_thread_that_was_put_away_is_read_too() -> None:
    async with ForgetfulBed() as bed:
        inboxes = Inboxes()
        async with hosted(bed, inboxes):
            await bed.do(Does.THREAD, "first")
            await until(lambda: inboxes.texts == ["first"], "the first message is missing")
        bed.server.say(THREAD, "second")
        bed.server.channels[THREAD]["thread_metadata"]["archived"] = True
        async with hosted(bed, inboxes):
            await until(lambda: inboxes.texts == ["first", "second"], "the second message is missing")


async def test_a_crash_in_the_middle_of_a_gap_loses_nothing() -> None:
    """Until everything is read the cursor names no session, so the next start reads again."""
    async with DiscordBed() as bed:
        inboxes = Inboxes()
        async with hosted(bed, inboxes):
            await bed.do(Does.TEXT, "first")
            await until(lambda: inboxes.texts == ["first"], "the first message is missing")
        wanted = {"first"}
        for number in range(120):
            bed.server.say(GENERAL, f"all {number}")
            bed.server.say(THREAD, f"thread {number}")
            wanted |= {f"all {number}", f"thread {number}"}
        bed.server.sessions.clear()

        async def dies(items: Sequence[Inbound], cursor: str | None) -> None:
            await inboxes.accept(items, cursor)
            if items:
                raise Unreachable("killed")

        for _ in range(20):
            with contextlib.suppress(HermesError):
                async with asyncio.timeout(PATIENCE):
                    await bed.connect().run(dies, inboxes.cursor)
            assert "session" not in json.loads(inboxes.cursor or "")
        async with hosted(bed, inboxes):
            await until(lambda: set(inboxes.texts) == wanted, lambda: f"only {len(inboxes.items)}")
            await until(lambda: "session" in json.loads(inboxes.cursor or ""), "never in order again")


async def test_no_history_is_no_reason_to_stop() -> None:
    async with ForgetfulBed() as bed:
        inboxes = Inboxes()
        async with hosted(bed, inboxes):
            await bed.do(Does.TEXT, "first")
            await until(lambda: inboxes.texts == ["first"], "the first message is missing")
        del bed.server.channels["501"]
        bed.server.say(GENERAL, "still here")
        async with hosted(bed, inboxes):
            await until(lambda: inboxes.texts == ["first", "still here"], "it stopped")


@pytest.mark.parametrize(
    "cursor", [None, "", "x", "[]", '{"newest": "x"}', '{"directs": 5}', '{"session": 7}']
)
def test_a_cursor_that_cannot_be_read_begins_anew(cursor: str | None) -> None:
    assert DiscordCursor.read(cursor).is_new and DiscordCursor.read(cursor).session is None


def test_the_chats_that_are_remembered_have_an_end() -> None:
    mark = DiscordCursor(began=1)
    for number in (*range(300), 150):
        mark.directs[str(number)] = str(number)
    assert len(mark.directs) == 200 and list(mark.directs)[-1] == "150" and "0" not in mark.directs
    assert DiscordCursor.read(mark.cursor()).directs == mark.directs


# --- pace ---


async def test_a_used_up_limit_is_waited_for() -> None:
    async with DiscordBed() as bed:
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            clock = platform._context.clock
            bed.server.remaining["501"] = 0
            before = clock.monotonic()
            await platform.send(bed.chat, Body(text="last"), key="k1", reply_to=None)
            await platform.send(bed.chat, Body(text="next"), key="k2", reply_to=None)
            assert clock.monotonic() - before >= 0.999, "Discord said that there is nothing left"


def test_the_agent_is_as_discord_wants_it() -> None:
    """`DiscordBot ($url, $versionNumber)`: discord-api-docs, reference, “User Agent”."""
    assert agent_of(TOKEN) == "DiscordBot (https://discord.com/users/123456789012345678, 1)"
    for token in ("", "x", "!.x.y", "aGVsbG8.x.y"):
        assert agent_of(token) == "DiscordBot (https://discord.com, 1)"


async def test_putting_and_taking_a_reaction_share_a_limit_and_interactions_are_free_of_that_of_all() -> None:
    api = DiscordApi("x", "http://127.0.0.1:9", None, FakeClock())
    used_up = DiscordResponse(
        status=204,
        answer=None,
        headers={"X-RateLimit-Remaining": "0", "X-RateLimit-Reset-After": "30"},
    )
    path = "/channels/1/messages/2/reactions"
    api._remember(_route("PUT", f"{path}/a/@me"), used_up)
    with pytest.raises(Unreachable, match="slower"):
        await api._wait_for(_route("DELETE", f"{path}/b/@me"))
    await api._wait_for(_route("DELETE", "/channels/1/messages/2"))
    everywhere = DiscordResponse(
        status=429, answer={"retry_after": 30.0, "global": True}, headers={"X-RateLimit-Scope": "global"}
    )
    api._remember("GET /users/@me", everywhere)
    with pytest.raises(Unreachable, match="slower"):
        await api._wait_for(_route("DELETE", "/channels/1/messages/2"))
    await api._wait_for(_route("POST", "/interactions/1/token/callback"))


async def test_routes_share_the_limit_that_discord_says_they_share() -> None:
    """By the bucket it names, and for each channel apart; not by how a path looks."""
    api = DiscordApi("x", "http://127.0.0.1:9", None, FakeClock())
    used = {"X-RateLimit-Bucket": "b1", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset-After": "30"}
    free = {"X-RateLimit-Bucket": "b1", "X-RateLimit-Remaining": "4"}
    post, edit = _route("POST", "/channels/1/messages"), _route("PATCH", "/channels/1/messages/2")
    api._remember(edit, DiscordResponse(status=200, answer={}, headers=free))
    api._remember(
        _route("PATCH", "/channels/9/messages/2"), DiscordResponse(status=200, answer={}, headers=free)
    )
    api._remember(post, DiscordResponse(status=200, answer={}, headers=used))
    with pytest.raises(Unreachable, match="slower"):
        await api._wait_for(edit)
    await api._wait_for(_route("PATCH", "/channels/9/messages/3"))
    await api._wait_for(_route("DELETE", "/channels/1/messages/2"))


async def test_a_limit_of_all_stops_all() -> None:
    async with DiscordBed() as bed:
        platform = bed.connect()
        here, there = bed.chats(2)
        async with running(platform, Inboxes().accept, None):
            clock = platform._context.clock
            bed.fail(Fault.TOO_FAST_ALL, chat=here)
            before = clock.monotonic()
            with pytest.raises(Unreachable):
                await platform.send(here, Body(text="x"), key="k", reply_to=None)
            await platform.send(there, Body(text="x"), key="k", reply_to=None)
            assert clock.monotonic() - before >= 2.999


@pytest.mark.parametrize(
    ("status", "answer", "headers", "wait", "everywhere"),
    [
        (429, {"retry_after": 30.0, "global": False}, {"X-RateLimit-Scope": "user"}, 30.0, False),
        (429, {"retry_after": 30.0, "global": False}, {"X-RateLimit-Scope": "shared"}, 30.0, False),
        (429, {"retry_after": 30.0, "global": True}, {}, 30.0, True),
        (429, {"retry_after": 30.0}, {"X-RateLimit-Scope": "global"}, 30.0, True),
        (429, None, {"Retry-After": "900"}, 900.0, True),
        (429, {"message": "You are being blocked", "code": 0}, {}, 60.0, True),
        (403, None, {}, 60.0, True),
        (403, {"message": "internal network error", "code": 40333}, {}, 60.0, True),
        (403, {"message": "Missing Access", "code": 50001}, {}, None, False),
    ],
)
async def test_what_a_limit_is_of(
    status: int, answer: object, headers: dict[str, str], wait: float | None, everywhere: bool
) -> None:
    rest = DiscordApi("token", "http://127.0.0.1:9", None, FakeClock())
    told = DiscordResponse(status=status, answer=answer, headers=headers)
    here, there = "POST channels/1/messages", "GET channels/2"
    rest._remember(here, told)
    assert getattr(told.error, "after", None) == wait
    for route, waits in ((here, wait is not None), (there, everywhere)):
        with pytest.raises(Unreachable, match="slower") if waits else contextlib.nullcontext():
            await rest._wait_for(route)


# --- bad input: one sentence each ---


@pytest.mark.parametrize("token", ["", "nonsense", "a.b.c", "123456:ABC"])
def test_what_is_no_token(token: str) -> None:
    with pytest.raises(NeedsLogin, match="DISCORD_BOT_TOKEN is no bot token"):
        DiscordAdapter(AdapterContext(settings=PlatformSettings(), find=lambda name: Secret(token)))


async def test_a_wrong_token_parks_and_is_never_told(caplog: pytest.LogCaptureFixture) -> None:
    async with DiscordBed() as bed:
        wrong = "MTIzNDU2Nzg5MDEyMzQ1Njc4.GabcdE.another-token_of-some-letters-and-more"
        bed.said["DISCORD_BOT_TOKEN"] = wrong
        with (
            caplog.at_level(logging.DEBUG),
            pytest.raises(NeedsLogin, match="does not know this bot token") as error,
        ):
            await bed.connect().run(Inboxes().accept, None)
        await bed.server.down()
        with pytest.raises(Unreachable) as gone:
            await bed.connect().run(Inboxes().accept, None)
        assert not gone.value.maybe_done
        assert "another-token" not in f"{error.value} {gone.value} {gone.value.__cause__} {caplog.text}"


async def test_a_missing_intent_is_named() -> None:
    async with DiscordBed() as bed:
        bed.server.allowed_intents = ~(1 << 15)
        with pytest.raises(NeedsLogin, match="Message Content Intent"):
            await bed.connect().run(Inboxes().accept, None)


async def test_too_many_connections_wait() -> None:
    async with DiscordBed() as bed:
        bed.server.starts_left = 0
        with pytest.raises(Unreachable, match="too often") as error:
            await bed.connect().run(Inboxes().accept, None)
        assert error.value.after == 7200


async def test_a_forgotten_session_is_not_begun_anew_if_no_start_is_left() -> None:
    async with DiscordBed() as bed:
        inboxes = Inboxes()
        async with hosted(bed, inboxes):
            await bed.do(Does.TEXT, "first")
            await until(lambda: inboxes.texts == ["first"], "the first message is missing")
        bed.server.starts_left = 0
        bed.server.sessions.clear()
        with pytest.raises(Unreachable, match="ended the session") as error:
            await bed.connect().run(inboxes.accept, inboxes.cursor)
        assert error.value.after is not None and 1 <= error.value.after <= 5
        with pytest.raises(Unreachable, match="too often") as error:
            await bed.connect().run(inboxes.accept, inboxes.cursor)
        assert error.value.after == 7200 and bed.server.identified == 1


@pytest.mark.parametrize(
    ("codes", "error"),
    [
        ((4004, 4014), NeedsLogin),
        ((4010, 4011, 4012, 4013), Refused),
        ((4003, 4005, 4007, 4009), DiscordSessionEnded),
        ((None, 1000, 1001, 1006, 4000, 4001, 4002, 4008), Unreachable),
    ],
)
def test_close_codes(codes: Sequence[int | None], error: type[Exception]) -> None:
    assert {type(close_error(code)) for code in codes} == {error}


@pytest.mark.parametrize(
    ("status", "answer", "error", "words"),
    [
        (403, {"code": 50001, "message": "Missing Access"}, Refused, "Missing Access"),
        (403, None, Unreachable, "turned us away"),
        (404, {"code": 10003, "message": "Unknown Channel"}, Refused, "Unknown Channel"),
        (413, {"code": 40005, "message": "Request entity too large"}, Refused, "too large"),
        (429, None, Unreachable, "slower"),
        (503, None, Unreachable, "fault of its own"),
        (400, {"message": "Invalid", "errors": {"a": [{"_errors": [{"message": "No."}]}]}}, Refused, "No."),
    ],
)
def test_refusals(status: int, answer: object, error: type[Exception], words: str) -> None:
    found = error_for(status, answer, {})
    assert type(found) is error and words in str(found)


async def test_files_that_are_too_large_or_elsewhere() -> None:
    async with DiscordBed() as bed:

        async def open_file(file: Attachment) -> bytes:
            return bytes(10 * 1024 * 1024 + 1)

        async def sink(piece: bytes) -> None:
            raise AssertionError("nothing comes")

        bed.open_file = open_file
        platform = bed.connect()
        file = bed.server.keep_file(b"x", "a.txt", "text/plain", url="http://169.254.169.254/secret")
        message = bed.server.say("501", "", attachments=[file])
        big = Attachment(kind=MediaKind.FILE, ref="x", name="big.bin")
        async with running(platform, Inboxes().accept, None):
            with pytest.raises(Refused, match="too large"):
                await platform.send(bed.chat, Body(attachments=(big,)), key="k", reply_to=None)
            with pytest.raises(Refused, match="not on Discord's own servers"):
                await platform.fetch(f"501/{message['id']}/{file['id']}", sink)
            with pytest.raises(Refused, match="not there any more"):
                await platform.fetch(f"501/{message['id']}/5", sink)


async def test_a_boosted_server_takes_larger_files_also_after_a_restart() -> None:
    async with DiscordBed() as bed:

        async def open_file(file: Attachment) -> bytes:
            return bytes(12 * MIB)

        bed.open_file = open_file
        big = Body(attachments=(Attachment(kind=MediaKind.FILE, ref="x", name="big.bin", size=12 * MIB),))
        general, inboxes = Address(platform="discord", chat=GENERAL), Inboxes()
        bed.server.boosted = 2
        for life in range(2):  # the second takes the session up again, and nobody tells of servers
            platform = bed.connect()
            async with running(platform, inboxes.accept, inboxes.cursor):
                await bed.do(Does.TEXT, f"life {life}")
                await until(lambda: f"life {life}" in inboxes.texts, "it never came")  # noqa: B023
                await platform.send(general, big, key=f"k{life}", reply_to=None)
                with pytest.raises(Refused, match="takes 10 MiB there"):
                    await platform.send(bed.chat, big, key="d", reply_to=None)
        assert (bed.server.identified, bed.server.resumed) == (1, 1)
        assert [len(one.files[0][2]) for one in bed.server.sent] == [12 * MIB] * 2
        bed.server.boosted = 1
        platform = bed.connect()
        async with running(platform, inboxes.accept, inboxes.cursor):
            await until(lambda: bed.server.resumed == 2, "it never came back")
            bed.server.dispatch("GUILD_UPDATE", bed.server.guild())
            await bed.do(Does.TEXT, "changed")
            await until(lambda: "changed" in inboxes.texts, "it never came")
            with pytest.raises(Refused, match="takes 10 MiB there"):
                await platform.send(general, big, key="k9", reply_to=None)


@pytest.mark.parametrize("where", ["general", "../users", "12345678901234567890", "1 2"])
async def test_what_is_no_channel(where: str) -> None:
    async with DiscordBed() as bed:
        assert not is_snowflake(where)
        with pytest.raises(Refused, match="not a channel"):
            await bed.connect().send(
                Address(platform="discord", chat=where), Body(text="x"), key="k", reply_to=None
            )


async def test_a_channel_that_does_not_let_us_in_is_not_anothers_trouble() -> None:
    async with DiscordBed() as bed:
        platform = bed.connect()
        here, there = bed.chats(2)
        bed.fail(Fault.GONE, times=99, chat=here)
        async with running(platform, Inboxes().accept, None):
            with pytest.raises(Refused, match="Cannot send messages to this user"):
                await platform.send(here, Body(text="x"), key="k", reply_to=None)
            await platform.send(there, Body(text="x"), key="k", reply_to=None)


# --- the check ---


async def test_the_check_says_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    async with DiscordBed() as bed:
        assert [one.good for one in await bed.connect().check()] == [True, True]
        monkeypatch.setitem(APPLICATION, "flags", 0)
        found = await bed.connect().check()
        assert [one.good for one in found] == [True, False, True] and "Intent" in found[1].text
        bed.server.rights = 1 << 10 | 1 << 11
        lacking = (await bed.connect().check())[-1]
        assert not lacking.good and "“Team”" in lacking.text and "Create Public Threads" in lacking.text
        assert "View Channels" not in lacking.text
        bed.server.rights = 1 << 3
        assert (await bed.connect().check())[-1].good, "an administrator may everything"
        bed.server.joined = 0
        nowhere = (await bed.connect().check())[-1]
        assert not nowhere.good and "permissions=70677981940800&" in nowhere.hint
        bed.said["DISCORD_BOT_TOKEN"] = (
            "MTIzNDU2Nzg5MDEyMzQ1Njc4.GabcdE.another-token_of-some-letters-and-more"
        )
        with pytest.raises(NeedsLogin):
            await bed.connect().check()
