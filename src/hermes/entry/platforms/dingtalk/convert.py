"""Converts frames of DingTalk's Stream mode to `Inbound`s, and Markdown to what its clients show as written.
Pure functions; they return nothing for a frame that cannot be read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
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
    dig,
    if_malformed,
    inbounds,
    moment,
    name_of,
    read_json,
    shaped,
)

NAME = "dingtalk"
MESSAGES = "/v1.0/im/bot/messages/get"
_ID = re.compile(r"[!-~]{1,200}")
_GROUP = re.compile(r"cid[A-Za-z0-9+/_-]{16,100}={0,2}")
_CODE = re.compile(r"[!-~]{1,4000}")
_PERSON = re.compile(r"[^\s:,]{1,64}")
_MOST_QUOTED = 2_000
_FENCE = re.compile(r"^\s*(```|~~~)")
_OWN_LINE = re.compile(r"^\s*([-*+]\s|[>|#]|\d+[.)]\s|(```|~~~)|$)")
"""A line that is one by itself: of a list, a table, a quote, a heading, a fence, or empty."""
_RULE = re.compile(r"^\s*\|[\s:|-]*-[\s:|-]*$")
"""The line below a table's head."""
_MEDIA = {
    "picture": MediaKind.IMAGE,
    "audio": MediaKind.VOICE,
    "video": MediaKind.VIDEO,
    "file": MediaKind.FILE,
}


def is_group(chat: str) -> bool:
    return _GROUP.fullmatch(chat) is not None


def place(to: Address) -> tuple[str, bool]:
    """The id of a chat, and whether it is a group's: a private chat is named by the person's staff id."""
    if not (is_group(to.chat) or _PERSON.fullmatch(to.chat)):
        raise Refused(f"{one_line(to.chat, 60)} is neither a person nor a group of DingTalk's")
    return to.chat, is_group(to.chat)


@inbounds
def to_inbounds(frame: Any, account: str = DEFAULT_ACCOUNT) -> Inbound | None:
    """What a frame means: the message of a person, or nothing."""
    if frame["type"] != "CALLBACK" or frame["headers"]["topic"] != MESSAGES:
        return None
    message = read_json(frame["data"])
    number = shaped(message["msgId"], _ID)
    source = _source(message, account)
    text, attachments = _spoken(message)
    attachments = (*attachments, *_quoted_files(message))
    if not (text or attachments or source.kind is SourceKind.GROUP):
        return None
    return Inbound(
        delivery=DeliveryId(f"message:{number}"),
        source=source,
        at=moment(message["createAt"], per_second=1000),
        ref=number,
        text=text,
        attachments=attachments,
        reply_to=_reply(message),
        mentions_me=source.kind is SourceKind.GROUP and message.get("isInAtList") is True,
    )


def _source(message: Mapping[str, Any], account: str) -> Source:
    staff = as_text(message.get("senderStaffId")).strip()
    user = shaped(staff, _PERSON) if staff else shaped(message["senderId"], _ID)
    private = {"1": True, "2": False}[message["conversationType"]]
    # The robot interface reaches a person by the staff id; somebody of another organisation has none.
    chat = user if private else shaped(message["conversationId"], _GROUP)
    return Source(
        address=Address(platform=NAME, account=account, chat=chat),
        kind=SourceKind.PRIVATE if private else SourceKind.GROUP,
        user=user,
        user_name=name_of(message.get("senderNick")),
        chat_name=None if private else name_of(message.get("conversationTitle")),
        guild=name_of(message.get("senderCorpId")),
    )


def _spoken(message: Mapping[str, Any]) -> tuple[str, tuple[Attachment, ...]]:
    """The words of a message and its files. In a group a blank stands where the bot's name was."""
    kind, content = as_text(message["msgtype"]), as_dict(message.get("content"))
    if kind == "text":
        return storable(as_text(dig(message, "text", "content"))).strip(), ()
    if kind == "richText":
        parts = as_dicts(content.get("richText"))
        words = "".join(as_text(part.get("text")) for part in parts)
        return storable(words).strip(), tuple(_pictures(parts))
    if kind in _MEDIA:
        if heard := as_text(content.get("recognition")).strip():
            return storable(heard), ()  # DingTalk has written the voice down already
        code = shaped(content["downloadCode"], _CODE)
        return "", (attachment(code, _MEDIA[kind], content.get("fileName"), None, None),)
    if kind == "markdown":
        return storable(as_text(content.get("text"))).strip(), ()
    if kind == "chatRecord":
        return storable("\n".join(["[Forwarded]", *_recorded(content)])), ()
    told = [one for one in content.values() if isinstance(one, str) and one.strip()]
    return storable("\n".join([f"({one_line(kind, 30)})", *told])), ()


def _recorded(content: Mapping[str, Any]) -> Iterator[str]:
    """What a forwarded chat says: a summary, which is cut and has names, and the messages, which often have
    none (soimy/openclaw-channel-dingtalk #202, #525; QwenLM/qwen-code #9339)."""
    summary = as_text(content.get("summary"))
    lines = read_json(summary)
    yield from map(as_text, lines) if isinstance(lines, list) else [summary]
    for one in as_dicts(read_json(as_text(content.get("chatRecord")))):
        name = as_text(one.get("senderNick"))
        words = (
            as_text(one.get("content")) or as_text(dig(one, "content", "text")) or as_text(one.get("text"))
        )
        yield f"{name}: {words}" if name else words


def _pictures(parts: list[dict[str, Any]]) -> Iterator[Attachment]:
    for part in parts:
        if code := as_text(part.get("downloadCode")):
            yield attachment(shaped(code, _CODE), MediaKind.IMAGE, None, None, None)


@if_malformed(())
def _quoted_files(message: Mapping[str, Any]) -> tuple[Attachment, ...]:
    quoted = _quoted(message)
    if quoted is None:
        return ()
    return _spoken({"msgtype": quoted["msgType"], "content": quoted.get("content")})[1]


def _quoted(message: Mapping[str, Any]) -> dict[str, Any] | None:
    """The message that one answers; it stands beside the words, which with a picture are elsewhere."""
    beside = (as_dict(message.get(name)) for name in ("text", "content"))
    return next((as_dict(one.get("repliedMsg")) for one in beside if one.get("isReplyMsg") is True), None)


def _reply(message: Mapping[str, Any]) -> ReplyTo | None:
    """What was answered to. One of ours is named by the key that it was sent with, if that is told."""
    quoted = _quoted(message)
    if quoted is None:
        return None
    ours = as_text(message.get("originalProcessQueryKey"))
    ref = ours or as_text(quoted.get("msgId")) or as_text(message.get("originalMsgId"))
    if not _ID.fullmatch(ref):
        return None
    sender = as_text(quoted.get("senderId"))
    mine = bool(ours) or (bool(sender) and sender == message.get("chatbotUserId"))
    text = _quoted_words(as_dict(quoted.get("content")))
    return ReplyTo(ref=ref, text=storable(text)[:_MOST_QUOTED], mine=mine)


def _quoted_words(content: Mapping[str, Any]) -> str:
    """Each kind of message has them elsewhere (QwenLM/qwen-code #9536)."""
    for name in ("text", "content"):
        if words := as_text(content.get(name)):
            return words
    parts = as_dicts(content.get("richText"))
    words = "".join(as_text(part.get("text")) or as_text(part.get("content")) for part in parts)
    if words or "summary" not in content:
        return words or " ".join(_card_words(content.get("cardContent")))
    return "\n".join(_recorded(content))


def _card_words(node: Any) -> Iterator[str]:
    for one in as_dicts(node) or as_dicts([node]):
        if one.get("elementType") == "TEXT":
            yield as_text(one.get("value"))
        yield from _card_words(one.get("children"))


def hard_breaks(text: str) -> str:
    """Markdown in which every line stays one: DingTalk joins lines unless two blanks end the first. It draws
    a table only after an empty line (its own connector, messaging/card.ts: `ensureTableBlankLines`)."""
    lines, fenced, out = text.split("\n"), False, list[str]()
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        fence = _FENCE.match(line) is not None
        plain = not (fenced or fence or _OWN_LINE.match(line) or _OWN_LINE.match(after))
        fenced ^= fence
        head = not fenced and line.lstrip().startswith("|") and _RULE.match(after)
        if head and out and out[-1].strip() and not out[-1].lstrip().startswith("|"):
            out.append("")
        out.append(f"{line}  " if plain and not line.endswith("  ") else line)
    return "\n".join(out)


def title_of(text: str) -> str:
    """What notifications show of a message."""
    return one_line(re.sub(r"[*_`#>|~\[\]]", "", text), 60) or "…"
