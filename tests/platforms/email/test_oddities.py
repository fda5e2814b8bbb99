"""Mails as they come: wrong charsets, reports, broken senders, quotes of Outlook, other receivers."""

from __future__ import annotations

import asyncio
import logging
from email import message_from_bytes
from email.policy import default

import pytest

from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.chats.address import Source
from hermes.domain.chats.message import Body, Inbound
from hermes.domain.word import replace
from hermes.entry.platforms.email.adapter import EmailAdapter
from hermes.entry.platforms.email.convert import MailLocation, ParsedMail, file_in, read_mail
from hermes.entry.platforms.email.imap import ImapConnection, MailLogin
from hermes.entry.platforms.email.words import decode, split_quote
from hermes.testing.platform_suite import PATIENCE, Does, Inboxes, running, until
from tests.platforms.email.bed import ME, NOW, EmailBed, checked, written
from tests.platforms.email.samples import MAILS, ORIGINALS, OUR_ID, mail, report

pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS:UserWarning")


def reading(raw: bytes) -> ParsedMail:
    return read_mail(raw, ME, MailLocation(arrived=NOW))


def item(raw: bytes) -> Inbound:
    found = reading(raw)
    assert found.item is not None, found.why
    return found.item


# --- charsets ---


@pytest.mark.parametrize(
    ("data", "charset", "text"),
    [
        (b"caf\xe9 \x96 \x80", "iso-8859-1", "café – €"),
        ("café".encode(), "us-ascii", "café"),
        ("café".encode(), "x-unknown", "café"),
        (b"caf\xe9", "utf-8", "café"),
        ("你好".encode("gb18030"), "gb2312", "你好"),
        ("丂".encode("gb18030"), "GB2312", "丂"),
        ("①".encode("cp932"), "shift_jis", "①"),
        ("똠".encode("cp949"), "ks_c_5601-1987", "똠"),
        ("日本".encode("iso-2022-jp"), "iso-2022-jp", "日本"),
        (b"words", "hex", "words"),
        (b"words", "unicode_escape", "words"),
        (b"wor\\x64s", "unicode_escape", "wor\\x64s"),
        (b"words", '"utf-8"', "words"),
        (b"words", "a\0b", "words"),
        (b"words", None, "words"),
    ],
)
def test_charsets(data: bytes, charset: str | None, text: str) -> None:
    assert decode(data, charset) == text


def test_a_charset_that_would_take_for_ever() -> None:
    """Decoding punycode takes the square of its length: here longer than the suite lets a test take."""
    head = mail("x", "Content-Type: text/plain; charset=punycode\nSubject: x\n\n")
    assert item(head + b"a" * 300_000 + b"-" + b"zz" * 300_000).text.count("a") > 1000


def test_a_page_that_says_its_charset_itself() -> None:
    page = (
        '<html><head><meta http-equiv="Content-Type" content="text/html; charset=koi8-r"></head>Привет</html>'
    )
    raw = mail("x", "Content-Type: text/html\nSubject: x\n\n") + page.encode("koi8-r")
    assert item(raw).text == "Subject: x\n\nПривет"


# --- who wrote ---


@pytest.mark.parametrize(
    ("line", "user"),
    [
        ("ann@example.org", "ann@example.org"),
        ("ann@example.org (Ann)", "ann@example.org"),
        ("Ann <ann@example.org>", "ann@example.org"),
        ('"bob@example.org" <ann@example.org>', "ann@example.org"),
        ("Ann@example.org <ann@example.org>", "ann@example.org"),
        ("bob@example.org <ann@example.org>", None),
        ("", None),
        ("alice@example.org)bob@evil.example", None),
        ("<alice@example.org>bob@evil.example", None),
        ("alice@example.org <bob@evil.example", None),
        ("Group: ann@example.org, bob@example.org;", None),
    ],
)
def test_a_sender_is_what_stands_there(line: str, user: str | None) -> None:
    found = reading(f"From: {line}\r\n\r\nx\r\n".encode()).item
    assert (None if found is None else found.source.user) == user


# --- quotes ---


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Yes.\n\n---\nFrom: Hermes <h@example.org>\nSent: Monday\nTo: Ann\nSubject: Lunch\n\nWhen?", "Yes."),
        ("Ja.\n\nVon: Hermes\nGesendet: Montag\nAn: Ann\nBetreff: Essen\n\nWann?", "Ja."),
        ("Oui.\n\nDe : Hermes\nEnvoyé : lundi\nÀ : Ann\nObjet : x\n\nQuand ?", "Oui."),
        ("From: me with love\nand nothing else", "From: me with love\nand nothing else"),
    ],
)
def test_quotes_of_outlook(text: str, words: str) -> None:
    assert split_quote(text)[0] == words


# --- several people ---


def test_others_who_got_it_are_named() -> None:
    raw = MAILS["plain"].replace(
        b"To: hermes@example.org", b"To: hermes@example.org, Bob <Bob@example.org>\r\nCc: carol@example.com"
    )
    assert item(raw).text.endswith("Shall we?\n\n[Also sent to bob@example.org, carol@example.com.]")
    many = ", ".join(f"p{number}@example.org" for number in range(40))
    assert item(MAILS["plain"].replace(b"To: hermes@", f"To: {many}, hermes@".encode())).text.endswith(
        " and 30 more.]"
    )
    command = MAILS["command"].replace(b"To: ", b"To: bob@example.org, ")
    assert item(command).text == "/status now", "a command stays one"


class _Choosy(EmailAdapter):
    """Made as by a gateway that knows bob."""

    def __init__(self, context: AdapterContext) -> None:
        async def welcomes(source: Source) -> bool:
            return source.user == "bob@example.com"

        super().__init__(replace(context, welcomes=welcomes))


@pytest.mark.parametrize(
    ("wished", "proved", "to"),
    [
        ("Bob <bob@example.com>", True, "bob@example.com"),
        ("Bob <bob@example.com>", False, "ann@example.org"),
        ("eve@example.com", True, "ann@example.org"),
        ("bob@example.com, eve@example.com", True, "ann@example.org"),
        ("not an address", True, "ann@example.org"),
    ],
)
async def test_answers_go_where_they_are_wanted_if_that_one_may_ask(
    wished: str, proved: bool, to: str
) -> None:
    async with EmailBed() as bed:
        if proved:
            bed.said |= {"EMAIL_AUTHSERV": "mx.example.net", "EMAIL_TRUST_FROM": "false"}
        asked = checked(written(bed.chat.chat, "Shall we?", subject="Lunch"))
        asked["Reply-To"] = wished
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, None):
            await bed.put(asked)
            await until(lambda: len(inboxes.items) == 1, "it never came")
        assert inboxes.items[0].source.user == "ann@example.org"
        # Another life: the mail is looked up.
        platform = _Choosy(bed.context())
        receipt = await platform.send(
            bed.chat, Body(text="<p>Yes.</p>"), key="k", reply_to=inboxes.items[0].ref
        )
        assert receipt.to == bed.chat and [one.to for one in bed.smtp.taken] == [[to]]


# --- reports ---


@pytest.mark.parametrize("original", ORIGINALS)
async def test_a_mail_of_ours_that_did_not_arrive_is_told(
    original: str, caplog: pytest.LogCaptureFixture
) -> None:
    found = reading(report("5.1.1", ORIGINALS[original])).bounce
    assert found is not None and (found.id, found.to, found.status) == (OUR_ID, "bob@example.com", "5.1.1")
    other = reading(report("5.1.1", ORIGINALS[original].replace("hermes.", "other.")))
    assert other.item is None and other.bounce is None, "of somebody else's mail nothing is said"
    if original == "whole":
        return
    async with EmailBed() as bed:
        inboxes = Inboxes()
        with caplog.at_level(logging.INFO, "hermes.email"):
            async with running(bed.connect(), inboxes.accept, None):
                await until(lambda: bool(bed.listened), "it never began")
                for status in ("5.1.1", "4.4.1"):
                    await bed.office.deliver(report(status, ORIGINALS[original]), "")
                await bed.do(Does.TEXT, "hello")
                await until(lambda: inboxes.texts == ["hello"], "it never came")
    told = "to=bob@example.com status=5.1.1 id=<hermes."
    assert f"email.bounced {told}" in caplog.text and "User unknown" in caplog.text
    assert "email.delayed to=bob@example.com status=4.4.1" in caplog.text


# --- a server with a broken mail ---


async def test_a_mail_that_the_server_cannot_read_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from hermes.entry.platforms.email import imap

    ask = ImapConnection._command

    async def broken(self: ImapConnection, command: str, *more: bytes) -> list[imap._Line]:
        if command.startswith("UID FETCH 102 (UID RFC822.SIZE INTERNALDATE"):
            raise imap._CommandRefused(b"NO", b"[SERVERBUG] Internal error occurred.")
        return await ask(self, command, *more)

    async with EmailBed() as bed:
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, None):
            await until(lambda: bool(bed.listened), "it never began")
            first = int((inboxes.cursor or "0:0:0").split(":")[1]) + 1
            monkeypatch.setattr(
                ImapConnection,
                "_command",
                lambda self, command, *more: broken(
                    self, command.replace(f" {first + 1} (", " 102 ("), *more
                ),
            )
            for text in ("one", "two", "three"):
                await bed.do(Does.TEXT, text)
            await until(lambda: "three" in inboxes.texts, lambda: f"got {inboxes.texts}")
            await asyncio.sleep(0)
        assert inboxes.texts == ["one", "three"] and "email.unreadable" in caplog.text


class Lines:
    """Where an IMAP client writes."""

    def __init__(self) -> None:
        self.said: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.said.append(data)

    async def drain(self) -> None:
        pass


async def test_a_server_that_is_slow_to_wait_with_us_is_not_given_up() -> None:
    """Its answer to IDLE may come later than we wanted to wait for news."""
    box = MailLogin(host="x", port=143, user="me", password="", tls=None, seconds=PATIENCE)
    reader, lines = asyncio.StreamReader(), Lines()
    idling = asyncio.create_task(ImapConnection(box, reader, lines).idle(0.0))  # type: ignore[arg-type]
    await asyncio.sleep(0.01)
    assert lines.said == [b"h1 IDLE\r\n"] and not idling.done()
    reader.feed_data(b"* 1 EXISTS\r\n+ idling\r\n")
    await until(lambda: lines.said[1:] == [b"DONE\r\n"], "it waits on")
    reader.feed_data(b"h1 OK over\r\n")
    await idling


def _with_event(about: str) -> bytes:
    return mail(
        "cal",
        f"""\
        Subject: Lunch
        MIME-Version: 1.0
        Content-Type: multipart/alternative; boundary="b"

        --b
        Content-Type: text/plain

        See the event.
        --b
        Content-Type: text/calendar; {about}

        BEGIN:VCALENDAR
        END:VCALENDAR
        --b--
        """,
    )


@pytest.mark.parametrize("method", ["REQUEST", "reply", '"CANCEL"', "COUNTER; charset=utf-8"])
def test_calendars_are_not_answered(method: str) -> None:
    found = reading(_with_event(f"method={method}"))
    assert found.item is None and "a calendar sent it" in found.why


@pytest.mark.parametrize("about", ["charset=utf-8", "method=PUBLISH", 'method=REQUEST; name="lunch.ics"'])
def test_events_that_people_send_are_files(about: str) -> None:
    found = item(_with_event(about))
    assert found.text == "Subject: Lunch\n\nSee the event."
    name = "lunch.ics" if "name" in about else "invitation.ics"
    assert [(one.name, one.mime) for one in found.attachments] == [(name, "text/calendar")]


def test_an_invitation_that_was_passed_on_is_read() -> None:
    outer = written("ann@example.org", "Shall I go there?")
    outer.add_attachment(message_from_bytes(_with_event("method=REQUEST"), policy=default))
    found = item(outer.as_bytes())
    assert "Shall I go there?" in found.text and [one.name for one in found.attachments] == ["mail.eml"]


# --- winmail.dat ---


def _attribute(level: int, what: int, data: bytes) -> bytes:
    size, check = len(data).to_bytes(4, "little"), (sum(data) & 0xFFFF).to_bytes(2, "little")
    return bytes([level]) + what.to_bytes(4, "little") + size + data + check


def _winmail(*files: tuple[bytes, str, bytes]) -> bytes:
    """As MS-OXTNEF has it: a short name, a long one among the properties, the contents."""
    out = (0x223E9F78).to_bytes(4, "little") + b"\x01\x00" + _attribute(1, 0x00089006, b"\x00\x00\x01\x00")
    for short, long, data in files:
        name = long.encode("utf-16-le") + b"\0\0"
        padded = name + bytes(-len(name) % 4)
        one = b"\x1f\x00\x07\x37" + (1).to_bytes(4, "little") + len(name).to_bytes(4, "little") + padded
        out += _attribute(2, 0x00069002, b"\x01\x00" + b"\xff" * 4 + bytes(8))
        out += _attribute(2, 0x00018010, short + b"\0") + _attribute(2, 0x0006800F, data)
        out += _attribute(2, 0x00069005, (1).to_bytes(4, "little") + one) if long else b""
    return out


def test_files_that_outlook_wrapped() -> None:
    packed = _winmail((b"PLNE~1.PDF", "Pläne.pdf", b"%PDF-1"), (b"a.txt", "", b"words"))
    asked = written("ann@example.org", "See the files.")
    asked.add_attachment(packed, maintype="application", subtype="ms-tnef", filename="winmail.dat")
    raw = asked.as_bytes()
    found = item(raw)
    assert [(one.name, one.mime) for one in found.attachments] == [
        ("Pläne.pdf", "application/pdf"),
        ("a.txt", "text/plain"),
    ]
    assert [file_in(raw, number) for number in range(3)] == [b"%PDF-1", b"words", None]


@pytest.mark.parametrize("cut", [0, 3, 6, 20, 60, 90])
def test_a_wrapping_that_is_broken_is_a_file_itself_or_less(cut: int) -> None:
    packed = _winmail((b"a.txt", "", b"words"))
    asked = written("ann@example.org", "See the file.")
    asked.add_attachment(packed[:cut], maintype="application", subtype="ms-tnef", filename="winmail.dat")
    assert [one.name for one in item(asked.as_bytes()).attachments] in (["winmail.dat"], ["a.txt"])
