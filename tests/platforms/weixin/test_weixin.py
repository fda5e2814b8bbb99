"""Weixin: the adapter passes the suite, keeps the tokens that messages need, and logs in by a QR code."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Attachment, Body, Inbound, MediaKind
from hermes.domain.errors import NeedsLogin, Refused, Unreachable, UserError
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.word import replace
from hermes.entry.kit.crypto import ecb_opened, ecb_sealed
from hermes.entry.platforms.weixin import login
from hermes.entry.platforms.weixin.adapter import WeixinAdapter
from hermes.entry.platforms.weixin.convert import file_place, place, to_inbounds
from hermes.testing.clock import FakeClock
from hermes.testing.platform_suite import CHECKS, Check, Does, Inboxes, conform, running, until
from tests.platforms.weixin.bed import AnsweringBed, WeixinBed
from tests.platforms.weixin.samples import KEY, MESSAGES, message, text
from tests.platforms.weixin.server import Wrong

CDN = "https://cdn.example/c2c"


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_weixin_conforms(check: Check, full: bool) -> None:
    await conform(check, AnsweringBed, full=full)


def test_the_standards_vector_of_the_cipher() -> None:
    """FIPS 197, appendix C.1, which is the first block of what is padded."""
    key, plain = bytes(range(16)), bytes.fromhex("00112233445566778899aabbccddeeff")
    sealed = ecb_sealed(key, plain)
    assert sealed[:16].hex() == "69c4e0d86a7b0430d8cdb78070b4c55a" and len(sealed) == 32
    assert ecb_opened(key, sealed) == plain
    with pytest.raises(ValueError):
        ecb_opened(bytes(16), sealed)


# --- messages ---


def read(name: str) -> Inbound:
    (item,) = to_inbounds(MESSAGES[name], cdn=CDN)
    return item


def test_messages() -> None:
    assert read("text").text == "hello 😀" and read("command").text == "/status now"
    assert read("text").ref == str(2**63 + 1), "a number of 64 bits"
    quoted = read("quote").reply_to
    assert quoted is not None and quoted.text == "so be it"
    written = read("voice that was written down")
    assert (written.text, written.attachments) == ("good morning", ())
    for name, kind in (
        ("picture", MediaKind.IMAGE),
        ("picture with a key of its own", MediaKind.IMAGE),
        ("picture with bytes as key", MediaKind.IMAGE),
        ("voice", MediaKind.VOICE),
        ("file", MediaKind.FILE),
        ("video", MediaKind.VIDEO),
    ):
        (file,) = read(name).attachments
        assert file.kind is kind and file_place(file.ref)[1] == KEY
    assert (
        read("picture").attachments[0].ref.startswith(f"{CDN}/download?encrypted_query_param=AAFFz%2B%2F%3D#")
    )
    assert read("video").attachments[0].ref.startswith("https://cdn.example/x#")
    assert (read("quoted picture").text, len(read("quoted picture").attachments)) == ("what is this?", 1)
    for name in ("unreadable", "picture that is nowhere"):
        assert "[a file came that cannot be read]" in read(name).text
    assert len(read("unreadable").attachments) == 1
    (plain,) = read("picture that is not encrypted").attachments
    assert file_place(plain.ref) == ("https://cdn.example/y", b"")
    named = read("quote by id alone").reply_to
    assert named is not None and (named.ref, named.text) == (str(2**63 + 1), "")
    for name in ("of ourselves", "of a group", "nothing"):
        assert to_inbounds(MESSAGES[name], cdn=CDN) == ()


def test_what_is_none_of_weixins() -> None:
    for ref in ("", "https://x/y", "https://x/y#00", "ftp://x#" + "0" * 32):
        with pytest.raises(Refused, match="no file"):
            file_place(ref)
    for chat in ("", "x", "two words", "a:b:c:d"):
        with pytest.raises(Refused, match="no person"):
            place(Address(platform="weixin", chat=chat))


# --- tokens ---


async def test_what_is_sent_carries_the_token_of_their_last_message_also_after_a_restart(
    tmp_path: Path,
) -> None:
    async with WeixinBed() as bed:
        bed.folder = tmp_path / "weixin"
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, None):
            await bed.do(Does.TEXT, "one")
            await bed.do(Does.TEXT, "two")
            await until(lambda: len(inboxes.items) == 2, "they never came")
        platform = bed.connect()
        async with running(platform, inboxes.accept, inboxes.cursor):
            await platform.send(bed.chat, Body(text="hi"), key="k", reply_to=None)
        assert [one.context for one in bed.server.sent] == ["context+2/="]
        (kept,) = bed.folder.iterdir()
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        kept.write_text("no JSON")
        bed.connect()


async def test_a_token_carries_nine_messages_also_after_a_restart(tmp_path: Path) -> None:
    async with WeixinBed() as bed:
        bed.folder = tmp_path / "weixin"
        inboxes, platform = Inboxes(), bed.connect()
        async with running(platform, inboxes.accept, None):
            await bed.do(Does.TEXT, "one")
            await until(lambda: len(inboxes.items) == 1, "it never came")
            for number in range(5):
                await platform.send(bed.chat, Body(text=f"{number}"), key=f"k{number}", reply_to=None)
        platform = bed.connect()
        async with running(platform, inboxes.accept, inboxes.cursor):
            for number in range(5, 9):
                await platform.send(bed.chat, Body(text=f"{number}"), key=f"k{number}", reply_to=None)
            with pytest.raises(Unreachable, match="until they write again") as raised:
                await platform.send(bed.chat, Body(text="9"), key="k9", reply_to=None)
            assert raised.value.after == 60.0 and not raised.value.maybe_done
            await bed.do(Does.TEXT, "go on")
            await until(lambda: len(inboxes.items) == 2, "it never came")
            await platform.send(bed.chat, Body(text="9"), key="k9", reply_to=None)
        assert [one.text for one in bed.shown()] == [str(number) for number in range(10)]
        assert bed.server.carried == {"context+1/=": 9, "context+2/=": 1}


async def test_after_another_login_neither_the_place_nor_the_tokens_count(tmp_path: Path) -> None:
    async with WeixinBed() as bed:
        bed.folder, inboxes = tmp_path, Inboxes()
        async with running(bed.connect(), inboxes.accept, None):
            await bed.do(Does.TEXT, "one")
            await until(lambda: inboxes.texts == ["one"], "it never came")
        bed.server.token = "of-another-login"
        platform = bed.connect()
        async with running(platform, inboxes.accept, inboxes.cursor):
            await platform.send(bed.chat, Body(text="hi"), key="k", reply_to=None)
            assert [one.context for one in bed.server.sent] == [""]
            await bed.do(Does.TEXT, "two")
            await until(lambda: inboxes.texts[-1] == "two", "it never came")


async def test_a_token_of_a_group_is_never_used_for_a_person() -> None:
    async with WeixinBed() as bed:
        inboxes, platform = Inboxes(), bed.connect()
        async with running(platform, inboxes.accept, None):
            await bed.do(Does.TEXT, "one")
            bed.server.say(message(900, text("all"), group_id="g1", context_token="of+the+group"))
            await bed.do(Does.TEXT, "two", chat=bed.chats(1)[0])
            await until(lambda: len(inboxes.items) == 2, "they never came")
            await platform.send(bed.chat, Body(text="hi"), key="k", reply_to=None)
        assert [one.context for one in bed.server.sent] == ["context+1/="]


async def test_the_more_often_weixin_takes_nothing_the_less_often_it_is_asked(tmp_path: Path) -> None:
    async with WeixinBed() as bed:
        bed.clock = clock = FakeClock()
        bed.folder, inboxes = tmp_path / "weixin", Inboxes()
        people = (bed.chat, *bed.chats(3))

        async def attempts(minutes: int) -> int:
            before = bed.server.attempts
            for number in range(minutes):
                with pytest.raises(Unreachable, match="no more messages for now") as raised:
                    await platform.send(people[number % len(people)], Body(text="hi"), key="k", reply_to=None)
                assert raised.value.after == 60.0 and not raised.value.maybe_done
                clock.jump(60)
            return bed.server.attempts - before

        platform = bed.connect()
        async with running(platform, inboxes.accept, None):
            bed.server.wrong["sendmessage"] = Wrong(-2, "prepare failed")
            assert [await attempts(count) for count in (3, 1, 1, 3, 1, 55)] == [3, 0, 1, 0, 1, 2]
        platform = bed.connect()
        async with running(platform, inboxes.accept, inboxes.cursor):
            assert await attempts(31) == 1, "another connection waits no longer than the one before"
            bed.server.wrong.clear()
            await bed.do(Does.TEXT, "are you there?")
            await until(lambda: len(inboxes.items) == 1, "it never came")
            await platform.send(bed.chat, Body(text="hi"), key="k", reply_to=None)
            await platform.send(people[1], Body(text="hi"), key="k", reply_to=None)
        assert [one.text for one in bed.shown()] == ["hi", "hi"], "whoever writes opens the way"


async def test_another_connection_does_not_forget_who_wrote(tmp_path: Path) -> None:
    async with WeixinBed() as bed:
        bed.clock = clock = FakeClock()
        bed.folder, inboxes = tmp_path / "weixin", Inboxes()
        platform = bed.connect()
        async with running(platform, inboxes.accept, None):
            bed.server.wrong["sendmessage"] = Wrong(-2, "prepare failed")
            for _ in range(3):
                with pytest.raises(Unreachable, match="no more messages for now"):
                    await platform.send(bed.chats(1)[0], Body(text="hi"), key="k", reply_to=None)
                clock.jump(60)
            bed.server.wrong.clear()
            await bed.do(Does.TEXT, "are you there?")
            await until(lambda: len(inboxes.items) == 1, "it never came")
        platform = bed.connect()
        async with running(platform, inboxes.accept, inboxes.cursor):
            await platform.send(bed.chat, Body(text="yes"), key="k", reply_to=None)
        assert [one.text for one in bed.shown()] == ["yes"]


async def test_a_stale_token_is_left_out(tmp_path: Path) -> None:
    async with WeixinBed() as bed:
        bed.clock = clock = FakeClock()
        bed.folder, inboxes = tmp_path / "weixin", Inboxes()
        platform = bed.connect()
        bed.server.stale = {"context+1/=", "context+2/="}
        async with running(platform, inboxes.accept, None):
            await bed.do(Does.TEXT, "every morning, please")
            await until(lambda: len(inboxes.items) == 1, "it never came")
            with pytest.raises(Unreachable, match="-2"):
                await platform.send(bed.chat, Body(text="now"), key="k", reply_to=None)
            assert bed.server.attempts == 1, "a token that is fresh is not the reason"
            clock.jump(3600)
            await platform.send(bed.chat, Body(text="report 1"), key="k1", reply_to=None)
            assert bed.server.attempts == 3
        platform = bed.connect()
        async with running(platform, inboxes.accept, inboxes.cursor):
            await platform.send(bed.chat, Body(text="report 2"), key="k2", reply_to=None)
            assert bed.server.attempts == 4, "it is forgotten"
            await bed.do(Does.TEXT, "another time")
            await until(lambda: len(inboxes.items) == 2, "it never came")
            bed.server.wrong["sendmessage"] = Wrong(-2, "rate limited")
            for _ in range(2):
                clock.jump(3600)
                with pytest.raises(Unreachable, match="-2"):
                    await platform.send(bed.chat, Body(text="report 3"), key="k3", reply_to=None)
            assert bed.server.attempts == 7, "one attempt without it finds out"
        assert [(one.text, one.context) for one in bed.server.sent] == [("report 1", ""), ("report 2", "")]


# --- files that go out ---


async def _opened(file: Attachment) -> bytes:
    return b"a picture"


PICTURE = Body(attachments=(Attachment(kind=MediaKind.IMAGE, ref="x", name="a.png", mime="image/png"),))


async def test_where_weixin_takes_no_files_the_words_go() -> None:
    async with WeixinBed() as bed:
        bed.open_file = _opened
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            bed.server.wrong["getuploadurl"] = Wrong(-2, "")
            for _ in range(2):
                with pytest.raises(Unreachable, match="-2") as raised:
                    await platform.send(bed.chat, PICTURE, key="k", reply_to=None)
                assert raised.value.after == 60.0
            for _ in range(2):
                with pytest.raises(Refused, match="takes no files"):
                    await platform.send(bed.chat, PICTURE, key="k", reply_to=None)
            await platform.send(bed.chat, Body(text="words"), key="k2", reply_to=None)
            bed.server.wrong.clear()
            await platform.send(bed.chat, PICTURE, key="k", reply_to=None)
        assert [(one.text, len(one.files)) for one in bed.shown()] == [("words", 0), ("", 1)]


async def test_where_weixin_takes_no_words_either_a_file_waits() -> None:
    async with WeixinBed() as bed:
        bed.clock, bed.open_file = FakeClock(), _opened
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            bed.server.wrong = {name: Wrong(-2, "") for name in ("getuploadurl", "sendmessage")}
            for number in range(5):
                bed.clock.jump(3600)
                for body in (PICTURE, Body(text="words")):
                    with pytest.raises(Unreachable, match="-2"):
                        await platform.send(bed.chat, body, key=f"k{number}", reply_to=None)
                    bed.clock.jump(3600)


async def test_a_file_that_lies_nowhere_is_not_shown() -> None:
    async with WeixinBed() as bed:
        bed.open_file, bed.server.loses_files = _opened, True
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            with pytest.raises(Unreachable, match="where it keeps the file") as raised:
                await platform.send(bed.chat, PICTURE, key="k", reply_to=None)
        assert raised.value.in_transfer and bed.shown() == []


# --- polls ---


async def test_a_poll_that_a_gateway_cuts_is_an_empty_one(
    quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with WeixinBed() as bed:
        inboxes = Inboxes()
        bed.server.wrong["getupdates"] = Wrong(-1, "a timeout occurred", 524)
        with pytest.raises(Unreachable, match="fault of its own"):
            await bed.connect().run(inboxes.accept, None)
        monkeypatch.setattr("hermes.entry.platforms.weixin.adapter._CUT_SECONDS", 0.0)
        async with running(bed.connect(), inboxes.accept, None):
            before = inboxes.batches
            await until(lambda: inboxes.batches > before + 3, "it does not ask again")
            bed.server.wrong.clear()
            await bed.do(Does.TEXT, "hello")
            await until(lambda: inboxes.texts == ["hello"], "it never came")


@pytest.mark.parametrize("code", [-3, -4, -99])
async def test_a_poll_that_fails_is_no_end(code: int) -> None:
    async with WeixinBed() as bed:
        bed.server.wrong["getupdates"] = Wrong(code, "x")
        with pytest.raises(Unreachable, match=str(code)):
            await bed.connect().run(Inboxes().accept, None)


async def test_a_session_comes_back_when_weixin_is_told_that_we_are_there(quick: None) -> None:
    async with WeixinBed() as bed:
        bed.server.lapsed = True
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, None):
            await bed.do(Does.TEXT, "hello")
            await until(lambda: inboxes.texts == ["hello"], "it never came")
        assert bed.server.notified == 1, "it is told at the start, as by the vendor's client"


async def test_a_send_without_a_session_is_no_login_problem() -> None:
    async with WeixinBed() as bed:
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            bed.server.wrong["sendmessage"] = Wrong(-14, "session timeout")
            with pytest.raises(Unreachable, match="-14") as raised:
                await platform.send(bed.chat, Body(text="hi"), key="k", reply_to=None)
            assert raised.value.after == 60.0 and not raised.value.maybe_done


async def test_typing_asks_for_one_ticket_and_is_not_shown_too_often() -> None:
    async with WeixinBed() as bed:
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            for _ in range(5):
                await platform.typing(bed.chat)
            assert (bed.server.tickets, bed.server.typed) == (1, 1)
            bed.server.wrong["sendtyping"] = Wrong(-3, "ticket")
            platform._tickets[bed.chat.chat].shown -= 10
            with pytest.raises(Refused):
                await platform.typing(bed.chat)
            bed.server.wrong.clear()
            await platform.typing(bed.chat)
            assert (bed.server.tickets, bed.server.typed) == (2, 2), "a ticket that is refused is got anew"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes.entry.platforms.weixin.adapter._PAUSE", 0.0)


async def test_a_session_that_has_ended_asks_for_a_login(quick: None) -> None:
    async with WeixinBed() as bed:
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, None) as task:
            await until(lambda: bed.server.polls > 0, "nobody asks")
            bed.server.expired = True
            await until(task.done, "it goes on")
            assert isinstance(task.exception(), NeedsLogin) and bed.server.notified == 1
            assert "hermes platforms login weixin" in str(task.exception())
        with pytest.raises(NeedsLogin):
            await bed.connect().check()
        bed.server.expired = False
        assert [one.good for one in await bed.connect().check()] == [True]


def _context(bed: WeixinBed, **said: str) -> AdapterContext:
    values = {**bed.variables(), **said}
    return AdapterContext(
        settings=PlatformSettings(), find=lambda name: Secret(values[name]) if name in values else None
    )


@pytest.mark.parametrize(
    ("said", "words"),
    [({"WEIXIN_TOKEN": ""}, "platforms login weixin"), ({"WEIXIN_BASE_URL": "x"}, "no address")],
)
def test_what_it_does_not_start_with(said: dict[str, str], words: str) -> None:
    with pytest.raises(NeedsLogin, match=words):
        WeixinAdapter(_context(WeixinBed(), **said))


async def test_an_address_inside_is_not_asked() -> None:
    adapter = WeixinAdapter(_context(WeixinBed(), WEIXIN_BASE_URL="https://ilinkai.weixin.qq.com"))

    async def sink(piece: bytes) -> None:
        pass

    for url in ("http://127.0.0.1:1/x", "https://10.0.0.1/x", "http://example.com/x"):
        with pytest.raises(Refused, match="not safe"):
            await adapter.fetch(f"{url}#{KEY.hex()}", sink)


async def test_a_picture_that_is_not_encrypted_is_fetched_as_it_is() -> None:
    async with WeixinBed() as bed:
        inboxes, platform, got = Inboxes(), bed.connect(), bytearray()

        async def sink(piece: bytes) -> None:
            got.extend(piece)

        async with running(platform, inboxes.accept, None):
            media = bed.server.keep(b"plain", sealed=False)
            bed.server.say(message(901, {"type": 2, "image_item": {"media": media}}))
            await until(lambda: len(inboxes.items) == 1, "it never came")
            await platform.fetch(inboxes.items[0].attachments[0].ref, sink)
        assert got == b"plain"


async def test_a_file_with_another_key_is_refused() -> None:
    async with WeixinBed() as bed:
        bed.server.keep(b"data")
        platform = bed.connect()

        async def sink(piece: bytes) -> None:
            raise AssertionError("nothing of it is shown")

        url = f"{bed.server.cdn}/download?encrypted_query_param=AAF%2B1%2F%3D"
        async with running(platform, Inboxes().accept, None):
            with pytest.raises(Refused, match="cannot be decrypted"):
                await platform.fetch(f"{url}#{'ff' * 16}", sink)


# --- the login ---


async def test_the_login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "_PAUSE", 0.0)
    async with WeixinBed() as bed:
        monkeypatch.setattr(login, "API", bed.server.url)
        done = {
            "status": "confirmed",
            "bot_token": "new-token",
            "ilink_bot_id": "b",
            "baseurl": bed.server.url,
        }
        states = ["wait", "expired", "scaned", "scaned"]
        bed.server.states = [{"status": state} for state in states] + [done]
        told: list[str] = []
        variables = await login.log_in(_context(bed), told.append)
        assert variables == {"WEIXIN_TOKEN": "new-token", "WEIXIN_BASE_URL": bed.server.url}
        assert sum("liteapp.weixin.qq.com" in one for one in told) == 2, "another code after the first"
        assert sum("Scanned" in one for one in told) == 1
        bed.server.states = [{"status": "expired"}] * 3
        with pytest.raises(UserError, match="Nobody confirmed"):
            await login.log_in(_context(bed), told.append)
        bed.server.states = [{"status": "binded_redirect"}]
        with pytest.raises(UserError, match="connected already"):
            await login.log_in(_context(bed), told.append)
        bed.server.states = [{"status": "need_verifycode"}]
        with pytest.raises(UserError, match="Nobody can be asked"):
            await login.log_in(_context(bed), told.append)


async def test_the_login_asks_for_the_number_on_the_telephone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "_PAUSE", 0.0)
    async with WeixinBed() as bed:
        monkeypatch.setattr(login, "API", bed.server.url)
        states = ["need_verifycode", "verify_code_blocked", "need_verifycode", "need_verifycode", "scaned"]
        done = {"status": "confirmed", "bot_token": "new-token", "ilink_bot_id": "b"}
        bed.server.states = [{"status": state} for state in states] + [done]
        questions: list[str] = []
        numbers = iter(["11", "22", "33"])

        def ask(question: str) -> str:
            questions.append(question)
            return next(numbers)

        told: list[str] = []
        variables = await login.log_in(replace(_context(bed), ask=ask), told.append)
        assert variables == {"WEIXIN_TOKEN": "new-token"}
        assert bed.server.typed_numbers == ["11", "22", "33", "33"]
        assert ["another number" in one for one in questions] == [False, False, True]
        assert any("here is another code" in one for one in told)
