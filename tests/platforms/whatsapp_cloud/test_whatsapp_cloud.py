"""The WhatsApp adapter for businesses: the suite, and what is WhatsApp's own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import mimetypes

import aiohttp
import pytest

from hermes.domain.chats.address import Address, SourceKind
from hermes.domain.chats.message import Attachment, Body, Button, InboundKind, MediaKind, Receipt
from hermes.domain.errors import NeedsLogin, Refused, Unreachable
from hermes.entry.platforms.whatsapp_cloud import compose, convert
from hermes.entry.platforms.whatsapp_cloud.adapter import PATH, WhatsAppAnswer, WhatsAppCloudAdapter
from hermes.entry.platforms.whatsapp_cloud.manifest import AS_TEXT, MANIFEST
from hermes.testing.platform_suite import CHECKS, Check, Does, Fault, Inboxes, conform, running, until
from tests.platforms.whatsapp_cloud.bed import ME, WhatsAppBed
from tests.platforms.whatsapp_cloud.samples import ANN, WEBHOOKS
from tests.platforms.whatsapp_cloud.server import PHONE, SECRET, UPLOADS, WABA, WORD, envelope, signature


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_whatsapp_cloud_conforms(check: Check, full: bool) -> None:
    await conform(check, WhatsAppBed, full=full)


_TEXT = {"id": "wamid.A", "timestamp": "1790000000", "type": "text", "text": {"body": "hi"}}


def read(name: str) -> convert.Inbound:
    (item,) = convert.to_inbounds(WEBHOOKS[name], ME)
    return item


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("text", "Does it come in another color?"),
        ("forwarded", "[Forwarded]\nlook"),
        ("image", "Taj Mahal"),
        ("location", "[Location: Philz, 101 Forest: 37.442163, -122.161536]"),
        ("contacts", "[Contact: Barbara J. Johnson, +16505559999]"),
        ("form", '[Form: {"day":"Monday"}]'),
        ("quick_reply", "Unsubscribe"),
        ("order", "[Order: 2 × di9ozbzfi4. Love these!]"),
        ("unsupported", "[A message that WhatsApp does not pass on to businesses (poll)]"),
    ],
)
def test_what_people_send_is_told_in_words(name: str, text: str) -> None:
    item = read(name)
    assert (item.what, item.text) == (InboundKind.MESSAGE, text)
    assert item.source.user_name == "Sheena Nelson"


@pytest.mark.parametrize(
    ("name", "kind", "mime"),
    [
        ("image", MediaKind.IMAGE, "image/jpeg"),
        ("voice", MediaKind.VOICE, "audio/ogg"),
        ("audio", MediaKind.AUDIO, "audio/mpeg"),
        ("video", MediaKind.VIDEO, "video/mp4"),
        ("document", MediaKind.FILE, "application/pdf"),
        ("sticker", MediaKind.STICKER, "image/webp"),
    ],
)
def test_files_come_as_what_they_are(name: str, kind: MediaKind, mime: str) -> None:
    (file,) = read(name).attachments
    assert (file.kind, file.mime, file.ref) == (kind, mime, "1003383421387256")


def test_other_happenings() -> None:
    assert (read("button").what, read("button").button) == (InboundKind.BUTTON, "q_1:yes")
    assert read("list").button == "q_1:no"
    assert (read("reaction").what, read("reaction").text) == (InboundKind.REACTION, "👍")
    assert read("reaction_gone").text == ""
    assert (read("edit").what, read("edit").text) == (InboundKind.EDIT, "second thought")
    assert read("revoke").what is InboundKind.DELETED
    assert (read("changed_number").what, read("changed_number").text) == (InboundKind.MOVED, "12195555358")
    assert (read("changed_id").what, read("changed_id").text) == (InboundKind.MOVED, "BR.1702576394655844")
    assert read("group").source.kind is SourceKind.GROUP and read("group").source.user == ANN
    reply = read("reply").reply_to
    assert reply is not None and reply.mine
    failed = read("failed")
    assert (failed.what, failed.ref) == (InboundKind.UNDELIVERED, "turn:1:0")
    assert failed.source.address.chat == ANN and "24 hours" in failed.text and "131047" in failed.text
    assert convert.to_inbounds(WEBHOOKS["delivered"], ME) == ()


def test_who_hides_their_number_is_known_by_an_id_and_answered_by_it() -> None:
    item = read("hidden")
    assert item.source.user == item.source.address.chat == "BR.1502576394655843"
    place = compose.place(item.source.address)
    assert place["recipient"] == "BR.1502576394655843" and "to" not in place


def test_what_is_told_of_another_number_is_not_ours() -> None:
    payload = envelope(
        {"messages": [{"from": ANN, "id": "wamid.x", "timestamp": "1", "type": "text"}]}, "999"
    )
    assert convert.to_inbounds(payload, ME) == ()
    assert convert.others_of(payload, ME) == {"999"}


def test_the_published_signature() -> None:
    """docs.github.com, Validating webhook deliveries: Meta's header has the same form and algorithm."""
    header = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert convert.is_signed("It's a Secret to Everybody", b"Hello, World!", header)
    assert not convert.is_signed("It's a Secret to Everybody", b"Hello, World?", header)
    assert not convert.is_signed("", b"Hello, World!", header)
    assert not convert.is_signed("It's a Secret to Everybody", b"Hello, World!", "")


async def test_calls_that_are_not_metas_are_refused_and_repeats_are_one_message() -> None:
    async with WhatsAppBed() as bed:
        inboxes, server = Inboxes(), bed.server
        body = json.dumps(WEBHOOKS["text"], ensure_ascii=False).encode()
        async with running(bed.connect(), inboxes.accept, None), aiohttp.ClientSession() as session:
            await until(lambda: inboxes.batches > 0, "it does not listen")
            assert await server.call(session, body, "another secret") == 403
            async with session.post(server.callback, data=body) as response:
                assert response.status == 403, "without a signature"
            forged = body.replace(b"color", b"colour")
            headers = {"X-Hub-Signature-256": signature(body, SECRET)}
            async with session.post(server.callback, data=forged, headers=headers) as response:
                assert response.status == 403, "other words under the same signature"
            for _ in range(3):
                assert await server.call(session, body) == 200
            for junk in (b"", b"[]", b"nonsense", b'{"entry": 5}'):
                assert await server.call(session, junk) == 200, "Meta would repeat it for a week"
        assert inboxes.texts == ["Does it come in another color?"]


@pytest.mark.parametrize("path", ["", "/hooks/wa", "hooks/wa"])
async def test_meta_verifies_the_address(path: str) -> None:
    async with WhatsAppBed() as bed:
        if path:
            bed.said["WHATSAPP_CLOUD_WEBHOOK_PATH"] = path
            bed.server.callback = bed.server.callback.replace(PATH, "/hooks/wa")
        inboxes = Inboxes()
        asked = {"hub.mode": "subscribe", "hub.challenge": "1158201444", "hub.verify_token": WORD}
        async with running(bed.connect(), inboxes.accept, None), aiohttp.ClientSession() as session:
            await until(lambda: inboxes.batches > 0, "it does not listen")
            async with session.get(bed.server.callback, params=asked) as response:
                assert (response.status, await response.text()) == (200, "1158201444")
            for wrong in ({"hub.verify_token": "guessed"}, {"hub.verify_token": ""}, {"hub.mode": "other"}):
                async with session.get(bed.server.callback, params={**asked, **wrong}) as response:
                    assert response.status == 403


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("WHATSAPP_CLOUD_PHONE_NUMBER_ID", "+1 555", "no id of a number"),
        ("WHATSAPP_CLOUD_ACCESS_TOKEN", "", "ACCESS_TOKEN is missing"),
        ("WHATSAPP_CLOUD_APP_SECRET", "", "APP_SECRET is missing"),
        ("WHATSAPP_CLOUD_VERIFY_TOKEN", "short", "8 characters"),
    ],
)
def test_it_refuses_to_start_without_what_proves_who_calls(variable: str, value: str, words: str) -> None:
    bed = WhatsAppBed()
    bed.said[variable] = value
    with pytest.raises(NeedsLogin, match=words):
        bed.connect()


async def test_a_wrong_app_secret_and_an_expired_token_are_noticed_at_the_start() -> None:
    async with WhatsAppBed() as bed:
        bed.said["WHATSAPP_CLOUD_APP_SECRET"] = "0" * 32
        with pytest.raises(NeedsLogin, match="WHATSAPP_CLOUD_APP_SECRET is not the secret"):
            await bed.connect().run(Inboxes().accept, None)
        del bed.said["WHATSAPP_CLOUD_APP_SECRET"]
        bed.server.expired = True
        with pytest.raises(NeedsLogin, match="WHATSAPP_CLOUD_ACCESS_TOKEN"):
            await bed.connect().run(Inboxes().accept, None)


async def test_a_token_that_ends_while_it_runs_is_noticed() -> None:
    async with WhatsAppBed() as bed:
        adapter = bed.connect()
        adapter.look_seconds = 0.01
        async with running(adapter, Inboxes().accept, None) as task:
            await asyncio.sleep(0.05)
            bed.server.expired = True
            await asyncio.wait((task,), timeout=20)
            assert isinstance(task.exception(), NeedsLogin)


async def test_it_shows_that_it_writes_and_reacts() -> None:
    async with WhatsAppBed() as bed:
        inboxes, adapter = Inboxes(), bed.connect()
        async with running(adapter, inboxes.accept, None):
            with pytest.raises(Refused):
                await adapter.typing(bed.chat)
            await bed.do(Does.TEXT, "hello")
            await until(lambda: bool(inboxes.items), "it never came")
            await adapter.typing(bed.chat)
            assert bed.server.typing == [inboxes.items[0].ref]
            heard = Receipt(to=bed.chat, ref=inboxes.items[0].ref or "")
            await adapter.react(heard, "👀")
            await adapter.react(heard, "✅", instead="👀")
            assert bed.reactions() == ["✅"]
            await adapter.react(heard, "", instead="✅")
            assert bed.reactions() == []


async def test_who_gets_too_much_is_left_alone_for_longer_each_time() -> None:
    """Meta asks for 4^n seconds after 131056."""
    async with WhatsAppBed() as bed:
        adapter, waits = bed.connect(), list[float | None]()
        async with running(adapter, Inboxes().accept, None):
            bed.fail(Fault.TOO_FAST, times=3)
            for _ in range(3):
                with contextlib.suppress(Unreachable):
                    await adapter.send(bed.chat, Body(text="x"), key="k", reply_to=None)
                waits.append(4.0 ** adapter._crowded[bed.chat.chat])
            await adapter.send(bed.chat, Body(text="x"), key="k", reply_to=None)
        assert waits == [1.0, 4.0, 16.0]
        assert bed.chat.chat not in adapter._crowded


async def test_other_limits_last_as_long_as_they_do() -> None:
    async with WhatsAppBed() as bed:
        adapter = bed.connect()

        def waits(code: int) -> list[float | None]:
            answer = WhatsAppAnswer(status=429, answer={"error": {"code": code}})
            return [adapter._rest(answer, bed.chat.chat) for _ in range(3)]

        assert waits(130429) == [1.0, 1.0, 1.0], "80 messages a second"
        assert waits(131048) == waits(131064) == [3600.0] * 3, "people have reported us"
        assert isinstance(convert.error_for(400, "131064", "x", 3600.0), Unreachable)
        assert waits(4) == waits(80007) == [60.0, 120.0, 240.0], "the calls of an hour"
        assert waits(100) == [None] * 3
        async with running(adapter, Inboxes().accept, None):
            await adapter.send(bed.chat, Body(text="x"), key="k", reply_to=None)
        assert waits(4)[0] == 60.0


async def test_groups_have_neither_buttons_nor_a_typing_sign() -> None:
    group = Address(platform="whatsapp_cloud", chat="Y2FwaV9ncm91cDoxNzA1NTU1MDEzOToxMjAzNjM0")
    async with WhatsAppBed() as bed:
        adapter = bed.connect()
        async with running(adapter, Inboxes().accept, None):
            await adapter.send(group, Body(text="May I?", buttons=buttons("yes")), key="k", reply_to=None)
            with pytest.raises(Refused, match="groups"):
                await adapter.typing(group)
        assert [one.message["type"] for one in bed.server.sent] == ["text"]


def test_who_hides_their_number_later_stays_the_same_person() -> None:
    (shown,) = convert.to_inbounds(
        envelope({"messages": [{**_TEXT, "from": ANN, "from_user_id": "US.123"}]}), ME
    )
    (hidden,) = convert.to_inbounds(envelope({"messages": [{**_TEXT, "from_user_id": "US.123"}]}), ME)
    assert (shown.source.user, shown.source.user_alt) == (ANN, "US.123")
    assert (hidden.source.user, hidden.source.user_alt) == ("US.123", "US.123")


async def test_outside_of_the_window_a_template_goes_if_there_is_one() -> None:
    async with WhatsAppBed() as bed:
        adapter = bed.connect()
        async with running(adapter, Inboxes().accept, None):
            assert await adapter.send_outside(bed.chat, Body(text="hello"), key="k") is None
        bed.said["WHATSAPP_CLOUD_TEMPLATE"] = "news"
        adapter = bed.connect()
        async with running(adapter, Inboxes().accept, None):
            sent = await adapter.send_outside(bed.chat, Body(text="hello\n\nyou\t2"), key="k")
            assert sent is not None and bed.shown()[0].text == "hello you 2"
            told = bed.server.sent[0].message["template"]
            assert (told["name"], told["language"]) == ("news", {"code": "en_US"})
            assert await adapter.send_outside(bed.chat, Body(text="x" * 1000), key="k2") is None
            file = Attachment(kind=MediaKind.FILE, ref="x")
            assert await adapter.send_outside(bed.chat, Body(text="x", attachments=(file,)), key="k3") is None


def buttons(*labels: str) -> tuple[Button, ...]:
    return tuple(Button(label=label, value=f"q_1:{label}") for label in labels)


@pytest.mark.parametrize(
    ("text", "labels", "sort"),
    [
        ("May I?", ("yes", "no"), "button"),
        ("May I?", ("once", "session", "always", "deny"), "list"),
        ("x" * 1025, ("yes", "no"), "list"),
        ("May I?", ("a label of twenty-one", "no"), "list"),
        ("May I?", ("a label of twenty-five ch", "no"), None),
        ("May I?", tuple(str(number) for number in range(11)), None),
        ("May I?", ("same", "same"), None),
    ],
)
def test_a_question_has_buttons_or_a_list_or_is_only_words(
    text: str, labels: tuple[str, ...], sort: str | None
) -> None:
    told = compose.question(text, buttons(*labels))
    assert (told and told["interactive"]["type"]) == sort


def test_an_address_that_is_nobody() -> None:
    with pytest.raises(Refused, match="country code"):
        compose.place(Address(platform="whatsapp_cloud", chat="+1 555 123"))


async def test_a_file_is_fetched_from_metas_hosts_only() -> None:
    async with WhatsAppBed() as bed:
        media = bed.server.keep_file(b"x", "image/png")
        bed.said["WHATSAPP_CLOUD_API_URL"] = bed.server.url.replace("127.0.0.1", "localhost")
        adapter = bed.connect()

        async def sink(piece: bytes) -> None:
            raise AssertionError("it was fetched")

        async with running(adapter, Inboxes().accept, None):
            with pytest.raises(Refused, match="not its own"):
                await adapter.fetch(media, sink)


async def test_the_check_tells_what_is_missing() -> None:
    async with WhatsAppBed() as bed:
        found = await bed.connect().check()
        assert [one.good for one in found] == [True] and "+1 555-078-3881" in found[0].text
        bed.server.callback, bed.server.rated = "", "RED"
        found = await bed.connect().check()
        assert [one.good for one in found] == [True, False, False]
        assert "/whatsapp/webhook" in found[2].hint
        assert isinstance(bed.connect(), WhatsAppCloudAdapter)


async def test_the_check_tells_of_a_number_and_an_account_that_are_not_connected() -> None:
    async with WhatsAppBed() as bed:
        bed.server.status, bed.server.subscribed = "PENDING", False
        found = await bed.connect().check()
        assert [one.good for one in found] == [True, False, False]
        assert "PENDING" in found[1].text and f"/{PHONE}/register" in found[1].hint
        assert f"/{WABA}/subscribed_apps" in found[2].hint
    error = convert.error_for(400, "133010", "x", None)
    assert isinstance(error, NeedsLogin) and "not registered" in str(error)


@pytest.mark.parametrize(
    ("mime", "name", "sent"),
    [
        ("text/csv", "a.csv", "text/plain"),
        ("application/json", "a.json", "text/plain"),
        ("text/markdown", "a.md", "text/plain"),
        ("application/pdf", "a.pdf", "application/pdf"),
        ("audio/opus", "a.opus", "audio/ogg"),
    ],
)
async def test_files_are_uploaded_as_what_arrives(mime: str, name: str, sent: str) -> None:
    """Meta takes uploads of a fixed list of types."""
    async with WhatsAppBed() as bed:

        async def open_file(file: Attachment) -> bytes:
            return b"a,b"

        bed.open_file = open_file
        adapter = bed.connect()
        file = Attachment(kind=MediaKind.FILE, ref="x", name=name, mime=mime, size=3)
        async with running(adapter, Inboxes().accept, None):
            await adapter.send(bed.chat, Body(attachments=(file,)), key="k", reply_to=None)
        (shown,) = bed.server.sent
        assert shown.file == (sent, b"a,b") and shown.message["document"]["filename"] == name


def test_the_manifest_takes_what_meta_takes() -> None:
    taken = MANIFEST.capabilities.media[MediaKind.FILE].mimes
    assert set(taken) - set(AS_TEXT) == UPLOADS
    assert not {"application/zip", "image/gif"} & set(taken)
    assert {mimetypes.guess_type(f"a.{end}")[0] for end in ("csv", "json", "html", "py", "xml")} <= set(taken)


async def test_every_call_carries_the_proof_of_the_app() -> None:
    async with WhatsAppBed() as bed:
        bed.server.wants_proof = True
        inboxes, adapter = Inboxes(), bed.connect()
        async with running(adapter, inboxes.accept, None):
            await bed.do(Does.FILE, "look")
            await until(lambda: bool(inboxes.items), "it never came")
            await adapter.typing(bed.chat)
            await adapter.send(bed.chat, Body(text="x"), key="k", reply_to=None)
            pieces: list[bytes] = []

            async def sink(piece: bytes) -> None:
                pieces.append(piece)

            await adapter.fetch(inboxes.items[0].attachments[0].ref, sink)
        assert b"".join(pieces) == bed.content
