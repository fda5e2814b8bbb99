"""Converts Mattermost's events, button presses and slash commands to `Inbound`s, and buttons to message
attachments. Pure functions; they return nothing for an event that cannot be read."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from msgspec import Struct, field

from hermes.domain.chats.address import DEFAULT_ACCOUNT, Address, Source, SourceKind
from hermes.domain.chats.message import (
    Attachment,
    Button,
    Inbound,
    InboundKind,
    MediaKind,
    ReplyTo,
    deletion,
    media_kind,
)
from hermes.domain.errors import Refused
from hermes.domain.ids import DeliveryId
from hermes.domain.text import one_line, storable
from hermes.domain.word import replace
from hermes.entry.kit.payload import (
    MALFORMED,
    Recent,
    as_dict,
    as_dicts,
    as_text,
    attachment,
    dig,
    if_malformed,
    inbounds,
    integer,
    moment,
    name_of,
    shaped,
)

NAME = "mattermost"
ID = re.compile(r"[a-z0-9]{26}", re.ASCII)
KEY = "hermes_key"
"""The property of a post of ours that says which message of the outbox it is."""
_CHATTED = frozenset({"", "me", "slack_attachment"})
"""The types of posts that are somebody's words; the others tell of joined people, calls and the like."""
_SPOKEN = frozenset(
    {"audio/ogg", "audio/opus", "audio/webm", "audio/mp4", "audio/x-m4a", "audio/aac", "audio/amr"}
)
"""What telephones and browsers record. Mattermost itself does not tell a voice from other sounds."""
_EMOJI = {
    "👀": "eyes", "👍": "+1", "👎": "-1", "✅": "white_check_mark", "❌": "x", "❤": "heart", "🎉": "tada",
    "🤔": "thinking", "🙏": "pray", "👌": "ok_hand", "🔥": "fire", "👏": "clap", "😁": "grin", "😄": "smile",
    "😂": "joy", "😢": "cry", "🚀": "rocket", "💯": "100", "⚠": "warning", "⏳": "hourglass_flowing_sand",
}  # fmt: skip
_EMOJI_NAMED = {name: emoji for emoji, name in _EMOJI.items()} | {"thumbsup": "👍", "thumbsdown": "👎"}
_EMOJI_SHAPE = re.compile(r"[a-z0-9_+-]{1,64}", re.ASCII)
_MOST_QUOTED = 2_000
_CODE = re.compile(r"(```.*?(?:```|\Z)|`[^`\n]*`)", re.DOTALL)
_EVERYBODY = re.compile(r"(?<![\w@])@(?=(?:all|channel|here)(?![\w-]))", re.IGNORECASE | re.ASCII)


class MattermostChannel(Struct, frozen=True, kw_only=True):
    id: str
    type: str
    name: str = ""
    team: str = ""
    last_post_at: int = 0


class MattermostIdentity(Struct, frozen=True, kw_only=True):
    """Who the bot is, and what was asked of the server because events do not tell it: channels, names of
    people, and the posts that threads hang on (None for one that is gone). `account` is how the operator
    calls the bot. `threads`: what is said to it in a channel begins a thread."""

    id: str
    username: str
    account: str = DEFAULT_ACCOUNT
    threads: bool = False
    channels: Recent[str, MattermostChannel] = field(default_factory=Recent)
    names: Recent[str, str] = field(default_factory=Recent)
    posts: Recent[str, Mapping[str, Any] | None] = field(default_factory=Recent)


@inbounds
def to_inbounds(event: Any, me: MattermostIdentity, now: datetime) -> Inbound | None:
    """What an event means. `now` is when we came into a channel or left it, which nobody tells."""
    data, name = event["data"], event["event"]
    if name in ("posted", "post_edited"):
        post = _decoded(data["post"])
        return _message(post, _channel(post, data, me), me, edited=name == "post_edited")
    if name == "post_deleted":
        return _deleted(_decoded(data["post"]), me)
    if name == "reaction_added":
        return _reaction(_decoded(data["reaction"]), event, me)
    whom = data.get("user_id") or event["broadcast"].get("user_id")
    if name in ("user_added", "user_removed") and whom == me.id:
        chat = shaped(event["broadcast"].get("channel_id") or data["channel_id"], ID)
        return Inbound(
            delivery=DeliveryId(f"{name}:{chat}:{int(now.timestamp() * 1000)}"),
            source=_source(_seen(chat, me), me),
            at=now,
            what=InboundKind.JOINED if name == "user_added" else InboundKind.LEFT,
        )
    return None


@if_malformed((None, None))
def wanted(event: Any, me: MattermostIdentity) -> tuple[str | None, str | None]:
    """The channel and the post that have to be known before an event can be read."""
    name, data = event["event"], event["data"]
    if name in ("posted", "post_edited"):
        post = _decoded(data["post"])
        if shaped(post["user_id"], ID) == me.id:
            return None, None
        with_channel = name == "posted" and data.get("channel_type")
        return None if with_channel else shaped(post["channel_id"], ID), _root(post)
    if name == "post_deleted" and (post := _decoded(data["post"]))["user_id"] != me.id:
        return shaped(post["channel_id"], ID), None
    if name == "reaction_added" and _decoded(data["reaction"])["user_id"] != me.id:
        return shaped(event["broadcast"]["channel_id"], ID), None
    return None, None


def as_events(posts: Sequence[Any], since: int) -> list[dict[str, Any]]:
    """Posts of the history as the events that we missed, in the order in which they happened."""
    events: list[tuple[int, dict[str, Any]]] = []
    for post in posts:
        with suppress(*MALFORMED):
            for at, event in _events_of(post):
                if at > since:
                    events.append((at, event))
    return [event for _, event in sorted(events, key=lambda event: event[0])]


def _events_of(post: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """What a post tells of itself, and when it happened."""
    data = {"post": post}
    if gone := integer(post.get("delete_at") or 0):
        yield gone, {"event": "post_deleted", "data": data}
        return
    made, edited = integer(post["create_at"]), integer(post.get("edit_at") or 0)
    yield made, {"event": "posted", "data": data}
    yield edited, {"event": "post_edited", "data": data}
    for reaction in (post.get("metadata") or {}).get("reactions") or ():
        place = {"channel_id": post["channel_id"]}
        event = {"event": "reaction_added", "data": {"reaction": reaction}, "broadcast": place}
        yield integer(reaction["create_at"]), event


@if_malformed(None)
def read_channel(about: Any) -> MattermostChannel | None:
    return MattermostChannel(
        id=shaped(about["id"], ID),
        type=as_text(about["type"]),
        name=storable(as_text(about.get("display_name"))),
        team=as_text(about.get("team_id")),
        last_post_at=integer(about.get("last_post_at") or 0),
    )


# --- messages ------------------------------------------------------------------------------------


def _message(
    post: Mapping[str, Any], channel: MattermostChannel, me: MattermostIdentity, *, edited: bool
) -> Inbound | None:
    number, author = shaped(post["id"], ID), shaped(post["user_id"], ID)
    if author == me.id or as_text(post.get("type")) not in _CHATTED or post.get("delete_at"):
        return None
    text, mentioned = spoken(as_text(post["message"]), me)
    attachments = tuple(_attachments(post))
    if not (text or attachments or mentioned):
        return None
    if edited and not post.get("edit_at"):
        return None  # it was pinned, or got a preview: nobody changed its words
    what = InboundKind.EDIT if edited else InboundKind.MESSAGE
    at = integer(post["edit_at"] if edited else post["create_at"])
    root, props = _root(post), as_dict(post.get("props"))
    begun = number if me.threads and channel.type != "D" else None
    return Inbound(
        delivery=DeliveryId(f"{what.value}:{number}" + (f":{at}" if edited else "")),
        source=replace(
            _source(channel, me, author, root or begun),
            is_bot="true" in (props.get("from_bot"), props.get("from_webhook"), props.get("from_plugin")),
        ),
        at=_time(at),
        what=what,
        ref=number,
        text=text,
        attachments=attachments,
        reply_to=None if root is None else _reply(root, me),
        mentions_me=mentioned,
    )


def _deleted(post: Mapping[str, Any], me: MattermostIdentity) -> Inbound | None:
    """By whom is not always told; whose message it was, always."""
    number, channel = shaped(post["id"], ID), me.channels[shaped(post["channel_id"], ID)]
    if shaped(post["user_id"], ID) == me.id:
        return None
    at = _time(integer(post.get("delete_at") or post["create_at"]))
    return deletion(_source(channel, me), number, at)


def _source(
    channel: MattermostChannel, me: MattermostIdentity, user: str | None = None, thread: str | None = None
) -> Source:
    kind = SourceKind.PRIVATE if channel.type == "D" else SourceKind.GROUP
    if thread is not None and kind is SourceKind.GROUP:
        kind = SourceKind.THREAD
    return Source(
        address=Address(platform=NAME, account=me.account, chat=channel.id, thread=thread),
        kind=kind,
        user=user,
        user_name=name_of(me.names.get(user or "")),
        chat_name=None if kind is SourceKind.PRIVATE else channel.name or None,
        guild=channel.team or None,
        parent_chat=channel.id if kind is SourceKind.THREAD else None,
    )


def _channel(post: Mapping[str, Any], data: Mapping[str, Any], me: MattermostIdentity) -> MattermostChannel:
    number = shaped(post["channel_id"], ID)
    if isinstance(data.get("channel_type"), str) and data["channel_type"]:
        return MattermostChannel(
            id=number,
            type=data["channel_type"],
            name=storable(as_text(data.get("channel_display_name"))),
            team=as_text(data.get("team_id")),
        )
    return me.channels[number]


def _seen(chat: str, me: MattermostIdentity) -> MattermostChannel:
    """A channel; one of which nothing was told is taken for a public one."""
    return me.channels.get(chat) or MattermostChannel(id=chat, type="O")


def spoken(text: str, me: MattermostIdentity) -> tuple[str, bool]:
    """What was said, without our own name at its start, and whether it names us. Who wants a slash at the
    start of a message has to write a blank before it."""
    name = re.compile(rf"(?<![\w@.-])@{re.escape(me.username)}(?![\w-]|\.\w)", re.IGNORECASE | re.ASCII)
    mention = name.search(text)
    if mention is not None and not text[: mention.start()].strip():
        text = text[mention.end() :].lstrip(" ,:\n")
    if text.lstrip().startswith("/"):
        text = text.lstrip()
    return text, mention is not None


def _attachments(post: Mapping[str, Any]) -> Iterator[Attachment]:
    infos = {as_text(info.get("id")): info for info in as_dicts(dig(post, "metadata", "files"))}
    for number in post.get("file_ids") or ():
        info = infos.get(number, {})
        mime = as_text(info.get("mime_type")).partition(";")[0].strip().lower()
        kind = MediaKind.VOICE if mime in _SPOKEN else media_kind(mime)
        yield attachment(shaped(number, ID), kind, info.get("name"), mime, info.get("size"))


def _root(post: Mapping[str, Any]) -> str | None:
    """The post that begins the thread in which this one is."""
    return shaped(post["root_id"], ID) if post.get("root_id") else None


def _reply(root: str, me: MattermostIdentity) -> ReplyTo:
    post = me.posts.get(root) or {}
    author = as_text(post.get("user_id"))
    return ReplyTo(
        ref=root,
        text=as_text(post.get("message"))[:_MOST_QUOTED],
        author=name_of(me.names.get(author)),
        mine=author == me.id,
    )


def _reaction(
    reaction: Mapping[str, Any], event: Mapping[str, Any], me: MattermostIdentity
) -> Inbound | None:
    post, person, name = (
        shaped(reaction["post_id"], ID),
        shaped(reaction["user_id"], ID),
        reaction["emoji_name"],
    )
    channel = me.channels[shaped(event["broadcast"]["channel_id"], ID)]
    if person == me.id or not _EMOJI_SHAPE.fullmatch(name):
        return None
    at = integer(reaction["create_at"])
    return Inbound(
        delivery=DeliveryId(f"reaction:{post}:{person}:{name}:{at}"),
        source=replace(_source(channel, me, person), chat_name=channel.name or None, guild=None),
        at=_time(at),
        what=InboundKind.REACTION,
        ref=post,
        text=_EMOJI_NAMED.get(name, f":{name}:"),
    )


def emoji_name(emoji: str) -> str:
    bare = emoji.replace("\ufe0f", "")
    name = _EMOJI.get(bare) or bare.strip(":")
    if not _EMOJI_SHAPE.fullmatch(name):
        raise Refused(f"Mattermost has no name that we know for {one_line(emoji, 20)}")
    return name


@if_malformed(None)
def pressed(press: Any, me: MattermostIdentity, secret: bytes, now: datetime) -> Inbound | None:
    """A pressed button, if it is one of ours: its context holds what only the server and we know."""
    chat, context = shaped(press["channel_id"], ID), press["context"]
    value, given = context["value"], context["signature"]
    if not hmac.compare_digest(given.encode(), signature(secret, chat, value).encode()):
        return None
    trigger = as_text(press.get("trigger_id")) or f"{press['post_id']}:{press['user_id']}:{now.timestamp()}"
    return Inbound(
        delivery=DeliveryId(f"button:{_digest(trigger)}"),
        source=_caller(press, me, context.get("thread")),
        at=now,
        what=InboundKind.BUTTON,
        ref=shaped(press["post_id"], ID),
        button=storable(value),
    )


def _caller(about: Mapping[str, Any], me: MattermostIdentity, thread: Any) -> Source:
    user = shaped(about["user_id"], ID)
    me.names[user] = as_text(about.get("user_name"))
    return _source(_seen(shaped(about["channel_id"], ID), me), me, user, _root({"root_id": thread}))


def signature(secret: bytes, chat: str, value: str) -> str:
    return hmac.new(secret, f"{chat}\n{value}".encode(), hashlib.sha256).hexdigest()


def button_parts(buttons: Sequence[Button], to: Address, url: str, secret: bytes) -> list[dict[str, Any]]:
    """Buttons as a message attachment. Without an address for presses, the words that one may answer."""
    shown = [button for button in buttons if button.label.strip()]
    if not shown:
        return []
    words = " · ".join(f"`{one_line(button.label, 80)}`" for button in shown)
    if not url:
        return [{"fallback": "Answer in words.", "text": f"Answer with one of: {words}"}]
    actions = [
        {
            "id": f"choice{number}",
            "name": one_line(button.label, 80),
            "type": "button",
            "integration": {
                "url": url,
                "context": {
                    "value": button.value,
                    "thread": to.thread,
                    "signature": signature(secret, to.chat, button.value),
                },
            },
        }
        for number, button in enumerate(shown)
    ]
    return [{"fallback": f"Choices: {words}", "text": "", "actions": actions}]


def names_of(parts: Any) -> list[str]:
    """What the buttons of message attachments say, and the texts beside them."""
    names: list[str] = []
    for part in as_dicts(parts):
        labels = [as_text(action.get("name")) for action in as_dicts(part.get("actions"))]
        names += [as_text(part.get("text")), *labels]
    return [name for name in names if name]


@if_malformed(None)
def commanded(form: Mapping[str, str], me: MattermostIdentity, now: datetime) -> Inbound | None:
    """A slash command that an admin made for us: `/hermes status now` means `/status now`. It may not be told
    in which thread it was given."""
    line = form.get("text", "").strip().lstrip("/!")
    return Inbound(
        delivery=DeliveryId(f"command:{_digest(form['trigger_id'])}"),
        source=_caller(form, me, form.get("root_id")),
        at=now,
        text=storable(f"/{line or 'help'}"),
        mentions_me=True,
    )


# --- what goes out -------------------------------------------------------------------------------


def calm(text: str) -> str:
    """The text without words that call everybody in a channel; in code they call nobody."""
    parts = _CODE.split(text)
    return "".join(part if place % 2 else _EVERYBODY.sub("＠", part) for place, part in enumerate(parts))


def place(to: Address) -> dict[str, str]:
    if not ID.fullmatch(to.chat):
        raise Refused(f"{to} is not a channel: its id is wanted, 26 letters and digits (channel → View Info)")
    if to.thread is None:
        return {"channel_id": to.chat}
    if not ID.fullmatch(to.thread):
        raise Refused(f"{to} is not a thread: the id of its first message is wanted")
    return {"channel_id": to.chat, "root_id": to.thread}


def key_of(to: Address, key: str) -> str:
    """The same for the same message of the outbox, and for no other."""
    return _digest(f"{to}\n{key}")


def _decoded(value: Any) -> Mapping[str, Any]:
    """Posts and reactions are JSON within JSON; those of the history are not."""
    decoded = json.loads(value) if isinstance(value, str) else value
    if not isinstance(decoded, dict):
        raise ValueError("not an object")
    return decoded


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _time(milliseconds: int) -> datetime:
    return moment(milliseconds, per_second=1000)


def time_of(item: Inbound) -> int:
    return round(item.at.timestamp() * 1000)
