"""From our words to Telegram's: places, buttons, files and albums as parameters of calls. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import unescape
from typing import Any

from msgspec import Struct

from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Button, MediaKind
from hermes.domain.errors import Refused
from hermes.entry.platforms.telegram.manifest import MANIFEST

SENDS = {
    MediaKind.IMAGE: ("sendPhoto", "photo"),
    MediaKind.VOICE: ("sendVoice", "voice"),
    MediaKind.AUDIO: ("sendAudio", "audio"),
    MediaKind.VIDEO: ("sendVideo", "video"),
}
"""The method for a kind of file, and the parameter that holds it."""
AS_FILE = ("sendDocument", "document")
LABELLED = "\x1f"
"""Stands at the end of callback data for the button's own label, where both together would be too long."""
_CALLBACK_BYTES = 64
_TAG = re.compile(r"<[^<>]*>")
GENERAL = "1"
DIRECT = "direct"
"""Before the number of a topic in the direct messages of a channel, where an address has its thread."""


class Upload(Struct, frozen=True, kw_only=True):
    kind: MediaKind
    name: str
    data: bytes
    mime: str | None = None


def place(to: Address) -> dict[str, Any]:
    """An address as parameters of a call. A forum's general topic has no number when one writes to it; who
    writes to a channel has a topic there that is none of a forum's."""
    asked: dict[str, Any] = {"chat_id": chat_number(to)}
    if to.thread is not None and re.fullmatch(rf"{DIRECT}[0-9]{{1,18}}", to.thread, re.ASCII):
        return asked | {"direct_messages_topic_id": int(to.thread.removeprefix(DIRECT))}
    if to.thread is not None and to.thread != GENERAL:
        if not (to.thread.isascii() and to.thread.isdigit()):
            raise Refused(f"{to} is not a topic: its number is wanted, like telegram:-100123:7")
        asked["message_thread_id"] = int(to.thread)
    return asked


def is_topic_name(to: Address) -> bool:
    """Whether it is a topic of a private chat by its name; in groups topics are made by people."""
    named = to.thread is not None and not (to.thread.isascii() and to.thread.isdigit())
    number = chat_number(to)
    return named and isinstance(number, int) and number > 0


def chat_number(to: Address) -> int | str:
    """A chat's number, or the public name of a channel."""
    if re.fullmatch(r"-?\d{1,18}", to.chat, re.ASCII):
        return int(to.chat)
    if re.fullmatch(r"@\w{4,64}", to.chat, re.ASCII):
        return to.chat
    raise Refused(f"{to} is not a chat: its number is wanted, like telegram:123456789, or a channel's @name")


def marked_up(name: str, text: str) -> dict[str, Any]:
    return {name: text, "parse_mode": "HTML"}


def unmarked(asked: Mapping[str, Any]) -> dict[str, Any]:
    plain = {name: value for name, value in asked.items() if name != "parse_mode"}
    for name in ("text", "caption"):
        if name in plain:
            plain[name] = unescape(_TAG.sub("", str(plain[name])))
    if isinstance(plain.get("media"), list):
        plain["media"] = [unmarked(item) for item in plain["media"]]
    return plain


def is_album(files: Sequence[Upload]) -> bool:
    kinds = {file.kind for file in files}
    albums = MANIFEST.capabilities.albums
    return len(files) > 1 and any(kinds <= album.kinds and len(files) <= album.most for album in albums)


def album(fields: Mapping[str, Upload], caption: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Files as an album; a caption under the first alone is shown as that of all."""
    media: list[dict[str, Any]] = [
        {"type": SENDS.get(file.kind, AS_FILE)[1], "media": f"attach://{field}"}
        for field, file in fields.items()
    ]
    media[0] |= caption
    return media


def keyboard(buttons: Sequence[Button]) -> dict[str, Any]:
    """Buttons as rows of an inline keyboard, the parameter of a call: short ones side by side. A value that
    does not fit into callback data and does not end with its label cannot be told apart later, and its button
    is left out."""
    rows: list[list[dict[str, str]]] = []
    room = 0
    for number, button in enumerate(buttons):
        data = button.value
        if len(data.encode()) > _CALLBACK_BYTES and button.label and data.endswith(button.label):
            data = f"{data[: -len(button.label)]}{LABELLED}{number}"
        if not button.label or not data or len(data.encode()) > _CALLBACK_BYTES:
            continue
        if room < len(button.label):
            rows.append([])
            room = 32
        rows[-1].append({"text": button.label, "callback_data": data})
        room -= len(button.label) + 4
    return {"reply_markup": {"inline_keyboard": rows}} if rows else {}
