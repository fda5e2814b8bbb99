"""Slack: what goes out, files both ways, and bad input, which gets one sentence."""

from __future__ import annotations

import html
import logging
from datetime import UTC, datetime
from typing import Any

import pytest

from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.chats.address import Address
from hermes.domain.chats.capabilities import Flavour
from hermes.domain.chats.message import Attachment, Body, Button, MediaKind
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable, UserError
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.word import replace
from hermes.entry.platforms.slack.adapter import SlackAdapter
from hermes.entry.platforms.slack.api import error_for, is_ours, is_signed, signature
from hermes.entry.platforms.slack.compose import blocks, emoji_name, tagged
from hermes.testing.platform_suite import Fault, Inboxes, running
from tests.platforms.slack.bed import EventsBed, SlackBed
from tests.platforms.slack.methods import check_blocks
from tests.platforms.slack.samples import CHANNEL, DM

VECTOR = (
    b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
    b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
    b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
    b"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
)
SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
SIGNED = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"


async def picture(file: Attachment) -> bytes:
    return b"image/png" + SlackBed.content


FILE = Attachment(kind=MediaKind.IMAGE, ref="x", name="plan.v2.png", mime="image/png")


# --- Markdown blocks ---


TABLE = "# Results\n\n| a | b |\n|---|---|\n| <1> | 2 & 3 |"


async def test_markdown_goes_in_blocks_where_the_operator_wants_it() -> None:
    async with SlackBed() as bed:
        bed.said["SLACK_MARKDOWN_BLOCKS"] = "true"
        platform = bed.connect()
        assert platform.capabilities.flavour is Flavour.COMMONMARK
        async with running(platform, Inboxes().accept, None):
            body = Body(text=TABLE, buttons=(Button(label="Yes", value="q_1:yes"),))
            sent = await platform.send(bed.chat, body, key="k", reply_to=None)
            long = ("слово " * 1800).strip()
            await platform.edit(sent, Body(text=long))
            assert [(one.text, one.buttons) for one in bed.shown()] == [(long, ())], "an edit takes as much"
            again = await platform.find_sent(bed.chat, "k")
            await platform.send(bed.chat, body, key="l", reply_to=None)
            thread = await platform.open_thread(Address(platform="slack", chat=CHANNEL), "a < b")
        assert again == sent
        begun = bed.server.find(CHANNEL, thread.thread)
        assert begun is not None and begun["blocks"][0]["text"] == "a < b"
        last = bed.server.find(DM, bed.shown(bed.chat)[-1].ref)
        assert last is not None and last["blocks"][0] == {"type": "markdown", "text": TABLE}
        assert "&lt;1&gt; | 2 &amp; 3" in last["text"], "what notifications show"
        assert bed.shown(bed.chat)[-1].buttons == ("Yes",)


async def test_where_slack_takes_no_markdown_blocks_the_words_go_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.platforms.slack.methods.WITHOUT", {"markdown"})
    async with SlackBed() as bed:
        bed.said["SLACK_MARKDOWN_BLOCKS"] = "true"
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            sent = await platform.send(bed.chat, Body(text=TABLE), key="k", reply_to=None)
            assert [one.text for one in bed.shown()] == [html.escape(TABLE, quote=False)]
            await platform.edit(sent, Body(text="a < b", buttons=(Button(label="Yes", value="v"),)))
        assert [(one.text, one.buttons) for one in bed.shown()] == [("a &lt; b", ("Yes",))]


# --- signatures and addresses ---


def test_the_vendors_own_signature() -> None:
    assert signature(SECRET, "1531420618", VECTOR) == SIGNED
    headers = {"X-Slack-Request-Timestamp": "1531420618", "X-Slack-Signature": SIGNED}
    for late, good in ((0, True), (300, True), (-300, True), (301, False), (-301, False)):
        now = datetime.fromtimestamp(1531420618 + late, UTC)
        assert is_signed(SECRET, headers, VECTOR, now) is good
    now = datetime.fromtimestamp(1531420618, UTC)
    assert not is_signed(SECRET, headers, VECTOR + b"&x=1", now)
    assert not is_signed("another", headers, VECTOR, now)
    assert not is_signed(SECRET, {}, VECTOR, now)


@pytest.mark.parametrize(
    ("url", "ours"),
    [
        ("https://files.slack.com/files-pri/x", True),
        ("wss://wss-primary.slack.com/link?ticket=1", True),
        ("https://slack.com/x", True),
        ("http://files.slack.com/x", False),
        ("https://files.slack.com.evil.invalid/x", False),
        ("https://evilslack.com/x", False),
        ("https://files.slack.com@evil.invalid/x", False),
        ("https://user@files.slack.com/x", False),
        ("https://169.254.169.254/latest", False),
        ("file:///etc/passwd", False),
        ("https://[bad", False),
        ("", False),
    ],
)
def test_the_token_goes_to_slack_alone(url: str, ours: bool) -> None:
    assert is_ours(url, "https://slack.com/api") is ours


# --- messages ---


def test_buttons_keep_the_limits() -> None:
    buttons = [Button(label=f"{n} " + "long " * 30, value=f"q_1:{n}") for n in range(60)]
    shown = blocks(
        "word\n" * 2000, [*buttons, Button(label="x", value="y" * 2001), Button(label=" ", value="z")]
    )
    check_blocks(shown)
    assert sum(len(block.get("elements", ())) for block in shown) == 60
    told = "".join(block["text"]["text"] for block in shown if block["type"] == "section")
    assert told.split() == ["word"] * 2000
    check_blocks(blocks("x" * 7000, []))


@pytest.mark.parametrize(
    ("emoji", "name"), [("👀", "eyes"), ("❤️", "heart"), (":party_parrot:", "party_parrot")]
)
def test_emoji(emoji: str, name: str) -> None:
    assert emoji_name(emoji) == name


async def test_reactions_come_and_go() -> None:
    async with SlackBed() as bed:
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            sent = await platform.send(bed.chat, Body(text="x"), key="k", reply_to=None)
            await platform.react(sent, "👀")
            await platform.react(sent, "👀")
            assert bed.reactions() == ["👀"]
            await platform.react(sent, "", instead="👀")
            assert bed.reactions() == []
            with pytest.raises(Refused, match="no name"):
                await platform.react(sent, "🦩🦩")


async def test_a_person_is_reached_by_a_direct_message() -> None:
    async with SlackBed() as bed:
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            person = Address(platform="slack", chat="U0BOB000001")
            sent = await platform.send(person, Body(text="x"), key="k", reply_to=None)
            assert sent.to.chat == "D0BOB000001"
            await platform.edit(sent, Body(text="y"))
            found = await platform.find_sent(person, "k")
            assert found == sent
        assert [one.text for one in bed.shown()] == ["y"]


async def test_threads() -> None:
    async with SlackBed() as bed:
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            channel = Address(platform="slack", chat=CHANNEL)
            thread = await platform.open_thread(channel, "Plans & <more>")
            sent = await platform.send(thread, Body(text="in it"), key="k", reply_to=None)
            assert (bed.shown()[0].text, bed.shown()[1].thread) == ("Plans &amp; &lt;more&gt;", thread.thread)
            assert await platform.find_sent(thread, "k") == sent
            assert await platform.find_sent(channel, "k") is None
            gone = replace(channel, thread="1700000000.000001")
            await platform.send(gone, Body(text="all the same"), key="k2", reply_to=None)
            assert bed.shown()[-1].thread is None
            assert await platform.find_sent(gone, "k3") is None


@pytest.mark.parametrize("where", ["general", "#general", "c0123", "C0/../x", "", "X0123456", "C0123 4"])
async def test_what_is_no_chat(where: str) -> None:
    async with SlackBed() as bed:
        with pytest.raises(Refused, match="not a chat"):
            await bed.connect().send(
                Address(platform="slack", chat=where), Body(text="x"), key="k", reply_to=None
            )


# --- files ---


@pytest.mark.parametrize("thread", [None, "root"])
async def test_a_file_whose_fate_is_unknown_is_found_by_its_key(thread: str | None) -> None:
    async with SlackBed() as bed:
        bed.open_file = picture
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            to = bed.chat
            if thread:
                to = await platform.open_thread(replace(bed.chat, chat=CHANNEL), "Plans")
            bed.fail(Fault.RESET, done=True)
            with pytest.raises(Unreachable) as error:
                await platform.send(to, Body(text="look", attachments=(FILE,)), key="k/1", reply_to=None)
            assert error.value.maybe_done
            found = await platform.find_sent(to, "k/1")
            assert found is not None and found.ref == bed.shown()[-1].ref
            assert await platform.find_sent(to, "k/2") is None
        file = bed.server.find(to.chat, found.ref)["files"][0]  # type: ignore[index]
        assert file["title"] == "plan.v2.png" and file["name"] == tagged("plan.v2.png", "k/1")


async def test_a_text_with_buttons_and_files() -> None:
    async with SlackBed() as bed:
        bed.open_file = picture
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            body = Body(
                text="May I?", attachments=(FILE, FILE), buttons=(Button(label="Yes", value="q:yes"),)
            )
            await platform.send(bed.chat, body, key="k", reply_to=None)
        assert [(one.text, len(one.files), one.buttons) for one in bed.shown()] == [
            ("May I?", 0, ("Yes",)),
            ("", 2, ()),
        ]


async def test_files_of_one_message_stand_in_one_message() -> None:
    async with SlackBed() as bed:
        bed.open_file = picture
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            body = Body(text="look", attachments=(FILE,) * 3)
            sent = await platform.send(bed.chat, body, key="k", reply_to=None)
            assert await platform.find_sent(bed.chat, "k") == sent
        assert [(one.text, len(one.files)) for one in bed.shown()] == [("look", 3)]


async def test_files_that_slack_does_not_take() -> None:
    async with SlackBed() as bed:

        async def empty(file: Attachment) -> bytes:
            return b""

        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            with pytest.raises(Refused, match="no files"):
                await platform.send(bed.chat, Body(attachments=(FILE,)), key="k", reply_to=None)
            platform._context = replace(platform._context, open_file=empty)
            with pytest.raises(Refused, match="empty"):
                await platform.send(bed.chat, Body(attachments=(FILE,)), key="k", reply_to=None)
            platform._context = replace(platform._context, open_file=picture)
            bed.server.scopes = tuple(one for one in bed.server.scopes if one != "files:write")
            with pytest.raises(NeedsLogin, match="files:write"):
                await platform.send(bed.chat, Body(attachments=(FILE,)), key="k", reply_to=None)


async def fetched(bed: SlackBed, ref: str) -> bytes:
    pieces: list[bytes] = []

    async def sink(piece: bytes) -> None:
        pieces.append(piece)

    platform = bed.connect()
    async with running(platform, Inboxes().accept, None):
        await platform.fetch(ref, sink)
    return b"".join(pieces)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"mode": "tombstone"}, "deleted"),
        ({"mode": "external", "is_external": True}, "elsewhere"),
        ({"url_private_download": "https://evil.invalid/x", "url_private": None}, "not its own"),
        ({"url_private_download": None, "url_private": None}, "where the file is"),
    ],
)
async def test_files_that_are_not_fetched(more: dict[str, Any], words: str) -> None:
    async with SlackBed() as bed:
        file = bed.server.keep_file("a.txt", b"abc")
        bed.server.files[file["id"]].told |= more
        with pytest.raises(Refused, match=words):
            await fetched(bed, file["id"])


async def test_a_page_to_log_in_on_is_no_file() -> None:
    async with SlackBed() as bed:
        file = bed.server.keep_file("a.txt", b"abc")
        assert await fetched(bed, file["id"]) == b"abc"
        bed.server.files[file["id"]].told["mimetype"] = "text/html"
        assert await fetched(bed, file["id"]) == b"abc"
        answer = bed.server.answer
        bed.server.answer = lambda method, asked: (  # type: ignore[method-assign]
            {"file": {**file, "mimetype": "text/plain"}} if method == "files.info" else answer(method, asked)
        )
        with pytest.raises(Refused, match="files:read"):
            await fetched(bed, file["id"])
        bed.server.scopes = ()
        with pytest.raises(Refused, match="files:read"):
            await fetched(bed, file["id"])


async def test_addresses_that_are_not_slacks_are_not_used() -> None:
    async with SlackBed() as bed:
        bed.open_file = picture
        answer = bed.server.answer

        def elsewhere(method: str, asked: dict[str, Any]) -> dict[str, Any]:
            told = answer(method, asked)
            return {**told, "upload_url": "https://evil.invalid/up"} if "upload_url" in told else told

        bed.server.answer = elsewhere  # type: ignore[method-assign]
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            with pytest.raises(Refused, match="not its own"):
                await platform.send(bed.chat, Body(attachments=(FILE,)), key="k", reply_to=None)
        bed.server._open_link = lambda token: {"ok": True, "url": "ws://evil.invalid/link"}  # type: ignore[method-assign]
        with pytest.raises(Refused, match="not its own"):
            await bed.connect().run(Inboxes().accept, None)


# --- bad input: one sentence each ---


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({}, "SLACK_BOT_TOKEN is no bot token"),
        ({"SLACK_BOT_TOKEN": "xoxp-1-a-user-token"}, "SLACK_BOT_TOKEN is no bot token"),
        ({"SLACK_BOT_TOKEN": "xoxe.xoxb-1-rotated"}, "token rotation"),
        ({"SLACK_BOT_TOKEN": "xoxe-1-refreshes"}, "token rotation"),
        ({"SLACK_BOT_TOKEN": "xoxb-1111111111"}, "SLACK_APP_TOKEN"),
        (
            {"SLACK_BOT_TOKEN": "xoxb-1111111111", "SLACK_APP_TOKEN": "xoxb-2"},
            "SLACK_APP_TOKEN is no app token",
        ),
    ],
)
def test_tokens_that_are_none(said: dict[str, str], words: str) -> None:
    with pytest.raises(NeedsLogin, match=words):
        SlackAdapter(
            AdapterContext(
                settings=PlatformSettings(), find=lambda name: Secret(said[name]) if name in said else None
            )
        )


async def test_wrong_tokens_park_and_are_never_told(caplog: pytest.LogCaptureFixture) -> None:
    async with SlackBed() as bed:
        wrong, told = "xoxb-9999999999-theWrongBotToken", []
        with caplog.at_level(logging.DEBUG):
            for name, value, words in (
                ("SLACK_BOT_TOKEN", wrong, "invalid_auth"),
                ("SLACK_APP_TOKEN", "xapp-1-theWrongAppToken", "SLACK_APP_TOKEN is not right"),
            ):
                before = dict(bed.said)
                bed.said[name] = value
                with pytest.raises(NeedsLogin, match=words) as error:
                    await bed.connect().run(Inboxes().accept, None)
                told.append(f"{error.value} {error.value.__cause__}")
                bed.said = before
            await bed.server.down()
            with pytest.raises(Unreachable, match="cannot be reached") as gone:
                await bed.connect().run(Inboxes().accept, None)
        assert not gone.value.maybe_done
        everything = f"{told} {gone.value} {gone.value.__cause__} {caplog.text}"
        assert "theWrong" not in everything and "theFake" not in everything


@pytest.mark.parametrize(
    ("status", "answer", "error", "words"),
    [
        (200, {"error": "missing_scope", "needed": "chat:write"}, NeedsLogin, "permission chat:write"),
        (200, {"error": "account_inactive"}, NeedsLogin, "account_inactive"),
        (200, {"error": "token_expired"}, NeedsLogin, "make an app without it"),
        (200, {"error": "is_archived"}, Refused, "the channel is archived"),
        (200, {"error": "msg_too_long"}, Refused, "too long"),
        (200, {"error": "messages_tab_disabled"}, Refused, "App Home"),
        (200, {"error": "channel_not_found"}, Refused, "does not know the chat"),
        (200, {"error": "not_in_channel"}, Refused, "/invite"),
        (200, {"error": "never_heard_of"}, Refused, "never_heard_of"),
        (200, {"error": "fatal_error"}, Unreachable, "fault of its own"),
        (503, None, Unreachable, "HTTP 503"),
        (404, None, Unreachable, "not Slack"),
        (413, None, Refused, "too large"),
    ],
)
def test_refusals(status: int, answer: Any, error: type[Exception], words: str) -> None:
    found = error_for(status, answer, None)
    assert type(found) is error and words in str(found)


@pytest.mark.parametrize(("wait", "after"), [("30", 30.0), (None, 5.0), ("soon", 5.0), ("-1", 5.0)])
def test_too_fast(wait: str | None, after: float) -> None:
    found = error_for(429, {"ok": False, "error": "ratelimited"}, wait)
    assert isinstance(found, Unreachable) and found.after == after


async def test_a_port_that_is_none() -> None:
    async with EventsBed() as bed:
        bed.said["SLACK_WEBHOOK_PORT"] = "http"
        with pytest.raises(UserError, match="SLACK_WEBHOOK_PORT"):
            await bed.connect().run(Inboxes().accept, None)


async def test_the_check_says_what_is_wrong() -> None:
    async with SlackBed() as bed:
        assert [(one.good, one.text) for one in await bed.connect().check()] == [
            (True, "Slack knows the bot as @hermes in Fake (U0HERMES001)."),
            (True, "Socket Mode is on, and the app token opens it."),
        ]
        bed.server.scopes = tuple(one for one in bed.server.scopes if one not in ("users:read", "im:history"))
        found = await bed.connect().check()
        assert [(one.good, one.text) for one in found if one.hint] == [
            (False, "Without the permission im:history it does not hear direct messages."),
            (True, "Without the permission users:read it does not know people's names."),
        ]
        bed.said["SLACK_APP_TOKEN"] = "xapp-1-another"
        with pytest.raises(NeedsLogin, match="SLACK_APP_TOKEN"):
            await bed.connect().check()
    async with EventsBed() as bed:
        found = await bed.connect().check()
        assert all(one.good for one in found) and "/slack/events" in found[-1].text


async def test_faults_of_one_chat_are_not_anothers() -> None:
    async with SlackBed() as bed:
        platform = bed.connect()
        bed.fail(Fault.GONE, times=99, chat=replace(bed.chat, chat=CHANNEL))
        async with running(platform, Inboxes().accept, None):
            with pytest.raises(HermesError, match="archived"):
                await platform.send(replace(bed.chat, chat=CHANNEL), Body(text="x"), key="k", reply_to=None)
            sent = await platform.send(bed.chat, Body(text="x"), key="k", reply_to=None)
            assert sent.to.chat == DM
