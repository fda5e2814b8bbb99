"""Reports about mails of ours that did not arrive (RFC 3464). Whoever they were for cannot be told by mail;
the log says it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from email.message import Message
from email.parser import HeaderParser
from typing import TypeAlias

from hermes.domain.text import one_line, showable

Mail: TypeAlias = "Message[str, str]"
OURS = re.compile(r"<hermes\.[0-9a-f]{40}@[A-Za-z0-9.-]+>", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounce:
    id: str
    """Which mail of ours."""
    to: str
    status: str
    why: str

    @property
    def final(self) -> bool:
        return self.status.startswith("5")


def bounce_of(mail: Mail) -> Bounce | None:
    """What a report says of a mail of ours; None if it is none, or about somebody else's."""
    if mail.get_content_type() != "multipart/report":
        return None
    parts = mail.get_payload()
    status: Mail | None = None
    name = ""
    for part in parts[:5] if isinstance(parts, list) else []:
        if not isinstance(part, Message):
            continue
        kind, inner = part.get_content_type(), part.get_payload()
        if kind == "message/delivery-status" and isinstance(inner, list):
            # The first block is about the report, the others are about one receiver each.
            status = next((one for one in inner[1:] if isinstance(one, Message)), None)
        elif kind == "message/rfc822" and isinstance(inner, list) and inner:
            name = _id(inner[0]) if isinstance(inner[0], Message) else ""
        elif kind == "text/rfc822-headers" and isinstance(inner, str):
            name = _id(HeaderParser().parsestr(inner[:64_000]))
    if not name or status is None:
        return None
    return Bounce(
        id=name,
        to=_told(status, "Final-Recipient") or _told(status, "Original-Recipient"),
        status=_told(status, "Status"),
        why=_told(status, "Diagnostic-Code"),
    )


def _id(mail: Mail) -> str:
    found = OURS.search(str(mail.get("Message-ID", "")))
    return found[0] if found else ""


def _told(block: Mail, name: str) -> str:
    """A field without the kind of address or server that stands before it."""
    text = str(block.get(name, ""))
    return one_line(showable(text.partition(";")[2] or text).strip(), 160)
