"""The outside world of a test: a chat service with its people, and a log of everything that reached it.

It lives outside the process under test (in the test itself, or behind a socket), so it remembers what a
killed process did: every delivery, acknowledgement, effect and send, in the order it happened."""

from __future__ import annotations

import asyncio
import time
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from hermes.domain.errors import HermesError, Refused
from hermes.domain.word import replace

DOWNLOADS = 4
"""In how many parts the service hands out a file."""

INSIDE = "/"
"""A thread is written as `chat/thread` where something is sent."""


class Deed(StrEnum):
    DELIVERED = "delivered"
    ACKED = "acked"
    EFFECT = "effect"
    SENT = "sent"
    OPENED = "opened"
    EDITED = "edited"
    DELETED = "deleted"
    FETCHED = "fetched"


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """One thing that happened; `n` is the world's own order."""

    n: int
    deed: Deed
    chat: str = ""
    key: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A file that a person sends. What is said of it is the sender's claim; `ref` leads to its bytes."""

    ref: str
    kind: str = "file"
    name: str | None = None
    mime: str | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """Something a person did. `delivery` stays the same when the service delivers it again."""

    seq: int
    delivery: str
    chat: str
    user: str
    text: str
    kind: str = "private"
    thread: str | None = None
    button: str | None = None
    edits: str | None = None
    """The delivery of the message that this is an edit of."""
    deletes: str | None = None
    """The delivery of the message that is gone now."""
    moves: bool = False
    """The chat has the text as its id from now on."""
    reply_to_us: bool = False
    group: str | None = None
    mentions_us: bool = False
    chat_name: str | None = None
    guild: str | None = None
    uploads: tuple[Upload, ...] = ()
    reply_to: str | None = None
    reply_text: str = ""
    reply_author: str | None = None
    name: str | None = None
    at: float = field(default_factory=time.time)
    """When it was sent, as the service tells it."""


@dataclass(slots=True, kw_only=True)
class Message:
    """A message as people see it now."""

    ref: str
    chat: str
    key: str
    text: str
    edits: int = 0
    deleted: bool = False
    buttons: tuple[str, ...] = ()
    reply_to: str | None = None
    files: tuple[str, ...] = ()
    thread: str | None = None

    @property
    def shown(self) -> str:
        return "\n".join([*([self.text] if self.text else []), *(f"📎 {file}" for file in self.files)])


@dataclass(slots=True, kw_only=True)
class World:
    """The chat service. `keyed` services drop a second message with the same key."""

    keyed: bool = False
    log: list[Logged] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)
    messages: dict[str, Message] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    holding: asyncio.Event | None = None
    """While it is not set, the second half of every file is still on its way."""
    menus: list[list[str]] = field(default_factory=list)
    trouble: Callable[[str, str], HermesError | None] | None = None
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _acked: int = 0
    _uploaded: int = 0

    # --- people ---

    def write(self, text: str, *, chat: str = "1", user: str = "u1", **more: object) -> Update:
        """A person writes; the service keeps the update until it is acknowledged."""
        seq = len(self.updates) + 1
        update = Update(seq=seq, delivery=f"d{seq}", chat=chat, user=user, text=text, **more)  # type: ignore[arg-type]
        self.updates.append(update)
        self._news.set()
        return update

    def photo(self, data: bytes, name: str = "photo.jpg", **claims: object) -> Upload:
        """A picture to be sent; `claims` are what the sender says of it."""
        return self.upload(data, name, kind="image", **claims)

    def upload(self, data: bytes, name: str | None = None, **claims: object) -> Upload:
        self._uploaded += 1
        ref = f"file{self._uploaded}"
        self.files[ref] = data
        return Upload(ref=ref, name=name, **claims)  # type: ignore[arg-type]

    def expire(self, upload: Upload) -> Upload:
        """The service no longer hands out this file."""
        del self.files[upload.ref]
        return upload

    def repeat(self, update: Update) -> None:
        """The service delivers something once more, as services do."""
        copy = replace(update, seq=len(self.updates) + 1)
        self.updates.append(copy)
        self._news.set()

    def seen(self, chat: str | None = None, thread: str | None = None) -> list[str]:
        """What people see now, in the order the messages first appeared."""
        return [
            message.shown
            for message in self.messages.values()
            if not message.deleted
            and (chat is None or message.chat == chat)
            and (thread is None or message.thread == thread)
        ]

    @property
    def all_acked(self) -> bool:
        return self._acked == len(self.updates)

    def did(self, deed: Deed) -> list[Logged]:
        return [entry for entry in self.log if entry.deed is deed]

    # --- the service's interface, as an adapter uses it ---

    async def poll(self, after: int, limit: int = 100) -> list[Update]:
        """Long poll: what came after `after`, at least one."""
        while not [update for update in self.updates[after:] if update.seq > after]:
            self._news.clear()
            await self._news.wait()
        news = self.updates[after : after + limit]
        for update in news:
            self._note(Deed.DELIVERED, chat=update.chat, key=update.delivery, text=update.text)
        return news

    async def ack(self, upto: int) -> None:
        for update in self.updates[self._acked : upto]:
            self._note(Deed.ACKED, chat=update.chat, key=update.delivery, text=update.text)
        self._acked = max(self._acked, upto)

    async def send(
        self,
        chat: str,
        text: str,
        key: str,
        buttons: list[str] | None = None,
        reply_to: str | None = None,
        files: list[str] | None = None,
    ) -> str:
        chat, _, thread = chat.partition(INSIDE)
        self._fail("send", chat)
        if self.keyed:
            for message in self.messages.values():
                if message.key == key:
                    return message.ref
        ref = f"r{len(self.messages) + 1}"
        self.messages[ref] = Message(
            ref=ref,
            chat=chat,
            key=key,
            text=text,
            buttons=tuple(buttons or ()),
            reply_to=reply_to,
            files=tuple(files or ()),
            thread=thread or None,
        )
        self._note(Deed.SENT, chat=chat, key=key, text=text)
        self._fail("sent", chat)
        return ref

    async def edit(self, ref: str, text: str) -> None:
        message = self.messages.get(ref)
        if message is None or message.deleted:
            raise Refused("message to edit not found")
        self._fail("edit", message.chat)
        message.text = text
        message.buttons = ()
        message.edits += 1
        self._note(Deed.EDITED, chat=message.chat, key=message.key, text=text)

    async def delete(self, ref: str) -> None:
        message = self.messages.get(ref)
        if message is None:
            raise Refused("message to delete not found")
        self._fail("delete", message.chat)
        message.deleted = True
        self._note(Deed.DELETED, chat=message.chat, key=message.key)

    async def find(self, chat: str, key: str) -> str | None:
        self._fail("find", chat)
        for message in self.messages.values():
            if message.chat == chat and message.key == key and not message.deleted:
                return message.ref
        return None

    async def download(self, ref: str, part: int = 0) -> str:
        """A quarter of a file, in base64."""
        self._fail("fetch", ref)
        data = self.files.get(ref)
        if data is None:
            raise Refused("the link has expired")
        if part == 0:
            self._note(Deed.FETCHED, key=ref)
        if part == DOWNLOADS // 2 and self.holding is not None:
            await self.holding.wait()
        size = -(-len(data) // DOWNLOADS)
        return b64encode(data[part * size : (part + 1) * size]).decode()

    async def open_thread(self, chat: str, name: str) -> str:
        self._fail("open", chat)
        thread = f"t{len(self.did(Deed.OPENED)) + 1}"
        self._note(Deed.OPENED, chat=chat, key=thread, text=name)
        self._fail("opened", chat)
        return thread

    async def set_menu(self, names: list[str]) -> None:
        self._fail("menu", "")
        self.menus.append(names)

    async def effect(self, name: str, key: str, token: str) -> None:
        """A tool did something to the world."""
        self._note(Deed.EFFECT, chat=name, key=key, text=token)

    def _note(self, deed: Deed, *, chat: str = "", key: str = "", text: str = "") -> None:
        self.log.append(Logged(n=len(self.log), deed=deed, chat=chat, key=key, text=text))

    def _fail(self, what: str, chat: str) -> None:
        error = None if self.trouble is None else self.trouble(what, chat)
        if error is not None:
            raise error
