"""From Home Assistant's words to ours: events to `Inbound`s. Pure functions; an event that cannot be read
gives nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from hermes.domain.chats.address import DEFAULT_ACCOUNT, Address, Source, SourceKind
from hermes.domain.chats.message import Inbound
from hermes.domain.errors import NeedsLogin, Refused, UserError
from hermes.domain.ids import DeliveryId
from hermes.domain.text import one_line, storable
from hermes.entry.kit.errors import error_table
from hermes.entry.kit.payload import as_dict, as_text, dig, flat, inbounds, name_of, shaped

NAME = "homeassistant"
MESSAGE, REPLY, CHANGED = "hermes_message", "hermes_reply", "state_changed"
"""The events: somebody asks; our answer; an entity has another state."""
EVENTS = "events"
"""The chat in which changes are told; what is said there is shown as a notification."""
CHAT = re.compile(r"[a-z0-9_.-]{1,100}", re.ASCII)
_ENTITY = re.compile(r"[a-z0-9_]{1,100}\.[a-z0-9_]{1,200}", re.ASCII)
_DOMAIN = re.compile(r"[a-z0-9_]{1,100}", re.ASCII)
_ID = re.compile(r"[A-Za-z0-9]{1,64}", re.ASCII)
_ABSENT = ("unavailable", "unknown")
_LONGEST_STATE = 120
error_for = error_table(
    "Home Assistant",
    {
        401: (NeedsLogin, "Home Assistant does not take the token (HASS_TOKEN): {why}"),
        403: (NeedsLogin, "Home Assistant has shut us out (HASS_TOKEN, or ip_ban): {why}"),
        404: (Refused, "Home Assistant does not have that service ({why})"),
    },
)


class HomeIdentity(Struct, frozen=True, kw_only=True):
    """What is watched, and how the operator calls the account."""

    account: str = DEFAULT_ACCOUNT
    entities: frozenset[str] = frozenset()
    domains: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()

    @property
    def watches(self) -> bool:
        return bool(self.entities or self.domains)

    def minds(self, entity: str) -> bool:
        listed = entity in self.entities or entity.partition(".")[0] in self.domains
        return listed and entity not in self.ignored


def names_of(variable: str, text: str, *, domains: bool = False) -> frozenset[str]:
    """The entities or domains that a setting lists; a mistake in it is told and not passed over."""
    shape = _DOMAIN if domains else _ENTITY
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if not shape.fullmatch(name):
            wanted = "a domain like light" if domains else "an entity like light.kitchen"
            raise UserError(f"{variable}: “{one_line(name, 60)}” is not {wanted}.")
    return frozenset(names)


@inbounds
def to_inbounds(event: Any, me: HomeIdentity) -> Inbound | None:
    """What an event means: a question to us, or a change that is watched."""
    at = datetime.fromisoformat(event["time_fired"])
    if at.tzinfo is None:
        raise ValueError("a time that is nowhere")
    context = shaped(dig(event, "context", "id"), _ID)
    if event["event_type"] == MESSAGE:
        return _asked(event["data"], context, dig(event, "context", "user_id"), at, me)
    if event["event_type"] == CHANGED:
        return _changed(event["data"], context, at, me)
    return None


def entity_of(event: Any) -> str:
    """The entity that has changed; empty for any other event."""
    return as_text(dig(event, "data", "entity_id")) if dig(event, "event_type") == CHANGED else ""


def _asked(
    data: Mapping[str, Any], context: str, user: Any, at: datetime, me: HomeIdentity
) -> Inbound | None:
    text = storable(as_text(data.get("text")))
    chat = data.get("chat", "home")
    person = as_text(data.get("user")) or as_text(user) or NAME
    if not text:
        return None
    return Inbound(
        delivery=DeliveryId(f"message:{context}:{at.timestamp()}"),
        source=Source(
            address=Address(platform=NAME, account=me.account, chat=shaped(chat, CHAT)),
            kind=SourceKind.PRIVATE,
            user=flat(person, 100) or NAME,
            user_name=name_of(data.get("user_name")),
        ),
        at=at,
        ref=context,
        text=text,
    )


def _changed(data: Mapping[str, Any], context: str, at: datetime, me: HomeIdentity) -> Inbound | None:
    entity = shaped(data["entity_id"], _ENTITY)
    old, new = as_dict(data.get("old_state")), as_dict(data.get("new_state"))
    before, after = flat(old.get("state"), _LONGEST_STATE), flat(new.get("state"), _LONGEST_STATE)
    if not me.minds(entity) or before == after or not before or after in ("", *_ABSENT) or before in _ABSENT:
        return None
    name = flat(dig(new, "attributes", "friendly_name")) or entity
    unit = flat(dig(new, "attributes", "unit_of_measurement"), 20)
    shown = f"{after} {unit}".strip()
    return Inbound(
        delivery=DeliveryId(f"changed:{entity}:{context}:{at.timestamp()}"),
        source=Source(
            address=Address(platform=NAME, account=me.account, chat=EVENTS),
            kind=SourceKind.CHANNEL,
            user=NAME,
            user_name="Home Assistant",
        ),
        at=at,
        ref=context,
        text=f"[Home Assistant] {name} ({entity}) changed from {before} to {shown}.",
        mentions_me=True,
    )
