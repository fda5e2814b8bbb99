"""Converts messages of the iLink interface to `Inbound`s. Pure functions; they return nothing for a message
that cannot be read."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from hermes.domain.chats.address import DEFAULT_ACCOUNT, Address, Source, SourceKind
from hermes.domain.chats.message import Attachment, Inbound, MediaKind, ReplyTo
from hermes.domain.errors import Refused
from hermes.domain.ids import DeliveryId
from hermes.domain.text import one_line, storable
from hermes.entry.kit.payload import (
    as_dict,
    as_dicts,
    as_text,
    attachment,
    attachments,
    dig,
    if_malformed,
    inbounds,
    moment,
    shaped,
)

NAME = "weixin"
TEXT, IMAGE, VOICE, FILE, VIDEO = 1, 2, 3, 4, 5
USER = 1
PERSON = re.compile(r"[!-9;-~]{4,128}")
_NUMBER = re.compile(r"[0-9]{1,20}")
_TOKEN = re.compile(r"[!-~]{1,4000}")
_KEY = re.compile(r"[0-9a-f]{32}")
_KINDS = {
    IMAGE: ("image_item", MediaKind.IMAGE),
    VOICE: ("voice_item", MediaKind.VOICE),
    FILE: ("file_item", MediaKind.FILE),
    VIDEO: ("video_item", MediaKind.VIDEO),
}
_MOST_QUOTED = 2_000


@inbounds
def to_inbounds(message: Any, account: str = DEFAULT_ACCOUNT, cdn: str = "") -> Inbound | None:
    if message["message_type"] != USER or message.get("group_id"):
        return None
    number, user = shaped(str(message["message_id"]), _NUMBER), shaped(message["from_user_id"], PERSON)
    items = as_dicts(message.get("item_list"))
    quoted = [as_dict(dig(item, "ref_msg", "message_item")) for item in items]
    files, unread = attachments(lambda item: _file(item, cdn), [*items, *quoted])
    text = "\n".join(filter(None, (*map(_words, items), unread)))
    if not (text or files):
        return None
    return Inbound(
        delivery=DeliveryId(f"message:{number}"),
        source=Source(
            address=Address(platform=NAME, account=account, chat=user), kind=SourceKind.PRIVATE, user=user
        ),
        at=moment(message["create_time_ms"], per_second=1000),
        ref=number,
        text=storable(text).strip(),
        attachments=files,
        reply_to=next(filter(None, map(_quoted, items)), None),
    )


@if_malformed(None)
def context_of(message: Any) -> tuple[str, str] | None:
    """Who wrote, and the token that has to go with what is sent to them; not one that leads to a group."""
    if message["message_type"] != USER or message.get("group_id"):
        return None
    return shaped(message["from_user_id"], PERSON), shaped(message["context_token"], _TOKEN)


def _words(item: Mapping[str, Any]) -> str:
    """A text, or the words of a voice message, which Weixin writes down."""
    return as_text(dig(item, "text_item", "text")) or as_text(dig(item, "voice_item", "text"))


def _quoted(item: Mapping[str, Any]) -> ReplyTo | None:
    quoted = as_dict(item.get("ref_msg"))
    words = _words(as_dict(quoted.get("message_item"))) or as_text(quoted.get("title"))
    # Newer clients tell which message that was, and not what it said.
    number = str(quoted.get("svr_id") or dig(quoted, "message_item", "msg_id") or "")
    ref = number if _NUMBER.fullmatch(number) else "quote" if words else None
    return None if ref is None else ReplyTo(ref=ref, text=storable(words)[:_MOST_QUOTED])


def _file(item: Mapping[str, Any], cdn: str) -> Attachment | None:
    if item.get("type") not in _KINDS or as_text(dig(item, "voice_item", "text")):
        return None
    name, kind = _KINDS[item["type"]]
    about, media = as_dict(item.get(name)), as_dict(dig(item, name, "media"))
    key = as_text(about.get("aeskey")).lower() or _key(as_text(media.get("aes_key")))
    asked, url = as_text(media.get("encrypt_query_param")), as_text(media.get("full_url"))
    if not (asked or url):
        raise ValueError("a file that is nowhere")
    url = url or f"{cdn}/download?encrypted_query_param={quote(asked, safe='')}"
    # Some pictures are not encrypted.
    ref = f"{url}#{shaped(key, _KEY) if key or kind is not MediaKind.IMAGE else ''}"
    return attachment(ref, kind, about.get("file_name"), None, None)


def _key(encoded: str) -> str:
    """The key of a file, as 32 digits: it comes as bytes, or as those digits, in base64."""
    raw = base64.b64decode(encoded, validate=True)
    return raw.hex() if len(raw) == 16 else raw.decode()


def place(to: Address) -> str:
    if not PERSON.fullmatch(to.chat):
        raise Refused(f"{one_line(to.chat, 60)} is no person of Weixin's")
    return to.chat


def file_place(ref: str) -> tuple[str, bytes]:
    """The address of a file, and the key that it is encrypted with, if it is."""
    url, mark, key = ref.partition("#")
    if not (mark and url.startswith(("https://", "http://"))) or (key and not _KEY.fullmatch(key)):
        raise Refused("that is no file of Weixin's")
    return url, bytes.fromhex(key)
