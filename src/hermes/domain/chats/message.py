"""Messages in and out, as every platform sees them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from hermes.domain.chats.address import Address, Source
from hermes.domain.ids import DeliveryId
from hermes.domain.word import replace


class InboundKind(StrEnum):
    MESSAGE = "message"
    EDIT = "edit"
    DELETED = "deleted"
    """The message with this `ref` is gone; by whom is the platform's affair, and may not be told."""
    BUTTON = "button"
    REACTION = "reaction"
    JOINED = "joined"
    LEFT = "left"
    MOVED = "moved"
    """The chat has another id from now on, which is the text."""
    UNDELIVERED = "undelivered"
    """The platform took our message, whose key is `ref`, and now says that it never arrived, and why."""


class MediaKind(StrEnum):
    IMAGE = "image"
    VOICE = "voice"
    AUDIO = "audio"
    VIDEO = "video"
    FILE = "file"
    STICKER = "sticker"


SHOWN_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
MOST_SHOWN = 5_000_000
"""What models are shown of pictures; others are files to them."""


def media_kind(mime: str) -> MediaKind:
    """The kind of a file that is known by its type alone."""
    family = mime.partition("/")[0].strip().lower()
    kinds = {"image": MediaKind.IMAGE, "audio": MediaKind.AUDIO, "video": MediaKind.VIDEO}
    return kinds.get(family, MediaKind.FILE)


class Attachment(Struct, frozen=True, kw_only=True):
    """A file that came with a message or goes with one. `ref` is the platform's own until fetched, and
    what is told of it is only a claim while it is `pending`. Afterwards `sha256` names it in the media
    store and `path` is where it lies, or `problem` says why it could not be fetched. `text` are its words,
    if they are few enough to be told or were heard in it; `note` is what else the model has to know of it.
    A tool made one that is `outgoing`, and it goes to the person with the answer."""

    kind: MediaKind
    ref: str
    name: str | None = None
    mime: str | None = None
    size: int | None = None
    sha256: str | None = None
    problem: str | None = None
    pending: bool = False
    path: str | None = None
    text: str = ""
    note: str = ""
    outgoing: bool = False


SLOWEST_BYTES = 32 * 1024
"""So many bytes of a file in a second are the fewest that are waited for."""
_LARGE = 25 * 1024 * 1024


def transfer_seconds(files: Iterable[Attachment]) -> float:
    """How long these files may be on their way, beyond what a message without files may take."""
    return sum(_LARGE if file.size is None else file.size for file in files) / SLOWEST_BYTES


class ReplyTo(Struct, frozen=True, kw_only=True):
    ref: str
    text: str = ""
    author: str | None = None
    mine: bool = False


class Inbound(Struct, frozen=True, kw_only=True):
    """One happening on a platform. `delivery` is its dedupe key within the account; `ref` is what
    one replies to; `group` joins the pieces of an album; `button` carries a pressed button's value;
    `mentions_others` says that it calls somebody else by name: another bot, or a person where that counts."""

    delivery: DeliveryId
    source: Source
    at: datetime
    what: InboundKind = InboundKind.MESSAGE
    ref: str | None = None
    text: str = ""
    attachments: tuple[Attachment, ...] = ()
    reply_to: ReplyTo | None = None
    mentions_me: bool = False
    mentions_others: bool = False
    group: str | None = None
    button: str | None = None


def deletes(deletion: Inbound, message: Inbound) -> bool:
    """Whether this is the deletion of that message; it does not always say in which thread that was."""
    there, here = deletion.source.address, message.source.address
    same_chat = (there.credential, there.chat) == (here.credential, here.chat)
    return (
        same_chat
        and deletion.what is InboundKind.DELETED
        and message.what is InboundKind.MESSAGE
        and deletion.ref == message.ref
    )


def deletion_of(chat: str, ref: str) -> DeliveryId:
    """The delivery under which a message's deletion comes; so it is found by the message that is gone."""
    return DeliveryId(f"deleted:{chat}:{ref}")


def deletion(source: Source, ref: str, at: datetime) -> Inbound:
    """A message is gone, by whoever's hand; one happening, however often it is told."""
    delivery = deletion_of(source.address.chat, ref)
    return Inbound(delivery=delivery, source=source, at=at, what=InboundKind.DELETED, ref=ref)


class Button(Struct, frozen=True, kw_only=True):
    label: str
    value: str


class PrintedText(Struct, frozen=True, kw_only=True):
    """A text in the markup of a platform (a `Flavour`), cut to fit into `limit`."""

    text: str
    flavour: str
    limit: int


class Body(Struct, frozen=True, kw_only=True):
    """What is said: markdown text, files, buttons. A `fleeting` one (a code) is forgotten once it is sent.
    One that `replaces` an earlier message (its key) is written over it and never sent by itself. To one that
    is `growing` more will be added by edits."""

    text: str = ""
    attachments: tuple[Attachment, ...] = ()
    buttons: tuple[Button, ...] = ()
    fleeting: bool = False
    replaces: str | None = None
    growing: bool = False
    printed: PrintedText | None = None
    """The text as it was printed for its platform when it was cut; None if nobody has printed it yet."""

    def with_text(self, text: str) -> Body:
        return replace(self, text=text, printed=None)


class Receipt(Struct, frozen=True, kw_only=True):
    """What the platform returned for a message: enough to edit, delete or answer it."""

    to: Address
    ref: str
