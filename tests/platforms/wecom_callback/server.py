"""A WeCom with one app: encrypted calls and the interface for messages, as WeCom's documents describe them
and wechatpy 1.8.18 uses them. A call that is not answered with 200 is made three more times. `message/send`
says yes and lists in passing who gets nothing; an error of `media/get` has the status of a file."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import struct
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import aiohttp
from aiohttp import web

from hermes.domain.chats.message import MediaKind
from hermes.entry.kit.crypto import cbc_sealed
from hermes.entry.platforms.wecom_callback.convert import signature
from hermes.testing.platform_suite import Fault
from hermes.testing.served import FakeRefusal, Handler, Route, ServedFake
from tests.platforms.wecom_callback.samples import AES_KEY, CORP, TOKEN

SECRET, AGENT, MOST_TEXT = "s3cr3t-of-the-app", 218, 2_048
KEY = base64.b64decode(AES_KEY + "=")


class Wrong(FakeRefusal):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


NO_TOKEN = Wrong(40014, "invalid access_token")


@dataclass
class Sent:
    ref: str
    chat: str
    text: str = ""
    file: tuple[MediaKind, bytes] | None = None
    gone: bool = False


@dataclass
class WeComApp(ServedFake):
    secret: str = SECRET
    callback: str = ""
    sent: list[Sent] = field(default_factory=list)
    media: dict[str, bytes] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    """What files that were uploaded are called."""
    unlicensed: bool = False
    people: set[str] | None = None
    acked: set[str] = field(default_factory=set)
    tokens: int = 0
    revoked: bool = False
    answered: bytes = b""
    pause: float = 0.5
    """Between two attempts of a call; WeCom waits five seconds."""
    _turns: dict[str, asyncio.Lock] = field(default_factory=dict)
    _numbers: Any = field(default_factory=lambda: itertools.count(1))

    def routes(self) -> Iterable[Route]:
        base = "/cgi-bin"
        yield "GET", f"{base}/gettoken", self._new_token
        yield "POST", f"{base}/message/send", self._known(self._send)
        yield "POST", f"{base}/message/recall", self._known(self._recall)
        yield "POST", f"{base}/media/upload", self._known(self._upload)
        yield "GET", f"{base}/media/get", self._known(self._get)

    def refused(self, refusal: Wrong) -> web.Response:
        return web.json_response({"errcode": refusal.code, "errmsg": str(refusal)})

    def failed(self, fault: Fault) -> web.Response:
        match fault:
            case Fault.TOO_FAST | Fault.TOO_FAST_ALL:
                raise Wrong(45009, "api freq out of limit")
            case Fault.REVOKED:
                self.revoked = True
                raise NO_TOKEN
            case Fault.TOO_LONG:
                raise Wrong(45002, "content size out of limit")
            case _:
                raise Wrong(81013, "user & party & tag all invalid")

    def calm(self) -> None:
        super().calm()
        self.revoked = False

    # --- people ---

    def say(self, number: str, xml: str) -> None:
        self.start(self._deliver(number, xml))

    async def _deliver(self, number: str, xml: str) -> None:
        """One call after the other for each person."""
        person = xml.partition("<FromUserName>")[2].partition("</FromUserName>")[0]
        async with self._turns.setdefault(person, asyncio.Lock()):
            for _ in range(4):
                with contextlib.suppress(aiohttp.ClientError, OSError):
                    if await self.call(xml) == 200:
                        self.acked.add(number)
                        return
                await asyncio.sleep(self.pause)

    @staticmethod
    def sealed(words: str, corp: str = CORP) -> str:
        raw = words.encode()
        plain = b"0123456789abcdef" + struct.pack(">I", len(raw)) + raw + corp.encode()
        return base64.b64encode(cbc_sealed(KEY, KEY[:16], plain, block=32)).decode()

    async def call(self, xml: str, *, token: str = TOKEN, corp: str = CORP) -> int:
        sealed, stamp = self.sealed(xml, corp), str(int(time.time()))
        asked = {"msg_signature": signature(token, stamp, "n1", sealed), "timestamp": stamp, "nonce": "n1"}
        body = (
            f"<xml><ToUserName><![CDATA[{CORP}]]></ToUserName><Encrypt><![CDATA[{sealed}]]></Encrypt></xml>"
        )
        async with aiohttp.ClientSession() as session:
            async with session.post(f"{self.callback}?{urlencode(asked)}", data=body) as answer:
                self.answered = await answer.read()
                return answer.status

    # --- calls ---

    async def _new_token(self, request: web.Request) -> web.Response:
        if request.query["corpid"] != CORP:
            raise Wrong(40013, "invalid corpid")
        if self.revoked or request.query["corpsecret"] != self.secret:
            raise Wrong(40001, "invalid credential")
        self.tokens += 1
        told = {"errcode": 0, "errmsg": "ok", "access_token": f"token-{self.tokens}", "expires_in": 7200}
        return web.json_response(told)

    def _known(self, handler: Any) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            if self.revoked or request.query.get("access_token") != f"token-{self.tokens}":
                raise NO_TOKEN
            answer = await handler(request)
            if isinstance(answer, web.StreamResponse):
                return answer
            return web.json_response({"errcode": 0, "errmsg": "ok", **answer})

        return handle

    async def _send(self, request: web.Request) -> Any:
        asked = await request.json()
        person, kind = asked["touser"], asked["msgtype"]

        async def send() -> Any:
            if asked["agentid"] != AGENT:
                raise Wrong(40056, "invalid agentid")
            one = Sent(ref=f"msgid_{next(self._numbers)}", chat=person)
            if kind == "text":
                one.text = asked["text"]["content"]
                if len(one.text.encode()) > MOST_TEXT:
                    raise Wrong(45002, "content size out of limit")
            else:
                kinds = {"image": MediaKind.IMAGE, "file": MediaKind.FILE}
                one.file = (kinds[kind], self.media[asked[kind]["media_id"]])
            known = self.people is None or person in self.people
            if known and not self.unlicensed:
                self.sent.append(one)
            unlicensed = person if self.unlicensed else ""
            told = {"invaliduser": "" if known else person, "unlicenseduser": unlicensed}
            return {**told, "msgid": one.ref}

        return await self.troubled(request, person, send)

    async def _recall(self, request: web.Request) -> Any:
        number = (await request.json())["msgid"]
        found = [one for one in self.sent if one.ref == number and not one.gone]
        if not found:
            raise Wrong(41042, "invalid msgid")
        found[0].gone = True
        return {}

    async def _upload(self, request: web.Request) -> Any:
        form = await request.post()
        file = form["media"]
        assert isinstance(file, web.FileField)
        number = f"media_{next(self._numbers)}"
        self.names.append(file.filename)
        self.media[number] = file.file.read()
        return {"type": request.query["type"], "media_id": number, "created_at": "1793000000"}

    async def _get(self, request: web.Request) -> Any:
        if request.query["media_id"] not in self.media:
            raise Wrong(40007, "invalid media_id")
        return web.Response(body=self.media[request.query["media_id"]], content_type="image/jpeg")
