"""A fake platform: the adapter of the `World`'s chat service, in kinds that differ in what they can do."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Protocol

from hermes.domain.chats.address import Address, Source, SourceKind, read_platform
from hermes.domain.chats.capabilities import Capabilities, Flavour, Grade, MediaLimit, MenuEntry, MenuLimits
from hermes.domain.chats.message import (
    Attachment,
    Body,
    Inbound,
    InboundKind,
    MediaKind,
    Receipt,
    ReplyTo,
    deletion_of,
)
from hermes.domain.ids import DeliveryId
from hermes.domain.ports.platform import Accept
from hermes.domain.ports.world import Sink
from hermes.domain.word import replace
from hermes.testing.world import DOWNLOADS, INSIDE, Update

MEDIA = {kind: MediaLimit() for kind in (MediaKind.IMAGE, MediaKind.AUDIO, MediaKind.VOICE, MediaKind.FILE)}
EDITS = Capabilities(
    flavour=Flavour.COMMONMARK,
    edit_interval=0.0,
    deletes=True,
    history=True,
    buttons=Grade.FULL,
    threads=Grade.FULL,
    media=MEDIA,
    fetches=True,
    menu=MenuLimits(),
)
PLAIN = Capabilities(flavour=Flavour.PLAIN)
KEYED = Capabilities(
    flavour=Flavour.PLAIN, dedupe_seconds=86_400.0, media={MediaKind.FILE: MediaLimit(max_bytes=1000)}
)
FORGETFUL = replace(EDITS, history=False)
"""Messages can be changed by whoever has their receipt, and not be found without."""
KINDS = {"edits": EDITS, "forgetful": FORGETFUL, "plain": PLAIN, "keyed": KEYED}


class ChatService(Protocol):
    """What the adapter calls: the world itself, or the world behind a socket."""

    async def poll(self, after: int, limit: int = 100) -> Sequence[Update]: ...

    async def ack(self, upto: int) -> None: ...

    async def send(
        self,
        chat: str,
        text: str,
        key: str,
        buttons: list[str] | None = None,
        reply_to: str | None = None,
        files: list[str] | None = None,
    ) -> str: ...


class FileService(ChatService, Protocol):
    """A service that hands out the files people send."""

    async def download(self, ref: str, part: int = 0) -> str: ...


class EditableService(FileService, Protocol):
    """A service that can also change and look up what it has."""

    async def edit(self, ref: str, text: str) -> None: ...

    async def delete(self, ref: str) -> None: ...

    async def find(self, chat: str, key: str) -> str | None: ...

    async def open_thread(self, chat: str, name: str) -> str: ...

    async def set_menu(self, names: list[str]) -> None: ...


class PlainFake:
    """Sends, and nothing else."""

    def __init__(self, service: ChatService, capabilities: Capabilities = PLAIN, name: str = "fake") -> None:
        self._service = service
        self._capabilities = capabilities
        self._name = name

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    async def run(self, accept: Accept, cursor: str | None) -> None:
        after = int(cursor or 0)
        if after:
            # What is stored was accepted, even if we died before we could say so.
            await self._service.ack(after)
        while True:
            news = await self._service.poll(after)
            after = news[-1].seq
            await accept([to_inbound(update, self._name) for update in news], str(after))
            await self._service.ack(after)

    async def send(self, to: Address, body: Body, *, key: str, reply_to: str | None) -> Receipt:
        buttons = [button.value for button in body.buttons]
        files = [f"{file.kind.value}: {file.name}" for file in body.attachments]
        place = to.chat if to.thread is None else f"{to.chat}{INSIDE}{to.thread}"
        ref = await self._service.send(place, body.text, key, buttons, reply_to, files)
        return Receipt(to=to, ref=ref)


class ForgetfulFake(PlainFake):
    """Edits, deletes, gets files, opens threads, has a menu; what it sent it cannot look back at."""

    def __init__(
        self, service: EditableService, capabilities: Capabilities = EDITS, name: str = "fake"
    ) -> None:
        super().__init__(service, capabilities, name)
        self._editable = service

    async def edit(self, receipt: Receipt, body: Body) -> None:
        await self._editable.edit(receipt.ref, body.text)

    async def delete(self, receipt: Receipt) -> None:
        await self._editable.delete(receipt.ref)

    async def fetch(self, ref: str, sink: Sink) -> None:
        for part in range(DOWNLOADS):
            await sink(b64decode(await self._editable.download(ref, part)))

    async def open_thread(self, parent: Address, name: str) -> Address:
        return replace(parent, thread=await self._editable.open_thread(parent.chat, name))

    async def show_menu(self, entries: Sequence[MenuEntry]) -> None:
        await self._editable.set_menu([entry.name for entry in entries])


class EditingFake(ForgetfulFake):
    """The same, and can look back at what it sent."""

    async def find_sent(self, to: Address, key: str) -> Receipt | None:
        ref = await self._editable.find(to.chat, key)
        return None if ref is None else Receipt(to=to, ref=ref)


def fake_platform(kind: str, service: EditableService, name: str = "fake") -> PlainFake:
    capabilities = KINDS[kind]
    editing = EditingFake if capabilities.history else ForgetfulFake
    make = editing if capabilities.edits else PlainFake
    return make(service, capabilities, name)


def to_inbound(update: Update, platform: str = "fake") -> Inbound:
    service, account = read_platform(platform)
    address = Address(platform=service, account=account, chat=update.chat, thread=update.thread)
    return Inbound(
        delivery=deletion_of(update.chat, update.deletes) if update.deletes else DeliveryId(update.delivery),
        source=Source(
            address=address,
            kind=SourceKind(update.kind),
            user=update.user or None,
            user_name=update.name or update.user or None,
            chat_name=update.chat_name,
            guild=update.guild,
        ),
        at=datetime.fromtimestamp(update.at, UTC),
        what=_what(update),
        ref=update.edits or update.deletes or update.delivery,
        text=update.text,
        reply_to=_reply_to(update),
        attachments=tuple(
            Attachment(
                kind=MediaKind(file.kind), ref=file.ref, name=file.name, mime=file.mime, size=file.size
            )
            for file in update.uploads
        ),
        button=update.button,
        mentions_me=update.mentions_us,
        group=update.group,
    )


def _reply_to(update: Update) -> ReplyTo | None:
    if update.reply_to is None and not update.reply_to_us:
        return None
    return ReplyTo(
        ref=update.reply_to or "x",
        mine=update.reply_to_us,
        text=update.reply_text,
        author=update.reply_author,
    )


def _what(update: Update) -> InboundKind:
    if update.button is not None:
        return InboundKind.BUTTON
    if update.moves:
        return InboundKind.MOVED
    if update.deletes is not None:
        return InboundKind.DELETED
    return InboundKind.EDIT if update.edits else InboundKind.MESSAGE
