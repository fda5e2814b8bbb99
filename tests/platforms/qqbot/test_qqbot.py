"""QQ: the adapter passes the suite, with the gateway and called; and answers no more than QQ allows."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import aiohttp
import pytest

from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.chats.address import Address, SourceKind
from hermes.domain.chats.message import Attachment, Body, Inbound, MediaKind
from hermes.domain.errors import NeedsLogin, Refused, Unreachable
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.word import replace
from hermes.entry.platforms.qqbot.adapter import QQAdapter
from hermes.entry.platforms.qqbot.convert import file_place, is_signed, place, public_key, signed, to_inbounds
from hermes.entry.platforms.qqbot.replies import QQReplies
from hermes.testing.platform_suite import (
    RECEIVING,
    SENDING,
    WHOLE,
    Check,
    Does,
    Inboxes,
    conform,
    hosted,
    running,
    until,
)
from tests.platforms.qqbot.bed import GROUP_CHAT, AnsweringBed, CalledBed, QQBed
from tests.platforms.qqbot.samples import ANN, EVENTS, GROUP, PICTURE, event, message
from tests.platforms.qqbot.server import UNLISTED, Wrong


@pytest.mark.parametrize("check", [*RECEIVING, *SENDING], ids=lambda check: check.__name__)
async def test_qqbot_conforms(check: Check, full: bool) -> None:
    await conform(check, AnsweringBed, full=full)


@pytest.mark.parametrize("check", WHOLE, ids=lambda check: check.__name__)
async def test_qqbot_conforms_as_a_whole(check: Check, full: bool) -> None:
    await conform(check, QQBed, full=full)


@pytest.mark.parametrize("check", RECEIVING, ids=lambda check: check.__name__)
async def test_qqbot_conforms_when_it_is_called(check: Check, full: bool) -> None:
    await conform(check, CalledBed, full=full)


# --- the vendor's vectors (bot-docs, api-v2, interface-framework: event-emit.md, sign.md) ---


def test_the_vendors_challenge() -> None:
    signature = signed("DG5g3B4j9X2KOErG", "1725442341", b"Arq0D5A61EgUu4OxUvOp")
    assert signature == (
        "87befc99c42c651b3aac0278e71ada338433ae26fcb24307bdc5ad38c1adc2d0"
        "1bcfcadc0842edac85e85205028a1132afe09280305f13aa6909ffc2d652c706"
    )
    assert is_signed("DG5g3B4j9X2KOErG", "1725442341", b"Arq0D5A61EgUu4OxUvOp", signature)


def test_the_vendors_key() -> None:
    wanted = "d7c362fe78aef81ff23287b493628b5db02a3c4fe30b215e4d19609b5d76673a"
    assert public_key("naOC0ocQE3shWLAfffVLB1rhYPG7") == wanted


@pytest.mark.parametrize("signature", ["", "zz", "00" * 64, "00"])
def test_what_is_not_signed(signature: str) -> None:
    assert not is_signed("DG5g3B4j9X2KOErG", "1", b"{}", signature)


# --- what comes in ---


def read(name: str) -> Inbound:
    (item,) = to_inbounds(EVENTS[name])
    return item


def test_events() -> None:
    assert [read(name).text for name in ("text", "command", "mention", "only a mention")] == [
        "hello 😀",
        "/status now",
        "what now?",
        "",
    ]
    private, group = read("text").source, read("mention").source
    assert (private.kind, private.address.chat, private.user) == (SourceKind.PRIVATE, f"u_{ANN}", ANN)
    assert (group.kind, group.address.chat, group.user) == (SourceKind.GROUP, f"g_{GROUP}", ANN)
    kinds = [read(name).attachments[0].kind for name in ("picture", "voice", "file")]
    assert kinds == [MediaKind.IMAGE, MediaKind.VOICE, MediaKind.FILE]
    assert read("picture without a scheme").attachments[0].ref == "https://gchat.qpic.cn/x/y"
    others = ("ready", "friend", "hello", "alive", "all, only somebody")
    assert all(to_inbounds(EVENTS[name]) == () for name in others)


def test_groups_in_which_the_bot_hears_everything() -> None:
    asked, said = read("all, a mention"), read("all, no mention")
    assert (asked.text, asked.mentions_me) == ("ask @Bob", True)
    assert (said.text, said.mentions_me, said.source.address.chat) == ("hello all", False, f"g_{GROUP}")


def test_voice_messages() -> None:
    written, wave = read("voice that was written down"), read("voice as a wave").attachments[0]
    assert (written.text, written.attachments) == ("明天下午提醒我开会", ())
    assert (wave.kind, wave.mime, wave.ref) == (
        MediaKind.VOICE,
        "audio/wav",
        "https://qqbot.example.com/a.wav?k=1",
    )


def test_quotes() -> None:
    quote = read("quote")
    assert quote.reply_to is not None and quote.reply_to.text == "The report is late\nso be it"
    assert quote.text == "what does this mean?"
    assert [file.kind for file in quote.attachments] == [MediaKind.IMAGE], "that picture came twice"
    assert read("elements of no quote").reply_to is None


def test_names_of_people_and_faces() -> None:
    assert read("all, a nickname").text == "@Eve knows"
    assert read("faces").text == "hi [呲牙]"


def test_a_file_that_cannot_be_read_takes_no_words_along() -> None:
    told = event(message("1234", "look", attachments=[{"content_type": "image/png"}, PICTURE]))
    (item,) = to_inbounds(told)
    assert item.text == "look\n[a file came that cannot be read]" and len(item.attachments) == 1


@pytest.mark.parametrize("chat", ["", "x", "u_", "u_a/b", f"q_{ANN}"])
def test_what_is_no_chat(chat: str) -> None:
    with pytest.raises(Refused, match="no chat"):
        place(Address(platform="qqbot", chat=chat))


def test_what_is_no_file() -> None:
    with pytest.raises(Refused, match="no file"):
        file_place("x")


async def test_a_session_goes_on_and_a_forgotten_one_begins_anew() -> None:
    async with QQBed() as bed:
        inboxes = Inboxes()
        async with hosted(bed, inboxes):
            await bed.do(Does.TEXT, "one")
            await until(lambda: inboxes.texts == ["one"], "it never came")
            await bed.cut()
            await until(lambda: bed.server.resumed > 0, "the session does not go on")
            assert bed.server.identified == 1
            bed.server.session = "forgotten"
            await bed.cut()
            await until(lambda: bed.server.identified == 2, "no new session")
            await until(lambda: bool(bed.server.sockets), "nobody is there")
            await bed.do(Does.TEXT, "two")
            await until(lambda: inboxes.texts == ["one", "two"], "it never came")
        assert bed.server.beats > 0


async def test_qq_asks_to_connect_again_and_the_session_goes_on() -> None:
    async with QQBed() as bed:
        inboxes, server = Inboxes(), bed.server
        async with hosted(bed, inboxes):
            await until(lambda: len(server.sockets) == 1, "nobody comes")
            await bed.do(Does.TEXT, "one")
            await until(lambda: inboxes.texts == ["one"], "it never came")
            old = server.sockets.pop()
            await old.close(code=4009, message=b"Session timed out")
            await bed.do(Does.TEXT, "in the gap")
            await until(lambda: inboxes.texts == ["one", "in the gap"], "it is lost")
        assert (server.identified, server.resumed) == (1, 1)


@pytest.mark.parametrize(("code", "resumes"), [(4900, 1), (4001, 1), (4009, 3), (1006, 3)])
async def test_a_session_that_does_not_go_on_begins_anew(code: int, resumes: int) -> None:
    async with QQBed() as bed:
        inboxes, server = Inboxes(), bed.server
        server.closes = code if code != 1006 else 1001
        async with hosted(bed, inboxes):
            await until(lambda: len(server.sockets) == 1, "nobody comes")
            await server.sockets[-1].close(code=4009)
            await until(lambda: server.identified == 2, "no new session", 30)
            assert server.resumed == resumes
            server.closes = 0
            await until(lambda: len(server.sockets) == 1, "nobody comes")
            await bed.do(Does.TEXT, "one")
            await until(lambda: inboxes.texts == ["one"], "it never came")
            assert inboxes.cursor == "session-2:2"


async def test_a_session_that_qq_cannot_go_on_with_now_goes_on_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes.entry.platforms.qqbot.socket._INVALID_SECONDS", 0.0)
    async with QQBed() as bed:
        inboxes, server = Inboxes(), bed.server
        async with hosted(bed, inboxes):
            await until(lambda: len(server.sockets) == 1, "nobody comes")
            server.busy = 2
            await server.sockets.pop().close(code=4004)
            await bed.do(Does.TEXT, "in the gap")
            await until(lambda: inboxes.texts == ["in the gap"], "it is lost")
        assert (server.identified, server.resumed, server.busy) == (1, 1, 0)


async def test_who_is_too_fast_for_the_gateway_waits() -> None:
    async with QQBed() as bed:
        task = asyncio.create_task(bed.connect().run(Inboxes().accept, None))
        await until(lambda: len(bed.server.sockets) == 1, "nobody comes")
        await bed.server.sockets[-1].close(code=4008)
        with pytest.raises(Unreachable) as raised:
            await task
        assert raised.value.after == 60.0


@pytest.mark.parametrize(("code", "words"), [(4013, "events"), (4014, "ask for them"), (4915, "banned")])
async def test_what_only_the_operator_can_change(code: int, words: str) -> None:
    async with QQBed() as bed:
        task = asyncio.create_task(bed.connect().run(Inboxes().accept, None))
        await until(lambda: len(bed.server.sockets) == 1, "nobody comes")
        await bed.server.sockets[-1].close(code=code)
        with pytest.raises(NeedsLogin, match=words):
            await task


# --- the start, and calls ---


def _context(bed: QQBed, **said: str) -> AdapterContext:
    values = {**bed.variables(), **bed.said, **said}
    return AdapterContext(
        settings=PlatformSettings(), find=lambda name: Secret(values[name]) if name in values else None
    )


@pytest.mark.parametrize(
    ("said", "words"),
    [({"QQ_APP_ID": "abc"}, "no AppID"), ({"QQ_CLIENT_SECRET": ""}, "QQ_CLIENT_SECRET is missing")],
)
def test_what_it_does_not_start_with(said: dict[str, str], words: str) -> None:
    with pytest.raises(NeedsLogin, match=words):
        QQAdapter(_context(QQBed(), **said))


async def test_a_secret_that_is_wrong_stops_it() -> None:
    for bed in (QQBed(), CalledBed()):
        async with bed:
            with pytest.raises(NeedsLogin, match="QQ_CLIENT_SECRET"):
                await QQAdapter(_context(bed, QQ_CLIENT_SECRET="wrong")).run(Inboxes().accept, None)
            assert [one.good for one in await bed.connect().check()] == [True]


@pytest.mark.parametrize("path", ["/app/getAppAccessToken", "/gateway"])
@pytest.mark.parametrize("code", [100001, 100017, 999])
async def test_a_trouble_of_qqs_is_no_wrong_secret(path: str, code: int) -> None:
    async with QQBed() as bed:
        bed.server.wrong[path] = Wrong(400, code, "Too many requests")
        with pytest.raises(Unreachable, match=str(code)):
            await bed.connect().run(Inboxes().accept, None)


async def test_an_address_that_is_not_listed_is_no_wrong_secret() -> None:
    async with AnsweringBed() as bed:
        bed.server.wrong = {"/gateway": UNLISTED}
        with pytest.raises(Unreachable, match="11298") as raised:
            await bed.connect().run(Inboxes().accept, None)
        assert raised.value.after == 60.0
        bed.server.wrong = {f"/v2/users/{ANN}/messages": UNLISTED}
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            with pytest.raises(Unreachable, match="11298") as raised:
                await platform.send(bed.chat, Body(text="x"), key="k", reply_to=None)
        assert raised.value.after == 60.0 and not raised.value.maybe_done


async def test_who_calls_without_the_secret_is_nobody() -> None:
    async with CalledBed() as bed:
        inboxes, server = Inboxes(), bed.server
        async with running(bed.connect(), inboxes.accept, None):
            await until(lambda: inboxes.batches > 0, "it never listens")
            raw = json.dumps(EVENTS["text"]).encode()
            assert (await server.call(raw, secret="another"))[0] == 403
            assert (await server.call(raw, signature="00" * 64))[0] == 403
            async with aiohttp.ClientSession() as session, session.post(server.callback, data=raw) as answer:
                assert answer.status == 403
            assert inboxes.items == []
            status, told = await server.call(raw)
            assert (status, json.loads(told)) == (200, {"op": 12, "d": 0})
            assert (await server.call(raw))[0] == 200
        assert len(inboxes.items) == 1, "a replay is taken, and does nothing"


async def test_a_challenge_signs_nothing_that_could_be_a_call() -> None:
    async with CalledBed() as bed:
        inboxes, server = Inboxes(), bed.server
        async with running(bed.connect(), inboxes.accept, None):
            await until(lambda: inboxes.batches > 0, "it never listens")
            asked = {"op": 13, "d": {"plain_token": "Arq0D5A61EgUu4OxUvOp", "event_ts": "1725442341"}}
            status, told = await server.call(json.dumps(asked).encode(), signature="00" * 64)
            assert status == 200 and json.loads(told)["signature"].startswith("87befc99")
            asked["d"] = {"plain_token": json.dumps(EVENTS["text"]), "event_ts": "1725442341"}
            assert (await server.call(json.dumps(asked).encode()))[0] == 403


# --- answers ---


def test_which_message_is_answered() -> None:
    replies = QQReplies()
    assert replies.choose("u_1", None, True, 0.0) is None
    assert replies.choose("u_1", "of an earlier life", True, 0.0) == "of an earlier life"
    replies.hear("u_1", "m1", 0.0)
    replies.hear("u_1", "m2", 10.0)
    assert replies.choose("u_1", "m1", True, 20.0) == "m1"
    assert replies.choose("u_1", None, True, 20.0) == "m2"
    for _ in range(4):
        replies.count("u_1", "m1", 20.0)
    assert replies.choose("u_1", "m1", True, 20.0) == "m2", "four are enough"
    replies.count("u_1", "m2", 20.0, over=True)
    assert replies.choose("u_1", "m1", True, 20.0) is None
    replies.hear("g_1", "m3", 0.0)
    assert replies.choose("g_1", "m3", False, 290.0) is None, "five minutes in a group"
    assert replies.choose("g_1", "m3", True, 290.0) == "m3"
    for _ in range(4):
        replies.count("g_1", "m3", 0.0)
    assert replies.choose("g_1", "m3", False, 0.0) == "m3", "five in a group"


async def test_what_has_nothing_to_answer_waits_and_is_sent_when_they_write() -> None:
    async with QQBed() as bed:
        inboxes, platform = Inboxes(), bed.connect()
        async with running(platform, inboxes.accept, None):
            with pytest.raises(Unreachable, match="waits until they write") as raised:
                await platform.send(bed.chat, Body(text="x"), key="k", reply_to=None)
            assert raised.value.after == 60.0 and not raised.value.maybe_done
            await bed.do(Does.TEXT, "hello")
            await until(lambda: len(inboxes.items) == 1, "it never came")
            for number in range(4):
                await platform.send(bed.chat, Body(text=f"{number}"), key=f"k{number}", reply_to=None)
            with pytest.raises(Unreachable, match="waits until they write"):
                await platform.send(bed.chat, Body(text="6"), key="k6", reply_to=inboxes.items[0].ref)
            await bed.do(Does.TEXT, "more")
            await until(lambda: len(inboxes.items) == 2, "it never came")
            await platform.send(bed.chat, Body(text="6"), key="k6", reply_to=inboxes.items[0].ref)
        assert [one.text for one in bed.shown()] == ["0", "1", "2", "3", "6"]


async def test_a_message_of_an_earlier_life_is_answered_or_waits() -> None:
    async with QQBed() as bed:
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            old = bed.server.write(bed.chat.chat)
            await platform.send(bed.chat, Body(text="still in time"), key="1", reply_to=old)
            bed.server.clock = 3_700.0
            with pytest.raises(Unreachable, match="waits until they write"):
                await platform.send(bed.chat, Body(text="too late"), key="2", reply_to=old)
        assert [one.text for one in bed.shown()] == ["still in time"]


OVER = [(429, 22009), (500, 22009)] + [
    (400, code) for code in (40034128, 40034005, 304103, 40034026, 40034027, 40034105)
]


@pytest.mark.parametrize("over", OVER, ids=str)
async def test_one_answer_too_many_waits_for_their_next_message(over: tuple[int, int]) -> None:
    async with QQBed() as bed:
        platform, server = bed.connect(), bed.server
        server.over = over
        async with running(platform, Inboxes().accept, None):
            first = server.write(bed.chat.chat)
            server.answered[first] = {1, 2, 3, 4}
            with pytest.raises(Unreachable, match="waits until they write") as raised:
                await platform.send(bed.chat, Body(text="5"), key="k", reply_to=first)
            assert raised.value.after == 60.0 and not raised.value.maybe_done
            second = server.write(bed.chat.chat)
            platform.replies.hear(bed.chat.chat, second, time.monotonic())
            await platform.send(bed.chat, Body(text="5"), key="k", reply_to=first)
        assert [(one.text, one.answers) for one in server.sent] == [("5", second)]


@pytest.mark.parametrize("code", [50055001, 50055002, 40054006, 11242, 11252, 11263, 40034100])
@pytest.mark.parametrize("status", [400, 500])
async def test_what_qq_does_later(status: int, code: int) -> None:
    async with AnsweringBed() as bed:
        bed.server.wrong[f"/v2/users/{ANN}/messages"] = Wrong(status, code, "later")
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            with pytest.raises(Unreachable, match=str(code)) as raised:
                await platform.send(bed.chat, Body(text="x"), key="k", reply_to=None)
            assert raised.value.after == 5.0 and not raised.value.maybe_done


async def test_who_may_write_unasked_does() -> None:
    async with QQBed() as bed:
        bed.server.unasked = True
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            await platform.send(bed.chat, Body(text="good morning"), key="k", reply_to=None)
        assert [(one.text, one.answers) for one in bed.server.sent] == [("good morning", "")]


async def test_what_nobody_may_begin_is_not_tried_again_and_again() -> None:
    async with QQBed() as bed:
        platform, server = bed.connect(), bed.server
        async with running(platform, Inboxes().accept, None):
            for _ in range(5):
                with pytest.raises(Unreachable, match="waits until they write") as raised:
                    await platform.send(bed.chat, Body(text="news"), key="k", reply_to=None)
                assert raised.value.after == 60.0 and not raised.value.maybe_done
            assert server.begun == 1
            written = server.write(bed.chat.chat)
            platform.replies.hear(bed.chat.chat, written, time.monotonic())
            await platform.send(bed.chat, Body(text="news"), key="k", reply_to=None)
        assert [one.answers for one in server.sent] == [written]


async def test_a_file_on_a_slow_line_gets_there() -> None:
    async with AnsweringBed() as bed:
        platform, data = bed.connect(), b"x" * 100_000
        platform._context = replace(platform._context, open_file=_file_of(data))
        file = Attachment(
            kind=MediaKind.FILE, ref="sha256:0", name="a.txt", mime="text/plain", size=len(data)
        )
        async with running(platform, Inboxes().accept, None):
            await until(lambda: bed.server.identified == 1, "nobody came")
            platform.api.answer_seconds, bed.server.slow = 0.3, 0.01
            await platform.send(bed.chat, Body(attachments=(file,)), key="k", reply_to=None)
        assert [one.file for one in bed.server.sent] == [(MediaKind.FILE, data)]


def _file_of(data: bytes) -> Any:
    async def open_file(file: Attachment) -> bytes:
        return data

    return open_file


@pytest.mark.parametrize("code", [304082, 304083])
async def test_what_qq_could_not_convert_is_sent_again(code: int) -> None:
    async with AnsweringBed() as bed:
        bed.server.wrong[f"/v2/users/{ANN}/messages"] = Wrong(400, code, "upload media info fail")
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            with pytest.raises(Unreachable, match=str(code)):
                await platform.send(bed.chat, Body(text="x"), key="k", reply_to=None)


async def test_addresses_that_are_not_listed_are_broken() -> None:
    async with AnsweringBed() as bed:
        bed.server.no_addresses = True
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            said = "See https://docs.python.org/3 or example.com, version 3.14."
            await platform.send(bed.chat, Body(text=said), key="k", reply_to=None)
        assert [one.text for one in bed.shown()] == ["See docs。python。org/3 or example。com, version 3.14."]


async def test_a_message_that_is_looked_at_first_is_sent() -> None:
    async with AnsweringBed() as bed:
        bed.server.reviews = True
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            await platform.send(bed.chat, Body(text="x"), key="k", reply_to=None)
        assert [one.text for one in bed.shown()] == ["x"]


async def test_a_second_copy_is_dropped_by_qq() -> None:
    async with QQBed() as bed:
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            written = bed.server.write(GROUP_CHAT.chat)
            first = await platform.send(GROUP_CHAT, Body(text="once"), key="1", reply_to=written)
            again = await platform.send(GROUP_CHAT, Body(text="once"), key="1", reply_to=written)
        assert first == again and len(bed.shown(GROUP_CHAT)) == 1


async def test_an_old_token_is_replaced() -> None:
    async with AnsweringBed() as bed:
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            await platform.send(bed.chat, Body(text="one"), key="1", reply_to=None)
            bed.server.tokens += 1
            await platform.send(bed.chat, Body(text="two"), key="2", reply_to=None)
        assert [one.text for one in bed.shown()] == ["one", "two"]


async def test_an_address_inside_is_not_asked() -> None:
    adapter = QQAdapter(_context(QQBed(), QQ_API_URL="https://api.sgroup.qq.com"))

    async def sink(piece: bytes) -> None:
        pass

    for url in ("http://127.0.0.1:1/xxxx", "https://10.0.0.1/xxxx", "http://example.com/x"):
        with pytest.raises(Refused, match="not safe"):
            await adapter.fetch(url, sink)
