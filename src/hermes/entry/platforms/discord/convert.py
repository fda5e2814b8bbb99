"""Between Discord's words and ours: gateway events and messages to `Inbound`s, buttons to components. Pure
functions; what cannot be read gives nothing."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeGuard

from msgspec import Struct

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
from hermes.entry.kit.payload import as_dict, as_dicts, as_text, attachment, if_malformed, name_of, shaped

NAME = "discord"
EPOCH_MS = 1_420_070_400_000
THREADS = frozenset({10, 11, 12})
FORUMS = frozenset({15, 16})
OPEN_THREADS = frozenset({0, 5})
"""The kinds of channels where a thread can be begun from a message; its id is that message's."""
TALKED_IN = frozenset({0, 2, 5, 13}) | THREADS
"""The kinds of channels of a server that hold messages."""
VOICE_FLAG = 1 << 13
_SPOKEN = frozenset({0, 19})
"""What people write themselves: messages and replies; the rest is the service talking."""
_COMMAND, _COMPONENT = 2, 3
_CUSTOM_ID, _LABEL, _PER_ROW, _ROWS = 100, 80, 5, 5
_LABELLED = "\x1f"
"""In the id of a button whose value is too long: what follows is a number, and its label is the rest."""
_INSIDE = "\x1e"
"""In the id of a button: what follows is the thread that it belongs to, though it is shown in the channel."""
_TITLE, _BOXED = 80, 4000
_REQUIRES_TAG = 1 << 4
_SNOWFLAKE = re.compile(r"[0-9]{1,19}", re.ASCII)
_PERSON = re.compile(r"<@!?([0-9]{1,19})>", re.ASCII)
_CALLED = re.compile(r"\A\s*<@(!?|&)([0-9]{1,19})>[ ,:\n]*", re.ASCII)


class DiscordIdentity(Struct, frozen=True, kw_only=True):
    """Who the bot is; `account` is how the operator calls it."""

    id: str
    account: str = DEFAULT_ACCOUNT
    leaves_others: bool = True
    """What names other people and not us is for them, as what names another bot always is."""


class DiscordChannel(Struct, frozen=True, kw_only=True):
    """What is known of a channel; a thread has a parent."""

    name: str = ""
    parent: str | None = None
    guild: str | None = None
    forum: bool = False
    direct: bool = False
    opens: bool = False
    """A thread can be begun from its messages."""
    tag: str = ""
    """The tag that a post gets in a forum where every post has to have one."""


class DiscordContext(Struct, frozen=True, kw_only=True):
    """What a message does not tell itself: who we are, its channel, its server (messages of the history), the
    roles of its author, our own there, and whether who mentions us there is answered in a thread."""

    me: DiscordIdentity
    place: DiscordChannel | None = None
    guild: str | None = None
    roles: tuple[str, ...] = ()
    mine: frozenset[str] = frozenset()
    threads: bool = False


@if_malformed(())
def to_inbounds(event: Any, scene: DiscordContext) -> tuple[Inbound, ...]:
    """What a gateway event (`t` and `d`) means; nothing for one that is none of ours or cannot be read."""
    name, data = event["t"], event["d"]
    if name == "MESSAGE_DELETE_BULK":
        return tuple(_deleted(data, number, scene) for number in data["ids"] if is_snowflake(number))
    item = _converted(name, data, scene)
    return () if item is None else (item,)


def _converted(name: str, data: Mapping[str, Any], scene: DiscordContext) -> Inbound | None:
    match name:
        case "MESSAGE_CREATE":
            return _message(data, scene, InboundKind.MESSAGE)
        case "MESSAGE_UPDATE":
            return _message(data, scene, InboundKind.EDIT) if data.get("edited_timestamp") else None
        case "MESSAGE_DELETE":
            return _deleted(data, data["id"], scene)
        case "INTERACTION_CREATE":
            return _interaction(data, scene)
        case "MESSAGE_REACTION_ADD":
            return _reaction(data, scene)
    return None


def snowflake(value: Any) -> str:
    return shaped(value, _SNOWFLAKE)


def is_snowflake(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and _SNOWFLAKE.fullmatch(value) is not None


def time_of(number: str) -> datetime:
    """When something was made, as its id tells it."""
    return datetime.fromtimestamp(((int(number) >> 22) + EPOCH_MS) / 1000, UTC)


def id_at(moment: datetime) -> int:
    """The lowest id of what was made at a moment or later."""
    return max(int(moment.timestamp() * 1000) - EPOCH_MS, 0) << 22


@if_malformed(None)
def place_of(channel: Any) -> DiscordChannel | None:
    sort = channel["type"] if isinstance(channel["type"], int) else -1
    return DiscordChannel(
        name=storable(as_text(channel.get("name")))[:100],
        parent=snowflake(channel["parent_id"]) if sort in THREADS else None,
        guild=channel["guild_id"] if is_snowflake(channel.get("guild_id")) else None,
        forum=sort in FORUMS,
        direct=sort in (1, 3),
        opens=sort in OPEN_THREADS,
        tag=_usual_tag(channel),
    )


def _usual_tag(channel: Mapping[str, Any]) -> str:
    """The first tag that everybody may give, if the forum wants one."""
    flags, tags = channel.get("flags"), as_dicts(channel.get("available_tags"))
    if not isinstance(flags, int) or not flags & _REQUIRES_TAG:
        return ""
    free = [tag["id"] for tag in tags if is_snowflake(tag.get("id")) and tag.get("moderated") is not True]
    return free[0] if free else ""


# --- messages ------------------------------------------------------------------------------------


def _message(message: Mapping[str, Any], scene: DiscordContext, what: InboundKind) -> Inbound | None:
    number, channel = snowflake(message["id"]), snowflake(message["channel_id"])
    author = message["author"]
    if snowflake(author["id"]) == scene.me.id or message.get("type", 0) not in _SPOKEN:
        return None
    text, mentioned = _words(message, scene)
    attachments = tuple(_attachments(message, channel, number))
    answered = _reply(message, scene.me)
    if not (text or attachments):
        return None
    stamp = as_text(message["edited_timestamp"]) if what is InboundKind.EDIT else ""
    begun = None
    if mentioned and scene.threads and message.get("type", 0) == 0 and not text.startswith("/"):
        # The thread will have this message's id, so it need not be there yet: whoever answers begins it.
        begun, scene = number, replace(scene, place=DiscordChannel(name=thread_name(message)))
    return Inbound(
        delivery=DeliveryId(storable(f"{what.value}:{channel}:{number}" + (f":{stamp}" if stamp else ""))),
        source=_source(message, author, scene, begun),
        at=_time(stamp) if stamp else time_of(number),
        what=what,
        ref=number,
        text=text,
        attachments=attachments,
        reply_to=answered,
        mentions_me=mentioned,
        mentions_others=not (answered and answered.mine) and _names_others(message, scene.me),
    )


def _deleted(event: Mapping[str, Any], message: Any, scene: DiscordContext) -> Inbound:
    """By whom, when and whose message it was Discord does not say."""
    number = snowflake(message)
    return deletion(_source(event, None, scene), number, time_of(number))


def _source(
    event: Mapping[str, Any],
    who: Mapping[str, Any] | None,
    scene: DiscordContext,
    begun: str | None = None,
) -> Source:
    """`begun` is a thread that belongs to the channel in which something happened."""
    channel = snowflake(event["channel_id"])
    member = as_dict(event.get("member"))
    guild = event.get("guild_id") or scene.guild
    place, person = scene.place or DiscordChannel(), who or {}
    names = (member.get("nick"), person.get("global_name"), person.get("username"))
    name = next((name for name in names if isinstance(name, str) and name), "")
    roles = tuple(role for role in member.get("roles", ()) if is_snowflake(role))
    parent = channel if begun else place.parent
    thread = begun or (channel if parent else None)
    kind = SourceKind.PRIVATE
    if guild is not None:
        kind = SourceKind.THREAD if thread else SourceKind.GROUP
    return Source(
        address=Address(platform=NAME, account=scene.me.account, chat=parent or channel, thread=thread),
        kind=kind,
        user=None if who is None else snowflake(person["id"]),
        user_name=name_of(name),
        chat_name=place.name or None,
        guild=None if guild is None else snowflake(guild),
        parent_chat=parent,
        roles=roles or scene.roles,
        is_bot=person.get("bot") is True or "webhook_id" in event,
    )


def _words(message: Mapping[str, Any], scene: DiscordContext) -> tuple[str, bool]:
    """What was said, people by their names and our own left out at the start, and whether it names us."""
    text = as_text(message.get("content"))
    people = _people(message)
    asked = {role for role in message.get("mention_roles") or () if is_snowflake(role)}
    mentioned = scene.me.id in people or bool(asked & scene.mine)
    start = _CALLED.match(text)
    if start and (start[2] in scene.mine if start[1] == "&" else start[2] == scene.me.id):
        text = text[start.end() :]
    return storable(_with_names(text, people) or _described(message)), mentioned


def _names_others(message: Mapping[str, Any], me: DiscordIdentity) -> bool:
    """Who is answered is among those whom a message mentions; only those whom it names are meant."""
    named = set(_PERSON.findall(as_text(message.get("content")))) - {me.id}
    people = [person for number, person in _people(message).items() if number in named]
    return any(me.leaves_others or person.get("bot") is True for person in people)


def _people(message: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    mentions = message.get("mentions") or ()
    return {person["id"]: person for person in mentions if is_snowflake(person.get("id"))}


def _with_names(text: str, people: Mapping[str, Mapping[str, Any]]) -> str:
    def named(mention: re.Match[str]) -> str:
        person = people.get(mention[1])
        name = as_text(person.get("global_name")) or as_text(person.get("username")) if person else ""
        return f"@{one_line(name, 40)}" if name else mention[0]

    return _PERSON.sub(named, text) if people else text


@if_malformed("…")
def thread_name(message: Any) -> str:
    """What a thread is called that begins with a message: its first words, or its files."""
    words = _with_names(_CALLED.sub("", as_text(message.get("content"))), _people(message))
    files = [as_text(file.get("filename")) for file in files_of(message)]
    return storable(one_line(words, _TITLE) or one_line(", ".join(files), _TITLE)) or "…"


def _described(message: Mapping[str, Any]) -> str:
    """What is neither text nor a file, in words."""
    if isinstance(shots := message.get("message_snapshots"), list) and shots:
        forwarded = shots[0]["message"]
        return f"[Forwarded] {as_text(forwarded.get('content'))}".strip()
    if isinstance(poll := message.get("poll"), dict):
        answers = ", ".join(
            one_line(as_text(answer["poll_media"].get("text")), 80) for answer in poll.get("answers", ())
        )
        return f"[Poll: {one_line(as_text(poll['question'].get('text')), 200)} ({answers})]"
    names = [one_line(as_text(sticker.get("name")), 40) for sticker in message.get("sticker_items") or ()]
    if names:
        return f"[Sticker: {', '.join(names)}]"
    # What other programs post often has its words in a box alone.
    boxes = [box for box in message.get("embeds") or () if box.get("type", "rich") == "rich"]
    words = [as_text(box.get(part)).strip() for box in boxes for part in ("title", "description")]
    return "\n".join(filter(None, words))[:_BOXED]


def _attachments(message: Mapping[str, Any], channel: str, number: str) -> Iterator[Attachment]:
    flags = message.get("flags", 0)
    spoken = isinstance(flags, int) and bool(flags & VOICE_FLAG)
    for file in files_of(message):
        mime = as_text(file.get("content_type")).partition(";")[0].strip().lower()
        kind = MediaKind.VOICE if spoken else media_kind(mime)
        # The address of a file ends after a day; by these it can be asked for anew.
        ref = f"{channel}/{number}/{snowflake(file['id'])}"
        yield attachment(ref, kind, file.get("filename"), mime, file.get("size"))


@if_malformed(())
def files_of(message: Any) -> Sequence[Mapping[str, Any]]:
    """The files of a message, and of one that it forwards."""
    forwarded = [snapshot["message"] for snapshot in message.get("message_snapshots") or ()]
    parts = [holder.get("attachments") or () for holder in (message, *forwarded)]
    return [file for part in parts for file in part if isinstance(file, dict)]


def _reply(message: Mapping[str, Any], me: DiscordIdentity) -> ReplyTo | None:
    reference, answered = message.get("message_reference"), message.get("referenced_message")
    if message.get("type") != 19 or not isinstance(reference, dict):
        return None
    if not isinstance(answered, dict):
        return ReplyTo(ref=snowflake(reference["message_id"]))
    author = answered.get("author") or {}
    return ReplyTo(
        ref=snowflake(answered["id"]),
        text=storable(as_text(answered.get("content"))),
        author=storable(as_text(author.get("global_name")) or as_text(author.get("username"))) or None,
        mine=author.get("id") == me.id,
    )


# --- other happenings ----------------------------------------------------------------------------


def _interaction(event: Mapping[str, Any], scene: DiscordContext) -> Inbound | None:
    number, sort, data = snowflake(event["id"]), event["type"], event["data"]
    member = as_dict(event.get("member"))
    scene = DiscordContext(me=scene.me, place=place_of(event.get("channel")))
    text, button, ref, begun = "", None, None, None
    if sort == _COMPONENT:
        ref = snowflake(event["message"]["id"])
        ident = as_text(data["custom_id"])
        button = storable(_value(ident, event["message"]).partition(_INSIDE)[0])
        begun = snowflake(ident.partition(_INSIDE)[2]) if _INSIDE in ident else None
    elif sort == _COMMAND and data.get("type", 1) == 1:
        values = [str(option["value"]) for option in data.get("options") or () if "value" in option]
        text = storable(" ".join([f"/{as_text(data['name'])}", *values]))
    else:
        return None
    return Inbound(
        delivery=DeliveryId(f"interaction:{number}"),
        source=_source(event, event.get("user") or member["user"], scene, begun),
        at=time_of(number),
        what=InboundKind.MESSAGE if button is None else InboundKind.BUTTON,
        ref=ref,
        text=text,
        button=button,
    )


def _reaction(event: Mapping[str, Any], scene: DiscordContext) -> Inbound | None:
    user, number = snowflake(event["user_id"]), snowflake(event["message_id"])
    emoji = storable(as_text(event["emoji"]["name"]))
    if user == scene.me.id or not emoji:
        return None
    member = as_dict(event.get("member"))
    person = as_dict(member.get("user"))
    return Inbound(
        delivery=DeliveryId(f"reaction:{snowflake(event['channel_id'])}:{number}:{user}:{emoji}"),
        source=_source(event, {**person, "id": user}, scene),
        # When it was put there nobody tells; the message is older.
        at=time_of(number),
        what=InboundKind.REACTION,
        ref=number,
        text=emoji,
    )


# --- what goes out -------------------------------------------------------------------------------


def components(buttons: Sequence[Button], begun: str | None = None) -> list[dict[str, Any]]:
    """Buttons as rows of five. A value that does not fit and does not end with its label cannot be told apart
    later, and its button is left out. `begun` is the thread they belong to, if they are not shown in it."""
    shown: list[dict[str, Any]] = []
    inside = "" if begun is None else _INSIDE + begun
    for button in buttons:
        data = button.value + inside
        if len(data) > _CUSTOM_ID and button.label and button.value.endswith(button.label):
            data = f"{button.value[: -len(button.label)]}{_LABELLED}{len(shown)}{inside}"
        fits = 0 < len(data) <= _CUSTOM_ID and 0 < len(button.label) <= _LABEL
        if fits and data not in {component["custom_id"] for component in shown}:
            shown.append({"type": 2, "style": 2, "label": button.label, "custom_id": data})
    rows = [shown[at : at + _PER_ROW] for at in range(0, len(shown), _PER_ROW)]
    return [{"type": 1, "components": row} for row in rows[:_ROWS]]


def _value(data: str, message: Mapping[str, Any]) -> str:
    start, labelled, _ = data.rpartition(_LABELLED)
    if not labelled:
        return data
    for row in message["components"]:
        for button in row["components"]:
            if button.get("custom_id") == data:
                return start + as_text(button["label"])
    return data


def nonce(to: Address, key: str) -> str:
    """What tells Discord that two sends are the same: at most 25 characters."""
    digest = hashlib.sha256(f"{to}\n{key}".encode("utf-8", "surrogatepass")).digest()
    return base64.b32encode(digest)[:25].decode().lower()


def person_id(to: Address) -> str:
    """The person whose private chat an address means (`discord:@123`); empty if it means a channel."""
    number = to.chat.removeprefix("@")
    return number if number != to.chat and is_snowflake(number) and to.thread is None else ""


def channel_id(to: Address) -> str:
    """The channel that an address means; a thread is one of its own."""
    channel = to.thread or to.chat
    if not is_snowflake(channel):
        wanted = "its number is wanted, like discord:123456789012345678, or a person's, like discord:@123"
        raise Refused(f"{to} is not a channel: {wanted}")
    return channel


def ogg_seconds(data: bytes) -> float:
    """How long an Opus recording is: the last page tells. A guess by its size where it cannot be read."""
    at = data.rfind(b"OggS")
    if data.startswith(b"OggS") and 0 <= at <= len(data) - 14:
        granules = int.from_bytes(data[at + 6 : at + 14], "little")
        if 0 < granules < 48_000 * 86_400:
            return round(granules / 48_000, 2)
    return max(round(len(data) / 4000, 2), 0.1)


def _time(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a time without a zone")
    return moment.astimezone(UTC)
