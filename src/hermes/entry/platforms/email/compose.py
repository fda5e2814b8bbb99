"""Mails that we write, and what a server's answer to one of them means."""

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

from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable
from hermes.domain.message import Attachment
from hermes.domain.text import one_line, showable
from hermes.entry.platforms.email.convert import MailThread
from hermes.entry.platforms.email.words import html_to_text

TOO_FAST_SECONDS = 60.0
"""A server that wants us to be slower does not say by how much."""
_MOST_REFERENCES = 20
_STATUS = {
    **dict.fromkeys(("5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10"), "There is no such address"),
    **dict.fromkeys(("5.3.4", "5.2.3"), "The mail is too large for the server"),
    "5.2.1": "The mailbox of that address is switched off",
    "5.2.2": "The mailbox of that address is full",
    "5.7.1": "The server's rules forbid the mail",
}
"""What servers say more precisely (RFC 3463)."""
_LOGIN_CODES = (530, 534, 535, 538)
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


def error_for(code: int, reply: object) -> HermesError:
    """What a refusal of the SMTP server means for who sent. With an answer like these, nothing was sent."""
    words = reply.decode("utf-8", "replace") if isinstance(reply, bytes) else str(reply)
    why = one_line(f"{code} {showable(words)}", 180)
    if code in _LOGIN_CODES:
        return NeedsLogin(f"The SMTP server does not take this name and password (EMAIL_PASSWORD): {why}")
    if code < 200:
        return Unreachable("What answers there is no SMTP server")
    if code < 500:
        return Unreachable(f"The SMTP server wants us to come back later ({why})", after=TOO_FAST_SECONDS)
    status = re.search(r"\b5\.\d{1,3}\.\d{1,3}\b", words, re.ASCII)
    reason = _STATUS.get(status[0] if status else "5.3.4" if code == 552 else "")
    return Refused(f"{reason or 'The SMTP server refuses the mail'} ({why})")
