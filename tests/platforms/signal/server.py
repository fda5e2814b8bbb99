"""A signal-cli with one account, in both dialects: its own daemon (JSON-RPC and a stream of events, as its
sources say at 0.14.6) and the REST wrapper around it (as the schema in signalbot 2.2.1 says).

What people write waits until somebody listens, and is handed over once. Errors of the daemon come with status
200 and the numbers of its JSON-RPC."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from hermes.testing.platform_suite import Fault
from hermes.testing.served import FakeRefusal, Route, ServedFake

NUMBER, ANN, GROUP_ID = "+15550000001", "+15551234567", "dGhlIGdyb3VwIG9mIGZyaWVuZHMgaGVyZSA9"
UUIDS = {NUMBER: "0a0a0a0a-0000-4000-8000-000000000001", ANN: "a1b2c3d4-0000-4000-8000-0000000000aa"}
CONTACTS = [{"number": number, "uuid": uuid, "name": ""} for number, uuid in UUIDS.items()]
START = 1_790_000_000_000
LONGEST_STRING = 20_000_000


class RpcError(FakeRefusal):
    """An error answer: the daemon's number and words, and how each recipient fared."""

    def __init__(self, code: int, message: str, results: list[dict[str, Any]] | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.results = code, message, results

    @property
    def tokens(self) -> list[str]:
        return [one["token"] for one in self.results or () if "token" in one]

    @property
    def error(self) -> dict[str, Any]:
        data = None if self.results is None else {"response": {"timestamp": START, "results": self.results}}
        return {"code": self.code, "message": self.message, "data": data}


def _failed(sort: str, **more: Any) -> list[dict[str, Any]]:
    return [{"recipientAddress": {"number": ANN, "uuid": UUIDS[ANN], "username": None}, "type": sort, **more}]


FAULTS = {
    Fault.TOO_FAST: RpcError(
        -5, "Failed to send message due to rate limiting", _failed("RATE_LIMIT_FAILURE", retryAfterSeconds=3)
    ),
    Fault.REVOKED: RpcError(-1, "User +15550000001 is not registered."),
    Fault.GONE: RpcError(-1, f"The user {ANN} is not registered."),
    Fault.TOO_LONG: RpcError(-1, "Failed to send message: message too long"),
}


@dataclass
class SentSignal:
    chat: str
    text: str
    timestamp: int
    files: tuple[tuple[str, bytes], ...] = ()
    quoted: int | None = None
    voice: bool = False


@dataclass
class Signal(ServedFake):
    """The program. Tests write through `say`, and read `sent`."""

    sent: list[SentSignal] = field(default_factory=list)
    typing: list[str] = field(default_factory=list)
    reactions: dict[tuple[str, int, str], str] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    accounts: list[str] = field(default_factory=lambda: [NUMBER])
    mode: str = "json-rpc"
    single: bool = False
    """Whether it was started for one account (-a)."""
    uploads: float = 0.0
    """How long it passes files on."""
    lists: bool = True
    """Newer wrappers answer a send with a list."""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    handed: int = 0
    waiting: list[dict[str, Any]] = field(default_factory=list)
    _bell: asyncio.Event = field(default_factory=asyncio.Event)
    _times: Any = field(default_factory=lambda: itertools.count(START + 1))

    def routes(self) -> Iterable[Route]:
        yield "GET", "/api/v1/check", self._check
        yield "POST", "/api/v1/rpc", self._rpc
        yield "GET", "/api/v1/events", self._events
        yield "GET", "/v1/health", self._health
        yield "GET", "/v1/about", self._about
        yield "GET", "/v1/accounts", self._accounts
        yield "GET", "/v1/receive/{number}", self._receive
        yield "GET", "/v1/contacts/{number}", self._contacts
        yield "POST", "/v2/send", self._rest_send
        yield "PUT", "/v1/typing-indicator/{number}", self._rest_typing
        yield "POST", "/v1/reactions/{number}", self._rest_react
        yield "DELETE", "/v1/reactions/{number}", self._rest_react
        yield "GET", "/v1/attachments/{id}", self._rest_file

    def refused(self, refusal: RpcError) -> web.Response:
        status = 429 if refusal.code == -5 else 400
        headers = {"Retry-After": "3"} if status == 429 else {}
        told = {"error": refusal.message, **({"challenge_tokens": refusal.tokens} if refusal.tokens else {})}
        return web.json_response(told, status=status, headers=headers)

    def failed(self, fault: Fault) -> web.Response:
        raise FAULTS[fault]

    # --- people ---

    def say(self, text: str | None, *, who: str = ANN, group: bool = False, **more: Any) -> int:
        """A person does something: `more` are further parts of the message."""
        sent = next(self._times)
        data: dict[str, Any] = {"timestamp": sent, "message": text, "expiresInSeconds": 0, "viewOnce": False}
        if group:
            data["groupInfo"] = {
                "groupId": GROUP_ID,
                "groupName": "Friends",
                "revision": 3,
                "type": "DELIVER",
            }
        self.tell(envelope(who, sent, dataMessage={**data, **more}))
        return sent

    def tell(self, event: dict[str, Any]) -> None:
        self.waiting.append(event)
        self._bell.set()

    def keep_file(self, data: bytes, mime: str, name: str | None) -> dict[str, Any]:
        id = f"f{len(self.files)}x9Z.bin"
        self.files[id] = data
        sizes = {"size": len(data), "width": None, "height": None, "caption": None}
        return {"contentType": mime, "filename": name, "id": id, **sizes, "isVoiceNote": mime == "audio/aac"}

    async def _next(self, request: web.Request) -> dict[str, Any]:
        """Handed over to who listens. The real one notices that somebody left when it writes to them the next
        time, and what it writes then is lost; this one notices at once."""
        while not self.waiting:
            self._bell.clear()
            await self._bell.wait()
        await asyncio.sleep(0.01)
        if request.transport is None or request.transport.is_closing():
            raise ConnectionResetError
        self.handed += 1
        return self.waiting.pop(0)

    # --- the daemon ---

    async def _check(self, request: web.Request) -> web.StreamResponse:
        return web.Response()

    async def _events(self, request: web.Request) -> web.StreamResponse:
        if request.query.get("account", NUMBER) not in self.accounts:
            return web.Response(status=400)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            while True:
                try:
                    event = await asyncio.wait_for(self._next(request), 15)
                except TimeoutError:
                    await response.write(b":\n")
                    continue
                await response.write(f"event:receive\ndata:{json.dumps(event)}\n\n".encode())
        return response

    async def _rpc(self, request: web.Request) -> web.StreamResponse:
        if not request.content_type.startswith("application/json"):
            return web.Response(status=415)
        try:
            asked = json.loads(await request.read())
        except ValueError:
            return _answer(None, error={"code": -32700, "message": "Unable to parse json", "data": None})
        params, method = asked.get("params") or {}, asked["method"]
        if any(len(file) > LONGEST_STRING for file in params.get("attachments", ())):
            # Its reader of JSON gives up, and nobody catches that (signal-cli #2127).
            return _answer(
                None,
                error={"code": -32603, "message": "An internal server error has occurred.", "data": None},
            )
        self.calls.append((method, params))
        try:
            return await self._act(request, asked["id"], method, params)
        except RpcError as refusal:
            return _answer(asked["id"], error=refusal.error)

    async def _act(self, request: web.Request, id: Any, method: str, params: dict[str, Any]) -> Any:
        if method == "listAccounts":
            if self.single:
                raise RpcError(-32601, "Method not implemented")
            return _answer(id, result=[{"number": number} for number in self.accounts])
        if method == "version":
            return _answer(id, result={"version": "0.14.6"})
        if method not in ("listContacts", "send", "sendTyping", "sendReaction", "getAttachment"):
            raise RpcError(-32601, "Method not implemented")
        if "account" not in params:
            raise RpcError(-32602, "Method requires valid account parameter")
        if params["account"] not in self.accounts:
            raise RpcError(-32602, "Specified account does not exist")
        if method == "listContacts":
            return _answer(id, result=[one for one in CONTACTS if one["number"] in params["recipient"]])
        group = params.get("groupId")
        chat = f"group.{group}" if group else (params.get("recipient") or [""])[0]
        if method == "sendTyping":
            self.typing.append(chat)
            return _answer(id, result={"timestamp": next(self._times), "results": []})
        if method == "sendReaction":
            target = params["targetTimestamp"], params["targetAuthor"]
            self.react(chat, *target, params["emoji"], params.get("remove", False))
            return _answer(id, result={"timestamp": next(self._times), "results": []})
        if method == "getAttachment":
            if ("recipient" in params) == ("groupId" in params) or isinstance(params.get("recipient"), list):
                raise RpcError(-1, "one of recipient, groupId")
            if params["id"] not in self.files:
                raise RpcError(-1, f"Could not find attachment with ID: {params['id']}")
            return _answer(id, result={"data": base64.b64encode(self.files[params["id"]]).decode()})

        async def act() -> web.Response:
            files = tuple(read_file(file) for file in params.get("attachments", ()))
            await asyncio.sleep(self.uploads if files else 0.0)
            voice, quoted = params.get("voiceNote") is True, params.get("quoteTimestamp")
            sent = self.take(chat, params.get("message", ""), files, quoted, voice=voice)
            results = [{"recipientAddress": {"number": chat, "uuid": None}, "type": "SUCCESS"}]
            return _answer(id, result={"timestamp": sent, "results": results})

        return await self.troubled(request, chat, act)

    def react(self, chat: str, sent: int, author: str, emoji: str, remove: bool) -> None:
        if remove:
            self.reactions.pop((chat, sent, author), None)
        else:
            self.reactions[chat, sent, author] = emoji

    def take(
        self,
        chat: str,
        text: str,
        files: tuple[tuple[str, bytes], ...],
        quoted: int | None,
        *,
        voice: bool = False,
    ) -> int:
        if not text and not files:
            raise RpcError(-1, "Sending an empty message is not possible")
        sent = next(self._times)
        self.sent.append(SentSignal(chat, text, sent, files, quoted, voice))
        return sent

    # --- the wrapper ---

    async def _health(self, request: web.Request) -> web.StreamResponse:
        return web.Response(status=204)

    async def _about(self, request: web.Request) -> web.StreamResponse:
        about = {"versions": ["v1", "v2"], "build": 2, "mode": self.mode, "version": "0.95"}
        return web.json_response({**about, "capabilities": {"v2/send": ["quotes", "mentions"]}})

    async def _accounts(self, request: web.Request) -> web.StreamResponse:
        return web.json_response(self.accounts)

    async def _contacts(self, request: web.Request) -> web.StreamResponse:
        assert request.query["all_recipients"] == "true"
        return web.json_response(CONTACTS)

    async def _receive(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        with contextlib.suppress(ConnectionError):
            while not socket.closed:
                await socket.send_str(json.dumps(await self._next(request)))
        return socket

    async def _rest_send(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        self.calls.append(("v2/send", asked))
        chat = unwrapped(asked["recipients"][0])
        files = tuple(read_file(file) for file in asked.get("base64_attachments") or ())

        async def act() -> web.Response:
            await asyncio.sleep(self.uploads if files else 0.0)
            sent = self.take(chat, asked["message"], files, asked.get("quote_timestamp"))
            answer = {"timestamp": str(sent)}
            return web.json_response([answer] if self.lists else answer, status=201)

        response: web.StreamResponse = await self.troubled(request, chat, act)
        return response

    async def _rest_typing(self, request: web.Request) -> web.StreamResponse:
        self.typing.append(unwrapped((await request.json())["recipient"]))
        return web.Response(status=204)

    async def _rest_react(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        remove, chat = request.method == "DELETE", unwrapped(asked["recipient"])
        self.react(chat, asked["timestamp"], asked["target_author"], asked["reaction"], remove)
        return web.Response(status=204)

    async def _rest_file(self, request: web.Request) -> web.StreamResponse:
        if request.match_info["id"] not in self.files:
            return web.json_response({"error": "No attachment with such an id found"}, status=404)
        return web.Response(body=self.files[request.match_info["id"]])


def envelope(who: str, sent: int, **more: Any) -> dict[str, Any]:
    uuid = UUIDS.get(who, f"a1b2c3d4-0000-4000-8000-{who[-12:].removeprefix('+').zfill(12)}")
    told = {
        "source": who,
        "sourceNumber": who,
        "sourceUuid": uuid,
        "sourceName": "Ann Other",
        "sourceDevice": 1,
        "timestamp": sent,
        "serverReceivedTimestamp": sent + 3,
        "serverDeliveredTimestamp": sent + 4,
        **more,
    }
    return {"envelope": told, "account": NUMBER}


def read_file(address: str) -> tuple[str, bytes]:
    """The type and the bytes of a file in an address (data:…)."""
    head, _, data = address.partition(";base64,")
    mime, _, name = head.removeprefix("data:").partition(";filename=")
    assert address.startswith("data:") and mime and unquote(name)
    return mime, base64.b64decode(data, validate=True)


def unwrapped(recipient: str) -> str:
    if not recipient.startswith("group."):
        return recipient
    return "group." + base64.b64decode(recipient.removeprefix("group."), validate=True).decode()


def _answer(id: Any, **more: Any) -> web.Response:
    return web.json_response({"jsonrpc": "2.0", **more, "id": id})
