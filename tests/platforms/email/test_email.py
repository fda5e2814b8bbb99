"""Email: the suite that every adapter passes, over two sets of mail servers, and what is email's own."""

from __future__ import annotations

import asyncio
import contextlib
import smtplib
from collections.abc import Sequence
from datetime import timedelta
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default

import pytest

from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Attachment, Body, Inbound, MediaKind
from hermes.domain.errors import NeedsLogin, Refused, Unreachable, UserError
from hermes.domain.turns.event import Verdict
from hermes.entry.platforms.email.convert import EmailIdentity, MailLocation, ParsedMail, file_in, read_mail
from hermes.entry.platforms.email.words import html_to_text, split_quote
from hermes.stream.fold.questions import read_word
from hermes.testing.platform_suite import (
    CHECKS,
    PATIENCE,
    Check,
    Does,
    Inboxes,
    conform,
    hosted,
    running,
    until,
)
from hermes.testing.platform_suite.whole import check_many_replies_under_faults
from tests.effort import effort
from tests.platforms.email.bed import ME, NOW, EmailBed, RealBed, written
from tests.platforms.email.offices import PASSWORD, RealOffice, SmallOffice
from tests.platforms.email.samples import MACHINES, MAILS, OUR_ID

BAD = "mx.example.net; dmarc=fail"
LONG = f"<{'x' * 200}@example.org>"
REAL = (pytest.mark.server, pytest.mark.root, pytest.mark.xdist_group("mail"))
# aiosmtpd is uneasy about passwords that are not encrypted; they stay on this machine.
pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS:UserWarning")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_email_conforms(check: Check, full: bool) -> None:
    await conform(check, EmailBed, full=full)


@pytest.mark.server
@pytest.mark.root
@pytest.mark.xdist_group("mail")
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_email_conforms_with_dovecot_and_postfix(check: Check, full: bool) -> None:
    await conform(check, RealBed, full=full and check is check_many_replies_under_faults)


# --- what people write ---


def reading(name: str, me: EmailIdentity = ME) -> ParsedMail:
    raw = MAILS.get(name) or MACHINES[name]
    return read_mail(raw, me, MailLocation(validity=3, uid=7, arrived=NOW, size=len(raw)))


def one(name: str) -> Inbound:
    found = reading(name)
    assert found.item is not None, found.why
    return found.item


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("plain", "Subject: Lunch\n\nShall we?"),
        ("reply", "Yes, at noon, and please bring the plans."),
        ("outlook", "Für mich um zwölf – gern."),
        ("alternative", "Subject: Both\n\nThe plain words."),
        ("latin1 without a word", "Subject: Grüße\n\nplain"),
        ("unknown charset", "Subject: x\n\nqapla’"),
        ("command", "/status now"),
        ("only a subject", "What is the time?"),
        ("attachment only", ""),
        ("no boundary", "Subject: x\n\nstill words"),
        ("no message id", "Subject: x\n\nanonymous id"),
    ],
)
def test_words(name: str, text: str) -> None:
    assert one(name).text == text


def test_html_is_read_as_a_person_reads_it() -> None:
    assert one("html").text.split("\n") == [
        "Subject: Pläne",
        "",
        "Hello you,",
        "see the plan (https://example.org/a?b=1&c=2).",
        "",
        "- one",
        "- two",
        "",
        "3. three",
        "",
        "a | b",
        "1 | 2",
        "",
        "> quoted",
        "> twice",
        "",
        "  as",
        "  it is",
        "",
        "[a cat]",
    ]


def test_who_wrote_and_what_was_answered() -> None:
    source = one("plain").source
    assert (source.user, source.user_name, source.chat_name) == ("ann@example.org", "Ann Öther", "Lunch")
    reply = one("reply").reply_to
    assert reply is not None and reply.mine and reply.text == "Where?\nAnd when?"
    other = one("outlook").reply_to
    assert other is not None and not other.mine
    assert one("reply").ref == "<reply@example.org>"


def test_files_in_nested_parts() -> None:
    files = one("alternative").attachments
    assert [(file.kind, file.name, file.mime) for file in files] == [
        (MediaKind.IMAGE, "in.png", "image/png"),
        (MediaKind.FILE, "x.pdf", "application/pdf"),
        (MediaKind.FILE, "mail.eml", "message/rfc822"),
    ]
    raw = MAILS["alternative"]
    assert [file_in(raw, number) for number in (0, 1, 9)] == [b"\x89PNG\r\n\x1a\n", b"%PDF-", None]
    assert b"Inner words." in (file_in(raw, 2) or b"")
    assert files[1].ref == "3/7/1/<alternative@example.org>"


def test_copies_of_a_mail_are_one_and_other_mails_are_not() -> None:
    raw = MAILS["plain"]
    place = MailLocation(validity=9, uid=1000, arrived=NOW)
    again = read_mail(b"Received: elsewhere\r\n" + raw, ME, place).item
    assert again is not None and again.delivery == one("plain").delivery
    reused = read_mail(raw.replace(b"11:58:59", b"12:58:59"), ME, place).item
    assert reused is not None and reused.delivery != again.delivery, "a careless program reuses its ids"


@pytest.mark.parametrize("name", MACHINES)
def test_nobody_answers_a_machine(name: str) -> None:
    found = reading(name)
    assert found.item is None and found.why


def test_a_mail_that_is_deeper_than_anybody_writes() -> None:
    head = b"From: ann@example.org\r\nSubject: deep\r\n"
    deep = b"".join(
        b"Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n" % (n, n) for n in range(3000)
    )
    found = read_mail(head + deep + b"\r\nwords\r\n", ME, MailLocation(arrived=NOW))
    assert found.item is not None or found.why


@pytest.mark.parametrize(
    ("text", "words", "quote"),
    [
        ("Yes.\n\nOn Monday, 3 May, Ann wrote:\n> Why?", "Yes.", "Why?"),
        ("Yes.\n> Why?\nBecause.", "Yes.\n> Why?\nBecause.", ""),
        ("> all of it\n> quoted", "> all of it\n> quoted", ""),
        ("My list:\n> one", "My list:", "one"),
        ("Yes\n-----Original Message-----\nFrom: x\nolder", "Yes", "From: x\nolder"),
        ("Under\n____________________________\nno header here", None, ""),
    ],
)
def test_quotes(text: str, words: str | None, quote: str) -> None:
    assert split_quote(text) == (text if words is None else words, quote)


QUOTE = (
    "On Mon, 16 Nov 2026 at 11:50, Hermes <hermes@example.org> wrote:\n> May I delete it?\n> Reply yes or no."
)
IPHONE_QUOTE = "> On 16 Nov 2026, at 11:50, Hermes <hermes@example.org> wrote:\n>\n> May I delete it?"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        # Gmail puts the signature below the quote, unless it is told otherwise.
        (f"no\n\n{QUOTE}\n\n-- \nAnn", "no"),
        (f"no\n\n-- \nAnn\n\n{QUOTE}", "no"),
        (f"no\n\nSent from my iPhone\n\n{IPHONE_QUOTE}", "no"),
        (f"Yes.\n\nBest regards,\nAnn\n\n{QUOTE}", "Yes."),
        (f"Yes\n\nGet Outlook for iOS<https://aka.ms/o0ukef>\n{QUOTE}", "Yes"),
        (f"ja\n\nViele Grüße\nAnn Müller\n\nVon meinem iPhone gesendet\n\n{QUOTE}", "ja"),
        ("no\n\niPhoneから送信", "no"),
        ("no\n\nThanks\n\nSent from Yahoo Mail on Android (https://mail.example.org/x)", "no"),
        # What is not a closing may change what the first line says.
        (f"Yes\n\nThanks,\nbut not before tomorrow\n\n{QUOTE}", "Yes\n\nThanks,\nbut not before tomorrow"),
        (f"Yes\nno\n\n{QUOTE}", "Yes\nno"),
        ("Yes\n\nThanks,\nBut Not Tonight", "Yes\n\nThanks,\nBut Not Tonight"),
        ("Yes.\n\nBest\nNo", "Yes.\n\nBest\nNo"),
        ("Yes\n\nBest regards,\nBob", "Yes\n\nBest regards,\nBob"),
        ("Yes\n\nThanks\n4711 0815", "Yes\n\nThanks\n4711 0815"),
        ("Order it.\n\nThanks\nCancel Order 12", "Order it.\n\nThanks\nCancel Order 12"),
        ("Yes\n\nSent from my boss, who said no", "Yes\n\nSent from my boss, who said no"),
        ("Yes\nSent via DHL, tracking number 12345.", "Yes\nSent via DHL, tracking number 12345."),
        # A letter keeps its end.
        (
            f"I read it.\nIt is good.\n\nBest regards,\nAnn\n\n{QUOTE}",
            "I read it.\nIt is good.\n\nBest regards,\nAnn",
        ),
    ],
)
@pytest.mark.parametrize("others", [False, True], ids=["alone", "with a copy"])
def test_a_short_answer_is_what_was_written(text: str, words: str, others: bool) -> None:
    """An approval is answered by one word; whatever a program adds to it would withdraw the question."""
    mail = written("ann@example.org", text)
    mail.replace_header("From", "Ann Müller <ann@example.org>")
    mail["In-Reply-To"] = mail["References"] = OUR_ID
    if others:
        mail["Cc"] = "bob@example.org"
    found = read_mail(mail.as_bytes(), ME, MailLocation(arrived=NOW)).item
    assert found is not None and found.reply_to is not None and found.reply_to.mine
    told = found.text.removesuffix("\n\n[Also sent to bob@example.org.]")
    assert told == words
    if words.lower().rstrip(".") in ("yes", "no"):
        assert read_word(found.text) is (Verdict.DENY if words == "no" else Verdict.ONCE)
    assert (told != found.text) == (others and "\n" in words), "a note makes a word more than that word"


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ('<div style="display:none;max-height:0">In the list of mails</div><p>Hello</p>', "Hello"),
        ('Pay<span style="FONT-SIZE: 0px"> nothing</span> now', "Pay now"),
        (
            '<p hidden>no<p>seen<div style="x:y; display: none !important"><div>in</div>too</div>end',
            "seen\nend",
        ),
        ('<table><tr><td style="visibility:hidden">h<td>v</table>', "v"),
        ('<img style="display:none" alt="pixel"><b style="mso-hide:all">x</b>words', "words"),
        ('<p style="display:block;opacity:0.5;font-size:10px">faint</p>', "faint"),
        ('<table><tr><td style="display:none">h</table>seen', "seen"),
        ('<div style="max-height:0px; overflow:hidden"><b class="x">list</b></div>seen', "seen"),
        ('<div style="visibility:hidden;font-size:0"><p style="font-size:9px">h</p></div>seen', "seen"),
        ('<p>seen<a style="font-size:0" href="https://x.example/track">h</a></p>', "seen"),
    ],
)
def test_words_that_nobody_sees_are_not_read(html: str, text: str) -> None:
    assert html_to_text(html) == text


@pytest.mark.parametrize(
    ("html", "text"),
    [
        # Programs that lay out mails close the gaps between columns so, and size the words within.
        (
            '<table><tr><td style="text-align:center;font-size:0;padding:20px">'
            '<div style="font-size:14px">Please pay.</div> \n <div class="text">By <b>Friday</b>.</div>'
            '</td><td style="font-size:0px"><a href="https://x.example"><img alt="Pay"></a></td></table>',
            "Please pay.\nBy Friday.\n[Pay] (https://x.example)",
        ),
        (
            '<div style="visibility:hidden">a<p style="visibility:visible">seen</p>b</div><p>after</p>',
            "seen\n\nafter",
        ),
        ('<p style="max-height:0">It flows over.</p>', "It flows over."),
        ('<div style="display:none">All of it', "All of it"),
        ('<td style="font-size:0">All of it</td>', "All of it"),
    ],
)
def test_words_that_are_seen_are_read(html: str, text: str) -> None:
    assert html_to_text(html) == text


def test_html_with_many_open_elements_is_read_to_its_end() -> None:
    html = '<div style="font-size:0">' + "<td><b>" * 20_000 + "</i>" * 20_000 + "<p class=x>seen"
    assert html_to_text(html).endswith("seen")


@pytest.mark.parametrize("begun", ["<!--", "<a ", '<a href="', "</a ", "<!x", "<?"])
def test_what_is_begun_and_never_ends_is_looked_for_once(begun: str) -> None:
    """The parser would look from each of them to the end of the mail."""
    assert effort(lambda: html_to_text("<p>seen" + begun * 5000)) < 300
    assert html_to_text("<p>seen" + begun * 50) == "seen"


def test_comments_end_where_browsers_end_them() -> None:
    assert html_to_text("a<!-->b<!--->c<!-- x -- y -->d 1 < 2 <b>e</b>") == "abcd 1 < 2 e"
    for begun in ("<style><!-- p {}</style>", "<script>'<!--'</script>", "<STYLE>/* <!-- */</Style >"):
        assert html_to_text(f"a{begun}b<!-- c -->d") == "abd"


# --- what goes out ---


async def sent(bed: EmailBed, body: Body, reply_to: str | None = None, key: str = "k") -> EmailMessage:
    platform = bed.connect()
    async with running(platform, Inboxes().accept, None):
        await platform.send(bed.chat, body, key=key, reply_to=reply_to)
    found = message_from_bytes(bed.smtp.taken[-1].data, policy=default)
    assert isinstance(found, EmailMessage)
    return found


async def test_an_answer_stays_in_its_thread_also_after_a_restart() -> None:
    async with EmailBed() as bed:
        asked = written(bed.chat.chat, "Shall we?", subject="Lunch & more")
        asked["References"] = f"<root@example.org> {LONG}"
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, None):
            await bed.put(asked)
            await until(lambda: len(inboxes.items) == 1, "it never came")
        mail = await sent(bed, Body(text="<p>Yes &amp; <b>no</b></p>"), inboxes.items[0].ref)
        assert mail["Subject"] == "Re: Lunch & more"
        assert mail["In-Reply-To"] == asked["Message-ID"]
        assert mail["References"].split() == [
            "<root@example.org>",
            LONG,
            asked["Message-ID"],
        ]
        assert mail["Auto-Submitted"] == "auto-replied"
        plain, page = mail.get_body(("plain",)), mail.get_body(("html",))
        assert plain is not None and plain.get_content().strip() == "Yes & no"
        assert page is not None and "<b>no</b>" in page.get_content()
        assert mail["To"] == bed.chat.chat and "hermes@example.org" in mail["From"]


async def test_what_nobody_asked_for_begins_a_thread() -> None:
    async with EmailBed() as bed:
        mail = await sent(bed, Body(text="<h1>The\nnews</h1><p>of today</p>"))
        assert (mail["Subject"], mail["In-Reply-To"], mail["Auto-Submitted"]) == (
            "The news",
            None,
            "auto-generated",
        )
        mail = await sent(bed, Body(text="x"), "<gone@example.org>", key="k2")
        assert mail["In-Reply-To"] == "<gone@example.org>", (
            "the mail it answers is gone: it is still an answer"
        )


async def test_names_that_could_break_out_of_a_header() -> None:
    async with EmailBed() as bed:

        async def open_file(file: Attachment) -> bytes:
            return b"x"

        bed.open_file = open_file
        bed.said["EMAIL_NAME"] = 'He"r\r\nBcc: eve@example.org\r\nmes'
        file = Attachment(kind=MediaKind.FILE, ref="x", name='a"\r\nX: y.txt', mime="text/pla in\r\nX: y")
        mail = await sent(bed, Body(text="<p>a\r\nBcc: eve@example.org</p>", attachments=(file,)))
        assert mail["Bcc"] is None and mail["X"] is None
        assert [part.get_content_type() for part in mail.iter_attachments()] == ["application/octet-stream"]


async def test_a_copy_goes_to_the_folder_for_sent_mail() -> None:
    async with EmailBed() as bed:
        inboxes, platform = Inboxes(), bed.connect()
        async with running(platform, inboxes.accept, None):
            receipt = await platform.send(bed.chat, Body(text="x"), key="k", reply_to=None)
            imap = await platform._servers.open_mailbox(PATIENCE)
            try:
                async with asyncio.timeout(PATIENCE):
                    found: list[int] = []
                    while not found:
                        await asyncio.sleep(0.02)
                        await imap.select("Sent")
                        found = await imap.search("HEADER", "Message-ID", f'"{receipt.ref}"')
                assert len(found) == 1
            finally:
                imap.close()
            assert await platform.find_sent(bed.chat, "k") == receipt
        assert inboxes.items == [], "what we wrote is not a message to us"


# --- numbers, floods, large mails ---


@pytest.mark.parametrize("make", [EmailBed, pytest.param(RealBed, marks=[*REAL])], ids=["pymap", "dovecot"])
async def test_a_folder_that_is_numbered_anew(make: type[EmailBed]) -> None:
    async with make() as bed:
        inboxes = Inboxes()
        async with hosted(bed, inboxes):
            for text in ("one", "two"):
                await bed.do(Does.TEXT, text)
            await until(lambda: len(inboxes.items) == 2, "they never came")
        before = inboxes.cursor
        await bed.do(Does.TEXT, "while away")
        await bed.office.renumber()
        async with hosted(bed, inboxes):
            await until(lambda: len(inboxes.items) == 3, lambda: f"got {inboxes.texts}")
            await bed.do(Does.TEXT, "after")
            await until(lambda: len(inboxes.items) == 4, lambda: f"got {inboxes.texts}")
        assert inboxes.texts == ["one", "two", "while away", "after"]
        assert (before or "").split(":")[0] != (inboxes.cursor or "").split(":")[0]


async def test_old_mail_stays_history_when_a_folder_is_numbered_anew() -> None:
    """Nothing came within an hour of the last look: all of the mailbox has new numbers, and none is new."""
    async with EmailBed() as bed:
        office, inboxes = bed.office, Inboxes()
        assert isinstance(office, SmallOffice)
        await office.deliver(written(bed.chat.chat, "from before the first start").as_bytes(), bed.chat.chat)
        async with hosted(bed, inboxes):
            await bed.do(Does.TEXT, "one")
            await until(lambda: len(inboxes.items) == 1, "it never came")
        before = _validity(inboxes)
        office.age(timedelta(hours=3))
        await office.renumber()
        async with hosted(bed, inboxes):
            await until(lambda: _validity(inboxes) != before, "the new numbers are not stored")
            await bed.do(Does.TEXT, "two")
            await until(lambda: "two" in inboxes.texts, lambda: f"got {inboxes.texts}")
        assert inboxes.texts == ["one", "two"]


async def test_a_crash_while_a_folder_is_read_that_was_numbered_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until all was read, the old numbers count: nothing is left out, and nothing old comes up."""
    monkeypatch.setattr("hermes.entry.platforms.email.adapter._AT_ONCE", 1)
    async with EmailBed() as bed:
        office, inboxes = bed.office, Inboxes()
        assert isinstance(office, SmallOffice)
        await office.deliver(written(bed.chat.chat, "from before the first start").as_bytes(), bed.chat.chat)
        async with hosted(bed, inboxes):
            await bed.do(Does.TEXT, "one")
            await until(lambda: len(inboxes.items) == 1, "it never came")
        before = _validity(inboxes)
        office.age(timedelta(hours=3))
        for text in ("two", "three", "four"):
            await bed.do(Does.TEXT, text)
        # The old ones get the highest numbers.
        office._kept = office._kept[2:] + office._kept[:2]
        await office.renumber()

        async def dying(items: Sequence[Inbound], cursor: str | None) -> None:
            await inboxes.accept(items, cursor)
            if items:
                raise asyncio.CancelledError

        with pytest.raises(asyncio.CancelledError):
            await bed.connect().run(dying, inboxes.cursor)
        assert inboxes.texts == ["one", "two"] and _validity(inboxes) == before
        async with hosted(bed, inboxes):
            await until(lambda: _validity(inboxes) != before, "the new numbers are not stored")
        assert inboxes.texts == ["one", "two", "three", "four"]


def _validity(inboxes: Inboxes) -> str:
    return (inboxes.cursor or "").split(":")[0]


async def test_two_machines_do_not_answer_each_other_for_ever(caplog: pytest.LogCaptureFixture) -> None:
    async with EmailBed() as bed:
        bed.said["EMAIL_MAX_PER_HOUR"] = "3"
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, None):
            for number in range(6):
                await bed.do(Does.TEXT, f"round {number}")
            await bed.do(Does.TEXT, "somebody else", chat=bed.chats(1)[0])
            await until(lambda: "somebody else" in inboxes.texts, "one sender's flood is not another's")
        assert inboxes.texts == ["round 0", "round 1", "round 2", "somebody else"]
        assert "email.too_many from=ann@example.org" in caplog.text


async def test_a_large_mail_is_read_at_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes.entry.platforms.email.adapter.LARGEST", 400_000)
    async with EmailBed() as bed:
        inboxes, platform = Inboxes(), bed.connect()
        async with running(platform, inboxes.accept, None):
            mail = written(bed.chat.chat, "See the file.")
            mail.add_attachment(bytes(600_000), maintype="application", subtype="zip", filename="a.zip")
            await bed.put(mail)
            await until(lambda: len(inboxes.items) == 1, "it never came")
            item = inboxes.items[0]
            assert item.text.startswith("See the file.\n\n[This mail has 8")
            with pytest.raises(Refused, match="too large"):
                await platform.fetch(item.attachments[0].ref, _nowhere)


async def _nowhere(piece: bytes) -> None: ...


# --- trouble ---


@pytest.mark.parametrize(
    ("said", "error", "words"),
    [
        ({"EMAIL_ADDRESS": "no address"}, NeedsLogin, "EMAIL_ADDRESS"),
        ({"EMAIL_PASSWORD": ""}, NeedsLogin, "EMAIL_PASSWORD"),
        ({"EMAIL_IMAP_HOST": ""}, NeedsLogin, "EMAIL_IMAP_HOST"),
        ({"EMAIL_MAX_PER_HOUR": "many"}, UserError, "whole number"),
        ({"EMAIL_IMAP_PORT": "many"}, UserError, "a port is wanted"),
        ({"EMAIL_IMAP_PORT": "70000"}, UserError, "a port is wanted"),
        ({"EMAIL_IMAP_HOST": "imap.example.org"}, UserError, "on this machine only"),
        ({"EMAIL_TLS": "true", "EMAIL_CA_FILE": "/nowhere"}, UserError, "EMAIL_CA_FILE"),
    ],
)
async def test_settings_that_are_wrong(said: dict[str, str], error: type[Exception], words: str) -> None:
    async with EmailBed() as bed:
        bed.said.update(said)
        with pytest.raises(error, match=words) as told:
            await bed.connect().check()
        assert "\n" not in str(told.value) and PASSWORD not in str(told.value)


async def test_addresses_that_are_none() -> None:
    async with EmailBed() as bed:
        for chat in (
            "ann",
            "a@b@c.org",
            "<a@b.org>",
            "a@b.org\r\nRCPT TO:<e@f.org>",
            "a b@example.org",
            "a@ü ü.org",
        ):
            with pytest.raises(Refused):
                await bed.connect().send(
                    Address(platform="email", chat=chat), Body(text="x"), key="k", reply_to=None
                )


@pytest.mark.parametrize(
    "lines",
    [
        [b"HTTP/1.1 400 Bad Request\r\n"],
        [b"* BYE too many connections\r\n"],
        [b"* OK hello\r\n", b"* " + b"x" * 2_000_000],
        [b"* OK hello\r\n", b"* 1 FETCH (BODY[] {999999999}\r\n"],
        [b"* OK hello\r\n", b""],
        [b""],
    ],
    ids=["another protocol", "bye", "no line end", "too much", "hangs up", "silent"],
)
async def test_a_server_that_is_none(lines: list[bytes]) -> None:
    open_: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_.append(writer)
        with contextlib.suppress(OSError):
            for line in lines:
                writer.write(line)
                await writer.drain()
                await reader.readline()
            if lines != [b""]:
                writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with EmailBed() as bed:
        bed.said["EMAIL_IMAP_PORT"] = str(server.sockets[0].getsockname()[1])
        bed.hang(True)
        with pytest.raises(Unreachable):
            await bed.connect().run(Inboxes().accept, None)
    server.close()
    for writer in open_:
        writer.transport.abort()
    await asyncio.sleep(0.01)


# --- real servers ---


@pytest.mark.server
@pytest.mark.root
@pytest.mark.xdist_group("mail")
async def test_encrypted_and_all_the_way_through_postfix() -> None:
    """A person's mail goes in by SMTP; the answer lies in the person's mailbox."""
    async with RealBed() as bed:
        office = bed.office
        assert isinstance(office, RealOffice)
        bed.said.update(
            {
                "EMAIL_TLS": "true",
                "EMAIL_IMAP_HOST": "localhost",
                "EMAIL_SMTP_HOST": "localhost",
                "EMAIL_IMAP_PORT": str(office.imap_port),
                "EMAIL_SMTP_PORT": str(office.smtp_port),
            }
        )
        bed.said["EMAIL_CA_FILE"] = str(office.folder / "cert.pem")
        found = await bed.connect().check()
        assert all(finding.good for finding in found) and "with the password" in found[1].text
        inboxes, platform = Inboxes(), bed.connect()
        async with running(platform, inboxes.accept, None):
            await until(lambda: inboxes.cursor is not None, "it never began")
            asked = written(bed.chat.chat, "Shall we?", subject="Lunch")
            await asyncio.to_thread(_post, office.smtp_port, asked)
            await until(lambda: len(inboxes.items) == 1, "it never came")
            answered = await platform.send(
                bed.chat, Body(text="<p>Yes.</p>"), key="k", reply_to=inboxes.items[0].ref
            )
            await until(lambda: bool(office.received(bed.chat.chat)), "the answer never arrived")
            assert await platform.find_sent(bed.chat, "k") == answered
        (mail,) = (message_from_bytes(raw, policy=default) for raw in office.received(bed.chat.chat))
        assert (mail["Subject"], mail["In-Reply-To"]) == ("Re: Lunch", asked["Message-ID"])
        with pytest.raises(Refused, match="550"):
            gone = Address(platform="email", chat="nobody@example.org")
            await platform.send(gone, Body(text="x"), key="k2", reply_to=None)


def _post(port: int, mail: EmailMessage) -> None:
    with smtplib.SMTP("127.0.0.1", port, local_hostname="mail.example.org") as client:
        client.send_message(mail)
