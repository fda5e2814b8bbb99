"""What the adapter knows of rooms and of events in them, for as long as it is connected: asked for once it is
needed, and again when the homeserver says that it changed. And which rooms it joins."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.errors import Refused, Unreachable, UserError
from hermes.domain.text import one_line
from hermes.entry.kit.payload import Recent, as_dict, as_text, dig
from hermes.entry.platforms.matrix import convert, sync
from hermes.entry.platforms.matrix.api import MatrixClient, path
from hermes.entry.platforms.matrix.convert import Event, Events, Room
from hermes.entry.platforms.matrix.sync import MatrixIdentity

log = logging.getLogger("hermes.matrix")
ENCRYPTION = "m.room.encryption"
_STATE = frozenset({sync.MEMBER, "m.room.name", ENCRYPTION})
_MOST_EVENTS = 1000
_MOST_ROOMS = 2000
_PAGE = "100"
_PAGES = 100
_LOOKED_THROUGH = 2
_MOVES = 20
_ASK_AGAIN = 30.0
_INVITE_RULES = ("allowed", "everyone", "nobody")
_INVITE_TRIES = 20

Decrypt = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any] | None]]


class RoomNotJoined(Unreachable):
    """A conversation has gone on to a room that we are not in yet."""


class Rooms:
    def __init__(self, client: MatrixClient, decrypt: Decrypt) -> None:
        self._client = client
        self._decrypt = decrypt
        self.encrypts, self.needs_encryption = False, False
        """Whether we can write in encrypted rooms, and whether we do in no others."""
        self._rooms: Recent[str, Room] = Recent(_MOST_ROOMS)
        self._after: dict[str, str] = {}
        self._claims: dict[str, str] = {}
        self._events: Recent[str, dict[str, Any]] = Recent(_MOST_EVENTS)
        self._last_in: Recent[str, str] = Recent(_MOST_EVENTS)
        """The latest event of threads."""
        self._named: dict[str, str] = {}

    # --- rooms ---

    async def get(self, room: str) -> Room:
        if room not in self._rooms:
            self._rooms[room] = await self._asked(room)
        return self._rooms[room]

    async def _asked(self, room: str) -> Room:
        answer, named, encrypted, before = await asyncio.gather(
            self._client.call("GET", f"v3/{path('rooms', room, 'joined_members')}"),
            self._state(room, "m.room.name"),
            self.is_encrypted(room),
            self._before(room),
        )
        joined = as_dict(dig(answer, "joined"))
        return Room(
            id=room,
            members={user: str(dig(about, "display_name") or "") for user, about in joined.items()},
            name=as_text(named.get("name")),
            encrypted=encrypted,
            before=before,
            first=await self._first(room, before),
        )

    async def _state(self, room: str, sort: str, key: str = "") -> dict[str, Any]:
        try:
            where = f"v3/{path('rooms', room, 'state', sort)}/{path(key)}"
            return as_dict(await self._client.call("GET", where))
        except Refused:
            return {}

    async def is_encrypted(self, room: str) -> bool:
        return "algorithm" in await self._state(room, ENCRYPTION)

    def forget(self, room: str) -> None:
        self._rooms.pop(room, None)

    # --- rooms that took the place of others ---

    def replaced(self, room: str, after: str) -> None:
        """Take note that another room is said to take this one's place."""
        self._after[room] = after
        self.forget(after)

    async def after(self, room: str) -> str:
        """The room that is said to take this one's place, if there is one."""
        if room not in self._after:
            self._after[room] = sync.replacement(await self._state(room, sync.TOMBSTONE))
        return self._after[room]

    async def _before(self, room: str) -> str:
        """The room whose place this one claims to take; that never changes."""
        if room not in self._claims:
            created = await self._state(room, sync.CREATE)
            if not created:
                return ""
            self._claims[room] = sync.predecessor(created)
        return self._claims[room]

    async def _first(self, room: str, before: str) -> str:
        """Where the conversation began that goes on in a room. Everybody can make a room that claims to go on
        with another; so the other has to say so, too."""
        for _ in range(_MOVES):
            if not before or await self.after(before) != room:
                break
            room, before = before, await self._before(before)
        return room

    async def newest(self, room: str) -> str:
        """Where a conversation is now: in the room itself, or in that which took its place."""
        for _ in range(_MOVES):
            after = await self.after(room)
            if not after:
                break
            try:
                before = (await self.get(after)).before
            except Refused:
                if self._claims.get(after, room) == room:
                    why = f"the room was replaced by {after}, where we are not: invite us there"
                    raise RoomNotJoined(why, after=_ASK_AGAIN) from None
                before = ""
            if before != room:
                raise Refused(f"the room is closed: it names {after}, which does not go on with it")
            room = after
        return room

    def heed(self, room: str, events: Sequence[Mapping[str, Any]]) -> None:
        """Take note of what these events change."""
        if any(event.get("type") in _STATE and self._changes(room, event) for event in events):
            self.forget(room)
        for event in events:
            if event.get("type") == convert.REDACTION:
                self._events.pop(convert.redacted(event), None)

    def _changes(self, room: str, event: Mapping[str, Any]) -> bool:
        """Whether a state is another than we know. Members are told again with what they say first."""
        if "state_key" not in event:
            return False
        members = self._rooms[room].members if room in self._rooms else {}
        content, who = as_dict(event.get("content")), event["state_key"]
        same = content.get("membership") == "join" and str(content.get("displayname") or "") == members.get(
            who
        )
        return not (event.get("type") == sync.MEMBER and same)

    async def find(self, to: str, me: MatrixIdentity) -> str:
        """The room that an address means: itself, one with this alias, or the direct chat with a person; and
        if another one took its place, that one."""
        if to.startswith("!"):
            return await self.newest(to)
        if to not in self._named:
            if to.startswith("#"):
                answer = await self._client.call("GET", f"v3/directory/room/{path(to)}")
                self._named[to] = _room_id(answer)
            elif to.startswith("@") and ":" in to:
                self._named[to] = await self._direct(to, me)
            else:
                raise Refused("that is no room: its id is wanted (!…:server), an alias (#…) or a person (@…)")
        return await self.newest(self._named[to])

    async def _direct(self, person: str, me: MatrixIdentity) -> str:
        """The direct chat with a person, also one that they have not entered yet; or a new one, encrypted if
        we can."""
        for listed in reversed((await self._directs(me)).get(person, [])):
            try:
                room = await self.newest(listed)
                about = await self.get(room)
                usable = self.encrypts if about.encrypted else not self.needs_encryption
                if usable and (person in about.members or await self._is_invited(room, person)):
                    return room
            except (Refused, RoomNotJoined):
                continue
        asked: dict[str, Any] = {"preset": "trusted_private_chat", "is_direct": True, "invite": [person]}
        if self.encrypts:
            algorithm = {"algorithm": "m.megolm.v1.aes-sha2"}
            asked["initial_state"] = [{"type": ENCRYPTION, "state_key": "", "content": algorithm}]
        room = _room_id(await self._client.call("POST", "v3/createRoom", asked))
        await self.mark_direct(room, person, me)
        return room

    async def plain_direct(self, person: str, me: MatrixIdentity) -> str | None:
        """A direct chat with a person that is not encrypted, also if they have left it."""
        for room in reversed((await self._directs(me)).get(person, [])):
            with contextlib.suppress(Refused):
                if not (await self.get(room)).encrypted:
                    return room
        return None

    async def _is_invited(self, room: str, person: str) -> bool:
        return (await self._state(room, sync.MEMBER, person)).get("membership") == "invite"

    async def mark_direct(self, room: str, person: str, me: MatrixIdentity) -> None:
        """Put a room on our list of direct chats, where other programs of this account look, too."""
        chats = await self._directs(me)
        if room not in chats.get(person, []):
            chats[person] = [*chats.get(person, []), room]
            await self._client.call("PUT", _directs_path(me), chats)

    async def _directs(self, me: MatrixIdentity) -> dict[str, list[str]]:
        try:
            return sync.direct_chats(await self._client.call("GET", _directs_path(me)))
        except Refused:
            return {}

    # --- events ---

    async def gap(self, room: str, before: str, since: str, me: MatrixIdentity) -> list[dict[str, Any]]:
        """What a sync left out: the events between the last one and this, oldest first, and nothing from
        long before we were asked in."""
        gap: list[dict[str, Any]] = []
        async for events in self._pages(room, _PAGES, {"from": before, "to": since}):
            gap += events
            if any(not sync.since_joining([event], me) for event in events):
                break
        return gap[::-1]

    async def own(self, room: str, me: MatrixIdentity) -> AsyncIterator[dict[str, Any]]:
        """The messages that we sent last, latest first."""
        wanted = {"senders": [me.id], "types": [convert.MESSAGE, convert.ENCRYPTED]}
        async for events in self._pages(room, _LOOKED_THROUGH, {"filter": json.dumps(wanted)}):
            for event in events:
                if isinstance(event.get("content"), dict):
                    yield event

    async def _pages(
        self, room: str, most: int, query: Mapping[str, str]
    ) -> AsyncIterator[tuple[dict[str, Any], ...]]:
        """A room's history backwards, page by page."""
        asked = {"dir": "b", "limit": _PAGE, **query}
        for _ in range(most):
            answer = await self._client.call("GET", f"v3/{path('rooms', room, 'messages')}", query=asked)
            page = dig(answer, "chunk")
            if not isinstance(page, list):
                raise Unreachable("The homeserver's history cannot be read")
            yield sync.readable(page)
            end = as_text(answer.get("end"))
            if not page or not end or end == asked.get("from"):
                return
            asked["from"] = end

    def keep(self, event: dict[str, Any]) -> None:
        self._events[event["event_id"]] = event
        if thread := convert.thread_of(event):
            self._last_in[thread] = event["event_id"]

    def last_in(self, thread: str | None) -> str | None:
        """The latest event of a thread, as far as we have seen it."""
        return self._last_in.get(thread or "")

    def author(self, ref: str | None, me: MatrixIdentity) -> str | None:
        """Who sent an event, if it is among the latest and not our own."""
        sender = self._events.get(ref or "", {}).get("sender")
        return None if sender == me.id else sender

    async def mentioned(self, room: str, event: Event, me: MatrixIdentity) -> Events:
        """The events that this one mentions, as far as they are to be had."""
        mentioned = {}
        for ref in convert.mentioned_events(event):
            known = self._events.get(ref)
            # What a reaction to an event of ours means is said by the event as it is now.
            if known is None or (event.get("type") == convert.REACTION and known.get("sender") == me.id):
                known = await self.event(room, ref)
            if known is not None:
                mentioned[ref] = known
        return mentioned

    async def has(self, room: str, ref: str) -> bool:
        try:
            await self._client.call("GET", f"v3/{path('rooms', room, 'event', ref)}")
        except Refused:
            return False
        return True

    async def event(self, room: str, ref: str) -> dict[str, Any] | None:
        """An event as the homeserver has it now; None if it is not to be had or was deleted."""
        try:
            event = await self._client.call("GET", f"v3/{path('rooms', room, 'event', ref)}")
        except Refused:
            return None
        if not sync.readable([event]) or "redacted_because" in as_dict(event.get("unsigned")):
            return None
        clear = await self._decrypt(room, event)
        if clear is not None:
            self.keep(clear)
        return clear


def _directs_path(me: MatrixIdentity) -> str:
    return f"v3/{path('user', me.id, 'account_data', 'm.direct')}"


def _room_id(answer: Any) -> str:
    room = as_text(dig(answer, "room_id"))
    if not room.startswith("!"):
        raise Unreachable("The homeserver does not say which room it is", maybe_done=True)
    return room


class Invitations:
    """The rooms that we are asked into, and those that take the place of one we are in: joined, or ignored.
    One that cannot be joined yet is tried again; until then its point holds the stored one back."""

    def __init__(
        self, context: AdapterContext, client: MatrixClient, rooms: Rooms, held: dict[str, str]
    ) -> None:
        self._rule = context.setting("MATRIX_INVITES", "allowed").lower()
        if self._rule not in _INVITE_RULES:
            raise UserError("MATRIX_INVITES is neither allowed, everyone nor nobody.")
        self._welcomes = context.welcomes
        self._client = client
        self._rooms = rooms
        self._held = held
        self._open: dict[str, tuple[sync.Invite, int]] = {}

    def __bool__(self) -> bool:
        """Whether some wait to be tried again."""
        return bool(self._open)

    async def take(self, invites: Sequence[sync.Invite], me: MatrixIdentity, since: str) -> None:
        for invite in invites:
            self._open.setdefault(invite.room, (invite, 0))
            self._held.setdefault(invite.room, since)
        for room, (invite, tries) in list(self._open.items()):
            try:
                await self._answer(invite, me)
            except Unreachable as error:
                log.info("matrix.invite_later room=%s why=%s", one_line(room), error)
                self._open[room] = (invite, tries + 1)
                if tries + 1 < _INVITE_TRIES:
                    continue
                log.warning("matrix.invite_lost room=%s: it must be sent again", one_line(room))
            except Refused as error:
                log.warning("matrix.invite_failed room=%s why=%s", one_line(room), error)
            del self._open[room], self._held[room]

    async def _answer(self, invite: sync.Invite, me: MatrixIdentity) -> None:
        """Go where somebody asks us to who may speak there, and where a room goes on that we are in."""
        follows = await self._follows(invite, me)
        if not follows and (invite.moved or not await self._is_welcome(invite, me)):
            log.info("matrix.invite_ignored from=%s", one_line(invite.sender))
            return
        # A homeserver that is not in the room yet has to know one that is.
        server = invite.sender.partition(":")[2]
        via = {"via": server, "server_name": server} if server else None
        await self._client.call("POST", f"v3/{path('join', invite.room)}", {}, query=via)
        log.info("matrix.joined from=%s direct=%s moved=%s", one_line(invite.sender), invite.direct, follows)
        if follows and (await self._rooms.get(invite.room)).before != invite.instead_of:
            # Who may close a room could send us anywhere by it.
            await self._client.call("POST", f"v3/{path('rooms', invite.room, 'leave')}", {})
            log.warning("matrix.left room=%s: it does not go on with ours", one_line(invite.room))
        elif invite.direct:
            await self._rooms.mark_direct(invite.room, invite.sender, me)

    async def _follows(self, invite: sync.Invite, me: MatrixIdentity) -> bool:
        """Whether the room takes the place of one we are in, as those say who rule there."""
        if self._rule == "nobody" or not invite.instead_of:
            return False
        try:
            before = await self._rooms.get(invite.instead_of)
            return me.id in before.members and await self._rooms.after(before.id) == invite.room
        except Refused:
            return False

    async def _is_welcome(self, invite: sync.Invite, me: MatrixIdentity) -> bool:
        if self._rule != "allowed":
            return self._rule == "everyone"
        address = Address(platform=convert.NAME, account=me.account, chat=invite.room)
        kind = SourceKind.PRIVATE if invite.direct else SourceKind.GROUP
        return await self._welcomes(Source(address=address, kind=kind, user=invite.sender))
