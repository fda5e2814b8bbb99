"""Between Matrix's words and ours: events to `Inbound`s, error answers to our errors, texts and files to the
content of events. Pure functions; an event that cannot be read gives nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hermes.domain.address import Address, Source, SourceKind
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable
from hermes.domain.ids import DeliveryId
from hermes.domain.message import Attachment, Inbound, InboundKind, MediaKind, ReplyTo, deletion
from hermes.domain.text import one_line, storable
from hermes.entry.kit.errors import error_table, seconds_of, slower, their_fault
from hermes.entry.kit.payload import MALFORMED, as_dict, as_size, as_text, dig, moment, name_of
from hermes.entry.platforms.matrix.sync import MatrixIdentity, is_id

NAME = "matrix"
MESSAGE, STICKER, REACTION, ENCRYPTED = "m.room.message", "m.sticker", "m.reaction", "m.room.encrypted"
REDACTION = "m.room.redaction"
VERIFICATION = "m.key.verification.request"
BUTTONS = "org.hermes-gateway.buttons"
"""Where an event of ours says what a reaction to it means."""
KEYS = ("1️⃣", "2️⃣", "3️⃣", "4️⃣", "5️⃣", "6️⃣", "7️⃣", "8️⃣", "9️⃣", "🔟")
VOICE = "org.matrix.msc3245.voice"
_FILES = {
    "m.image": MediaKind.IMAGE,
    "m.audio": MediaKind.AUDIO,
    "m.video": MediaKind.VIDEO,
    "m.file": MediaKind.FILE,
}
_FALLBACK = re.compile(r"\A(?:> ?[^\n]*\n)+\n?")
_MXC = re.compile(r"mxc://([A-Za-z0-9.\-:\[\]]{1,255})/([A-Za-z0-9_\-]{1,255})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What one has to know of a room: who is in it, by what name, and whether it is encrypted. One that took
    another's place names it as `before`, and the conversation goes on under the name of the `first`."""

    id: str
    members: Mapping[str, str] = field(default_factory=dict)
    name: str = ""
    encrypted: bool = False
    before: str = ""
    first: str = ""

    @property
    def private(self) -> bool:
        """Nobody else reads along."""
        return len(self.members) <= 2


# --- events ---------------------------------------------------------------------------------------


def mentioned_events(event: Mapping[str, Any]) -> tuple[str, ...]:
    """The events that one has to know to understand this one."""
    relation = _relation(event)
    found = []
    if relation.get("rel_type") in ("m.replace", "m.annotation"):
        found.append(relation.get("event_id"))
    if (answered := _answered(relation)) is not None:
        found.append(answered)
    return tuple(str(one) for one in found if is_id(one, "$"))


def to_inbounds(
    event: Mapping[str, Any], room: Room, me: MatrixIdentity, events: Mapping[str, Mapping[str, Any]]
) -> tuple[Inbound, ...]:
    """What an event of a room means; nothing for one of our own, or of a kind that does not concern us.
    `events` are those it mentions, as far as they are to be had."""
    try:
        if event["sender"] == me.id or "redacted_because" in as_dict(event.get("unsigned")):
            return ()
        relation = _relation(event)
        if event["type"] == REACTION:
            found = _reacted(event, relation, room, me, events)
        elif event["type"] == REDACTION:
            found = _deleted(event, room, me)
        elif event["type"] not in (MESSAGE, STICKER):
            found = None
        elif relation.get("rel_type") == "m.replace":
            found = _edited(event, relation, room, me, events)
        else:
            found = _message(event, as_dict(event["content"]), room, me, events)
    except MALFORMED:
        return ()
    return () if found is None else (found,)


def _message(
    event: Mapping[str, Any],
    content: Mapping[str, Any],
    room: Room,
    me: MatrixIdentity,
    events: Mapping[str, Mapping[str, Any]],
) -> Inbound | None:
    text, mentioned = _words(content, room, me)
    attachments = tuple(_attachments(event, content))
    if (not text and not attachments) or content.get("msgtype") == VERIFICATION:
        return None
    relation = _relation(event)
    return Inbound(
        delivery=DeliveryId(event["event_id"]),
        source=_source(event, room, me, _thread(event, me, begins=mentioned and not room.private)),
        at=moment(event.get("origin_server_ts"), per_second=1000),
        ref=event["event_id"],
        text=text,
        attachments=attachments,
        reply_to=_reply(relation, me, room, events),
        mentions_me=mentioned,
    )


def _edited(
    event: Mapping[str, Any],
    relation: Mapping[str, Any],
    room: Room,
    me: MatrixIdentity,
    events: Mapping[str, Mapping[str, Any]],
) -> Inbound | None:
    before = events.get(as_text(relation.get("event_id")))
    # Everybody may send such an event; only the author's counts.
    if before is None or before.get("sender") != event["sender"]:
        return None
    text, mentioned = _words(as_dict(event["content"]["m.new_content"]), room, me)
    if not text:
        return None
    called = not room.private and _words(as_dict(before.get("content")), room, me)[1]
    return Inbound(
        delivery=DeliveryId(event["event_id"]),
        source=_source(event, room, me, _thread(before, me, begins=called)),
        at=moment(event.get("origin_server_ts"), per_second=1000),
        what=InboundKind.EDIT,
        ref=as_text(relation["event_id"]),
        text=text,
        mentions_me=mentioned,
    )


def _reacted(
    event: Mapping[str, Any],
    relation: Mapping[str, Any],
    room: Room,
    me: MatrixIdentity,
    events: Mapping[str, Mapping[str, Any]],
) -> Inbound | None:
    ref, key = relation.get("event_id"), storable(as_text(relation.get("key")))
    if relation.get("rel_type") != "m.annotation" or not is_id(ref, "$") or not key:
        return None
    on = events.get(str(ref), {})
    value = pressed(on, key) if on.get("sender") == me.id else None
    return Inbound(
        delivery=DeliveryId(event["event_id"]),
        source=_source(event, room, me, _thread(on, me)),
        at=moment(event.get("origin_server_ts"), per_second=1000),
        what=InboundKind.REACTION if value is None else InboundKind.BUTTON,
        ref=str(ref),
        text=key if value is None else "",
        button=value,
    )


def _deleted(event: Mapping[str, Any], room: Room, me: MatrixIdentity) -> Inbound | None:
    """Who may delete what is the homeserver's affair: it tells of no deletion that does not count."""
    gone = redacted(event)
    if not is_id(gone, "$"):
        return None
    return deletion(
        _source(event, room, me, None), gone, moment(event.get("origin_server_ts"), per_second=1000)
    )


def redacted(event: Mapping[str, Any]) -> str:
    """The event that a redaction deletes; newer rooms tell it inside."""
    return as_text(event.get("redacts")) or as_text(dig(event, "content", "redacts"))


def pressed(event: Mapping[str, Any], key: str) -> str | None:
    """What a reaction with this key to an event of ours stands for, as the event is now."""
    content = as_dict(event.get("content"))
    if latest := as_dict(dig(event, "unsigned", "m.relations", "m.replace")):
        content = as_dict(dig(latest, "content", "m.new_content"))
    buttons = content.get(BUTTONS)
    plain = [one.replace("\ufe0f", "") for one in KEYS]
    place = plain.index(key.replace("\ufe0f", "")) if key.replace("\ufe0f", "") in plain else len(plain)
    if not isinstance(buttons, list) or place >= len(buttons):
        return None
    return storable(as_text(as_dict(buttons[place]).get("value"))) or None


def _thread(event: Mapping[str, Any], me: MatrixIdentity, *, begins: bool = False) -> str | None:
    """The thread that an event is in, or the one that is to begin with it."""
    relation = _relation(event)
    root = relation.get("event_id") if relation.get("rel_type") == "m.thread" else None
    if root is None and begins and me.threads:
        root = event.get("event_id")
    return str(root) if is_id(root, "$") else None


def _source(event: Mapping[str, Any], room: Room, me: MatrixIdentity, thread: str | None) -> Source:
    kind = SourceKind.PRIVATE if room.private else SourceKind.GROUP if thread is None else SourceKind.THREAD
    chat = room.first or room.id
    return Source(
        address=Address(platform=NAME, account=me.account, chat=chat, thread=thread),
        kind=kind,
        user=event["sender"],
        user_name=name_of(room.members.get(event["sender"])),
        chat_name=name_of(room.name),
        # Lists may name the room as it was or as it is.
        parent_chat=room.id if kind is SourceKind.THREAD or chat != room.id else None,
        # Programs speak in notices, and are to answer none.
        is_bot=dig(event, "content", "msgtype") == "m.notice",
    )


def _words(content: Mapping[str, Any], room: Room, me: MatrixIdentity) -> tuple[str, bool]:
    """What was said, without our own name at its start, and whether it speaks to us."""
    text, sort = as_text(content.get("body")), content.get("msgtype")
    if _answered(as_dict(content.get("m.relates_to"))) is not None:
        text = _FALLBACK.sub("", text)
    if sort in _FILES or (sort is None and "url" in content):
        # A file's body is its name, or words about it if its name is told elsewhere.
        named = as_text(content.get("filename"))
        text = text if named and named != text else ""
    elif sort == "m.location":
        text = f"[Location: {one_line(text, 80)}, {one_line(as_text(content.get('geo_uri')), 80)}]"
    elif sort == "m.emote":
        text = f"* {text}" if text else ""
    text, called = _without_name(text, room, me)
    mentions = content.get("m.mentions")
    if isinstance(mentions, dict):
        users = mentions.get("user_ids")
        return text, called or (isinstance(users, list) and me.id in users)
    return text, called or me.id in text or f"/{me.id}" in as_text(content.get("formatted_body"))


def _without_name(text: str, room: Room, me: MatrixIdentity) -> tuple[str, bool]:
    names = {me.id, me.id.partition(":")[0], me.name, room.members.get(me.id, "")}
    for name in sorted(filter(None, names), key=len, reverse=True):
        if text[: len(name)].lower() == name.lower() and text[len(name) : len(name) + 1] in (" ", ":", ","):
            return text[len(name) :].lstrip(" ,:\n"), True
    return text, False


def _attachments(event: Mapping[str, Any], content: Mapping[str, Any]) -> Iterator[Attachment]:
    kind = MediaKind.STICKER if event["type"] == STICKER else _FILES.get(as_text(content.get("msgtype")))
    if kind is None:
        return
    if kind is MediaKind.AUDIO and (VOICE in content or "org.matrix.msc3245.voice.v2" in content):
        kind = MediaKind.VOICE
    ref = file_ref(content)
    if ref is None:
        raise ValueError("a file without an address")
    yield Attachment(
        kind=kind,
        ref=ref,
        name=storable(as_text(content.get("filename")) or as_text(content.get("body"))) or None,
        mime=name_of(dig(content, "info", "mimetype")),
        size=as_size(dig(content, "info", "size")),
    )


def file_ref(content: Mapping[str, Any]) -> str | None:
    """Where a file is: its mxc address; for an encrypted one with its key behind it."""
    file = content.get("file")
    if not isinstance(file, dict):
        url = as_text(content.get("url"))
        return url if _MXC.fullmatch(url) else None
    url, key = as_text(file.get("url")), as_text(dig(file, "key", "k"))
    iv, digest = as_text(file.get("iv")), as_text(dig(file, "hashes", "sha256"))
    if not _MXC.fullmatch(url) or not all(re.fullmatch(r"[\w+/=-]{16,64}", one) for one in (key, iv, digest)):
        return None
    return "#".join((url, key, iv, digest))


def file_place(ref: str) -> tuple[str, str, tuple[str, str, str] | None]:
    """A file's server and id, and key, counter and digest if it is encrypted."""
    url, *secrets = ref.split("#")
    found = _MXC.fullmatch(url)
    if found is None or len(secrets) not in (0, 3):
        raise Refused("That is no file of Matrix's")
    return found[1], found[2], (secrets[0], secrets[1], secrets[2]) if secrets else None


def _reply(
    relation: Mapping[str, Any], me: MatrixIdentity, room: Room, events: Mapping[str, Mapping[str, Any]]
) -> ReplyTo | None:
    ref = _answered(relation)
    if ref is None:
        return None
    event = events.get(ref, {})
    author = as_text(event.get("sender"))
    text, _ = _words(as_dict(event.get("content")), room, me)
    name = room.members.get(author, author)
    return ReplyTo(ref=ref, text=text, author=name_of(name), mine=author == me.id)


def _answered(relation: Mapping[str, Any]) -> str | None:
    """The event that is answered to; in a thread every event names one, for programs that know no threads."""
    if relation.get("rel_type") == "m.thread" and relation.get("is_falling_back") is True:
        return None
    answered = dig(relation, "m.in_reply_to", "event_id")
    return str(answered) if is_id(answered, "$") else None


def _relation(event: Mapping[str, Any]) -> Mapping[str, Any]:
    return as_dict(dig(event, "content", "m.relates_to"))


# --- errors ---------------------------------------------------------------------------------------


class NotUnderstood(Refused):
    """The homeserver makes nothing of what was asked: a point that is another's, or long forgotten."""


_NO_CODES = frozenset(f"HTTP {status}" for status in range(400, 500)) - {"HTTP 401", "HTTP 413"}
_error = error_table(
    "The homeserver",
    {
        "M_LIMIT_EXCEEDED": (slower, "The homeserver wants us to be slower ({why})"),
        ("M_UNKNOWN_TOKEN", "M_MISSING_TOKEN", "HTTP 401"): (
            NeedsLogin,
            "The homeserver does not know this access token (any more); set another MATRIX_ACCESS_TOKEN, or"
            " MATRIX_USER_ID and MATRIX_PASSWORD in its place",
        ),
        (401, "M_USER_DEACTIVATED", "M_USER_LOCKED", "M_USER_SUSPENDED"): (
            NeedsLogin,
            "The homeserver does not let this account in ({why})",
        ),
        range(400): (their_fault, "The homeserver has a fault of its own ({why})"),
        # Something before the homeserver, or another address than its own.
        _NO_CODES: (Unreachable, "That is no answer of a homeserver's ({why}); is MATRIX_HOMESERVER right?"),
        (403, "M_FORBIDDEN"): (Refused, "The homeserver does not let us do that ({why})"),
        (413, "M_TOO_LARGE"): (Refused, "It is too large for the homeserver ({why})"),
        400: (NotUnderstood, "The homeserver refuses it ({why})"),
    },
)


def error_for(status: int, answer: Any, wait: str | None = None) -> HermesError:
    """What an answer that is no success means for the caller; `wait` is its Retry-After."""
    code, words = as_text(dig(answer, "errcode")), as_text(dig(answer, "error"))
    why = one_line(": ".join(filter(None, (code, words))) or f"HTTP {status}", 160)
    return _error(status, code or f"HTTP {status}", why, _delay(answer, wait))


def _delay(answer: Any, wait: str | None) -> float:
    milliseconds = dig(answer, "retry_after_ms")
    number = isinstance(milliseconds, int | float) and not isinstance(milliseconds, bool)
    if number and 0 <= milliseconds < 86_400_000:
        return float(milliseconds) / 1000
    seconds = seconds_of(wait)
    return 5.0 if seconds is None else seconds
