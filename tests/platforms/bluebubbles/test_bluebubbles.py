"""The BlueBubbles adapter: the suite, asked and rung; and what is iMessage's own."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta

import aiohttp
import pytest

from hermes.domain.chats.address import Address, SourceKind
from hermes.domain.chats.message import Body, InboundKind, MediaKind, Receipt
from hermes.domain.errors import NeedsLogin, Refused, Unreachable
from hermes.entry.platforms.bluebubbles import convert
from hermes.testing.clock import QuickClock
from hermes.testing.platform_suite import CHECKS, Check, Does, Inboxes, conform, running, until
from tests.platforms.bluebubbles.bed import ME, BlueBubblesBed, RingingBed
from tests.platforms.bluebubbles.samples import ANN, CHAT, GROUP, MESSAGES


@pytest.mark.parametrize("bed", [BlueBubblesBed, RingingBed])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_bluebubbles_conforms(check: Check, bed: type[BlueBubblesBed], full: bool) -> None:
    await conform(check, bed, full=full)


def read(name: str) -> convert.Inbound:
    (item,) = convert.to_inbounds(MESSAGES[name], ME)
    return item


def test_messages() -> None:
    assert (read("text").text, read("text").source.user) == ("hello 😀", ANN)
    assert (read("group").source.kind, read("group").source.address.chat) == (SourceKind.GROUP, GROUP)
    assert (read("group").source.chat_name, read("text").source.chat_name) == ("Friends", None)
    assert read("mail").source.user == "ann@icloud.com"
    assert (read("sms").source.address.chat, read("any").source.address.chat) == (
        "SMS;-;+15551234567",
        "any;-;+15551234567",
    )
    reply = read("reply").reply_to
    assert reply is not None and reply.mine
    assert (read("picture").text, read("picture").attachments[0].kind) == ("", MediaKind.IMAGE)
    assert read("voice").attachments[0].kind is MediaKind.VOICE, "Messages does not always know its type"
    assert read("song").attachments[0].kind is MediaKind.AUDIO
    assert (read("love").what, read("love").ref, read("love").text) == (InboundKind.REACTION, "OURS", "❤️")
    assert (read("no_love").ref, read("no_love").text) == ("OURS", "")
    for name in ("ours", "renamed"):
        assert convert.to_inbounds(MESSAGES[name], ME) == (), name


async def test_what_a_call_says_does_not_count() -> None:
    """Webhooks are not signed: they only ring."""
    async with RingingBed() as bed:
        inboxes, platform = Inboxes(), bed.connect()
        platform.look_seconds = 3600.0
        async with running(platform, inboxes.accept, None), aiohttp.ClientSession() as session:
            await until(lambda: bool(bed.server.webhooks) and inboxes.batches > 0, "it does not listen")
            (webhook,) = bed.server.webhooks
            assert len(webhook["url"].rpartition("/")[2]) == 40, "nobody guesses the address"
            forged = {"type": "new-message", "data": MESSAGES["text"]}
            for url in (webhook["url"], webhook["url"][:-1], webhook["url"].rpartition("/")[0]):
                async with session.post(url, json=forged) as response:
                    assert response.status == (200 if url == webhook["url"] else 404)
            await bed.do(Does.TEXT, "a true one")
            await until(lambda: inboxes.texts == ["a true one"], lambda: f"it heard {inboxes.texts}")
        async with running(bed.connect(), inboxes.accept, inboxes.cursor):
            await until(lambda: inboxes.batches > 3, "no sign of life")
        assert len(bed.server.webhooks) == 1, "it is not subscribed twice"


async def test_signs_need_the_private_api() -> None:
    async with BlueBubblesBed() as bed:
        platform = bed.connect()
        message = Receipt(to=bed.chat, ref="G1")
        async with running(platform, Inboxes().accept, None):
            await platform.typing(bed.chat)
            await platform.react(message, "❤️")
            assert (bed.server.typing, bed.reactions()) == ([CHAT], ["❤️"])
            await platform.react(message, "✅", instead="👀")
            assert bed.reactions() == ["👍"]
            await platform.react(message, "", instead="👍")
            assert bed.reactions() == []
            with pytest.raises(Refused, match="does not have"):
                await platform.react(message, "🦄")
        bed.said["BLUEBUBBLES_PRIVATE_API"] = "false"
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            for work in (platform.typing(bed.chat), platform.react(message, "👍")):
                with pytest.raises(Refused, match="Private API"):
                    await work
            await platform.send(bed.chat, Body(text="x"), key="k", reply_to="G1")
        assert bed.server.calls[-1][1]["method"] == "apple-script"
        assert "selectedMessageGuid" not in bed.server.calls[-1][1]


async def test_an_attempt_that_was_given_up_and_goes_on_is_waited_for() -> None:
    async with BlueBubblesBed() as bed:
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            bed.server.slow, platform.api.answer_seconds = 1.0, 0.3
            with pytest.raises(Unreachable, match="did not answer"):
                await platform.send(bed.chat, Body(text="x"), key="k", reply_to=None)
            with pytest.raises(Unreachable, match="still sends it") as told:
                await platform.send(bed.chat, Body(text="x"), key="k", reply_to=None)
            assert (told.value.after, told.value.maybe_done) == (30.0, True)
            await asyncio.wait(bed.server.works)
        assert [one.text for one in bed.shown()] == ["x"]


async def test_an_error_of_messages_is_told_with_its_number() -> None:
    async with BlueBubblesBed() as bed:
        platform = bed.connect()
        bed.server.broken = 22
        async with running(platform, Inboxes().accept, None):
            with pytest.raises(Refused, match="error 22"):
                await platform.send(bed.chat, Body(text="x"), key="k", reply_to=None)


async def test_chats_begin_otherwise_on_macos_26() -> None:
    async with BlueBubblesBed() as bed:
        bed.server.system, bed.server.chats = "26.1", {f"any;-;{ANN}"}
        platform, inboxes = bed.connect(), Inboxes()
        async with running(platform, inboxes.accept, None):
            await until(lambda: inboxes.batches > 0, "it does not listen")
            for chat in (ANN, "bob@icloud.com", CHAT):
                to = Address(platform="bluebubbles", chat=chat)
                await platform.send(to, Body(text="x"), key=chat, reply_to="G1")
        told = [call for _, call in bed.server.calls]
        assert [one["chatGuid"] for one in told] == [f"any;-;{ANN}", "iMessage;-;bob@icloud.com", CHAT]
        assert not any("selectedMessageGuid" in one for one in told), "it would never leave the server"
        bed.said["BLUEBUBBLES_PRIVATE_API"] = "false"
        assert not (await bed.connect().check())[1].good


async def test_words_wait_for_the_picture_that_belongs_to_them() -> None:
    async with RingingBed() as bed:
        inboxes, platform = Inboxes(), bed.connect()
        platform.look_seconds = 3600.0
        async with running(platform, inboxes.accept, None):
            await until(lambda: bool(bed.server.webhooks) and inboxes.batches > 0, "it does not listen")
            message = bed.server.say(CHAT, ANN, "\ufffcWhat is this?")
            seen = inboxes.batches
            await until(lambda: inboxes.batches >= seen + 3, "it does not look again")
            assert inboxes.texts == []
            message["attachments"] = [bed.server.keep_file(b"data", "image/png", "a.png")]
            await until(lambda: bool(inboxes.items), "it never came")
            assert (inboxes.texts, len(inboxes.items[0].attachments)) == (["What is this?"], 1)


async def test_words_that_are_older_than_others_are_looked_for_too() -> None:
    async with RingingBed() as bed:
        inboxes, platform, now = Inboxes(), bed.connect(), int(time.time() * 1000)
        platform.look_seconds = 3600.0
        async with running(platform, inboxes.accept, f"{now - 7_200_000} {now - 7_200_000}"):
            await until(lambda: bool(bed.server.webhooks) and inboxes.batches > 0, "it does not listen")
            await bed.do(Does.TEXT, "later")
            await until(lambda: inboxes.texts == ["later"], "it never came")
            message = bed.server.say(CHAT, ANN, "\ufffcWhat is this?", at=now - 300_000)
            seen = inboxes.batches
            await until(lambda: inboxes.batches >= seen + 3, "it does not look again")
            message["attachments"] = [bed.server.keep_file(b"data", "image/png", "a.png")]
            await until(lambda: len(inboxes.items) == 2, "it never came")
            assert inboxes.texts == ["later", "What is this?"]


async def test_words_whose_picture_never_comes_come_alone() -> None:
    async with BlueBubblesBed() as bed:
        bed.clock = QuickClock(200.0)
        inboxes = Inboxes()
        bed.server.say(CHAT, ANN, "\ufffcWhat is this?")
        async with running(bed.connect(), inboxes.accept, None):
            await until(lambda: bool(inboxes.items), "it never came")
        assert inboxes.texts[0] == "What is this?\n[a file came that cannot be read]"


async def test_a_message_that_reaches_the_mac_late_is_read() -> None:
    """Messages carry the time at which they were sent; what was before the first start stays unread."""
    async with BlueBubblesBed() as bed:
        inboxes, now = Inboxes(), int(time.time() * 1000)
        bed.server.say(CHAT, ANN, "of yesterday", at=now - 86_400_000)
        async with running(bed.connect(), inboxes.accept, f"{now - 7_200_000} {now - 7_200_000}"):
            bed.server.say(CHAT, ANN, "on time", at=now)
            await until(lambda: inboxes.texts == ["on time"], lambda: f"it heard {inboxes.texts}")
            bed.server.say(CHAT, ANN, "late", at=now - 3_600_000)
            await until(lambda: inboxes.texts == ["on time", "late"], lambda: f"it heard {inboxes.texts}")
        bed.server.say(CHAT, ANN, "later still", at=now - 3_500_000)
        async with running(bed.connect(), inboxes.accept, inboxes.cursor):
            await until(lambda: inboxes.texts[2:] == ["later still"], lambda: f"it heard {inboxes.texts}")
        fresh = Inboxes()
        async with running(bed.connect(), fresh.accept, None):
            await until(lambda: fresh.batches > 12, "no sign of life")
        assert fresh.texts == ["on time"], "the first start goes back one minute"


@pytest.mark.parametrize("hours", [-2, 2])
async def test_a_machine_whose_clock_is_wrong_hears_what_comes(hours: int) -> None:
    """The Mac dates the messages, so its clock tells what is new."""
    async with BlueBubblesBed() as bed:
        bed.clock = QuickClock(1.0, datetime.now(UTC) + timedelta(hours=hours))
        inboxes = Inboxes()
        bed.server.say(CHAT, ANN, "of old", at=int(time.time() * 1000) - 1_800_000)
        for text in ("one", "two"):
            async with running(bed.connect(), inboxes.accept, inboxes.cursor):
                batches = inboxes.batches
                await until(lambda: inboxes.batches > batches, "it does not look")  # noqa: B023
                bed.server.say(CHAT, ANN, text)
                await until(lambda: inboxes.texts[-1:] == [text], "it is deaf")  # noqa: B023
        assert inboxes.texts == ["one", "two"]


async def test_a_message_from_the_future_hides_none_that_come_till_then() -> None:
    async with BlueBubblesBed() as bed:
        inboxes, now = Inboxes(), int(time.time() * 1000)
        async with running(bed.connect(), inboxes.accept, None):
            bed.server.say(CHAT, ANN, "of next week", at=now + 7 * 86_400_000)
            await until(lambda: inboxes.texts == ["of next week"], lambda: f"it heard {inboxes.texts}")
            bed.server.say(CHAT, ANN, "of now")
            await until(lambda: "of now" in inboxes.texts, lambda: f"it heard {inboxes.texts}")
        mark, first = (inboxes.cursor or "").split()
        bed.server.say(CHAT, ANN, "and again")
        spoilt = f"{now + 7 * 86_400_000} {first}"  # as an earlier version stored it
        assert int(mark) < now + 3_600_000
        async with running(bed.connect(), inboxes.accept, spoilt):
            await until(lambda: "and again" in inboxes.texts, lambda: f"it heard {inboxes.texts}")


async def test_who_sees_that_we_write_sees_that_we_read() -> None:
    async with BlueBubblesBed() as bed:
        inboxes, platform = Inboxes(), bed.connect()
        async with running(platform, inboxes.accept, None):
            bed.server.say(CHAT, ANN, "hello")
            await until(lambda: bool(inboxes.texts), "it never came")
            assert bed.server.read == [], "nobody works on it yet"
            for _ in range(2):
                await platform.typing(bed.chat)
            assert (bed.server.read, bed.server.typing) == ([CHAT], [CHAT, CHAT])
        bed.said["BLUEBUBBLES_SEND_READ_RECEIPTS"] = "false"
        platform = bed.connect()
        async with running(platform, inboxes.accept, inboxes.cursor):
            bed.server.say(CHAT, ANN, "and now?")
            await until(lambda: "and now?" in inboxes.texts, "it never came")
            await platform.typing(bed.chat)
        assert bed.server.read == [CHAT]


async def test_a_person_is_a_place_too() -> None:
    async with BlueBubblesBed() as bed:
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            for chat in (ANN, "ann@icloud.com"):
                to = Address(platform="bluebubbles", chat=chat)
                await platform.send(to, Body(text="x"), key=chat, reply_to=None)
            with pytest.raises(Refused, match="Apple ID"):
                to = Address(platform="bluebubbles", chat="Ann Other")
                await platform.send(to, Body(text="x"), key="k", reply_to=None)
        assert [one.chat for one in bed.shown()] == [CHAT, "iMessage;-;ann@icloud.com"]


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("BLUEBUBBLES_SERVER_URL", "192.168.1.2:1234", "no address"),
        ("BLUEBUBBLES_PASSWORD", "", "is missing"),
    ],
)
def test_wrong_settings(variable: str, value: str, words: str) -> None:
    bed = BlueBubblesBed()
    bed.said |= {"BLUEBUBBLES_SERVER_URL": "http://127.0.0.1:1", variable: value}
    with pytest.raises(NeedsLogin, match=words):
        bed.connect()


async def test_a_wrong_password_parks_it_and_the_check_tells_what_is_missing() -> None:
    async with BlueBubblesBed() as bed:
        found = await bed.connect().check()
        assert "1.9.9" in found[0].text and "BLUEBUBBLES_WEBHOOK_URL" in found[1].hint
        bed.server.helper = False
        assert [one.good for one in await bed.connect().check()] == [True, False, True]
        bed.said["BLUEBUBBLES_PASSWORD"] = "wrong"
        with pytest.raises(NeedsLogin, match="BLUEBUBBLES_PASSWORD"):
            await bed.connect().run(Inboxes().accept, None)
