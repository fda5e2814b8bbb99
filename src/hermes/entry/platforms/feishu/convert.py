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
_WORDS = ("title", "subtitle", "text", "content", "summary", "topic", "options", "name", "file_name")
_DETAILS = ("latitude", "longitude", "user_id", "chat_id", "start_time", "end_time", "due_time")
_NOTHING: tuple[str, tuple[Attachment, ...], bool] = ("", (), False)
_MOST_QUOTED, _MOST_FORWARDED = 2_000, 40_000
BUTTON = "hermes_button"
"""The name under which a button's value comes back."""


class FeishuMessage(Struct, frozen=True, kw_only=True):
    """A message that Feishu was asked for, because its event does not tell what is in it."""

    text: str = ""
    attachments: tuple[Attachment, ...] = ()
    mine: bool = False


class FeishuIdentity(Struct, frozen=True, kw_only=True):
    """Who the bot is, and what was learnt: which chats are private, by which message each topic is written
    to, and what was answered to or forwarded."""

    open_id: str
    account: str = DEFAULT_ACCOUNT
    private: Recent[str, bool] = field(default_factory=Recent)
    topics: Recent[str, str] = field(default_factory=lambda: Recent(500))
    asked: Recent[str, FeishuMessage] = field(default_factory=lambda: Recent(500))

    def cursor(self) -> str:
        return json.dumps(self.topics)

    def resume(self, cursor: str | None) -> None:
        topics = as_dict(read_json(cursor or ""))
        self.topics.update({key: one for key, one in topics.items() if _optional(one)})


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


@if_malformed(())
def wanted(event: Any, me: FeishuIdentity) -> Sequence[str]:
    """The messages to ask for, because the event does not tell them: what was forwarded, or answered to."""
    message = event["event"]["message"]
    forwarded = message["message_id"] if message["message_type"] == "merge_forward" else None
    numbers = map(_optional, (forwarded, message.get("parent_id")))
    return [number for number in numbers if number is not None and number not in me.asked]


@if_malformed(None)
def learn(number: str, answer: Any, me: FeishuIdentity) -> None:
    """Keep a message that was asked for. A forwarded chat comes with everything in it (lark-oapi 1.7.5,
    channel/normalize/merge_forward.py); its files belong to it (NousResearch/hermes-agent #66729)."""
    whole, *parts = as_dicts(answer["data"]["items"])
    if whole["msg_type"] != "merge_forward":
        parts = [whole]
    lines, files, people = list[str](), list[Attachment](), dict[str, int]()
    for part in parts:
        if part["msg_type"] == "merge_forward":
            continue  # what is in it is in the list, too
        about = {**part, "message_type": part["msg_type"], "content": dig(part, "body", "content")}
        text, attachments, _ = if_malformed(_NOTHING)(_spoken)(about, number, me)
        files += attachments
        person = people.setdefault(str(dig(part, "sender", "id")), len(people) + 1)
        text = text or "".join(f"({one.kind})" for one in attachments)
        lines.append(text if part is whole else f"Person {person}: {text}")
    mine = dig(whole, "sender", "sender_type") == "app"
    text = "" if mine and whole["msg_type"] == "interactive" else "\n".join(lines)[:_MOST_FORWARDED]
    me.asked[number] = FeishuMessage(text=text, attachments=tuple(files), mine=mine)


def _message(details: Mapping[str, Any], me: FeishuIdentity) -> Inbound | None:
    message, sender = details["message"], details["sender"]
    number, chat = shaped(message["message_id"], MESSAGE), shaped(message["chat_id"], _CHAT)
    # `group`, `topic_group` (larksuite/oapi-sdk-go, service/im/v1/model.go), and for lark-oapi 1.7.5 also
    # `public` and `private`.
    me.private[chat] = message["chat_type"] in ("p2p", "private")
    text, attachments, mentioned = _spoken(message, number, me)
    if not (text or attachments or mentioned):
        return None
    root, parent = _optional(message.get("root_id")), _optional(message.get("parent_id"))
    thread, topic = None, as_text(message.get("thread_id"))
    if topic and not me.private[chat]:
        # A topic is written to by a message in it: the first that is known, for what is typed into a topic
        # does not always name its root (openclaw/openclaw #66631).
        thread = me.topics[topic] = me.topics.get(topic) or root or number
    reply = None
    if parent is not None:
        answered = me.asked.get(parent, FeishuMessage())
        reply = ReplyTo(ref=parent, text=answered.text[:_MOST_QUOTED], mine=answered.mine)
        if not (thread and parent == root):
            attachments = (*attachments, *answered.attachments)
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
        reply_to=reply,
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
    if kind == "merge_forward":
        forwarded = me.asked.get(number, FeishuMessage(text="It could not be read."))
        text, files = f"[Forwarded]\n{forwarded.text}", list(forwarded.attachments)
    elif kind == "post":
        text, files = _post(content, number)
    elif kind in _FILES:
        key = shaped(content["image_key" if kind == "image" else "file_key"], _KEY)
        where = "image" if kind == "image" else "file"
        files = [attachment(f"{number}/{where}/{key}", _FILES[kind], content.get("file_name"), None, None)]
        text = ""
    elif kind == "text":
        text = as_text(content.get("text"))
    else:
        text = "\n".join([f"({one_line(kind, 30)})", *_leaves(content)])
    mentions = as_dicts(message.get("mentions"))
    mentioned = any(dig(one, "id", "open_id") == me.open_id for one in mentions)
    for one in mentions:
        key, name = as_text(one.get("key")), storable(as_text(one.get("name")))
        ours = dig(one, "id", "open_id") == me.open_id
        if key:
            text = re.sub(rf"{re.escape(key)}(?!\d) ?", "" if ours else f"@{name} ".replace("\\", ""), text)
    return storable(text).strip(), tuple(files), mentioned


def _leaves(value: Any, name: str = "") -> Iterator[str]:
    """The words in a card, a task, an invitation, a vote and whatever else people share."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _leaves(one, key)
    elif isinstance(value, list):
        for one in value:
            yield from _leaves(one, name)
    elif isinstance(value, str) and value.strip():
        if name in _WORDS:
            yield value.strip()
        elif name in _DETAILS:
            at = name.endswith("_time") and value.isdigit()
            yield f"{name}: {moment(int(value), per_second=1000) if at else value}"


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
