"""Converts frames of WeCom's AI bot to `Inbound`s. Pure functions; they return nothing for a frame that
cannot be read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import unquote

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
_MENTION = re.compile(r"(?<!\S)[@＠][^\s/@＠]+")
_MENTIONS_FIRST = re.compile(r"\s*(?:[@＠][^\s/@＠]+\s*)+(?=/)")
_FILE_NAME = re.compile(r"filename\*=UTF-8''([^;\s]+)|filename=\"?([^\";]+)", re.IGNORECASE)
_MEDIA = {"image": MediaKind.IMAGE, "file": MediaKind.FILE, "video": MediaKind.VIDEO}
_MOST_QUOTED = 2_000


def place(to: Address) -> str:
    """A private chat has the id of its person, a group one of its own."""
    if not _CHAT.fullmatch(to.chat):
        raise Refused(f"{one_line(to.chat, 60)} is neither a person nor a group of WeCom's")
    return to.chat


@inbounds
def to_inbounds(frame: Any, now: datetime, account: str = DEFAULT_ACCOUNT, name: str = "") -> Inbound | None:
    if frame["cmd"] != MESSAGE:
        return None
    body = frame["body"]
    user, private = shaped(body["from"]["userid"], _CHAT), body["chattype"] == "single"
    text, files = _spoken(body)
    quote = as_dict(body.get("quote"))
    quoted, more = _spoken(quote) if as_text(quote.get("msgtype")) else ("", ())
    if not private:
        text = _unmentioned(text, name)
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


def _unmentioned(text: str, name: str) -> str:
    """What is said to the bot. WeCom only tells it of what mentions it, by the name that people see
    (chenhg5/cc-connect #1224). Where we do not know that name, a mention that stands alone at either end is
    it, and so are those before a command."""
    if name:
        return re.sub(rf"[@＠]{re.escape(name)}(?!\w)\s*", "", text)
    text, mentions = _MENTIONS_FIRST.sub("", text, count=1).strip(), _MENTION.findall(text)
    if len(mentions) == 1 and (text.startswith(mentions[0]) or text.endswith(mentions[0])):
        return text.replace(mentions[0], "", 1)
    return text


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
    return attachment(ref, _MEDIA[kind], None, None, None)


def file_name_in(disposition: str) -> str | None:
    """The name of a file, which only the answer tells that it comes in (`Content-Disposition`), as the
    vendor's SDK reads it (@wecom/aibot-node-sdk, `src/api.ts`)."""
    match = _FILE_NAME.search(disposition)
    return None if match is None else storable(unquote(match[1] or match[2])) or None


def file_place(ref: str) -> tuple[str, str]:
    """The address of a file, and the key that it is encrypted with."""
    url, _, key = ref.partition("#")
    if not _URL.fullmatch(url) or (key and not _AES_KEY.fullmatch(key)):
        raise Refused("that is no file of WeCom's")
    return url, key
