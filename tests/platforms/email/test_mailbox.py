"""Mailboxes that are large, missing or fall silent; what a refusal of the SMTP server means."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import pytest

from hermes.domain.errors import NeedsLogin, Refused, Unreachable, UserError
from hermes.entry.platforms.email.imap import ImapConnection, MailLogin
from hermes.entry.platforms.email.smtp import TOO_FAST_SECONDS, error_for
from hermes.testing.platform_suite import PATIENCE, Inboxes, running, until
from tests.platforms.email.bed import EmailBed

pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS:UserWarning")
Answers = Callable[[str], str | None]
"""The lines before the last one; what begins with NO is the last one itself, `-` and nothing else is no
answer at all, None is the usual."""


@dataclass
class Mailbox:
    """Says yes to everything, and more where a test wants it."""

    answers: Answers
    abilities: str = "IDLE"
    port: int = 0
    asked: list[str] = field(default_factory=list)
    _open: list[asyncio.StreamWriter] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.append(writer)
        writer.write(b"* OK hello\r\n")
        tag = ""
        with contextlib.suppress(OSError):
            while line := (await reader.readline()).decode():
                done = line == "DONE\r\n"
                tag, _, command = (tag, "", "DONE") if done else line.strip().partition(" ")
                self.asked.append(command)
                said = self.answers(command)
                if said == "-":
                    continue
                if command == "IDLE":
                    writer.write(b"+ idling\r\n")
                    continue
                ends = said if said is not None and said.startswith("NO ") else "OK done"
                if command.startswith("CAPABILITY"):
                    said = f"* CAPABILITY IMAP4rev1 {self.abilities}\r\n"
                writer.write(f"{'' if said in (None, ends) else said}{tag} {ends}\r\n".encode())
                await writer.drain()

    def close(self) -> None:
        for writer in self._open:
            writer.transport.abort()


@contextlib.asynccontextmanager
async def mailbox(bed: EmailBed, answers: Answers, abilities: str = "IDLE") -> AsyncIterator[Mailbox]:
    box = Mailbox(answers, abilities)
    server = await asyncio.start_server(box.serve, "127.0.0.1", 0)
    bed.said["EMAIL_IMAP_PORT"] = str(server.sockets[0].getsockname()[1])
    try:
        yield box
    finally:
        server.close()
        box.close()
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("numbered", [True, False], ids=["told", "searched"])
async def test_a_mailbox_with_fifty_thousand_mails_is_history_at_the_first_start(numbered: bool) -> None:
    many = 50_000

    def answers(command: str) -> str | None:
        if command.startswith("SELECT"):
            following = f"* OK [UIDNEXT {many + 1}] next\r\n" if numbered else ""
            return f"* {many} EXISTS\r\n* OK [UIDVALIDITY 7] valid\r\n{following}"
        if command == "UID SEARCH ALL":
            return f"* SEARCH {' '.join(map(str, range(1, many + 1)))}\r\n"
        if command.startswith("UID SEARCH UID"):
            return f"* SEARCH {many}\r\n"  # "n:*" always names the last one
        return None

    async with EmailBed() as bed, mailbox(bed, answers) as box:
        inboxes, platform = Inboxes(), bed.connect()
        platform.idle_seconds = 0.01
        async with running(platform, inboxes.accept, None):
            await until(lambda: box.asked.count("DONE") > 1, lambda: f"asked {box.asked}")
        assert inboxes.items == [] and (inboxes.cursor or "").startswith(f"7:{many}:")
        assert not [one for one in box.asked if "FETCH" in one], "nothing of it is read"


async def test_a_server_that_falls_silent_while_we_wait_is_left() -> None:
    """Routers forget quiet connections and tell nobody: the end of the wait is not answered."""

    def answers(command: str) -> str | None:
        if command == "DONE":
            return "-"
        return "* OK [UIDVALIDITY 7] v\r\n* OK [UIDNEXT 1] n\r\n" if command.startswith("SELECT") else None

    async with EmailBed() as bed, mailbox(bed, answers) as box:
        platform = bed.connect()
        platform.idle_seconds = platform.first_seconds = 0.01
        platform.answer_seconds = 0.5
        serve = asyncio.create_task(platform.run(Inboxes().accept, None))
        await until(lambda: "IDLE" in box.asked, "it never waits")
        with pytest.raises(Unreachable, match="does not answer"):
            await serve
        assert box.asked[-1] == "DONE"


async def test_a_folder_that_is_missing_is_named() -> None:
    def answers(command: str) -> str | None:
        return "NO [NONEXISTENT] Unknown Mailbox" if command.startswith("SELECT") else None

    async with EmailBed() as bed, mailbox(bed, answers):
        bed.said["EMAIL_FOLDER"] = "Hermes"
        with pytest.raises(Refused, match="There is no folder “Hermes” in the mailbox"):
            await bed.connect().run(Inboxes().accept, None)


async def test_a_folder_that_is_there_and_is_not_opened_now_is_no_missing_one() -> None:
    def answers(command: str) -> str | None:
        if command.startswith("LIST"):
            return '* LIST (\\HasNoChildren) "/" INBOX\r\n'
        return "NO [UNAVAILABLE] Mailbox is busy" if command.startswith("SELECT") else None

    async with EmailBed() as bed, mailbox(bed, answers):
        with pytest.raises(Unreachable, match=r"does not open the folder “INBOX” .*busy") as refusal:
            await bed.connect().run(Inboxes().accept, None)
        assert refusal.value.after == 300


class NetEase:
    """163.com, 126.com and yeah.net: no folder is opened for a program that has not said its name (RFC 2971),
    as users of imapclient, himalaya and others report it, with the server's words."""

    abilities = "XLIST SPECIAL-USE ID LITERAL+ SASL-IR"

    def __init__(self) -> None:
        self.named = False

    def __call__(self, command: str) -> str | None:
        if command.startswith('ID ("name" "'):
            self.named = True
            return "* ID NIL\r\n"
        if command.startswith("LIST"):
            return '* LIST () "/" "INBOX"\r\n'
        if not command.startswith("SELECT"):
            return None
        if not self.named:
            return "NO SELECT Unsafe Login. Please contact kefu@188.com for help"
        return "* OK [UIDVALIDITY 1] v\r\n* OK [UIDNEXT 4] n\r\n"


async def test_a_server_that_wants_to_know_our_name_is_told() -> None:
    async with EmailBed() as bed, mailbox(bed, NetEase(), NetEase.abilities):
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, None):
            await until(lambda: (inboxes.cursor or "").startswith("1:3:"), "the folder is not opened")


async def test_a_server_that_knows_no_names_is_not_told_ours() -> None:
    def answers(command: str) -> str | None:
        return "* OK [UIDVALIDITY 7] v\r\n* OK [UIDNEXT 1] n\r\n" if command.startswith("SELECT") else None

    async with EmailBed() as bed, mailbox(bed, answers) as box:
        async with running(bed.connect(), Inboxes().accept, None):
            await until(lambda: "IDLE" in box.asked, "it never waits")
        assert not [command for command in box.asked if command.startswith("ID ")]


LATER = [
    "NO [ALERT] Too many simultaneous connections. (Failure)",  # Gmail, MailKit issue 377
    "NO [LIMIT] LOGIN Rate limit hit.",  # Yahoo, imapflow issue 75
    "NO [UNAVAILABLE] Temporary authentication failure.",  # RFC 5530, dovecot
    "NO [INUSE] Mailbox in use",  # RFC 5530
    "NO [CONTACTADMIN] Account is being moved",  # RFC 5530
    "NO Login fail. Password is incorrect, login frequency limited, or system is busy.",  # QQ, for all
    "NO [AUTHENTICATIONFAILED] Too many login failures, try again later",
    "NO We are having a bad day",
]
WRONG = [
    "NO [AUTHENTICATIONFAILED] Invalid credentials (Failure)",  # Gmail, dovecot
    "NO [ALERT] Application-specific password required (Failure)",  # Gmail
    "NO [EXPIRED] Login is no longer valid",  # RFC 5530
    "NO [AUTHORIZATIONFAILED] No such authorization-ID",  # RFC 5530
    "NO LOGIN failed.",  # Exchange
]


@pytest.mark.parametrize("answer", LATER)
@pytest.mark.parametrize("token", [False, True], ids=["password", "token"])
async def test_a_login_that_is_refused_for_now_is_tried_again(answer: str, token: bool) -> None:
    """The host would park the mailbox for a wrong password, and nobody would read it until a person looks."""
    with pytest.raises(Unreachable, match="does not let us log in now") as refusal:
        await _log_in(answer, "good" if token else "")
    assert refusal.value.after == 300


@pytest.mark.parametrize("answer", WRONG)
async def test_a_wrong_password_is_one(answer: str) -> None:
    with pytest.raises(NeedsLogin, match="EMAIL_PASSWORD"):
        await _log_in(answer, "")


async def _log_in(answer: str, token: str) -> None:
    def answers(command: str) -> str | None:
        return answer if command.startswith(("LOGIN", "AUTHENTICATE")) else None

    async with EmailBed() as bed, mailbox(bed, answers, "AUTH=XOAUTH2 SASL-IR"):
        port = int(bed.said["EMAIL_IMAP_PORT"])
        await ImapConnection.open(
            MailLogin(
                host="127.0.0.1", port=port, user="me", password="x", token=token, tls=None, seconds=PATIENCE
            )
        )


@pytest.mark.parametrize(
    ("code", "told", "error", "words"),
    [
        (451, "4.7.1 Greylisted, see you in five minutes", Unreachable, "come back later"),
        (452, "4.2.2 Over quota", Unreachable, "come back later"),
        (535, "5.7.8 Wrong password", NeedsLogin, "EMAIL_PASSWORD"),
        (550, "5.1.1 No such user here", Refused, "There is no such address"),
        (550, "Go away", Refused, "The SMTP server refuses the mail (550 Go away)"),
        (552, "5.2.2 Mailbox full", Refused, "The mailbox of that address is full"),
        (552, "5.3.4 Too big", Refused, "too large"),
        (552, "Too big", Refused, "too large"),
        (554, "5.7.1 Spam", Refused, "The server's rules forbid the mail"),
        (554, b"\xff no", Refused, "refuses the mail"),
    ],
)
def test_what_a_refusal_means(code: int, told: str | bytes, error: type[Exception], words: str) -> None:
    found = error_for(code, told)
    assert type(found) is error and words in str(found)
    assert getattr(found, "after", None) == (TOO_FAST_SECONDS if error is Unreachable else None)


@pytest.mark.parametrize("tls", ["direct", "true"])
async def test_how_a_connection_to_an_unusual_port_begins(tls: str) -> None:
    """With a handshake of TLS (RFC 8446, 5.1: the first byte of its record is 22), or not before the server
    has greeted."""
    first: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if tls == "true":
            writer.write(b"* OK hello\r\n" if not first else b"220 hello\r\n")
        first.append(await reader.read(1))
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with EmailBed() as bed:
        port = str(server.sockets[0].getsockname()[1])
        bed.said |= {"EMAIL_TLS": tls, "EMAIL_IMAP_PORT": port, "EMAIL_SMTP_PORT": port}
        findings = await bed.connect().check()
        assert not any(finding.good for finding in findings[:2])
    server.close()
    assert first == ([b"\x16"] * 2 if tls == "direct" else [b"h", b"E"])


async def test_a_wish_for_encryption_that_nobody_understands_is_refused() -> None:
    async with EmailBed() as bed:
        bed.said["EMAIL_TLS"] = "ssl"
        with pytest.raises(UserError, match="true, direct or false is wanted"):
            await bed.connect().run(Inboxes().accept, None)
