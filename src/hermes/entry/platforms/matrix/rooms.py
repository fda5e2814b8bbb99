"""What the adapter knows of rooms and of events in them, for as long as it is connected: asked for once it is
needed, and again when the homeserver says that it changed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

from hermes.domain.errors import Refused, Unreachable
from hermes.entry.kit.payload import Recent, as_dict, as_text, dig
from hermes.entry.platforms.matrix.client import MatrixClient, path
from hermes.entry.platforms.matrix.convert import (
    ENCRYPTED,
    MESSAGE,
    REACTION,
    REDACTION,
    Room,
    mentioned_events,
    redacted,
)
from hermes.entry.platforms.matrix.sync import (
    CREATE,
    MEMBER,
    TOMBSTONE,
    MatrixIdentity,
    direct_chats,
    predecessor,
    readable,
    replacement,
)

_STATE = frozenset({MEMBER, "m.room.name", "m.room.encryption"})
_MOST_EVENTS = 1000
_MOST_ROOMS = 2000
_PAGE = "100"
_PAGES = 100
_LOOKED_THROUGH = 2
_MOVES = 20
_ASK_AGAIN = 30.0

Decrypt = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any] | None]]


class RoomNotJoined(Unreachable):
    """A conversation has gone on to a room that we are not in yet."""


class Rooms:
    def __init__(self, client: MatrixClient, decrypt: Decrypt) -> None:
        self._client = client
        self._decrypt = decrypt
        self._rooms: Recent[str, Room] = Recent(_MOST_ROOMS)
        self._after: dict[str, str] = {}
        self._claims: dict[str, str] = {}
        self._events: Recent[str, dict[str, Any]] = Recent(_MOST_EVENTS)
        self._named: dict[str, str] = {}

    # --- rooms ---

    async def get(self, room: str) -> Room:
        if room not in self._rooms:
            self._rooms[room] = await self._asked(room)
        return self._rooms[room]

    async def _asked(self, room: str) -> Room:
        told, named, encryption, before = await asyncio.gather(
            self._client.call("GET", f"v3/{path('rooms', room, 'joined_members')}"),
            self._state(room, "m.room.name"),
            self._state(room, "m.room.encryption"),
            self._before(room),
        )
        joined = as_dict(dig(told, "joined"))
        return Room(
            id=room,
            members={user: str(dig(about, "display_name") or "") for user, about in joined.items()},
            name=as_text(named.get("name")),
            encrypted="algorithm" in encryption,
            before=before,
            first=await self._first(room, before),
        )

    async def _state(self, room: str, sort: str) -> dict[str, Any]:
        try:
            return as_dict(await self._client.call("GET", f"v3/{path('rooms', room, 'state', sort)}/"))
        except Refused:
            return {}

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
            self._after[room] = replacement(await self._state(room, TOMBSTONE))
        return self._after[room]

    async def _before(self, room: str) -> str:
        """The room whose place this one claims to take; that never changes."""
        if room not in self._claims:
            created = await self._state(room, CREATE)
            if not created:
                return ""
            self._claims[room] = predecessor(created)
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

    async def goes_on_with(self, room: str, before: str, me: MatrixIdentity) -> bool:
        """Whether a room takes the place of one that we are in, by what is said in that one."""
        try:
            return me.id in (await self.get(before)).members and await self.after(before) == room
        except Refused:
            return False

    def heed(self, room: str, events: Sequence[Mapping[str, Any]]) -> None:
        """Take note of what these events change."""
        if any(event.get("type") in _STATE and "state_key" in event for event in events):
            self.forget(room)
        for event in events:
            if event.get("type") == REDACTION:
                self._events.pop(redacted(event), None)

    async def find(self, to: str, me: MatrixIdentity) -> str:
        """The room that an address means: itself, one with this alias, or the direct chat with a person; and
        if another one took its place, that one."""
        if to.startswith("!"):
            return await self.newest(to)
        if to not in self._named:
            if to.startswith("#"):
                told = await self._client.call("GET", f"v3/directory/room/{path(to)}")
                self._named[to] = _room_id(told)
            elif to.startswith("@") and ":" in to:
                self._named[to] = await self._direct(to, me)
            else:
                raise Refused("that is no room: its id is wanted (!…:server), an alias (#…) or a person (@…)")
        return await self.newest(self._named[to])

    async def _direct(self, person: str, me: MatrixIdentity) -> str:
        where = f"v3/{path('user', me.id, 'account_data', 'm.direct')}"
        for listed in reversed((await self._directs(where)).get(person, [])):
            try:
                room = await self.newest(listed)
                if person in (await self.get(room)).members:
                    return room
            except (Refused, RoomNotJoined):
                continue
        told = await self._client.call(
            "POST",
            "v3/createRoom",
            {"preset": "trusted_private_chat", "is_direct": True, "invite": [person]},
        )
        room = _room_id(told)
        await self.mark_direct(room, person, me)
        return room

    async def mark_direct(self, room: str, person: str, me: MatrixIdentity) -> None:
        """Put a room on our list of direct chats, where other programs of this account look, too."""
        where = f"v3/{path('user', me.id, 'account_data', 'm.direct')}"
        chats = await self._directs(where)
        if room not in chats.get(person, []):
            chats[person] = [*chats.get(person, []), room]
            await self._client.call("PUT", where, chats)

    async def _directs(self, where: str) -> dict[str, list[str]]:
        try:
            return direct_chats(await self._client.call("GET", where))
        except Refused:
            return {}

    # --- events ---

    async def gap(self, room: str, before: str, since: str, until: Callable[[Any], bool]) -> list[Any]:
        """What a sync left out: the events between the last one and this, oldest first. `until` says where
        nothing older is wanted."""
        found: list[dict[str, Any]] = []
        async for events in self._pages(room, _PAGES, {"from": before, "to": since}):
            found += events
            if any(map(until, events)):
                break
        return found[::-1]

    async def own(self, room: str, me: MatrixIdentity) -> AsyncIterator[dict[str, Any]]:
        """The messages that we sent last, latest first."""
        wanted = {"senders": [me.id], "types": [MESSAGE, ENCRYPTED]}
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
            told = await self._client.call("GET", f"v3/{path('rooms', room, 'messages')}", query=asked)
            page = dig(told, "chunk")
            if not isinstance(page, list):
                raise Unreachable("The homeserver's history cannot be read")
            yield readable(page)
            end = as_text(told.get("end"))
            if not page or not end or end == asked.get("from"):
                return
            asked["from"] = end

    def keep(self, event: dict[str, Any]) -> None:
        self._events[event["event_id"]] = event

    def author(self, ref: str | None, me: MatrixIdentity) -> str | None:
        """Who sent an event, if it is among the latest and not our own."""
        sender = self._events.get(ref or "", {}).get("sender")
        return None if sender == me.id else sender

    async def mentioned(
        self, room: str, event: Mapping[str, Any], me: MatrixIdentity
    ) -> dict[str, Mapping[str, Any]]:
        """The events that this one mentions, as far as they are to be had."""
        found: dict[str, Mapping[str, Any]] = {}
        for ref in mentioned_events(event):
            one = self._events.get(ref)
            # What a reaction to an event of ours means is said by the event as it is now.
            if one is None or (event.get("type") == REACTION and one.get("sender") == me.id):
                one = await self.event(room, ref)
            if one is not None:
                found[ref] = one
        return found

    async def has(self, room: str, ref: str) -> bool:
        try:
            await self._client.call("GET", f"v3/{path('rooms', room, 'event', ref)}")
        except Refused:
            return False
        return True

    async def event(self, room: str, ref: str) -> dict[str, Any] | None:
        """An event as the homeserver has it now; None if it is not to be had or was deleted."""
        try:
            told = await self._client.call("GET", f"v3/{path('rooms', room, 'event', ref)}")
        except Refused:
            return None
        if not readable([told]):
            return None
        if "redacted_because" in as_dict(told.get("unsigned")):
            return None
        clear = await self._decrypt(room, told)
        if clear is not None:
            self.keep(clear)
        return clear


SYNC_FILTER = json.dumps(
    {
        "presence": {"types": []},
        "account_data": {"types": []},
        "room": {
            "account_data": {"types": []},
            "ephemeral": {"types": []},
            "state": {"lazy_load_members": True},
            "timeline": {"limit": 50},
        },
    },
    separators=(",", ":"),
)


def _room_id(answer: Any) -> str:
    room = as_text(dig(answer, "room_id"))
    if not room.startswith("!"):
        raise Unreachable("The homeserver does not say which room it is", maybe_done=True)
    return room
