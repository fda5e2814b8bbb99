"""Who mentions the bot in a channel is answered in a thread that begins with their message, which is there as
soon as somebody writes in it, also after a crash; where it may not be, in the channel."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

from hermes.domain.chats.address import Address, SourceKind
from hermes.domain.chats.message import Attachment, Body, Button, Inbound, MediaKind, Receipt
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.settings import StreamingSettings
from hermes.domain.turns.event import UserSaid
from hermes.domain.word import replace
from hermes.entry.platforms.discord import channels
from hermes.entry.platforms.discord.adapter import DiscordAdapter
from hermes.entry.platforms.discord.convert import DiscordChannel, DiscordContext, thread_name, to_inbounds
from hermes.state.settings.loader import load_settings
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import Say, obedient, say
from hermes.testing.platform_suite import Does, Fault, Inboxes, running, until
from tests.journeys.cut import cut_everywhere
from tests.platforms.discord.bed import ME, DiscordBed
from tests.platforms.discord.objects import BOT, FORUM, GENERAL, GUILD, THREAD, message_of, person
from tests.platforms.discord.samples import EVENTS, ROLE, file

HERE = DiscordContext(
    me=ME, place=DiscordChannel(name="general", opens=True), guild=GUILD, mine=frozenset({ROLE}), threads=True
)
CALL = f"<@{BOT['id']}>"
OPEN = {"discord": PlatformSettings(allow_all_users=True)}
MENTION = EVENTS["mention first"]


def recalling(request: ModelRequest) -> Say:
    """Says everything that it was told in this conversation."""
    said = [entry.record.text for entry in request.entries if isinstance(entry.record, UserSaid)]
    return say("I know: " + ", ".join(said))


def journey(bed: DiscordBed, folder: Path, script: Any = recalling, **more: Any) -> Journey:
    settings = open_settings(platforms=OPEN, **more)
    return Journey(
        folder=folder, account="discord", connect_platform=bed.connect, settings=settings, script=script
    )


def mention(bed: DiscordBed, text: str, **more: Any) -> dict[str, Any]:
    return bed.server.say(GENERAL, f"{CALL} {text}", mentions=[BOT], **more)


def begun(message: dict[str, Any]) -> Address:
    return Address(platform="discord", chat=GENERAL, thread=message["id"])


def texts(bed: DiscordBed, channel: str) -> list[str]:
    return [one.text for one in bed.shown() if one.chat == channel]


# --- what begins one ---


@pytest.mark.parametrize(
    ("name", "scene", "begins"),
    [
        ("mention first", HERE, True),
        ("mention", HERE, True),
        ("mention by role", HERE, True),
        ("shared", HERE, False),
        ("mention of another", HERE, False),
        ("reply to us", HERE, False),
        ("typed command", HERE, False),
        ("command", HERE, False),
        ("mention first", replace(HERE, threads=False), False),
        ("text", DiscordContext(me=ME, threads=True), False),
    ],
)
def test_what_begins_a_thread(name: str, scene: DiscordContext, begins: bool) -> None:
    (found,) = to_inbounds(EVENTS[name], scene)
    source = found.source
    assert source.address.thread == (found.ref if begins else None)
    if begins:
        assert (source.kind, source.address.chat, source.parent_chat) == (SourceKind.THREAD, GENERAL, GENERAL)


@pytest.mark.parametrize(
    ("text", "more", "name"),
    [
        (f"{CALL}, what now?", {}, "what now?"),
        ("<@&700000000000000001> what\nnow?", {}, "what now?"),
        (f"hello {CALL} and all", {"mentions": [BOT]}, "hello @Hermes and all"),
        (f"{CALL} {'word ' * 40}", {}, ("word " * 16)[:-1] + "…"),
        (CALL, file("text/plain"), "a.bin"),
        (CALL, {}, "…"),
        ("", {"mentions": 5}, "…"),
    ],
)
def test_its_name(text: str, more: dict[str, Any], name: str) -> None:
    found = thread_name(message_of("5", GENERAL, person("501"), text, **more))
    assert found == name and len(found) <= 100


@pytest.mark.parametrize(
    ("said", "settings"),
    [
        ({"DISCORD_AUTO_THREAD": "false"}, {}),
        ({"DISCORD_NO_THREAD_CHANNELS": f"5, {GENERAL}"}, {}),
        ({}, {"free_response_channels": (GENERAL,)}),
        ({}, {"free_response_channels": ("*",)}),
        ({}, {"allowed_topics": ("1",)}),
    ],
)
async def test_where_none_is_begun(said: dict[str, str], settings: dict[str, Any]) -> None:
    async with DiscordBed() as bed:
        bed.said |= said
        bed.settings = PlatformSettings(**settings)
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, None):
            await bed.do(Does.MENTION, "here, please")
            await until(lambda: len(inboxes.items) == 1, "it never came")
        assert inboxes.items[0].source.address == Address(platform="discord", chat=GENERAL)


def test_the_file_of_settings_can_say_so(tmp_path: Path) -> None:
    block = "platforms:\n  discord: {auto_thread: false, no_thread_channels: ['5', '6']}\n"
    (tmp_path / "config.yaml").write_text(block)
    loaded = load_settings(tmp_path, {})
    assert not loaded.problems
    said = loaded.settings.platforms["discord"].extra
    assert {key: value.split(",") for key, value in said.items()} == {
        "auto_thread": ["false"],
        "no_thread_channels": ["5", "6"],
    }


# --- writing in one that is not there yet ---


@contextlib.asynccontextmanager
async def meeting(bed: DiscordBed) -> Any:
    inboxes, platform = Inboxes(), bed.connect()
    async with running(platform, inboxes.accept, None):
        await until(lambda: bed.server.met > 0, "it never came")
        yield platform, inboxes


async def heard(inboxes: Inboxes, number: int = 1) -> Inbound:
    await until(lambda: len(inboxes.items) >= number, "it never came")
    return inboxes.items[number - 1]


async def test_the_first_word_begins_it_once() -> None:
    async with DiscordBed() as bed, meeting(bed) as (platform, inboxes):
        root = mention(bed, "plan the week")
        assert (await heard(inboxes)).source.address == begun(root)
        assert root["id"] not in bed.server.channels, "nobody has answered yet"
        to = begun(root)
        calls = [platform.send(to, Body(text=f"{n}"), key=f"k{n}", reply_to=root["id"]) for n in range(3)]
        first, *_ = await asyncio.gather(*calls, platform.typing(to))
        await platform.edit(first, Body(text="first"))
        # Who comes after a crash sends the same again, and knows nothing.
        later: DiscordAdapter = bed.connect()
        again = await later.send(to, Body(text="1"), key="k1", reply_to=root["id"])
        await later.api.close()
        assert sorted(texts(bed, root["id"])) == ["1", "2", "first"] and again.to == to
        assert bed.server.channels[root["id"]]["name"] == "plan the week"
        assert all(one.reply_to is None for one in bed.shown()), "what it answers is not in the thread"
        await platform.react(Receipt(to=to, ref=root["id"]), "👀")
        assert root["reactions"], "the message that began it is in the channel"


async def test_what_begins_a_post_in_a_forum_is_in_the_post() -> None:
    async with DiscordBed() as bed, meeting(bed) as (platform, inboxes):
        post = await platform.open_thread(Address(platform="discord", chat=FORUM), "Idea")
        first = message_of(post.thread, post.thread, person("501"), f"{CALL} an idea", mentions=[BOT])
        bed.server._put(first)
        bed.server.dispatch("MESSAGE_CREATE", {**first, "guild_id": GUILD})
        said = await heard(inboxes)
        assert (said.source.address, said.ref) == (post, post.thread)
        await platform.react(Receipt(to=post, ref=said.ref), "👀")
        await platform.send(post, Body(text="a good one"), key="k", reply_to=said.ref)
        assert first["reactions"] and bed.shown()[-1].reply_to == said.ref


async def test_words_in_it_need_no_other_address() -> None:
    async with DiscordBed() as bed, meeting(bed) as (platform, inboxes):
        root = mention(bed, "plan the week")
        await heard(inboxes)
        await platform.send(begun(root), Body(text="which?"), key="k", reply_to=None)
        bed.server.say(root["id"], "the next one")
        assert (await heard(inboxes, 2)).source.address == begun(root)


async def test_without_the_right_it_is_a_reply_in_the_channel() -> None:
    async with DiscordBed() as bed, meeting(bed) as (platform, inboxes):
        bed.server.no_threads.add(GENERAL)
        root = mention(bed, "may you?")
        to = (await heard(inboxes)).source.address
        await platform.typing(to)
        body = Body(text="May I?", buttons=(Button(label="Yes", value="q_1:yes"),))
        sent = await platform.send(to, body, key="k", reply_to=root["id"])
        await platform.edit(sent, replace(body, text="May I, please?"))
        (shown,) = bed.shown()
        assert (shown.chat, shown.text, shown.reply_to) == (GENERAL, "May I, please?", root["id"])
        button = bed.server.sent[0].message["components"][0]["components"][0]
        await bed.do(Does.BUTTON, button["custom_id"], on=shown.ref)
        pressed = await heard(inboxes, 2)
        assert (pressed.button, pressed.source.address) == ("q_1:yes", to), "where it was asked"
        await platform.react(sent, "👀")
        await platform.delete(sent)
        assert bed.shown() == []
        mention(bed, "and now?")
        assert (await heard(inboxes, 3)).source.address.thread is None, "it knows better now"


async def test_a_long_answer_of_a_button_finds_its_thread_too() -> None:
    async with DiscordBed() as bed, meeting(bed) as (platform, inboxes):
        bed.server.no_threads.add(GENERAL)
        root = mention(bed, "which?")
        await heard(inboxes)
        label = "a choice of rather many words, which are said in full"
        value = "q_" + "0" * 40 + ":" + label
        body = Body(text="Which?", buttons=(Button(label=label, value=value),))
        sent = await platform.send(begun(root), body, key="k", reply_to=None)
        button = bed.server.sent[0].message["components"][0]["components"][0]
        await bed.do(Does.BUTTON, button["custom_id"], on=sent.ref.partition("/")[2])
        pressed = await heard(inboxes, 2)
        assert (pressed.button, pressed.source.address) == (value, begun(root))


async def test_what_was_said_in_a_thread_that_is_gone_is_not_for_the_channel() -> None:
    async with DiscordBed() as bed, meeting(bed) as (platform, _):
        del bed.server.channels[THREAD]
        with pytest.raises(Refused, match="Unknown Channel"):
            to = Address(platform="discord", chat=GENERAL, thread=THREAD)
            await platform.send(to, Body(text="between us"), key="k", reply_to=None)
        assert bed.shown() == []


@pytest.mark.parametrize(
    ("fault", "error"),
    [(Fault.BROKEN, Unreachable), (Fault.TOO_FAST, Unreachable), (Fault.REVOKED, NeedsLogin)],
)
async def test_nothing_goes_to_the_channel_while_nothing_is_decided(
    fault: Fault, error: type[HermesError]
) -> None:
    async with DiscordBed() as bed, meeting(bed) as (platform, _):
        to = begun(mention(bed, "mend it"))
        bed.server.fail(fault, 1, False, GENERAL)
        with pytest.raises(error):
            await platform.send(to, Body(text="done"), key="k", reply_to=None)
        assert bed.shown() == []
        await platform.send(to, Body(text="done"), key="k", reply_to=None)
        assert texts(bed, to.thread or "") == ["done"]


async def test_a_file_can_be_the_first_word() -> None:
    async with DiscordBed() as bed:

        async def open_file(file: Attachment) -> bytes:
            return b"abc"

        bed.open_file = open_file
        async with meeting(bed) as (platform, _):
            root = mention(bed, "draw it")
            picture = Attachment(kind=MediaKind.IMAGE, ref="x", name="a.png", mime="image/png")
            await platform.send(begun(root), Body(attachments=(picture,)), key="k", reply_to=None)
            (shown,) = bed.shown()
            assert shown.chat == root["id"] and shown.files == ((MediaKind.IMAGE, b"abc"),)


# --- conversations ---


async def test_a_mention_is_a_conversation_in_a_thread_of_its_own(tmp_path: Path) -> None:
    async with DiscordBed() as bed:
        async with journey(bed, tmp_path) as chat:
            await bed.do(Does.TEXT, "hello")
            await until(lambda: len(bed.shown()) == 1, "no answer")
            bed.server.say(GENERAL, "the red one is broken")
            root, other = mention(bed, "mend it"), mention(bed, "paint it")
            await until(lambda: "I know: mend it" in texts(bed, root["id"]), lambda: f"{bed.shown()}")
            await until(lambda: "I know: paint it" in texts(bed, other["id"]), lambda: f"{bed.shown()}")
            await until(lambda: bool(root.get("reactions")), "the message that it answers is not marked")
            assert any("the red one is broken" in chat.heard(number) for number in (1, 2)), "said before"
        async with journey(bed, tmp_path):
            bed.server.say(root["id"], "and soon")
            bed.server.say(GENERAL, "not for the bot")
            await until(
                lambda: "I know: mend it, and soon" in texts(bed, root["id"]), lambda: f"{bed.shown()}"
            )
        assert texts(bed, GENERAL) == []


async def test_a_mention_in_threads_too_if_the_operator_wants_it(tmp_path: Path) -> None:
    async with DiscordBed() as bed:
        strict = {"discord": PlatformSettings(allow_all_users=True, thread_require_mention=True)}
        chat = journey(bed, tmp_path)
        chat.settings = open_settings(platforms=strict)
        async with chat:
            await until(lambda: bed.server.met > 0, "it never came")
            root = mention(bed, "one")
            await until(lambda: "I know: one" in texts(bed, root["id"]), lambda: f"{bed.shown()}")
            bed.server.say(root["id"], "two")
            bed.server.say(root["id"], f"{CALL} three", mentions=[BOT])
            await until(lambda: "I know: one, three" in texts(bed, root["id"]), lambda: f"{bed.shown()}")


async def test_allowed_by_a_button_where_there_are_no_threads(tmp_path: Path) -> None:
    async with DiscordBed() as bed:
        bed.server.no_threads.add(GENERAL)
        async with journey(bed, tmp_path, obedient) as chat:
            await until(lambda: bed.server.met > 0, "it never came")
            mention(bed, "m1 danger")
            await until(lambda: any(one.buttons for one in bed.shown()), lambda: f"{bed.shown()}")
            asked = next(one for one in bed.server.sent if one.message["components"])
            keys = [key for row in asked.message["components"] for key in row["components"]]
            data = next(key["custom_id"] for key in keys if key["label"] == "once")
            await bed.do(Does.BUTTON, data, on=asked.message["id"])
            await until(
                lambda: any("answer to m1" in one.text for one in bed.shown()), lambda: f"{bed.shown()}"
            )
            assert [entry.chat for entry in chat.world.log] == ["danger"]


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
async def test_stopped_at_each_write(tmp_path: Path, full: bool, after: bool) -> None:
    async with DiscordBed() as bed:
        roots: dict[Path, dict[str, Any]] = {}

        async def talk(chat: Journey) -> None:
            while await chat.database.read(lambda tx: tx.inbox.cursor("discord")) is None:  # noqa: ASYNC110
                await asyncio.sleep(0.003)
            if chat.folder not in roots:
                roots[chat.folder] = mention(bed, "mend it")
            root = roots[chat.folder]
            await until(lambda: "I know: mend it" in texts(bed, root["id"]), lambda: f"{bed.shown()}")
            if all(one["content"] != "and soon" for one in bed.server.history[root["id"]]):
                bed.server.say(root["id"], "and soon")
            await until(lambda: len(texts(bed, root["id"])) == 2, lambda: f"{texts(bed, root['id'])}")
            await chat.until_idle()
            assert texts(bed, root["id"]) == ["I know: mend it", "I know: mend it, and soon"]
            assert texts(bed, GENERAL) == []
            sessions = await chat.database.read(lambda tx: tx.sessions.find(""))
            assert len(sessions) == 1, "one conversation, from the first word on"

        adapters: list[DiscordAdapter] = []

        def connect() -> DiscordAdapter:
            adapters.append(bed.connect())
            return adapters[-1]

        def make(folder: Path) -> Journey:
            chat = journey(bed, folder, streaming=StreamingSettings(enabled=False))
            return replace(chat, connect_platform=connect)

        await cut_everywhere(tmp_path, make, talk, after=after, full=full)
        for adapter in adapters:
            # One that was cut off before it ran has nobody else to close what it opened.
            await adapter.api.close()


async def test_places_are_not_remembered_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    class Rest:
        asked = 0

        async def read(self, path: str) -> dict[str, Any]:
            self.asked += 1
            return {"id": path.rpartition("/")[2], "type": 11, "parent_id": "7"}

    monkeypatch.setattr(channels, "_MOST_PLACES", 3)
    rest = Rest()
    seen = channels.DiscordChannels(rest, asks_roles=False, threads=True)  # type: ignore[arg-type]
    places = [await seen.place(str(number)) for number in range(10)]
    assert len(seen._places) == 3 and rest.asked == 10
    assert await seen.place("9") == places[9] and rest.asked == 10
    assert await seen.place("0") == places[0] and rest.asked == 11
