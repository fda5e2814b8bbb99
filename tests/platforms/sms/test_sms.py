"""The SMS adapter: the suite with a public address and without, and what is Twilio's own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import aiohttp
import pytest

from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Attachment, Body, InboundKind, MediaKind
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable
from hermes.entry.platforms.sms import convert
from hermes.entry.platforms.sms.manifest import MANIFEST
from hermes.testing.clock import QuickClock
from hermes.testing.platform_suite import CHECKS, Check, Does, Inboxes, conform, running, until
from tests.platforms.sms.bed import ME, NOW, AskingBed, SmsBed
from tests.platforms.sms.samples import ANN, MESSAGES, REPORT
from tests.platforms.sms.server import NUMBER, TOKEN, TwilioError
from tests.platforms.sms.signing import signature


@pytest.mark.parametrize("bed", [SmsBed, AskingBed])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_sms_conforms(check: Check, bed: type[SmsBed], full: bool) -> None:
    await conform(check, bed, full=full)


# --- who calls ---

URL = "https://mycompany.com/myapp.php?foo=1&bar=2"
CALL = {
    "CallSid": ["CA1234567890ABCDE"],
    "Caller": ["+14158675309"],
    "Digits": ["1234"],
    "From": ["+14158675309"],
    "To": ["+18005551212"],
}

REPEATED = {"Sid": ["CA123"], "SidAccount": ["AC123"], "Digits": ["5678", "1234", "1234"]}


@pytest.mark.parametrize(
    ("url", "params", "header"),
    [
        (URL, CALL, "RSOYDt4T1cUTdK1PDd93/VVr8B8="),
        (URL, REPEATED, "IK+Dwps556ElfBT0I3Rgjkr1wJU="),
        (URL.replace("mycompany", "MyCompany"), CALL, "g9IN/x4Cft2g517EjYvEvM/W7LU="),
        (URL.replace(".com/", ".com:443/"), CALL, "RSOYDt4T1cUTdK1PDd93/VVr8B8="),
    ],
)
def test_the_published_signatures(url: str, params: dict[str, list[str]], header: str) -> None:
    """twilio-python and twilio-csharp, tests of their request validators."""
    assert convert.is_signed("12345", url, params, header)
    assert not convert.is_signed("12346", url, params, header)
    assert not convert.is_signed("", url, params, header)
    assert not convert.is_signed("12345", url + "&x=1", params, header)
    assert not convert.is_signed("12345", url, {**params, "To": ["+1"]}, header)


def test_the_published_hash_of_a_body() -> None:
    digest = "0a1ff7634d9ab3b95db5c9a2dfe9416e41502b283a80c7cf19632632f96e6620"
    body = b'{"property": "value", "boolean": true}'
    assert convert.is_body(f"https://mycompany.com/?bodySHA256={digest}", body)
    assert not convert.is_body(f"https://mycompany.com/?bodySHA256={digest}", body + b" ")
    assert convert.is_body("https://mycompany.com/?key=1", body)


def test_another_algorithm_is_named_in_a_header() -> None:
    header = signature("key", URL, {"a": "b"}, "sha256")
    assert convert.is_signed(
        "key", URL, {"a": ["b"]}, header, "key=webhooks_sharedkey_1,algorithm=HMAC_SHA256"
    )
    assert not convert.is_signed("key", URL, {"a": ["b"]}, header)
    assert not convert.is_signed("key", URL, {"a": ["b"]}, header, "algorithm=NONE")


async def test_calls_that_are_not_twilios_are_refused_and_repeats_are_one_message() -> None:
    async with SmsBed() as bed:
        inboxes, server = Inboxes(), bed.server
        fields = MESSAGES["text"]
        async with running(bed.connect(), inboxes.accept, None), aiohttp.ClientSession() as session:
            await until(lambda: inboxes.batches > 0, "it does not listen")
            assert await server.call(server.callback, fields, "another token") == 403
            async with session.post(server.callback, data=fields) as response:
                assert response.status == 403, "without a signature"
            headers = {"X-Twilio-Signature": signature(TOKEN, server.callback, fields)}
            async with session.post(server.callback + "?x=1", data=fields, headers=headers) as response:
                assert response.status == 403, "another address"
            for _ in range(3):
                assert await server.call(server.callback, fields) == 200
            assert await server.call(server.callback, {"Nonsense": "1"}) == 200
        assert inboxes.texts == ["Hello 😀"]


@pytest.mark.parametrize(
    ("told", "entered", "called"),
    [("/sms/", "/sms/", "/sms/"), ("/", "/", "/"), ("", "", "/"), ("", "/", "/"), ("/", "", "/")],
)
async def test_the_address_may_end_as_it_was_entered(told: str, entered: str, called: str) -> None:
    """Twilio signs what was entered in its console; that the page says to be the same to the letter."""
    async with SmsBed() as bed:
        host = bed.server.callback.removesuffix("/sms")
        bed.said["SMS_WEBHOOK_URL"] = host + told
        bed.server.callback = host + entered
        inboxes, platform, fields = Inboxes(), bed.connect(), MESSAGES["text"]
        assert all(one.good for one in await bed.connect().check())
        async with running(platform, inboxes.accept, None), aiohttp.ClientSession() as session:
            await until(lambda: inboxes.batches > 0, "it does not listen")
            headers = {"X-Twilio-Signature": signature(TOKEN, host + entered, fields)}
            async with session.post(host + called, data=fields, headers=headers) as response:
                assert response.status == 200
            sent = await platform.send(bed.chat, Body(text="x"), key="k", reply_to=None)
            assert await bed.server.call(bed.server.callbacks[sent.ref], {"MessageStatus": "sent"}) == 200
        assert inboxes.texts == ["Hello 😀"]


# --- what comes ---


def test_messages_of_calls_and_of_the_list() -> None:
    def read(name: str) -> tuple[convert.Inbound, ...]:
        return convert.to_inbounds(MESSAGES[name], ME, NOW)

    (text,), (picture,) = read("text"), read("picture")
    assert (text.text, text.source.user, text.at) == ("Hello 😀", ANN, NOW)
    assert picture.attachments[0].kind is MediaKind.IMAGE and "/ME" in picture.attachments[0].ref
    (listed,), (found,) = read("listed"), read("listed_picture")
    assert (listed.text, listed.at.year, listed.delivery) == ("Hello again", 2023, text.delivery)
    assert found.attachments[0].ref == picture.attachments[0].ref
    for name in ("stop", "other_number", "ours"):
        assert read(name) == (), name


def test_what_did_not_arrive() -> None:
    (item,) = convert.to_report(REPORT, "turn:1:0", ME, NOW)
    assert (item.what, item.ref, item.source.address.chat) == (InboundKind.UNDELIVERED, "turn:1:0", ANN)
    assert "30003" in item.text
    assert convert.to_report({**REPORT, "MessageStatus": "delivered"}, "turn:1:0", ME, NOW) == ()
    assert convert.to_report(REPORT, "", ME, NOW) == ()


async def test_a_report_names_the_message_by_its_key() -> None:
    async with SmsBed() as bed:
        inboxes, platform = Inboxes(), bed.connect()
        async with running(platform, inboxes.accept, None):
            await until(lambda: inboxes.batches > 0, "it does not listen")
            sent = await platform.send(bed.chat, Body(text="x"), key="turn:t/1 ü:0", reply_to=None)
            bed.server.tell_status(sent.ref, "delivered")
            bed.server.tell_status(sent.ref, "undelivered", "30007")
            await until(lambda: bool(inboxes.items), "nobody hears of it")
        assert [(one.what, one.ref) for one in inboxes.items] == [(InboundKind.UNDELIVERED, "turn:t/1 ü:0")]


async def test_a_call_that_could_not_be_stored_is_found_in_the_list() -> None:
    async with SmsBed() as bed:
        inboxes, refuses = Inboxes(), [True]

        async def accept(items: object, cursor: str | None) -> None:
            if items and refuses.pop():
                refuses.append(False)
                raise Unreachable("the disk is full")
            await inboxes.accept(items, cursor)  # type: ignore[arg-type]

        platform = bed.connect()
        platform.look_seconds = 3600.0
        async with running(platform, accept, None):
            await until(lambda: inboxes.batches > 0, "it does not listen")
            await bed.do(Does.TEXT, "hello")
            await until(lambda: inboxes.texts == ["hello"], "Twilio does not call again")


async def test_a_stop_reaches_nobody_by_call_or_by_list() -> None:
    async with SmsBed() as bed:
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, None):
            await until(lambda: inboxes.batches > 0, "it does not listen")
            bed.server.say(ANN, "STOP", OptOutType="STOP")
            bed.server.say(ANN, " Unsubscribe ")
            bed.server.say(ANN, "please stop")
            bed.server.say(ANN, "last", call=False)
            await until(lambda: "last" in inboxes.texts, "the list is not read")
        assert sorted(inboxes.texts) == ["last", "please stop"]


async def test_media_that_are_gone_leave_the_words() -> None:
    async with AskingBed() as bed:
        bed.server.say(ANN, "look", ("image/png", b"x"))
        bed.server.media.clear()
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, "2020-01-01T00:00:00+00:00"):
            await until(lambda: inboxes.texts == ["look"], "one file stops the account")
    assert isinstance(convert.error_for(404, "20404", "x", None), Refused)


async def test_an_account_that_does_not_exist_parks_it() -> None:
    async with SmsBed() as bed:
        bed.said["TWILIO_ACCOUNT_SID"] = "AC" + "0" * 32
        with pytest.raises(NeedsLogin, match="TWILIO_ACCOUNT_SID"):
            await bed.connect().run(Inboxes().accept, None)


def test_files_that_twilio_and_carriers_take() -> None:
    media = MANIFEST.capabilities.media
    assert media[MediaKind.IMAGE].max_bytes == 5_000_000
    assert {one.max_bytes for kind, one in media.items() if kind is not MediaKind.IMAGE} == {600_000}
    taken = media[MediaKind.FILE].mimes
    assert "application/pdf" in taken and not {"application/zip", "text/plain", ""} & set(taken)


async def test_a_long_list_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes.entry.platforms.sms.adapter._PAGE", 3)
    async with AskingBed() as bed:
        for number in range(10):
            bed.server.say(ANN, str(number))
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, "2020-01-01T00:00:00+00:00"):
            await until(lambda: len(inboxes.items) == 10, "not all of it")
        assert inboxes.texts == [str(number) for number in range(10)], "the oldest first"


@pytest.mark.parametrize("hours", [-2, 2])
async def test_a_machine_whose_clock_is_wrong_hears_what_comes(hours: int) -> None:
    """Twilio's clock dates the messages, so it tells since when the list is read."""
    async with AskingBed() as bed:
        bed.clock = QuickClock(1.0, datetime.now(UTC) + timedelta(hours=hours))
        bed.server.say(ANN, "of old")
        bed.server.messages[0]["date_sent"] = "Mon, 05 Jan 2026 12:00:00 +0000"
        inboxes = Inboxes()
        for text in ("one", "two"):
            async with running(bed.connect(), inboxes.accept, inboxes.cursor):
                batches = inboxes.batches
                await until(lambda: inboxes.batches > batches + 1, "it does not look")  # noqa: B023
                bed.server.say(ANN, text)
                await until(lambda: inboxes.texts[-1:] == [text], "it is deaf")  # noqa: B023
        assert inboxes.texts == ["one", "two"]


async def test_media_may_be_kept_elsewhere() -> None:
    async with SmsBed() as bed:
        bed.server.elsewhere = True
        inboxes, platform, pieces = Inboxes(), bed.connect(), list[bytes]()

        async def sink(piece: bytes) -> None:
            pieces.append(piece)

        async with running(platform, inboxes.accept, None):
            await bed.do(Does.IMAGE, "look")
            await until(lambda: bool(inboxes.items), "it never came")
            await platform.fetch(inboxes.items[0].attachments[0].ref, sink)
        assert b"".join(pieces) == bed.content


# --- what goes ---


async def test_files_are_offered_under_names_that_nobody_guesses() -> None:
    async with SmsBed() as bed:
        opened = list[Attachment]()

        async def open_file(file: Attachment) -> bytes:
            opened.append(file)
            return b"GIF89a"

        bed.open_file = open_file
        platform, inboxes = bed.connect(), Inboxes()
        file = Attachment(kind=MediaKind.IMAGE, ref="x", mime="image/gif")
        async with running(platform, inboxes.accept, None), aiohttp.ClientSession() as session:
            await until(lambda: inboxes.batches > 0, "it does not listen")
            await platform.send(bed.chat, Body(text="look", attachments=(file,)), key="k", reply_to=None)
            url = next(form["MediaUrl"] for name, form in bed.server.calls if name == "create")
            assert len(url.rpartition("/")[2]) >= 32
            assert len(opened) == 3, "they are read for each who asks, and not kept in memory"
            async with session.get(url[:-1] + ("a" if url[-1] != "a" else "b")) as response:
                assert response.status == 404
    assert AskingBed().connect().capabilities.media == {}, "without an address there are no files"


@pytest.mark.parametrize(
    ("code", "status", "error", "words"),
    [
        (20003, 401, NeedsLogin, "SID and token"),
        (21606, 400, NeedsLogin, "TWILIO_PHONE_NUMBER"),
        (21610, 400, Refused, "STOP"),
        (21211, 400, Refused, "does not reach"),
        (21617, 400, Refused, "too large"),
        (21611, 400, Unreachable, "slower"),
        (99999, 400, Refused, "refuses it"),
    ],
)
async def test_errors_say_what_to_do(
    code: int, status: int, error: type[HermesError], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with SmsBed() as bed:
        platform = bed.connect()

        async def refuse(form: dict[str, str]) -> None:
            raise TwilioError(status, code, "so it is")

        monkeypatch.setattr(bed.server, "_take", refuse)
        async with running(platform, Inboxes().accept, None):
            with pytest.raises(error, match=words):
                await platform.send(bed.chat, Body(text="x"), key="k", reply_to=None)


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("TWILIO_ACCOUNT_SID", "SK123", "no SID"),
        ("TWILIO_AUTH_TOKEN", "", "AUTH_TOKEN is missing"),
        ("TWILIO_PHONE_NUMBER", "555", "no number"),
        ("SMS_WEBHOOK_URL", "example.org/sms", "no address"),
    ],
)
def test_wrong_settings(variable: str, value: str, words: str) -> None:
    bed = SmsBed()
    bed.said[variable] = value
    with pytest.raises(NeedsLogin, match=words):
        bed.connect()


async def test_a_wrong_token_parks_it() -> None:
    async with SmsBed() as bed:
        bed.said["TWILIO_AUTH_TOKEN"] = "0" * 32
        with pytest.raises(NeedsLogin, match="SID and token"):
            await bed.connect().run(Inboxes().accept, None)


async def test_the_check_tells_what_is_missing() -> None:
    async with SmsBed() as bed:
        assert all(one.good for one in await bed.connect().check())
        bed.server.callback, bed.server.kind = "https://demo.twilio.com/welcome", "Trial"
        found = await bed.connect().check()
        assert [one.good for one in found] == [True, True, False] and "HTTP POST" in found[2].hint
        bed.said["TWILIO_PHONE_NUMBER"] = "+15005550009"
        assert not (await bed.connect().check())[2].good
    async with AskingBed() as bed:
        assert "SMS_WEBHOOK_URL" in (await bed.connect().check())[-1].hint


async def test_addresses_that_are_nobody() -> None:
    async with AskingBed() as bed:
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            with pytest.raises(Refused, match="number is wanted"):
                await platform.send(
                    Address(platform="sms", chat="+1 555"), Body(text="x"), key="k", reply_to=None
                )
    assert NUMBER.startswith("+")
