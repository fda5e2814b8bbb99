"""A QQ with one bot: tokens, the gateway with sessions that go on, signed calls, messages and files, as
Tencent's bot-docs (api-v2) describe them.

A bot may only answer: each message four times within an hour in private, five times within five minutes in a
group (since 2026-06-22); nothing else since 2025-04-21, unless QQ permits it. The same `msg_id` and `msg_seq`
are taken once (40054005, HKUDS/nanobot #1499)."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web

from hermes.domain.chats.message import MediaKind
from hermes.entry.platforms.qqbot.convert import signed
from hermes.testing.platform_suite import Fault
from hermes.testing.served import FakeRefusal, Handler, Route, ServedFake
from tests.platforms.qqbot.samples import ALL_KIND, APP, GROUP_KIND, event

SECRET, MOST_REPLIES = "DG5g3B4j9X2KOErG", {"u": 4, "g": 5}
SECONDS = {"u": 3_600.0, "g": 300.0}


class Wrong(FakeRefusal):
    def __init__(self, status: int, code: int, message: str, other: int = 0) -> None:
        super().__init__(message)
        self.status, self.code, self.other = status, code, other or code


UNLISTED = Wrong(401, 11298, "接口访问源IP不在白名单", 40023002)
NO_TOKEN = Wrong(401, 11243, "token not exist or expire")


KINDS = {1: MediaKind.IMAGE, 2: MediaKind.VIDEO, 4: MediaKind.FILE}
"""Of files, as Tencent's own plugin for OpenClaw sends them (sliverp/qqbot 1.7.1)."""


@dataclass
class Sent:
    ref: str
    chat: str
    text: str
    file: tuple[MediaKind, bytes] | None = None
    answers: str = ""


@dataclass
class QQ(ServedFake):
    secret: str = SECRET
    callback: str = ""
    """Where it calls, if not over a gateway."""
    sent: list[Sent] = field(default_factory=list)
    written: dict[str, tuple[str, float]] = field(default_factory=dict)
    """The chat of each message that can be answered, and since when."""
    answered: dict[str, set[int]] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    sockets: list[web.WebSocketResponse] = field(default_factory=list)
    told: list[dict[str, Any]] = field(default_factory=list)
    """The events of the session, by their numbers."""
    session: str = ""
    identified: int = 0
    resumed: int = 0
    beats: int = 0
    tokens: int = 0
    revoked: bool = False
    unasked: bool = False
    """The bot may begin a conversation."""
    no_addresses: bool = False
    over: tuple[int, int] = (400, 22009)
    """The status and the code for one answer too many."""
    wrong: dict[str, Wrong] = field(default_factory=dict)
    """What is said instead at these paths."""
    closes: int = 0
    """With this code it ends each session that should go on."""
    busy: int = 0
    """So often it says that it cannot go on with a session now."""
    reviews: bool = False
    """Somebody looks at messages before they are shown."""
    clock: float = 0.0
    """So many seconds have passed meanwhile."""
    begun: int = 0
    """So often something was sent that answers nothing."""
    slow: float = 0.0
    """So many seconds pass between two pieces of a file."""
    _uploads: dict[str, tuple[MediaKind, bytes]] = field(default_factory=dict)
    _numbers: Any = field(default_factory=lambda: itertools.count(1))

    def routes(self) -> Iterable[Route]:
        yield "POST", "/app/getAppAccessToken", self._new_token
        yield "GET", "/gateway", self._known(self._gateway)
        yield "GET", "/gateway/bot", self._known(self._gateway)
        yield "GET", "/users/@me", self._known(self._me)
        yield "GET", "/websocket", self._socket
        for kind in ("users", "groups"):
            yield "POST", f"/v2/{kind}/{{id}}/messages", self._known(self._send)
            yield "POST", f"/v2/{kind}/{{id}}/files", self._known(self._upload)
        yield "GET", "/files/{name}", self._file

    def refused(self, refusal: Wrong) -> web.Response:
        told = {"message": str(refusal), "code": refusal.code, "err_code": refusal.other, "trace_id": "t"}
        return web.json_response(told, status=refusal.status)

    def failed(self, fault: Fault) -> web.Response:
        match fault:
            case Fault.TOO_FAST:
                raise Wrong(400, 1100100, "安全打击：消息被限频")
            case Fault.TOO_FAST_ALL:
                raise Wrong(429, 0, "too many requests")
            case Fault.REVOKED:
                self.revoked = True
                raise NO_TOKEN
            case _:
                raise Wrong(400, 11255, "invalid request")

    def calm(self) -> None:
        super().calm()
        self.revoked = False

    # --- people ---

    def write(self, chat: str) -> str:
        """Somebody has written in a chat; the message's id."""
        number = f"ROBOT1.0_w{next(self._numbers)}!"
        self.written[number] = (chat, self._now())
        return number

    def _now(self) -> float:
        return time.monotonic() + self.clock

    def say(self, message: dict[str, Any]) -> None:
        group = message.get("group_openid")
        chat = f"g_{group}" if group else f"u_{message['author']['user_openid']}"
        kind = ALL_KIND if "mentions" in message else GROUP_KIND if group else "C2C_MESSAGE_CREATE"
        self.written.setdefault(message["id"], (chat, self._now()))
        told = event(message, kind, len(self.told) + 2)
        if self.callback:
            self.start(self._call(told))
            return
        self.told.append(told)
        for one in self.sockets[-1:]:
            self.start(self._tell(one, told))

    async def _tell(self, socket: web.WebSocketResponse, told: dict[str, Any]) -> None:
        with contextlib.suppress(ConnectionError, RuntimeError):
            await socket.send_str(json.dumps(told, ensure_ascii=False))

    async def _call(self, told: dict[str, Any]) -> None:
        """Until it is taken."""
        for _ in range(200):
            with contextlib.suppress(aiohttp.ClientError, OSError):
                if (await self.call(json.dumps(told).encode()))[0] == 200:
                    return
            await asyncio.sleep(0.02)

    async def call(self, raw: bytes, *, secret: str = "", signature: str = "") -> tuple[int, bytes]:
        stamp = str(int(time.time()))
        headers = {
            "X-Bot-Appid": APP,
            "X-Signature-Timestamp": stamp,
            "X-Signature-Ed25519": signature or signed(secret or self.secret, stamp, raw),
        }
        async with aiohttp.ClientSession() as session:
            async with session.post(self.callback, data=raw, headers=headers) as answer:
                return answer.status, await answer.read()

    # --- the gateway ---

    async def _gateway(self, request: web.Request) -> Any:
        limit = {"total": 1000, "remaining": 999, "reset_after": 14400000, "max_concurrency": 1}
        url = f"ws://127.0.0.1:{self.port}/websocket"
        return {"url": url, "shards": 1, "session_start_limit": limit}

    async def _me(self, request: web.Request) -> Any:
        return {"id": "1", "username": "hermes", "avatar": "", "bot": True}

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await self._tell(socket, {"op": 10, "d": {"heartbeat_interval": 200}})
        try:
            async for message in socket:
                asked = json.loads(message.data)
                if asked["op"] == 1:
                    self.beats += 1
                    await self._tell(socket, {"op": 11})
                elif asked["d"]["token"] != f"QQBot token-{self.tokens}":
                    await self._tell(socket, {"op": 9, "d": False})
                elif asked["op"] == 2:
                    await self._identify(socket)
                elif asked["op"] == 6:
                    await self._resume(socket, asked["d"])
        finally:
            with contextlib.suppress(ValueError):
                self.sockets.remove(socket)
        return socket

    async def _identify(self, socket: web.WebSocketResponse) -> None:
        self.identified += 1
        waiting, self.told = ([] if self.session else self.told), []
        self.session = f"session-{self.identified}"
        about = {"version": 1, "session_id": self.session, "user": {"id": "1", "username": "h", "bot": True}}
        await self._tell(socket, {"op": 0, "s": 1, "t": "READY", "d": {**about, "shard": [0, 0]}})
        self.sockets.append(socket)
        for told in waiting:
            self.told.append({**told, "s": len(self.told) + 2})
            await self._tell(socket, self.told[-1])

    async def _resume(self, socket: web.WebSocketResponse, asked: dict[str, Any]) -> None:
        if self.closes:
            self.resumed += 1
            await socket.close(code=self.closes)
            return
        if self.busy:
            self.busy -= 1
            await self._tell(socket, {"op": 9, "d": True})
            return
        if asked["session_id"] != self.session:
            await self._tell(socket, {"op": 9, "d": False})
            return
        self.resumed += 1
        self.sockets.append(socket)
        for told in self.told:
            if told["s"] > asked["seq"]:
                await self._tell(socket, told)
        await self._tell(socket, {"op": 0, "s": len(self.told) + 1, "t": "RESUMED", "d": ""})

    # --- calls ---

    async def _new_token(self, request: web.Request) -> web.Response:
        asked = await request.json()
        if wrong := self.wrong.get(request.path):
            return web.json_response({"code": wrong.code, "message": str(wrong)}, status=wrong.status)
        if self.revoked or asked != {"appId": APP, "clientSecret": self.secret}:
            return web.json_response({"code": 100016, "message": "invalid appid or secret"})
        self.tokens += 1
        return web.json_response({"access_token": f"token-{self.tokens}", "expires_in": "7200"})

    def _known(self, handler: Any) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            if self.revoked or request.headers.get("Authorization") != f"QQBot token-{self.tokens}":
                raise NO_TOKEN
            if wrong := self.wrong.get(request.path):
                raise wrong
            answer = await handler(request)
            return answer if isinstance(answer, web.StreamResponse) else web.json_response(answer)

        return handle

    async def _send(self, request: web.Request) -> Any:
        asked = await request.json()
        kind = "u" if "/users/" in request.path else "g"
        chat = f"{kind}_{request.match_info['id']}"

        async def send() -> Any:
            number = asked.get("msg_id", "")
            self.begun += not number
            if not number and not self.unasked:
                raise Wrong(400, 40034102, "主动消息失败, 无权限")
            if self.no_addresses and re.search(r"://|\.[a-z]", asked["content"]):
                raise Wrong(400, 40054010, "消息发送失败, 不允许发送url ")
            where, at = self.written.get(number, ("", 0.0)) if number else (chat, self._now())
            if where != chat:
                raise Wrong(400, 40034024, "请求参数msg_id无效或越权")
            if self._now() - at > SECONDS[kind]:
                raise Wrong(400, 304027, "回复的消息过期")
            seqs = self.answered.setdefault(number, set()) if number else set()
            if asked.get("msg_seq", 1) in seqs:
                raise Wrong(400, 40054005, "消息被去重，请检查请求msgseq")
            if len(seqs) >= MOST_REPLIES[kind]:
                raise Wrong(*self.over, "msg limit exceed")
            seqs.add(asked.get("msg_seq", 1))
            file = self._uploads[asked["media"]["file_info"]] if asked["msg_type"] == 7 else None
            text = "" if file is not None else asked["content"]
            one = Sent(
                ref=f"ROBOT1.0_s{next(self._numbers)}", chat=chat, text=text, file=file, answers=number
            )
            self.sent.append(one)
            if self.reviews:
                told = {"code": 304023, "message": "push message is waiting for audit now"}
                return web.json_response({**told, "data": {"message_audit": {"audit_id": "a"}}}, status=202)
            return {"id": one.ref, "timestamp": "2026-11-06T13:37:18+08:00"}

        return await self.troubled(request, chat, send)

    async def _upload(self, request: web.Request) -> Any:
        raw = b""
        async for piece in request.content.iter_chunked(1_000):
            raw += piece
            await asyncio.sleep(self.slow)
        asked = json.loads(raw)
        kind = KINDS.get(asked["file_type"])
        if kind is None or asked["srv_send_msg"] is not False:
            raise Wrong(400, 850012, "file_type")
        if (kind is MediaKind.FILE) != bool(asked.get("file_name")):
            raise Wrong(400, 850012, "file_name")
        number = f"info{next(self._numbers)}"
        self._uploads[number] = (kind, base64.b64decode(asked["file_data"]))
        return {"file_uuid": "u", "file_info": number, "ttl": 3600}

    async def _file(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        return web.Response(body=self.files[name]) if name in self.files else web.Response(status=404)
