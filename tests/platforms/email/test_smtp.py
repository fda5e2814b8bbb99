"""The way out: connections that are kept, and mails of which nobody knows whether they left."""

from __future__ import annotations

import asyncio

import pytest

from hermes.domain.chats.message import Attachment, Body, MediaKind
from hermes.domain.errors import NeedsLogin, Refused, Unreachable
from hermes.entry.platforms.email import smtp
from hermes.entry.platforms.email.adapter import EmailAdapter
from hermes.entry.platforms.email.compose import message_id
from hermes.entry.platforms.email.imap import ImapConnection
from hermes.entry.platforms.email.manifest import MANIFEST
from hermes.testing.platform_suite import Does, Fault, Inboxes, running, until
from tests.platforms.email.bed import EmailBed, OutlookBed
from tests.platforms.email.offices import ADDRESS

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
        looked.extend(asked for asked in criteria if "HEADER" in asked)
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


async def test_a_server_that_looks_through_a_mail_for_long_has_it() -> None:
    """RFC 5321, 4.5.3.2.6: ten minutes for the answer to the end of DATA. The others are quicker."""
    async with EmailBed() as bed:
        platform = bed.connect()
        take = bed.office.handle_DATA  # type: ignore[attr-defined]

        async def slowly(server: object, session: object, envelope: object) -> str:
            await asyncio.sleep(0.6)
            return str(await take(server, session, envelope))

        bed.office.handle_DATA = slowly  # type: ignore[attr-defined]
        platform.answer_seconds, platform.data_seconds = 0.5, 40.0
        async with running(platform, Inboxes().accept, None):
            await until(lambda: bool(bed.listened), "it never began")
            await send(bed, platform, "k")
        assert len(bed.shown()) == 1
    assert EmailAdapter.data_seconds == 600 < MANIFEST.capabilities.send_seconds


async def test_a_server_that_gives_mails_other_ids() -> None:
    """Copies are known by the id that we gave, are put away, and who answers by the other one answers us."""
    async with OutlookBed() as bed:
        platform, inboxes = bed.connect(), Inboxes()
        platform.answer_seconds = 20.0
        async with running(platform, inboxes.accept, None):
            await until(lambda: bool(bed.listened), "it never began")
            receipt = await platform.send(bed.chat, Body(text="<p>May I?</p>"), key="k", reply_to=None)
            await until(lambda: "k" in _sent(bed, platform), "the copy is not known by our id")
            await bed.do(Does.REPLY, "yes", on="<0.PROD.OUTLOOK.COM@example.org>")
            await until(lambda: len(inboxes.items) == 1, "the answer never came")
            answered = inboxes.items[0].reply_to
            assert answered is not None and answered.mine and answered.ref == receipt.ref
        again = bed.connect()
        assert await again.find_sent(bed.chat, "k") == receipt, "another life finds it in the mailbox"
        assert await again.find_sent(bed.chat, "never sent") is None


def _sent(bed: EmailBed, platform: EmailAdapter) -> list[str]:
    """The keys of mails whose copies came back."""
    came = [name for name, event in platform._copies.items() if event.is_set()]
    return [key for key in ("k",) if message_id(ADDRESS, key) in came]


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
