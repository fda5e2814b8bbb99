"""From our words to WhatsApp's: places, files, buttons and templates as parts of a message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Attachment, Body, Button, MediaKind
from hermes.domain.errors import Refused
from hermes.domain.text import one_line
from hermes.entry.kit.files import file_name
from hermes.entry.platforms.whatsapp_cloud.convert import PHONE, SCOPED_ID

_SORTS = {
    MediaKind.IMAGE: "image",
    MediaKind.VIDEO: "video",
    MediaKind.AUDIO: "audio",
    MediaKind.VOICE: "audio",
    MediaKind.STICKER: "sticker",
}
_MOST_BUTTONS, _BUTTON, _BUTTON_WORDS = 3, 20, 1024
_MOST_ROWS, _ROW, _ROW_VALUE, _BUTTON_VALUE = 10, 24, 200, 256
_MOST_TEMPLATE = 900
"""A template has 1,024 characters in all, with its own words."""


def is_group(to: Address) -> bool:
    return not (PHONE.fullmatch(to.chat) or SCOPED_ID.fullmatch(to.chat))


def place(to: Address) -> dict[str, Any]:
    """An address as fields of a message: a number, the id of a person who hides it, or a group."""
    message: dict[str, Any] = {"messaging_product": "whatsapp", "recipient_type": "individual"}
    if PHONE.fullmatch(to.chat):
        return {**message, "to": to.chat}
    if SCOPED_ID.fullmatch(to.chat):
        return {**message, "recipient": to.chat}
    if not to.chat.isascii() or to.chat.startswith("+"):
        raise Refused(
            f"{to} is nobody: a number with the country code is wanted, like whatsapp_cloud:15551234567"
        )
    return {**message, "recipient_type": "group", "to": to.chat}


def words(text: str) -> dict[str, Any]:
    return {"type": "text", "text": {"body": text, "preview_url": True}}


def file(media: str, sent: Attachment, caption: str) -> dict[str, Any]:
    sort = _SORTS.get(sent.kind, "document")
    content: dict[str, Any] = {"id": media}
    if caption:
        content["caption"] = caption
    if sort == "document":
        content["filename"] = file_name(sent)
    if sent.kind is MediaKind.VOICE:
        content["voice"] = True
    return {"type": sort, sort: content}


def question(text: str, buttons: Sequence[Button]) -> dict[str, Any] | None:
    """A text with up to three buttons, or a list of up to ten answers; None if they do not fit, so that
    people type what they choose."""
    fitting = [one for one in buttons if one.label and len(one.value) <= _ROW_VALUE]
    short = all(len(one.label) <= _BUTTON for one in fitting)
    if len(fitting) != len(buttons) or len({one.label for one in buttons}) != len(buttons):
        return None
    if len(buttons) <= _MOST_BUTTONS and short and len(text) <= _BUTTON_WORDS:
        replies = [{"type": "reply", "reply": {"id": one.value, "title": one.label}} for one in buttons]
        content: dict[str, Any] = {"type": "button", "action": {"buttons": replies}}
    elif len(buttons) <= _MOST_ROWS and all(len(one.label) <= _ROW for one in buttons):
        rows = [{"id": one.value, "title": one.label} for one in buttons]
        content = {"type": "list", "action": {"button": "Choose", "sections": [{"rows": rows}]}}
    else:
        return None
    return {"type": "interactive", "interactive": {**content, "body": {"text": text}}}


def template(name: str, language: str, body: Body) -> dict[str, Any] | None:
    """Words as the one variable of a template, which has a single line; None if they do not fit into it."""
    text = one_line(body.text, _MOST_TEMPLATE + 1)
    if body.attachments or not text or len(text) > _MOST_TEMPLATE:
        return None
    parameters = [{"type": "text", "text": text}]
    components = [{"type": "body", "parameters": parameters}]
    content = {"name": name, "language": {"code": language}, "components": components}
    return {"type": "template", "template": content}
