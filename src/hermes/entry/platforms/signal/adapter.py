"""The Signal adapter: one account, through a signal-cli that the operator runs and that holds its keys.

Signal keeps messages until signal-cli fetches them, and that fetches them while we listen. Nobody is told
that we stored one: it is handed over once. So each is written into the adapter's folder before it is
accepted, and accepted from there at the next start if that failed. What a connection to signal-cli loses on
its way is lost."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlsplit

from hermes.domain.chats.adapter import AdapterContext, Finding, good
from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Attachment, Body, MediaKind, Receipt
from hermes.domain.errors import NeedsLogin, Refused
from hermes.domain.ports.platform import Accept
from hermes.domain.ports.world import Sink
from hermes.domain.text import one_line
from hermes.domain.word import replace
from hermes.entry.kit.files import ANY_MIME, Unstored, file_name, read_file
from hermes.entry.platforms.signal import convert
from hermes.entry.platforms.signal.api import OutgoingSignal, SignalDaemon, SignalDialect, SignalRest
from hermes.entry.platforms.signal.convert import GROUP, SignalIdentity
from hermes.entry.platforms.signal.manifest import DIALECTS, MANIFEST

_PIECE = 1024 * 1024


class SignalAdapter:
    def __init__(self, context: AdapterContext) -> None:
        self._context = context
        self.capabilities = MANIFEST.capabilities
        self._number = context.setting("SIGNAL_ACCOUNT")
        if not convert.NUMBER.fullmatch(self._number):
            raise NeedsLogin("SIGNAL_ACCOUNT is no number; one has the country code, like +15551234567")
        base = context.setting("SIGNAL_HTTP_URL").rstrip("/")
        if urlsplit(base).scheme not in ("http", "https") or not urlsplit(base).hostname:
            raise NeedsLogin("SIGNAL_HTTP_URL is no address; one is like http://127.0.0.1:8080")
        dialect = context.setting("SIGNAL_DIALECT", DIALECTS[0])
        if dialect not in DIALECTS:
            raise NeedsLogin(f"SIGNAL_DIALECT is {one_line(dialect, 20)}: daemon or rest is wanted")
        made = SignalRest if dialect == "rest" else SignalDaemon
        self.api: SignalDialect = made(base, self._number)
        self._me = SignalIdentity(number=self._number, account=context.account)

    # --- what comes in ---

    async def run(self, accept: Accept, cursor: str | None) -> None:
        unstored = Unstored(self._context)

        async def store(event: Any) -> None:
            await accept(convert.to_inbounds(event, me), None)

        try:
            _, id = await self.api.look()
            me = replace(self._me, id=id)
            await unstored.store_left(store)
            async with contextlib.aclosing(self.api.events()) as events:
                async for event in events:
                    if event is None:
                        await accept((), None)
                    elif convert.to_inbounds(event, me):
                        await unstored.store(event, store)
        finally:
            await self.api.client.close()

    # --- what goes out ---

    async def send(self, to: Address, body: Body, *, key: str, reply_to: str | None) -> Receipt:
        files = [await self._encoded(file) for file in body.attachments]
        voice = bool(files) and all(file.kind is MediaKind.VOICE for file in body.attachments)
        message = OutgoingSignal(
            chat=_chat(to),
            text=body.text,
            files=files,
            voice=voice,
            quoted=convert.read_ref(reply_to or ""),
        )
        sent = await self.api.send(message)
        return Receipt(to=to, ref=convert.message_ref(sent, self._number))

    async def _encoded(self, file: Attachment) -> str:
        """A file as an address that holds it."""
        data = await read_file(self._context, file)
        encoded = (await asyncio.to_thread(base64.b64encode, data)).decode()
        return f"data:{file.mime or ANY_MIME};filename={quote(file_name(file))};base64,{encoded}"

    async def typing(self, to: Address) -> None:
        await self.api.sign(_chat(to))

    async def react(self, receipt: Receipt, emoji: str, *, instead: str = "") -> None:
        message = convert.read_ref(receipt.ref)
        if message is None:
            raise Refused("that is no message of Signal's")
        # One person has one reaction to a message: a new one takes the place of the old.
        await self.api.sign(_chat(receipt.to), reaction=(emoji or instead or "👍", *message, not emoji))

    async def fetch(self, ref: str, sink: Sink) -> None:
        id, _, chat = ref.partition(" ")
        if not chat:
            raise Refused("that is no file of Signal's")
        data = await self.api.file(id, chat)
        for start in range(0, len(data), _PIECE):
            await sink(data[start : start + _PIECE])

    # --- a look from outside ---

    async def check(self) -> Sequence[Finding]:
        try:
            version, _ = await self.api.look()
        finally:
            await self.api.client.close()
        findings = [good(f"{self.api.client.service} {version} has the account {self._number}.")]
        if not self.api.waits:
            lost = "What people write while the gateway is away is lost: the wrapper fetches it for nobody."
            findings.append(good(lost, "signal-cli's own daemon waits (SIGNAL_DIALECT=daemon)."))
        return findings


def _chat(to: Address) -> str:
    if to.chat.startswith(GROUP) or convert.PERSON.fullmatch(to.chat):
        return to.chat
    raise Refused(f"{to} is nobody: a number is wanted, like signal:+15551234567, or signal:group.<id>")
