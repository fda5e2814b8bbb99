"""The Signal adapter: the suite in both dialects, and what is Signal's own."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from hermes.control.people.access import AccessRequest, decide
from hermes.domain.chats.address import Address, SourceKind
from hermes.domain.chats.message import SLOWEST_BYTES, Attachment, Body, InboundKind, MediaKind, Receipt
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable
from hermes.entry.platforms.signal import convert
from hermes.entry.platforms.signal.manifest import MANIFEST
from hermes.state.settings.loader import load_settings
from hermes.testing.platform_suite import CHECKS, Check, Does, Fault, Inboxes, conform, hosted, running, until
from tests.platforms.signal.bed import ME, RestBed, SignalBed
from tests.platforms.signal.samples import EVENTS
from tests.platforms.signal.server import ANN, FAULTS, GROUP_ID, NUMBER, UUIDS, RpcError, _failed, envelope

GROUP = Address(platform="signal", chat=f"group.{GROUP_ID}")


@pytest.mark.parametrize("bed", [SignalBed, RestBed])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_signal_conforms(check: Check, bed: type[SignalBed], full: bool) -> None:
    await conform(check, bed, full=full)


def read(name: str) -> convert.Inbound:
    (item,) = convert.to_inbounds(EVENTS[name], ME)
    return item


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("text", "hello 😀"),
        ("mention", "what do you think, @Bob?"),
        ("sticker", "[Sticker]"),
        ("contact", "[Contact: Bob B., +15557654321]"),
        ("poll", "[Poll: When? (now, no)]"),
        ("hidden", "who am I?"),
        ("to_self", "the milk"),
    ],
)
def test_what_people_send_is_told_in_words(name: str, text: str) -> None:
    assert (read(name).what, read(name).text) == (InboundKind.MESSAGE, text)


def test_who_wrote_where() -> None:
    item = read("group")
    assert (item.source.kind, item.source.address, item.source.chat_name) == (
        SourceKind.GROUP,
        GROUP,
        "Friends",
    )
    assert (item.source.user, item.source.user_alt) == (ANN, UUIDS[ANN])
    assert read("hidden").source.user == read("hidden").source.address.chat == UUIDS[ANN]
    assert read("to_self").source.address.chat == NUMBER
    assert read("mention").mentions_me and not read("group").mentions_me
    reply = read("quote").reply_to
    assert reply is not None and reply.mine and reply.text == "so"
    other = {**EVENTS["text"], "account": "+15559999999"}
    assert convert.to_inbounds(other, ME) == (), "another account of the same daemon"


@pytest.mark.parametrize("listed", [GROUP_ID, f"group.{GROUP_ID}"])
def test_a_list_of_groups_names_them_as_signal_cli_does_or_as_we_do(listed: str, tmp_path: Path) -> None:
    """Homes of Hermes Agent have the bare ids in SIGNAL_GROUP_ALLOWED_USERS."""
    said = {"SIGNAL_GROUP_ALLOWED_USERS": listed, "SIGNAL_ALLOWED_USERS": ANN}
    settings = load_settings(tmp_path, said).settings
    assert decide(AccessRequest(source=read("group").source), settings).allowed
    other = load_settings(tmp_path, {**said, "SIGNAL_GROUP_ALLOWED_USERS": "o" * 44}).settings
    assert not decide(AccessRequest(source=read("group").source), other).allowed


def test_other_happenings() -> None:
    assert (read("reaction").what, read("reaction").text) == (InboundKind.REACTION, "👍")
    assert (read("no_reaction").text, read("edit").what) == ("", InboundKind.EDIT)
    assert read("edit").ref == convert.message_ref(1_790_000_000_768, ANN)
    assert (read("deleted").what, read("deleted").ref) == (InboundKind.DELETED, read("edit").ref)
    kinds = {name: read(name).attachments[0].kind for name in ("image", "voice", "music", "file")}
    assert kinds == {
        "image": MediaKind.IMAGE,
        "voice": MediaKind.VOICE,
        "music": MediaKind.AUDIO,
        "file": MediaKind.FILE,
    }
    assert read("file").attachments[0].ref == f"Qx7_1-a.jpg group.{GROUP_ID}"
    for name in ("to_others", "group_change", "typing", "receipt", "story"):
        assert convert.to_inbounds(EVENTS[name], ME) == (), name


def test_an_edit_of_an_edit_is_an_edit_of_the_message() -> None:
    me = convert.SignalIdentity(number=NUMBER)

    def heard(event: Any) -> convert.Inbound:
        (item,) = convert.to_inbounds(event, me)
        return item

    first = heard(envelope(ANN, 1000, dataMessage={"timestamp": 1000, "message": "a"}))
    for target, sent in ((1000, 2000), (2000, 3000), (3000, 4000)):
        data = {"timestamp": sent, "message": "b"}
        edit = envelope(ANN, sent, editMessage={"targetSentTimestamp": target, "dataMessage": data})
        assert [heard(edit).ref, heard(edit).ref] == [first.ref] * 2
    named = {"targetAuthorNumber": ANN, "targetSentTimestamp": 3000, "emoji": "👍"}
    quote = {"id": 4000, "authorNumber": ANN, "text": "half \ud83d"}
    data = {"timestamp": 5000, "message": "c"}
    assert heard(envelope(ANN, 5000, dataMessage={**data, "reaction": named})).ref == first.ref
    assert (
        heard(envelope(ANN, 5000, dataMessage={**data, "remoteDelete": {"timestamp": 4000}})).ref == first.ref
    )
    reply = heard(envelope(ANN, 5000, dataMessage={**data, "quote": quote})).reply_to
    assert reply is not None and (reply.ref, reply.text) == (first.ref, "half \ufffd")


@pytest.mark.parametrize("bed", [SignalBed, RestBed])
async def test_groups_replies_and_signs(bed: type[SignalBed]) -> None:
    async with bed() as one:
        platform = one.connect()
        async with running(platform, Inboxes().accept, None):
            heard = convert.message_ref(1_790_000_000_001, ANN)
            await platform.send(GROUP, Body(text="hello all"), key="k", reply_to=heard)
            await platform.typing(GROUP)
            await platform.react(Receipt(to=GROUP, ref=heard), "👀")
        assert (one.shown()[0].chat, one.shown()[0].reply_to) == (GROUP.chat, "1790000000001")
        assert one.server.typing == [GROUP.chat]
        assert one.server.reactions == {(GROUP.chat, 1_790_000_000_001, ANN): "👀"}


@pytest.mark.parametrize("bed", [SignalBed, RestBed])
async def test_who_does_not_have_our_number_mentions_us_by_our_id(bed: type[SignalBed]) -> None:
    own = UUIDS[NUMBER]
    async with bed() as one:
        inboxes = Inboxes()
        async with running(one.connect(), inboxes.accept, None):
            mention = {"name": own, "number": None, "uuid": own, "start": 0, "length": 1}
            one.server.say("\ufffc what time is it?", group=True, mentions=[mention])
            quoted = {"id": 5, "authorNumber": None, "authorUuid": own, "text": "q"}
            one.server.say("yes", group=True, quote=quoted)
            await until(lambda: len(inboxes.items) == 2, "it never came")
        asked, answered = inboxes.items
        assert asked.mentions_me and asked.text == "what time is it?"
        assert answered.reply_to is not None and answered.reply_to.mine


async def test_a_voice_message_is_one() -> None:
    async with SignalBed() as bed:

        async def open_file(file: Attachment) -> bytes:
            return b"OggS"

        bed.open_file = open_file
        platform = bed.connect()
        file = Attachment(kind=MediaKind.VOICE, ref="x", name="ä b.ogg", mime="audio/ogg")
        async with running(platform, Inboxes().accept, None):
            await platform.send(bed.chat, Body(attachments=(file,)), key="k", reply_to=None)
        assert bed.server.sent[0].voice and bed.server.sent[0].files == (("audio/ogg", b"OggS"),)


async def test_an_old_wrapper_answers_otherwise() -> None:
    async with RestBed() as bed:
        bed.server.lists = False
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            sent = await platform.send(bed.chat, Body(text="x"), key="k", reply_to=None)
        assert sent.ref == bed.shown()[0].ref


async def test_what_was_not_stored_is_kept_until_it_is() -> None:
    """signal-cli hands each message over once: a crash between that and the commit loses none."""
    async with SignalBed() as bed:
        refused: list[object] = []

        async def refuse(items: object, cursor: str | None) -> None:
            if items:
                refused.append(items)
                raise Unreachable("the disk is full")

        async with running(bed.connect(), refuse, None):
            await bed.do(Does.TEXT, "keep me")
            await until(lambda: bool(refused), "it never came")
        assert bed.unstored()["envelope"]["dataMessage"]["message"] == "keep me"
        inboxes = Inboxes()
        async with hosted(bed, inboxes):
            await until(lambda: inboxes.texts == ["keep me"], "it is lost")
            await until(lambda: not (bed.folder / "unstored.json").exists(), "it comes again and again")
        (bed.folder / "unstored.json").write_text("{half")
        async with hosted(bed, inboxes):
            await bed.do(Does.TEXT, "next")
            await until(lambda: inboxes.texts == ["keep me", "next"], "half a file stops it")


@pytest.mark.parametrize(
    ("refusal", "error", "words"),
    [
        (FAULTS[Fault.TOO_FAST], Unreachable, "slower"),
        (RpcError(-5, "rate", _failed("PROOF_REQUIRED_FAILURE", token="x")), NeedsLogin, "captcha"),
        (RpcError(-5, "rate", _failed("RATE_LIMIT_FAILURE", token="x")), NeedsLogin, "captcha"),
        (RpcError(-1, f"The user {ANN} is not registered."), Refused, "not on Signal"),
        (RpcError(-1, "Failed to send message", _failed("UNREGISTERED_FAILURE")), Refused, "not on Signal"),
        (RpcError(-1, "User is not registered."), NeedsLogin, "register or link"),
        (RpcError(-4, "Failed to send message due to untrusted identities"), Refused, "safety number"),
        (RpcError(-1, "Failed to send message", _failed("NETWORK_FAILURE")), Unreachable, "NETWORK_FAILURE"),
        (RpcError(-32603, "boom (NullPointerException)"), Unreachable, "boom"),
        (RpcError(-32602, "Specified account does not exist"), NeedsLogin, "SIGNAL_ACCOUNT"),
    ],
)
async def test_errors_say_what_to_do(
    refusal: RpcError, error: type[HermesError], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with SignalBed() as bed:
        monkeypatch.setitem(FAULTS, Fault.GONE, refusal)
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            bed.fail(Fault.GONE)
            with pytest.raises(error, match=words):
                await platform.send(bed.chat, Body(text="x"), key="k", reply_to=None)


@pytest.mark.parametrize(
    ("refusal", "error", "words"),
    [
        (RpcError(-1, "Failed to send message"), Unreachable, "could not"),
        (
            RpcError(
                -1, "Failed to send message: Temporary failure in name resolution (UnknownHostException)"
            ),
            Unreachable,
            "UnknownHost",
        ),
        (RpcError(-1, "Failed to send message: message too long"), Refused, "too long"),
        (RpcError(-1, f"The user {ANN} is not registered."), Refused, "not on Signal"),
        (RpcError(-1, f"User {NUMBER} is not registered."), NeedsLogin, "register or link"),
        (RpcError(-5, "rate limiting", _failed("RATE_LIMIT_FAILURE", token="x")), NeedsLogin, "captcha"),
    ],
)
async def test_the_wrapper_has_one_status_for_all_errors(
    refusal: RpcError, error: type[HermesError], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with RestBed() as bed:
        monkeypatch.setitem(FAULTS, Fault.GONE, refusal)
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            bed.fail(Fault.GONE)
            with pytest.raises(error, match=words) as told:
                await platform.send(bed.chat, Body(text="x"), key="k", reply_to=None)
        if isinstance(told.value, Unreachable):
            assert told.value.maybe_done


@pytest.mark.parametrize("bed", [SignalBed, RestBed])
async def test_a_large_file_is_waited_for_longer(bed: type[SignalBed]) -> None:
    """signal-cli answers when the file is at Signal's."""
    async with bed() as one:

        async def open_file(file: Attachment) -> bytes:
            return b"x" * SLOWEST_BYTES * 9

        one.open_file, one.server.uploads = open_file, 1.0
        platform = one.connect()
        platform.api.client.answer_seconds = 0.5
        file = Attachment(kind=MediaKind.FILE, ref="x", name="a.bin", mime="application/zip")
        async with running(platform, Inboxes().accept, None):
            await platform.send(one.chat, Body(attachments=(file,)), key="k", reply_to=None)
        assert len(one.server.sent) == 1


async def test_the_largest_file_fits_into_what_signal_cli_reads() -> None:
    """signal-cli #2127: its reader of JSON takes strings of 20,000,000 characters."""
    most = MANIFEST.capabilities.media[MediaKind.FILE].max_bytes

    async def open_file(file: Attachment) -> bytes:
        return bytes(most)

    async with SignalBed() as bed:
        bed.open_file = open_file
        platform = bed.connect()
        file = Attachment(kind=MediaKind.FILE, ref="x", name="ä" * 100, mime="application/zip", size=most)
        async with running(platform, Inboxes().accept, None):
            await platform.send(bed.chat, Body(attachments=(file,)), key="k", reply_to=None)
        assert len(bed.server.sent[0].files[0][1]) == most


async def test_a_daemon_for_one_account_lists_none() -> None:
    async with SignalBed() as bed:
        bed.server.single = True
        assert (await bed.connect().check())[0].good


async def test_the_wrapper_keeps_nothing_for_who_is_away() -> None:
    """signal-cli-rest-api #834."""
    async with RestBed() as bed:
        assert "is lost" in (await bed.connect().check())[1].text
    async with SignalBed() as bed:
        assert len(await bed.connect().check()) == 1


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("SIGNAL_ACCOUNT", "15551234", "country code"),
        ("SIGNAL_HTTP_URL", "localhost:8080", "no address"),
        ("SIGNAL_DIALECT", "dbus", "daemon or rest"),
    ],
)
def test_wrong_settings(variable: str, value: str, words: str) -> None:
    bed = SignalBed()
    bed.said |= {"SIGNAL_HTTP_URL": "http://127.0.0.1:1", variable: value}
    with pytest.raises(NeedsLogin, match=words):
        bed.connect()


@pytest.mark.parametrize("bed", [SignalBed, RestBed])
async def test_an_account_that_is_not_there_parks_it(bed: type[SignalBed]) -> None:
    async with bed() as one:
        assert "has the account +15550000001" in (await one.connect().check())[0].text
        one.server.accounts = ["+15559999999"]
        with pytest.raises(NeedsLogin, match="SIGNAL_ACCOUNT"):
            await one.connect().run(Inboxes().accept, None)


async def test_a_wrapper_that_does_not_listen_is_told() -> None:
    async with RestBed() as bed:
        bed.server.mode = "normal"
        with pytest.raises(NeedsLogin, match="MODE=json-rpc"):
            await bed.connect().run(Inboxes().accept, None)


async def test_addresses_that_are_nobody() -> None:
    async with SignalBed() as bed:
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            for chat in ("ann", "15551234", "+1 555"):
                with pytest.raises(Refused, match="number is wanted"):
                    await platform.send(
                        Address(platform="signal", chat=chat), Body(text="x"), key="k", reply_to=None
                    )
            with contextlib.suppress(Refused):
                await platform.react(Receipt(to=bed.chat, ref="nonsense"), "👍")
        assert bed.shown() == []
