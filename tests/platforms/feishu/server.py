"""A Feishu with one app: the long connection and encrypted calls, messages, cards and files, as Feishu's
documents and its SDK (lark-oapi 1.7.5) describe them.

What is not acknowledged comes again (Feishu waits 15 seconds, 5 minutes, 1 hour and 6 hours for that; here it
comes with the next connection, or is called at once). A message with the same `uuid` is sent once in an hour,
and its first copy is told of again (eddiearc/larkin #86). A card can be changed only if it says
`update_multi` before and after."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
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
from hermes.entry.kit.crypto import cbc_sealed
from hermes.entry.platforms.feishu.socket import FeishuFrame
from hermes.testing.platform_suite import Fault
from hermes.testing.served import FakeRefusal, Handler, Route, ServedFake
from tests.platforms.feishu.samples import ANN, APP, BOT, PRIVATE, event

SECRET, KEY = "s3cr3t-of-the-app-0123456789abcd", "test key"
MOST_CARD, MOST_TEXT = 30 * 1024, 150 * 1024
KINDS = {"image": MediaKind.IMAGE, "file": MediaKind.FILE, "audio": MediaKind.VOICE}


def _has_foreign_picture(text: str) -> bool:
    text = re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL)
    return re.search(r"!\[[^]]*\]\((?!img_)", text) is not None


class Wrong(FakeRefusal):
    def __init__(self, code: int, message: str = "", status: int = 400, reset: str = "") -> None:
        super().__init__(str(code))
        self.code, self.message, self.status, self.reset = code, message, status, reset


@dataclass
class Sent:
    ref: str
    chat: str
    kind: str
    content: dict[str, Any]
    thread: str | None = None
    reply_to: str | None = None
    edits: int = 0
    gone: bool = False

    @property
    def elements(self) -> list[dict[str, Any]]:
        return self.content.get("body", {}).get("elements", [])

    @property
    def text(self) -> str:
        words = [
            one.get("content") or one.get("text", {}).get("content")
            for one in self.elements
            if one["tag"] != "button"
        ]
        return words[0] if words else ""

    @property
    def buttons(self) -> list[tuple[str, Any]]:
        found = [one for one in self.elements if one["tag"] == "button"]
        return [(one["text"]["content"], one["behaviors"][0]["value"]) for one in found]


@dataclass
class Feishu(ServedFake):
    secret: str = SECRET
    events_url: str = ""
    """Where it calls, if not over a long connection."""
    sent: list[Sent] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    calls: list[tuple[str, str, Any]] = field(default_factory=list)
    sockets: list[web.WebSocketResponse] = field(default_factory=list)
    kept: dict[str, dict[str, Any]] = field(default_factory=dict)
    acked: set[str] = field(default_factory=set)
    forwarded: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """What is in a forwarded chat, by the number of its message."""
    answers: list[FeishuFrame] = field(default_factory=list)
    pings: int = 0
    opened: int = 0
    tokens: int = 0
    revoked: bool = False
    shut: Wrong | None = None
    """Why nobody may open a long connection."""
    unshowable: str = ""
    """Markdown with these words makes no card."""
    part_bytes: int = 0
    """Events that are longer come in several frames."""
    _frames: dict[str, str] = field(default_factory=dict)
    _uuids: dict[str, str] = field(default_factory=dict)
    _numbers: Any = field(default_factory=lambda: itertools.count(1))

    def routes(self) -> Iterable[Route]:
        im = "/open-apis/im/v1"
        yield "POST", "/callback/ws/endpoint", self._endpoint
        yield "GET", "/ws/v2", self._socket
        yield "POST", "/open-apis/auth/v3/tenant_access_token/internal", self._new_token
        yield "GET", "/open-apis/bot/v3/info", self._known(self._info)
        yield "POST", f"{im}/messages", self._known(self._create)
        yield "POST", f"{im}/messages/{{id}}/reply", self._known(self._reply)
        yield "GET", f"{im}/messages/{{id}}", self._known(self._get)
        yield "PATCH", f"{im}/messages/{{id}}", self._known(self._patch)
        yield "DELETE", f"{im}/messages/{{id}}", self._known(self._delete)
        yield "GET", f"{im}/messages/{{id}}/resources/{{key}}", self._known(self._resource)
        yield "POST", f"{im}/images", self._known(self._upload)
        yield "POST", f"{im}/files", self._known(self._upload)

    def refused(self, refusal: Wrong) -> web.Response:
        headers = {"x-ogw-ratelimit-reset": refusal.reset} if refusal.reset else {}
        told = {"code": refusal.code, "msg": refusal.message, "error": {"log_id": "20240911085251BEA8"}}
        return web.json_response(told, status=refusal.status, headers=headers)

    def failed(self, fault: Fault) -> web.Response:
        match fault:
            case Fault.TOO_FAST:
                raise Wrong(230020, "This operation triggers the frequency limit.")
            case Fault.TOO_FAST_ALL:
                raise Wrong(99991400, "request trigger frequency limit", 429, "2")
            case Fault.REVOKED:
                self.revoked = True
                raise NO_TOKEN
            case Fault.TOO_LONG:
                raise Wrong(230025, "The length of the message content reaches its limit.")
            case _:
                raise Wrong(230002, "The bot can not be outside the group.")

    def calm(self) -> None:
        super().calm()
        self.revoked = False

    # --- people ---

    def say(self, told: dict[str, Any]) -> None:
        now = str(int(time.time() * 1000))
        told["header"]["create_time"] = (
            now if told["header"]["event_type"] != "card.action.trigger" else now + "000"
        )
        if "message" in told["event"]:
            told["event"]["message"]["create_time"] = now
        self.kept[told["header"]["event_id"]] = told
        self.tell(told)

    def tell(self, told: dict[str, Any], socket: web.WebSocketResponse | None = None) -> None:
        if self.events_url:
            self.start(self._call(told))
            return
        for one in [socket] if socket is not None else self.sockets[-1:]:
            self.start(self._push(one, told))

    async def _push(self, socket: web.WebSocketResponse, told: dict[str, Any]) -> None:
        raw, number = json.dumps(told, ensure_ascii=False).encode(), f"frame-{next(self._numbers)}"
        self._frames[number] = told["header"]["event_id"]
        size = self.part_bytes or len(raw)
        parts = [raw[at : at + size] for at in range(0, len(raw), size)]
        order = [*enumerate(parts)][::-1]
        for place, part in order:
            headers = {
                "type": "event",
                "message_id": number,
                "sum": str(len(parts)),
                "seq": str(place),
                "trace_id": f"trace-{number}",
            }
            frame = FeishuFrame(
                seq=next(self._numbers),
                log=2**63 + 5,
                service=7,
                method=1,
                headers=tuple(headers.items()),
                rest=((6, b"gzip?"), (7, b"json"), (9, b"20240911085251BEA8")),
                payload=part,
            )
            with contextlib.suppress(ConnectionError, RuntimeError):
                await socket.send_bytes(frame.written())

    async def _call(self, told: dict[str, Any]) -> None:
        """Until it is taken."""
        while told["header"]["event_id"] not in self.acked or told.get("again"):
            told.pop("again", None)
            with contextlib.suppress(aiohttp.ClientError, OSError):
                if await self.call(told) == 200:
                    self.acked.add(told["header"]["event_id"])
                    return
            await asyncio.sleep(0.02)

    async def call(self, told: dict[str, Any], key: str = KEY, forged: bool = False) -> int:
        raw = self.sealed(told, key)
        stamp, nonce = str(int(time.time())), "nonce-1"
        signature = hashlib.sha256(f"{stamp}{nonce}{key}".encode() + raw).hexdigest()
        headers = {
            "X-Lark-Request-Timestamp": stamp,
            "X-Lark-Request-Nonce": nonce,
            "X-Lark-Signature": "0" * 64 if forged else signature,
            "Content-Type": "application/json",
        }
        async with (
            aiohttp.ClientSession() as session,
            session.post(self.events_url, data=raw, headers=headers) as answer,
        ):
            self.answered = await answer.read()
            return answer.status

    @staticmethod
    def sealed(told: dict[str, Any], key: str = KEY) -> bytes:
        vector = b"0123456789abcdef"
        sealed = cbc_sealed(hashlib.sha256(key.encode()).digest(), vector, json.dumps(told).encode())
        return json.dumps({"encrypt": base64.b64encode(vector + sealed).decode()}).encode()

    def press(self, number: str, value: str) -> None:
        one = self.find(number)
        values = [told for _, told in one.buttons if told["hermes_button"] == value]
        told = {
            "operator": {"tenant_key": "t", "open_id": ANN, "union_id": "on_1"},
            "token": "c-1",
            "action": {"value": values[0], "tag": "button"},
            "host": "im_message",
            "context": {"open_message_id": number, "open_chat_id": one.chat},
        }
        self.say(event("card.action.trigger", told, f"press-{next(self._numbers)}"))

    def find(self, number: str) -> Sent:
        found = next((one for one in self.sent if one.ref == number), None)
        if found is None:
            raise Wrong(230001, "Your request contains an invalid request parameter, ext=invalid message_id.")
        if found.gone:
            raise Wrong(230011, "The message was recalled.")
        return found

    # --- the long connection ---

    async def _endpoint(self, request: web.Request) -> web.Response:
        asked = await request.json()
        if self.shut is not None:
            raise self.shut
        if self.revoked or (asked["AppID"], asked["AppSecret"]) != (APP, self.secret):
            raise Wrong(1000040345, "app_id or app_secret is invalid", 200)
        config = {"ReconnectCount": -1, "ReconnectInterval": 120, "ReconnectNonce": 30, "PingInterval": 1}
        url = f"ws://127.0.0.1:{self.port}/ws/v2?device_id=d1&service_id=7&ticket=t{next(self._numbers)}"
        return web.json_response({"code": 0, "msg": "ok", "data": {"URL": url, "ClientConfig": config}})

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.opened += 1
        self.sockets.append(socket)
        try:
            for told in list(self.kept.values()):
                if told["header"]["event_id"] not in self.acked:
                    self.tell(told, socket)
            async for message in socket:
                frame = FeishuFrame.read(message.data)
                if frame.header("type") == "ping":
                    self.pings += 1
                    pong = FeishuFrame(
                        service=frame.service, headers=(("type", "pong"),), payload=b'{"PingInterval":1}'
                    )
                    await socket.send_bytes(pong.written())
                else:
                    self.answers.append(frame)
                    if json.loads(frame.payload)["code"] == 200:
                        self.acked.add(self._frames[frame.header("message_id")])
        finally:
            self.sockets.remove(socket)
        return socket

    # --- calls ---

    async def _new_token(self, request: web.Request) -> web.Response:
        asked = await request.json()
        if self.revoked or asked != {"app_id": APP, "app_secret": self.secret}:
            raise Wrong(10014, "app secret invalid", 200)
        self.tokens += 1
        told = {"code": 0, "msg": "ok", "tenant_access_token": f"t-{self.tokens}", "expire": 7200}
        return web.json_response(told)

    def _known(self, handler: Any) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            if self.revoked or request.headers.get("Authorization") != f"Bearer t-{self.tokens}":
                raise NO_TOKEN
            asked = (
                await request.json()
                if request.content_type == "application/json" and request.can_read_body
                else {}
            )
            self.calls.append((request.method, request.path, asked))
            answer = await handler(request, asked)
            if isinstance(answer, web.StreamResponse):
                return answer
            return web.json_response({"code": 0, "msg": "success", "data": answer})

        return handle

    async def _info(self, request: web.Request, asked: Any) -> Any:
        bot = {
            "activate_status": 2,
            "app_name": "Hermes",
            "open_id": BOT,
            "avatar_url": "",
            "ip_white_list": [],
        }
        return web.json_response({"code": 0, "msg": "ok", "bot": bot})

    async def _create(self, request: web.Request, asked: Any) -> Any:
        chat = asked["receive_id"]
        if request.query["receive_id_type"] == "open_id":
            chat = PRIVATE if chat == ANN else f"oc_of{chat[3:]}"

        async def create() -> Any:
            return self._post(asked, chat)

        return await self.troubled(request, chat, create)

    async def _reply(self, request: web.Request, asked: Any) -> Any:
        number = request.match_info["id"]
        people = {
            told["event"]["message"]["message_id"]: told["event"]["message"]
            for told in self.kept.values()
            if "message" in told["event"]
        }
        chat = people[number]["chat_id"] if number in people else None
        if chat is None and number.startswith("om_root"):
            chat = asked.get("chat") or "oc_team00000000000001"
        chat = chat or self.find(number).chat

        async def reply() -> Any:
            return self._post(
                asked, chat, reply_to=number, thread=number if asked.get("reply_in_thread") else None
            )

        return await self.troubled(request, chat, reply)

    def _post(self, asked: Any, chat: str, **more: Any) -> Any:
        content = self._checked(asked["msg_type"], asked["content"])
        if len(asked.get("uuid", "")) > 50:
            raise Wrong(230001, "uuid")
        number = self._uuids.get(asked.get("uuid", ""))
        if number is None:
            number = f"om_sent{next(self._numbers):08d}"
            self.sent.append(Sent(ref=number, chat=chat, kind=asked["msg_type"], content=content, **more))
            if asked.get("uuid"):
                self._uuids[asked["uuid"]] = number
        return {
            "message_id": number,
            "msg_type": asked["msg_type"],
            "chat_id": chat,
            "create_time": "1793000000000",
        }

    def _checked(self, kind: str, raw: str) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(raw)
        if kind == "interactive":
            if len(json.dumps(raw, ensure_ascii=False).encode()) > MOST_CARD:
                raise Wrong(230025, "The length of the message content reaches its limit.")
            if content.get("schema") != "2.0" or content["config"].get("update_multi") is not True:
                raise Wrong(230099, "Failed to create card content, ext=ErrCode: 11310")
            for one in content["body"]["elements"]:
                if one["tag"] not in ("markdown", "div", "button"):
                    raise Wrong(230099, "Failed to create card content, ext=ErrCode: 200621")
                if one["tag"] == "markdown" and _has_foreign_picture(one["content"]):
                    # jxxghp/MoviePilot #5818, Tencent/WeKnora #2726
                    raise Wrong(
                        230099,
                        "Failed to create card content, ext=ErrCode: 200570; ErrMsg: invalid image keys",
                    )
                if one["tag"] == "markdown" and self.unshowable and self.unshowable in one["content"]:
                    raise Wrong(
                        230099,
                        "Failed to create card content, ext=ErrCode: 11310; ErrMsg: table number over limit",
                    )
        elif kind in KINDS and next(iter(content.values())) not in self.files:
            raise Wrong(234001, "Invalid request param.")
        return content

    async def _patch(self, request: web.Request, asked: Any) -> Any:
        one = self.find(request.match_info["id"])

        async def patch() -> Any:
            if one.kind != "interactive":
                raise Wrong(230001, "NOT a card")
            before, one.content = one.text, self._checked("interactive", asked["content"])
            one.edits += one.text != before
            return {}

        return await self.troubled(request, one.chat, patch)

    async def _get(self, request: web.Request, asked: Any) -> Any:
        number = request.match_info["id"]
        for one in (told["event"] for told in self.kept.values()):
            if one.get("message", {}).get("message_id") == number:
                whole = self._told(one["message"], one["sender"]["sender_id"]["open_id"])
                parts = [
                    {
                        **self._told(part["message"], part["sender"]["sender_id"]["open_id"]),
                        "upper_message_id": number,
                    }
                    for part in (told["event"] for told in self.forwarded.get(number, ()))
                ]
                return {"items": [whole, *parts]}
        one = self.find(number)
        sender = {"id": APP, "id_type": "app_id", "sender_type": "app", "tenant_key": "t"}
        body = {"content": json.dumps({"title": None, "elements": [[{"tag": "text", "text": one.text}]]})}
        return {"items": [{"message_id": one.ref, "msg_type": one.kind, "sender": sender, "body": body}]}

    @staticmethod
    def _told(message: dict[str, Any], person: str) -> dict[str, Any]:
        return {
            "message_id": message["message_id"],
            "msg_type": message["message_type"],
            "sender": {"id": person, "id_type": "open_id", "sender_type": "user", "tenant_key": "t"},
            "body": {"content": message["content"]},
        }

    async def _delete(self, request: web.Request, asked: Any) -> Any:
        self.find(request.match_info["id"]).gone = True
        return {}

    async def _upload(self, request: web.Request, asked: Any) -> Any:
        form = await request.post()
        picture = request.path.endswith("images")
        if picture and form["image_type"] != "message":
            raise Wrong(234001, "Invalid request param.")
        if not picture and form["file_type"] not in ("opus", "mp4", "pdf", "doc", "xls", "ppt", "stream"):
            raise Wrong(234001, "Invalid request param.")
        file = form["image" if picture else "file"]
        number = f"{'img' if picture else 'file'}_v2_{next(self._numbers)}"
        # The SDK sends files without a name, as it would a text.
        text = file.encode() if isinstance(file, str) else file
        self.files[number] = file.file.read() if isinstance(file, web.FileField) else bytes(text)
        return {"image_key" if picture else "file_key": number}

    async def _resource(self, request: web.Request, asked: Any) -> Any:
        key = request.match_info["key"]
        if key not in self.files or request.query["type"] not in ("image", "file"):
            raise Wrong(234003, "File not in msg.")
        return web.Response(body=self.files[key], content_type="application/octet-stream")


NO_TOKEN = Wrong(
    99991663, "Invalid access token for authorization. Please make a test attempt to obtain a new token."
)
