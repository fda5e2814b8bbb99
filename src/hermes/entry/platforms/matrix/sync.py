"""What a sync tells: the rooms in which something happened, those that we are asked into, those that another
one takes the place of. Pure functions; what cannot be read is left out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from hermes.domain.chats.address import DEFAULT_ACCOUNT
from hermes.domain.text import storable
from hermes.entry.kit.payload import as_dict, as_dicts, as_text, dig

MEMBER, CREATE, TOMBSTONE = "m.room.member", "m.room.create", "m.room.tombstone"
_NOTHING: dict[str, Any] = {"types": []}
_OF_ROOMS = {
    "account_data": _NOTHING,
    "ephemeral": _NOTHING,
    "state": {"lazy_load_members": True},
    "timeline": {"limit": 50},
}
FILTER = json.dumps(
    {"presence": _NOTHING, "account_data": _NOTHING, "room": _OF_ROOMS}, separators=(",", ":")
)


class MatrixIdentity(Struct, frozen=True, kw_only=True):
    """Who the bot is; `account` is how the operator calls it. With `threads` who mentions it in a room is
    answered in a thread that begins there."""

    id: str
    name: str = ""
    device: str = ""
    account: str = DEFAULT_ACCOUNT
    threads: bool = False


class RoomUpdate(Struct, frozen=True, kw_only=True):
    """What a sync tells of one room; if it has a gap, `before` is where it can be read backwards."""

    room: str
    events: tuple[dict[str, Any], ...]
    state: tuple[dict[str, Any], ...] = ()
    before: str | None = None


class Invite(Struct, frozen=True, kw_only=True):
    """A room that we are asked into, or, if `moved`, that is said to take the place of one we are in."""

    room: str
    sender: str
    direct: bool = False
    instead_of: str = ""
    moved: bool = False


def next_batch(answer: Any) -> str | None:
    batch = as_text(dig(answer, "next_batch"))
    return batch if batch and storable(batch) == batch else None


def news_of(answer: Any) -> list[RoomUpdate]:
    """The joined rooms of a sync in which something happened."""
    updates = []
    for room, about in _rooms(answer, "join"):
        timeline = as_dict(about.get("timeline"))
        before = timeline.get("prev_batch") if timeline.get("limited") is True else None
        updates.append(
            RoomUpdate(
                room=room,
                events=readable(timeline.get("events")),
                state=readable(dig(about, "state", "events")),
                before=as_text(before) or None,
            )
        )
    return updates


def left_rooms(answer: Any) -> list[str]:
    return [room for room, _ in _rooms(answer, "leave")]


def invites_of(answer: Any, me: MatrixIdentity) -> list[Invite]:
    invites = []
    for room, about in _rooms(answer, "invite"):
        events = as_dicts(dig(about, "invite_state", "events"))
        before = [predecessor(event.get("content")) for event in events if event.get("type") == CREATE]
        for event in events:
            content = as_dict(event.get("content"))
            ours = event.get("type") == MEMBER and event.get("state_key") == me.id
            if ours and content.get("membership") == "invite" and is_id(event.get("sender"), "@"):
                direct, instead = content.get("is_direct") is True, "".join(before[:1])
                invites.append(Invite(room=room, sender=event["sender"], direct=direct, instead_of=instead))
    return invites


def moves_of(answer: Any) -> list[Invite]:
    """The rooms that, as a sync tells, take the place of joined ones."""
    moves = []
    for news in news_of(answer):
        for event in (*news.state, *news.events):
            after = replacement(event.get("content"))
            if event["type"] == TOMBSTONE and event.get("state_key") == "" and after not in ("", news.room):
                moves.append(Invite(room=after, sender=event["sender"], instead_of=news.room, moved=True))
    return moves


def replacement(tombstone: Any) -> str:
    """The room that a tombstone's content names."""
    after = dig(tombstone, "replacement_room")
    return str(after) if is_id(after, "!") else ""


def predecessor(create: Any) -> str:
    """The room that, by the content of its first event, a room takes the place of."""
    before = dig(create, "predecessor", "room_id")
    return str(before) if is_id(before, "!") else ""


def direct_chats(content: Any) -> dict[str, list[str]]:
    """Our list of direct chats (`m.direct`): a person's rooms."""
    return {
        person: [room for room in rooms if is_id(room, "!")]
        for person, rooms in as_dict(content).items()
        if is_id(person, "@") and isinstance(rooms, list)
    }


def readable(events: Any) -> tuple[dict[str, Any], ...]:
    """Those events that have an id, a kind and a sender."""
    typed = (event for event in as_dicts(events) if as_text(event.get("type")))
    return tuple(
        event for event in typed if is_id(event.get("event_id"), "$") and is_id(event.get("sender"), "@")
    )


def since_joining(events: Sequence[dict[str, Any]], me: MatrixIdentity) -> Sequence[dict[str, Any]]:
    """Without what was said before we were asked in (or came, where nobody asked us)."""
    for membership in ("invite", "join"):
        for place in range(len(events) - 1, -1, -1):
            if _is_ours(events[place], me, membership):
                return events[place + 1 :]
    return events


def _is_ours(event: Mapping[str, Any], me: MatrixIdentity, membership: str) -> bool:
    if event.get("type") != MEMBER or event.get("state_key") != me.id:
        return False
    # A changed name or picture is told as one more join.
    before = dig(event, "unsigned", "prev_content", "membership")
    return bool(dig(event, "content", "membership") == membership and before != "join")


# --- values ---------------------------------------------------------------------------------------


def _rooms(answer: Any, part: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for room, about in as_dict(dig(answer, "rooms", part)).items():
        if is_id(room, "!") and isinstance(about, dict):
            yield room, about


def is_id(value: Any, sigil: str) -> bool:
    """Whether it is an id of this sort: its first letter, and nothing in it that cannot be stored."""
    return (
        isinstance(value, str)
        and 1 < len(value) <= 255
        and value.startswith(sigil)
        and value.isprintable()
        and storable(value) == value
    )
