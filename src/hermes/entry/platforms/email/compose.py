"""Mails that we write."""

from __future__ import annotations

import hashlib
import mimetypes
import re
from collections.abc import Sequence
from datetime import datetime
from email.headerregistry import Address as MailAddress
from email.message import EmailMessage
from email.policy import SMTP, SMTPUTF8
from email.utils import format_datetime

from hermes.domain.chats.message import Attachment
from hermes.domain.text import one_line
from hermes.entry.platforms.email.convert import MailThread
from hermes.entry.platforms.email.words import html_to_text

_MOST_REFERENCES = 20
_MIME = re.compile(r"[a-z0-9!#$&^_.+-]{1,64}/[a-z0-9!#$&^_.+-]{1,64}", re.ASCII)


def message_id(sender: str, key: str) -> str:
    """The same for every attempt to send the same thing, so that it can be found again."""
    digest = hashlib.sha256(f"{sender}\n{key}".encode(errors="replace")).hexdigest()[:40]
    return f"<hermes.{digest}@{sender.rpartition('@')[2]}>"


def compose(
    html: str,
    files: Sequence[tuple[Attachment, bytes]],
    *,
    sender: str,
    name: str,
    to: str,
    key: str,
    at: datetime,
    thread: MailThread | None,
) -> bytes:
    """The mail: text, and the same as HTML; a machine's answer by its headers, so that none answers it.
    `thread` is what it answers."""
    text = html_to_text(html)
    mail = EmailMessage(policy=SMTP if (sender + to).isascii() else SMTPUTF8)
    mail["From"] = _address(sender, one_line(name, 60))
    mail["To"] = _address(to)
    mail["Subject"] = _subject(text, files, thread)
    mail["Date"] = format_datetime(at)
    mail["Message-ID"] = message_id(sender, key)
    mail["Auto-Submitted"] = "auto-replied" if thread is not None else "auto-generated"
    mail["X-Auto-Response-Suppress"] = "All"
    mail.set_content(text, charset="utf-8")
    if html:
        page = f"<!DOCTYPE html>\n<html><body>\n{html}\n</body></html>"
        mail.add_alternative(page, subtype="html", charset="utf-8")
    for number, (file, data) in enumerate(files, 1):
        mime = (file.mime or "").lower()
        main, _, sub = (mime if _MIME.fullmatch(mime) else "application/octet-stream").partition("/")
        if main in ("multipart", "message"):
            main, sub = "application", "octet-stream"
        file_name = one_line(file.name or "", 120) or f"file-{number}{mimetypes.guess_extension(mime) or ''}"
        mail.add_attachment(data, maintype=main, subtype=sub, filename=file_name)
    return _thread_lines(thread) + mail.as_bytes()


def _address(address: str, name: str = "") -> MailAddress:
    # In parts: the library would doubt a whole one that is not ASCII.
    local, _, domain = address.rpartition("@")
    return MailAddress(display_name=name, username=local, domain=domain)


def _thread_lines(thread: MailThread | None) -> bytes:
    """What is answered. Written by hand: the library would take a long id for words, and encode it."""
    if thread is None or not thread.id or not thread.id.isascii():
        return b""
    references = [ref for ref in (*thread.references, thread.id) if ref.isascii()]
    if len(references) > _MOST_REFERENCES:
        references = [references[0], *references[1 - _MOST_REFERENCES :]]
    lines = "\r\n ".join(references)
    return f"In-Reply-To: {thread.id}\r\nReferences: {lines}\r\n".encode("ascii")


def _subject(text: str, files: Sequence[tuple[Attachment, bytes]], thread: MailThread | None) -> str:
    if thread is not None and thread.subject:
        return f"Re: {one_line(thread.subject, 200)}"
    first = next((line.strip("#*> -") for line in text.split("\n") if line.strip("#*> -")), "")
    if not first and files:
        first = files[0][0].name or ""
    return one_line(first, 78) or "A message"
