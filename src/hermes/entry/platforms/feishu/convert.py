"""Converts events of Feishu's to `Inbound`s, and our messages to cards. Pure functions; they return nothing
for an event that cannot be read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from hermes.domain.chats.address import DEFAULT_ACCOUNT, Address, Source, SourceKind
from hermes.domain.chats.message import Attachment, Button, Inbound, InboundKind, MediaKind, ReplyTo, deletion
from hermes.domain.errors import Refused
from hermes.domain.ids import DeliveryId
from hermes.domain.text import one_line, storable
from hermes.entry.kit.payload import (
    Recent,
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

NAME = "feishu"
MESSAGE = re.compile(r"om_[A-Za-z0-9_]{8,80}")
_CHAT = re.compile(r"oc_[A-Za-z0-9]{8,80}")
_PERSON = re.compile(r"ou_[A-Za-z0-9]{8,80}")
_KEY = re.compile(r"[A-Za-z0-9_-]{4,200}")
_EVENT = re.compile(r"[!-~]{1,128}")
_REF = re.compile(r"(om_[A-Za-z0-9_]{8,80})/(image|file)/([A-Za-z0-9_-]{4,200})")
_MENTION = re.compile(r"</?at\b", re.IGNORECASE)
_PICTURE = re.compile(r"(```.*?```|`[^`\n]*`)|!\[([^\]\n]*)\]\(", re.DOTALL)
_FILES = {
    "image": MediaKind.IMAGE,
    "file": MediaKind.FILE,
    "audio": MediaKind.VOICE,
    "media": MediaKind.VIDEO,
}
_MOST_QUOTED = 2_000
BUTTON = "hermes_button"
"""The name under which a button's value comes back."""


class FeishuIdentity(Struct, frozen=True, kw_only=True):
    """Who the bot is, and what was learnt of chats and messages: which chats are private, and what was
    answered to."""

    open_id: str
    account: str = DEFAULT_ACCOUNT
    private: Recent[str, bool] = field(default_factory=Recent)
    quoted: Recent[str, ReplyTo] = field(default_factory=Recent)
    quoted_files: Recent[str, tuple[Attachment, ...]] = field(default_factory=Recent)


@inbounds
def to_inbounds(event: Any, me: FeishuIdentity) -> Inbound | None:
    kind, details = event["header"]["event_type"], event["event"]
    if kind == "im.message.receive_v1":
        return _message(details, me)
    if kind == "card.action.trigger":
        return _pressed(event["header"], details, me)
    if kind == "im.message.recalled_v1":
        chat = shaped(details["chat_id"], _CHAT)
        at = moment(int(details["recall_time"]), per_second=1000)
        return deletion(_source(chat, me), shaped(details["message_id"], MESSAGE), at)
    if kind in ("im.chat.member.bot.added_v1", "im.chat.member.bot.deleted_v1"):
        number, chat = shaped(event["header"]["event_id"], _EVENT), shaped(details["chat_id"], _CHAT)
        return Inbound(
            delivery=DeliveryId(f"member:{number}"),
            source=_source(chat, me, dig(details, "operator_id", "open_id"), name=details.get("name")),
            at=moment(int(event["header"]["create_time"]), per_second=1000),
            what=InboundKind.JOINED if "added" in kind else InboundKind.LEFT,
        )
    return None


@if_malformed(None)
def wanted(event: Any, me: FeishuIdentity) -> str | None:
    """The message that has to be asked for, because somebody answered it and the event does not tell it."""
    parent = _optional(event["event"]["message"].get("parent_id"))
    return None if parent in me.quoted else parent


@if_malformed(None)
def read_quoted(number: str, answer: Any) -> ReplyTo | None:
    message = answer["data"]["items"][0]
    content = as_dict(read_json(as_text(dig(message, "body", "content"))))
    text = as_text(content.get("text")) if message.get("msg_type") == "text" else ""
    mine = dig(message, "sender", "sender_type") == "app"
    return ReplyTo(ref=number, text=storable(text)[:_MOST_QUOTED], mine=mine)


@if_malformed(())
def quoted_files(number: str, answer: Any, me: FeishuIdentity) -> tuple[Attachment, ...]:
    message = answer["data"]["items"][0]
    return _spoken({"message_type": message["msg_type"], "content": message["body"]["content"]}, number, me)[
        1
    ]


def _message(details: Mapping[str, Any], me: FeishuIdentity) -> Inbound | None:
    message, sender = details["message"], details["sender"]
    number, chat = shaped(message["message_id"], MESSAGE), shaped(message["chat_id"], _CHAT)
    if message["chat_type"] not in ("p2p", "group"):
        return None
    me.private[chat] = message["chat_type"] == "p2p"
    text, attachments, mentioned = _spoken(message, number, me)
    if not (text or attachments or mentioned):
        return None
    root, parent = _optional(message.get("root_id")), _optional(message.get("parent_id"))
    # Everything in a topic answers its first message, by which the topic is written to.
    thread = (root or number) if message.get("thread_id") and not me.private[chat] else None
    if parent is not None and not (thread and parent == root):
        attachments = (*attachments, *me.quoted_files.get(parent, ()))
    return Inbound(
        delivery=DeliveryId(f"message:{number}"),
        source=_source(
            chat,
            me,
            shaped(dig(sender, "sender_id", "open_id"), _PERSON),
            thread=thread,
            is_bot=sender.get("sender_type") not in (None, "user"),
        ),
        at=moment(int(message["create_time"]), per_second=1000),
        ref=number,
        text=text,
        attachments=attachments,
        reply_to=None if parent is None else me.quoted.get(parent) or ReplyTo(ref=parent),
        mentions_me=mentioned and not me.private[chat],
    )


def _optional(value: Any) -> str | None:
    return value if isinstance(value, str) and MESSAGE.fullmatch(value) else None


def _source(
    chat: str,
    me: FeishuIdentity,
    user: Any = None,
    *,
    thread: str | None = None,
    name: Any = None,
    is_bot: bool = False,
) -> Source:
    private = me.private.get(chat, False)
    kind = SourceKind.THREAD if thread else SourceKind.PRIVATE if private else SourceKind.GROUP
    return Source(
        address=Address(platform=NAME, account=me.account, chat=chat, thread=thread),
        kind=kind,
        user=user if isinstance(user, str) and _PERSON.fullmatch(user) else None,
        chat_name=None if private else name_of(name),
        parent_chat=chat if thread else None,
        is_bot=is_bot,
    )


def _spoken(
    message: Mapping[str, Any], number: str, me: FeishuIdentity
) -> tuple[str, tuple[Attachment, ...], bool]:
    """The words of a message, its files, and whether it mentions the bot."""
    kind, content = as_text(message["message_type"]), as_dict(read_json(as_text(message["content"])))
    files: list[Attachment] = []
    if kind == "post":
        text, files = _post(content, number)
    elif kind in _FILES:
        key = shaped(content["image_key" if kind == "image" else "file_key"], _KEY)
        where = "image" if kind == "image" else "file"
        files = [attachment(f"{number}/{where}/{key}", _FILES[kind], content.get("file_name"), None, None)]
        text = ""
    elif kind == "text":
        text = as_text(content.get("text"))
    else:
        text = (
            f"({one_line(kind, 30)})"
            if kind in ("sticker", "merge_forward", "share_chat", "location")
            else ""
        )
    mentions = as_dicts(message.get("mentions"))
    mentioned = any(dig(one, "id", "open_id") == me.open_id for one in mentions)
    for one in mentions:
        key, name = as_text(one.get("key")), storable(as_text(one.get("name")))
        ours = dig(one, "id", "open_id") == me.open_id
        if key:
            text = re.sub(rf"{re.escape(key)}(?!\d) ?", "" if ours else f"@{name} ".replace("\\", ""), text)
    return storable(text).strip(), tuple(files), mentioned


def _post(content: Mapping[str, Any], number: str) -> tuple[str, list[Attachment]]:
    """Rich text: lines of parts, perhaps under a language."""
    if "content" not in content:
        content = next((as_dict(one) for one in content.values() if isinstance(one, dict)), {})
    lines, files = [as_text(content.get("title"))], list[Attachment]()
    for line in content.get("content") or ():
        words = ""
        for part in as_dicts(line):
            tag = part.get("tag")
            if tag in ("img", "media"):
                key = shaped(part["image_key" if tag == "img" else "file_key"], _KEY)
                where, kind = ("image", MediaKind.IMAGE) if tag == "img" else ("file", MediaKind.VIDEO)
                files.append(attachment(f"{number}/{where}/{key}", kind, None, None, None))
            elif tag == "at":
                words += as_text(part.get("user_id"))  # a key such as @_user_1
            elif tag == "a":
                words += f"[{as_text(part.get('text'))}]({as_text(part.get('href'))})"
            elif tag == "code_block":
                words += f"```\n{as_text(part.get('text'))}\n```"
            else:
                words += as_text(part.get("text"))
        lines.append(words)
    return "\n".join(lines).strip(), files


def _pressed(header: Mapping[str, Any], details: Mapping[str, Any], me: FeishuIdentity) -> Inbound:
    number, chat = shaped(header["event_id"], _EVENT), shaped(details["context"]["open_chat_id"], _CHAT)
    value = details["action"]["value"]
    thread = _optional(value.get("thread"))
    if "private" in value:
        me.private[chat] = value["private"] is True
    return Inbound(
        delivery=DeliveryId(f"button:{number}"),
        source=_source(chat, me, shaped(details["operator"]["open_id"], _PERSON), thread=thread),
        at=moment(int(header["create_time"]) // 1000, per_second=1000),
        what=InboundKind.BUTTON,
        ref=shaped(details["context"]["open_message_id"], MESSAGE),
        button=storable(value[BUTTON]),
    )


# --- what goes out --------------------------------------------------------------------------------


def place(to: Address) -> tuple[str, str]:
    """The kind of an id, and the id: a chat's, or a person's, for whom it is their private chat."""
    if _CHAT.fullmatch(to.chat):
        return "chat_id", to.chat
    if _PERSON.fullmatch(to.chat):
        return "open_id", to.chat
    raise Refused(f"{one_line(to.chat, 60)} is neither a chat nor a person of Feishu's (oc_… or ou_…)")


def file_place(ref: str) -> tuple[str, str, str]:
    """Of which message a file is, whether it is a picture or another file, and its key."""
    parts = _REF.fullmatch(ref)
    if parts is None:
        raise Refused("that is no file of Feishu's")
    return parts[1], parts[2], parts[3]


def card(
    text: str, buttons: Sequence[Button], to: Address, private: bool | None, *, plain: bool = False
) -> str:
    """A message as a card, which can be changed as often as one likes; a text can be only twenty times.
    `plain`: as it is written, where the Markdown is none that Feishu takes."""
    text = _MENTION.sub(lambda mention: "＜" + mention[0][1:], text)
    if not plain:
        # A card shows only pictures that were uploaded, and with any other it is refused as a whole.
        text = _PICTURE.sub(lambda match: match[1] or f"[{match[2] or 'picture'}](", text)
    words: dict[str, Any] = {"tag": "markdown", "content": text}
    if plain:
        words = {"tag": "div", "text": {"tag": "plain_text", "content": text}}
    about = {} if private is None else {"private": private}
    elements = [words, *_buttons(buttons, {**about, **({"thread": to.thread} if to.thread else {})})]
    whole = {"schema": "2.0", "config": {"update_multi": True}, "body": {"elements": elements}}
    return json.dumps(whole, ensure_ascii=False)


def _buttons(buttons: Sequence[Button], about: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for button in buttons:
        yield {
            "tag": "button",
            "text": {"tag": "plain_text", "content": one_line(button.label, 80)},
            "behaviors": [{"type": "callback", "value": {BUTTON: button.value, **about}}],
        }
