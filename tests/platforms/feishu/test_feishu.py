"""Feishu: the adapter passes the suite, over a long connection and called, and what only Feishu wants."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence

import aiohttp
import pytest

from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.chats.address import Address, SourceKind
from hermes.domain.chats.message import Attachment, Body, Button, Inbound, InboundKind, MediaKind
from hermes.domain.errors import NeedsLogin, Refused, Unreachable
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.word import replace
from hermes.entry.kit.crypto import cbc_opened, cbc_sealed
from hermes.entry.platforms.feishu.adapter import FeishuAdapter
from hermes.entry.platforms.feishu.convert import (
    FeishuIdentity,
    card,
    file_place,
    learn,
    place,
    to_inbounds,
)
from hermes.entry.platforms.feishu.manifest import MOST_TEXT
from hermes.entry.platforms.feishu.socket import FeishuFrame
from hermes.testing.platform_suite import CHECKS, RECEIVING, Check, Does, Inboxes, conform, running, until
from tests.platforms.feishu.bed import TEAM_CHAT, CalledBed, FeishuBed, known
from tests.platforms.feishu.samples import ANN, BOB, BOT, EVENTS, POST, PRIVATE, ROOT, TEAM, TOKEN, received
from tests.platforms.feishu.server import MOST_CARD, Wrong


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_feishu_conforms(check: Check, full: bool) -> None:
    await conform(check, FeishuBed, full=full)


@pytest.mark.parametrize("check", RECEIVING, ids=lambda check: check.__name__)
async def test_feishu_conforms_when_it_is_called(check: Check, full: bool) -> None:
    await conform(check, CalledBed, full=full)


# --- vectors ---


def test_the_vendors_vector_of_decryption() -> None:
    """open.feishu.cn, event-subscription-guide, “Encrypt Key”: key `test key`."""
    sealed = base64.b64decode("P37w+VZImNgPEO1RBhJ6RtKl7n6zymIbEG1pReEzghk=")
    key = hashlib.sha256(b"test key").digest()
    assert cbc_opened(key, sealed[:16], sealed[16:]) == b"hello world"
    assert cbc_sealed(key, sealed[:16], b"hello world") == sealed[16:]
    with pytest.raises(ValueError):
        cbc_opened(hashlib.sha256(b"another").digest(), sealed[:16], sealed[16:])


def test_a_ping_on_the_wire() -> None:
    """As lark-oapi 1.7.5 writes it, for the service 7."""
    raw = bytes.fromhex("08001000180720002a0c0a0474797065120470696e67")
    assert FeishuFrame(service=7, headers=(("type", "ping"),)).written() == raw
    assert FeishuFrame.read(raw) == FeishuFrame(service=7, headers=(("type", "ping"),))


@pytest.mark.parametrize("raw", [b"\x08", b"\x2a\x7fx", b"\xff" * 12, b"\x0d1234"])
def test_what_is_no_frame(raw: bytes) -> None:
    with pytest.raises(ValueError):
        FeishuFrame.read(raw)


# --- what comes in ---


def read(name: str) -> Inbound:
    (item,) = to_inbounds(EVENTS[name], known())
    return item


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("text", "hello 😀"),
        ("command", "/status now"),
        ("mention", "what now?"),
        ("mention of two", "and @Ann and @Bob"),
        ("rich text", "Plans\nlook at \n[this](https://example.com)\n```\na := 1\n```"),
        ("sticker", "(sticker)"),
        ("forwarded", "[Forwarded]\nIt could not be read."),
        ("place", "(location)\nCafé\nlongitude: 116.3\nlatitude: 39.9"),
        ("person", f"(share_user)\nuser_id: {BOB}"),
        ("chat", f"(share_chat)\nchat_id: {TEAM}"),
        ("card", "(interactive)\nReport\nAll is well."),
        ("task", "(todo)\nBuy milk\ndue_time: 2026-10-26 07:33:20+00:00"),
        ("appointment", "(calendar)\nLunch\nstart_time: 2026-10-26 07:33:20+00:00"),
        ("vote", "(vote)\nWhere?\nhere\nthere"),
        ("folder", "(folder)\nPlans"),
        ("call", "(video_chat)\nWeekly"),
        ("something new", "(hologram)"),
    ],
)
def test_words(name: str, text: str) -> None:
    assert read(name).text == text


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("picture", [MediaKind.IMAGE]),
        ("file", [MediaKind.FILE]),
        ("voice", [MediaKind.VOICE]),
        ("video", [MediaKind.VIDEO]),
        ("rich text in a language", [MediaKind.IMAGE, MediaKind.VIDEO]),
    ],
)
def test_files(name: str, kinds: list[MediaKind]) -> None:
    item = read(name)
    assert [file.kind for file in item.attachments] == kinds
    assert all(file_place(file.ref)[0] == item.ref for file in item.attachments)


def test_places() -> None:
    assert (read("text").source.kind, read("text").source.address.chat) == (SourceKind.PRIVATE, PRIVATE)
    overheard = read("overheard")
    assert (overheard.source.kind, overheard.mentions_me) == (SourceKind.GROUP, False)
    assert read("mention").mentions_me
    assert read("topic").source.address == replace(TEAM_CHAT, thread=ROOT)
    assert read("a topic's first message").source.address.thread == "om_text00000008"
    assert (read("topic group").source.kind, read("topic group").mentions_me) == (SourceKind.GROUP, True)
    reply = read("reply").reply_to
    assert reply is not None and reply.mine
    assert read("added").what is InboundKind.JOINED
    assert (read("pressed").button, read("pressed").source.kind) == ("q_1:yes", SourceKind.PRIVATE)
    assert to_inbounds(EVENTS["read"], known()) == ()


async def test_an_event_in_several_frames() -> None:
    async with FeishuBed() as bed:
        bed.server.part_bytes = 50
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, None):
            await until(lambda: bed.server.opened > 0, "nobody came")
            await bed.do(Does.TEXT, "a long story")
            await until(lambda: len(bed.server.acked) == 1, "it is not acknowledged")
        assert inboxes.texts == ["a long story"]
        answer = bed.server.answers[0]
        assert answer.log == 2**63 + 5 and answer.header("biz_rt") and dict(answer.rest)[7] == b"json"


async def test_pings() -> None:
    async with FeishuBed() as bed:
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, None):
            await until(lambda: bed.server.pings >= 2 and inboxes.batches >= 3, "no life is seen")


def test_a_picture_that_was_answered_to_comes_along() -> None:
    me = FeishuIdentity(open_id="ou_12345678")
    told = {"msg_type": "image", "body": {"content": '{"image_key": "img_v2_1"}'}}
    learn(ROOT, {"data": {"items": []}}, me)
    assert ROOT not in me.asked
    learn(ROOT, {"data": {"items": [told]}}, me)
    files = me.asked[ROOT].attachments
    assert [file_place(one.ref) for one in files] == [(ROOT, "image", "img_v2_1")]
    about = {
        "message_id": "om_87654321",
        "chat_id": "oc_12345678",
        "chat_type": "group",
        "create_time": "1793000000000",
        "message_type": "text",
        "content": '{"text": "what is this?"}',
        "parent_id": ROOT,
        "root_id": ROOT,
    }
    sender = {"sender_id": {"open_id": "ou_87654321"}, "sender_type": "user"}
    for thread, wanted in (({}, files), ({"thread_id": "omt_1"}, ())):
        event = {"header": {"event_type": "im.message.receive_v1"}}
        (item,) = to_inbounds({**event, "event": {"sender": sender, "message": {**about, **thread}}}, me)
        assert item.attachments == wanted, "in a topic everything answers its first message"


async def test_what_was_answered_to_is_asked_for_and_not_waited_for() -> None:
    text = {"msg_type": "text", "sender": {"sender_type": "user"}, "body": {"content": '{"text": "go"}'}}
    me = FeishuIdentity(open_id="ou_12345678")
    learn("om_12345678", {"data": {"items": [text]}}, me)
    assert (me.asked["om_12345678"].text, me.asked["om_12345678"].mine) == ("go", False)
    async with FeishuBed() as bed:
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, None):
            await bed.do(Does.REPLY, "gone", on="om_nobodyknows1")
            await until(lambda: inboxes.texts == ["gone"], "it never came")
        assert inboxes.items[0].reply_to is not None


async def test_a_forwarded_chat_is_read() -> None:
    async with FeishuBed() as bed:
        inboxes, event = Inboxes(), EVENTS["forwarded"]
        parts = (
            received("inside000001", "text", {"text": "shall we?"}),
            received("inside000002", "merge_forward", "Merged and Forwarded Message"),
            received("inside000003", "image", {"image_key": "img_v2_inside"}, person=BOB),
            received("inside000004", "post", POST),
        )
        bed.server.forwarded[event["event"]["message"]["message_id"]] = list(parts)
        async with running(bed.connect(), inboxes.accept, None):
            bed.server.say(event)
            await until(lambda: len(inboxes.items) == 1, "it never came")
        (item,) = inboxes.items
        assert item.text.splitlines()[:4] == [
            "[Forwarded]", "Person 1: shall we?", "Person 2: (image)", "Person 1: Plans",
        ]  # fmt: skip
        assert [file_place(one.ref)[0] for one in item.attachments] == [item.ref] * 3


async def test_a_topic_is_one_conversation_also_after_a_restart() -> None:
    async with FeishuBed() as bed:
        threads, cursors = list[str | None](), list[str | None]([None])

        async def accept(items: Sequence[Inbound], cursor: str | None) -> None:
            threads.extend(item.source.address.thread for item in items)
            cursors.extend([cursor] if cursor else [])

        for count, name in enumerate(("typed into a topic", "typed into it again", "answered in it"), 1):
            bed.server.say(EVENTS[name])
            async with running(bed.connect(), accept, cursors[-1]):
                await until(lambda count=count: len(threads) == count, "it never came")
        assert threads == ["om_text00000010"] * 3


def test_a_topic_that_is_used_keeps_its_address_however_many_others_begin() -> None:
    me = FeishuIdentity(open_id=BOT)

    def thread(number: int, topic: str) -> str | None:
        event = received(f"text{number:08d}", "text", {"text": "hi"}, True, thread_id=topic)
        (item,) = to_inbounds(event, me)
        return item.source.address.thread

    for number in range(0, 1_200, 3):
        assert thread(number, "omt_old") == "om_text00000000"
        thread(number + 1, f"omt_{number + 1}")
        thread(number + 2, f"omt_{number + 2}")
    assert len(me.topics) == 500


# --- calls ---


async def test_who_calls_without_the_secrets_is_nobody() -> None:
    async with CalledBed() as bed:
        inboxes, server = Inboxes(), bed.server
        async with running(bed.connect(), inboxes.accept, None):
            await until(lambda: inboxes.batches > 0, "it never listens")
            told = bed.said_by(Does.TEXT, "hello", PRIVATE)
            assert await server.call(told, key="another key") == 403
            assert await server.call(told, forged=True) == 403
            wrong = json.loads(json.dumps(told))
            wrong["header"]["token"] = "another"
            assert await server.call(wrong) == 403
            async with aiohttp.ClientSession() as session:
                for raw in (b"", b"{}", b'{"encrypt": "AAAA"}', b'{"encrypt": 7}', json.dumps(told).encode()):
                    async with session.post(server.events_url, data=raw) as answer:
                        assert answer.status == 403
            assert inboxes.items == []
            assert await server.call(told) == 200
            assert await server.call(told) == 200, "a replay is taken, and does nothing"
        assert inboxes.texts == ["hello"]


async def test_it_says_that_it_is_there() -> None:
    async with CalledBed() as bed:
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, None):
            await until(lambda: inboxes.batches > 0, "it never listens")
            asked = {"challenge": "ajls384kdjx98XX", "token": TOKEN, "type": "url_verification"}
            assert await bed.server.call(asked, forged=True) == 200
            assert json.loads(bed.server.answered) == {"challenge": "ajls384kdjx98XX"}
            assert await bed.server.call({**asked, "token": "another"}) == 403


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"FEISHU_APP_ID": "a1b2"}, "no app id"),
        ({"FEISHU_APP_SECRET": ""}, "FEISHU_APP_SECRET is missing"),
        ({"FEISHU_DOMAIN": "open.example.com"}, "begins with https"),
        ({"FEISHU_WEBHOOK_URL": "https://x.example/f"}, "FEISHU_ENCRYPT_KEY and FEISHU_VERIFICATION_TOKEN"),
        ({"FEISHU_WEBHOOK_URL": "https://x.example/f", "FEISHU_ENCRYPT_KEY": "k"}, "set both"),
    ],
)
def test_what_it_does_not_start_with(said: dict[str, str], words: str) -> None:
    with pytest.raises(NeedsLogin, match=words):
        FeishuAdapter(_context(FeishuBed(), **said))


def _context(bed: FeishuBed, **said: str) -> AdapterContext:
    values = {**bed.variables(), **said}
    return AdapterContext(
        settings=PlatformSettings(), find=lambda name: Secret(values[name]) if name in values else None
    )


async def test_only_what_is_wrong_with_the_credentials_stops_it() -> None:
    async with FeishuBed() as bed:
        bed.server.shut = Wrong(1000040351, "who knows", 200)
        with pytest.raises(Unreachable, match="who knows"):
            await bed.connect().run(Inboxes().accept, None)
        page = FeishuAdapter(_context(bed, FEISHU_DOMAIN=f"{bed.server.url}/a/proxy's/page"))
        with pytest.raises(Unreachable, match="HTTP 404"):
            await page.run(Inboxes().accept, None)


async def test_a_revoked_secret_stops_it() -> None:
    async with FeishuBed() as bed:
        with pytest.raises(NeedsLogin, match="FEISHU_APP_SECRET"):
            await FeishuAdapter(_context(bed, FEISHU_APP_SECRET="old")).run(Inboxes().accept, None)
        with pytest.raises(NeedsLogin, match="FEISHU_APP_SECRET"):
            await FeishuAdapter(_context(bed, FEISHU_APP_SECRET="old")).check()


# --- what goes out ---


@pytest.mark.parametrize("unit", ["x", '"', "\n", "ж", "\\", "<at>"])
def test_the_longest_text_fits_into_a_card(unit: str) -> None:
    text = unit * (MOST_TEXT // len(unit.encode()))
    raw = card(text, (), TEAM_CHAT, None)
    assert len(json.dumps(raw, ensure_ascii=False).encode()) <= MOST_CARD


def test_nobody_is_mentioned_by_the_model() -> None:
    raw = card('<at id=all></at> <AT user_id="x">', (), TEAM_CHAT, None)
    assert "<at" not in raw.lower() and "＜at id=all>" in raw


async def test_a_card_that_cannot_be_shown_is_sent_as_it_is_written() -> None:
    async with FeishuBed() as bed:
        bed.server.unshowable = "| a |"
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            sent = await platform.send(bed.chat, Body(text="| a |"), key="k", reply_to=None)
            await platform.edit(sent, Body(text="| a | b"))
        assert [one.text for one in bed.shown()] == ["| a | b"]
        assert bed.server.sent[0].elements[0]["text"]["tag"] == "plain_text"


async def test_pictures_from_elsewhere_are_links_for_a_card_shows_none() -> None:
    async with FeishuBed() as bed:
        platform = bed.connect()
        text = "**Two:** ![a cat](https://x.example/a.png) ![](https://x.example/b.png) `![c](d)`"
        async with running(platform, Inboxes().accept, None):
            sent = await platform.send(bed.chat, Body(text="…", growing=True), key="k", reply_to=None)
            await platform.edit(sent, Body(text=text))
        (card,) = bed.server.sent[0].elements
        shown = "**Two:** [a cat](https://x.example/a.png) [picture](https://x.example/b.png) `![c](d)`"
        assert (card["tag"], card["content"]) == ("markdown", shown)


async def test_in_a_topic_and_as_an_answer() -> None:
    async with FeishuBed() as bed:
        platform = bed.connect()
        topic = replace(TEAM_CHAT, thread=ROOT)
        buttons = (Button(label="Yes", value="q:yes"),)
        async with running(platform, Inboxes().accept, None):
            await platform.send(
                topic, Body(text="in it", buttons=buttons), key="1", reply_to="om_other00000001"
            )
            await bed.do(Does.MENTION, "hello")
            answered = next(iter(bed.server.kept.values()))["event"]["message"]["message_id"]
            await platform.send(TEAM_CHAT, Body(text="an answer"), key="2", reply_to=answered)
        first, second = bed.server.sent
        assert (first.thread, first.buttons[0][1]["thread"]) == (ROOT, ROOT)
        assert (second.thread, second.reply_to, second.chat) == (None, answered, TEAM)


async def test_a_topic_is_written_to_also_when_its_first_message_was_taken_back() -> None:
    async with FeishuBed() as bed:
        platform = bed.connect()
        topic = replace(TEAM_CHAT, thread="om_first00000001")
        async with running(platform, Inboxes().accept, None):
            await bed.do(Does.MENTION, "hello")
            answered = next(iter(bed.server.kept.values()))["event"]["message"]["message_id"]
            await platform.send(topic, Body(text="in it"), key="1", reply_to=answered)
            with pytest.raises(Refused, match="any more"):
                await platform.send(topic, Body(text="unasked"), key="2", reply_to=None)
            with pytest.raises(Refused, match="any more"):
                await platform.send(topic, Body(text="late"), key="3", reply_to="om_other00000001")
        assert [(one.chat, one.thread) for one in bed.server.sent] == [(TEAM, answered)]


async def test_a_person_is_written_to_by_open_id() -> None:
    async with FeishuBed() as bed:
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            await platform.send(Address(platform="feishu", chat=ANN), Body(text="hi"), key="1", reply_to=None)
        assert [one.chat for one in bed.server.sent] == [PRIVATE]


@pytest.mark.parametrize("chat", ["x", "oc_", "on_12345678", "oc_../../x"])
def test_what_is_no_chat(chat: str) -> None:
    with pytest.raises(Refused, match="neither a chat nor a person"):
        place(Address(platform="feishu", chat=chat))


@pytest.mark.parametrize("ref", ["", "om_1", "om_12345678/x/img_1234", "om_12345678/image/../../x"])
def test_what_is_no_file(ref: str) -> None:
    with pytest.raises(Refused, match="no file"):
        file_place(ref)


async def test_files_are_told_apart_by_their_names() -> None:
    async with FeishuBed() as bed:

        async def open_file(file: Attachment) -> bytes:
            return b"data"

        bed.open_file = open_file
        platform = bed.connect()
        file = Attachment(kind=MediaKind.FILE, ref="x", name="Plan.PDF", mime="application/pdf")
        async with running(platform, Inboxes().accept, None):
            await platform.send(bed.chat, Body(attachments=(file,)), key="1", reply_to=None)
        assert [one.kind for one in bed.server.sent] == ["file"]


async def test_the_check() -> None:
    async with FeishuBed() as bed:
        found = await bed.connect().check()
        assert [one.good for one in found] == [True, True] and "long connection" in found[1].text
    async with CalledBed() as bed:
        assert "Feishu calls" in (await bed.connect().check())[-1].text
