"""Mail servers as a testbed: pymap with aiosmtpd, and dovecot with postfix."""

from __future__ import annotations

import asyncio
import itertools
import random
import re
import threading
from collections.abc import Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP, default
from typing import Any

from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Inbound, media_kind
from hermes.domain.ports.platform import Accept
from hermes.entry.platforms.email.adapter import EmailAdapter
from hermes.entry.platforms.email.convert import EmailIdentity, MailLocation, read_mail
from hermes.entry.platforms.email.manifest import MANIFEST
from hermes.entry.platforms.email.proof import SenderPolicy
from hermes.entry.platforms.email.smtp import TOO_FAST_SECONDS
from hermes.testing.platform_suite import Does, Fault, Shown, Testbed, until
from tests.platforms.email.offices import ADDRESS, PASSWORD, Office, OutlookOffice, RealOffice, SmallOffice
from tests.platforms.email.samples import MAILS
from tests.platforms.email.wires import SmtpWire, Taken, Wire

ME = EmailIdentity(address=ADDRESS, proof=SenderPolicy(trust_from=True))
NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
_PAGE = re.compile(r"<html><body>\n(.*)\n</body></html>\s*\Z", re.DOTALL)
_numbers = itertools.count(1)


class EmailBed(Testbed):
    """pymap and aiosmtpd."""

    manifest = MANIFEST
    chat = Address(platform="email", chat="ann@example.org")
    receives = frozenset({Does.TEXT, Does.REPLY, Does.IMAGE, Does.FILE, Does.COMMAND})
    # What an SMTP server refuses with a fault of its own (4xx, 5xx) it has not taken: that is no doubt.
    faults = frozenset(Fault) - {Fault.BROKEN}
    delay = TOO_FAST_SECONDS
    short = 2.5

    def __init__(self, *, full: bool = False) -> None:
        super().__init__(full=full)
        self.office: Office = self.make_office()
        self.imap, self.smtp = Wire(), SmtpWire(ADDRESS)
        self.smtp.chaos = lambda: self.chaos()
        self._shown: list[list[Shown]] = []
        """What was taken, as it was read once."""
        self.settle = 0.4
        self.listened: bool | None = None
        """Whether it is known from where on mail counts; None if none of our adapters was ever run."""

    def make_office(self) -> Office:
        return SmallOffice()

    async def open(self) -> None:
        await self.office.open()
        self.imap.target, self.smtp.target = self.office.imap_port, self.office.smtp_port
        await self.up()

    async def close(self) -> None:
        await self.down()
        await self.office.close()

    def variables(self) -> dict[str, str]:
        return {
            "EMAIL_ADDRESS": ADDRESS,
            "EMAIL_PASSWORD": PASSWORD,
            "EMAIL_IMAP_HOST": "127.0.0.1",
            "EMAIL_IMAP_PORT": str(self.imap.port),
            "EMAIL_SMTP_HOST": "127.0.0.1",
            "EMAIL_SMTP_PORT": str(self.smtp.port),
            "EMAIL_TLS": "false",
            "EMAIL_MAX_PER_HOUR": "0",
            "EMAIL_TRUST_FROM": "true",
        }

    def connect(self) -> EmailAdapter:
        adapter = _Adapter(self.context())
        adapter.bed = self
        self.patient(lambda seconds: _wait(adapter, seconds))
        adapter.settle_seconds = self.settle
        # pymap does not tell of what came between a look and the wait for news.
        adapter.first_seconds, adapter.idle_seconds = 0.02, 0.3
        return adapter

    def chats(self, count: int) -> list[Address]:
        return [Address(platform="email", chat=f"p{number}@example.com") for number in range(count)]

    async def do(self, does: Does, text: str, *, chat: Address | None = None, on: str = "") -> None:
        mail = written((chat or self.chat).chat, text)
        match does:
            case Does.REPLY:
                mail["In-Reply-To"] = on
                mail["References"] = on
            case Does.IMAGE:
                mail.add_attachment(self.content, maintype="image", subtype="png", filename="a.png")
            case Does.FILE:
                mail.add_attachment(self.content, maintype="application", subtype="pdf", filename="a.pdf")
        await self.put(mail)

    async def put(self, mail: EmailMessage) -> None:
        # What lies there before the first look is history: people write once somebody looked.
        await until(self._heard, "nobody looks into the mailbox")
        await asyncio.sleep(0)
        await self.office.deliver(mail.as_bytes(), str(mail["From"]))

    def _heard(self) -> bool:
        """A gateway in another process listens once it waits for news."""
        return self.imap.waited if self.listened is None else self.listened

    async def misdeliver(self, texts: Sequence[str]) -> None:
        """Mails overtake each other, and a forwarding brings copies."""
        mails = [written(self.chat.chat, text) for text in texts]
        random.Random(7).shuffle(mails)
        for mail in (*mails, *mails[::3]):
            await self.put(mail)

    def shown(self, chat: Address | None = None) -> list[Shown]:
        for one in self.smtp.taken[len(self._shown) :]:
            self._shown.append([_shown(one, to) for to in one.to])
        return [one for seen in self._shown for one in seen if chat is None or one.chat == chat.chat]

    def fail(self, fault: Fault, *, times: int = 1, done: bool = False, chat: Address | None = None) -> None:
        self.hang(fault is Fault.HANG)
        self.smtp.fail(fault, times, done, "" if chat is None else chat.chat)

    def calm(self) -> None:
        self.smtp.calm()
        self.hang(False)

    async def cut(self) -> None:
        self.imap.cut()
        self.smtp.cut()

    async def down(self) -> None:
        await self.imap.down()
        await self.smtp.down()

    async def up(self) -> None:
        await self.imap.up()
        await self.smtp.up()

    def samples(self) -> Sequence[Any]:
        return list(MAILS.values())

    def convert(self, payload: Any) -> Sequence[Inbound]:
        place = MailLocation(validity=1, uid=7, arrived=NOW, size=len(payload))
        found = read_mail(payload, ME, place)
        return () if found.item is None else (found.item,)


class OutlookBed(EmailBed):
    """The same, with a server that gives mails other ids."""

    def make_office(self) -> Office:
        return OutlookOffice()


class RealBed(EmailBed):
    """dovecot and postfix."""

    def __init__(self, *, full: bool = False) -> None:
        super().__init__(full=full)
        # postfix queues, dovecot stores, and only then the copy is back.
        self.settle = 5.0

    def make_office(self) -> Office:
        return RealOffice.get()

    def connect(self) -> EmailAdapter:
        adapter = super().connect()
        adapter.first_seconds, adapter.idle_seconds = EmailAdapter.first_seconds, EmailAdapter.idle_seconds
        return adapter


class ApartBed(EmailBed):
    """pymap and aiosmtpd in a thread of their own: what ends a gateway's life does not end theirs."""

    async def open(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="mail servers")
        self._thread.start()
        await self._there(super().open())

    async def close(self) -> None:
        await self._there(super().close())
        await self._there(_end_others())
        self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._thread.join)
        self._loop.close()

    async def put(self, mail: EmailMessage) -> None:
        await until(self._heard, "nobody looks into the mailbox")
        await self._there(self.office.deliver(mail.as_bytes(), str(mail["From"])))

    async def _there(self, doing: Coroutine[Any, Any, None]) -> None:
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(doing, self._loop))


async def _end_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    # What was aborted is closed in the rounds that follow.
    for _ in range(5):
        await asyncio.sleep(0.001)


class _Adapter(EmailAdapter):
    """Says when it knows where it begins."""

    bed: EmailBed

    async def run(self, accept: Accept, cursor: str | None) -> None:
        self.bed.listened = cursor is not None

        async def storing(items: Sequence[Inbound], following: str | None) -> None:
            self.bed.listened = self.bed.listened or following is not None
            await accept(items, following)

        await super().run(storing, cursor)


def _wait(adapter: EmailAdapter, seconds: float) -> None:
    adapter.answer_seconds = adapter.data_seconds = seconds
    for client in adapter._post._free:
        client.timeout = seconds


def written(sender: str, text: str, *, subject: str = "") -> EmailMessage:
    """A mail as a person's program writes it."""
    number = next(_numbers)
    mail = EmailMessage(policy=SMTP)
    mail["From"] = sender
    mail["To"] = ADDRESS
    if subject:
        mail["Subject"] = subject
    mail["Date"] = NOW + timedelta(seconds=number)
    mail["Message-ID"] = f"<{number}.{random.getrandbits(64):x}@{sender.rpartition('@')[2]}>"
    mail.set_content(text)
    return mail


def checked(
    mail: EmailMessage, results: str = "mx.example.net; dmarc=pass header.from=example.org"
) -> EmailMessage:
    """The mail as a server hands it on that looked at its sender."""
    there = mail.items()
    for name, _ in there:
        del mail[name]
    mail["Authentication-Results"] = results
    mail["Received"] = "from mail.example.org by mx.example.net; Mon, 16 Nov 2026 11:59:00 +0000"
    for name, value in there:
        mail[name] = value
    return mail


def _shown(taken: Taken, to: str) -> Shown:
    mail = message_from_bytes(taken.data, policy=default)
    page = mail.get_body(("html",))
    inside = _PAGE.search(page.get_content().replace("\r\n", "\n")) if page is not None else None
    files = tuple(
        (media_kind(part.get_content_type()), part.get_payload(decode=True))
        for part in mail.iter_attachments()
    )
    return Shown(
        ref=str(mail["Message-ID"]),
        chat=to,
        text=re.sub("</?p>", "", inside[1]) if inside else "",
        files=files,
        reply_to=mail["In-Reply-To"],
    )
