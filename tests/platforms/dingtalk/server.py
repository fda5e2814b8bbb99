"""A DingTalk with one app: Stream mode, the robot interface, AI cards and files, as DingTalk's documents and
its SDKs (dingtalk-stream 0.24.3) describe them.

What is not acknowledged comes again for a minute (DingTalk-Real-AI/dingtalk-openclaw-connector #302,
soimy/openclaw-channel-dingtalk #308, #390): DingTalk waits 16 to 60 seconds for that, here it comes with the
next connection. `batchSend` says yes and lists in passing who gets nothing. A file is got by a code, which
gives an address. A card that was recalled takes updates without a word."""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from hermes.domain.chats.message import MediaKind
from hermes.testing.platform_suite import Fault
from hermes.testing.served import FakeRefusal, Handler, Route, ServedFake
from tests.platforms.dingtalk.samples import ROBOT, TOPIC, frame

SECRET = "q7Zr-secret_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOP"
MOST_PARAM, KEPT_SECONDS = 15_000, 60.0
TEMPLATES = {
    "sampleText": {"content"},
    "sampleMarkdown": {"title", "text"},
    "sampleImageMsg": {"photoURL"},
    "sampleFile": {"mediaId", "fileName", "fileType"},
}
STREAMED = {"outTrackId", "guid", "key", "content", "isFull", "isFinalize", "isError"}


class Wrong(FakeRefusal):
    def __init__(self, status: int, code: str, message: str = "") -> None:
        super().__init__(code)
        self.status, self.code, self.message = status, code, message


NO_TOKEN = Wrong(400, "InvalidAuthentication", "不合法的access_token")
NO_LOGIN = Wrong(401, "authFailed", "鉴权失败")
NO_APP = Wrong(400, "invalidClientIdOrSecret", "无效的clientId或者clientSecret")


@dataclass
class Sent:
    """A message of the robot's, or a card."""

    ref: str
    chat: str
    text: str = ""
    file: tuple[MediaKind, bytes] | None = None
    edits: int = 0
    status: str = ""
    done: bool = False
    gone: bool = False


@dataclass
class DingTalk(ServedFake):
    secret: str = SECRET
    sent: list[Sent] = field(default_factory=list)
    cards: dict[str, Sent] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    media: dict[str, bytes] = field(default_factory=dict)
    calls: list[tuple[str, str, Any]] = field(default_factory=list)
    sockets: list[web.WebSocketResponse] = field(default_factory=list)
    people: set[str] | None = None
    """Those that the robot may write to; everybody if None."""
    held_back: set[str] = field(default_factory=set)
    """Those that have had too many messages."""
    revoked: bool = False
    shut: Wrong | None = None
    """Why nobody may open a stream."""
    forbidden: str = ""
    """The beginning of paths that the app has no permission for."""
    opened: int = 0
    tokens: int = 0
    acked: set[str] = field(default_factory=set)
    acks: list[dict[str, Any]] = field(default_factory=list)
    kept: dict[str, tuple[float, dict[str, Any]]] = field(default_factory=dict)
    _deliveries: dict[str, str] = field(default_factory=dict)
    _tickets: set[str] = field(default_factory=set)
    _numbers: Any = field(default_factory=lambda: itertools.count(1))

    def routes(self) -> Iterable[Route]:
        robot, card = "/v1.0/robot", "/v1.0/card"
        yield "POST", "/v1.0/gateway/connections/open", self._open
        yield "GET", "/connect", self._connect
        yield "POST", "/v1.0/oauth2/accessToken", self._new_token
        yield "POST", f"{robot}/oToMessages/batchSend", self._known(self._send_private)
        yield "POST", f"{robot}/groupMessages/send", self._known(self._send_group)
        yield "POST", f"{robot}/otoMessages/batchRecall", self._known(self._recall)
        yield "POST", f"{robot}/groupMessages/recall", self._known(self._recall)
        yield "POST", f"{robot}/messageFiles/download", self._known(self._download)
        yield "POST", f"{card}/instances/createAndDeliver", self._known(self._card)
        yield "POST", f"{card}/instances", self._known(self._make_card)
        yield "POST", f"{card}/instances/deliver", self._known(self._deliver_card)
        yield "PUT", f"{card}/instances", self._known(self._put_card)
        yield "PUT", f"{card}/streaming", self._known(self._stream)
        yield "POST", "/media/upload", self._upload
        yield "GET", "/files/{code}", self._file
        yield "POST", "/robot/sendBySession", self._by_session

    def refused(self, refusal: Wrong) -> web.Response:
        told = {
            "requestid": "ED203550-DBBC-7C58-9504-9FA6D4444F17",
            "code": refusal.code,
            "message": refusal.message,
        }
        return web.json_response(told, status=refusal.status)

    def failed(self, fault: Fault) -> web.Response:
        match fault:
            case Fault.TOO_FAST:
                raise Wrong(403, "Forbidden.AccessDenied.QpsLimitForApi", "请求过快")
            case Fault.TOO_FAST_ALL:
                raise Wrong(403, "Forbidden.AccessDenied.QpsLimitForAppkeyAndApi", "请求过快")
            case Fault.REVOKED:
                self.revoked = True
                raise NO_TOKEN
            case Fault.TOO_LONG:
                raise Wrong(400, "invalidParameter.msgParam.invalid", "msgParam")
            case _:
                raise Wrong(400, "invalidParameter.userIds.invalid", "userIds")

    def calm(self) -> None:
        super().calm()
        self.revoked = False

    # --- people ---

    def say(self, message: dict[str, Any]) -> None:
        message["createAt"] = int(time.time() * 1000)
        self.kept[message["msgId"]] = (time.monotonic(), message)
        self.tell(message)

    def tell(self, message: dict[str, Any], socket: web.WebSocketResponse | None = None) -> None:
        for one in [socket] if socket is not None else self.sockets[-1:]:
            number = f"c0a8_{next(self._numbers)}"
            self._deliveries[number] = message["msgId"]
            self.start(self._tell(one, frame(message, TOPIC, number=number)))

    def system(self, topic: str, data: Any) -> None:
        for one in self.sockets[-1:]:
            self.start(self._tell(one, frame(data, topic, "SYSTEM", f"sys_{next(self._numbers)}")))

    async def _tell(self, socket: web.WebSocketResponse, told: dict[str, Any]) -> None:
        with contextlib.suppress(ConnectionError, RuntimeError):
            await socket.send_str(json.dumps(told, ensure_ascii=False))

    # --- the stream ---

    async def _open(self, request: web.Request) -> web.Response:
        asked = await request.json()
        self.calls.append((request.method, request.path, asked))
        if self.shut is not None:
            raise self.shut
        if self.revoked or (asked["clientId"], asked["clientSecret"]) != (ROBOT, self.secret):
            raise NO_LOGIN
        if not any(one == {"type": "CALLBACK", "topic": TOPIC} for one in asked["subscriptions"]):
            raise Wrong(400, "param.error", "subscriptions")
        ticket = f"t+{next(self._numbers)}/="
        self._tickets.add(ticket)
        return web.json_response({"endpoint": f"ws://127.0.0.1:{self.port}/connect", "ticket": ticket})

    async def _connect(self, request: web.Request) -> web.StreamResponse:
        ticket = request.query.get("ticket", "")
        if ticket not in self._tickets:
            return web.Response(status=401)
        self._tickets.discard(ticket)
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.opened += 1
        self.sockets.append(socket)
        try:
            for at, message in list(self.kept.values()):
                if message["msgId"] not in self.acked and time.monotonic() - at < KEPT_SECONDS:
                    self.tell(message, socket)
            async for one in socket:
                told = json.loads(one.data)
                self.acks.append(told)
                if told["code"] == 200 and isinstance(told["data"], str):
                    self.acked.add(self._deliveries.get(told["headers"]["messageId"], ""))
        finally:
            self.sockets.remove(socket)
        return socket

    # --- calls ---

    async def _new_token(self, request: web.Request) -> web.Response:
        asked = await request.json()
        if self.revoked or asked != {"appKey": ROBOT, "appSecret": self.secret}:
            raise NO_APP
        self.tokens += 1
        return web.json_response({"accessToken": f"token-{self.tokens}", "expireIn": 7200})

    def _known(self, handler: Any) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            if self.revoked or request.headers.get("x-acs-dingtalk-access-token") != f"token-{self.tokens}":
                raise NO_TOKEN
            asked = await request.json()
            self.calls.append((request.method, request.path, asked))
            if self.forbidden and request.path.startswith(self.forbidden):
                raise Wrong(403, "Forbidden.AccessDenied.AccessTokenPermissionDenied", "Card.Instance.Write")
            answer = await handler(request, asked)
            return answer if isinstance(answer, web.StreamResponse) else web.json_response(answer)

        return handle

    def _checked(self, asked: dict[str, Any]) -> Sent:
        if asked["robotCode"] != ROBOT:
            raise Wrong(400, "robot not exist", "robotCode")
        if len(asked["msgParam"].encode()) > MOST_PARAM:
            raise Wrong(400, "invalidParameter.msgParam.invalid", "msgParam")
        param = json.loads(asked["msgParam"])
        if param.keys() != TEMPLATES[asked["msgKey"]] or not all(
            isinstance(one, str) for one in param.values()
        ):
            raise Wrong(400, "invalidParameter.msgParam.invalid", "msgParam")
        one = Sent(
            ref=f"pqk{next(self._numbers)}=", chat=asked.get("openConversationId") or asked["userIds"][0]
        )
        match asked["msgKey"]:
            case "sampleImageMsg":
                one.file = (MediaKind.IMAGE, self.media[param["photoURL"]])
            case "sampleFile":
                one.file = (MediaKind.FILE, self.media[param["mediaId"]])
            case "sampleMarkdown":
                one.text = param["text"]
        return one

    async def _send_private(self, request: web.Request, asked: dict[str, Any]) -> Any:
        whom = asked["userIds"][0]

        async def send() -> Any:
            one = self._checked(asked)
            unknown = self.people is not None and whom not in self.people
            if not unknown and whom not in self.held_back:
                self.sent.append(one)
            return {
                "processQueryKey": one.ref,
                "invalidStaffIdList": [whom] if unknown else [],
                "flowControlledStaffIdList": [whom] if whom in self.held_back else [],
            }

        return await self.troubled(request, whom, send)

    async def _send_group(self, request: web.Request, asked: dict[str, Any]) -> Any:
        async def send() -> Any:
            one = self._checked(asked)
            self.sent.append(one)
            return {"processQueryKey": one.ref}

        return await self.troubled(request, asked["openConversationId"], send)

    async def _recall(self, request: web.Request, asked: dict[str, Any]) -> Any:
        done, failed = [], {}
        for key in asked["processQueryKeys"]:
            found = [one for one in self.sent if one.ref.endswith(key) and not one.gone]
            if found and "group" in request.path and found[0].chat != asked["openConversationId"]:
                found = []
            for one in found:
                one.gone = True
            if found:
                done.append(key)
            else:
                failed[key] = "recall failed"
        return {"successResult": done, "failedResult": failed}

    # --- cards ---

    async def _card(self, request: web.Request, asked: dict[str, Any]) -> Any:
        chat = asked["openSpaceId"].partition(".card//")[2].partition(".")[2]

        async def make() -> Any:
            if not asked["cardTemplateId"] or not asked["outTrackId"]:
                raise Wrong(400, "param.outTrackIdEmpty")
            self._new_card(asked)
            return self._show_card(asked)

        return await self.troubled(request, chat, make)

    def _new_card(self, asked: dict[str, Any]) -> Sent:
        track = asked["outTrackId"]
        if track in self.cards:
            raise Wrong(400, "param.duplicateOutTrackId", track)
        param = asked["cardData"]["cardParamMap"]
        one = self.cards[track] = Sent(ref=f"card:{track}:", chat="", status=param.get("flowStatus", ""))
        return one

    def _show_card(self, asked: dict[str, Any]) -> Any:
        space, _, chat = asked["openSpaceId"].removeprefix("dtv1.card//").partition(".")
        model = {"IM_GROUP": "imGroupOpenDeliverModel", "IM_ROBOT": "imRobotOpenDeliverModel"}[space]
        if model not in asked or (space == "IM_GROUP" and asked[model]["robotCode"] != ROBOT):
            raise Wrong(400, "param.openSpaceModelInvalid")
        one = self.cards[asked["outTrackId"]]
        one.chat, carrier = chat, f"pqk{next(self._numbers)}="
        shown = self.people is None or space == "IM_GROUP" or chat in self.people
        if shown:
            one.ref += carrier
            self.sent.append(one)
        told = {
            "spaceType": space,
            "spaceId": chat,
            "success": shown,
            "errorMsg": "" if shown else "no such user",
        }
        results = [{**told, "carrierId": carrier if shown else None}]
        return {"success": True, "result": {"outTrackId": asked["outTrackId"], "deliverResults": results}}

    async def _make_card(self, request: web.Request, asked: dict[str, Any]) -> Any:
        self._new_card(asked)
        return {"success": True, "result": asked["outTrackId"]}

    async def _deliver_card(self, request: web.Request, asked: dict[str, Any]) -> Any:
        return {"success": True, "result": self._show_card(asked)["result"]["deliverResults"]}

    def _found(self, track: str) -> Sent:
        if track not in self.cards:
            raise Wrong(400, "param.cardNotExist", track)
        return self.cards[track]

    async def _put_card(self, request: web.Request, asked: dict[str, Any]) -> Any:
        one = self._found(asked["outTrackId"])
        param = asked["cardData"]["cardParamMap"]

        async def put() -> Any:
            if not all(isinstance(value, str) for value in param.values()):
                raise Wrong(400, "param.cardParamMap.invalid")
            one.text = param.get("msgContent", one.text)
            one.status = param.get("flowStatus", one.status)
            return {"success": True, "result": True}

        return await self.troubled(request, one.chat, put)

    async def _stream(self, request: web.Request, asked: dict[str, Any]) -> Any:
        one = self._found(asked["outTrackId"])

        async def stream() -> Any:
            if asked.keys() != STREAMED or asked["isFull"] is not True:
                raise Wrong(400, "param.invalid")
            one.edits += asked["content"] != one.text
            one.text, one.done = asked["content"], asked["isFinalize"]
            return {"success": True, "result": True}

        return await self.troubled(request, one.chat, stream)

    # --- files ---

    async def _upload(self, request: web.Request) -> web.Response:
        if self.revoked or request.query["access_token"] != f"token-{self.tokens}":
            return web.json_response({"errcode": 40014, "errmsg": "不合法的access_token"})
        form = await request.post()
        file = form["media"]
        assert isinstance(file, web.FileField)
        number = f"@lALP{next(self._numbers)}"
        self.media[number] = file.file.read()
        told = {"errcode": 0, "errmsg": "ok", "media_id": number, "created_at": 1793000000000}
        return web.json_response({**told, "type": request.query["type"]})

    async def _download(self, request: web.Request, asked: dict[str, Any]) -> Any:
        if asked["downloadCode"] not in self.files:
            raise Wrong(400, "unknownError", "downloadCode")
        number = list(self.files).index(asked["downloadCode"])
        return {"downloadUrl": f"http://127.0.0.1:{self.port}/files/{number}"}

    async def _file(self, request: web.Request) -> web.Response:
        return web.Response(body=list(self.files.values())[int(request.match_info["code"])])

    async def _by_session(self, request: web.Request) -> web.Response:
        """What the address in each message is for; our adapter does without it."""
        asked = json.loads(await request.read())
        words = asked[asked["msgtype"]]
        self.sent.append(Sent(ref="session", chat="session", text=words.get("content") or words["text"]))
        return web.json_response({"errcode": 0, "errmsg": "ok"})
