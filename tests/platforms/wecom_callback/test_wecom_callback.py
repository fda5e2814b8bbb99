"""WeCom's apps: the adapter passes the suite, opens the vendor's own example, and believes nobody else."""

from __future__ import annotations

import base64
from urllib.parse import urlencode

import aiohttp
import pytest

from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Attachment, Body, Inbound, MediaKind
from hermes.domain.errors import NeedsLogin, Refused
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.word import replace
from hermes.entry.kit.crypto import cbc_sealed
from hermes.entry.platforms.wecom_callback.adapter import WeComCallbackAdapter
from hermes.entry.platforms.wecom_callback.convert import (
    WeComSecrets,
    media_place,
    opened,
    place,
    sealed_in,
    signature,
    to_inbounds,
)
from hermes.testing.platform_suite import CHECKS, Check, Does, Inboxes, conform, running, until
from tests.platforms.wecom_callback.bed import WeComAppBed
from tests.platforms.wecom_callback.samples import AES_KEY, ANN, CORP, ECHO, MESSAGES, SEALED, TOKEN, xml

SECRETS = WeComSecrets(token=TOKEN, aes_key=AES_KEY, corp=CORP)
ECHO_SIGNATURE = "5c45ff5e21c57e6ad56bac8758b79b1d9ac89fd3"
SIGNATURE = "477715d11cdb4164915debcba66cb864d751f3e6"


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_wecom_callback_conforms(check: Check, full: bool) -> None:
    await conform(check, WeComAppBed, full=full)


# --- the vendor's example (developer.work.weixin.qq.com, library of encryption, Sample.py) ---


def test_the_vendors_question_whether_we_are_there() -> None:
    assert signature(TOKEN, "1409659589", "263014780", ECHO) == ECHO_SIGNATURE
    assert opened(SECRETS, ECHO_SIGNATURE, "1409659589", "263014780", ECHO) == b"1616140317555161061"


def test_the_vendors_message() -> None:
    plain = opened(SECRETS, SIGNATURE, "1409659813", "1372623149", SEALED)
    assert plain is not None
    (item,) = to_inbounds(plain)
    assert (item.text, item.ref, item.source.user) == ("hello", "4561255354251345929", "mycreate")


@pytest.mark.parametrize(
    ("secrets", "given", "stamp", "sealed"),
    [
        (SECRETS, "0" * 40, "1409659813", SEALED),
        (SECRETS, SIGNATURE, "1409659814", SEALED),
        (WeComSecrets(token="another", aes_key=AES_KEY, corp=CORP), SIGNATURE, "1409659813", SEALED),
        (WeComSecrets(token=TOKEN, aes_key=AES_KEY, corp="wwanother"), SIGNATURE, "1409659813", SEALED),
        (WeComSecrets(token=TOKEN, aes_key="A" * 43, corp=CORP), SIGNATURE, "1409659813", SEALED),
        (SECRETS, "", "", ""),
        (SECRETS, signature(TOKEN, "1", "1372623149", "AAAA"), "1", "AAAA"),
    ],
)
def test_what_is_not_from_wecom(secrets: WeComSecrets, given: str, stamp: str, sealed: str) -> None:
    assert opened(secrets, given, stamp, "1372623149", sealed) is None


def test_a_call_that_says_too_little_is_not_from_wecom() -> None:
    sealed = base64.b64encode(cbc_sealed(SECRETS.key, SECRETS.key[:16], bytes(16), block=32)).decode()
    assert opened(SECRETS, signature(TOKEN, "1", "2", sealed), "1", "2", sealed) is None


@pytest.mark.parametrize("raw", [b"", b"<xml/>", b"<Encrypt>!</Encrypt>", b"\xff\xfe"])
def test_what_is_no_call(raw: bytes) -> None:
    assert sealed_in(raw) == ""


# --- messages ---


def read(name: str) -> Inbound:
    (item,) = to_inbounds(MESSAGES[name])
    return item


def test_messages() -> None:
    assert read("text").text == "hello 😀 & <b>" and read("command").text == "/status now"
    assert read("location").text == "Somewhere (23.134521, 113.358803)"
    assert read("link").text == "this\nhttps://example.com"
    kinds = [read(name).attachments[0].kind for name in ("picture", "voice", "video", "file")]
    assert kinds == [MediaKind.IMAGE, MediaKind.VOICE, MediaKind.VIDEO, MediaKind.FILE]
    assert read("file").attachments[0].name == "报告 1.pdf"
    assert to_inbounds(MESSAGES["entered"]) == ()
    bomb = xml("1", "text", Content="x").replace("<xml>", '<!DOCTYPE x [<!ENTITY a "b">]><xml>')
    assert to_inbounds(bomb) == ()
    hidden = xml("1", "text", Content="x").replace("<xml>", "<?a <![CDATA[?><!DOCTYPE x []]><xml>")
    assert to_inbounds(hidden) == ()


@pytest.mark.parametrize("text", ["why <!DOCTYPE html>?", "what is <!-- this --> ?", "a<!b", "<?php"])
def test_markup_that_people_write_about(text: str) -> None:
    (item,) = to_inbounds(xml("1", "text", Content=text))
    assert item.text == text


@pytest.mark.parametrize("chat", ["", "two words", "@all|x", "a/b"])
def test_what_is_no_person(chat: str) -> None:
    with pytest.raises(Refused, match="no person"):
        place(Address(platform="wecom_callback", chat=chat))


def test_what_is_no_file() -> None:
    with pytest.raises(Refused, match="no file"):
        media_place("a b")


# --- the start, and calls ---


def _context(bed: WeComAppBed, **said: str) -> AdapterContext:
    values = {**bed.variables(), **said}
    return AdapterContext(
        settings=PlatformSettings(), find=lambda name: Secret(values[name]) if name in values else None
    )


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"WECOM_CALLBACK_CORP_ID": ""}, "all needed"),
        ({"WECOM_CALLBACK_CORP_SECRET": ""}, "all needed"),
        ({"WECOM_CALLBACK_AGENT_ID": "x"}, "all needed"),
        ({"WECOM_CALLBACK_TOKEN": ""}, "anybody could call"),
        ({"WECOM_CALLBACK_AES_KEY": "short"}, "anybody could call"),
        ({"WECOM_CALLBACK_URL": "hermes"}, "no address"),
    ],
)
def test_what_it_does_not_start_with(said: dict[str, str], words: str) -> None:
    with pytest.raises(NeedsLogin, match=words):
        WeComCallbackAdapter(_context(WeComAppBed(), **said))


async def test_a_secret_that_is_wrong_stops_it() -> None:
    async with WeComAppBed() as bed:
        for name in ("WECOM_CALLBACK_CORP_SECRET", "WECOM_CALLBACK_CORP_ID"):
            with pytest.raises(NeedsLogin, match="CORP_SECRET"):
                await WeComCallbackAdapter(_context(bed, **{name: "wrong"})).run(Inboxes().accept, None)
        assert [one.good for one in await bed.connect().check()] == [True, True]


async def test_who_calls_without_the_secrets_is_nobody() -> None:
    async with WeComAppBed() as bed:
        inboxes, server = Inboxes(), bed.server
        async with running(bed.connect(), inboxes.accept, None):
            await until(lambda: inboxes.batches > 0, "it never listens")
            _, words = bed.said_by(Does.TEXT, "hello", ANN)
            assert await server.call(words, token="another") == 403
            assert await server.call(words, corp="wwanother") == 403
            async with aiohttp.ClientSession() as session:
                for raw in (b"", words.encode(), b"<Encrypt>AAAA</Encrypt>"):
                    async with session.post(server.callback, data=raw) as answer:
                        assert answer.status == 403
                asked = {"msg_signature": ECHO_SIGNATURE, "timestamp": "1409659589", "nonce": "263014780"}
                async with session.get(
                    f"{server.callback}?{urlencode({**asked, 'echostr': ECHO})}"
                ) as answer:
                    assert (answer.status, await answer.text()) == (200, "1616140317555161061")
                async with session.get(f"{server.callback}?{urlencode(asked)}") as answer:
                    assert answer.status == 403
            assert inboxes.items == []
            assert [await server.call(words), await server.call(words)] == [200, 200]
        assert inboxes.texts == ["hello"], "a replay is taken, and does nothing"


async def test_an_old_token_is_replaced_for_a_file() -> None:
    async with WeComAppBed() as bed:
        bed.server.media["media_1"] = b"data"
        platform, got = bed.connect(), bytearray()

        async def sink(piece: bytes) -> None:
            got.extend(piece)

        async with running(platform, Inboxes().accept, None):
            await platform.send(bed.chat, Body(text="one"), key="1", reply_to=None)
            bed.server.tokens += 1
            await platform.fetch("media_1", sink)
            with pytest.raises(Refused, match="any more"):
                await platform.fetch("media_2", sink)
        assert bytes(got) == b"data"


async def test_an_old_token_is_replaced_and_a_yes_for_nobody_is_a_no() -> None:
    async with WeComAppBed() as bed:
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            await platform.send(bed.chat, Body(text="one"), key="1", reply_to=None)
            bed.server.tokens += 1
            await platform.send(bed.chat, Body(text="two"), key="2", reply_to=None)
            bed.server.people = {"somebody"}
            with pytest.raises(Refused, match="no such person"):
                await platform.send(bed.chat, Body(text="three"), key="3", reply_to=None)
            bed.server.people, bed.server.unlicensed = None, True
            with pytest.raises(Refused, match="interface licence"):
                await platform.send(bed.chat, Body(text="four"), key="4", reply_to=None)
        assert [one.text for one in bed.shown()] == ["one", "two"]


async def test_a_file_is_called_as_it_is_called() -> None:
    async with WeComAppBed() as bed:
        platform = bed.connect()
        file = Attachment(kind=MediaKind.FILE, ref="sha256:0", name='报告 "1".pdf', mime="application/pdf")
        platform._context = replace(platform._context, open_file=_four_bytes)
        async with running(platform, Inboxes().accept, None):
            await platform.send(bed.chat, Body(attachments=(file,)), key="1", reply_to=None)
        assert bed.server.names == ['报告 "1".pdf']


async def _four_bytes(file: Attachment) -> bytes:
    return b"data"
