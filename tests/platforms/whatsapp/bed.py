"""The bridge with a socket of ours as a testbed: the real Baileys and Node, up to where WhatsApp begins."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Inbound
from hermes.domain.word import replace
from hermes.entry.platforms.whatsapp import program
from hermes.entry.platforms.whatsapp.adapter import WhatsAppAdapter
from hermes.entry.platforms.whatsapp.api import Bridge
from hermes.entry.platforms.whatsapp.convert import LinkedDevice, to_inbounds
from hermes.entry.platforms.whatsapp.manifest import MANIFEST
from hermes.testing.platform_suite import Does, Fault, Shown
from hermes.testing.served import ServedBed
from tests.foreign.environments import ROOT, node
from tests.platforms.whatsapp.samples import MESSAGES
from tests.platforms.whatsapp.server import ANN, GROUP, ME, MY_LID, WhatsApp

FAKE = Path(__file__).with_name("fake_socket.mjs")
_KINDS = {Does.IMAGE: "image", Does.VOICE: "audio", Does.FILE: "document"}
SELF = LinkedDevice(phone=ME, lid=f"{MY_LID}@lid")


def bridge_place(root: Path) -> tuple[str, Path]:
    """Node, and the bridge as it stands in this checkout, with its packages."""
    program_, made = node("whatsapp-bridge", ROOT / "bridges" / "whatsapp")
    place = root / "cache" / "whatsapp-bridge"
    place.mkdir(parents=True)
    for name in program.SOURCES:
        shutil.copyfile(program.source() / name, place / name)
    (place / "node_modules").symlink_to(made / "node_modules")
    return str(program_), place


class WhatsAppBed(ServedBed):
    manifest = MANIFEST
    chat = Address(platform="whatsapp", chat=ANN)
    receives = frozenset(Does) - {Does.THREAD, Does.BUTTON}
    faults = frozenset(Fault) - {Fault.REVOKED}
    """A device that is unlinked ends the adapter: see `test_bridge.py`."""
    delay = 60.0
    """WhatsApp names no time; ours is a minute."""

    def __init__(self, *, full: bool = False) -> None:
        super().__init__(full=full)
        self.server = WhatsApp()
        self.server.chaos = lambda: self.chaos()
        self.root = Path()
        self._last: dict[str, Any] = {}

    @property
    def folder(self) -> Path:
        return self.root / "platforms" / "whatsapp"

    async def open(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="hermes-whatsapp-"))
        self.node, self.place = bridge_place(self.root)
        await super().open()
        self.folder.mkdir(parents=True)
        told = {"url": f"http://127.0.0.1:{self.server.port}", "place": str(self.place)}
        (self.folder / "fake.json").write_text(json.dumps(told))
        self.link()

    def link(self) -> None:
        """As if a person had scanned the code."""
        creds = json.dumps({"me": {"id": f"{ME}:7@s.whatsapp.net"}})
        (self.folder / "device.jsonl").write_text(json.dumps([["creds", creds]]) + "\n")

    async def close(self) -> None:
        await super().close()
        shutil.rmtree(self.root)

    def variables(self) -> dict[str, str]:
        return {"WHATSAPP_ENABLED": "true", "WHATSAPP_MODE": "bot"}

    def context(self) -> AdapterContext:
        return replace(super().context(), folder=self.folder)

    def connect(self) -> WhatsAppAdapter:
        adapter = WhatsAppAdapter(self.context())

        async def make() -> Bridge:
            return Bridge(self.node, FAKE, self.folder)

        adapter.make_bridge = make  # type: ignore[method-assign]
        self.patient(lambda seconds: setattr(adapter, "answer_seconds", seconds))
        return adapter

    def chats(self, count: int) -> list[Address]:
        return [Address(platform="whatsapp", chat=f"1555200{number:04}") for number in range(count)]

    async def do(self, does: Does, text: str, *, chat: Address | None = None, on: str = "") -> None:
        who, id = (chat or self.chat).chat, on.partition("@")[0]
        place: dict[str, Any] = {"chat": who}
        match does:
            case Does.REPLY:
                around = {"stanzaId": id, "participant": f"{ME}@s.whatsapp.net"}
                said: dict[str, Any] = {"extendedTextMessage": {"text": text, "contextInfo": around}}
            case Does.MENTION:
                place = {"chat": GROUP, "by": who}
                around = {"mentionedJid": [f"{MY_LID}@lid"]}
                words = f"@{MY_LID} {text}"
                said = {"extendedTextMessage": {"text": words, "contextInfo": around}}
            case Does.EDIT:
                key = {"remoteJid": "x@s.whatsapp.net", "fromMe": True, "id": id}
                said = {
                    "protocolMessage": {
                        "key": key,
                        "type": "MESSAGE_EDIT",
                        "editedMessage": {"conversation": text},
                    }
                }
                place = self._last
            case Does.DELETE:
                key = {"remoteJid": "x@s.whatsapp.net", "fromMe": True, "id": id}
                said = {"protocolMessage": {"key": key, "type": "REVOKE"}}
                place = self._last
            case Does.IMAGE | Does.VOICE | Does.FILE:
                kind = _KINDS[does]
                said = {f"{kind}Message": self.server.sealed(kind, self.content)}
                if does is Does.VOICE:
                    said["audioMessage"] |= {"ptt": True, "mimetype": "audio/ogg; codecs=opus"}
            case _:
                said = {"conversation": text}
        self._last = place
        self.server.say(said, **place)

    async def misdeliver(self, texts: Sequence[str]) -> None:
        """In another order than they were written, and some again."""
        up, self.server._sockets = self.server._sockets, set()
        ids = [self.server.say({"conversation": text}) for text in texts]
        self.server._sockets = up
        stanzas = {id: self.server.pending[id] for id in ids}
        random.Random(7).shuffle(ids)
        for id in (*ids, *ids[::3]):
            self.server.deliver(id, stanzas[id])

    def acknowledged(self) -> int:
        kept: dict[str, Any] = {}
        for line in (self.folder / "device.jsonl").read_text().splitlines():
            kept |= dict(json.loads(line))
        held = sum(1 for name, text in kept.items() if text and name.startswith(("in:", "stanza:")))
        return max(len(self.server.receipts) - held, 0)

    def shown(self, chat: Address | None = None) -> list[Shown]:
        return [
            Shown(
                ref=f"{one.id}@me",
                chat=one.jid.removesuffix("@s.whatsapp.net"),
                text=one.text,
                files=() if one.file is None else (one.file,),
                reply_to=one.quoted,
                edits=one.edits,
            )
            for one in list(self.server.sent)
            if chat is None or one.jid == f"{chat.chat}@s.whatsapp.net"
        ]

    def typed(self) -> int:
        return len(self.server.typing)

    def reactions(self) -> list[str]:
        return [emoji for emoji in self.server.reactions.values() if emoji]

    def samples(self) -> Sequence[Any]:
        return list(MESSAGES.values())

    def convert(self, payload: Any) -> Sequence[Inbound]:
        return to_inbounds(payload, SELF)
