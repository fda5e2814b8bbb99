"""Converts frames of WeCom's AI bot to `Inbound`s. Pure functions; they return nothing for a frame that
cannot be read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

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
    inbounds,
    moment,
    shaped,
)

NAME = "wecom"
MESSAGE, EVENT = "aibot_msg_callback", "aibot_event_callback"
_ID = re.compile(r"[!-~]{1,200}")
_CHAT = re.compile(r"[A-Za-z0-9_.@-]{1,128}")
_URL = re.compile(r"https?://[^\s#]{1,2000}")
_AES_KEY = re.compile(r"[A-Za-z0-9+/]{43}=?")
_MENTION = re.compile(r"@\S+\s*")
_MEDIA = {"image": MediaKind.IMAGE, "file": MediaKind.FILE, "video": MediaKind.VIDEO}
_MOST_QUOTED = 2_000


def place(to: Address) -> str:
    """A private chat has the id of its person, a group one of its own."""
    if not _CHAT.fullmatch(to.chat):
        raise Refused(f"{one_line(to.chat, 60)} is neither a person nor a group of WeCom's")
    return to.chat


@inbounds
def to_inbounds(frame: Any, now: datetime, account: str = DEFAULT_ACCOUNT) -> Inbound | None:
    if frame["cmd"] != MESSAGE:
        return None
    body = frame["body"]
    user, private = shaped(body["from"]["userid"], _CHAT), body["chattype"] == "single"
    text, files = _spoken(body)
    quote = as_dict(body.get("quote"))
    quoted, more = _spoken(quote) if as_text(quote.get("msgtype")) else ("", ())
    if not private:
        # The bot is only told of what mentions it, and its name stands first.
        text = _MENTION.sub("", text, count=1) if text.startswith("@") else text
    if not (text or files or not private):
        return None
    at = body.get("create_time")
    return Inbound(
        delivery=DeliveryId(f"message:{shaped(body['msgid'], _ID)}"),
        source=Source(
            address=Address(
                platform=NAME, account=account, chat=user if private else shaped(body["chatid"], _CHAT)
            ),
            kind=SourceKind.PRIVATE if private else SourceKind.GROUP,
            user=user,
        ),
        at=moment(at) if isinstance(at, int) and not isinstance(at, bool) else now,
        # What one answers is not the message but its delivery.
        ref=shaped(frame["headers"]["req_id"], _ID),
        text=text.strip(),
        attachments=(*files, *more),
        # WeCom tells what was quoted, and not which message that was.
        reply_to=ReplyTo(ref="quote", text=quoted[:_MOST_QUOTED]) if quoted else None,
        mentions_me=not private,
    )


def _spoken(body: Mapping[str, Any]) -> tuple[str, tuple[Attachment, ...]]:
    kind = as_text(body["msgtype"])
    parts = as_dicts(dig(body, "mixed", "msg_item")) if kind == "mixed" else [dict(body)]
    words = [
        as_text(dig(part, name, "content")) for part in parts for name in ("text", "voice") if name in part
    ]
    files, unread = attachments(_file, parts)
    return storable("\n".join(filter(None, (*words, unread)))), files


def _file(part: Mapping[str, Any]) -> Attachment | None:
    kind = as_text(part.get("msgtype"))
    if kind not in _MEDIA:
        return None
    about = as_dict(part.get(kind))
    url, key = shaped(about["url"], _URL), as_text(about.get("aeskey"))
    ref = f"{url}#{shaped(key, _AES_KEY)}" if key else url
    return attachment(ref, _MEDIA[kind], about.get("filename") or about.get("name"), None, None)


def file_place(ref: str) -> tuple[str, str]:
    """The address of a file, and the key that it is encrypted with."""
    url, _, key = ref.partition("#")
    if not _URL.fullmatch(url) or (key and not _AES_KEY.fullmatch(key)):
        raise Refused("that is no file of WeCom's")
    return url, key
