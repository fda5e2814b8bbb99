"""A Weixin with one iLink bot: long polls, messages, typing, files and the login, as the vendor's own client
(@tencent-weixin/openclaw-weixin 2.4.9) and weixin-ilink 0.3.5 use it. Errors have the status 200; `-14` is a
session that has ended; `msg/notifystart` may bring it back. A token carries ten messages, then comes `-2`
until they write (corespeed-io/wechatbot #80); each further attempt makes it last (chenhg5/cc-connect #1643).
A token may be stale: with it comes `-2`, without one the message is taken (NousResearch/hermes-agent #62383).
A place of an earlier login tells nothing new (Good0007/nanobot-webui #51). Newer clients of people quote by
id alone (openclaw-weixin 2.4.9). Ids of messages are unsigned numbers of 64 bits."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import itertools
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from aiohttp import web

from hermes.domain.chats.message import MediaKind
from hermes.entry.kit.crypto import ecb_opened, ecb_sealed
from hermes.testing.platform_suite import Fault
from hermes.testing.served import FakeRefusal, Handler, Route, ServedFake
from tests.platforms.weixin.samples import KEY, TOKEN

KINDS = {2: ("image_item", MediaKind.IMAGE), 4: ("file_item", MediaKind.FILE)}
MOST_TEXT, MOST_SENT = 4_000, 10


class Wrong(FakeRefusal):
    def __init__(self, code: int, message: str, status: int = 200) -> None:
        super().__init__(message)
        self.code, self.status = code, status


@dataclass
class Sent:
    ref: str
    chat: str
    context: str
    text: str = ""
    file: tuple[MediaKind, bytes] | None = None


@dataclass
class Weixin(ServedFake):
    token: str = TOKEN
    messages: list[dict[str, Any]] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    """What lies encrypted where files are, by the words that lead there."""
    typed: int = 0
    expired: bool = False
    lapsed: bool = False
    """The session has ended until somebody says that he is there."""
    notified: int = 0
    tickets: int = 0
    wrong: dict[str, Wrong] = field(default_factory=dict)
    """What is said instead at these calls."""
    attempts: int = 0
    """To send something, also in vain."""
    typed_numbers: list[str] = field(default_factory=list)
    """The numbers with which the login was asked for."""
    carried: dict[str, int] = field(default_factory=dict)
    """How many messages each token has carried."""
    stale: set[str] = field(default_factory=set)
    loses_files: bool = False
    """It takes files and does not say where they are."""
    polls: int = 0
    states: list[dict[str, Any]] = field(default_factory=list)
    """What the login is told, one after the other."""
    _uploads: set[str] = field(default_factory=set)
    _numbers: Any = field(default_factory=lambda: itertools.count(1))

    @property
    def cdn(self) -> str:
        return f"http://127.0.0.1:{self.port}/c2c"

    def routes(self) -> Iterable[Route]:
        base = "/ilink/bot"
        yield "POST", f"{base}/getupdates", self._known(self._updates)
        yield "POST", f"{base}/msg/notifystart", self._known(self._notified)
        yield "POST", f"{base}/sendmessage", self._known(self._send)
        yield "POST", f"{base}/getconfig", self._known(self._config)
        yield "POST", f"{base}/sendtyping", self._known(self._typing)
        yield "POST", f"{base}/getuploadurl", self._known(self._upload_url)
        yield "GET", f"{base}/get_bot_qrcode", self._qrcode
        yield "POST", f"{base}/get_bot_qrcode", self._qrcode
        yield "GET", f"{base}/get_qrcode_status", self._status
        yield "POST", "/c2c/upload", self._upload
        yield "GET", "/c2c/download", self._download

    def refused(self, refusal: Wrong) -> web.Response:
        told = {"ret": refusal.code, "errcode": refusal.code, "errmsg": str(refusal)}
        return web.json_response(told, status=refusal.status)

    def failed(self, fault: Fault) -> web.Response:
        match fault:
            case Fault.TOO_FAST | Fault.TOO_FAST_ALL:
                raise Wrong(-2, "rate limited")
            case Fault.REVOKED:
                raise Wrong(-14, "session timeout")
            case _:
                raise Wrong(-3, "invalid argument")

    # --- people ---

    def say(self, message: dict[str, Any]) -> None:
        message["create_time_ms"] = int(time.time() * 1000)
        self.messages.append(message)

    def keep(self, data: bytes, *, sealed: bool = True) -> dict[str, Any]:
        """Where a file of a person's lies."""
        number = f"AAF+{next(self._numbers)}/="
        if not sealed:
            self.files[number] = data
            return {"encrypt_query_param": number}
        self.files[number] = ecb_sealed(KEY, data)
        key = base64.b64encode(KEY.hex().encode()).decode()
        return {"encrypt_query_param": number, "aes_key": key, "encrypt_type": 1}

    # --- calls ---

    def _known(self, handler: Any) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            told = request.headers
            if told.get("AuthorizationType") != "ilink_bot_token" or told.get("iLink-App-Id") != "bot":
                raise Wrong(-1, "headers", 400)
            if not base64.b64decode(told["X-WECHAT-UIN"], validate=True).isdigit():
                raise Wrong(-1, "uin", 400)
            asked = await request.json()
            if "channel_version" not in asked["base_info"]:
                raise Wrong(-1, "base_info", 400)
            if self.expired or told.get("Authorization") != f"Bearer {self.token}":
                raise Wrong(-14, "session timeout")
            self.attempts += request.path.endswith("/sendmessage")
            if wrong := self.wrong.get(request.path.rpartition("/")[2]):
                raise wrong
            answer = await handler(request, asked)
            return (
                answer if isinstance(answer, web.StreamResponse) else web.json_response({"ret": 0, **answer})
            )

        return handle

    async def _updates(self, request: web.Request, asked: dict[str, Any]) -> Any:
        self.polls += 1
        if self.lapsed:
            raise Wrong(-14, "session timeout")
        known = base64.b64decode(asked["get_updates_buf"]).decode()
        login, _, number = known.partition(" ")
        place, deaf = int(number or 0), bool(known) and login != self.token
        end = time.monotonic() + 5.0
        while (deaf or len(self.messages) <= place) and time.monotonic() < end:
            if self.expired:
                raise Wrong(-14, "session timeout")
            await asyncio.sleep(0.005)
        news = [] if deaf else self.messages[place : place + 20]
        cursor = base64.b64encode(f"{self.token} {place + len(news)}".encode()).decode()
        return {"msgs": news, "get_updates_buf": cursor, "longpolling_timeout_ms": 35_000}

    async def _notified(self, request: web.Request, asked: dict[str, Any]) -> Any:
        self.notified += 1
        self.lapsed = False
        return {}

    async def _send(self, request: web.Request, asked: dict[str, Any]) -> Any:
        message = asked["msg"]
        person = message["to_user_id"]

        async def send() -> Any:
            if (message["message_type"], message["message_state"], message["from_user_id"]) != (2, 2, ""):
                raise Wrong(-3, "invalid message")
            token = message.get("context_token", "")
            if token in self.stale or (token and self.carried.get(token, 0) >= MOST_SENT):
                raise Wrong(-2, "rate limited")
            self.carried[token] = self.carried.get(token, 0) + 1
            (item,) = message["item_list"]
            number = 2**63 + 10_000 + next(self._numbers)
            one = Sent(ref=str(number), chat=person, context=token)
            if item["type"] == 1:
                one.text = item["text_item"]["text"]
                if len(one.text) > MOST_TEXT:
                    raise Wrong(-3, "text too long")
            else:
                name, kind = KINDS[item["type"]]
                media = item[name]["media"]
                key = bytes.fromhex(base64.b64decode(media["aes_key"]).decode())
                one.file = (kind, ecb_opened(key, self.files[media["encrypt_query_param"]]))
            self.sent.append(one)
            return {"message_id": number}

        return await self.troubled(request, person, send)

    async def _config(self, request: web.Request, asked: dict[str, Any]) -> Any:
        self.tickets += 1
        return {"typing_ticket": "ticket"}

    async def _typing(self, request: web.Request, asked: dict[str, Any]) -> Any:
        self.typed += asked["typing_ticket"] == "ticket" and asked["status"] == 1
        return {}

    # --- files ---

    async def _upload_url(self, request: web.Request, asked: dict[str, Any]) -> Any:
        if asked["media_type"] not in (1, 3) or len(asked["aeskey"]) != 32 or not asked["rawfilemd5"]:
            raise Wrong(-3, "invalid upload")
        self._uploads.add(asked["filekey"])
        return {"upload_param": f"up+{asked['filekey']}/="}

    async def _upload(self, request: web.Request) -> web.Response:
        name = request.query["filekey"]
        if name not in self._uploads or request.query["encrypted_query_param"] != f"up+{name}/=":
            return web.Response(status=400, headers={"x-error-message": "bad param"})
        data = await request.read()
        number = hashlib.sha256(data + name.encode()).hexdigest()
        self.files[number] = data
        return web.Response(headers={} if self.loses_files else {"x-encrypted-param": number})

    async def _download(self, request: web.Request) -> web.Response:
        number = request.query["encrypted_query_param"]
        return web.Response(body=self.files[number]) if number in self.files else web.Response(status=404)

    # --- the login ---

    async def _qrcode(self, request: web.Request) -> web.Response:
        number = next(self._numbers)
        shown = f"https://liteapp.weixin.qq.com/q/{quote(str(number))}"
        return web.json_response({"ret": 0, "qrcode": f"qr-{number}", "qrcode_img_content": shown})

    async def _status(self, request: web.Request) -> web.Response:
        if number := request.query.get("verify_code"):
            self.typed_numbers.append(number)
        return web.json_response({"ret": 0, **(self.states.pop(0) if self.states else {"status": "wait"})})
