"""Converts messages of Baileys, as the bridge tells them, to `Inbound`s. Pure functions; they return nothing
for a message that cannot be read. People and private chats are known by their phone number, or by their LID
(`123@lid`) where WhatsApp does not tell the number; groups by their JID."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from hermes.domain.chats.address import DEFAULT_ACCOUNT, Address, Source, SourceKind
from hermes.domain.chats.message import Attachment, Inbound, InboundKind, MediaKind, ReplyTo, deletion
from hermes.domain.errors import Refused
from hermes.domain.ids import DeliveryId
from hermes.domain.text import one_line, storable
from hermes.domain.word import replace
from hermes.entry.kit.payload import (
    as_dict,
    as_dicts,
    as_size,
    as_text,
    attachment,
    dig,
    flat,
    inbounds,
    moment,
    name_of,
    read_json,
    shaped,
)

NAME = "whatsapp"
MINE = "me"
_PHONE = re.compile(r"([0-9]{5,20})(?::[0-9]{1,4})?@s\.whatsapp\.net", re.ASCII)
_LID = re.compile(r"([0-9]{5,30})(?::[0-9]{1,4})?@lid", re.ASCII)
_GROUP = re.compile(r"[0-9-]{5,40}@g\.us", re.ASCII)
_ID = re.compile(r"[A-Za-z0-9._-]{4,64}", re.ASCII)
_TYPED = re.compile(r"\+?([0-9]{5,20})", re.ASCII)
_PATH = re.compile(r"/[!-~]{1,2000}", re.ASCII)
_WRAPPERS = (
    "ephemeralMessage",
    "viewOnceMessage",
    "viewOnceMessageV2",
    "viewOnceMessageV2Extension",
    "documentWithCaptionMessage",
    "editedMessage",
    "deviceSentMessage",
)
_FILES = {
    "imageMessage": MediaKind.IMAGE,
    "videoMessage": MediaKind.VIDEO,
    "ptvMessage": MediaKind.VIDEO,
    "audioMessage": MediaKind.AUDIO,
    "documentMessage": MediaKind.FILE,
    "stickerMessage": MediaKind.STICKER,
}
_HOST = "https://mmg.whatsapp.net"
_MOST_WRAPPED = 5
_MOST_QUOTED = 2_000


class LinkedDevice(Struct, frozen=True, kw_only=True):
    """Our phone number and LID, as people are called here; `self_chat`: only our own chat counts."""

    phone: str = ""
    lid: str = ""
    account: str = DEFAULT_ACCOUNT
    self_chat: bool = False

    def is_named(self, *jids: Any) -> bool:
        names = {person(as_text(jid)) for jid in jids}
        return bool(names & {self.phone, self.lid} - {""})


def person(*jids: str) -> str:
    """How somebody is called: by the number if one of their JIDs has it, otherwise by the LID."""
    for jid in jids:
        if fits := _PHONE.fullmatch(jid):
            return fits[1]
    return next((f"{fits[1]}@lid" for jid in jids if (fits := _LID.fullmatch(jid))), "")


def jid_of(to: Address) -> str:
    """Where a message goes."""
    if fits := _TYPED.fullmatch(to.chat):
        return f"{fits[1]}@s.whatsapp.net"
    if fits := _LID.fullmatch(to.chat):
        return f"{fits[1]}@lid"
    if _PHONE.fullmatch(to.chat) or _GROUP.fullmatch(to.chat):
        return to.chat
    raise Refused(f"{one_line(to.chat, 60)} is no number and no group of WhatsApp's")


def read_ref(ref: str) -> tuple[str, str]:
    """The id of a message, and the JID of who wrote it (`me` for us); two empty texts if it is no `ref`."""
    id, _, author = ref.partition("@")
    known = author == MINE or person(author)
    return (id, author) if known and _ID.fullmatch(id) else ("", "")


def key_of(ref: str, chat: str) -> dict[str, Any] | None:
    """The key of a message, as WhatsApp wants it named; None if it is no `ref`."""
    id, author = read_ref(ref)
    if not id:
        return None
    key: dict[str, Any] = {"remoteJid": chat, "id": id, "fromMe": author == MINE}
    if _GROUP.fullmatch(chat) and author != MINE:
        key["participant"] = author
    return key


@inbounds
def to_inbounds(event: Any, me: LinkedDevice) -> Inbound | None:
    """What a message means. What we write ourselves is none, unless it is in the chat with ourselves."""
    key, source = event["key"], _source(event, me)
    mine = key.get("fromMe") is True
    own_chat = source.kind is SourceKind.PRIVATE and me.is_named(key["remoteJid"], key.get("remoteJidAlt"))
    if mine != me.self_chat or (me.self_chat and not own_chat):
        return None
    id, author = shaped(key["id"], _ID), MINE if mine else _author(key)
    at, content = moment(event["messageTimestamp"]), _opened(event["message"])
    item = Inbound(
        delivery=DeliveryId(f"message:{source.address.chat}:{source.user}:{id}"),
        source=source,
        at=at,
        ref=f"{id}@{author}",
    )
    if isinstance(reaction := content.get("reactionMessage"), dict):
        return _reaction(item, reaction, me)
    if isinstance(change := content.get("protocolMessage"), dict):
        return _change(item, change, author, me, by_admin=event.get("byAdmin") is True)
    return _said(item, content, me)


def _source(event: Mapping[str, Any], me: LinkedDevice) -> Source:
    key = event["key"]
    chat, alt = as_text(key["remoteJid"]), as_text(key.get("remoteJidAlt"))
    is_group = _GROUP.fullmatch(chat) is not None
    writer, other = (
        (as_text(key.get("participant")), as_text(key.get("participantAlt"))) if is_group else (chat, alt)
    )
    user = person(writer, other)
    if not user:
        raise ValueError("nobody wrote it")
    if me.is_named(user if "@" in user else f"{user}@s.whatsapp.net"):
        user = me.phone or user
    lid = next((one for one in (writer, other) if _LID.fullmatch(one)), "")
    return Source(
        address=Address(platform=NAME, account=me.account, chat=chat if is_group else user),
        kind=SourceKind.GROUP if is_group else SourceKind.PRIVATE,
        user=user,
        user_alt=person(lid) or None,
        user_name=name_of(event.get("pushName")),
        chat_name=name_of(event.get("groupName")) if is_group else None,
    )


def _author(key: Mapping[str, Any]) -> str:
    """The JID of who wrote a message, as its key has it."""
    return _named(as_text(key.get("participant")) or key["remoteJid"])


def _named(jid: Any) -> str:
    """The JID of a person."""
    if not person(as_text(jid)):
        raise ValueError("nobody has that JID")
    return as_text(jid)


def _opened(message: Any) -> dict[str, Any]:
    """A message without what WhatsApp wraps around it."""
    content = as_dict(message)
    for _ in range(_MOST_WRAPPED):
        inner = next((as_dict(content[name]) for name in _WRAPPERS if name in content), None)
        if inner is None:
            break
        content = as_dict(inner.get("message"))
    return content


def _reaction(item: Inbound, reaction: Mapping[str, Any], me: LinkedDevice) -> Inbound:
    key = reaction["key"]
    author = MINE if key.get("fromMe") is True or me.is_named(key.get("participant")) else _author(key)
    ref = f"{shaped(key['id'], _ID)}@{author}"
    return replace(item, what=InboundKind.REACTION, ref=ref, text=storable(as_text(reaction.get("text"))))


def _change(
    item: Inbound, change: Mapping[str, Any], author: str, me: LinkedDevice, *, by_admin: bool
) -> Inbound | None:
    """An edit or a deletion; keys in it are as its writer sees them."""
    key, kind = as_dict(change.get("key")), change.get("type")
    if not key.get("fromMe") and key.get("participant"):  # an admin deletes what somebody else wrote
        if not by_admin:  # which any member can say, and WhatsApp's servers cannot read
            return None
        author = MINE if me.is_named(key["participant"]) else _named(key["participant"])
    ref = f"{shaped(key['id'], _ID)}@{author}"
    if kind == "REVOKE":
        return deletion(item.source, ref, item.at) if author != MINE or me.self_chat else None
    if kind != "MESSAGE_EDIT":
        return None
    said = _said(item, _opened(change.get("editedMessage")), me)
    return None if said is None else replace(said, what=InboundKind.EDIT, ref=ref)


def _said(item: Inbound, content: Mapping[str, Any], me: LinkedDevice) -> Inbound | None:
    around = next((as_dict(found) for part in content.values() if (found := dig(part, "contextInfo"))), {})
    text, mine = _words(content), me.is_named(*_mentioned(around))
    if mine:
        text = _without_name(text, me)
    file = _file(item, content)
    if not (text or file):
        return None
    return replace(
        item,
        text=storable(text),
        mentions_me=mine,
        attachments=() if file is None else (file,),
        reply_to=_reply(around, me),
    )


def _mentioned(around: Mapping[str, Any]) -> list[Any]:
    named = around.get("mentionedJid")
    return named if isinstance(named, list) else []


def _without_name(text: str, me: LinkedDevice) -> str:
    """The words without our own number before them, which stands there for our name."""
    for name in filter(None, (me.phone, me.lid.partition("@")[0])):
        text = text.removeprefix(f"@{name}")
    return text.lstrip(" ,:\n")


def _reply(around: Mapping[str, Any], me: LinkedDevice) -> ReplyTo | None:
    if not around.get("stanzaId"):
        return None
    author = as_text(around.get("participant"))
    if not person(author):
        return None
    mine = me.is_named(author)
    ref = f"{shaped(around['stanzaId'], _ID)}@{MINE if mine else author}"
    words = _words(_opened(around.get("quotedMessage")))
    return ReplyTo(ref=ref, text=storable(words)[:_MOST_QUOTED], author=person(author), mine=mine)


def _words(content: Mapping[str, Any]) -> str:
    """What was said, or what it is in words if it is neither text nor a file."""
    for name, field in (
        ("extendedTextMessage", "text"),
        *((name, "caption") for name in _FILES),
        ("templateButtonReplyMessage", "selectedDisplayText"),
        ("buttonsResponseMessage", "selectedDisplayText"),
        ("listResponseMessage", "title"),
    ):
        if words := as_text(dig(content, name, field)):
            return words
    return as_text(content.get("conversation")) or _described(content)


def _described(content: Mapping[str, Any]) -> str:
    for name in ("locationMessage", "liveLocationMessage"):
        if isinstance(place := content.get(name), dict):
            where = f"{place.get('degreesLatitude')}, {place.get('degreesLongitude')}"
            return f"[Location: {', '.join(filter(None, (flat(where), flat(place.get('name')))))}]"
    cards = [
        as_dict(content.get("contactMessage")),
        *as_dicts(dig(content, "contactsArrayMessage", "contacts")),
    ]
    if any(cards):
        phones = (phone for card in cards for phone in _phones(as_text(card.get("vcard"))))
        names = (flat(card.get("displayName")) for card in cards)
        return f"[Contact: {', '.join(filter(None, (*names, *map(flat, phones))))}]"
    for name in ("pollCreationMessage", "pollCreationMessageV2", "pollCreationMessageV3"):
        if isinstance(poll := content.get(name), dict):
            options = ", ".join(flat(one.get("optionName")) for one in as_dicts(poll.get("options")))
            return f"[Poll: {flat(poll.get('name'), 200)} ({options})]"
    if isinstance(event := content.get("eventMessage"), dict):
        return f"[Event: {flat(event.get('name'), 200)}]"
    return ""


def _phones(vcard: str) -> Iterator[str]:
    """The numbers of a card: lines like `item1.TEL;type=CELL:+1 555`."""
    for line in vcard.splitlines():
        name, _, number = line.partition(":")
        if name.partition(";")[0].rpartition(".")[2].upper() == "TEL":
            yield number


def _file(item: Inbound, content: Mapping[str, Any]) -> Attachment | None:
    for name, kind in _FILES.items():
        if isinstance(part := content.get(name), dict):
            voice = name == "audioMessage" and part.get("ptt") is True
            size = as_text(part.get("fileLength"))
            length = as_size(int(size)) if size.isascii() and size.isdigit() else None
            mime = as_text(part.get("mimetype")).partition(";")[0]
            return attachment(
                _file_ref(item, name, part),
                MediaKind.VOICE if voice else kind,
                part.get("fileName"),
                mime,
                length,
            )
    return None


def _file_ref(item: Inbound, name: str, part: Mapping[str, Any]) -> str:
    """All that is needed to get a file: where it is, its key, and the message that one asks for it again."""
    kept = {key: as_text(part[key]) for key in ("mediaKey", "fileEncSha256", "fileSha256") if key in part}
    base64.b64decode(kept["mediaKey"], validate=True)
    media = {**kept, "directPath": shaped(part["directPath"], _PATH)}
    return json.dumps(
        {"chat": jid_of(item.source.address), "ref": item.ref, name: media}, separators=(",", ":")
    )


def file_message(ref: str) -> dict[str, Any]:
    """The message that an attachment's `ref` stands for. WhatsApp's own host has the file, whatever the
    message said: its writer could name any other."""
    event = as_dict(read_json(ref))
    for name in _FILES:
        if isinstance(part := event.get(name), dict):
            key = key_of(as_text(event.get("ref")), as_text(event.get("chat")))
            if key is not None and _PATH.fullmatch(as_text(part.get("directPath"))):
                return {"key": key, "message": {name: {**part, "url": _HOST}}}
    raise Refused("that is no file of WhatsApp's")
