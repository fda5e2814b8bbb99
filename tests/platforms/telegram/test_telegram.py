"""Telegram: the suite that every adapter passes, polled and with a webhook, and what is Telegram's own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest

from hermes.control.commands.menu import menu_entries
from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.chats.address import Address, SourceKind
from hermes.domain.chats.capabilities import MenuEntry
from hermes.domain.chats.message import Attachment, Body, Button, Inbound, InboundKind, MediaKind, Receipt
from hermes.domain.errors import NeedsLogin, Refused, Unreachable, UserError
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.settings import QuickCommand, Settings
from hermes.domain.word import replace
from hermes.entry.platforms.telegram.adapter import SECRET_HEADER, TelegramAdapter
from hermes.entry.platforms.telegram.compose import keyboard
from hermes.entry.platforms.telegram.convert import TopicGone, error_for, to_inbounds
from hermes.entry.platforms.telegram.manifest import MANIFEST
from hermes.plugins import load_commands
from hermes.testing.clock import FakeClock
from hermes.testing.platform_suite import (
    CHECKS,
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
from tests.platforms.telegram.bed import FORUM, GROUP, ME, NOW, TelegramBed, WebhookBed
from tests.platforms.telegram.samples import UPDATES
from tests.platforms.telegram.server import MOST_MENU


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_telegram_conforms(check: Check, full: bool) -> None:
    await conform(check, TelegramBed, full=full)


@pytest.mark.parametrize("check", RECEIVING[:-1], ids=lambda check: check.__name__)
async def test_a_webhook_conforms(check: Check, full: bool) -> None:
    await conform(check, WebhookBed, full=full)


# --- what people do ---


def one(name: str) -> Inbound:
    (found,) = to_inbounds(UPDATES[name], ME, NOW)
    return found


@pytest.mark.parametrize(
    ("name", "text", "mentioned"),
    [
        ("command", "/start now", False),
        ("command to us", "/status all", True),
        ("mention", "😀 hi @hermes_test_bot, what now?", True),
        ("mention first", "what now?", True),
        ("mention by number", "Hermes, what now?", True),
        ("photo", "look @hermes_test_bot", True),
        ("sticker", "[Sticker 🎉 of the set Party]", False),
        ("a moving sticker", "[Sticker]", False),
        ("location", "[Location: 52.520000, 13.405000]", False),
        ("venue", "[Location: Café, Main street: 1.500000, 2.250000]", False),
        ("contact", "[Contact: Bob, +49123]", False),
        ("poll", "[Poll: Tea? (yes, no)]", False),
        ("dice", "[🎲 shows 4]", False),
        ("forwarded", "[Forwarded from Bob (x) Other]\n/stop now", False),
        ("forwarded from nobody", "[Forwarded from Ghost]", False),
        ("forwarded from a channel", "[Forwarded from News]\nnews", False),
        (
            "links and code",
            "😀 [read this](https://example.invalid/a?b=1) and run \n```python\nprint(1)\n```",
            False,
        ),
        ("another bot", "@other_bot go", False),
        ("both bots", "@other_bot @hermes_test_bot go", True),
        ("checklist", "[Checklist: Party]\n- [x] cake\n- [ ] guests", False),
        ("story", "[A story of News, not shown here]", False),
    ],
)
def test_words_and_mentions(name: str, text: str, mentioned: bool) -> None:
    assert (one(name).text, one(name).mentions_me) == (text, mentioned)


@pytest.mark.parametrize(
    ("name", "kind", "mime"),
    [
        ("photo", MediaKind.IMAGE, "image/jpeg"),
        ("voice", MediaKind.VOICE, "audio/ogg"),
        ("audio", MediaKind.AUDIO, "audio/mpeg"),
        ("video", MediaKind.VIDEO, "video/mp4"),
        ("video note", MediaKind.VIDEO, "video/mp4"),
        ("animation", MediaKind.VIDEO, "video/mp4"),
        ("document", MediaKind.FILE, "application/pdf"),
        ("sticker", MediaKind.STICKER, None),
        ("a moving sticker", MediaKind.STICKER, None),
        ("forwarded from nobody", MediaKind.FILE, None),
        ("about a picture", MediaKind.IMAGE, "image/jpeg"),
    ],
)
def test_files(name: str, kind: MediaKind, mime: str | None) -> None:
    (file,) = one(name).attachments
    assert (file.kind, file.mime, file.ref, file.size) == (kind, mime, "AgACAgIAAxkBAAI", 1234)


def test_places_and_people() -> None:
    assert one("text").source.kind is SourceKind.PRIVATE and one("text").source.user_name == "Ann Other"
    topic = one("topic")
    assert topic.source.address == Address(platform="telegram", chat=str(FORUM), thread="77")
    assert (topic.source.kind, topic.source.parent_chat) == (SourceKind.THREAD, str(FORUM))
    assert topic.reply_to is None, "the first message of a topic answers nobody"
    assert one("general topic").source.address.thread is None
    assert one("reply in a group is no topic").source.address.thread is None
    direct = one("direct message to a channel").source
    assert (direct.kind, direct.address.thread) == (SourceKind.THREAD, "direct501")
    private = one("private topic").source
    assert (private.kind, private.address.thread) == (SourceKind.PRIVATE, "5")
    channel = one("channel post").source
    assert (channel.kind, channel.user, channel.chat_name) == (SourceKind.CHANNEL, "-1005555555555", "News")
    anonymous = one("as the group").source
    assert (anonymous.user, anonymous.is_bot) == ("-1001234567890", False), "not the number of everybody"


def test_replies_albums_and_other_happenings() -> None:
    assert one("reply").reply_to is not None and one("reply").reply_to.mine
    assert one("quote").reply_to.text == "text of"
    assert one("photo").group == "13579"
    assert one("edit").what is InboundKind.EDIT and one("edit").delivery != one("text").delivery
    assert (one("reaction").what, one("reaction").text) == (InboundKind.REACTION, "👍")
    assert one("joined").what is InboundKind.JOINED
    for name in ("command to another", "service", "pinned", "came in"):
        assert to_inbounds(UPDATES[name], ME, NOW) == ()
    quoted = one("quote of another chat").reply_to
    assert quoted is not None and (quoted.text, quoted.author, quoted.mine) == ("it rains", "News", False)
    assert one("about a place").reply_to.text == "[Location: 1.000000, 2.000000]"
    others = {name: one(name).mentions_others for name in ("another bot", "both bots", "a person")}
    assert others == {"another bot": True, "both bots": True, "a person": False}


def test_two_edits_in_one_second_are_two() -> None:
    edit = UPDATES["edit"]
    other = {**edit, "edited_message": {**edit["edited_message"], "text": "hello once more"}}
    deliveries = [to_inbounds(one, ME, NOW)[0].delivery for one in (edit, other, {**edit, "update_id": 5})]
    assert deliveries[0] == deliveries[2] != deliveries[1]


def test_a_group_that_moves_is_told_once_by_both() -> None:
    old, new = one("became a supergroup"), one("was a group")
    assert old.what is new.what is InboundKind.MOVED and old.delivery == new.delivery
    assert old.source.address == new.source.address == Address(platform="telegram", chat="-77")
    assert old.text == new.text == str(GROUP)


def test_a_message_counts_once_however_it_comes() -> None:
    again = {**UPDATES["text"], "update_id": 5}
    assert to_inbounds(again, ME, NOW)[0].delivery == one("text").delivery


# --- buttons ---


def test_long_values_are_told_by_their_label() -> None:
    long = "a choice of many words that is much longer than what a button may carry"
    longer = f"{long}, and then some"
    choices = [Button(label=words, value=f"q_12:{words}") for words in (long, longer)]
    rows = keyboard([*choices, Button(label="x", value="y" * 65)])["reply_markup"]["inline_keyboard"]
    assert [[key["text"] for key in row] for row in rows] == [[long], [longer]]
    pressed = UPDATES["button"]["callback_query"]
    message = {**pressed["message"], "reply_markup": {"inline_keyboard": rows}}
    for [key], words in zip(rows, (long, longer), strict=True):
        query = {**pressed, "message": message, "data": key["callback_data"]}
        assert to_inbounds({"update_id": 1, "callback_query": query}, ME, NOW)[0].button == f"q_12:{words}"


async def test_a_pressed_button_is_answered_and_a_menu_is_shown() -> None:
    async with TelegramBed() as bed:
        inboxes, platform = Inboxes(), bed.connect()
        async with running(platform, inboxes.accept, None):
            body = Body(text="May I?", buttons=(Button(label="Yes", value="q_1:yes"),))
            asked = await platform.send(bed.chat, body, key="k", reply_to=None)
            await bed.do(Does.BUTTON, "q_1:yes", on=asked.ref)
            await until(lambda: len(bed.server.answered) == 1, "Telegram still shows that the button works")
            entries = [MenuEntry(name=name, summary="what it does") for name in ("status", "new", "Not-One")]
            await platform.show_menu(entries)
            assert [one["command"] for one in bed.server.commands] == ["status", "new"]


async def test_a_menu_is_within_its_limits_and_takes_the_place_of_older_ones() -> None:
    quick = {
        f"quick-{n:03}" + "x" * (n % 40): QuickCommand(type="exec", command="x" * 400) for n in range(150)
    }
    load_commands()
    limits = MANIFEST.capabilities.menu
    assert limits is not None
    entries = menu_entries("telegram", Settings(quick_commands=quick), limits)
    async with TelegramBed() as bed:
        old = [{"command": "old", "description": "from another program"}]
        bed.server.scoped = {"all_private_chats": old, "all_group_chats": old, "default": old}
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            await platform.show_menu(entries)
            shown = bed.server.commands
            assert len(shown) == 100 and {"status", "stop", "new"} <= {one["command"] for one in shown}
            assert set(bed.server.scoped) == {"default"}
            assert sum(len(one["description"]) for one in shown) <= MOST_MENU, "all of it together fits"
            await platform.show_menu([])
            assert bed.server.commands == []


async def test_a_menu_that_is_not_taken_leaves_the_old_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.platforms.telegram.server.MOST_MENU", 10)
    async with TelegramBed() as bed:
        old = [{"command": "old", "description": "from another program"}]
        bed.server.scoped = {"all_private_chats": old}
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            with pytest.raises(Refused, match="BOT_COMMANDS_TOO_MUCH"):
                await platform.show_menu([MenuEntry(name="status", summary="what it does now")])
        assert bed.server.scoped == {"all_private_chats": old}


# --- drafts ---


async def test_drafts_of_telegrams_own() -> None:
    async with TelegramBed() as bed:
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            for text in ("<b>gro", "<b>grows</b>"):
                await platform.preview(bed.chat, 2**32 - 1, Body(text=text))
            assert bed.server.drafts == [(501, 2**31 - 1, "gro"), (501, 2**31 - 1, "<b>grows</b>")]
            await platform.preview(bed.chat, 2**31, Body(text="another"))
            assert bed.server.drafts[-1] == (501, 1, "another") and bed.shown() == []
            for where in (str(FORUM), "@a_channel"):
                with pytest.raises(Refused):
                    await platform.preview(Address(platform="telegram", chat=where), 1, Body(text="x"))
            bed.server.has_drafts = False
            with pytest.raises(Refused, match="no drafts"):
                await platform.preview(bed.chat, 1, Body(text="x"))


# --- topics, groups that move, captions ---


async def test_topics() -> None:
    async with TelegramBed() as bed:
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            forum = Address(platform="telegram", chat=str(FORUM))
            topic = await platform.open_thread(forum, "Plans " * 40)
            await platform.send(topic, Body(text="in it"), key="k", reply_to=None)
            await platform.send(replace(forum, thread="1"), Body(text="in general"), key="k", reply_to=None)
            assert [one.thread for one in bed.shown()] == [topic.thread, None]
            bed.server.has_topics = False
            with pytest.raises(Refused, match="BotFather"):
                await platform.open_thread(bed.chat, "no forum")
            with pytest.raises(Refused, match="not a topic"):
                await platform.send(replace(forum, thread="Plans"), Body(text="x"), key="k", reply_to=None)


async def test_it_is_seen_to_write_in_the_general_topic_too() -> None:
    async with TelegramBed() as bed:
        inboxes, platform = Inboxes(), bed.connect()
        forum = Address(platform="telegram", chat=str(FORUM))
        async with running(platform, inboxes.accept, None):
            bed.server.say(FORUM, "in general", kind="supergroup")
            await until(lambda: inboxes.texts == ["in general"], "it never came")
            for thread in (None, "1", "77"):
                await platform.typing(replace(forum, thread=thread))
            await platform.typing(bed.chat)
        assert bed.server.typing == [1, 1, 77, None]


async def test_direct_messages_of_a_channel_are_answered_where_they_were_asked() -> None:
    async with TelegramBed() as bed:
        inboxes, platform = Inboxes(), bed.connect()
        bed.server.chat(-1004444444444, "supergroup", is_direct_messages=True)
        topic = {"topic_id": 501}
        async with running(platform, inboxes.accept, None):
            bed.server.say(-1004444444444, "hello", kind="supergroup", direct_messages_topic=topic)
            await until(lambda: inboxes.texts == ["hello"], "it never came")
            to = inboxes.items[0].source.address
            await platform.send(to, Body(text="yes?"), key="k", reply_to=inboxes.items[0].ref)
            with pytest.raises(Refused, match="no such sign"):
                await platform.typing(to)
        assert [one.message["direct_messages_topic"] for one in bed.server.sent] == [topic]


@pytest.mark.parametrize("off", [True, False])
async def test_links_are_shown_without_a_preview_if_the_operator_says_so(off: bool) -> None:
    async with TelegramBed() as bed:
        bed.said["TELEGRAM_DISABLE_LINK_PREVIEWS"] = str(off).lower()
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            sent = await platform.send(bed.chat, Body(text="https://e.invalid"), key="k", reply_to=None)
            await platform.edit(sent, Body(text="https://f.invalid"))
        asked = [asked for method, asked in bed.server.calls if method in ("sendmessage", "editmessagetext")]
        wanted = {"is_disabled": True} if off else None
        assert [one.get("link_preview_options") for one in asked] == [wanted, wanted]


# --- a Bot API server of one's own ---


async def test_files_of_a_local_server_are_read_from_its_folder(tmp_path: Path) -> None:
    async with TelegramBed() as bed:
        bed.server.local = tmp_path / "server"
        bed.said["TELEGRAM_LOCAL_FILES"] = str(bed.server.local)
        data = bytes(21 * 1024 * 1024)
        file = bed.server.keep_file(data)
        platform, got = bed.connect(), bytearray()

        async def sink(piece: bytes) -> None:
            got.extend(piece)

        async with running(platform, Inboxes().accept, None):
            await platform.fetch(file["file_id"], sink)
        assert bytes(got) == data
        assert platform.capabilities.media[MediaKind.FILE].max_bytes == 2_000_000_000
        assert [one.good for one in await bed.connect().check()] == [True, True, True, True]
        # In a container the same folder has another name.
        (tmp_path / "server").rename(tmp_path / "seen here")
        bed.said["TELEGRAM_LOCAL_FILES"] = str(tmp_path / "seen here")
        got.clear()
        platform = bed.connect()
        await platform.api.fetch(f"/var/lib/bot/{bed.server.token}/files/{file['file_id']}", sink)
        assert bytes(got) == data


@pytest.mark.parametrize("way", ["../../secret", "link", "folder", "none", "/elsewhere"])
async def test_nothing_outside_of_the_folder_is_read(tmp_path: Path, way: str) -> None:
    async with TelegramBed() as bed:
        folder = tmp_path / "server" / bed.server.token
        (folder / "folder").mkdir(parents=True)
        (tmp_path / "secret").write_text("secret")
        (folder / "link").symlink_to(tmp_path / "secret")
        bed.said["TELEGRAM_LOCAL_FILES"] = str(tmp_path / "server")
        platform = bed.connect()

        async def sink(piece: bytes) -> None:
            raise AssertionError("nothing comes")

        path = str(tmp_path / "secret") if way == "/elsewhere" else f"/srv/{bed.server.token}/{way}"
        with pytest.raises(Refused, match="TELEGRAM_LOCAL_FILES") as refused:
            await platform.api.fetch(path, sink)
        assert bed.server.token not in str(refused.value)


async def test_a_local_server_whose_folder_nobody_named(tmp_path: Path) -> None:
    async with TelegramBed() as bed:
        bed.server.local = tmp_path
        file = bed.server.keep_file(b"x")
        platform = bed.connect()

        async def sink(piece: bytes) -> None:
            raise AssertionError("nothing comes")

        async with running(platform, Inboxes().accept, None):
            with pytest.raises(Refused, match="TELEGRAM_LOCAL_FILES has to name it"):
                await platform.fetch(file["file_id"], sink)
        bed.said["TELEGRAM_LOCAL_FILES"] = str(tmp_path / "nothing here")
        wrong = [one for one in await bed.connect().check() if not one.good]
        assert ["TELEGRAM_LOCAL_FILES" in one.text for one in wrong] == [True]


async def test_a_group_that_became_a_supergroup() -> None:
    async with TelegramBed() as bed:
        bed.server.migrated[-77] = int(bed.chat.chat)
        bed.open_file = opener(bed)
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            old = Address(platform="telegram", chat="-77")
            receipt = await platform.send(old, Body(text="still there?"), key="k", reply_to=None)
            assert receipt.to == bed.chat
            await platform.edit(receipt, Body(text="yes"))
            for files in (pictures(1), pictures(2)):
                sent = await platform.send(old, Body(text="look", attachments=files), key="k", reply_to=None)
                assert sent.to == bed.chat
        assert [one.text for one in bed.shown(bed.chat)] == ["yes", "look", "look", ""]


async def test_captions_and_pictures_that_are_none() -> None:
    async with TelegramBed() as bed:

        async def open_file(file: Attachment) -> bytes:
            return b"no picture at all" if file.name == "bad.png" else bed.content

        bed.open_file = open_file
        platform = bed.connect()
        good = Attachment(kind=MediaKind.IMAGE, ref="x", name="good.png", mime="image/png")
        async with running(platform, Inboxes().accept, None):
            receipt = await platform.send(
                bed.chat, Body(text="<b>look</b>", attachments=(good,)), key="k", reply_to=None
            )
            await platform.edit(receipt, Body(text="look again"))
            await platform.send(bed.chat, Body(text="x" * 1025, attachments=(good,)), key="k", reply_to=None)
            bad = replace(good, name="bad.png")
            await platform.send(bed.chat, Body(attachments=(bad,)), key="k", reply_to=None)
        kinds = [one.files[0][0] if one.files else None for one in bed.shown()]
        assert kinds == [MediaKind.IMAGE, None, MediaKind.IMAGE, MediaKind.FILE]
        assert bed.shown()[0].text == "look again"


async def test_markup_that_telegram_does_not_take_goes_as_text() -> None:
    async with TelegramBed() as bed:
        bed.open_file = opener(bed)
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            receipt = await platform.send(bed.chat, Body(text="<b>a &lt; b"), key="k", reply_to=None)
            await platform.edit(receipt, Body(text="<x>c &amp; d"))
            for files in (pictures(1), pictures(2)):
                body = Body(text="<b>e &amp; f", attachments=files)
                await platform.send(bed.chat, body, key="k", reply_to=None)
        assert [one.text for one in bed.shown()] == ["c & d", "e & f", "e & f", ""]


# --- albums ---


def opener(bed: TelegramBed) -> Callable[[Attachment], Awaitable[bytes]]:
    """Files by their names: one that is no picture, one that is empty, one that is gone."""

    async def open_file(file: Attachment) -> bytes:
        if file.name == "gone.png":
            raise UserError("The file is gone.")
        return {"bad.png": b"no picture", "empty.png": b""}.get(file.name or "", bed.content)

    return open_file


def pictures(count: int, *names: str) -> tuple[Attachment, ...]:
    kinds = [MediaKind.IMAGE, MediaKind.VIDEO]
    some = [Attachment(kind=kinds[n % 2], ref="x", name=f"{n}", mime="image/png") for n in range(count)]
    return (
        *some,
        *(Attachment(kind=MediaKind.IMAGE, ref="x", name=name, mime="image/png") for name in names),
    )


async def sent_with(*files: Attachment, text: str = "<b>look</b>") -> tuple[TelegramBed, Receipt]:
    async with TelegramBed() as bed:
        bed.open_file = opener(bed)
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            before = await platform.send(bed.chat, Body(text="x"), key="k", reply_to=None)
            body = Body(text=text, attachments=files)
            return bed, await platform.send(bed.chat, body, key="k", reply_to=before.ref)


def groups(bed: TelegramBed) -> set[str | None]:
    return {one.message.get("media_group_id") for one in bed.server.sent[1:]}


@pytest.mark.parametrize("count", [2, 10])
async def test_pictures_and_videos_go_as_one_album(count: int) -> None:
    bed, receipt = await sent_with(*pictures(count))
    first, *others = bed.shown()[1:]
    assert (first.text, first.ref, first.reply_to) == ("<b>look</b>", receipt.ref, bed.shown()[0].ref)
    assert len(others) == count - 1 and not any(one.text for one in others)
    assert [one.files[0][0] for one in (first, *others)] == [one.kind for one in pictures(count)]
    assert len(groups(bed)) == 1 and None not in groups(bed)


@pytest.mark.parametrize(
    ("kinds", "albums"),
    [
        ((MediaKind.FILE, MediaKind.FILE), 1),
        ((MediaKind.AUDIO, MediaKind.AUDIO), 1),
        ((MediaKind.IMAGE, MediaKind.FILE), 0),
        ((MediaKind.AUDIO, MediaKind.FILE), 0),
        ((MediaKind.VOICE, MediaKind.VOICE), 0),
        ((MediaKind.IMAGE,) * 11, 0),
    ],
)
async def test_what_may_stand_together(kinds: tuple[MediaKind, ...], albums: int) -> None:
    files = [Attachment(kind=kind, ref="x", name="x", mime="image/png") for kind in kinds]
    bed, _ = await sent_with(*files)
    assert [one.files[0][0] for one in bed.shown()[1:]] == list(kinds)
    assert len(groups(bed) - {None}) == albums


async def test_a_picture_that_is_none_does_not_keep_the_others_back() -> None:
    bed, receipt = await sent_with(*pictures(2, "bad.png", "empty.png", "gone.png"))
    shown = bed.shown()[1:]
    assert [one.files[0][0] if one.files else None for one in shown] == [
        MediaKind.IMAGE, MediaKind.VIDEO, MediaKind.FILE, None, None,
    ]  # fmt: skip
    assert shown[0].text == "<b>look</b>" and shown[0].ref == receipt.ref
    told = sorted(one.text for one in shown[3:])
    assert told[0].startswith("📎 empty.png: ") and told[1].startswith("📎 gone.png: The file is gone")


async def test_of_an_album_that_cannot_go_nothing_is_there() -> None:
    with pytest.raises(Refused, match="gone"):
        await sent_with(*pictures(0, "gone.png", "gone.png"))


async def test_who_tries_again_knows_that_some_of_it_is_there() -> None:
    """A text that is too long for a caption is out, and then there is trouble."""
    async with TelegramBed() as bed:
        bed.open_file = opener(bed)
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            told = platform.api.ask

            async def ask(method: str, *args: object, **more: object) -> object:
                if method == "sendMediaGroup":
                    bed.fail(Fault.TOO_FAST)
                return await told(method, *args, **more)  # type: ignore[arg-type]

            platform.api.ask = ask  # type: ignore[method-assign, assignment]
            for text, doubtful in (("x" * 1025, True), ("x", False)):
                body = Body(text=text, attachments=pictures(2))
                with pytest.raises(Unreachable) as error:
                    await platform.send(bed.chat, body, key="k", reply_to=None)
                assert (error.value.after, error.value.maybe_done) == (3.0, doubtful)


# --- bad input: one sentence each ---


@pytest.mark.parametrize("token", ["", "nonsense", "123:short"])
def test_what_is_no_token(token: str) -> None:
    with pytest.raises(NeedsLogin, match="TELEGRAM_BOT_TOKEN is no bot token"):
        TelegramAdapter(AdapterContext(settings=PlatformSettings(), find=lambda name: Secret(token)))


async def test_a_wrong_token_parks_and_is_never_told(caplog: pytest.LogCaptureFixture) -> None:
    async with TelegramBed() as bed:
        wrong = "987654321:AAF-another_token_of_some_letters"
        bed.said["TELEGRAM_BOT_TOKEN"] = wrong
        with (
            caplog.at_level(logging.DEBUG),
            pytest.raises(NeedsLogin, match="does not know this bot token") as error,
        ):
            await bed.connect().run(Inboxes().accept, None)
        await bed.server.down()
        with pytest.raises(Unreachable) as gone:
            await bed.connect().run(Inboxes().accept, None)
        assert not gone.value.maybe_done
        told = f"{error.value} {gone.value} {gone.value.__cause__} {caplog.text}"
        assert wrong not in told and "AAF-another" not in told


async def test_two_programs_with_one_bot() -> None:
    async with TelegramBed() as bed:
        first = asyncio.create_task(bed.connect().run(Inboxes().accept, None))
        await until(lambda: any(name == "getupdates" for name, _ in bed.server.calls), "no poll")
        async with running(bed.connect(), Inboxes().accept, None):
            with pytest.raises(Unreachable, match="Another program receives"):
                await first


@pytest.mark.parametrize(
    ("status", "told", "error", "words"),
    [
        (400, "Bad Request: chat not found", Refused, "chat not found"),
        (400, "Bad Request: message caption is too long", Refused, "caption is too long"),
        (400, "Bad Request: message to edit not found", Refused, "message to edit not found"),
        (400, "Bad Request: message thread not found", TopicGone, "topic is gone"),
        (400, "Bad Request: the chat is not a forum", Refused, "no topics"),
        (400, "Bad Request: TOPIC_CLOSED", Refused, "topic is closed"),
        (
            400,
            "Bad Request: not enough rights to send text messages to the chat",
            Refused,
            "not enough rights",
        ),
        (
            403,
            "Forbidden: bot can't initiate conversation with a user",
            Refused,
            "has to write to the bot first",
        ),
        (400, "Bad Request: file is too big", Refused, "too large"),
        (403, "Forbidden: bot was kicked from the supergroup chat", Refused, "does not let us write"),
        (413, "Request Entity Too Large", Refused, "too large"),
        (404, "Not Found", NeedsLogin, "token"),
    ],
)
def test_refusals(status: int, told: str, error: type[Exception], words: str) -> None:
    found = error_for(status, {"ok": False, "error_code": status, "description": told})
    assert type(found) is error and words in str(found)


@pytest.mark.parametrize(("wait", "after"), [(3, 3.0), (90_000, 86_400.0), (-1, 5.0), ("x", 5.0)])
def test_a_long_wait_is_kept(wait: object, after: float) -> None:
    found = error_for(429, {"description": "Too Many Requests", "parameters": {"retry_after": wait}})
    assert isinstance(found, Unreachable) and found.after == after


async def test_a_file_that_is_too_large_to_get() -> None:
    async with TelegramBed() as bed:
        file = bed.server.keep_file(bytes(20 * 1024 * 1024 + 1))
        platform = bed.connect()

        async def sink(piece: bytes) -> None:
            raise AssertionError("nothing comes")

        async with running(platform, Inboxes().accept, None):
            with pytest.raises(Refused, match="too large"):
                await platform.fetch(file["file_id"], sink)


@pytest.mark.parametrize("where", ["@x", "12345678901234567890", "a/b", "1 2"])
async def test_what_is_no_chat(where: str) -> None:
    async with TelegramBed() as bed:
        with pytest.raises(Refused, match="not a chat"):
            await bed.connect().send(
                Address(platform="telegram", chat=where), Body(text="x"), key="k", reply_to=None
            )


# --- cursor ---


async def test_an_old_cursor_is_not_trusted() -> None:
    """After a week of silence Telegram counts anew, perhaps from a lower number."""
    async with TelegramBed() as bed:
        clock = FakeClock()
        inboxes = Inboxes()
        for age, offset in ((0, 870_000_005), (3 * 86_400, None)):
            cursor = f"870000005@{int(clock.now().timestamp()) - age}"
            platform = bed.connect()
            platform._context = replace(platform._context, clock=clock)
            bed.server.calls.clear()
            async with running(platform, inboxes.accept, cursor):
                await until(lambda: any(name == "getupdates" for name, _ in bed.server.calls), "no poll")
            asked = next(asked for name, asked in bed.server.calls if name == "getupdates")
            assert asked.get("offset") == offset


async def test_the_backlog_is_kept_at_the_first_start() -> None:
    async with TelegramBed() as bed:
        await bed.do(Does.TEXT, "before you came")
        inboxes = Inboxes()
        async with hosted(bed, inboxes):
            await until(lambda: inboxes.texts == ["before you came"], "what waited was dropped")
        assert {"drop_pending_updates": False} in [asked for name, asked in bed.server.calls]


# --- the webhook ---


async def test_a_webhook_needs_a_secret() -> None:
    async with WebhookBed() as bed:
        bed.said["TELEGRAM_WEBHOOK_SECRET"] = "not a secret!"
        with pytest.raises(UserError, match="TELEGRAM_WEBHOOK_SECRET"):
            await bed.connect().run(Inboxes().accept, None)


async def test_nobody_else_speaks_for_telegram() -> None:
    async with WebhookBed() as bed, aiohttp.ClientSession() as session:
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, None):
            await bed.do(Does.TEXT, "true")
            await until(lambda: inboxes.texts == ["true"], "it never came")
            url = bed.said["TELEGRAM_WEBHOOK_URL"]
            for headers in ({}, {SECRET_HEADER: "guess"}, {SECRET_HEADER: "s3cret_of-our"}):
                async with session.post(url, json=UPDATES["text"], headers=headers) as response:
                    assert response.status == 403
            good = {SECRET_HEADER: bed.said["TELEGRAM_WEBHOOK_SECRET"]}
            async with session.post(url, data=b"\xff no json", headers=good) as response:
                assert response.status == 200, "what cannot be read would be sent again for ever"
        assert inboxes.texts == ["true"]


async def test_a_port_that_is_taken() -> None:
    async with WebhookBed() as bed:
        async with running(bed.connect(), Inboxes().accept, None):
            await until(lambda: bool(bed.server.webhook), "no webhook")
            with pytest.raises(Unreachable, match="cannot be listened on"):
                await bed.connect().run(Inboxes().accept, None)


# --- the check ---


async def test_the_check_says_what_is_wrong() -> None:
    async with WebhookBed() as bed:
        found = await bed.connect().check()
        assert [(one.good, one.text.partition(" ")[0]) for one in found] == [
            (True, "Telegram"),
            (True, "In"),
            (False, "TELEGRAM_WEBHOOK_URL"),
        ]
        bed.said.clear()
        assert all(one.good for one in await bed.connect().check())
        bed.said["TELEGRAM_BOT_TOKEN"] = "987654321:AAF-another_token_of_some_letters"
        with pytest.raises(NeedsLogin):
            await bed.connect().check()


async def test_faults_of_one_chat_are_not_anothers() -> None:
    async with TelegramBed() as bed:
        platform = bed.connect()
        here, there = bed.chats(2)
        bed.fail(Fault.GONE, times=99, chat=here)
        async with running(platform, Inboxes().accept, None):
            with pytest.raises(Refused, match="blocked"):
                await platform.send(here, Body(text="x"), key="k", reply_to=None)
            await platform.send(there, Body(text="x"), key="k", reply_to=None)
