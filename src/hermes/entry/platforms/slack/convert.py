"""Between Slack's words and ours: events, pressed buttons and slash commands to `Inbound`s. Pure functions; a
payload that cannot be read gives nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl

from msgspec import Struct, field

from hermes.domain.chats.address import DEFAULT_ACCOUNT, Address, Source, SourceKind
from hermes.domain.chats.message import (
    Attachment,
    Inbound,
    InboundKind,
    MediaKind,
    ReplyTo,
    deletion,
    media_kind,
)
from hermes.domain.ids import DeliveryId
from hermes.domain.text import one_line, storable
from hermes.entry.kit.payload import (
    as_dict,
    as_dicts,
    as_text,
    attachment,
    dig,
    inbounds,
    name_of,
    read_json,
    shaped,
)
from hermes.entry.platforms.slack.compose import emoji_told

NAME = "slack"
KINDS = {
    "im": SourceKind.PRIVATE,
    "mpim": SourceKind.GROUP,
    "channel": SourceKind.CHANNEL,
    "group": SourceKind.CHANNEL,
}
_SAID = (None, "file_share", "me_message", "thread_broadcast", "bot_message")
_CLIPS = {"slack_audio": MediaKind.VOICE, "slack_video": MediaKind.VIDEO}
_TS = re.compile(r"\d{1,11}\.\d{1,9}", re.ASCII)
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_ANY = re.compile(r".+", re.DOTALL)
_MARKUP = re.compile(r"<([^<>\n]{1,4000})>|&(?:amp|lt|gt);")


class SlackIdentity(Struct, frozen=True, kw_only=True):
    """Who the bot is, and what was learnt of the places and people around it: a channel's type, and names.
    `account` is how the operator calls it, `command` its slash command."""

    user: str
    bot: str = ""
    name: str = ""
    team: str = ""
    account: str = DEFAULT_ACCOUNT
    command: str = "/hermes"
    reply_in_thread: bool = True
    kinds: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)


def place_of(payload: Any) -> tuple[str, str, str]:
    """The channel, the person and the channel's type that a payload tells of, each empty if it does not."""
    event = as_dict(dig(payload, "event") or payload)
    changed = as_dict(event.get("message")) if event.get("subtype") == "message_changed" else {}
    user = (changed or event).get("user") or event.get("user_id")
    if isinstance(user, dict):
        user = user.get("id")
    channel, item = event.get("channel"), event.get("item")
    if isinstance(channel, dict):
        channel = channel.get("id")
    elif channel is None:
        channel = item.get("channel") if isinstance(item, dict) else event.get("channel_id")
    kind = as_text(event.get("channel_type"))
    return _if_id(channel), _if_id(user), kind if kind in KINDS else ""


def new_name(payload: Any) -> str:
    """What a channel that was renamed is called now; empty if the payload tells of nothing such."""
    if dig(payload, "event", "type") not in ("channel_rename", "group_rename"):
        return ""
    return as_text(dig(payload, "event", "channel", "name")) if place_of(payload)[0] else ""


def aside_of(payload: Any) -> str:
    """The address at which who gave a slash command is answered in private; empty if the payload is none."""
    return as_text(payload.get("response_url")) if isinstance(payload, dict) and "command" in payload else ""


def is_farewell(payload: Any) -> bool:
    """Whether the app was thrown out, or the bot's token taken back."""
    sort = dig(payload, "event", "type")
    revoked = sort == "tokens_revoked" and bool(dig(payload, "event", "tokens", "bot"))
    return sort == "app_uninstalled" or revoked


def is_elsewhere(payload: Any, me: SlackIdentity) -> bool:
    """Whether this is told to the app as it is installed in another workspace: all of them share its address.
    A channel that two organisations share is of both, and names one of them."""
    if not isinstance(payload, dict) or payload.get("is_ext_shared_channel") is True:
        return False
    if payload.get("type") == "block_actions":
        author = dig(payload, "message", "user")
        return bool(_if_id(author)) and author != me.user
    shown = payload.get("authorizations")
    first = as_dicts(shown[:1] if isinstance(shown, list) else None)
    team = _if_id((first or [payload])[0].get("team_id"))
    return bool(team and me.team) and team != me.team


def moment_of(payload: Any) -> float | None:
    """When an event happened on Slack's clock."""
    return seconds(dig(payload, "event", "event_ts") or dig(payload, "event", "ts"))


def seconds(ts: Any) -> float | None:
    return float(ts) if isinstance(ts, str) and _TS.fullmatch(ts) else None


@inbounds
def to_inbounds(payload: Any, me: SlackIdentity, now: datetime) -> Inbound | None:
    """What a payload means. `now` is when a slash command was given, which nobody tells."""
    if payload.get("type") == "block_actions":
        return _pressed(payload, me)
    if "command" in payload:
        return _command(payload, me, now)
    if payload.get("type") != "event_callback":
        return None
    event = payload["event"]
    match event["type"]:
        case "message" if event.get("subtype") == "message_changed":
            return _edited(event, me)
        case "message" if event.get("subtype") == "message_deleted":
            return _deleted(event, event["deleted_ts"], me)
        case "message" | "app_mention":
            return _message(event, event, me, InboundKind.MESSAGE)
        case "reaction_added":
            return _reaction(event, me)
        case "member_joined_channel" | "member_left_channel":
            return _membership(event, me)
    return None


# --- messages ------------------------------------------------------------------------------------


def _message(
    event: Mapping[str, Any], message: Mapping[str, Any], me: SlackIdentity, what: InboundKind
) -> Inbound | None:
    """`message` is what was said, `event` what tells of it and of the channel."""
    channel, ts = shaped(event["channel"], _ID), shaped(message["ts"], _TS)
    if message.get("subtype") not in _SAID or message.get("hidden") is True:
        return None
    user, bot = _if_id(message.get("user")), _if_id(message.get("bot_id"))
    if user == me.user or (bot and bot == me.bot) or not (user or bot):
        return None
    text, mentioned = _words(message, me)
    attachments = tuple(_attachments(message))
    if not text and not attachments:
        return None
    moment = shaped(message["edited"]["ts"], _TS) if what is InboundKind.EDIT else ts
    delivery = f"message:{channel}:{ts}" if what is InboundKind.MESSAGE else f"edit:{channel}:{ts}:{moment}"
    thread = _thread(message.get("thread_ts"), ts)
    kind = _kind(event, channel, me)
    if thread is None and mentioned and me.reply_in_thread and kind is SourceKind.CHANNEL:
        thread = ts
    answered = message.get("thread_ts") not in (None, ts) and message.get("parent_user_id") == me.user
    return Inbound(
        delivery=DeliveryId(delivery),
        source=_source(
            me, channel, kind, user or bot, thread=thread, named=message.get("username"), is_bot=bool(bot)
        ),
        at=_time(moment),
        what=what,
        ref=ts,
        text=text,
        attachments=attachments,
        reply_to=ReplyTo(ref=shaped(message["thread_ts"], _TS), mine=True) if answered else None,
        mentions_me=mentioned,
    )


def _edited(event: Mapping[str, Any], me: SlackIdentity) -> Inbound | None:
    message, before = event["message"], event.get("previous_message")
    if message.get("subtype") == "tombstone":
        # What begins a thread that others have written in stays as its headstone.
        return _deleted(event, message["ts"], me)
    # A link that got its preview is told as a change too.
    if isinstance(before, dict) and before.get("text") == message.get("text"):
        return None
    return _message(event, message, me, InboundKind.EDIT)


def _deleted(event: Mapping[str, Any], ts: Any, me: SlackIdentity) -> Inbound | None:
    """By whom Slack does not say; whose message it was, mostly."""
    channel, ts, before = shaped(event["channel"], _ID), shaped(ts, _TS), event.get("previous_message")
    if isinstance(before, dict) and (before.get("user") == me.user or before.get("bot_id") == (me.bot or 0)):
        return None
    source = _source(me, channel, _kind(event, channel, me), "")
    return deletion(source, ts, _time(shaped(event.get("event_ts") or event.get("ts") or ts, _TS)))


def _thread(thread: Any, ts: str) -> str | None:
    """The message that begins the thread; None for that message itself."""
    return None if thread is None or thread == ts else shaped(thread, _TS)


def _kind(event: Mapping[str, Any], channel: str, me: SlackIdentity) -> SourceKind:
    kind = as_text(event.get("channel_type"))
    kind = kind if kind in KINDS else me.kinds.get(channel, "")
    return KINDS.get(kind) or (SourceKind.PRIVATE if channel.startswith("D") else SourceKind.CHANNEL)


def _source(
    me: SlackIdentity,
    channel: str,
    kind: SourceKind,
    user: str,
    *,
    thread: str | None = None,
    named: Any = None,
    is_bot: bool = False,
) -> Source:
    inside = kind is not SourceKind.PRIVATE and thread is not None
    return Source(
        address=Address(platform=NAME, account=me.account, chat=channel, thread=thread),
        kind=SourceKind.THREAD if inside else kind,
        user=user or None,
        user_name=name_of(me.names.get(user) or named),
        chat_name=name_of(me.names.get(channel)),
        guild=me.team or None,
        parent_chat=channel if inside else None,
        is_bot=is_bot,
    )


def _words(message: Mapping[str, Any], me: SlackIdentity) -> tuple[str, bool]:
    """What was said as people see it, and whether we were mentioned. A mention of us at its beginning is how
    we were called, and left out."""
    raw = storable(as_text(message.get("text"))) or _fallback(message)
    quotes = (_quote(part, me) for part in _shared(message))
    own = re.compile(rf"<@{re.escape(me.user)}(\|[^<>]*)?>")
    mentioned = own.search(raw) is not None
    called = own.match(raw.lstrip())
    if called is not None:
        raw = raw.lstrip()[called.end() :].lstrip(" ,:\n")
    return "\n\n".join(filter(None, (_plain(raw, me), *quotes))), mentioned


def _plain(raw: str, me: SlackIdentity) -> str:
    return _MARKUP.sub(lambda mark: _marked(mark[1], me) if mark[1] else unescape_all(mark[0]), raw)


def unescape_all(text: str) -> str:
    """Slack escapes three characters and no others."""
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _marked(inside: str, me: SlackIdentity) -> str:
    target, _, label = inside.partition("|")
    target, label = unescape_all(target), unescape_all(label)
    match target[:1]:
        case "@":
            name = me.name if target[1:] == me.user else me.names.get(target[1:], "")
            return f"@{name or label or target[1:]}"
        case "#":
            return f"#{label or me.names.get(target[1:], '') or target[1:]}"
        case "!":
            return label or f"@{target[1:].partition('^')[0]}"
    bare = target.removeprefix("mailto:").removeprefix("tel:")
    # Slack makes a link of what looks like one; the person wrote the label.
    plain = {target, bare, *(target.removeprefix(scheme) for scheme in ("http://", "https://"))}
    if not label:
        return target
    return label if label in plain else f"{label} ({target})"


def _shared(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The messages that this one forwards. Previews of links are attachments, too, and none of these."""
    return [
        part
        for part in as_dicts(message.get("attachments"))
        if part.get("is_share") is True or part.get("is_msg_unfurl") is True
    ]


def _quote(part: Mapping[str, Any], me: SlackIdentity) -> str:
    author = storable(as_text(part.get("author_name")) or as_text(part.get("author_subname")))
    words = _plain(storable(as_text(part.get("text") or part.get("fallback"))), me)
    return f"[Forwarded from {one_line(author, 80) or 'somebody'}]\n{words}".rstrip()


def _fallback(message: Mapping[str, Any]) -> str:
    """The words of a message that has them in its attachments alone, as programs write."""
    shared = _shared(message)
    parts = [part for part in as_dicts(message.get("attachments")) if part not in shared]
    words = (as_text(part.get("text") or part.get("fallback")) for part in parts)
    return storable("\n".join(filter(None, words)))


def _attachments(message: Mapping[str, Any]) -> Iterator[Attachment]:
    holders = (message, *_shared(message))
    for file in [file for holder in holders for file in as_dicts(holder.get("files"))]:
        if file.get("mode") in ("tombstone", "hidden_by_limit"):
            continue
        mime = as_text(file.get("mimetype"))
        kind = _CLIPS.get(as_text(file.get("subtype"))) or media_kind(mime)
        name = as_text(file.get("name")) or file.get("title")
        yield attachment(shaped(file["id"], _ID), kind, name, mime, file.get("size"))


# --- other happenings ----------------------------------------------------------------------------


def _pressed(payload: Mapping[str, Any], me: SlackIdentity) -> Inbound | None:
    action, holder = payload["actions"][0], payload["container"]
    channel, ts = shaped(payload["channel"]["id"], _ID), shaped(holder["message_ts"], _TS)
    user, at = shaped(payload["user"]["id"], _ID), shaped(action["action_ts"], _TS)
    value = storable(as_text(action.get("value")))
    if not value:
        return None
    thread = _thread(holder.get("thread_ts") or dig(payload, "message", "thread_ts"), ts)
    name = payload["user"].get("name") or payload["user"].get("username")
    return Inbound(
        delivery=DeliveryId(f"button:{channel}:{ts}:{user}:{at}"),
        source=_source(me, channel, _kind({}, channel, me), user, thread=thread, named=name),
        at=_time(at),
        what=InboundKind.BUTTON,
        ref=ts,
        button=value,
    )


def _command(payload: Mapping[str, Any], me: SlackIdentity, now: datetime) -> Inbound | None:
    """`/hermes status now`, `/hermes-status now` and `/status now` all mean `/status now`."""
    channel, user = shaped(payload["channel_id"], _ID), shaped(payload["user_id"], _ID)
    command, rest = as_text(payload["command"]), unescape_all(as_text(payload.get("text")).strip())
    if not command.startswith("/") or len(command) < 2:
        return None
    named = command.removeprefix(f"{me.command}-")
    line = f"/{named.removeprefix('/')} {rest}".rstrip()
    if command == me.command:
        line = rest if rest.startswith("/") else f"/{rest.removeprefix('!') or 'help'}"
    kind = SourceKind.PRIVATE if payload.get("channel_name") == "directmessage" else _kind({}, channel, me)
    number = f"command:{storable(shaped(payload['trigger_id'], _ANY))}"
    return Inbound(
        delivery=DeliveryId(number),
        ref=number,
        source=_source(me, channel, kind, user, named=payload.get("user_name")),
        at=now,
        text=storable(line),
        mentions_me=True,
    )


def _reaction(event: Mapping[str, Any], me: SlackIdentity) -> Inbound | None:
    item, user, at = event["item"], shaped(event["user"], _ID), shaped(event["event_ts"], _TS)
    if user == me.user or item.get("type") != "message":
        return None
    channel, ts = shaped(item["channel"], _ID), shaped(item["ts"], _TS)
    return Inbound(
        delivery=DeliveryId(f"reaction:{channel}:{ts}:{user}:{at}"),
        source=_source(me, channel, _kind({}, channel, me), user),
        at=_time(at),
        what=InboundKind.REACTION,
        ref=ts,
        text=emoji_told(storable(shaped(event["reaction"], _ANY))),
    )


def _membership(event: Mapping[str, Any], me: SlackIdentity) -> Inbound | None:
    if event["user"] != me.user:
        return None
    channel, at = shaped(event["channel"], _ID), shaped(event["event_ts"], _TS)
    joined = event["type"] == "member_joined_channel"
    inviter = _if_id(event.get("inviter")) or me.user
    return Inbound(
        delivery=DeliveryId(f"member:{channel}:{at}"),
        source=_source(me, channel, _kind({}, channel, me), inviter),
        at=_time(at),
        what=InboundKind.JOINED if joined else InboundKind.LEFT,
    )


def _if_id(value: Any) -> str:
    return value if isinstance(value, str) and _ID.fullmatch(value) else ""


def _time(ts: str) -> datetime:
    return datetime.fromtimestamp(float(ts), UTC)


def payload_of(body: bytes, content_type: str) -> dict[str, Any]:
    """Of a signed call: events come as JSON, slash commands as a form, pressed buttons as JSON in a form."""
    if content_type != "application/x-www-form-urlencoded":
        return as_dict(read_json(body))
    form = dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
    return as_dict(read_json(form["payload"])) if "payload" in form else form
