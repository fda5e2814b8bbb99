"""A Slack workspace with one app in it: the part of the Web API, of Socket Mode and of the Events API that
the adapter uses, as docs.slack.dev describes them.

What only reads takes its parameters as a form or in the query and not as JSON; answers are `ok` or `error`
with the status 200, and 429 with `Retry-After`. An event that nobody acknowledges is not kept: by a socket it
comes once, by a call four times."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import aiohttp
from aiohttp import web

from hermes.entry.platforms.slack.api import signature
from hermes.testing.platform_suite import Fault
from hermes.testing.served import Route, ServedFake
from tests.platforms.slack.methods import Methods, Wrong

TOKEN = "xoxb-1111111111-2222222222-theFakeBotTokenOfSlack"
APP_TOKEN = "xapp-1-A0FAKEAPP01-3333333333-theFakeAppToken"
SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
SENDS = frozenset(
    {
        "chat.postMessage",
        "chat.startStream",
        "chat.appendStream",
        "chat.stopStream",
        "chat.update",
        "files.completeUploadExternal",
    }
)
JSON_TAKERS = (
    "chat.",
    "reactions.add",
    "reactions.remove",
    "files.complete",
    "conversations.open",
    "assistant.",
)
TRIES = 4


@dataclass
class Slack(Methods, ServedFake):
    """The service. Tests write through `say`, and read `messages`."""

    base_path = "/api"
    token: str = TOKEN
    app_token: str = APP_TOKEN
    secret: str = SECRET
    events_url: str = ""
    """Where events are brought, instead of by a socket."""
    events: list[dict[str, Any]] = field(default_factory=list)
    acked: set[str] = field(default_factory=set)
    answers: list[dict[str, Any]] = field(default_factory=list)
    """What came back for envelopes, as it came."""
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once somebody has listened."""
    asides: list[dict[str, Any]] = field(default_factory=list)
    """Answers to slash commands that only who gave them sees."""
    opened: int = 0
    greets: bool = True
    socket_mode: bool = True
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    sockets: list[web.WebSocketResponse] = field(default_factory=list)
    _envelopes: dict[str, str] = field(default_factory=dict)
    _queue: list[tuple[str, dict[str, Any], str]] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _tickets: set[str] = field(default_factory=set)
    _event_numbers: Any = field(default_factory=lambda: itertools.count(1))

    # --- its life ---

    def routes(self) -> Iterable[Route]:
        yield "*", "/api/{method}", self._serve
        yield "POST", "/upload/v1/{file}", self._upload
        yield "GET", "/files-pri/{file}/download/{name}", self._download
        yield "GET", "/link", self._link
        yield "POST", "/commands/T0/1/x", self._respond

    async def up(self) -> None:
        await super().up()
        self.start(self._call())

    def cut(self) -> None:
        self.sockets.clear()
        super().cut()

    # --- what happens is told ---

    def tell(self, event: dict[str, Any]) -> dict[str, Any]:
        """An event, to whoever listens now."""
        payload = {
            "token": "XXYYZZ",
            "team_id": self.team,
            "api_app_id": "A0FAKEAPP01",
            "event": {"event_ts": event.get("ts", self.moment()), **event},
            "type": "event_callback",
            "event_id": f"Ev{next(self._event_numbers):08d}",
            "event_time": int(time.time()),
            "authorizations": [
                {
                    "enterprise_id": None,
                    "team_id": self.team,
                    "user_id": self.bot_user,
                    "is_bot": True,
                    "is_enterprise_install": False,
                }
            ],
            "is_ext_shared_channel": False,
            "event_context": "4-fake",
        }
        self.events.append(payload)
        self.deliver("events_api", payload, payload["event_id"])
        return payload

    def deliver(self, sort: str, payload: dict[str, Any], number: str) -> None:
        if self.events_url:
            self._queue.append((sort, payload, number))
            self._news.set()
        elif self.sockets:
            envelope = f"env-{next(self._event_numbers)}"
            self._envelopes[envelope] = number
            told = {
                "envelope_id": envelope,
                "payload": payload,
                "type": sort,
                "accepts_response_payload": sort != "events_api",
            }
            if sort == "events_api":
                told |= {"retry_attempt": 0, "retry_reason": ""}
            self._send(self.sockets[-1], told)

    def _send(self, socket: web.WebSocketResponse, told: dict[str, Any]) -> None:
        async def send() -> None:
            with contextlib.suppress(ConnectionError, RuntimeError):
                await socket.send_json(told)

        self.start(send())

    def disconnect(self, reason: str) -> None:
        """Slack wants another connection, or none."""
        for socket in self.sockets:
            self._send(socket, {"type": "disconnect", "reason": reason, "debug_info": {"host": "fake"}})
        self.sockets.clear()

    async def _link(self, request: web.Request) -> web.StreamResponse:
        ticket = request.query.get("ticket", "")
        if ticket not in self._tickets:
            return web.Response(status=403)
        self._tickets.discard(ticket)
        socket = web.WebSocketResponse(heartbeat=10.0)
        await socket.prepare(request)
        hello = {
            "type": "hello",
            "num_connections": len(self.sockets) + 1,
            "debug_info": {"host": "applink-fake", "build_number": 42, "approximate_connection_time": 18060},
            "connection_info": {"app_id": "A0FAKEAPP01"},
        }
        try:
            if self.greets:
                await socket.send_json(hello)
            self.sockets.append(socket)
            self.opened += 1
            self.reached.set()
            async for frame in socket:
                if frame.type is aiohttp.WSMsgType.TEXT:
                    told = json.loads(frame.data)
                    self.answers.append(told)
                    self.acked.add(self._envelopes.pop(told.get("envelope_id"), ""))
        except ConnectionError:
            pass
        finally:
            if socket in self.sockets:
                self.sockets.remove(socket)
        return socket

    async def _call(self) -> None:
        """Bring events to an address, each until it is taken or was tried too often."""
        # Slack waits for three seconds; an app on a busy machine is no worse for being slower here.
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session:
            while True:
                if not self._queue:
                    self._news.clear()
                    await self._news.wait()
                sort, payload, number = self._queue[0]
                for attempt in itertools.count():
                    if await self._bring(session, sort, payload, attempt):
                        self.acked.add(number)
                        self.reached.set()
                        break
                    if attempt + 1 >= TRIES and self.reached.is_set():
                        break
                    await asyncio.sleep(0.01)
                self._queue.pop(0)

    async def _bring(
        self, session: aiohttp.ClientSession, sort: str, payload: dict[str, Any], attempt: int
    ) -> bool:
        form = {"interactive": {"payload": json.dumps(payload)}, "slash_commands": payload}.get(sort)
        body = json.dumps(payload).encode() if form is None else urlencode(form).encode()
        kind = "application/json" if form is None else "application/x-www-form-urlencoded"
        headers = {"Content-Type": kind, **self.signed(body)}
        if attempt:
            headers |= {"X-Slack-Retry-Num": str(attempt), "X-Slack-Retry-Reason": "http_error"}
        try:
            async with session.post(self.events_url, data=body, headers=headers) as response:
                return 200 <= response.status < 300
        except (aiohttp.ClientError, TimeoutError):
            return False

    def signed(self, body: bytes, at: int | None = None) -> dict[str, str]:
        moment = str(int(time.time()) if at is None else at)
        return {
            "X-Slack-Request-Timestamp": moment,
            "X-Slack-Signature": signature(self.secret, moment, body),
        }

    # --- the Web API ---

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        asked = await _parameters(request, method)
        token = request.headers.get("Authorization", "").removeprefix("Bearer ") or asked.pop("token", "")
        self.calls.append((method, asked))
        if method == "apps.connections.open":
            return web.json_response(self._open_link(token))
        if token != self.token:
            raise Wrong("invalid_auth" if token else "not_authed")

        async def act() -> web.StreamResponse:
            return web.json_response({"ok": True, **self.answer(method, asked)}, headers=self._headers())

        chat = asked.get("channel") or asked.get("channel_id")
        return await (self.troubled(request, chat, act) if method in SENDS else act())

    def _headers(self) -> dict[str, str]:
        return {"X-OAuth-Scopes": ",".join(self.scopes), "X-Accepted-OAuth-Scopes": ""}

    def refused(self, refusal: Wrong) -> web.Response:
        told = {"ok": False, "error": str(refusal), **refusal.more}
        if str(refusal) == "ratelimited":
            return web.json_response(told, status=429, headers={"Retry-After": "3"})
        return web.json_response(told, headers=self._headers())

    def failed(self, fault: Fault) -> web.Response:
        match fault:
            case Fault.TOO_FAST | Fault.TOO_FAST_ALL:
                raise Wrong("ratelimited")
            case Fault.REVOKED:
                raise Wrong("token_revoked")
            case Fault.GONE:
                raise Wrong("is_archived")
        raise Wrong("msg_too_long")

    def _open_link(self, token: str) -> dict[str, Any]:
        if token != self.app_token:
            error = "not_allowed_token_type" if token == self.token else "invalid_auth"
            raise Wrong(error)
        if not self.socket_mode:
            raise Wrong("forbidden")
        ticket = f"ticket-{next(self._event_numbers)}"
        self._tickets.add(ticket)
        return {"ok": True, "url": f"ws://127.0.0.1:{self.port}/link?ticket={ticket}&app_id=A0FAKEAPP01"}

    async def _upload(self, request: web.Request) -> web.StreamResponse:
        number = request.match_info["file"]
        if "Authorization" in request.headers:
            return web.Response(status=400, text="no token is wanted here")
        if number not in self.files:
            return web.Response(status=404)
        if request.content_type.startswith("multipart/"):
            parts = [part async for part in _parts(request)]
            data = parts[0]
        else:
            data = await request.read()
        if len(data) != self.files[number].length:
            return web.Response(status=400, text="wrong length")
        self.files[number].data = data
        return web.Response(text=f"OK - {len(data)}")

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        if "Authorization" in request.headers:
            return web.Response(status=400, text="no token is wanted here")
        if len(self.asides) == 5:
            return web.Response(status=404, text="used_url")
        self.asides.append(await request.json())
        return web.Response(text="ok")

    async def _download(self, request: web.Request) -> web.StreamResponse:
        file = self.files.get(request.match_info["file"])
        if request.headers.get("Authorization") != f"Bearer {self.token}" or "files:read" not in self.scopes:
            return web.Response(status=302, headers={"Location": "/signin"})
        if file is None or file.data is None:
            return web.Response(status=404)
        return web.Response(body=file.data, content_type=file.told["mimetype"])

    def file_url(self, number: str, name: str) -> str:
        return f"{self.url.removesuffix('/api')}/files-pri/{number}/download/{name}"


async def _parts(request: web.Request) -> Any:
    async for part in await request.multipart():
        yield bytes(await part.read())


async def _parameters(request: web.Request, method: str) -> dict[str, Any]:
    asked: dict[str, Any] = dict(request.query)
    if request.content_type == "application/json":
        told = json.loads(await request.read() or b"{}")
        # Slack passes over JSON where a method does not take it.
        return {**asked, **told} if method.startswith(JSON_TAKERS) else asked
    form = await request.post()
    for name, value in form.items():
        asked[name] = value
    for name in ("blocks", "metadata", "files"):
        if isinstance(asked.get(name), str):
            asked[name] = json.loads(asked[name])
    return asked
