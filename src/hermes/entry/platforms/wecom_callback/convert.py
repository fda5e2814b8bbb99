"""Opens WeCom's encrypted calls and converts their XML to `Inbound`s. Pure functions; they return nothing for
what cannot be read."""

from __future__ import annotations

import base64
import hashlib
import re
from xml.etree import ElementTree

from msgspec import Struct

from hermes.domain.chats.address import DEFAULT_ACCOUNT, Address, Source, SourceKind
from hermes.domain.chats.message import Attachment, Inbound, MediaKind
from hermes.domain.errors import Refused
from hermes.domain.ids import DeliveryId
from hermes.domain.text import one_line, storable
from hermes.entry.kit.crypto import cbc_opened
from hermes.entry.kit.listener import is_secret
from hermes.entry.kit.payload import attachment, if_malformed, inbounds, moment, shaped

NAME = "wecom_callback"
PERSON = re.compile(r"[A-Za-z0-9_.@-]{1,64}")
AES_KEY = re.compile(r"[A-Za-z0-9+/]{43}")
_NUMBER = re.compile(r"[0-9]{1,32}")
_MEDIA_ID = re.compile(r"[!-~]{1,256}")
_SEALED = re.compile(rb"<Encrypt>\s*(?:<!\[CDATA\[)?([A-Za-z0-9+/=]+)(?:\]\]>)?\s*</Encrypt>")
_QUOTED = re.compile(r"<!\[CDATA\[.*?\]\]>", re.DOTALL)
_DECLARES = re.compile(r"<[!?]")
_BLOCK = 32
_KINDS = {
    "image": MediaKind.IMAGE,
    "voice": MediaKind.VOICE,
    "video": MediaKind.VIDEO,
    "file": MediaKind.FILE,
}


class WeComSecrets(Struct, frozen=True, kw_only=True):
    """What only WeCom and the app know, and whose app it is."""

    token: str
    aes_key: str
    corp: str

    @property
    def key(self) -> bytes:
        return base64.b64decode(self.aes_key + "=")


def signature(token: str, stamp: str, nonce: str, sealed: str) -> str:
    return hashlib.sha1("".join(sorted((token, stamp, nonce, sealed))).encode()).hexdigest()


def sealed_in(raw: bytes) -> str:
    """The encrypted part of a call; read without a parser, for nobody has vouched for it yet."""
    match = _SEALED.search(raw)
    return "" if match is None else match[1].decode()


@if_malformed(None)
def opened(secrets: WeComSecrets, given: str, stamp: str, nonce: str, sealed: str) -> bytes | None:
    """What a call says; None if it is not WeCom's, or for another organisation."""
    if not is_secret(given, signature(secrets.token, stamp, nonce, sealed)):
        return None
    plain = cbc_opened(secrets.key, secrets.key[:16], base64.b64decode(sealed, validate=True), _BLOCK)
    size = int.from_bytes(plain[16:20], "big")
    if plain[20 + size :] != secrets.corp.encode():
        return None
    return plain[20 : 20 + size]


@inbounds
def to_inbounds(raw: bytes | str, account: str = DEFAULT_ACCOUNT) -> Inbound | None:
    text = raw.decode() if isinstance(raw, bytes) else raw
    if _DECLARES.search(_QUOTED.sub("", text)):
        return None  # a document type, which WeCom never sends
    fields = _fields(text)
    number, user = shaped(fields["MsgId"], _NUMBER), shaped(fields["FromUserName"], PERSON)
    words, files = _spoken(fields)
    if not (words or files):
        return None
    return Inbound(
        delivery=DeliveryId(f"message:{number}"),
        source=Source(
            address=Address(platform=NAME, account=account, chat=user), kind=SourceKind.PRIVATE, user=user
        ),
        at=moment(int(fields["CreateTime"])),
        ref=number,
        text=words,
        attachments=files,
    )


def _fields(text: str) -> dict[str, str]:
    try:
        return {field.tag: field.text or "" for field in ElementTree.fromstring(text)}
    except ElementTree.ParseError as error:
        raise ValueError("no XML") from error


def _spoken(fields: dict[str, str]) -> tuple[str, tuple[Attachment, ...]]:
    kind = fields["MsgType"]
    if kind == "text":
        return storable(fields["Content"]), ()
    if kind == "link":
        return storable(f"{fields.get('Title', '')}\n{fields.get('Url', '')}".strip()), ()
    if kind == "location":
        where = f"{fields.get('Label', '')} ({fields.get('Location_X', '')}, {fields.get('Location_Y', '')})"
        return storable(where), ()
    if kind in _KINDS:
        media, name = shaped(fields["MediaId"], _MEDIA_ID), fields.get("FileName")
        return "", (attachment(media, _KINDS[kind], name, None, None),)
    return "", ()


def place(to: Address) -> str:
    if not PERSON.fullmatch(to.chat):
        raise Refused(f"{one_line(to.chat, 60)} is no person of WeCom's")
    return to.chat


def media_place(ref: str) -> str:
    if not _MEDIA_ID.fullmatch(ref):
        raise Refused("that is no file of WeCom's")
    return ref
