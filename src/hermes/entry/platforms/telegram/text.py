"""What a message of Telegram's says, in words: its text with the links and code that its entities mark, whom
it calls by name, who wrote it first, and what is neither text nor a file. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hermes.domain.text import one_line
from hermes.entry.kit.payload import as_text

_LONGEST_LINK = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class TelegramText:
    text: str
    mentions_me: bool = False
    mentions_others: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entity:
    """A marked stretch of a text; places are counted in UTF-16."""

    sort: str
    start: int
    end: int
    about: Mapping[str, Any]

    def of(self, raw: bytes) -> str:
        return raw[self.start * 2 : self.end * 2].decode("utf-16-le", "replace")


def read_words(message: Mapping[str, Any], me: int, username: str) -> TelegramText | None:
    """What was said, without our own name at its start; None for a command that is another bot's. What was
    forwarded says so, and is nobody's command."""
    text = as_text(message.get("text")) or as_text(message.get("caption"))
    raw = text.encode("utf-16-le", "surrogatepass")
    entities = list(_entities(message.get("entities") or message.get("caption_entities")))
    forwarded = isinstance(message.get("forward_origin"), dict)
    text = _marked(raw, entities)
    own, mine, others = f"@{username}".lower(), False, False
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
            mine = mine or user["id"] == me
            others = others or (user.get("is_bot") is True and user["id"] != me)
    text = text or described(message)
    if forwarded:
        text = f"[Forwarded from {author_of(message['forward_origin']) or 'somebody'}]\n{text}".rstrip()
    return TelegramText(text=text, mentions_me=mine, mentions_others=others)


def _entities(entities: Any) -> Iterator[_Entity]:
    for one in entities if isinstance(entities, list) else ():
        start, length = one["offset"], one["length"]
        if not (isinstance(start, int) and isinstance(length, int) and start >= 0 and 0 < length < 2**20):
            raise ValueError("an entity without a place")
        yield _Entity(sort=as_text(one.get("type")), start=start, end=start + length, about=one)


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


def author_of(origin: Any) -> str:
    """Who wrote a message first, as far as Telegram tells."""
    if not isinstance(origin, dict):
        return ""
    who = origin.get("sender_user") or origin.get("sender_chat") or origin.get("chat") or {}
    name = " ".join(filter(None, (as_text(who.get("first_name")), as_text(who.get("last_name")))))
    shown = name or as_text(who.get("title")) or as_text(origin.get("sender_user_name"))
    return _flat(shown or as_text(who.get("username")))


def described(message: Mapping[str, Any]) -> str:
    """What is neither text nor a file, in words."""
    if isinstance(place := message.get("venue") or message.get("location"), dict):
        spot = place.get("location") or place
        names = [_flat(place.get(part)) for part in ("title", "address")]
        name = f"{', '.join(filter(None, names))}: " if any(names) else ""
        return f"[Location: {name}{float(spot['latitude']):.6f}, {float(spot['longitude']):.6f}]"
    if isinstance(card := message.get("contact"), dict):
        names = [_flat(card.get(part)) for part in ("first_name", "last_name")]
        return f"[Contact: {' '.join(filter(None, names))}, {_flat(card.get('phone_number'))}]"
    if isinstance(poll := message.get("poll"), dict):
        options = ", ".join(_flat(one.get("text")) for one in poll.get("options", []))
        return f"[Poll: {_flat(poll.get('question'), 200)} ({options})]"
    if isinstance(dice := message.get("dice"), dict):
        return f"[{_flat(dice.get('emoji'), 8)} shows {int(dice['value'])}]"
    if isinstance(sticker := message.get("sticker"), dict):
        named = f" of the set {_flat(sticker.get('set_name'))}" if sticker.get("set_name") else ""
        return f"[Sticker {_flat(sticker.get('emoji'), 8)}{named}]".replace("Sticker ]", "Sticker]")
    if isinstance(checklist := message.get("checklist"), dict):
        tasks = (
            f"- [{'x' if one.get('completion_date') else ' '}] {_flat(one.get('text'), 200)}"
            for one in checklist["tasks"]
        )
        return "\n".join([f"[Checklist: {_flat(checklist.get('title'), 200)}]", *tasks])
    if isinstance(story := message.get("story"), dict):
        chat = story.get("chat") or {}
        return (
            f"[A story of {_flat(chat.get('title') or chat.get('first_name')) or 'somebody'}, not shown here]"
        )
    return ""


def _flat(value: Any, most: int = 80) -> str:
    """On one line, without what would end a note of ours."""
    return one_line(as_text(value), most).replace("[", "(").replace("]", ")")
