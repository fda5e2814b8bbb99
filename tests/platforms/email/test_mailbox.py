"""Mailboxes that are large, missing or fall silent; what a refusal of the SMTP server means."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import pytest

from hermes.domain.errors import NeedsLogin, Refused, Unreachable
from hermes.entry.platforms.email.smtp import TOO_FAST_SECONDS, error_for
from hermes.testing.platform_suite import Inboxes, running, until
from tests.platforms.email.bed import EmailBed

pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS:UserWarning")
Answers = Callable[[str], str | None]
"""The lines before the last one; `-` and nothing else for no answer at all, None for the usual."""


@dataclass
class Mailbox:
    """Says yes to everything, and more where a test wants it."""

    answers: Answers
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
                ends = "NO such folder" if said == "NO" else "OK done"
                if command.startswith("CAPABILITY"):
                    said = "* CAPABILITY IMAP4rev1 IDLE\r\n"
                writer.write(f"{'' if said in (None, 'NO') else said}{tag} {ends}\r\n".encode())
                await writer.drain()

    def close(self) -> None:
        for writer in self._open:
            writer.transport.abort()


@contextlib.asynccontextmanager
async def mailbox(bed: EmailBed, answers: Answers) -> AsyncIterator[Mailbox]:
    box = Mailbox(answers)
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
    async with EmailBed() as bed, mailbox(bed, lambda said: "NO" if said.startswith("SELECT") else None):
        bed.said["EMAIL_FOLDER"] = "Hermes"
        with pytest.raises(Refused, match="There is no folder “Hermes” in the mailbox"):
            await bed.connect().run(Inboxes().accept, None)


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
