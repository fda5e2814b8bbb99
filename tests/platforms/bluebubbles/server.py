"""A BlueBubbles server: the part of its REST API that the adapter uses, as its sources say
(github.com/BlueBubblesApp/bluebubbles-server, packages/server/src/server/api/http/api/v1). It keeps all
messages, those we sent included, and rings webhooks once, without any signature."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web

from hermes.testing.platform_suite import Fault
from hermes.testing.served import FakeRefusal, Route, ServedFake

PASSWORD = "a pass&word of ours"
REACTIONS = {"love", "like", "dislike", "laugh", "emphasize", "question"}


class BlueError(FakeRefusal):
    def __init__(self, status: int, sort: str, words: str) -> None:
        super().__init__(words)
        self.status, self.sort, self.words = status, sort, words


FAULTS = {
    Fault.REVOKED: BlueError(401, "Authentication Error", "Unauthorized"),
    Fault.GONE: BlueError(500, "iMessage Error", "Chat does not exist!"),
}


@dataclass
class BlueBubbles(ServedFake):
    """The server. Tests write through `say`, and read `messages`."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    webhooks: list[dict[str, Any]] = field(default_factory=list)
    typing: list[str] = field(default_factory=list)
    read: list[str] = field(default_factory=list)
    reactions: dict[str, str] = field(default_factory=dict)
    helper: bool = True
    system: str = "15.1"
    chats: set[str] = field(default_factory=set)
    broken: int = 0
    """The error with which Messages sends nothing."""
    slow: float = 0.0
    """How long Messages takes for a message."""
    busy: set[str] = field(default_factory=set)
    """What is being sent, also after who asked for it has gone (its send cache)."""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    works: set[asyncio.Future[web.Response]] = field(default_factory=set)
    _last: int = 0
    _numbers: Any = field(default_factory=lambda: itertools.count(1))
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def routes(self) -> Iterable[Route]:
        yield "GET", "/api/v1/server/info", self._info
        yield "GET", "/api/v1/webhook", self._list_webhooks
        yield "POST", "/api/v1/webhook", self._add_webhook
        yield "POST", "/api/v1/message/query", self._query
        yield "POST", "/api/v1/message/text", self._text
        yield "POST", "/api/v1/message/attachment", self._attachment
        yield "POST", "/api/v1/message/react", self._react
        yield "GET", "/api/v1/message/{guid}", self._find
        yield "POST", "/api/v1/chat/{guid}/typing", self._typing
        yield "POST", "/api/v1/chat/{guid}/read", self._read
        yield "GET", "/api/v1/chat/{guid}", self._find_chat
        yield "GET", "/api/v1/attachment/{guid}/download", self._download

    def refused(self, refusal: BlueError) -> web.Response:
        error = {"type": refusal.sort, "message": refusal.words}
        body = {"status": refusal.status, "message": "See the error", "error": error}
        return web.json_response(body, status=refusal.status)

    def failed(self, fault: Fault) -> web.Response:
        return self.refused(FAULTS[fault])

    # --- people ---

    def say(self, chat: str, who: str, text: str | None, *, at: int = 0, **more: Any) -> dict[str, Any]:
        message = self.message(chat, text, at=at, isFromMe=False, **more)
        message["handle"] = {"address": who, "service": "iMessage", "country": "us"}
        self.messages.append(message)
        if self.is_up:
            for webhook in self.webhooks:
                self.start(self._ring_in_order(webhook["url"], message))
        return message

    async def _ring_in_order(self, url: str, message: dict[str, Any]) -> None:
        async with self._turn:
            await self.ring(url, message)

    def message(self, chat: str, text: str | None, *, at: int = 0, **more: Any) -> dict[str, Any]:
        # No two messages have the same time.
        self._last = max(self._last + 1, int(time.time() * 1000))
        return {
            "originalROWID": next(self._numbers),
            "guid": str(uuid.uuid4()).upper(),
            "text": text,
            "handle": None,
            "attachments": [],
            "subject": None,
            "error": 0,
            "dateCreated": at or self._last,
            "dateRead": None,
            "itemType": 0,
            "groupTitle": None,
            "associatedMessageGuid": None,
            "associatedMessageType": None,
            "threadOriginatorGuid": None,
            "isAudioMessage": False,
            "chats": [{"guid": chat, "style": 43 if ";+;" in chat else 45, "displayName": "Friends"}],
            **more,
        }

    async def ring(self, url: str, message: dict[str, Any]) -> None:
        with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError):
            async with aiohttp.ClientSession() as session:
                await session.post(url, json={"type": "new-message", "data": message})

    def keep_file(self, data: bytes, mime: str, name: str) -> dict[str, Any]:
        guid = f"at_0_{str(uuid.uuid4()).upper()}"
        self.files[guid] = data
        return {
            "guid": guid,
            "mimeType": mime,
            "transferName": name,
            "totalBytes": len(data),
            "hideAttachment": False,
        }

    # --- its answers ---

    def _admit(self, request: web.Request) -> None:
        asked = request.query
        if PASSWORD not in (asked.get("password"), asked.get("guid"), asked.get("token")):
            raise FAULTS[Fault.REVOKED]

    async def _info(self, request: web.Request) -> web.StreamResponse:
        self._admit(request)
        return _data({"server_version": "1.9.9", "os_version": self.system, "helper_connected": self.helper})

    async def _list_webhooks(self, request: web.Request) -> web.StreamResponse:
        self._admit(request)
        return _data(self.webhooks)

    async def _add_webhook(self, request: web.Request) -> web.StreamResponse:
        self._admit(request)
        told = await request.json()
        assert told["url"].startswith("http") and isinstance(told["events"], list)
        self.webhooks.append({"id": next(self._numbers), **told})
        return _data(self.webhooks[-1])

    async def _query(self, request: web.Request) -> web.StreamResponse:
        self._admit(request)
        asked = await request.json()
        assert asked["sort"] in ("ASC", "DESC") and 1 <= asked["limit"] <= 1000 and asked["offset"] >= 0
        found = [one for one in self.messages if one["dateCreated"] >= asked["after"]]
        found.sort(key=lambda one: one["dateCreated"], reverse=asked["sort"] == "DESC")
        return _data(found[asked["offset"] : asked["offset"] + asked["limit"]])

    async def _find(self, request: web.Request) -> web.StreamResponse:
        self._admit(request)
        for message in self.messages:
            if message["guid"] == request.match_info["guid"]:
                return _data(message)
        raise BlueError(404, "Database Error", "Message does not exist!")

    async def _find_chat(self, request: web.Request) -> web.StreamResponse:
        self._admit(request)
        if request.match_info["guid"] not in self.chats:
            raise BlueError(404, "Database Error", "Chat does not exist!")
        return _data({"guid": request.match_info["guid"]})

    async def _text(self, request: web.Request) -> web.StreamResponse:
        self._admit(request)
        told = await request.json()
        self.calls.append(("text", told))
        if told["method"] == "apple-script" and (not told.get("tempGuid") or not told["message"]):
            raise BlueError(400, "Validation Error", "A 'tempGuid' is required when sending via AppleScript")
        return await self._send(request, told, [])

    async def _attachment(self, request: web.Request) -> web.StreamResponse:
        self._admit(request)
        form = await request.post()
        file = form["attachment"]
        assert isinstance(file, web.FileField) and form["name"] and form["tempGuid"]
        told = {name: str(value) for name, value in form.items() if name != "attachment"}
        self.calls.append(("attachment", told))
        kept = self.keep_file(file.file.read(), file.content_type, file.filename)
        # It makes a sound of Messages' own of an MP3; anything else would be a voice message nobody can play.
        kept["voice"] = form["isAudioMessage"] == "true" and str(form["name"]).endswith(".mp3")
        return await self._send(request, {**told, "message": None}, [kept])

    async def _send(self, request: web.Request, told: dict[str, Any], files: list[Any]) -> web.StreamResponse:
        if told["tempGuid"] in self.busy:
            words = f"Message is already queued to be sent! (Temp GUID: {told['tempGuid']})"
            raise BlueError(400, "Validation Error", words)

        async def act() -> web.Response:
            self.busy.add(told["tempGuid"])
            task = asyncio.ensure_future(work())
            self.works.add(task)
            return await asyncio.shield(task)

        async def work() -> web.Response:
            await asyncio.sleep(self.slow)
            self.busy.discard(told["tempGuid"])
            answered = told.get("selectedMessageGuid")
            more = {"attachments": files, "threadOriginatorGuid": answered}
            message = self.message(told["chatGuid"], told["message"], isFromMe=True, **more)
            if self.broken:
                error = {"type": "iMessage Error", "message": "Message failed to send!"}
                words = "Message sent with an error. See attached message"
                data = {**message, "error": self.broken}
                told_so = {"status": 500, "message": words, "error": error, "data": data}
                return web.json_response(told_so, status=500)
            self.messages.append(message)
            return _data({**message, "tempGuid": told["tempGuid"]})

        response: web.StreamResponse = await self.troubled(request, told["chatGuid"], act)
        return response

    async def _react(self, request: web.Request) -> web.StreamResponse:
        self._admit(request)
        told = await request.json()
        name = told["reaction"]
        if name.removeprefix("-") not in REACTIONS:
            raise BlueError(400, "Validation Error", "The selected reaction is invalid.")
        if name.startswith("-"):
            self.reactions.pop(told["selectedMessageGuid"], None)
        else:
            self.reactions[told["selectedMessageGuid"]] = name
        return _data(self.message(told["chatGuid"], None, isFromMe=True))

    async def _typing(self, request: web.Request) -> web.StreamResponse:
        self._admit(request)
        self.typing.append(request.match_info["guid"])
        return _data(None)

    async def _read(self, request: web.Request) -> web.StreamResponse:
        self._admit(request)
        self.read.append(request.match_info["guid"])
        return _data(None)

    async def _download(self, request: web.Request) -> web.StreamResponse:
        self._admit(request)
        if request.match_info["guid"] not in self.files:
            raise BlueError(404, "Database Error", "Attachment does not exist!")
        return web.Response(body=self.files[request.match_info["guid"]])


def _data(data: Any) -> web.Response:
    return web.json_response({"status": 200, "message": "Success", "data": data})
