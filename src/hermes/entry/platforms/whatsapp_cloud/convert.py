"""From WhatsApp's words to ours: webhooks to `Inbound`s, error answers to our errors. Pure functions; what
cannot be read gives nothing."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from hermes.domain.chats.address import DEFAULT_ACCOUNT, Address, Source, SourceKind
from hermes.domain.chats.message import Attachment, Inbound, InboundKind, MediaKind, ReplyTo, deletion
from hermes.domain.errors import NeedsLogin, Refused, Unreachable
from hermes.domain.ids import DeliveryId
from hermes.domain.text import storable
from hermes.domain.word import replace
from hermes.entry.kit.errors import error_table, slower, their_fault
from hermes.entry.kit.payload import (
    as_dict,
    as_dicts,
    as_text,
    attachment,
    dig,
    flat,
    if_malformed,
    moment,
    name_of,
    shaped,
)

NAME = "whatsapp_cloud"
PHONE = re.compile(r"[0-9]{5,20}", re.ASCII)
SCOPED_ID = re.compile(r"[A-Z]{2}\.[A-Za-z0-9.]{1,132}", re.ASCII)
"""What stands for a person who hides their number behind a user name: an id that only this business has."""
_GROUP = re.compile(r"[A-Za-z0-9+/=_-]{8,256}", re.ASCII)
_FILES = {
    "image": MediaKind.IMAGE,
    "video": MediaKind.VIDEO,
    "audio": MediaKind.AUDIO,
    "document": MediaKind.FILE,
    "sticker": MediaKind.STICKER,
}
_MOVES = ("user_changed_number", "customer_changed_number", "user_changed_user_id")
_ID = re.compile(r"[\x21-\x7e]{1,512}", re.ASCII)
_LOGIN = "Meta does not take the access token (WHATSAPP_CLOUD_ACCESS_TOKEN): {why}"
_RIGHTS = "The access token lacks a right that WhatsApp needs: {why}"
_UNREGISTERED = "The number is not registered for the Cloud API (POST /<phone number id>/register): {why}"
_LOCKED = "Meta has locked or limited the WhatsApp account: {why}"
TOO_FAST = frozenset({"4", "80007", "130429", "131048", "131056", "131064", "133016"})
PAIR_LIMIT, SECOND_LIMIT = "131056", "130429"
HOUR_LIMITS = ("4", "80007")
"""Too many calls of the app or of the account in an hour; the others ask for an hour or more."""
error_for = error_table(
    "WhatsApp",
    {
        ("0", "190", 401): (NeedsLogin, _LOGIN),
        ("3", "10", "131005", *(str(code) for code in range(200, 300))): (NeedsLogin, _RIGHTS),
        ("368", "131031", "131042", "131045"): (NeedsLogin, _LOCKED),
        "133010": (NeedsLogin, _UNREGISTERED),
        tuple(TOO_FAST): (slower, "WhatsApp wants us to be slower ({why})"),
        ("1", "2", "131000", "131016", "133004"): (their_fault, "WhatsApp has a fault of its own ({why})"),
        "131057": (Unreachable, "Meta is working on the WhatsApp account ({why})"),
        "131047": (Refused, "They last wrote more than a day ago, so only a template reaches them ({why})"),
        ("131026", "131030", "131021"): (Refused, "WhatsApp does not reach them ({why})"),
    },
)  # fmt: skip


class WhatsAppIdentity(Struct, frozen=True, kw_only=True):
    """Which number is ours, by its id; `account` is how the operator calls it."""

    phone: str
    account: str = DEFAULT_ACCOUNT


def is_signed(secret: str, body: bytes, header: str) -> bool:
    """Whether Meta made this call: over the bytes as they came."""
    proof = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return bool(secret) and hmac.compare_digest(f"sha256={proof}".encode(), header.encode("utf-8", "replace"))


def to_inbounds(payload: Any, me: WhatsAppIdentity) -> tuple[Inbound, ...]:
    """What a webhook means: it may tell of several messages, and of numbers that are not ours."""
    items: list[Inbound | None] = []
    for value in _values(payload):
        if dig(value, "metadata", "phone_number_id") == me.phone:
            items += [_message(message, value, me) for message in as_dicts(value.get("messages"))]
            items += [_undelivered(status, me) for status in as_dicts(value.get("statuses"))]
    return tuple(item for item in items if item is not None)


def others_of(payload: Any, me: WhatsAppIdentity) -> set[str]:
    """The ids of numbers that it tells of and that are not ours."""
    numbers = {as_text(dig(value, "metadata", "phone_number_id")) for value in _values(payload)}
    return numbers - {me.phone, ""}


def _values(payload: Any) -> Iterator[dict[str, Any]]:
    for entry in as_dicts(dig(payload, "entry")):
        for change in as_dicts(entry.get("changes")):
            if change.get("field") == "messages":
                yield as_dict(change.get("value"))


@if_malformed(None)
def _message(message: Mapping[str, Any], value: Mapping[str, Any], me: WhatsAppIdentity) -> Inbound | None:
    number, sort = _id(message["id"]), as_text(message.get("type"))
    source, at = _source(message, value, me), moment(int(message["timestamp"]))
    if sort == "revoke":
        return deletion(source, _id(message["revoke"]["original_message_id"]), at)
    item = Inbound(
        delivery=DeliveryId(f"message:{number}"),
        source=source,
        at=at,
        ref=number,
        reply_to=_reply(message, value),
    )
    match sort:
        case "interactive" if pressed := _pressed(message["interactive"]):
            return replace(item, what=InboundKind.BUTTON, button=pressed)
        case "reaction":
            content = message["reaction"]
            emoji = storable(as_text(content.get("emoji")))
            return replace(item, what=InboundKind.REACTION, ref=_id(content["message_id"]), text=emoji)
        case "system":
            return _moved(item, as_dict(message["system"]))
        case "edit":
            words, ref = as_dict(message["edit"]["message"]), _id(message["edit"]["original_message_id"])
            return replace(item, what=InboundKind.EDIT, ref=ref, text=_words(words))
    files, text = tuple(_attachments(message, sort)), _words(message)
    if not (text or files):
        return None
    if (
        dig(message, "context", "forwarded") is True
        or dig(message, "context", "frequently_forwarded") is True
    ):
        text = f"[Forwarded]\n{text}".rstrip()
    return replace(item, text=text, attachments=files)


def _id(value: Any) -> str:
    return shaped(value, _ID)


def _source(message: Mapping[str, Any], value: Mapping[str, Any], me: WhatsAppIdentity) -> Source:
    """A person is known by their number, or by an id of ours for them if they hide it."""
    phone, scoped = as_text(message.get("from")), as_text(message.get("from_user_id"))
    user = phone if PHONE.fullmatch(phone) else scoped
    if not (PHONE.fullmatch(user) or SCOPED_ID.fullmatch(user)):
        raise ValueError("nobody wrote it")
    contacts = as_dicts(value.get("contacts"))
    own = [one for one in contacts if user in (one.get("wa_id"), one.get("user_id"))]
    profile = as_dict(dig((own or [{}])[0], "profile"))
    group = message.get("group_id")
    chat = user if group is None else group
    if not isinstance(chat, str) or not (chat == user or _GROUP.fullmatch(chat)):
        raise ValueError("no chat")
    return Source(
        address=Address(platform=NAME, account=me.account, chat=chat),
        kind=SourceKind.PRIVATE if group is None else SourceKind.GROUP,
        user=user,
        user_alt=scoped if SCOPED_ID.fullmatch(scoped) else None,
        user_name=name_of(profile.get("name")) or name_of(profile.get("username")),
    )


def _reply(message: Mapping[str, Any], value: Mapping[str, Any]) -> ReplyTo | None:
    context = as_dict(message.get("context"))
    if not as_text(context.get("id")):
        return None
    ours = _digits(dig(value, "metadata", "display_phone_number"))
    mine = bool(ours) and _digits(context.get("from")) == ours
    return ReplyTo(ref=_id(context["id"]), mine=mine)


def _digits(value: Any) -> str:
    return re.sub(r"[^0-9]", "", as_text(value))


def _pressed(content: Any) -> str:
    """The value of a button or of a row in a list."""
    return storable(as_text(dig(content, "button_reply", "id")) or as_text(dig(content, "list_reply", "id")))


def _moved(item: Inbound, content: Mapping[str, Any]) -> Inbound | None:
    """Somebody has another number from now on; who hides it, another id."""
    new, shape = as_text(content.get("wa_id")) or as_text(content.get("new_wa_id")), PHONE
    if SCOPED_ID.fullmatch(item.source.user or ""):
        new, shape = as_text(content.get("user_id")), SCOPED_ID
    if content.get("type") not in _MOVES or not shape.fullmatch(new):
        return None
    return replace(item, what=InboundKind.MOVED, text=new)


def _attachments(message: Mapping[str, Any], sort: str) -> Iterator[Attachment]:
    if sort in _FILES:
        file = message[sort]
        kind = MediaKind.VOICE if sort == "audio" and file.get("voice") is True else _FILES[sort]
        # What stands behind the type (its codecs) is not part of it.
        mime = as_text(file.get("mime_type")).partition(";")[0].strip()
        yield attachment(_id(file["id"]), kind, file.get("filename"), mime, None)


def _words(message: Mapping[str, Any]) -> str:
    """What was said, or what came in its place, in words."""
    sort = as_text(message.get("type"))
    content = as_dict(message.get(sort))
    match sort:
        case "text":
            return as_text(content.get("body"))
        case "button":
            return as_text(content.get("text"))
        case "interactive":
            return (
                as_text(dig(content, "nfm_reply", "body"))
                and f"[Form: {flat(dig(content, 'nfm_reply', 'response_json'), 2000)}]"
            )
        case "location":
            names = ", ".join(filter(None, (flat(content.get("name")), flat(content.get("address")))))
            spot = f"{float(content['latitude']):.6f}, {float(content['longitude']):.6f}"
            return f"[Location: {names}: {spot}]" if names else f"[Location: {spot}]"
        case "contacts":
            return "\n".join(_card(card) for card in as_dicts(message.get("contacts")))
        case "order":
            goods = as_dicts(content.get("product_items"))
            lines = (
                f"{flat(str(one.get('quantity')))} × {flat(one.get('product_retailer_id'))}" for one in goods
            )
            return f"[Order: {', '.join(lines)}. {flat(content.get('text'), 500)}]"
        case "unsupported" | "unknown":
            kind = flat(content.get("type")) or "unknown kind"
            return f"[A message that WhatsApp does not pass on to businesses ({kind})]"
        case _:
            return as_text(content.get("caption"))


def _card(card: Mapping[str, Any]) -> str:
    phones = ", ".join(flat(one.get("phone")) for one in as_dicts(card.get("phones")))
    return f"[Contact: {flat(dig(card, 'name', 'formatted_name'))}, {phones}]"


@if_malformed(None)
def _undelivered(status: Mapping[str, Any], me: WhatsAppIdentity) -> Inbound | None:
    """A message that was taken and never arrived; with each of ours goes the key by which it is found."""
    key = storable(as_text(status.get("biz_opaque_callback_data")))
    if status.get("status") != "failed" or not key:
        return None
    chat = as_text(status.get("recipient_id")) or as_text(status.get("recipient_user_id"))
    if not (PHONE.fullmatch(chat) or SCOPED_ID.fullmatch(chat) or _GROUP.fullmatch(chat)):
        return None
    error = (as_dicts(status.get("errors")) or [{}])[0]
    why = as_text(dig(error, "error_data", "details")) or as_text(error.get("title")) or "it says no more"
    return Inbound(
        delivery=DeliveryId(f"failed:{_id(status['id'])}"),
        source=Source(address=Address(platform=NAME, account=me.account, chat=chat), kind=SourceKind.PRIVATE),
        at=moment(int(status["timestamp"])),
        what=InboundKind.UNDELIVERED,
        ref=key,
        text=f"WhatsApp could not deliver it: {flat(why, 200)} ({error.get('code')})",
    )
