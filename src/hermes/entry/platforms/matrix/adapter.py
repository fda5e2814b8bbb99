"""The Matrix adapter: one account on one homeserver, through the Client-Server API over HTTP.

It asks for what is new since a point (`/sync`), stores it with the point after it, and asks from there, also
after a restart; where a room was too lively for one answer, the gap is read backwards. Each message goes out
under a transaction id made of its outbox key, so that the homeserver itself drops a second copy. What is not
done yet (an invitation that could not be accepted, a message whose key has not come) holds the stored point
back; what is told again then has the same delivery id."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Sequence
from typing import Any

from hermes.domain.chats.adapter import AdapterContext, Finding, good
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.chats.capabilities import Capabilities
from hermes.domain.chats.message import Attachment, Body, Inbound, Receipt
from hermes.domain.errors import NeedsLogin, Refused, Unreachable, UserError
from hermes.domain.ports.platform import Accept
from hermes.domain.ports.world import Sink
from hermes.domain.text import one_line
from hermes.domain.word import replace
from hermes.entry.kit.files import ANY_MIME, read_file
from hermes.entry.kit.payload import Recent, as_dicts, as_text, dig
from hermes.entry.kit.proxy import proxy_for
from hermes.entry.platforms.matrix import compose, convert, sync
from hermes.entry.platforms.matrix.api import MatrixClient, is_on, log_in, path, token_of
from hermes.entry.platforms.matrix.convert import ENCRYPTED, MESSAGE, REACTION, REDACTION
from hermes.entry.platforms.matrix.encryption import (
    Encryption,
    encrypted_rooms_finding,
    encryption_findings,
    read_mode,
)
from hermes.entry.platforms.matrix.manifest import MANIFEST
from hermes.entry.platforms.matrix.rooms import Invitations, Rooms
from hermes.entry.platforms.matrix.sync import MatrixIdentity

log = logging.getLogger("hermes.matrix")
_OPEN = (REACTION, REDACTION)
"""What is never encrypted."""
_HEARD = (MESSAGE, convert.STICKER, *convert.POLLS, *_OPEN)
_MOST_ALIVE = 2000
_TYPING_MS = 12_000
_SYNC_PATIENCE = 30.0
_FILE_BYTES = 100 * 1024 * 1024
_LIMITED_SECONDS = 300.0
_LIMITED_INTERVAL = 5.0
"""Synapse takes ten events of an account and then one in 5 s, edits and reactions too, over all its rooms
(`rc_message` in its config/ratelimiting.py)."""
UNREADABLE = "[A message that could not be decrypted: its key never came.]"
UNVERIFIED = (
    "[A message that could not be decrypted: its sender's program gives keys to verified devices only, and"
    " the device of this bot is not verified.]"
)
IN_THE_OPEN = (
    "<p>I cannot read encrypted rooms, so I do not know what you wrote to me there. Write to me here, where"
    " it is not encrypted, or have my operator switch encryption on.</p>"
)


class MatrixAdapter:
    answer_seconds = 30.0
    """How long an answer is waited for; a sync may take `sync_seconds` more."""
    sync_seconds = 30.0
    key_seconds = 300.0
    """How long the key of a message is waited for."""

    def __init__(self, context: AdapterContext) -> None:
        self._context = context
        address = context.setting("MATRIX_HOMESERVER")
        self._client = MatrixClient(address, proxy_for(context, "MATRIX_PROXY", address))
        self._client.token = token_of(context)
        self._client.limited = self._note_limit
        self._limited_until = float("-inf")
        self._mode, self._chosen = read_mode(context)
        self._lacking = "MATRIX_ENCRYPTION is off"
        """Why encrypted rooms are not read."""
        self._unread: set[str] = set()
        """The encrypted rooms in which somebody wrote what we cannot read."""
        self._withheld = 0
        self._answered: Recent[str, None] = Recent(_MOST_ALIVE)
        """People whom we told that we cannot read them."""
        is_on(context, "MATRIX_AUTO_THREAD")
        self._me: MatrixIdentity | None = None
        self._crypto: Encryption | None = None
        self._opening = asyncio.Lock()
        self._rooms = Rooms(self._client, self._decrypted)
        self._rooms.needs_encryption = self._mode == "required"
        self._alive: Recent[str, str] = Recent(_MOST_ALIVE)
        """Messages of ours that are there, and a digest of what they say, if that is certain."""
        self._reacted: Recent[str, str] = Recent(_MOST_ALIVE)
        """Of one that is forgotten the server is asked, should it be taken back after all."""
        self._locked: dict[str, tuple[str, dict[str, Any], float]] = {}
        """Events whose keys have not come: the room, the event, and until when it is waited for."""
        self._held: dict[str, str] = {}
        """The points at which rooms asked us in and locked events came, oldest first."""
        self._invitations = Invitations(context, self._client, self._rooms, self._held)

    @property
    def capabilities(self) -> Capabilities:
        if not self._is_limited:
            return MANIFEST.capabilities
        return replace(MANIFEST.capabilities, edit_interval=_LIMITED_INTERVAL)

    @property
    def _is_limited(self) -> bool:
        return self._context.clock.monotonic() < self._limited_until

    def _note_limit(self) -> None:
        self._limited_until = self._context.clock.monotonic() + _LIMITED_SECONDS

    def notice(self) -> str:
        if self._unread:
            count = "1 encrypted room" if len(self._unread) == 1 else f"{len(self._unread)} encrypted rooms"
            return f"{count} not read: {self._lacking}"
        if self._withheld and self._crypto is not None:
            count = "1 message" if self._withheld == 1 else f"{self._withheld} messages"
            return f"{count} without a key: {self._crypto.doubt or 'their senders withheld it'}"
        return "" if self._crypto is None else self._crypto.doubt

    # --- what comes in ---

    async def run(self, accept: Accept, cursor: str | None) -> None:
        try:
            me = await self._who()
            await accept((), None)
            since, _, user = (cursor or "").partition(" ")
            if not since or user != me.id:
                since = await self._begin(accept, me)
            while True:
                since = await self._step(accept, me, since)
        finally:
            await self._client.close()
            if self._crypto is not None:
                await self._crypto.close()
                self._crypto, self._me = None, None

    async def _begin(self, accept: Accept, me: MatrixIdentity) -> str:
        """Without a point to go on from it begins with now; invitations wait since whenever."""
        answer, since = await self._sync(None)
        await self._invitations.take(sync.invites_of(answer, me), me, "")
        await accept((), None if self._invitations else f"{since} {me.id}")
        return since

    async def _step(self, accept: Accept, me: MatrixIdentity, since: str) -> str:
        try:
            answer, after = await self._sync(since)
        except convert.NotUnderstood as error:
            log.warning("matrix.lost_place why=%s", error)
            return await self._begin(accept, me)
        moves = sync.moves_of(answer)
        for move in moves:
            self._rooms.replaced(move.instead_of, move.room)
        await self._invitations.take([*sync.invites_of(answer, me), *moves], me, since)
        items = await self._unlocked(me)
        for room in sync.left_rooms(answer):
            self._rooms.forget(room)
        for news in sync.news_of(answer):
            items += await self._items(news, me, since)
        point = next(iter(self._held.values()), after)
        if items or (after != since and point == after):
            await accept(items, f"{point} {me.id}" if point else None)
        else:
            await accept((), None)
        return after

    async def _sync(self, since: str | None) -> tuple[Any, str]:
        """What is new since a point, the keys in it taken out, and the point after it."""
        query = {"filter": sync.FILTER, "timeout": "0", "set_presence": "online"}
        wait = 0.0
        if since is not None:
            wait = 1.0 if self._invitations else self.sync_seconds
            query |= {"since": since, "timeout": str(int(wait * 1000))}
        seconds = wait + max(self.answer_seconds, _SYNC_PATIENCE)
        answer = await self._client.call("GET", "v3/sync", query=query, seconds=seconds)
        self._client.fresh = False
        after = sync.next_batch(answer)
        if after is None:
            raise Unreachable("The homeserver does not say where we are")
        if self._crypto is not None:
            await self._crypto.absorb(answer)
        return answer, after

    async def _items(self, news: sync.RoomUpdate, me: MatrixIdentity, since: str) -> list[Inbound]:
        events: Sequence[dict[str, Any]] = news.events
        try:
            if news.before is not None:
                gap = await self._rooms.gap(news.room, news.before, since, me)
                events = [*gap, *events]
            self._rooms.heed(news.room, (*news.state, *events))
            for event in events:
                if event.get("type") == REDACTION:
                    self._alive.pop(convert.redacted(event), None)
            return await self._converted(news.room, sync.since_joining(events, me), me, since)
        except Refused as error:
            # We were sent out of it meanwhile.
            log.info("matrix.room_closed why=%s", error)
            self._rooms.forget(news.room)
            return []

    async def _converted(
        self, room: str, events: Sequence[dict[str, Any]], me: MatrixIdentity, since: str | None = None
    ) -> list[Inbound]:
        """What these events mean. With `since` those that are locked are waited for."""
        items: list[Inbound] = []
        for event in events:
            clear = await self._decrypted(room, event)
            if clear is None and self._crypto is None and event["sender"] != me.id:
                await self._answer_openly(room, event["sender"], me)
            if clear is None:
                if since is not None and self._crypto is not None and event["sender"] != me.id:
                    until = self._context.clock.monotonic() + self.key_seconds
                    self._locked.setdefault(event["event_id"], (room, event, until))
                    self._held.setdefault(event["event_id"], since)
                continue
            self._rooms.keep(clear)
            if clear["sender"] == me.id or clear["type"] not in _HEARD:
                continue
            if self._mode == "required" and event["type"] != ENCRYPTED and clear["type"] not in _OPEN:
                log.warning("matrix.not_encrypted event=%s: it is not read", one_line(clear["event_id"]))
                continue
            mentioned = await self._rooms.mentioned(room, clear, me)
            meant = convert.to_inbounds(clear, await self._rooms.get(room), me, mentioned)
            items += meant
            if not meant:
                log.info("matrix.left_out event=%s type=%s", one_line(clear["event_id"]), clear["type"])
        return items

    # --- what is encrypted ---

    async def _decrypted(self, room: str, event: dict[str, Any]) -> dict[str, Any] | None:
        """The event as it can be read; None for one that cannot."""
        if event.get("type") != ENCRYPTED:
            return event
        if self._crypto is not None:
            return self._crypto.decrypt(room, event)
        log.warning("matrix.encrypted room=%s: nothing is read there; %s", one_line(room), self._lacking)
        self._unread.add(room)
        return None

    async def _answer_openly(self, room: str, person: str, me: MatrixIdentity) -> None:
        """Say once, in a direct chat that is not encrypted, that we cannot read what is."""
        if person in self._answered:
            return
        self._answered[person] = None
        key = f"{IN_THE_OPEN} {person}"
        place = Address(platform=convert.NAME, account=me.account, chat=room)
        source = Source(address=place, kind=SourceKind.PRIVATE, user=person)
        try:
            if not (await self._rooms.get(room)).private or not await self._context.welcomes(source):
                return
            # Who has left such a chat is not asked into another.
            chat = await self._rooms.plain_direct(person, me) or person
            to = Address(platform=convert.NAME, account=me.account, chat=chat)
            if await self.find_sent(to, key) is None:
                await self.send(to, Body(text=IN_THE_OPEN), key=key, reply_to=None)
        except (Refused, Unreachable) as error:
            log.info("matrix.not_told room=%s why=%s", one_line(room), error)
            if isinstance(error, Unreachable):
                self._answered.pop(person, None)

    async def _unlocked(self, me: MatrixIdentity) -> list[Inbound]:
        """Those of the locked events whose keys have come; and of those whose keys never came, that they are
        unreadable."""
        items: list[Inbound] = []
        for ref, (room, event, until) in list(self._locked.items()):
            assert self._crypto is not None
            clear = self._crypto.decrypt(room, event)
            withheld = clear is None and self._crypto.is_withheld(event)
            if clear is None and not withheld and self._context.clock.monotonic() < until:
                continue
            self._withheld += withheld
            try:
                if clear is not None:
                    items += await self._converted(room, [event], me)
                else:
                    log.warning("matrix.never_decrypted event=%s", one_line(ref))
                    why = UNVERIFIED if withheld else UNREADABLE
                    unread = {"type": MESSAGE, "content": {"msgtype": "m.text", "body": why}}
                    items += convert.to_inbounds({**event, **unread}, await self._rooms.get(room), me, {})
            except Refused as error:
                log.info("matrix.room_closed why=%s", error)
            del self._locked[ref], self._held[ref]
        return items

    async def _sealed(self, room: str, sort: str, content: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """The event as the room wants it: encrypted, where it is."""
        about = await self._rooms.get(room)
        if not about.encrypted:
            if self._mode == "required":
                raise Refused("the room is not encrypted, and MATRIX_ENCRYPTION is required")
            return sort, compose.fitted(content, compose.EVENT_BYTES)
        if self._crypto is None:
            raise Refused(f"the room is encrypted, and {self._lacking}")
        fitting = compose.fitted(content, compose.ENCRYPTED_BYTES)
        return await self._crypto.encrypt(about, sort, fitting)

    # --- what goes out ---

    async def send(self, to: Address, body: Body, *, key: str, reply_to: str | None) -> Receipt:
        me = await self._who()
        room = await self._rooms.find(to.chat, me)
        place, reply_to = await self._within(room, to, reply_to)
        ref, author = "", self._rooms.author(reply_to, me)
        parts: dict[str, Attachment | None] = {"text": None} if body.text or not body.attachments else {}
        parts |= {f"file {number}": file for number, file in enumerate(body.attachments, 1)}
        for name, file in parts.items():
            content = compose.message(body) if file is None else await self._uploaded(room, file)
            content = compose.related(content, place, reply_to, author, self._rooms.last_in(place.thread))
            mark = key if name == list(parts)[-1] else ""
            ref = await self._put(room, MESSAGE, content, compose.transaction(key, name), mark)
            reply_to = None
        self._alive[ref] = "" if body.attachments else compose.digest(body)
        await self._number(room, ref, len(body.buttons), key)
        return Receipt(to=replace(place, chat=room), ref=ref)

    async def _number(self, room: str, ref: str, buttons: int, key: str) -> None:
        """Numbers to react with."""
        for number, emoji in enumerate(convert.KEYS[:buttons]):
            txn = compose.transaction(key, f"key {number}")
            await self._put(room, REACTION, _annotation(ref, emoji), txn)

    async def find_sent(self, to: Address, key: str) -> Receipt | None:
        """The last event of what was sent under a key carries it."""
        me = await self._who()
        room, mark = await self._rooms.find(to.chat, me), compose.transaction(key)
        async for event in self._rooms.own(room, me):
            if event.get("sender") != me.id or event["content"].get(compose.SENT) != mark:
                continue
            clear = await self._decrypted(room, event) or event
            buttons = clear["content"].get(convert.BUTTONS)
            await self._number(room, event["event_id"], len(buttons) if isinstance(buttons, list) else 0, key)
            return Receipt(to=replace(to, chat=room), ref=event["event_id"])
        return None

    async def _within(self, room: str, to: Address, reply_to: str | None) -> tuple[Address, str | None]:
        """The thread and the message to answer, where the room has them: those of the room before it stay
        there."""
        if room == to.chat or not to.chat.startswith("!"):
            return to, reply_to
        thread, answered = to.thread, reply_to
        if thread is not None and thread.startswith("$") and not await self._rooms.has(room, thread):
            thread = None
        if answered is not None and not await self._rooms.has(room, answered):
            answered = None
        return replace(to, thread=thread), answered

    async def _uploaded(self, room: str, file: Attachment) -> dict[str, Any]:
        data = await read_file(self._context, file)
        size, mime = len(data), file.mime or ANY_MIME
        if self._crypto is None or not (await self._rooms.get(room)).encrypted:
            url = await self._client.upload(data, file.name or "file", mime)
            return compose.file(file, size, {"url": url})
        data, keys = await self._crypto.lock_file(data)
        url = await self._client.upload(data, "file", ANY_MIME)
        return compose.file(file, size, {"file": {"url": url, **keys}})

    async def _put(self, room: str, sort: str, content: dict[str, Any], txn: str, mark: str = "") -> str:
        if sort != REACTION:
            sort, content = await self._sealed(room, sort, content)
        if mark:
            content = {**content, compose.SENT: compose.transaction(mark)}
        answer = await self._client.call("PUT", f"v3/{path('rooms', room, 'send', sort, txn)}", content)
        ref = as_text(dig(answer, "event_id"))
        if not ref:
            raise Unreachable("The homeserver does not say which event it made", maybe_done=True)
        return ref

    async def edit(self, receipt: Receipt, body: Body) -> None:
        room = receipt.to.chat
        if await self._rooms.after(room):
            raise Refused("that message is in a room that was replaced")
        if receipt.ref not in self._alive and await self._rooms.event(room, receipt.ref) is None:
            # The homeserver would take a replacement of what is gone, and show it to nobody.
            raise Refused("that message is gone")
        if self._alive.get(receipt.ref) == (says := compose.digest(body)):
            return
        self._alive[receipt.ref] = ""
        content = compose.edit(receipt.ref, body)
        # The same words may come back later: an edit is not known by them, and may be repeated.
        txn = compose.transaction(receipt.ref, secrets.token_hex(8))
        await self._put(room, MESSAGE, content, txn)
        self._alive[receipt.ref] = says

    async def delete(self, receipt: Receipt) -> None:
        self._alive.pop(receipt.ref, None)
        await self._redact(receipt.to.chat, receipt.ref)

    async def _redact(self, room: str, ref: str) -> None:
        where = path("rooms", room, "redact", ref, compose.transaction("redact", ref))
        await self._client.call("PUT", f"v3/{where}", {})

    async def typing(self, to: Address) -> None:
        me = await self._who()
        room = await self._rooms.find(to.chat, me)
        await self._client.call(
            "PUT", f"v3/{path('rooms', room, 'typing', me.id)}", {"typing": True, "timeout": _TYPING_MS}
        )

    async def react(self, receipt: Receipt, emoji: str, *, instead: str = "") -> None:
        """One reaction of ours at a time. While the homeserver wants us to be slower, they are only removed:
        messages need what it takes."""
        if self._is_limited and not instead:
            raise Unreachable("The homeserver takes little now, and messages come first")
        room, ref = await self._rooms.newest(receipt.to.chat), receipt.ref
        before = self._reacted.get(ref)
        if before is None and instead:
            before = await self._own_reaction(room, ref)
        if before is not None:
            await self._redact(room, before)
            self._reacted.pop(ref, None)
        if emoji and not self._is_limited:
            txn = compose.transaction("react", ref, secrets.token_hex(8))
            self._reacted[ref] = await self._put(room, REACTION, _annotation(ref, emoji), txn)

    async def _own_reaction(self, room: str, ref: str) -> str | None:
        me = await self._who()
        where = path("rooms", room, "relations", ref, "m.annotation", REACTION)
        reactions = as_dicts(dig(await self._client.call("GET", f"v1/{where}"), "chunk"))
        mine = [as_text(event.get("event_id")) for event in reactions if event.get("sender") == me.id]
        return (mine[0] or None) if mine else None

    async def open_thread(self, parent: Address, name: str) -> Address:
        """A thread begins with a message; this one says what it is about."""
        room = await self._rooms.find(parent.chat, await self._who())
        content = compose.message(Body(text=f"<p>{one_line(name, 128) or '…'}</p>"))
        ref = await self._put(room, MESSAGE, content, compose.transaction("thread", secrets.token_hex(16)))
        return replace(parent, chat=room, thread=ref)

    async def fetch(self, ref: str, sink: Sink) -> None:
        server, media, secret = convert.file_place(ref)
        await self._who()
        if secret is None:
            await self._client.fetch(server, media, sink)
            return
        if self._crypto is None:
            raise Refused(f"the file is encrypted, and {self._lacking}")
        data = bytearray()

        async def gather(piece: bytes) -> None:
            data.extend(piece)
            if len(data) > _FILE_BYTES:
                raise Refused("the file is too large to be decrypted")

        await self._client.fetch(server, media, gather)
        await sink(await self._crypto.open_file(bytes(data), secret))

    # --- who we are ---

    async def _who(self) -> MatrixIdentity:
        async with self._opening:
            if self._me is None:
                self._client.answer_seconds = self.answer_seconds
                me = await log_in(self._client, self._context)
                self._crypto = await self._open_encryption(me)
                self._rooms.encrypts = self._crypto is not None
                self._me = me
            return self._me

    async def _open_encryption(self, me: MatrixIdentity) -> Encryption | None:
        """None where it is off, or is not to be had and nobody asked for it."""
        if self._mode == "off":
            return None
        recovery = self._context.setting("MATRIX_RECOVERY_KEY")
        try:
            return await Encryption.open(self._client, me, self._context.folder, recovery)
        except (NeedsLogin, Refused, UserError) as error:
            if self._chosen:
                raise
            self._lacking = one_line(str(error), 300)
            log.warning("matrix.no_encryption why=%s", self._lacking)
            return None

    async def check(self) -> Sequence[Finding]:
        self._client.answer_seconds = self.answer_seconds
        try:
            me = await log_in(self._client, self._context)
            answer = await self._client.call("GET", "v3/joined_rooms")
            encryption = await encryption_findings(
                self._mode, self._client, me, self._context, chosen=self._chosen
            )
            joined = dig(answer, "joined_rooms")
            rooms = [room for room in joined if sync.is_id(room, "!")] if isinstance(joined, list) else []
            if self._mode == "off" or len(encryption) == 1:
                chosen = self._chosen and self._mode == "off"
                encryption += await encrypted_rooms_finding(self._rooms, rooms, chosen=chosen)
        finally:
            await self._client.close()
        count = len(rooms)
        findings = [good(f"The homeserver knows the account as {me.id}, in {count} rooms.")]
        if not count:
            hint = "Invite it to a room, or begin a direct chat with it, while the gateway runs."
            findings.append(good("It is in no room yet.", hint))
        return [*findings, *encryption]


def _annotation(ref: str, key: str) -> dict[str, Any]:
    return {"m.relates_to": {"rel_type": "m.annotation", "event_id": ref, "key": key}}
