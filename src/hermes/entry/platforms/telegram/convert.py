"""From Telegram's words to ours: updates to `Inbound`s, error answers to our errors. Pure functions; an
update that cannot be read gives nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any
from zlib import crc32

from msgspec import Struct

from hermes.domain.chats.adapter import Finding, good, wrong
from hermes.domain.chats.address import DEFAULT_ACCOUNT, Address, Source, SourceKind
from hermes.domain.chats.message import Attachment, Inbound, InboundKind, MediaKind, ReplyTo
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable
from hermes.domain.ids import DeliveryId
from hermes.domain.text import one_line, storable
from hermes.entry.kit.errors import error_table
from hermes.entry.kit.payload import (
    as_size,
    as_text,
    attachment,
    dig,
    flat,
    inbounds,
    integer,
    moment,
    name_of,
)
from hermes.entry.platforms.telegram.compose import DIRECT, LABELLED

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
_LONGEST_LINK = 2000
_MIMES = {"video_note": "video/mp4", "animation": "video/mp4", "voice": "audio/ogg"}


class TopicGone(Refused):
    """There is no such topic any more; one that has a name can be made anew."""


class TelegramIdentity(Struct, frozen=True, kw_only=True):
    """Who the bot is; `account` is how the operator calls it."""

    id: int
    username: str
    account: str = DEFAULT_ACCOUNT


def update_id(update: Any) -> int | None:
    """The number of an update, by which it is acknowledged."""
    return as_size(dig(update, "update_id"))


@inbounds
def to_inbounds(update: Any, me: TelegramIdentity, now: datetime) -> Inbound | None:
    """What an update means. `now` is when a button was pressed, which nobody tells."""
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
    number, chat = integer(message["message_id"]), integer(message["chat"]["id"])
    if "migrate_to_chat_id" in message or "migrate_from_chat_id" in message:
        return _moved(message, me)
    words = _read_words(message, me)
    attachments = tuple(_attachments(message))
    if words is None or not (words.text or attachments):
        return None
    if message["chat"]["type"] != "private":
        # A file that is only answered to was shown to others, and not to us.
        attachments += tuple(_answered_files(message, me))
    at = moment(message.get("edit_date") if what is InboundKind.EDIT else message.get("date"))
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
        group=name_of(message.get("media_group_id")),
    )


def _moved(message: Mapping[str, Any], me: TelegramIdentity) -> Inbound:
    """A group that became a supergroup: both tell of it, each of the other."""
    chat = message["chat"]
    here, new = integer(chat["id"]), message.get("migrate_to_chat_id")
    old, new = (here, integer(new)) if new is not None else (integer(message["migrate_from_chat_id"]), here)
    return Inbound(
        delivery=DeliveryId(f"moved:{old}"),
        source=_source({**message, "chat": {**chat, "id": old}}, me),
        at=moment(message.get("date")),
        what=InboundKind.MOVED,
        text=str(new),
    )


def _source(message: Mapping[str, Any], me: TelegramIdentity, person: Any = None) -> Source:
    chat = message["chat"]
    kind = KINDS[chat["type"]]
    thread = None
    if message.get("is_topic_message") is True and message.get("message_thread_id") is not None:
        thread = str(integer(message["message_thread_id"]))
    if chat.get("is_direct_messages") is True:
        thread = f"{DIRECT}{integer(message['direct_messages_topic']['topic_id'])}"
    # Who speaks as a group or channel has a number of everybody's in `from`.
    who = person or message.get("sender_chat") or message.get("from") or chat
    if kind is SourceKind.GROUP and thread is not None:
        kind = SourceKind.THREAD
    return Source(
        address=Address(platform=NAME, account=me.account, chat=str(integer(chat["id"])), thread=thread),
        kind=kind,
        user=str(integer(who["id"])),
        user_name=name_of(_full_name(who) or as_text(who.get("title")) or who.get("username")),
        chat_name=name_of(chat.get("title")),
        parent_chat=str(integer(chat["id"])) if kind is SourceKind.THREAD else None,
        is_bot=who.get("is_bot") is True,
    )


def _attachments(message: Mapping[str, Any]) -> Iterator[Attachment]:
    photos = message.get("photo")
    if isinstance(photos, list) and photos:
        largest = max(photos, key=lambda size: integer(size.get("width", 0)) * integer(size.get("height", 0)))
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
    ref = storable(as_text(file["file_id"]))
    if not ref:
        raise ValueError("a file without an id")
    name, mime = file.get("file_name"), as_text(file.get("mime_type")) or mime
    return attachment(ref, kind, name, mime, file.get("file_size"))


def _reply(message: Mapping[str, Any], me: TelegramIdentity) -> ReplyTo | None:
    answered, elsewhere = message.get("reply_to_message"), message.get("external_reply")
    words = as_text(dig(message, "quote", "text"))
    if isinstance(elsewhere, dict) and not isinstance(answered, dict):
        # A message of another chat: there is nothing of it here but what was quoted.
        first = storable(_author_of(elsewhere.get("origin")))
        return ReplyTo(ref="", text=words, author=first or None) if words else None
    if not isinstance(answered, dict) or "forum_topic_created" in answered:
        return None
    author = answered.get("from") or answered.get("sender_chat") or {}
    return ReplyTo(
        ref=str(integer(answered["message_id"])),
        text=words
        or as_text(answered.get("text"))
        or as_text(answered.get("caption"))
        or _described(answered),
        author=storable(as_text(author.get("first_name")) or as_text(author.get("title"))) or None,
        mine=author.get("id") == me.id,
    )


# --- words -------------------------------------------------------------------------------------


class _Words(Struct, frozen=True, kw_only=True):
    text: str
    mentions_me: bool = False
    mentions_others: bool = False


class _Entity(Struct, frozen=True, kw_only=True):
    """A marked stretch of a text; places are counted in UTF-16."""

    sort: str
    start: int
    end: int
    about: Mapping[str, Any]

    def of(self, raw: bytes) -> str:
        return raw[self.start * 2 : self.end * 2].decode("utf-16-le", "replace")


def _read_words(message: Mapping[str, Any], me: TelegramIdentity) -> _Words | None:
    """What was said, without our own name at its start; None for a command that is another bot's. What was
    forwarded says so, and is nobody's command."""
    text = as_text(message.get("text")) or as_text(message.get("caption"))
    raw = text.encode("utf-16-le", "surrogatepass")
    entities = list(_entities(message.get("entities") or message.get("caption_entities")))
    forwarded = isinstance(message.get("forward_origin"), dict)
    text = _marked(raw, entities)
    own, mine, others = f"@{me.username}".lower(), False, False
    for entity in entities:
        word = entity.of(raw)
        if entity.sort == "bot_command" and entity.start == 0 and "@" in word and not forwarded:
            name, _, bot = word.partition("@")
            if f"@{bot}".lower() != own:
                return None
            text, mine = name + text[len(word) :], True
        elif entity.sort == "mention" and word.lower() == own:
            mine = True
            if entity.start == 0:
                text = text[len(word) :].lstrip(" ,:\n")
        elif entity.sort == "mention":
            # Names that end so are kept for bots.
            others = others or word.lower().endswith("bot")
        elif entity.sort == "text_mention":
            user = entity.about["user"]
            mine = mine or user["id"] == me.id
            others = others or (user.get("is_bot") is True and user["id"] != me.id)
    text = text or _described(message)
    if forwarded:
        text = f"[Forwarded from {_author_of(message['forward_origin']) or 'somebody'}]\n{text}".rstrip()
    return _Words(text=text, mentions_me=mine, mentions_others=others)


def _entities(entities: Any) -> Iterator[_Entity]:
    for entity in entities if isinstance(entities, list) else ():
        start, length = entity["offset"], entity["length"]
        if not (isinstance(start, int) and isinstance(length, int) and start >= 0 and 0 < length < 2**20):
            raise ValueError("an entity without a place")
        yield _Entity(sort=as_text(entity.get("type")), start=start, end=start + length, about=entity)


def _marked(raw: bytes, entities: list[_Entity]) -> str:
    """The text with what only its entities tell: where a link leads, what is code."""
    for entity in sorted(entities, key=lambda entity: entity.start, reverse=True):
        inner = entity.of(raw)
        if entity.sort == "text_link":
            inner = f"[{inner}]({one_line(as_text(entity.about.get('url')), _LONGEST_LINK)})"
        elif entity.sort == "pre":
            before = "" if raw[: entity.start * 2].decode("utf-16-le", "replace")[-1:] in ("", "\n") else "\n"
            after = "" if raw[entity.end * 2 :].decode("utf-16-le", "replace")[:1] in ("", "\n") else "\n"
            language = one_line(as_text(entity.about.get("language")), 40)
            inner = f"{before}```{language}\n{inner.rstrip()}\n```{after}"
        else:
            continue
        new = inner.encode("utf-16-le", "surrogatepass")
        raw = raw[: entity.start * 2] + new + raw[entity.end * 2 :]
    return raw.decode("utf-16-le", "replace")


def _full_name(who: Mapping[str, Any]) -> str:
    return " ".join(filter(None, (as_text(who.get("first_name")), as_text(who.get("last_name")))))


def _author_of(origin: Any) -> str:
    """Who wrote a message first, as far as Telegram tells."""
    if not isinstance(origin, dict):
        return ""
    who = origin.get("sender_user") or origin.get("sender_chat") or origin.get("chat") or {}
    shown = _full_name(who) or as_text(who.get("title")) or as_text(origin.get("sender_user_name"))
    return flat(shown or as_text(who.get("username")))


def _described(message: Mapping[str, Any]) -> str:
    """What is neither text nor a file, in words."""
    if isinstance(place := message.get("venue") or message.get("location"), dict):
        spot = place.get("location") or place
        names = [flat(place.get(part)) for part in ("title", "address")]
        name = f"{', '.join(filter(None, names))}: " if any(names) else ""
        return f"[Location: {name}{float(spot['latitude']):.6f}, {float(spot['longitude']):.6f}]"
    if isinstance(card := message.get("contact"), dict):
        names = [flat(card.get(part)) for part in ("first_name", "last_name")]
        return f"[Contact: {' '.join(filter(None, names))}, {flat(card.get('phone_number'))}]"
    if isinstance(poll := message.get("poll"), dict):
        options = ", ".join(flat(option.get("text")) for option in poll.get("options", []))
        return f"[Poll: {flat(poll.get('question'), 200)} ({options})]"
    if isinstance(dice := message.get("dice"), dict):
        return f"[{flat(dice.get('emoji'), 8)} shows {int(dice['value'])}]"
    if isinstance(sticker := message.get("sticker"), dict):
        named = f" of the set {flat(sticker.get('set_name'))}" if sticker.get("set_name") else ""
        return f"[Sticker {flat(sticker.get('emoji'), 8)}{named}]".replace("Sticker ]", "Sticker]")
    if isinstance(checklist := message.get("checklist"), dict):
        tasks = (
            f"- [{'x' if task.get('completion_date') else ' '}] {flat(task.get('text'), 200)}"
            for task in checklist["tasks"]
        )
        return "\n".join([f"[Checklist: {flat(checklist.get('title'), 200)}]", *tasks])
    if isinstance(story := message.get("story"), dict):
        chat = story.get("chat") or {}
        return (
            f"[A story of {flat(chat.get('title') or chat.get('first_name')) or 'somebody'}, not shown here]"
        )
    return ""


# --- other happenings ----------------------------------------------------------------------------


def _pressed(query: Mapping[str, Any], me: TelegramIdentity, now: datetime) -> Inbound | None:
    message, data = query["message"], as_text(query["data"])
    number = integer(message["message_id"])
    return Inbound(
        delivery=DeliveryId(f"button:{storable(as_text(query['id']))}"),
        source=_source(message, me, person=query["from"]),
        at=now,
        what=InboundKind.BUTTON,
        ref=str(number),
        button=_value(data, message),
    )


def _reaction(news: Mapping[str, Any], me: TelegramIdentity) -> Inbound | None:
    new = [as_text(reaction.get("emoji")) for reaction in news["new_reaction"]]
    old = [as_text(reaction.get("emoji")) for reaction in news["old_reaction"]]
    added = [emoji for emoji in new if emoji and emoji not in old]
    if not added:
        return None
    chat, number, at = integer(news["chat"]["id"]), integer(news["message_id"]), moment(news.get("date"))
    person = news.get("user") or news["actor_chat"]
    return Inbound(
        delivery=DeliveryId(f"reaction:{chat}:{number}:{integer(person['id'])}:{int(at.timestamp())}"),
        source=_source({"chat": news["chat"]}, me, person=person),
        at=at,
        what=InboundKind.REACTION,
        ref=str(number),
        text=added[0],
    )


def _membership(news: Mapping[str, Any], me: TelegramIdentity, update: int | None) -> Inbound | None:
    was, now = (as_text(news[f"{when}_chat_member"]["status"]) in _OUTSIDE for when in ("old", "new"))
    if was == now:
        return None
    return Inbound(
        delivery=DeliveryId(f"member:{update}"),
        source=_source(news, me),
        at=moment(news.get("date")),
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
                return begin + as_text(button["text"])
    return data


_WORDS = ("initiate conversation", "thread not found", "not a forum", "TOPIC_CLOSED", "file is too big")
"""What a description has in it that tells one refusal from another."""
_error = error_table(
    "Telegram",
    {
        (401, "Not Found"): (
            NeedsLogin,
            "Telegram does not know this bot token; ask @BotFather for the right one (TELEGRAM_BOT_TOKEN)",
        ),
        409: (
            Unreachable,
            "Another program receives this bot's messages: stop it, or use another bot ({why})",
        ),
        "initiate conversation": (Refused, "That person has to write to the bot first; Telegram wants it so"),
        403: (Refused, "Telegram does not let us write there ({why})"),
        "thread not found": (TopicGone, "The topic is gone ({why})"),
        "not a forum": (
            Refused,
            "That chat has no topics; for private chats @BotFather turns them on ({why})",
        ),
        "TOPIC_CLOSED": (Refused, "The topic is closed; open it, or make the bot an admin ({why})"),
    },
    too_large={"file is too big"},
)


def error_for(status: int, answer: Any) -> HermesError:
    why = one_line(as_text(dig(answer, "description")) or f"HTTP {status}", 160)
    code = next((words for words in _WORDS if words in why), why if status == 404 else "")
    wait = dig(answer, "parameters", "retry_after")
    after = min(float(wait), 86_400.0) if isinstance(wait, int | float) and wait >= 0 else 5.0
    return _error(status, code, why, after)


def forum_of(update: Any) -> str:
    """The chat of a message, if it is a forum; empty if it is none."""
    chat = dig(update, "message", "chat")
    return str(dig(chat, "id")) if dig(chat, "is_forum") is True else ""


def webhook_findings(url: str, secret: str, info: Any) -> list[Finding]:
    current, trouble = dig(info, "url") or "", dig(info, "last_error_message")
    if not url:
        removed = "; the webhook that is set now will be removed" if current else ""
        return [good(f"It is polled{removed}.")]
    findings = []
    if not url.startswith("https://"):
        hint = "Telegram calls https addresses only, on the ports 443, 80, 88 and 8443."
        findings.append(wrong("TELEGRAM_WEBHOOK_URL does not begin with https://.", hint))
    if not SECRET_SHAPE.fullmatch(secret):
        text = "TELEGRAM_WEBHOOK_SECRET is missing, or has more in it than letters, digits, _ and -."
        findings.append(wrong(text, "hermes config set TELEGRAM_WEBHOOK_SECRET …"))
    if current == url and trouble:
        waiting = info.get("pending_update_count", 0)
        text = f"Telegram could not call {one_line(url, 120)}: {one_line(str(trouble), 160)}; {waiting} wait."
        findings.append(wrong(text, "The gateway must run, behind a proxy with a certificate."))
    return findings or [good(f"Telegram calls {one_line(url, 120)}.")]
