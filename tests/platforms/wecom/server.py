"""A WeCom with one AI bot: its long connection, as the vendor's SDK (@wecom/aibot-node-sdk 1.0.7) and that
one's port wecom-aibot-sdk 1.0.8 use it.

One connection at a time: a new one takes the place of the old, which is told so. Nothing is kept for a bot
that is away. A stream answers a delivery; once it is finished, or minutes after its last change, it takes no
more: WeCom says so (846608), or drops the change with or without an answer (WecomTeam/wecom-openclaw-plugin
#90). Files come encrypted from an address, and go out in pieces over the connection."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import itertools
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from hermes.domain.chats.message import MediaKind
from hermes.entry.kit.crypto import cbc_sealed
from hermes.testing.platform_suite import Fault
from hermes.testing.served import Route, ServedFake
from tests.platforms.wecom.samples import AES_KEY, BOT, event

SECRET = "s3cr3t-of-the-bot"
MOST_TEXT, MOST_PIECE = 20_480, 512 * 1024
KEY = base64.b64decode(AES_KEY + "=")
FAULTS = {
    Fault.TOO_FAST: (846607, "aibot send msg frequency limit exceed"),
    Fault.TOO_FAST_ALL: (45009, "api freq out of limit"),
    Fault.GONE: (93006, "invalid chatid"),
    Fault.TOO_LONG: (45002, "content size out of limit"),
    Fault.BROKEN: (-1, "system busy"),
}


class Unanswered(Exception):
    """It hears that and says nothing."""


class Wrong(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass
class Sent:
    ref: str
    chat: str
    text: str = ""
    file: tuple[MediaKind, bytes] | None = None
    edits: int = 0
    done: bool = False
    expired: bool = False
    drops: bool = False
    """It has ended, and its changes are acknowledged all the same."""
    silent: bool = False
    """It has ended, and its changes have no answer."""


@dataclass
class WeCom(ServedFake):
    secret: str = SECRET
    sent: list[Sent] = field(default_factory=list)
    streams: dict[tuple[str, str], Sent] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    disposition: str = "attachment; filename*=UTF-8''%E5%AD%A3%E5%BA%A6%E6%8A%A5%E8%A1%A8.docx"
    """With the files: only there stands a file's name (HKUDS/nanobot #3737)."""
    sockets: list[web.WebSocketResponse] = field(default_factory=list)
    delivered: dict[str, str] = field(default_factory=dict)
    """The chat of each delivery that can be answered."""
    calls: list[dict[str, Any]] = field(default_factory=list)
    subscribed: int = 0
    pings: int = 0
    deaf: bool = False
    too_often: bool = False
    """It lets nobody in for now."""
    forgotten: list[web.WebSocketResponse] = field(default_factory=list)
    """Connections that it does not know any more, though they stand."""
    _uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    _abouts: dict[str, dict[str, Any]] = field(default_factory=dict)
    _media: dict[str, bytes] = field(default_factory=dict)
    _numbers: Any = field(default_factory=lambda: itertools.count(1))

    @property
    def ws_url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/ws"

    def routes(self) -> Iterable[Route]:
        yield "GET", "/ws", self._socket
        yield "GET", "/files/{name}", self._file

    async def _file(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in self.files:
            return web.Response(status=403, text="<Error><Code>AccessDenied</Code></Error>")
        sealed = cbc_sealed(KEY, KEY[:16], self.files[name], block=32)
        return web.Response(body=sealed, headers={"Content-Disposition": self.disposition})

    # --- people ---

    def say(self, frame: dict[str, Any]) -> None:
        body = frame["body"]
        self.delivered[frame["headers"]["req_id"]] = body.get("chatid") or body["from"]["userid"]
        for one in self.sockets[-1:]:
            self.start(self._tell(one, frame))

    async def _tell(self, socket: web.WebSocketResponse, frame: dict[str, Any]) -> None:
        with contextlib.suppress(ConnectionError, RuntimeError):
            await socket.send_str(json.dumps(frame, ensure_ascii=False))

    # --- the connection ---

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        known = False
        try:
            async for message in socket:
                asked = json.loads(message.data)
                if self.deaf:
                    continue
                if asked["cmd"] == "aibot_subscribe":
                    known = await self._subscribe(socket, asked)
                elif known and socket not in self.forgotten:
                    self.start(self._do(socket, asked, request))
                else:
                    await self._tell(
                        socket,
                        {
                            "headers": asked["headers"],
                            "errcode": 846609,
                            "errmsg": "aibot websocket not subscribed",
                        },
                    )
        finally:
            with contextlib.suppress(ValueError):
                self.sockets.remove(socket)
        return socket

    async def _subscribe(self, socket: web.WebSocketResponse, asked: dict[str, Any]) -> bool:
        right = asked["body"] == {"bot_id": BOT, "secret": self.secret}
        code, why = (0, "ok") if right else (853000, "invalid bot_id or secret")
        if self.too_often:
            right, code, why = False, 45009, "api freq out of limit"
        await self._tell(socket, {"headers": asked["headers"], "errcode": code, "errmsg": why})
        if right:
            for one in list(self.sockets):
                await self._tell(one, event("disconnected_event"))
                await one.close()
            self.sockets.append(socket)
            self.subscribed += 1
        return right

    async def _do(self, socket: web.WebSocketResponse, asked: dict[str, Any], request: web.Request) -> None:
        self.calls.append(asked)
        answer: dict[str, Any] = {"headers": asked["headers"], "errcode": 0, "errmsg": "ok"}
        try:
            work = {
                "ping": self._ping,
                "aibot_send_msg": self._send,
                "aibot_respond_msg": self._respond,
                "aibot_upload_media_init": self._begin,
                "aibot_upload_media_chunk": self._piece,
                "aibot_upload_media_finish": self._finish,
            }[asked["cmd"]]
            if asked["cmd"] in ("aibot_send_msg", "aibot_respond_msg"):
                fault, done = self.next_fault(
                    asked.get("body", {}).get("chatid") or self.delivered.get(asked["headers"]["req_id"])
                )
                if fault is not None:
                    if done:
                        work(asked)
                    if fault is Fault.HANG:
                        await asyncio.sleep(3600)
                    if fault is Fault.RESET:
                        assert request.transport is not None
                        request.transport.abort()
                        return
                    raise Wrong(*FAULTS[fault])
            body = work(asked)
            if body is not None:
                answer["body"] = body
        except Unanswered:
            return
        except Wrong as error:
            answer |= {"errcode": error.code, "errmsg": str(error)}
        await self._tell(socket, answer)

    def _ping(self, asked: dict[str, Any]) -> None:
        self.pings += 1

    def _send(self, asked: dict[str, Any]) -> None:
        body = asked["body"]
        kind = body["msgtype"]
        one = Sent(ref=asked["headers"]["req_id"], chat=body["chatid"])
        if kind == "markdown":
            one.text = self._checked(body["markdown"]["content"])
        else:
            one.file = (
                {"image": MediaKind.IMAGE, "file": MediaKind.FILE}[kind],
                self._media[body[kind]["media_id"]],
            )
        self.sent.append(one)

    @staticmethod
    def _checked(text: str) -> str:
        if len(text.encode()) > MOST_TEXT:
            raise Wrong(45002, "content size out of limit")
        return text

    def _respond(self, asked: dict[str, Any]) -> None:
        request, stream = asked["headers"]["req_id"], asked["body"]["stream"]
        if request not in self.delivered:
            raise Wrong(846605, "invalid req_id")
        if asked["body"]["msgtype"] != "stream" or stream.keys() != {"id", "finish", "content"}:
            raise Wrong(40058, "invalid request parameter")
        text = self._checked(stream["content"])
        one = self.streams.get((request, stream["id"]))
        if one is None:
            one = Sent(ref=f"stream:{stream['id']}:{request}", chat=self.delivered[request], text=text)
            self.streams[(request, stream["id"])] = one
            self.sent.append(one)
        elif one.silent:
            raise Unanswered
        elif one.drops:
            return
        elif one.expired or (one.done and not (stream["finish"] and one.text == text)):
            raise Wrong(846608, "stream message update expired")
        one.edits += one.text != text
        one.text, one.done = text, stream["finish"]

    def _begin(self, asked: dict[str, Any]) -> dict[str, Any]:
        number = f"upload{next(self._numbers)}"
        self._uploads[number], self._abouts[number] = {}, asked["body"]
        return {"upload_id": number}

    def _piece(self, asked: dict[str, Any]) -> None:
        body = asked["body"]
        data = base64.b64decode(body["base64_data"])
        if len(data) > MOST_PIECE:
            raise Wrong(40058, "chunk too large")
        self._uploads[body["upload_id"]][body["chunk_index"]] = data

    def _finish(self, asked: dict[str, Any]) -> dict[str, Any]:
        number = asked["body"]["upload_id"]
        parts, about = self._uploads[number], self._abouts[number]
        data = b"".join(parts[place] for place in sorted(parts))
        if hashlib.md5(data).hexdigest() != about["md5"] or len(parts) != about["total_chunks"]:
            raise Wrong(40058, "md5")
        media = f"media{next(self._numbers)}"
        self._media[media] = data
        return {"type": about["type"], "media_id": media, "created_at": "1793000000"}
