"""What goes out, as the content of events: words with and without markup, files, edits, relations. Pure
functions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from html import escape
from html.parser import HTMLParser
from itertools import count, repeat
from typing import Any

from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Attachment, Body, MediaKind
from hermes.domain.errors import Refused
from hermes.entry.platforms.matrix.convert import BUTTONS, KEYS, VOICE

EVENT_BYTES = 60_000
"""Of the 65,535 of an event; the rest is for what the homeserver adds."""
ENCRYPTED_BYTES = 44_000
SENT = "org.hermes-gateway.sent"
"""Where an event of ours says, not to be read by others, what it was sent as."""
_SHORT = 500
_SORTS = {
    MediaKind.IMAGE: "m.image",
    MediaKind.STICKER: "m.image",
    MediaKind.VOICE: "m.audio",
    MediaKind.AUDIO: "m.audio",
    MediaKind.VIDEO: "m.video",
}
_BLOCKS = frozenset(
    {"p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "pre", "blockquote", "table", "tr", "hr"}
)


def transaction(*parts: str) -> str:
    """The id by which the homeserver knows that it was asked the same before."""
    return sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:48]


def digest(body: Body) -> str:
    """Tells one text of a message from another."""
    return transaction(json.dumps(message(body), sort_keys=True))


def message(body: Body) -> dict[str, Any]:
    """Words in Matrix's HTML, as an event's content."""
    html = _unwrapped(body.text)
    shown = body.buttons[: len(KEYS)]
    for key, button in zip(KEYS, shown, strict=False):
        html += f"<br>{key} {escape(button.label, quote=False)}"
    content = {"msgtype": "m.text", **_words(html), "m.mentions": {}}
    if shown:
        content[BUTTONS] = [{"label": button.label, "value": button.value} for button in shown]
    return content


def edit(ref: str, body: Body) -> dict[str, Any]:
    """The same as a replacement of an earlier event."""
    new = fitted(message(body), ENCRYPTED_BYTES - 2_000)
    return {
        "msgtype": "m.text",
        "body": f"* {_cut(new['body'])}",
        "m.mentions": {},
        "m.new_content": new,
        "m.relates_to": {"rel_type": "m.replace", "event_id": ref},
    }


def file(attachment: Attachment, size: int, place: Mapping[str, Any]) -> dict[str, Any]:
    """A file that was uploaded; `place` is its `url`, or `file` with the key."""
    name = attachment.name or "file"
    info: dict[str, Any] = {"size": size}
    if attachment.mime:
        info["mimetype"] = attachment.mime
    content = {
        "msgtype": _SORTS.get(attachment.kind, "m.file"),
        "body": name,
        "filename": name,
        "info": info,
        "m.mentions": {},
        **place,
    }
    if attachment.kind is MediaKind.VOICE:
        content[VOICE] = {}
    return content


def related(
    content: dict[str, Any],
    to: Address,
    reply_to: str | None,
    author: str | None = None,
    last: str | None = None,
) -> dict[str, Any]:
    """The content in its thread, and as an answer, of which who is answered is told. For programs that know
    no threads it answers the `last` event there."""
    answered = reply_to if reply_to is not None and reply_to.startswith("$") else None
    if answered is not None and author is not None:
        content = {**content, "m.mentions": {"user_ids": [author]}}
    if to.thread is not None:
        if not to.thread.startswith("$"):
            raise Refused(f"{to} is no thread: the id of its first event is wanted, which begins with $")
        relation = {
            "rel_type": "m.thread",
            "event_id": to.thread,
            "is_falling_back": answered is None,
            "m.in_reply_to": {"event_id": answered or last or to.thread},
        }
        return {**content, "m.relates_to": relation}
    if answered is not None:
        return {**content, "m.relates_to": {"m.in_reply_to": {"event_id": answered}}}
    return content


def fitted(content: dict[str, Any], limit: int) -> dict[str, Any]:
    """What fits into an event: the words without markup are shortened, where there are those with."""
    if _size(content) <= limit:
        return content
    if "formatted_body" in content:
        content = {**content, "body": _cut(content["body"])}
    if _size(content) > limit:
        raise Refused("It is too long for one event of Matrix's")
    return content


def plain(html: str) -> str:
    """HTML as one reads it without markup."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return reader.text.strip("\n")


def _words(html: str) -> dict[str, Any]:
    text = plain(html)
    if escape(text, quote=False) == html:
        return {"body": text}
    return {"body": text, "format": "org.matrix.custom.html", "formatted_body": html}


def _unwrapped(html: str) -> str:
    """One paragraph needs no tags of its own."""
    inner = html.removeprefix("<p>").removesuffix("</p>")
    return inner if len(inner) == len(html) - 7 and "<p>" not in inner else html


def _cut(text: str) -> str:
    return text if len(text) <= _SHORT else text[:_SHORT] + "…"


def _size(content: Mapping[str, Any]) -> int:
    return len(json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"))


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self._markers: list[Iterator[str]] = []
        """What stands before the items of the lists that we are in."""
        self._pre = 0
        self._link = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "br":
            self.text += "\n"
        elif tag in _BLOCKS:
            self._line()
        if tag == "ul":
            self._markers.append(repeat("-"))
        elif tag == "ol":
            start = dict(attrs).get("start") or "1"
            numbers = count(int(start) if start.isdecimal() else 1)
            self._markers.append(f"{number}." for number in numbers)
        elif tag == "li" and self._markers:
            self.text += "  " * (len(self._markers) - 1) + f"{next(self._markers[-1])} "
        elif tag == "pre":
            self._pre += 1
        elif tag == "a":
            self._link = dict(attrs).get("href") or ""
        elif tag in ("td", "th") and not self.text.endswith("\n"):
            self.text += " | "
        elif tag == "hr":
            self.text += "---"

    def handle_endtag(self, tag: str) -> None:
        if tag in ("ul", "ol") and self._markers:
            self._markers.pop()
        elif tag == "pre":
            self._pre = max(0, self._pre - 1)
        elif tag == "a" and self._link:
            if not self.text.endswith(self._link):
                self.text += f" ({self._link})"
            self._link = ""
        if tag in ("p", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "blockquote", "table"):
            self._line()
            self.text += "\n"

    def handle_data(self, data: str) -> None:
        if self._pre or data.strip("\n") or not self.text.endswith("\n"):
            self.text += data

    def _line(self) -> None:
        if self.text and not self.text.endswith(("\n", "- ", ". ")):
            self.text += "\n"
