"""WeCom: the adapter passes the suite, and does what only WeCom asks for."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.chats.address import Address, SourceKind
from hermes.domain.chats.message import Attachment, Body, Inbound, MediaKind
from hermes.domain.errors import NeedsLogin, Refused, Unreachable
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.platforms import PlatformSettings
from hermes.entry.platforms.wecom.adapter import WeComAdapter
from hermes.entry.platforms.wecom.convert import file_name_in, file_place, place, to_inbounds
from hermes.entry.platforms.wecom.socket import error_for
from hermes.testing.clock import FakeClock
from hermes.testing.platform_suite import CHECKS, Check, Does, Fault, Inboxes, conform, hosted, running, until
from tests.platforms.wecom.bed import GROUP_CHAT, NOW, WeComBed
from tests.platforms.wecom.samples import AES_KEY, ANN, FRAMES, GROUP, frame


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_wecom_conforms(check: Check, full: bool) -> None:
    await conform(check, WeComBed, full=full)


def read(name: str) -> Inbound:
    (item,) = to_inbounds(FRAMES[name], NOW)
    return item


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("text", "hello 😀"),
        ("command", "/status now"),
        ("mention", "what now?"),
        ("only a mention", ""),
        ("voice", "good morning"),
        ("mixed", "look"),
        ("quoted picture", "what is this?"),
        ("unreadable", "look\n[a file came that cannot be read]"),
    ],
)
def test_words(name: str, text: str) -> None:
    assert read(name).text == text


def test_places_and_files() -> None:
    private, group = read("text"), read("mention")
    assert (private.source.kind, private.source.address.chat, private.ref) == (
        SourceKind.PRIVATE,
        ANN,
        "req_1",
    )
    assert (group.source.kind, group.source.address.chat, group.mentions_me) == (
        SourceKind.GROUP,
        GROUP,
        True,
    )
    assert private.at.year == 2026 and read("command").at == NOW
    for name, kind in (
        ("picture", MediaKind.IMAGE),
        ("file", MediaKind.FILE),
        ("video", MediaKind.VIDEO),
        ("mixed", MediaKind.IMAGE),
        ("quoted picture", MediaKind.IMAGE),
        ("quoted file", MediaKind.FILE),
        ("unreadable", MediaKind.IMAGE),
    ):
        (file,) = read(name).attachments
        assert file.kind is kind and file_place(file.ref)[1] == AES_KEY
    quoted = read("quote").reply_to
    assert quoted is not None and quoted.text == "so be it"
    for name in ("entered", "disconnected", "feedback"):
        assert to_inbounds(FRAMES[name], NOW) == ()


@pytest.mark.parametrize(
    ("name", "said", "heard"),
    [
        ("", "@Hermes what now?", "what now?"),
        ("", "what now? @Hermes", "what now?"),
        ("", "＠机器人 现在呢", "现在呢"),
        ("", "@Hermes/stop", "/stop"),
        ("", "@Bob @Hermes /stop", "/stop"),
        ("", "/stop @Hermes", "/stop"),
        ("", "@Bob please call me @Hermes", "@Bob please call me @Hermes"),
        ("", "@Hermes write to a@b.example", "write to a@b.example"),
        ("", "@Hermes", ""),
        ("Claude Code", "@Claude Code /stop", "/stop"),
        ("Claude Code", "@Claude Code yes", "yes"),
        ("Claude Code", "yes @Claude Code", "yes"),
        ("Claude Code", "@Bob please call me @Claude Code", "@Bob please call me"),
        ("Hermes", "@HermesTwo and @Hermes, hello", "@HermesTwo and , hello"),
    ],
)
def test_mentions(name: str, said: str, heard: str) -> None:
    told = frame("1", "text", True, text={"content": said})
    (item,) = to_inbounds(told, NOW, name=name)
    assert (item.text, item.mentions_me) == (heard, True)


@pytest.mark.parametrize(
    ("disposition", "name"),
    [
        ("attachment; filename*=UTF-8''%E5%AD%A3%E5%BA%A6.docx", "季度.docx"),
        ('attachment; filename="plan 100%.pdf"', "plan 100%.pdf"),
        ("attachment; filename=plan.pdf; size=3", "plan.pdf"),
        ("attachment", None),
        ("", None),
    ],
)
def test_names_of_files(disposition: str, name: str | None) -> None:
    assert file_name_in(disposition) == name


@pytest.mark.parametrize("ref", ["", "ftp://x/y", "https://x/y#short", "https://x /y"])
def test_what_is_no_file(ref: str) -> None:
    with pytest.raises(Refused, match="no file"):
        file_place(ref)


@pytest.mark.parametrize("chat", ["", "two words", "a/b"])
def test_what_is_no_chat(chat: str) -> None:
    with pytest.raises(Refused, match="neither a person nor a group"):
        place(Address(platform="wecom", chat=chat))


# --- the connection ---


def _context(bed: WeComBed, **said: str) -> AdapterContext:
    values = {**bed.variables(), **said}
    return AdapterContext(
        settings=PlatformSettings(), find=lambda name: Secret(values[name]) if name in values else None
    )


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"WECOM_BOT_ID": ""}, "both needed"),
        ({"WECOM_SECRET": " "}, "both needed"),
        ({"WECOM_WS_URL": "https://x.example"}, "begins with wss"),
    ],
)
def test_what_it_does_not_start_with(said: dict[str, str], words: str) -> None:
    with pytest.raises(NeedsLogin, match=words):
        WeComAdapter(_context(WeComBed(), **said))


async def test_a_secret_that_is_wrong_or_revoked_stops_it() -> None:
    async with WeComBed() as bed:
        with pytest.raises(NeedsLogin, match=r"WECOM_SECRET.*invalid bot_id or secret"):
            await WeComAdapter(_context(bed, WECOM_SECRET="old")).run(Inboxes().accept, None)
        with pytest.raises(NeedsLogin, match="WECOM_SECRET"):
            await WeComAdapter(_context(bed, WECOM_SECRET="old")).check()
        assert [one.good for one in await bed.connect().check()] == [True]


async def test_another_program_takes_the_place() -> None:
    async with WeComBed() as bed:
        async with running(bed.connect(), Inboxes().accept, None) as first:
            await until(lambda: bed.server.subscribed == 1, "nobody came")
            async with running(bed.connect(), Inboxes().accept, None):
                await until(first.done, "it does not hear of it")
        error = first.exception()
        assert isinstance(error, Unreachable) and "Another program" in str(error)
        assert error.after is None, "two programs would take the bot from each other for ever"


async def test_who_is_let_in_too_often_waits_longer_and_longer() -> None:
    async with WeComBed() as bed:
        bed.server.too_often = True
        with pytest.raises(Unreachable, match="45009") as raised:
            await bed.connect().run(Inboxes().accept, None)
        assert raised.value.after is None


async def test_a_connection_that_dies_is_made_again() -> None:
    async with WeComBed() as bed:
        inboxes = Inboxes()
        async with hosted(bed, inboxes):
            for number in range(20):
                await bed.do(Does.TEXT, f"hello {number}")
                await until(lambda: len(inboxes.items) > number, "it never came")  # noqa: B023
                await bed.cut()
                await until(lambda: bed.server.subscribed > number + 1, "it does not come back")  # noqa: B023
        assert len(inboxes.items) == 20


async def test_a_reset_in_the_middle_of_a_send_is_doubtful() -> None:
    async with WeComBed() as bed:
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            bed.fail(Fault.RESET)
            with pytest.raises(Unreachable) as raised:
                await platform.send(bed.chat, Body(text="x"), key="k", reply_to=None)
            assert raised.value.maybe_done
        with pytest.raises(Unreachable, match="no connection"):
            await platform.send(bed.chat, Body(text="x"), key="k", reply_to=None)


async def test_a_connection_that_wecom_has_forgotten_is_made_again_at_once() -> None:
    async with WeComBed() as bed:
        inboxes = Inboxes()
        platform = bed.connect()
        async with running(platform, inboxes.accept, None) as task:
            await until(lambda: bed.server.subscribed == 1, "nobody came")
            bed.server.forgotten = list(bed.server.sockets)
            with pytest.raises(Unreachable, match="846609"):
                await platform.send(bed.chat, Body(text="x"), key="k", reply_to=None)
            await until(task.done, "it stays")
        error = task.exception()
        assert isinstance(error, Unreachable) and error.after == 0.0


async def test_a_line_that_is_stuck_ends() -> None:
    """NousResearch/hermes-agent #92804: a write that never returned."""

    async def never(text: str) -> None:
        await asyncio.Event().wait()

    async with WeComBed() as bed:
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            await until(lambda: platform._socket is not None and platform._socket.done(), "nobody is let in")
            assert platform._socket is not None
            platform._socket.result().socket.send_str = never  # type: ignore[method-assign]
            platform.api.answer_seconds = 0.05
            async with asyncio.timeout(30):
                with pytest.raises(Unreachable, match="does not answer") as raised:
                    await platform.send(bed.chat, Body(text="hi"), key="k", reply_to=None)
            assert raised.value.maybe_done


@pytest.mark.parametrize("code", [846601, 846602])
def test_what_passes(code: int) -> None:
    assert isinstance(error_for({"errcode": code, "errmsg": "x"}), Unreachable)


async def test_pings_tell_that_it_lives() -> None:
    async with WeComBed() as bed:
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, None):
            await until(lambda: bed.server.pings > 0 and inboxes.batches >= 2, "no life is seen")


# --- streams ---


async def test_a_stream_is_finished_once_and_never_after_its_time() -> None:
    async with WeComBed() as bed:
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            draft = await platform.send(
                bed.chat, Body(text="one", growing=True), key="1", reply_to=bed.answerable()
            )
            await platform.edit(draft, Body(text="one two", growing=True))
            await platform.edit(draft, Body(text="one two three"))
            await platform.edit(draft, Body(text="one two three"))
            stream = bed.server.sent[0]
            assert (stream.text, stream.done) == ("one two three", True)
            late = await platform.send(
                bed.chat, Body(text="late", growing=True), key="2", reply_to=bed.answerable()
            )
            bed.server.sent[1].expired = True
            with pytest.raises(Refused, match="846608"):
                await platform.edit(late, Body(text="later"))
            with pytest.raises(Refused, match="only below a message"):
                await platform.send(bed.chat, Body(text="x", growing=True), key="3", reply_to=None)
            with pytest.raises(Refused, match="846605"):
                await platform.send(bed.chat, Body(text="x", growing=True), key="4", reply_to="req_nobody")
            plain = await platform.send(GROUP_CHAT, Body(text="plain"), key="5", reply_to=None)
            with pytest.raises(Refused, match="no stream"):
                await platform.edit(plain, Body(text="x"))
        assert [one.text for one in bed.shown(GROUP_CHAT)] == ["plain"]


async def test_a_stream_stays_open_while_a_tool_runs_and_is_finished_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hermes.entry.platforms.wecom.socket._PING_SECONDS", 0.01)
    async with WeComBed() as bed:
        bed.clock = clock = FakeClock()
        platform, inboxes = bed.connect(), Inboxes()

        def frames() -> list[str]:
            return [one["cmd"] for one in bed.server.calls if one["cmd"] == "aibot_respond_msg"]

        async with running(platform, inboxes.accept, None):
            told = bed.answerable()
            draft = await platform.send(bed.chat, Body(text="I look", growing=True), key="1", reply_to=told)
            for number, seconds in enumerate((200, 20, 200, 20), 1):
                clock.jump(seconds)
                pings = bed.server.pings
                await until(lambda: bed.server.pings > pings + 2, "nobody pings")  # noqa: B023
                assert len(frames()) == 1 + number // 2 and not bed.server.sent[0].done
            clock.jump(50)
            await until(lambda: bed.server.sent[0].done, "it is left open")
            with pytest.raises(Refused, match="ended"):
                await platform.edit(draft, Body(text="I look further", growing=True))
        assert [one.text for one in bed.shown()] == ["I look"]


async def test_what_keeps_a_stream_open_never_takes_back_what_is_added(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hermes.entry.platforms.wecom.socket._PING_SECONDS", 0.01)
    async with WeComBed() as bed:
        bed.clock = clock = FakeClock()
        platform, told, answers = bed.connect(), bed.answerable(), asyncio.Event()
        tell = bed.server._tell

        async def tell_slowly(socket: Any, frame: dict[str, Any]) -> None:
            if frame["headers"]["req_id"] == told:
                await answers.wait()
            await tell(socket, frame)

        async with running(platform, Inboxes().accept, None):
            draft = await platform.send(bed.chat, Body(text="I look", growing=True), key="1", reply_to=told)
            clock.jump(200)
            await platform.edit(draft, Body(text="I look and", growing=True))
            monkeypatch.setattr(bed.server, "_tell", tell_slowly)
            async with asyncio.TaskGroup() as group:
                group.create_task(platform.edit(draft, Body(text="I look and see", growing=True)))
                await until(lambda: bed.server.sent[0].edits == 2, "it never came")
                clock.jump(290)
                pings = bed.server.pings
                await until(lambda: bed.server.pings > pings + 2, "nobody pings")
                answers.set()
            await until(lambda: bed.server.sent[0].done, "it is left open")
        assert [one.text for one in bed.shown()] == ["I look and see"]


async def test_a_large_file_goes_in_pieces() -> None:
    data = bytes(range(256)) * 6_000
    async with WeComBed() as bed:

        async def open_file(file: Attachment) -> bytes:
            return data

        bed.open_file = open_file
        platform = bed.connect()
        file = Attachment(kind=MediaKind.FILE, ref="x", name="a.bin", mime="application/octet-stream")
        async with running(platform, Inboxes().accept, None):
            await platform.send(bed.chat, Body(attachments=(file,)), key="1", reply_to=None)
        assert bed.shown()[0].files == ((MediaKind.FILE, data),)
        assert sum(one["cmd"] == "aibot_upload_media_chunk" for one in bed.server.calls) == 3


async def test_a_file_with_another_key_is_refused() -> None:
    async with WeComBed() as bed:
        message = bed.said_by(Does.FILE, "", ANN)
        url, key = message["body"]["file"]["url"], base64.b64encode(bytes(32)).decode()[:43]
        platform = bed.connect()

        async def sink(piece: bytes) -> None:
            raise AssertionError("nothing of it is shown")

        async with running(platform, Inboxes().accept, None):
            with pytest.raises(Refused, match="cannot be decrypted"):
                await platform.fetch(f"{url}#{key}", sink)
            with pytest.raises(Refused):
                await platform.fetch(f"{url}gone#{AES_KEY}", sink)


async def test_an_address_inside_is_not_asked() -> None:
    adapter = WeComAdapter(_context(WeComBed(), WECOM_WS_URL="wss://openws.work.weixin.qq.com"))

    async def sink(piece: bytes) -> None:
        pass

    for url in ("http://127.0.0.1:1/x", "https://10.0.0.1/x", "http://example.com/x"):
        with pytest.raises(Refused, match="not safe"):
            await adapter.fetch(f"{url}#{AES_KEY}", sink)
