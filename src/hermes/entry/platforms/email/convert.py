"""Mails as messages. Pure functions; what cannot be read is left out, and why is said."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from email.errors import MessageError
from email.header import decode_header
from email.message import Message
from email.parser import BytesParser, HeaderParser
from email.policy import compat32
from email.utils import getaddresses
from functools import partial
from mimetypes import guess_type
from typing import TypeAlias, TypeVar

from msgspec import Struct, field

from hermes.domain.chats.adapter import Finding
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.chats.message import Attachment, Inbound, MediaKind, ReplyTo, media_kind
from hermes.domain.ids import DeliveryId
from hermes.domain.text import one_line, showable, size_told, storable
from hermes.entry.platforms.email import words
from hermes.entry.platforms.email.addresses import canonical, readable
from hermes.entry.platforms.email.proof import SenderPolicy
from hermes.entry.platforms.email.winmail import unpack
from hermes.entry.platforms.email.words import decode

Mail: TypeAlias = "Message[str, str]"
T = TypeVar("T")
LONGEST_TEXT = 200_000
_DEEPEST = 20
_MOST_PARTS = 500
_MOST_FILES = 50
_MOST_NAMED = 10
_TWICE = re.compile(r"""\s*([^\s<>"(),;:]+@[^\s<>"(),;:]+)\s*<([^<>\s]+)>\s*""")
_OURS = re.compile(r"<hermes\.[0-9a-f]{40}@[A-Za-z0-9.-]+>", re.ASCII)
ORIGINAL_IDS = ("X-Microsoft-Original-Message-ID", "X-Google-Original-Message-ID")
"""Where servers keep the id of a mail that they gave another one."""
_ID = re.compile(r"<[^<>\s\x00-\x1f]{1,400}>")
_MACHINES = re.compile(
    r"(?:mailer-daemon|postmaster|no-?_?\.?reply|do-?_?\.?not-?_?\.?reply|bounces?|notifications?)(?:[+=-].*)?",
    re.IGNORECASE,
)
_ANSWER_PREFIX = re.compile(
    r"^\s*(?:(?:re|aw|sv|vs|antw|odp|回复|答复)\s*(?:\[\d+\])?\s?[:：]\s*)+", re.IGNORECASE
)
_NAMELESS = {"message/rfc822": "mail.eml", "text/calendar": "invitation.ics", "text/vcard": "contact.vcf"}
_WRAPPINGS = ("application/ms-tnef", "application/vnd.ms-tnef")
_SIGNATURES = ("application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature")
_BAD = (LookupError, ValueError, TypeError, AttributeError, MessageError, RecursionError, AssertionError)
"""What the standard library is known to raise for headers and bodies that nobody should write."""


class EmailIdentity(Struct, frozen=True, kw_only=True):
    address: str
    account: str = "default"
    proof: SenderPolicy = field(default_factory=SenderPolicy)


class MailLocation(Struct, frozen=True, kw_only=True):
    """Where a mail lies, and when it came there."""

    validity: int = 0
    uid: int = 0
    arrived: datetime
    size: int = 0
    """How large it is; more than was read, if it was too large to be read whole."""


class MailThread(Struct, frozen=True, kw_only=True):
    """What an answer to a mail has to carry."""

    id: str = ""
    subject: str = ""
    references: tuple[str, ...] = ()
    reply_to: str = ""
    """Where its sender wants answers, if that is another address."""


class Bounce(Struct, frozen=True, kw_only=True):
    """What a report says of a mail of ours that did not arrive (RFC 3464). Who wanted it sent cannot be told
    by mail; the log says it."""

    id: str
    """Which mail of ours."""
    to: str
    status: str
    why: str

    @property
    def final(self) -> bool:
        return self.status.startswith("5")


class ParsedMail(Struct, frozen=True, kw_only=True):
    """A mail as it was understood: a message, or why it is none."""

    item: Inbound | None = None
    why: str = ""
    own: str = ""
    """The id under which we sent it ourselves, if it is a copy of that."""
    thread: MailThread = field(default_factory=MailThread)
    unproved: str = ""
    """Whom it says it is from, if that is what nothing proves."""
    bounce: Bounce | None = None
    """What it says of a mail of ours that did not arrive."""


def read_mail(raw: bytes, me: EmailIdentity, place: MailLocation) -> ParsedMail:
    """Never raises, whatever the bytes are."""
    try:
        return _read(parse_mail(raw), raw, me, place)
    except _BAD as error:
        return ParsedMail(why=f"it cannot be read ({type(error).__name__})")


def parse_mail(raw: bytes) -> Mail:
    return BytesParser(policy=compat32).parsebytes(raw)


def _read(mail: Mail, raw: bytes, me: EmailIdentity, place: MailLocation) -> ParsedMail:
    thread = thread_of(mail)
    if bounce := _quietly(lambda: _bounce(mail), None):
        return ParsedMail(why="it is a report about a mail of ours", thread=thread, bounce=bounce)
    sender, name = _sender(mail)
    if not sender:
        return ParsedMail(why="it does not say who wrote it", thread=thread)
    if sender == me.address:
        return ParsedMail(why="we wrote it", own=_sent_id(mail), thread=thread)
    if why := machine_made(mail, sender):
        return ParsedMail(why=why, thread=thread)
    if why := me.proof.doubt(mail, sender):
        return ParsedMail(why=why, thread=thread, unproved=sender)
    body = _Body(lambda number: f"{place.validity}/{place.uid}/{number}/{thread.id}")
    text, _ = body.gather(mail, 0)
    answers = _answered(mail)
    own = (name, sender, sender.partition("@")[0].replace(".", " "))
    text, quote = _words(text, own, reply=bool(answers))
    text = _with_subject(text, thread.subject, first=not answers)
    others = _quietly(lambda: _others(mail, (sender, me.address)), list[str]())
    if others and not text.lstrip().startswith("/") and not (answers and words.is_short(text)):
        more = f" and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
        text += f"\n\n[Also sent to {', '.join(others[:_MOST_NAMED])}{more}.]"
    if place.size > len(raw):
        text += f"\n\n[This mail has {size_told(place.size)}; only its beginning was read.]"
    if not text.strip() and not body.files:
        return ParsedMail(why="it is empty", thread=thread)
    shown = readable(sender)
    source = Source(
        address=Address(platform="email", account=me.account, chat=sender),
        kind=SourceKind.PRIVATE,
        user=shown,
        user_alt=sender if shown != sender else None,
        user_name=storable(name) or None,
        chat_name=one_line(storable(thread.subject), 120) or None,
    )
    item = Inbound(
        delivery=_delivery(mail, raw, sender, thread.id),
        source=source,
        at=place.arrived,
        ref=thread.id or None,
        text=storable(text.strip("\n")),
        attachments=tuple(body.files),
        reply_to=ReplyTo(ref=answers, text=storable(quote)[:4000], mine=_is_ours(answers))
        if answers
        else None,
    )
    return ParsedMail(item=item, thread=thread)


# --- headers ---


def header(mail: Mail, name: str) -> str:
    """A header as a person reads it, on one line; empty if there is none."""
    return _decoded(mail.get(name, ""))


def _decoded(value: object) -> str:
    try:
        pieces = decode_header(value)  # type: ignore[arg-type]
    except _BAD:
        pieces = [(str(value), None)]
    text = "".join(part if isinstance(part, str) else decode(part, charset) for part, charset in pieces)
    return storable(re.sub(r"\s+", " ", text)).strip()


def _sender(mail: Mail) -> tuple[str, str]:
    """Address and name of the one who wrote; nothing if that is not one single address."""
    lines = mail.get_all("From", [])
    if len(lines) != 1:
        return "", ""
    # The address is taken from the undecoded line: an encoded word could look like one.
    line = _utf8(mail, "From")
    # Some programs put the address in the name's place, too; not every Python's library reads that.
    twice = _TWICE.fullmatch(line)
    pairs = getaddresses([line]) if twice is None else [("", twice[1]), ("", twice[2])]
    senders = [(name, address) for name, address in pairs if name or address]
    if len({canonical(address) for _, address in senders}) != 1:
        return "", ""
    name, address = senders[-1]
    # What the library makes of a broken line must be what stands there, at its end.
    if not re.search(rf"(?:^|<)\s*{re.escape(address)}\s*>?\s*(?:\([^()]*\)\s*)?$", line):
        return "", ""
    return canonical(address), one_line(_decoded(name), 80)


def _utf8(mail: Mail, name: str) -> str:
    """A header as it was written, encoded words and all; newer ones are written in UTF-8 (RFC 6532)."""
    for other, value in mail.raw_items():
        if other.lower() == name.lower():
            return decode(str(value).encode("ascii", "surrogateescape"), "utf-8")
    return ""


def thread_of(mail: Mail) -> MailThread:
    own = _ID.search(_ids(mail, "Message-ID"))
    references = _ID.findall(_ids(mail, "References")) or _ID.findall(_ids(mail, "In-Reply-To"))[:1]
    subject = _ANSWER_PREFIX.sub("", header(mail, "Subject"))
    return MailThread(
        id=storable(own[0]) if own else "",
        subject=one_line(subject, 200),
        references=tuple(storable(ref) for ref in references),
        reply_to=_quietly(lambda: _wished(mail), ""),
    )


def _wished(mail: Mail) -> str:
    sender, wished = _addresses(mail, "From"), _addresses(mail, "Reply-To")
    return wished[0] if len(wished) == 1 and wished != sender else ""


def _others(mail: Mail, without: Sequence[str]) -> list[str]:
    """Who else got it."""
    receivers = dict.fromkeys(_addresses(mail, "To", "Cc"))
    return [readable(address) for address in receivers if address and address not in without]


def _addresses(mail: Mail, *names: str) -> list[str]:
    """The addresses in these headers; an empty one stands for what is none."""
    pairs = getaddresses([_utf8(mail, name) for name in names])
    return [canonical(address) for _, address in pairs if address]


def _answered(mail: Mail) -> str:
    """The mail that this one answers."""
    refs = _ID.findall(_ids(mail, "In-Reply-To")) or _ID.findall(_ids(mail, "References"))[-1:]
    return storable(refs[0]) if refs else ""


def _is_ours(message_id: str) -> bool:
    return _OURS.fullmatch(message_id) is not None


def _ids(mail: Mail, name: str) -> str:
    """A header with ids; some programs encode long ones as if they were words."""
    text = _plain(mail, name)
    return _decoded(text) if "=?" in text else text


def _plain(mail: Mail, name: str) -> str:
    return str(mail.get(name, "") or "")[:20_000]


def _delivery(mail: Mail, raw: bytes, sender: str, message_id: str) -> DeliveryId:
    """The same for each copy of a mail, wherever and however often it lies in the mailbox."""
    facts = [message_id, sender, _plain(mail, "Date")]
    if not message_id:
        facts += [_plain(mail, "Subject"), hashlib.sha256(raw.partition(b"\r\n\r\n")[2]).hexdigest()]
    digested = "\n".join(facts).encode(errors="replace")
    return DeliveryId(f"mail:{hashlib.sha256(digested).hexdigest()[:40]}")


# --- reports ---


def _bounce(mail: Mail) -> Bounce | None:
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
            status = next((block for block in inner[1:] if isinstance(block, Message)), None)
        elif kind == "message/rfc822" and isinstance(inner, list) and inner:
            name = _sent_id(inner[0]) if isinstance(inner[0], Message) else ""
        elif kind == "text/rfc822-headers" and isinstance(inner, str):
            name = _sent_id(HeaderParser().parsestr(inner[:64_000]))
    if not name or status is None:
        return None
    return Bounce(
        id=name,
        to=_reported(status, "Final-Recipient") or _reported(status, "Original-Recipient"),
        status=_reported(status, "Status"),
        why=_reported(status, "Diagnostic-Code"),
    )


def _sent_id(mail: Mail) -> str:
    """The id that we gave a mail, also if a server on its way gave it another."""
    ids = (_OURS.search(str(mail.get(name, ""))) for name in ("Message-ID", *ORIGINAL_IDS))
    return next((ours[0] for ours in ids if ours), "")


def _reported(block: Mail, name: str) -> str:
    """A field without the kind of address or server that stands before it."""
    text = str(block.get(name, ""))
    return one_line(showable(text.partition(";")[2] or text).strip(), 160)


# --- who may be answered ---


def machine_made(mail: Mail, sender: str) -> str:
    """Why a mail was not written by a person, so that nobody must answer it; empty if it may have been."""
    auto = header(mail, "Auto-Submitted").lower().partition(";")[0].strip()
    if auto and auto != "no":
        return f"it was sent by a machine (Auto-Submitted: {one_line(auto, 40)})"
    precedence = header(mail, "Precedence").lower()
    if precedence in ("bulk", "junk", "list", "auto_reply"):
        return f"it went to many (Precedence: {precedence})"
    for name in ("List-Id", "List-Unsubscribe", "List-Post", "List-Help", "Feedback-ID"):
        if name in mail:
            return f"it came through a list ({name})"
    for name in ("X-Autoreply", "X-Autorespond", "X-Auto-Reply-From", "X-Loop", "X-Failed-Recipients"):
        if name in mail:
            return f"it was sent by a machine ({name})"
    wishes = {wish.strip().lower() for wish in header(mail, "X-Auto-Response-Suppress").split(",")}
    if wishes & {"all", "autoreply", "oof"}:
        return "it wants no answer (X-Auto-Response-Suppress)"
    if "Return-Path" in mail and header(mail, "Return-Path").strip() in ("<>", ""):
        return "it is a report about a mail (no return path)"
    if _quietly(mail.get_content_type, "") == "multipart/report":
        return "it is a report about a mail"
    if _MACHINES.fullmatch(sender.partition("@")[0]):
        return "its sender is a machine"
    if _quietly(lambda: _is_calendars(mail), False):
        return "a calendar sent it (an invitation, or an answer to one)"
    return ""


def _is_calendars(part: Mail, depth: int = 3) -> bool:
    """What is to be done with an event is for a calendar; a file with one is for who reads the mail."""
    kind, inner = part.get_content_type(), part.get_payload()
    if kind.startswith("multipart/") and isinstance(inner, list) and depth:
        return any(_is_calendars(child, depth - 1) for child in inner[:10] if isinstance(child, Message))
    meant = _parameter(part, "method") not in ("", "publish")
    return meant and kind == "text/calendar" and not part.get_filename()


def proof_found(heads: Sequence[bytes], me: EmailIdentity) -> Finding:
    """What the settings make of mails that are there already: whether anybody could be heard."""
    mails = [(mail, _quietly(partial(_sender, mail), ("", ""))[0]) for mail in map(parse_mail, heads)]
    return me.proof.found([(mail, sender) for mail, sender in mails if sender and sender != me.address])


# --- what is in it ---


class _Body:
    """Goes through the parts of a mail once, in order, and never too deep."""

    def __init__(self, name_file: Callable[[int], str]) -> None:
        self.files: list[Attachment] = []
        self.parts: list[Mail | bytes] = []
        """The parts, or the bytes of unpacked files, that `files` stand for."""
        self._name_file = name_file
        self._left = _MOST_PARTS

    def gather(self, part: Mail, depth: int) -> tuple[str, bool]:
        """The text of a part, and whether it was written as plain text."""
        self._left -= 1
        if self._left < 0 or depth > _DEEPEST:
            return "", False
        kind = _quietly(part.get_content_type, "text/plain")
        payload = part.get_payload()
        if kind.startswith("multipart/") and isinstance(payload, list):
            return self._gather_many(kind, payload, depth)
        disposition = _quietly(part.get_content_disposition, None)
        name = _quietly(lambda: _decoded(part.get_filename("") or ""), "")
        if kind in ("text/plain", "text/html") and disposition != "attachment" and not name:
            return _text(part, kind), kind == "text/plain"
        if kind.startswith("multipart/"):
            # It says that it has parts, and has none: what is there is text.
            return _text(part, "text/plain"), True
        wrapped = unpack(_bytes(part)) if kind in _WRAPPINGS or name.lower() == "winmail.dat" else []
        for inner, data in wrapped:
            mime = guess_type(inner)[0] or "application/octet-stream"
            self._add(data, mime, inner)
        if not wrapped and kind not in _SIGNATURES:
            self._add(part, kind, name)
        return "", False

    def _gather_many(self, kind: str, payload: Sequence[object], depth: int) -> tuple[str, bool]:
        children = [
            self.gather(child, depth + 1) for child in payload[:_MOST_PARTS] if isinstance(child, Message)
        ]
        if kind == "multipart/alternative":
            filled = [child for child in children if child[0].strip()]
            return next((child for child in filled if child[1]), filled[-1] if filled else ("", False))
        return "\n\n".join(text for text, _ in children if text.strip()), any(plain for _, plain in children)

    def _add(self, part: Mail | bytes, kind: str, name: str) -> None:
        if len(self.files) >= _MOST_FILES:
            return
        name = one_line(name.replace("\\", "/").rpartition("/")[2], 200) or (_NAMELESS.get(kind, ""))
        self.parts.append(part)
        self.files.append(
            Attachment(
                kind=MediaKind.FILE if kind.startswith("image/svg") else media_kind(kind),
                ref=storable(self._name_file(len(self.files))),
                name=storable(name) or None,
                mime=storable(kind),
            )
        )


def file_in(raw: bytes, number: int) -> bytes | None:
    """The bytes of the file with this number in a mail; None if there is none."""
    try:
        body = _Body(str)
        body.gather(parse_mail(raw), 0)
        if number >= len(body.parts):
            return None
        part = body.parts[number]
        if isinstance(part, bytes):
            return part
        inner = part.get_payload()
        if isinstance(inner, list):
            return b"\n".join(message.as_bytes() for message in inner if isinstance(message, Message))
        return _bytes(part)
    except _BAD:
        return None


def _bytes(part: Mail) -> bytes:
    try:
        data = part.get_payload(decode=True)
    except _BAD:
        data = b""
    return data if isinstance(data, bytes) else b""


def _text(part: Mail, kind: str) -> str:
    charset, data = _quietly(part.get_content_charset, None), _bytes(part)
    if kind == "text/html" and not charset:
        charset = words.charset_in_page(data)
    text = decode(data, charset).replace("\r\n", "\n").replace("\r", "\n")
    if kind == "text/html":
        return words.html_to_text(text[: LONGEST_TEXT * 5])
    if _parameter(part, "format") == "flowed":
        return words.unflowed(text, delete_space=_parameter(part, "delsp") == "yes")
    return text


def _parameter(part: Mail, name: str) -> str:
    return _quietly(lambda: str(part.get_param(name, "") or "").lower(), "")


def _words(text: str, sender: Sequence[str], *, reply: bool) -> tuple[str, str]:
    if len(text) > LONGEST_TEXT:
        text = text[:LONGEST_TEXT] + "\n\n[The mail goes on; the rest was left out.]"
    text = "\n".join(line if line == "-- " else line.rstrip() for line in text.split("\n")).strip("\n")
    if not reply:
        return words.without_signature(text), ""
    new, quote = words.split_quote(text)
    if not quote:
        # Many programs put the signature below what they quote.
        new, quote = words.split_quote(words.without_signature(text))
    return words.without_closing(words.without_signature(new), sender), quote


def _with_subject(text: str, subject: str, *, first: bool) -> str:
    """The subject belongs to what was said, in the mail that begins a conversation; a command stays one."""
    if not first or not subject or text.lstrip().startswith("/") or subject in text:
        return text
    return f"Subject: {subject}\n\n{text}" if text.strip() else subject


def _quietly(ask: Callable[[], T], otherwise: T) -> T:
    try:
        return ask()
    except _BAD:
        return otherwise
