"""WhatsApp as the tests' socket speaks to it: what people write is delivered again at each connection until
its receipt came, a message has one id however often it is sent, and files are encrypted as WhatsApp's are
(HKDF, AES-CBC, HMAC). The socket itself (`fake_socket.mjs`) has Baileys around it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import itertools
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from cryptography.hazmat.primitives import hashes, padding
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from hermes.domain.chats.message import MediaKind
from hermes.testing.platform_suite import Fault
from hermes.testing.served import Route, ServedFake

ME, MY_LID, ANN, GROUP = "15550009999", "99999000000001", "15551110001", "120363000000000001@g.us"
_INFO = {"image": "Image", "audio": "Audio", "document": "Document", "video": "Video", "sticker": "Image"}
_KINDS = {
    "imageMessage": MediaKind.IMAGE,
    "videoMessage": MediaKind.VIDEO,
    "audioMessage": MediaKind.AUDIO,
    "documentMessage": MediaKind.FILE,
    "stickerMessage": MediaKind.STICKER,
}


@dataclass
class SentWhatsApp:
    id: str
    jid: str
    text: str
    quoted: str | None = None
    file: tuple[MediaKind, bytes] | None = None
    edits: int = 0
    times: int = 1


def jid(phone: str) -> str:
    return phone if "@" in phone else f"{phone}@s.whatsapp.net"


@dataclass
class WhatsApp(ServedFake):
    sent: list[SentWhatsApp] = field(default_factory=list)
    reactions: dict[str, str] = field(default_factory=dict)
    typing: list[str] = field(default_factory=list)
    read: list[Any] = field(default_factory=list)
    receipts: set[str] = field(default_factory=set)
    pending: dict[str, dict[str, Any]] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    phones: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    proper: dict[str, str] = field(default_factory=dict)
    """Whom WhatsApp knows by another number than the one people write."""
    revision: int | None = None
    """Of its web client, if it tells that."""
    versions: list[list[int]] = field(default_factory=list)
    """Those that it was spoken to in."""
    admins: list[str] = field(default_factory=list)
    """Of the group."""
    unlinked: bool = False
    refused: int = 0
    """The code with which each connection is closed."""
    drops: bool = False
    """Each connection is let in, and then lost."""
    qrs: int = 0
    connections: int = 0
    _sockets: set[web.WebSocketResponse] = field(default_factory=set)
    _numbers: Any = field(default_factory=lambda: itertools.count(1))

    def routes(self) -> Iterable[Route]:
        yield "GET", "/ws", self._talk
        yield "POST", "/upload", self._upload
        yield "GET", "/v/{name}", self._download
        yield "GET", "/sw.js", self._client

    async def _upload(self, request: web.Request) -> web.Response:
        path = self.keep(await request.read())
        return web.json_response({"mediaUrl": f"https://mmg.whatsapp.net{path}", "directPath": path})

    async def _download(self, request: web.Request) -> web.Response:
        data = self.files.get(request.path)
        return web.Response(status=410) if data is None else web.Response(body=data)

    async def _client(self, request: web.Request) -> web.Response:
        if self.revision is None:
            return web.Response(status=404)
        return web.Response(text=f'self.x="{{\\"client_revision\\":{self.revision},\\"y\\":1}}"')

    def keep(self, data: bytes) -> str:
        path = f"/v/{hashlib.sha256(data).hexdigest()}"
        self.files[path] = data
        return path

    def sealed(self, kind: str, data: bytes) -> dict[str, Any]:
        """A file as a person's phone sends it."""
        key = hashlib.sha256(data).digest()
        hkdf = HKDF(
            algorithm=hashes.SHA256(), length=112, salt=None, info=f"WhatsApp {_INFO[kind]} Keys".encode()
        )
        keys = hkdf.derive(key)
        iv, cipher, mac = keys[:16], keys[16:48], keys[48:80]
        padder = padding.PKCS7(128).padder()
        seal = Cipher(algorithms.AES(cipher), modes.CBC(iv)).encryptor()
        sealed = seal.update(padder.update(data) + padder.finalize()) + seal.finalize()
        sealed += hmac.new(mac, iv + sealed, hashlib.sha256).digest()[:10]
        return {
            "url": "https://mmg.whatsapp.net",
            "directPath": self.keep(sealed),
            "mediaKey": base64.b64encode(key).decode(),
            "fileLength": len(data),
        }

    # --- the line ---

    async def _talk(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(max_msg_size=0)
        await socket.prepare(request)
        self._sockets.add(socket)
        try:
            async for frame in socket:
                await self._hear(request, socket, json.loads(frame.data))
        finally:
            self._sockets.discard(socket)
        return socket

    async def _hear(self, request: web.Request, socket: web.WebSocketResponse, told: dict[str, Any]) -> None:
        if "hello" in told:
            self.connections += 1
            self.versions.append(told["version"])
            me = {"id": f"{ME}:7@s.whatsapp.net", "lid": f"{MY_LID}:7@lid", "name": "Hermes"}
            facts = {"phones": self.phones, "missing": self.missing, "proper": self.proper}
            await socket.send_json({"facts": {"me": me, "admins": self.admins, **facts}})
            if self.refused:
                await socket.send_json({"close": {"code": self.refused, "why": "Connection Failure"}})
            elif self.unlinked or not told["hello"]:
                self.qrs += 1
                await socket.send_json({"qr": f"2@code{self.qrs}"})
            else:
                await socket.send_json({"open": True})
                if self.drops:
                    await socket.send_json({"close": {"code": 428, "why": "Connection Closed"}})
                for stanza in list(self.pending.values()):
                    await socket.send_json({"stanza": {**stanza, "offline": "1"}})
        if "receipt" in told:
            self.receipts.add(told["receipt"])
            self.pending.pop(told["receipt"], None)
        if "presence" in told:
            self.typing.append(told["presence"][1])
            await socket.send_json({"seen": True})
        if "read" in told:
            self.read += told["read"]
        if "send" in told:
            await self._sent(request, socket, told["send"])

    async def _sent(self, request: web.Request, socket: web.WebSocketResponse, one: dict[str, Any]) -> None:
        fault, done = self.next_fault(one["jid"].removesuffix("@s.whatsapp.net"))
        if fault is None or done:
            self._show(one)
        codes = {
            Fault.TOO_FAST: "429",
            Fault.TOO_FAST_ALL: "429",
            Fault.GONE: "463",
            Fault.TOO_LONG: "406",
            Fault.BROKEN: "500",
        }
        if fault is Fault.RESET:
            assert request.transport is not None
            request.transport.abort()
        elif fault is Fault.REVOKED:
            await socket.send_json({"close": {"code": 401, "why": "Stream Errored (conflict)"}})
        elif fault is not Fault.HANG:
            code = {} if fault is None else {"error": codes[fault]}
            await socket.send_json({"ack": {"id": one["id"], **code}})

    def _show(self, one: dict[str, Any]) -> None:
        message, known = one["message"], {sent.id: sent for sent in self.sent}
        if reaction := message.get("reactionMessage"):
            self.reactions[reaction["key"]["id"]] = reaction.get("text", "")
        elif change := (message.get("editedMessage", {}).get("message", message)).get("protocolMessage"):
            target = known.get(change["key"]["id"])
            if target and change.get("type", "REVOKE") == "REVOKE":
                self.sent.remove(target)
            elif target:
                said = change["editedMessage"]
                text = said.get("conversation") or said["extendedTextMessage"]["text"]
                target.edits += text != target.text
                target.text = text
        elif one["id"] in known:
            known[one["id"]].times += 1
        else:
            self.sent.append(self._read(one))

    def _read(self, one: dict[str, Any]) -> SentWhatsApp:
        message, file = one["message"], None
        name, part = next((name, part) for name, part in message.items() if name != "messageContextInfo")
        if name == "documentWithCaptionMessage":
            name, part = "documentMessage", part["message"]["documentMessage"]
        if one.get("file") is not None:
            kind = MediaKind.VOICE if name == "audioMessage" and part.get("ptt") else _KINDS[name]
            file = (kind, base64.b64decode(one["file"]))
        text = part if isinstance(part, str) else part.get("text") or part.get("caption") or ""
        quoted = None if isinstance(part, str) else (part.get("contextInfo") or {}).get("stanzaId")
        return SentWhatsApp(one["id"], one["jid"], text, quoted, file)

    # --- people ---

    def say(self, message: dict[str, Any] | str, *, chat: str = ANN, by: str = "", **more: Any) -> str:
        """Somebody sends this (bytes in base64); it is delivered now, and again until its receipt came."""
        number = next(self._numbers)
        id = f"AC{number:018X}"
        attrs = {"from": jid(chat), "id": id, "t": str(1793000000 + number), "notify": "Ann", **more}
        if by:
            attrs["participant"] = jid(by)
        self.pending[id] = {**attrs, "message": message}
        self.deliver(id)
        return id

    def deliver(self, id: str, stanza: dict[str, Any] | None = None) -> None:
        for socket in self._sockets:
            self.start(socket.send_json({"stanza": stanza or self.pending[id]}))

    async def pair(self) -> None:
        """A person scans the code."""
        self.unlinked = False
        for socket in list(self._sockets):
            await socket.send_json({"paired": True})

    async def close_all(self, code: int, why: str) -> None:
        for socket in list(self._sockets):
            await socket.send_json({"close": {"code": code, "why": why}})
