"""The way out: connections that are kept, and mails of which nobody knows whether they left."""

from __future__ import annotations

import asyncio

import pytest

from hermes.domain.errors import NeedsLogin, Refused, Unreachable
from hermes.domain.message import Attachment, Body, MediaKind
from hermes.entry.platforms.email import smtp
from hermes.entry.platforms.email.adapter import EmailAdapter
from hermes.entry.platforms.email.imap import ImapConnection
from hermes.testing.platform_suite import Fault, Inboxes, running, until
from tests.platforms.email.bed import EmailBed

pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS:UserWarning")


async def send(bed: EmailBed, platform: EmailAdapter, key: str) -> None:
    await platform.send(bed.chat, Body(text=f"<p>{key}</p>"), key=key, reply_to=None)


async def test_a_connection_serves_many_mails_and_is_replaced_when_it_died() -> None:
    async with EmailBed() as bed:
        platform = bed.connect()
        platform.answer_seconds = 20.0
        async with running(platform, Inboxes().accept, None):
            await until(lambda: bool(bed.listened), "it never began")
            for number in range(5):
                await send(bed, platform, f"k{number}")
            assert bed.smtp.connections == 1
            bed.smtp.cut()
            await asyncio.sleep(0.05)
            await send(bed, platform, "after the cut")
            assert bed.smtp.connections == 2
            bed.fail(Fault.GONE)
            with pytest.raises(Refused):
                await send(bed, platform, "to nobody")
            await send(bed, platform, "to somebody")
            assert bed.smtp.connections == 2, "a refusal of one mail is no fault of the connection"
            bed.fail(Fault.REVOKED)
            with pytest.raises(NeedsLogin):
                await send(bed, platform, "with an old password")
        assert len(bed.shown()) == 7
        await until(lambda: not bed.smtp._open, "a connection stays open")


async def test_a_connection_that_nobody_needs_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smtp, "KEPT_SECONDS", 0.2)
    async with EmailBed() as bed:
        platform = bed.connect()
        platform.answer_seconds = 20.0
        async with running(platform, Inboxes().accept, None):
            await until(lambda: bool(bed.listened), "it never began")
            await send(bed, platform, "k")
            await until(lambda: not bed.smtp._open, "it stays open")
            await send(bed, platform, "k2")
            assert bed.smtp.connections == 2


async def test_a_doubtful_mail_is_found_by_who_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy was seen when it came: nobody has to look for it."""
    looked: list[str] = []
    search = ImapConnection.search

    async def counted(self: ImapConnection, *criteria: str) -> list[int]:
        looked.extend(one for one in criteria if one == "HEADER")
        return await search(self, *criteria)

    monkeypatch.setattr(ImapConnection, "search", counted)
    async with EmailBed() as bed:
        platform = bed.connect()
        platform.answer_seconds = 20.0
        async with running(platform, Inboxes().accept, None):
            await until(lambda: bool(bed.listened), "it never began")
            bed.fail(Fault.RESET, done=True)
            with pytest.raises(Unreachable) as told:
                await send(bed, platform, "k")
            assert told.value.maybe_done
            await until(
                lambda: any(came.is_set() for came in platform._copies.values()), "the copy never came"
            )
            assert await platform.find_sent(bed.chat, "k") is not None
            assert looked == []
            assert await platform.find_sent(bed.chat, "never sent") is None
            assert len(looked) == 4, "in two folders, before and after the wait"


async def test_a_large_copy_of_our_own_is_not_read_whole() -> None:
    async with EmailBed() as bed:

        async def open_file(file: Attachment) -> bytes:
            return bytes(600_000)

        bed.open_file = open_file
        file = Attachment(kind=MediaKind.FILE, ref="x", name="a.zip", mime="application/zip")
        platform = bed.connect()
        platform.answer_seconds = 20.0
        async with running(platform, Inboxes().accept, None):
            await until(lambda: bool(bed.listened), "it never began")
            await platform.send(bed.chat, Body(attachments=(file,)), key="k", reply_to=None)
            await until(
                lambda: any(came.is_set() for came in platform._copies.values()), "the copy never came"
            )
        assert bed.imap.carried < 100_000
