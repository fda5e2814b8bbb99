"""The WhatsApp adapter: a personal account, as a linked device of it, through a bridge on Node.

The bridge keeps each message on disk until it is event that the gateway has stored it, so what a crash of
either leaves comes again. A message of ours has an id made of its key: the bridge sends none twice that
WhatsApp took, and WhatsApp's apps show one id once."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from hermes.domain.chats.adapter import AdapterContext, Finding, good, wrong
from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Attachment, Body, Receipt, transfer_seconds
from hermes.domain.errors import NeedsLogin, Refused, Unreachable, UserError
from hermes.domain.ports.platform import Accept
from hermes.domain.ports.world import Sink
from hermes.entry.kit.files import file_name, read_file
from hermes.entry.kit.payload import Recent, as_dict, as_text
from hermes.entry.platforms.whatsapp import convert, program
from hermes.entry.platforms.whatsapp.api import DEVICE, LINK, TRANSFER, Bridge
from hermes.entry.platforms.whatsapp.convert import LinkedDevice
from hermes.entry.platforms.whatsapp.manifest import MANIFEST, MODES, RISK

log = logging.getLogger("hermes.whatsapp")
_ANSWER_SECONDS, _CONNECT_SECONDS = 50.0, 40.0
_PIECE = 256 * 1024
_SELF_PREFIX = "*Hermes*\n"
_MOST_TEXTS = 1_000


class WhatsAppAdapter:
    capabilities = MANIFEST.capabilities

    def __init__(self, context: AdapterContext) -> None:
        self._context = context
        if not context.is_on("WHATSAPP_ENABLED") and context.settings.enabled is not True:
            raise NeedsLogin(f"WHATSAPP_ENABLED is not true. {RISK}")
        self._mode = context.setting("WHATSAPP_MODE", MODES[0]).lower()
        if self._mode not in MODES:
            raise NeedsLogin(f"WHATSAPP_MODE can only be {' or '.join(MODES)}")
        if context.folder is None:
            raise NeedsLogin("WhatsApp needs a folder of its own in the home")
        self._folder = context.folder
        usual = _SELF_PREFIX if self._mode == MODES[0] else ""
        said = context.setting("WHATSAPP_REPLY_PREFIX", usual)
        self._prefix = "" if said.lower() == "none" else said
        self.answer_seconds = _ANSWER_SECONDS
        self._bridge: Bridge | None = None
        self._settled = asyncio.Event()
        """It is connected, or has ended."""
        self._me = LinkedDevice(account=context.account, self_chat=self._mode == MODES[0])
        self._texts: Recent[str, str] = Recent(_MOST_TEXTS)
        """Words of messages that may be quoted, by their `ref`."""

    async def make_bridge(self) -> Bridge:
        node = await program.find_node(self._context.setting("WHATSAPP_NODE"))
        place = await asyncio.to_thread(program.program_in, program.place_of(self._folder))
        return Bridge(node, place, self._folder)

    # --- what comes in ---

    async def run(self, accept: Accept, cursor: str | None) -> None:
        try:
            self._bridge = bridge = await self.make_bridge()
            await bridge.start()
            async for event in bridge.events():
                match event["event"]:
                    case "me":
                        self._learn_own(event)
                    case "open":
                        self._learn_own(event)
                        self._settled.set()
                        await accept((), None)
                    case "alive":
                        await accept((), None)
                    case "message":
                        await self._take(bridge, event, accept)
        finally:
            self._settled.set()
            if self._bridge is not None:
                await self._bridge.close()

    def _learn_own(self, event: dict[str, Any]) -> None:
        phone, lid = convert.person(as_text(event.get("id"))), convert.person(as_text(event.get("lid")))
        self._me = LinkedDevice(
            phone=phone, lid=lid, account=self._context.account, self_chat=self._me.self_chat
        )

    async def _take(self, bridge: Bridge, event: dict[str, Any], accept: Accept) -> None:
        """Store a message, and let the bridge forget it then."""
        content = as_dict(event.get("message"))
        items = convert.to_inbounds(content, self._me)
        for item in items:
            if item.ref is not None and item.text:
                self._texts[item.ref] = item.text
        await accept(items, None)
        bridge.tell({"do": "stored", "names": [event.get("name")]})
        if items and self._context.is_on("WHATSAPP_SEND_READ_RECEIPTS"):
            bridge.tell({"do": "read", "keys": [content["key"]]})

    # --- what goes out ---

    async def _call(self, name: str, seconds: float = 0.0, **asked: Any) -> dict[str, Any]:
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await self._settled.wait()
        except TimeoutError:
            raise Unreachable("WhatsApp is not connected") from None
        if self._bridge is None:
            raise Unreachable("WhatsApp is not connected")
        return await self._bridge.call(name, self.answer_seconds + seconds, **asked)

    async def send(self, to: Address, body: Body, *, key: str, reply_to: str | None) -> Receipt:
        chat, number = convert.jid_of(to), hashlib.sha256(f"{to}\n{key}".encode()).hexdigest()[:18].upper()
        text = f"{self._prefix}{body.text}" if body.text else ""
        asked: dict[str, Any] = {"to": chat, "message": f"3EB0{number}", "text": text}
        if (quoted := convert.key_of(reply_to or "", chat)) is not None:
            asked["quote"] = {"key": quoted, "text": self._texts.get(reply_to or "", "")}
        if not body.attachments:
            await self._call("send", **asked)
        else:
            await self._send_file(asked, body.attachments[0])
        receipt = Receipt(to=to, ref=f"3EB0{number}@{convert.MINE}")
        self._texts[receipt.ref] = body.text
        return receipt

    async def _send_file(self, asked: dict[str, Any], file: Attachment) -> None:
        data = await read_file(self._context, file)
        path = self._transfer()
        await asyncio.to_thread(_write, path, data)
        about = {"kind": file.kind.value, "path": str(path), "mime": file.mime, "name": file_name(file)}
        try:
            await self._call("send", transfer_seconds([file]), file=about, **asked)
        finally:
            path.unlink(missing_ok=True)

    def _transfer(self) -> Path:
        folder = self._folder / TRANSFER
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder / secrets.token_hex(16)

    async def edit(self, receipt: Receipt, body: Body) -> None:
        id, _ = convert.read_ref(receipt.ref)
        text = f"{self._prefix}{body.text}"
        await self._call("edit", to=convert.jid_of(receipt.to), target=id, text=text)

    async def delete(self, receipt: Receipt) -> None:
        id, _ = convert.read_ref(receipt.ref)
        await self._call("delete", to=convert.jid_of(receipt.to), target=id)

    async def react(self, receipt: Receipt, emoji: str, *, instead: str = "") -> None:
        """One reaction of ours is on a message at a time, so another takes its place by itself."""
        chat = convert.jid_of(receipt.to)
        if (key := convert.key_of(receipt.ref, chat)) is None:
            raise Refused("that is no message of WhatsApp's")
        await self._call("react", to=chat, key=key, emoji=emoji)

    async def typing(self, to: Address) -> None:
        await self._call("typing", to=convert.jid_of(to))

    async def fetch(self, ref: str, sink: Sink) -> None:
        message, path = convert.file_message(ref), self._transfer()
        try:
            await self._call("fetch", 600.0, message=message, path=str(path))
            with await asyncio.to_thread(path.open, "rb") as file:
                while piece := await asyncio.to_thread(file.read, _PIECE):
                    await sink(piece)
        finally:
            path.unlink(missing_ok=True)

    # --- a look from outside ---

    async def check(self) -> Sequence[Finding]:
        """What can be seen without connecting: a second connection would take the running gateway's place."""
        try:
            await self.make_bridge()
        except UserError as error:
            return [wrong(error.message, error.hint)]
        found = [good("Node and the bridge are installed.")]
        linked = (self._folder / DEVICE).is_file()
        found.append(
            good("A device is linked.") if linked else wrong("No device is linked.", f"To link one, {LINK}.")
        )
        return [*found, good(f"Remember the risk: {RISK}.")]


def _write(path: Path, data: bytes) -> None:
    with suppress(FileNotFoundError):
        path.unlink()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
