"""From Telegram's words to ours: updates to `Inbound`s, error answers to our errors. Pure functions; an
update that cannot be read gives nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from zlib import crc32

from hermes.domain.adapter import Finding
from hermes.domain.address import DEFAULT_ACCOUNT, Address, Source, SourceKind
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable
from hermes.domain.ids import DeliveryId
from hermes.domain.message import Attachment, Inbound, InboundKind, MediaKind, ReplyTo
from hermes.domain.text import one_line, storable
from hermes.entry.platforms.telegram.compose import LABELLED
from hermes.entry.platforms.telegram.words import author_of, read_words, told

NAME = "telegram"
KINDS = {
    "private": SourceKind.PRIVATE,
    "group": SourceKind.GROUP,
    "supergroup": SourceKind.GROUP,
    "channel": SourceKind.CHANNEL,
}
UPDATES = (
    "message", "edited_message", "channel_post", "edited_channel_post", "callback_query", "message_reaction",
    "my_chat_member",
)  # fmt: skip
"""The kinds of updates that are asked for."""
SECRET_SHAPE = re.compile(r"[A-Za-z0-9_-]{1,256}", re.ASCII)
_FILES = {
    "voice": MediaKind.VOICE,
    "audio": MediaKind.AUDIO,
    "video": MediaKind.VIDEO,
    "video_note": MediaKind.VIDEO,
    "animation": MediaKind.VIDEO,
    "document": MediaKind.FILE,
    "sticker": MediaKind.STICKER,
}
_MIMES = {"video_note": "video/mp4", "animation": "video/mp4", "voice": "audio/ogg"}


class TopicGone(Refused):
    """There is no such topic any more; one that has a name can be made anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TelegramIdentity:
    """Who the bot is; `account` is how the operator calls it."""

    id: int
    username: str
    account: str = DEFAULT_ACCOUNT


def to_inbounds(update: Any, me: TelegramIdentity, now: datetime) -> tuple[Inbound, ...]:
    """What an update means; nothing for one that is none of ours or cannot be read. `now` is when a button
    was pressed, which nobody tells."""
    try:
        found = _converted(update, me, now)
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError, RecursionError, OSError):
        return ()
    return () if found is None else (found,)


def update_id(update: Any) -> int | None:
    """The number of an update, by which it is acknowledged."""
    number = update.get("update_id") if isinstance(update, dict) else None
    return (
        number if isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 2**62 else None
    )


def _converted(update: Any, me: TelegramIdentity, now: datetime) -> Inbound | None:
    for name in ("message", "channel_post"):
        if name in update:
            return _message(update[name], me, InboundKind.MESSAGE)
        if f"edited_{name}" in update:
            return _message(update[f"edited_{name}"], me, InboundKind.EDIT)
    if "callback_query" in update:
        return _pressed(update["callback_query"], me, now)
    if "message_reaction" in update:
        return _reaction(update["message_reaction"], me)
    if "my_chat_member" in update:
        return _membership(update["my_chat_member"], me, update_id(update))
    return None


# --- messages ------------------------------------------------------------------------------------


def _message(message: Mapping[str, Any], me: TelegramIdentity, what: InboundKind) -> Inbound | None:
    number, chat = _int(message["message_id"]), _int(message["chat"]["id"])
    if "migrate_to_chat_id" in message or "migrate_from_chat_id" in message:
        return _moved(message, me)
    words = read_words(message, me.id, me.username)
    attachments = tuple(_attachments(message))
    if words is None or not (words.text or attachments):
        return None
    if message["chat"]["type"] != "private":
        # A file that is only answered to was shown to others, and not to us.
        attachments += tuple(_answered_files(message, me))
    at = _time(message.get("edit_date") if what is InboundKind.EDIT else message.get("date"))
    edited = f":{int(at.timestamp())}:{crc32(words.text.encode()):08x}" if what is InboundKind.EDIT else ""
    return Inbound(
        delivery=DeliveryId(f"{what.value}:{chat}:{number}{edited}"),
        source=_source(message, me),
        at=at,
        what=what,
        ref=str(number),
        text=words.text,
        attachments=attachments,
        reply_to=_reply(message, me),
        mentions_me=words.mentions_me,
        mentions_others=words.mentions_others,
        group=_optional(message.get("media_group_id")),
    )


def _moved(message: Mapping[str, Any], me: TelegramIdentity) -> Inbound:
    """A group that became a supergroup: both tell of it, each of the other."""
    chat = message["chat"]
    here, new = _int(chat["id"]), message.get("migrate_to_chat_id")
    old, new = (here, _int(new)) if new is not None else (_int(message["migrate_from_chat_id"]), here)
    return Inbound(
        delivery=DeliveryId(f"moved:{old}"),
        source=_source({**message, "chat": {**chat, "id": old}}, me),
        at=_time(message.get("date")),
        what=InboundKind.MOVED,
        text=str(new),
    )


def _source(message: Mapping[str, Any], me: TelegramIdentity, person: Any = None) -> Source:
    chat = message["chat"]
    kind = KINDS[chat["type"]]
    thread = None
    if message.get("is_topic_message") is True and message.get("message_thread_id") is not None:
        thread = str(_int(message["message_thread_id"]))
    # Who speaks as a group or channel has a number of everybody's in `from`.
    who = person or message.get("sender_chat") or message.get("from") or chat
    if kind is SourceKind.GROUP and thread is not None:
        kind = SourceKind.THREAD
    name = " ".join(filter(None, (_text(who.get("first_name")), _text(who.get("last_name")))))
    return Source(
        address=Address(platform=NAME, account=me.account, chat=str(_int(chat["id"])), thread=thread),
        kind=kind,
        user=str(_int(who["id"])),
        user_name=storable(name or _text(who.get("title")) or _text(who.get("username"))) or None,
        chat_name=storable(_text(chat.get("title"))) or None,
        parent_chat=str(_int(chat["id"])) if kind is SourceKind.THREAD else None,
        is_bot=who.get("is_bot") is True,
    )


def _attachments(message: Mapping[str, Any]) -> Iterator[Attachment]:
    photos = message.get("photo")
    if isinstance(photos, list) and photos:
        largest = max(photos, key=lambda size: _int(size.get("width", 0)) * _int(size.get("height", 0)))
        yield _attachment(MediaKind.IMAGE, largest, "image/jpeg")
    for name, kind in _FILES.items():
        # An animation is told twice, the second time as a document for old programs.
        if isinstance(file := message.get(name), dict) and not (
            name == "document" and "animation" in message
        ):
            moves = name == "sticker" and (file.get("is_animated") is True or file.get("is_video") is True)
            still = file.get("thumbnail") if moves else None
            yield _attachment(kind, still if isinstance(still, dict) else file, _MIMES.get(name))


def _answered_files(message: Mapping[str, Any], me: TelegramIdentity) -> Iterator[Attachment]:
    answered = message.get("reply_to_message")
    if isinstance(answered, dict) and (answered.get("from") or {}).get("id") != me.id:
        yield from _attachments(answered)


def _attachment(kind: MediaKind, file: Mapping[str, Any], mime: str | None) -> Attachment:
    ref = storable(_text(file["file_id"]))
    if not ref:
        raise ValueError("a file without an id")
    size = file.get("file_size")
    known = isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 2**53
    return Attachment(
        kind=kind,
        ref=ref,
        name=storable(_text(file.get("file_name"))) or None,
        mime=_text(file.get("mime_type")) or mime,
        size=size if known else None,
    )


def _reply(message: Mapping[str, Any], me: TelegramIdentity) -> ReplyTo | None:
    answered, elsewhere = message.get("reply_to_message"), message.get("external_reply")
    quote = message.get("quote")
    words = _text(quote.get("text")) if isinstance(quote, dict) else ""
    if isinstance(elsewhere, dict) and not isinstance(answered, dict):
        # A message of another chat: there is nothing of it here but what was quoted.
        first = storable(author_of(elsewhere.get("origin")))
        return ReplyTo(ref="", text=words, author=first or None) if words else None
    if not isinstance(answered, dict) or "forum_topic_created" in answered:
        return None
    author = answered.get("from") or answered.get("sender_chat") or {}
    return ReplyTo(
        ref=str(_int(answered["message_id"])),
        text=words or _text(answered.get("text")) or _text(answered.get("caption")) or told(answered),
        author=storable(_text(author.get("first_name")) or _text(author.get("title"))) or None,
        mine=author.get("id") == me.id,
    )


# --- other happenings ----------------------------------------------------------------------------


def _pressed(query: Mapping[str, Any], me: TelegramIdentity, now: datetime) -> Inbound | None:
    message, data = query["message"], _text(query["data"])
    number = _int(message["message_id"])
    return Inbound(
        delivery=DeliveryId(f"button:{storable(_text(query['id']))}"),
        source=_source(message, me, person=query["from"]),
        at=now,
        what=InboundKind.BUTTON,
        ref=str(number),
        button=_value(data, message),
    )


def _reaction(told: Mapping[str, Any], me: TelegramIdentity) -> Inbound | None:
    new = [_text(one.get("emoji")) for one in told["new_reaction"]]
    old = [_text(one.get("emoji")) for one in told["old_reaction"]]
    added = [emoji for emoji in new if emoji and emoji not in old]
    if not added:
        return None
    chat, number, at = _int(told["chat"]["id"]), _int(told["message_id"]), _time(told.get("date"))
    person = told.get("user") or told["actor_chat"]
    return Inbound(
        delivery=DeliveryId(f"reaction:{chat}:{number}:{_int(person['id'])}:{int(at.timestamp())}"),
        source=_source({"chat": told["chat"]}, me, person=person),
        at=at,
        what=InboundKind.REACTION,
        ref=str(number),
        text=added[0],
    )


def _membership(told: Mapping[str, Any], me: TelegramIdentity, update: int | None) -> Inbound | None:
    was, now = (_text(told[f"{when}_chat_member"]["status"]) in _OUTSIDE for when in ("old", "new"))
    if was == now:
        return None
    return Inbound(
        delivery=DeliveryId(f"member:{update}"),
        source=_source(told, me),
        at=_time(told.get("date")),
        what=InboundKind.LEFT if now else InboundKind.JOINED,
    )


_OUTSIDE = ("left", "kicked")


def _value(data: str, message: Mapping[str, Any]) -> str:
    begin, marked, _ = data.rpartition(LABELLED)
    if not marked:
        return data
    for row in message["reply_markup"]["inline_keyboard"]:
        for button in row:
            if button.get("callback_data") == data:
                return begin + _text(button["text"])
    return data


# --- errors --------------------------------------------------------------------------------------


def error_for(status: int, answer: Any) -> HermesError:
    """What an answer that is no success means for who called."""
    answer = answer if isinstance(answer, dict) else {}
    told = one_line(_text(answer.get("description")) or f"HTTP {status}", 160)
    parameters = answer.get("parameters")
    wait = parameters.get("retry_after") if isinstance(parameters, dict) else None
    if status == 401 or (status == 404 and told == "Not Found"):
        return NeedsLogin(
            "Telegram does not know this bot token; ask @BotFather for the right one (TELEGRAM_BOT_TOKEN)"
        )
    if status == 409:
        return Unreachable(
            f"Another program receives this bot's messages: stop it, or use another bot ({told})"
        )
    if status == 429:
        seconds = float(wait) if isinstance(wait, int | float) and 0 <= wait < 86_400 else 5.0
        return Unreachable(f"Telegram wants us to be slower ({told})", after=seconds)
    if status >= 500:
        return Unreachable(f"Telegram has a fault of its own ({told})", maybe_done=True)
    if status == 403 and "initiate conversation" in told:
        return Refused("That person has to write to the bot first; Telegram wants it so")
    if status == 403:
        return Refused(f"Telegram does not let us write there ({told})")
    if "thread not found" in told:
        return TopicGone(f"The topic is gone ({told})")
    if "not a forum" in told:
        return Refused(f"That chat has no topics; for private chats @BotFather turns them on ({told})")
    if "TOPIC_CLOSED" in told:
        return Refused(f"The topic is closed; open it, or make the bot an admin ({told})")
    if status == 413 or "file is too big" in told:
        return Refused(f"The file is too large for Telegram ({told})")
    return Refused(f"Telegram refuses it ({told})")


def moved_to(answer: Any) -> int | None:
    """Where a group went that became a supergroup."""
    parameters = answer.get("parameters") if isinstance(answer, dict) else None
    number = parameters.get("migrate_to_chat_id") if isinstance(parameters, dict) else None
    return number if isinstance(number, int) else None


def webhook_findings(url: str, secret: str, info: Any) -> list[Finding]:
    info = info if isinstance(info, dict) else {}
    known, trouble = info.get("url") or "", info.get("last_error_message")
    if not url:
        text = "It is polled." if not known else "It is polled; the webhook that is set now will be removed."
        return [Finding(good=True, text=text)]
    found = []
    if not url.startswith("https://"):
        found.append(
            Finding(
                good=False,
                text="TELEGRAM_WEBHOOK_URL does not begin with https://.",
                hint="Telegram calls https addresses only, on the ports 443, 80, 88 and 8443.",
            )
        )
    if not SECRET_SHAPE.fullmatch(secret):
        found.append(
            Finding(
                good=False,
                text="TELEGRAM_WEBHOOK_SECRET is missing, or has more in it than letters, digits, _ and -.",
                hint="hermes config set TELEGRAM_WEBHOOK_SECRET …",
            )
        )
    if known == url and trouble:
        waiting = info.get("pending_update_count", 0)
        text = f"Telegram could not call {one_line(url, 120)}: {one_line(str(trouble), 160)}; {waiting} wait."
        found.append(
            Finding(good=False, text=text, hint="The gateway must run, behind a proxy with a certificate.")
        )
    return found or [Finding(good=True, text=f"Telegram calls {one_line(url, 120)}.")]


def _int(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 2**62:
        raise ValueError("not a number of Telegram's")
    return value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _optional(value: Any) -> str | None:
    return storable(value) if isinstance(value, str) and value else None


def _time(seconds: Any) -> datetime:
    return datetime.fromtimestamp(_int(seconds), UTC)
