"""From BlueBubbles' words to ours: messages to `Inbound`s, errors to our errors. Pure functions; a message
that cannot be read gives nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from hermes.domain.chats.address import DEFAULT_ACCOUNT, Address, Source, SourceKind
from hermes.domain.chats.message import Attachment, Inbound, InboundKind, MediaKind, ReplyTo, media_kind
from hermes.domain.errors import NeedsLogin, Refused
from hermes.domain.ids import DeliveryId
from hermes.domain.word import replace
from hermes.entry.kit.errors import error_table
from hermes.entry.kit.payload import (
    as_dict,
    as_dicts,
    as_text,
    attachment,
    dig,
    inbounds,
    moment,
    name_of,
    shaped,
)

NAME = "bluebubbles"
CHAT = re.compile(r"(?:iMessage|SMS|RCS|any);[-+];[^\s;]{1,200}")
PERSON = re.compile(r"\+?[0-9]{3,15}|[^@\s;]{1,100}@[^@\s;]{1,100}")
TAPBACKS = {"love": "❤️", "like": "👍", "dislike": "👎", "laugh": "😂", "emphasize": "‼️", "question": "❓"}
"""The reactions of iMessage, by their names there."""
_GUID = re.compile(r"[A-Za-z0-9/_:.-]{1,200}", re.ASCII)
_SLOT = "\ufffc"
"""What stands in a text where a file is."""
error_for = error_table(
    "BlueBubbles",
    {
        (401, 403): (NeedsLogin, "BlueBubbles does not take the password (BLUEBUBBLES_PASSWORD): {why}"),
        404: (Refused, "BlueBubbles does not have that ({why})"),
    },
)


class BlueBubblesIdentity(Struct, frozen=True, kw_only=True):
    """`account` is how the operator calls it; `ours` says whether a message, by its guid, is one of ours."""

    account: str = DEFAULT_ACCOUNT
    ours: Mapping[str, bool] = {}


def time_of(message: Any) -> int:
    """When it was sent, in milliseconds; 0 if nobody knows."""
    at = dig(message, "dateCreated")
    return at if isinstance(at, int) and not isinstance(at, bool) and 0 < at < 2**53 else 0


def replied_to(message: Any) -> str:
    """The guid of the message that one answers; empty if it answers none."""
    guid = as_text(dig(message, "threadOriginatorGuid"))
    return guid if _GUID.fullmatch(guid) else ""


def lacks_files(message: Any) -> bool:
    """Whether files belong to what somebody wrote that the server does not have (yet)."""
    slots = as_text(dig(message, "text")).count(_SLOT)
    return dig(message, "isFromMe") is False and slots > len(as_dicts(message.get("attachments")))


@inbounds
def to_inbounds(message: Any, me: BlueBubblesIdentity) -> Inbound | None:
    """What a message means; our own mean nothing."""
    if message.get("isFromMe") is not False or message.get("itemType") not in (None, 0):
        return None
    guid = shaped(message["guid"], _GUID)
    chats = as_dicts(message.get("chats"))
    chat = shaped(chats[0]["guid"], CHAT)
    person = shaped(dig(message, "handle", "address"), PERSON)
    group = ";+;" in chat
    item = Inbound(
        delivery=DeliveryId(f"message:{guid}"),
        source=Source(
            address=Address(platform=NAME, account=me.account, chat=chat),
            kind=SourceKind.GROUP if group else SourceKind.PRIVATE,
            user=person,
            chat_name=name_of(chats[0].get("displayName")) if group else None,
        ),
        at=moment(time_of(message), per_second=1000),
        ref=guid,
    )
    if as_text(message.get("associatedMessageType")):
        return _tapback(item, message)
    text = as_text(message.get("text")).replace(_SLOT, "").strip("\n")
    files = tuple(_attachments(message))
    if lacks_files(message):
        text = f"{text}\n[a file came that cannot be read]".strip("\n")
    if not (text or files):
        return None
    answered = replied_to(message)
    reply = ReplyTo(ref=answered, mine=me.ours.get(answered, False)) if answered else None
    return replace(item, text=text, attachments=files, reply_to=reply)


def _tapback(item: Inbound, message: Mapping[str, Any]) -> Inbound | None:
    """A reaction; one that is taken back has a minus before its name. Their targets stand behind a place."""
    name = as_text(message["associatedMessageType"])
    emoji = TAPBACKS.get(name.removeprefix("-"))
    target = as_text(message.get("associatedMessageGuid")).rpartition("/")[2].removeprefix("bp:")
    if emoji is None:
        return None
    ref, text = shaped(target, _GUID), "" if name.startswith("-") else emoji
    return replace(item, what=InboundKind.REACTION, ref=ref, text=text)


def _attachments(message: Mapping[str, Any]) -> Iterator[Attachment]:
    for file in as_dicts(message.get("attachments")):
        name, mime = file.get("transferName"), as_text(file.get("mimeType"))
        if file.get("hideAttachment") is True:
            continue
        voice = message.get("isAudioMessage") is True
        kind = MediaKind.VOICE if voice else media_kind(mime)
        yield attachment(shaped(file["guid"], _GUID), kind, name, mime, file.get("totalBytes"))


def as_chat(chat: str) -> str:
    """The guid of a chat, or of the private chat with a person."""
    if CHAT.fullmatch(chat):
        return chat
    if PERSON.fullmatch(chat):
        return f"iMessage;-;{chat}"
    raise Refused(
        f"{NAME}:{chat[:60]} is nobody: a number or an Apple ID is wanted, like {NAME}:+15551234567"
    )


def words_of(answer: Any) -> str:
    return as_text(dig(as_dict(answer), "error", "message")) or as_text(dig(answer, "message"))
