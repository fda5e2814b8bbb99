"""Converts events of QQ's to `Inbound`s, and checks the signatures of its calls. Pure functions; they return
nothing for an event that cannot be read."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from datetime import datetime
from importlib import import_module
from typing import Any

from hermes.domain.chats.address import DEFAULT_ACCOUNT, Address, Source, SourceKind
from hermes.domain.chats.message import Attachment, Inbound, MediaKind, ReplyTo, media_kind
from hermes.domain.errors import Refused
from hermes.domain.ids import DeliveryId
from hermes.domain.text import one_line, storable
from hermes.entry.kit.payload import (
    MALFORMED,
    as_dicts,
    as_text,
    attachment,
    attachments,
    dig,
    inbounds,
    read_json,
    shaped,
)

NAME = "qqbot"
PRIVATE, GROUP, ALL = "C2C_MESSAGE_CREATE", "GROUP_AT_MESSAGE_CREATE", "GROUP_MESSAGE_CREATE"
"""The last one where a group's owner lets the bot read everything; then mentions come so, too."""
_ID = re.compile(r"[A-Za-z0-9_-]{4,128}")
_MESSAGE = re.compile(r"[!-~]{4,300}")
_URL = re.compile(r"https?://\S{4,2000}")
_PLACE = re.compile(r"([ug])_([A-Za-z0-9_-]{4,128})")
_MENTION = re.compile(r"<@!?([A-Za-z0-9_-]{1,128})>")
_FACE = re.compile(r'<faceType=\d+,faceId="[^"]*",ext="([^"]*)">')
_HOST = re.compile(r"https?://([^\s/]+)|[\w-]+(?:\.[\w-]+)*\.[A-Za-z]{2,}")
CHALLENGE = re.compile(r"[A-Za-z0-9]{1,128}")
"""All of what QQ wants to have signed: never JSON, as its calls are."""
_SEED = 32
_QUOTING, _MOST_QUOTED = 103, 2_000


@inbounds
def to_inbounds(payload: Any, account: str = DEFAULT_ACCOUNT) -> Inbound | None:
    kind, message = payload["t"], payload["d"]
    if kind not in (PRIVATE, GROUP, ALL):
        return None
    number, private = shaped(message["id"], _MESSAGE), kind == PRIVATE
    user = shaped(message["author"]["user_openid" if private else "member_openid"], _ID)
    chat = f"u_{user}" if private else f"g_{shaped(message['group_openid'], _ID)}"
    at = datetime.fromisoformat(message["timestamp"])
    if at.tzinfo is None:
        raise ValueError("a time without a zone")
    mentions = as_dicts(message.get("mentions"))
    mentioned = kind == GROUP or any(one.get("is_you") is True for one in mentions)
    sent = as_dicts(message.get("attachments"))
    elements = as_dicts(message.get("msg_elements")) if message.get("message_type") == _QUOTING else []
    # The same picture may come twice, at two addresses (kuliantnt/qq-maid-bot #578).
    quoted = {
        as_text(file.get("filename")) or as_text(file.get("url")): file
        for element in elements
        for file in as_dicts(element.get("attachments"))
    }
    files, unread = attachments(_file, (*sent, *quoted.values()))
    text = "\n".join(filter(None, (_words(message, sent, mentions), unread)))
    words = "\n".join(filter(None, (_words(one, as_dicts(one.get("attachments")), []) for one in elements)))
    if not (text or files or mentioned):
        return None
    return Inbound(
        delivery=DeliveryId(f"message:{number}"),
        source=Source(
            address=Address(platform=NAME, account=account, chat=chat),
            kind=SourceKind.PRIVATE if private else SourceKind.GROUP,
            user=user,
            is_bot=message["author"].get("bot") is True,
        ),
        at=at,
        ref=number,
        text=text,
        attachments=files,
        # Which message that was QQ tells by a number that we cannot look up.
        reply_to=ReplyTo(ref="quote", text=words[:_MOST_QUOTED]) if words else None,
        mentions_me=mentioned and not private,
    )


def _words(message: Mapping[str, Any], files: list[dict[str, Any]], mentions: list[dict[str, Any]]) -> str:
    """What somebody wrote, with names for the ids of people and for faces, and without the bot's own; and
    what they said, if QQ has written that down."""
    names = {
        as_text(one.get(field)): f"@{name}"
        for one in mentions
        for field in ("id", "member_openid", "user_openid")
        if one.get("is_you") is not True and (name := as_text(one.get("nickname") or one.get("username")))
    }
    text = _MENTION.sub(lambda match: names.get(match[1], ""), as_text(message.get("content")))
    text = _FACE.sub(_face, text).strip()
    return storable("\n".join(filter(None, (text, *map(_written_down, files)))))


def _face(match: re.Match[str]) -> str:
    try:
        name = as_text(dig(read_json(base64.b64decode(match[1])), "text"))
    except MALFORMED:
        name = ""
    return f"[{name}]" if name else ""


def _written_down(file: Mapping[str, Any]) -> str:
    return as_text(file.get("asr_refer_text")).strip()


def _file(file: Mapping[str, Any]) -> Attachment | None:
    if _written_down(file):
        return None
    url, mime = as_text(file.get("url")), as_text(file.get("content_type"))
    kind, name, size = media_kind(mime), file.get("filename"), file.get("size")
    if mime == "voice":
        kind = MediaKind.VOICE
        if wave := as_text(file.get("voice_wav_url")):
            # What is at the other address is of QQ's own kind (SILK).
            url, mime, name, size = wave, "audio/wav", None, None
    url = url if url.startswith("http") else f"https://{url.removeprefix('//')}"
    return attachment(shaped(url, _URL), kind, name, mime if "/" in mime else None, size)


def without_addresses(text: str) -> str:
    """The text with addresses that can be read, and that QQ does not take for any (`example。com`)."""
    return _HOST.sub(lambda match: (match[1] or match[0]).replace(".", "。"), text)


def place(to: Address) -> tuple[str, bool]:
    """Where a chat's calls go, and whether it is a private one."""
    parts = _PLACE.fullmatch(to.chat)
    if parts is None:
        raise Refused(f"{one_line(to.chat, 60)} is no chat of QQ's (u_… for a person, g_… for a group)")
    return (f"/v2/users/{parts[2]}", True) if parts[1] == "u" else (f"/v2/groups/{parts[2]}", False)


def file_place(ref: str) -> str:
    if not _URL.fullmatch(ref):
        raise Refused("that is no file of QQ's")
    return ref


# --- signatures of calls ---------------------------------------------------------------------------


def _key(secret: str) -> Any:
    ed25519 = import_module("cryptography.hazmat.primitives.asymmetric.ed25519")
    seed = secret.encode()
    while len(seed) < _SEED:
        seed += seed
    return ed25519.Ed25519PrivateKey.from_private_bytes(seed[:_SEED])


def public_key(secret: str) -> str:
    raw: bytes = _key(secret).public_key().public_bytes_raw()
    return raw.hex()


def signed(secret: str, stamp: str, body: bytes) -> str:
    signature: bytes = _key(secret).sign(stamp.encode() + body)
    return signature.hex()


def is_signed(secret: str, stamp: str, body: bytes, signature: str) -> bool:
    invalid = import_module("cryptography.exceptions").InvalidSignature
    try:
        _key(secret).public_key().verify(bytes.fromhex(signature), stamp.encode() + body)
    except (invalid, ValueError):
        return False
    return True
