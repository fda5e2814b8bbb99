"""From our words to Slack's: messages with buttons, names of emoji and of files. Pure functions."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from html import escape
from typing import Any

from hermes.domain.chats.message import Attachment, Button
from hermes.domain.errors import Refused
from hermes.domain.text import one_line
from hermes.entry.kit.files import file_name
from hermes.entry.kit.payload import as_dicts, as_text, dig

SECTION = 3000
KEY_EVENT = "hermes_message"
"""The name of the metadata in which a message of ours carries its key."""
_LABEL, _VALUE, _IN_A_ROW = 75, 2000, 25
_SUMMARY = 3000
_EMOJI = {
    "👀": "eyes", "👍": "+1", "👎": "-1", "✅": "white_check_mark", "❌": "x", "🎉": "tada", "❤": "heart",
    "🔥": "fire", "🤔": "thinking_face", "⏳": "hourglass_flowing_sand", "⚠": "warning", "🙏": "pray",
    "😀": "grinning", "😂": "joy", "🚀": "rocket", "👏": "clap", "💯": "100", "🛑": "octagonal_sign",
    "✔": "heavy_check_mark", "⌛": "hourglass", "❓": "question", "❗": "exclamation", "👌": "ok_hand",
    "🔁": "repeat", "💤": "zzz", "🧠": "brain", "⚙": "gear", "✍": "writing_hand", "🤖": "robot_face",
}  # fmt: skip
_NAMES = {name: emoji for emoji, name in _EMOJI.items()} | {"thumbsup": "👍", "thumbsdown": "👎"}


def blocks(text: str, buttons: Sequence[Button]) -> list[dict[str, Any]]:
    """A text with buttons under it."""
    sections = ({"type": "section", "text": {"type": "mrkdwn", "text": piece}} for piece in _sections(text))
    return [*sections, *_rows(buttons)]


def markdown_blocks(text: str, buttons: Sequence[Button]) -> list[dict[str, Any]]:
    """The same of a text in Markdown, which Slack prints itself."""
    return [{"type": "markdown", "text": text}, *_rows(buttons)]


def summary(markdown: str) -> str:
    """What notifications show of a text that is in blocks: so much as an edit takes."""
    return escape(markdown, quote=False).encode()[:_SUMMARY].decode(errors="ignore")


def _rows(buttons: Sequence[Button]) -> list[dict[str, Any]]:
    """A value that is too long for a button leaves the button out."""
    elements = [
        {
            "type": "button",
            "action_id": f"hermes_{place}",
            "text": {"type": "plain_text", "text": one_line(button.label, _LABEL), "emoji": True},
            "value": button.value,
        }
        for place, button in enumerate(buttons)
        if button.label.strip() and 0 < len(button.value) <= _VALUE
    ]
    return [
        {"type": "actions", "elements": elements[start : start + _IN_A_ROW]}
        for start in range(0, len(elements), _IN_A_ROW)
    ]


def _sections(text: str) -> list[str]:
    pieces: list[str] = []
    while len(text) > SECTION:
        cut = max(text.rfind("\n", 1, SECTION), text.rfind(" ", 1, SECTION))
        cut = cut if cut > 0 else SECTION
        pieces.append(text[:cut])
        text = text[cut:]
    return [piece for piece in (*pieces, text) if piece.strip()]


def emoji_name(emoji: str) -> str:
    bare = emoji.replace("\ufe0f", "").strip(":")
    if bare in _EMOJI:
        return _EMOJI[bare]
    if re.fullmatch(r"[a-z0-9_+'-]{1,100}", bare, re.ASCII):
        return bare
    raise Refused(f"Slack has no name for {one_line(emoji, 12)}")


def emoji_told(name: str) -> str:
    return _NAMES.get(name) or f":{name}:"


def tag_of(key: str) -> str:
    """A short mark for a key, where a message cannot carry the key itself: in the name of its file."""
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:10]


def shown_name(file: Attachment) -> str:
    return one_line(file_name(file), 120).replace("/", "_") or "file"


def tagged(name: str, key: str) -> str:
    """The name with the mark of its key before the ending; people see the title, which is without it."""
    stem, dot, ending = name.rpartition(".")
    return f"{stem}~{tag_of(key)}.{ending}" if dot and stem else f"{name}~{tag_of(key)}"


def is_sent_as(message: Any, key: str) -> bool:
    """Whether a message of ours was sent under this key."""
    if dig(message, "metadata", "event_payload", "key") == key:
        return True
    names = [as_text(file.get("name")) for file in as_dicts(dig(message, "files"))]
    return any(f"~{tag_of(key)}" in name for name in names)
