"""The email adapter: one mailbox. Mail is read by IMAP, which tells of new mail by itself (IDLE), and written
by SMTP.

What was read is remembered as the folder's UIDVALIDITY and the last UID, stored with the messages. The id of
a mail that we send comes from its key, and a copy of each comes back to the mailbox: so it can be looked up
whether a mail left, when the server's answer got lost."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from msgspec import Struct

from hermes.domain.chats.adapter import AdapterContext, Finding
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.chats.capabilities import Capabilities
from hermes.domain.chats.message import Body, Inbound, Receipt
from hermes.domain.errors import Refused, Unreachable
from hermes.domain.ports.platform import Accept
from hermes.domain.ports.world import Sink
from hermes.domain.text import one_line, size_told
from hermes.domain.word import replace
from hermes.entry.kit.files import read_file
from hermes.entry.kit.payload import Recent
from hermes.entry.platforms.email import convert
from hermes.entry.platforms.email.addresses import canonical, readable
from hermes.entry.platforms.email.compose import compose, message_id
from hermes.entry.platforms.email.convert import EmailIdentity, MailLocation, MailThread, ParsedMail
from hermes.entry.platforms.email.imap import ImapConnection, day, quoted
from hermes.entry.platforms.email.manifest import MANIFEST
from hermes.entry.platforms.email.proof import NO_PROOF, UNPROVED_HINT, read_proof
from hermes.entry.platforms.email.servers import MailServers, integer
from hermes.entry.platforms.email.smtp import SmtpClient, drop

log = logging.getLogger("hermes.email")
T = TypeVar("T")
LARGEST = 30 * 1024 * 1024
"""What is read whole; of a larger mail only the beginning is."""
_BEGINNING = 256 * 1024
_AT_ONCE = 20
_REMEMBERED = 1000
_RECENT, _TRIED = 100, 10
"""A check looks at the newest mails, among the last numbers."""
_PIECE = 64 * 1024
_OVERLAP = timedelta(hours=1)
_FRESH = timedelta(hours=1)
_HOUR = 3600.0
_THREADED = 128 * 1024
"""Mails above this size are taken apart in a thread."""


class _Cursor(Struct):
    validity: int
    uid: int
    at: int
    provisional: bool = False
    """Whether it is not stored yet: until all has been read that came before the folder was numbered anew,
    the old one counts, so that a crash begins with that again."""

    def __str__(self) -> str:
        return f"{self.validity}:{self.uid}:{self.at}"


class EmailAdapter:
    answer_seconds = 30.0
    """How long a server's answer is waited for."""
    idle_seconds = 300.0
    """How long it is waited for news; servers hang up after half an hour, some routers after ten minutes."""
    first_seconds = 5.0
    """The same, right after something happened: some servers do not tell of what came before they waited."""
    data_seconds = 600.0
    """How long a server may take over a mail that it was given (RFC 5321, 4.5.3.2.6)."""
    settle_seconds = 15.0
    """How long a copy of what was sent may take to come back."""

    def __init__(self, context: AdapterContext) -> None:
        self._context = context
        self._servers = MailServers(context)
        self._address = self._servers.address
        self._proof = read_proof(context, self._servers.imap_host)
        self._me = EmailIdentity(address=self._address, account=context.account, proof=self._proof)
        self._unproved = 0
        """Mails that say they are from people who may write, and do not prove it."""
        self._folder = context.setting("EMAIL_FOLDER", "INBOX")
        self._most = integer(context, "EMAIL_MAX_PER_HOUR", 60)
        self._copies_itself = not context.is_off("EMAIL_SELF_COPY")
        self._poll = float(integer(context, "EMAIL_POLL_INTERVAL", 15) or 15)
        self._side: ImapConnection | None = None
        self._running = False
        self._alone = asyncio.Lock()
        self._post = SmtpClient(self._address, self._servers.smtp_host, self._servers.open_smtp)
        self._copies: Recent[str, asyncio.Event] = Recent(_REMEMBERED)
        """Whether the copy of a mail came back, by the mail's id."""
        self._threads: Recent[str, MailThread] = Recent(_REMEMBERED)
        """What an answer will have to carry; it is looked up in the mailbox if this is forgotten."""
        self._latest: Recent[str, tuple[MailThread, datetime]] = Recent(_REMEMBERED)
        self._renamed: Recent[str, str] = Recent(_REMEMBERED)
        """Our ids of mails that the server gave others: by those people answer them."""
        self._heard: Recent[str, deque[float]] = Recent(_REMEMBERED)

    @property
    def capabilities(self) -> Capabilities:
        # Without the copy to ourselves nobody can tell whether a mail left: repeats are marked then.
        return replace(MANIFEST.capabilities, history=self._copies_itself)

    # --- what comes in ---

    async def run(self, accept: Accept, cursor: str | None) -> None:
        imap = await self._servers.open_mailbox(self.answer_seconds)
        self._running = self._post.keeps = True
        try:
            sent = await imap.sent_folder() if "MOVE" in imap.abilities else None
            at, waiting = await self._begin(imap, cursor)
            await accept((), str(at) if cursor is None else None)
            if not self._proof.possible:
                log.warning("email.not_read why=%s", NO_PROOF)
            while True:
                # What was passed over would never be answered; what waits is, once a proof is set.
                heard = waiting if self._proof.possible else []
                for start in range(0, len(heard), _AT_ONCE):
                    await self._take(imap, heard[start : start + _AT_ONCE], at, accept, sent)
                if at.provisional and self._proof.possible:
                    at.provisional = False
                    await accept((), str(at))
                if "IDLE" in imap.abilities:
                    await imap.idle(self.first_seconds if heard else self.idle_seconds)
                else:
                    await self._context.clock.sleep(self._poll)
                    await imap.noop()
                await accept((), None)
                waiting = await imap.newer(at.uid)
        finally:
            imap.close()
            self._running = False
            self._post.close()
            self._close_side()

    async def _begin(self, imap: ImapConnection, cursor: str | None) -> tuple[_Cursor, list[int]]:
        """Where to go on, and what waits there. Without a cursor what lies in the mailbox is history."""
        folder = await imap.select(self._folder)
        now = int(self._context.clock.now().timestamp())
        parts = (cursor or "").split(":")
        if len(parts) != 3 or not all(part.isascii() and part.isdigit() for part in parts):
            return _Cursor(folder.validity, folder.next_uid - 1, now), []
        validity, uid, at = map(int, parts)
        if validity == folder.validity:
            return _Cursor(validity, uid, at), await imap.newer(uid)
        # The server numbered the folder anew: what came since then is known by its date, and what was read
        # before by its Message-ID.
        log.warning("email.renumbered folder=%s", one_line(self._folder))
        since = datetime.fromtimestamp(at, UTC) - _OVERLAP
        waiting: list[int] = []
        for uid in await imap.search("SINCE", day(since - timedelta(days=1))):
            head = await imap.fetch(uid, "HEADER.FIELDS (MESSAGE-ID)")
            if head is not None and (head.arrived is None or head.arrived >= since):
                waiting.append(uid)
        # All others are history, whatever their numbers are now.
        return _Cursor(folder.validity, folder.next_uid - 1, at, provisional=True), waiting

    async def _take(
        self, imap: ImapConnection, uids: Sequence[int], at: _Cursor, accept: Accept, sent: str | None
    ) -> None:
        sizes = await imap.sizes(uids)
        items: list[Inbound] = []
        taken: list[int] = []
        own: list[int] = []
        for uid in uids:
            reading = await self._read(imap, uid, sizes.get(uid, 0), at.validity)
            if reading is None:
                log.warning("email.unreadable uid=%d", uid)
                continue
            if reading.item is not None and self._may_write(reading.item):
                items.append(self._by_our_id(reading.item))
                taken.append(uid)
                if reading.thread.id:
                    self._threads[reading.thread.id] = reading.thread
                    chat = reading.item.source.address.chat
                    self._latest[chat] = (reading.thread, self._context.clock.now())
            elif reading.own:
                own.append(uid)
                self._copies.setdefault(reading.own, asyncio.Event()).set()
                if reading.thread.id != reading.own:
                    self._renamed[reading.thread.id] = reading.own
            elif bounce := reading.bounce:
                what = "email.bounced" if bounce.final else "email.delayed"
                facts = (bounce.to, bounce.status, bounce.id, bounce.why)
                log.warning("%s to=%s status=%s id=%s why=%s", what, *facts)
            else:
                log.info("email.left_out uid=%d why=%s", uid, reading.why or "its sender writes too much")
                await self._count(reading)
        at.uid = max(at.uid, *uids)
        at.at = int(self._context.clock.now().timestamp())
        await accept(items, None if at.provisional else str(at))
        # Unread is what was not taken up.
        if taken or own:
            await imap.mark_seen([*taken, *own])
        if own and sent is not None and sent != self._folder:
            await imap.move(own, sent)

    def _by_our_id(self, item: Inbound) -> Inbound:
        ours = None if item.reply_to is None else self._renamed.get(item.reply_to.ref)
        if item.reply_to is None or ours is None:
            return item
        return replace(item, reply_to=replace(item.reply_to, ref=ours, mine=True))

    async def _count(self, reading: ParsedMail) -> None:
        """Forged or not, somebody wonders why there is no answer; of strangers nobody does."""
        if not reading.unproved or not await self._context.welcomes(self._source(reading.unproved)):
            return
        self._unproved += 1
        if self._unproved == 1:
            who = one_line(readable(reading.unproved), 80)
            log.warning("email.unproved from=%s why=%s hint=%s", who, reading.why, UNPROVED_HINT)

    def notice(self) -> str:
        if not self._proof.possible:
            return f"no mail is read: {NO_PROOF}"
        if not self._unproved:
            return ""
        count = "1 mail" if self._unproved == 1 else f"{self._unproved} mails"
        return f"{count} in the name of people who may write left out, for nothing proves it: {UNPROVED_HINT}"

    def _source(self, address: str) -> Source:
        place = Address(platform="email", account=self._context.account, chat=address)
        return Source(address=place, kind=SourceKind.PRIVATE, user=readable(address), user_alt=address)

    async def _read(self, imap: ImapConnection, uid: int, size: int, validity: int) -> ParsedMail | None:
        now = self._context.clock.now()
        if size > _THREADED:
            # A copy of our own needs no more than its head.
            reading = convert.read_mail(await imap.head(uid), self._me, MailLocation(arrived=now))
            if reading.own:
                return reading
        mail = await imap.fetch(uid, "", LARGEST if size <= LARGEST else _BEGINNING)
        if mail is None:
            return None
        place = MailLocation(validity=validity, uid=uid, arrived=mail.arrived or now, size=size)
        if len(mail.body) > _THREADED:
            return await asyncio.to_thread(convert.read_mail, mail.body, self._me, place)
        return convert.read_mail(mail.body, self._me, place)

    def _may_write(self, item: Inbound) -> bool:
        """Two machines that answer each other are stopped here, if nothing else gave them away."""
        if not self._most:
            return True
        user = item.source.user or ""
        heard = self._heard[user] = self._heard.get(user) or deque()
        now = item.at.timestamp()
        while heard and now - heard[0] > _HOUR:
            heard.popleft()
        if len(heard) >= self._most:
            log.warning("email.too_many from=%s an_hour=%d", one_line(user), self._most)
            return False
        heard.append(now)
        return True

    # --- what goes out ---

    async def send(self, to: Address, body: Body, *, key: str, reply_to: str | None) -> Receipt:
        person = canonical(to.chat)
        if not person:
            raise Refused(f"{one_line(str(to))} is no address; one looks like email:ann@example.org")
        files = [(file, await read_file(self._context, file)) for file in body.attachments]
        thread = await self._thread(person, reply_to)
        if thread is not None and thread.reply_to and await self._may_have(thread.reply_to):
            person = thread.reply_to
        data = await asyncio.to_thread(
            compose,
            body.text,
            files,
            sender=self._address,
            name=self._context.setting("EMAIL_NAME", "Hermes"),
            to=person,
            key=key,
            at=self._context.clock.now(),
            thread=thread,
        )
        copy = self._copies_itself and person != self._address
        await self._post.submit(
            person, data, copy=copy, seconds=self.answer_seconds, data_seconds=self.data_seconds
        )
        return Receipt(to=to, ref=message_id(self._address, key))

    async def _may_have(self, address: str) -> bool:
        """Whether answers may go there: only if the wish is proved to be the sender's, and to somebody who
        could ask for them. Whoever forges a mail, or sends somebody's again, would get them otherwise."""
        return bool(self._proof.names) and await self._context.welcomes(self._source(address))

    async def _thread(self, chat: str, reply_to: str | None) -> MailThread | None:
        """What the answered mail says; for what is not an answer, the mail that just came from there."""
        if reply_to is None:
            thread, at = self._latest.get(chat, (None, None))
            return thread if at is not None and self._context.clock.now() - at <= _FRESH else None
        if reply_to in self._threads:
            return self._threads[reply_to]
        if not (reply_to.startswith("<") and reply_to.endswith(">") and reply_to.isascii()):
            return None
        try:
            raw = await self._aside(lambda imap: self._header_of(imap, reply_to))
        except Unreachable:
            # Better an answer with a subject of its own than none.
            return MailThread(id=reply_to)
        return convert.thread_of(convert.parse_mail(raw)) if raw else MailThread(id=reply_to)

    async def _header_of(self, imap: ImapConnection, name: str) -> bytes:
        uids = await self._with_id(imap, name)
        return await imap.head(uids[-1]) if uids else b""

    async def find_sent(self, to: Address, key: str) -> Receipt | None:
        """Look for the copy that came back; it may take a while. Whoever listens sees it come; what came
        before that, or was put elsewhere by the server, is found by a look."""
        name = message_id(self._address, key)
        return Receipt(to=to, ref=name) if await self._came(name) else None

    async def _came(self, name: str) -> bool:
        came = self._copies.setdefault(name, asyncio.Event())
        if came.is_set() or await self._aside(lambda imap: self._has(imap, name)):
            return True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.settle_seconds):
                return await came.wait()
        return await self._aside(lambda imap: self._has(imap, name))

    async def _has(self, imap: ImapConnection, name: str) -> bool:
        # In this order, for copies go from the one to the other.
        if await self._with_id(imap, name):
            return True
        sent = await imap.sent_folder()
        return sent is not None and bool(await self._with_id(imap, name, sent))

    async def _with_id(self, imap: ImapConnection, name: str, folder: str | None = None) -> list[int]:
        """Selected anew each time: a folder shows what came since."""
        await imap.select(folder or self._folder)
        criteria = f"HEADER Message-ID {quoted(name)}"
        for header in convert.ORIGINAL_IDS:
            criteria = f"OR {criteria} HEADER {header} {quoted(name)}"
        return await imap.search(criteria)

    # --- files ---

    async def fetch(self, ref: str, sink: Sink) -> None:
        validity, _, rest = ref.partition("/")
        uid, _, rest = rest.partition("/")
        number, _, name = rest.partition("/")
        if not all(word.isascii() and word.isdigit() and len(word) < 12 for word in (validity, uid, number)):
            raise Refused("That is no file of a mail")
        raw = await self._aside(lambda imap: self._mail(imap, int(validity), int(uid), name))
        data = None if raw is None else await asyncio.to_thread(convert.file_in, raw, int(number))
        if data is None:
            raise Refused("The mail with the file is no longer in the mailbox")
        for start in range(0, len(data), _PIECE):
            await sink(data[start : start + _PIECE])

    async def _mail(self, imap: ImapConnection, validity: int, uid: int, name: str) -> bytes | None:
        folder = await imap.select(self._folder)
        if folder.validity != validity:
            uid = (await imap.search("HEADER", "Message-ID", quoted(name)) or [0])[-1] if name else 0
        size = (await imap.sizes([uid])).get(uid) if uid else None
        if size is None:
            return None
        if size > LARGEST:
            raise Refused(f"A mail of {size_told(size)} is too large; {size_told(LARGEST)} are read")
        mail = await imap.fetch(uid, "", LARGEST)
        return None if mail is None else mail.body

    # --- connections ---

    async def _aside(self, ask: Callable[[ImapConnection], Awaitable[T]]) -> T:
        """Ask something on a connection beside the one that listens; one that lay idle may be dead."""
        async with self._alone:
            if self._side is not None:
                with contextlib.suppress(Unreachable):
                    return await self._ask(self._side, ask)
            self._side = await self._servers.open_mailbox(self.answer_seconds)
            return await self._ask(self._side, ask)

    async def _ask(self, side: ImapConnection, ask: Callable[[ImapConnection], Awaitable[T]]) -> T:
        keep = False
        try:
            answer = await ask(side)
            keep = self._running
            return answer
        finally:
            if not keep:
                self._close_side()

    def _close_side(self) -> None:
        if self._side is not None:
            self._side.close()
            self._side = None

    # --- the check ---

    async def check(self) -> Sequence[Finding]:
        heads: list[bytes] = []
        reading = await self._servers.tried("IMAP", lambda: self._check_reading(heads))
        sending = await self._servers.tried("SMTP", self._check_sending)
        return [reading, sending, convert.proof_found(heads, self._me)]

    async def _check_reading(self, heads: list[bytes]) -> str:
        """Also collects the heads of the newest mails."""
        imap = await self._servers.open_mailbox(self.answer_seconds)
        try:
            folder = await imap.select(self._folder)
            idles = "IDLE" in imap.abilities
            for uid in (await imap.search(f"UID {max(1, folder.next_uid - _RECENT)}:*"))[-_TRIED:]:
                heads.append(await imap.head(uid))
        finally:
            imap.close()
        how = "tells of new mail at once" if idles else f"is asked every {self._poll:.0f} s"
        return f"{self._servers.imap_host} lets {self._address} read; it {how}."

    async def _check_sending(self) -> str:
        client = await self._servers.open_smtp(self.answer_seconds)
        try:
            wants_login = client.supports_extension("auth")
        finally:
            drop(client)
        how = f"with {self._servers.proof}" if wants_login else "without asking for a password"
        return f"{self._servers.smtp_host} takes mail {how}."
