"""What stands between the adapter and a homeserver, be it the fake or a Synapse: it answers on a port, goes
wrong when it is told to, and writes down what the bot did and was answered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from hermes.testing.platform_suite import Fault
from tests.ports import free_port


@dataclass(frozen=True, kw_only=True)
class Asked:
    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict)
    token: str = ""
    body: bytes = b""
    mime: str = "application/json"

    @property
    def parts(self) -> list[str]:
        return [unquote(part) for part in self.path.split("/")]

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.body or b"{}")


@dataclass(frozen=True, kw_only=True)
class Answer:
    status: int = 200
    body: bytes = b"{}"
    mime: str = "application/json"

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Homeserver = Callable[[Asked], Awaitable[Answer]]


def said(value: Any, status: int = 200) -> Answer:
    return Answer(status=status, body=json.dumps(value).encode())


def wrong(status: int, code: str, error: str, **more: Any) -> Answer:
    return said({"errcode": code, "error": error, **more}, status)


@dataclass
class Sent:
    """A message of the bot's."""

    ref: str
    room: str
    content: dict[str, Any]
    edits: int = 0
    deleted: bool = False


@dataclass
class Front:
    homeserver: Homeserver
    bot: str = ""
    """The bot's access token."""
    url: str = ""
    sent: list[Sent] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    uploads: dict[str, bytes] = field(default_factory=dict)
    reactions: dict[str, str] = field(default_factory=dict)
    typed: int = 0
    listening: int = 0
    """How many syncs there were that fixed a point or wait for what comes after one."""
    replays: list[str] = field(default_factory=list)
    """The points from which the next syncs are answered, whatever they ask for."""
    chaos: Callable[[], tuple[Fault, bool] | None] = lambda: None
    _faults: dict[str | None, tuple[Fault, int, bool]] = field(default_factory=dict)
    _open: set[asyncio.BaseTransport] = field(default_factory=set)
    _runner: web.AppRunner | None = None
    _port: int = field(default_factory=free_port)

    @property
    def is_up(self) -> bool:
        return self._runner is not None

    async def up(self) -> None:
        app = web.Application(client_max_size=60 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.0, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()
        self._port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{self._port}"

    async def down(self) -> None:
        runner, self._runner = self._runner, None
        self.cut()
        if runner is not None:
            await runner.cleanup()

    def cut(self) -> None:
        for transport in tuple(self._open):
            transport.abort()

    # --- trouble ---

    def fail(self, fault: Fault, times: int, done: bool, room: str | None) -> None:
        self._faults[room] = (fault, times, done)

    def calm(self) -> None:
        self._faults.clear()

    def _fault(self, asked: Asked) -> tuple[Fault | None, bool]:
        if asked.token != self.bot or not _is_message(asked):
            return None, False
        for where in (asked.parts[5], None):
            fault, times, done = self._faults.get(where, (None, 0, False))
            if fault is not None and times:
                self._faults[where] = (fault, times - 1, done)
                return fault, done
        return self.chaos() or (None, False)

    # --- traffic ---

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        transport = request.transport
        assert transport is not None
        self._open.add(transport)
        try:
            asked = Asked(
                method=request.method,
                path=request.rel_url.raw_path,
                query=dict(request.query),
                token=request.headers.get("Authorization", "").removeprefix("Bearer "),
                body=await request.read(),
                mime=request.headers.get("Content-Type", "application/json"),
            )
            self.asked.append(asked)
            fault, done = self._fault(asked)
            if fault is not None and not done:
                return await self._go_wrong(fault, request)
            answer = await self.homeserver(self._listened(asked))
            if asked.token == self.bot and answer.status == 200:
                self._note(asked, answer)
                self.listening += asked.path.endswith("/v3/sync") and "since" not in asked.query
            if fault is not None:
                return await self._go_wrong(fault, request)
            return _response(answer)
        finally:
            self._open.discard(transport)

    def _listened(self, asked: Asked) -> Asked:
        if not asked.path.endswith("/v3/sync") or asked.token != self.bot or "since" not in asked.query:
            return asked
        self.listening += 1
        if self.replays:
            return Asked(**{**asked.__dict__, "query": {**asked.query, "since": self.replays.pop(0)}})
        return asked

    async def _go_wrong(self, fault: Fault, request: web.Request) -> web.StreamResponse:
        match fault:
            case Fault.TOO_FAST | Fault.TOO_FAST_ALL:
                slow = wrong(429, "M_LIMIT_EXCEEDED", "Too Many Requests", retry_after_ms=3000)
                return _response(slow)
            case Fault.REVOKED:
                return _response(wrong(401, "M_UNKNOWN_TOKEN", "Unknown token", soft_logout=False))
            case Fault.GONE:
                return _response(wrong(403, "M_FORBIDDEN", "User @hermes:localhost not in room !x:localhost"))
            case Fault.TOO_LONG:
                return _response(wrong(413, "M_TOO_LARGE", "event too large"))
            case Fault.BROKEN:
                return web.Response(status=502, text="<h1>502 Bad Gateway</h1>", content_type="text/html")
            case Fault.RESET:
                assert request.transport is not None
                request.transport.abort()
            case Fault.HANG:
                await asyncio.sleep(3600)
        return web.Response()

    def _note(self, asked: Asked, answer: Answer) -> None:
        parts = asked.parts
        if "upload" in parts:
            self.uploads[answer.json["content_uri"]] = asked.body
        elif "typing" in parts and asked.json.get("typing"):
            self.typed += 1
        elif "redact" in parts:
            for one in self.sent:
                one.deleted |= one.ref == parts[7]
            self.reactions.pop(parts[7], None)
        elif len(parts) > 7 and parts[6:8] == ["send", "m.reaction"]:
            self.reactions[answer.json["event_id"]] = asked.json["m.relates_to"]["key"]
        elif _is_message(asked):
            self._note_message(parts[5], asked.json, answer.json["event_id"])

    def _note_message(self, room: str, content: dict[str, Any], ref: str) -> None:
        relation = content.get("m.relates_to", {})
        if relation.get("rel_type") == "m.replace":
            for one in self.sent:
                if one.ref == relation["event_id"]:
                    kept = {"m.relates_to": one.content.get("m.relates_to", {})}
                    one.content, one.edits = {**content["m.new_content"], **kept}, one.edits + 1
        elif all(one.ref != ref for one in self.sent):
            self.sent.append(Sent(ref, room, content))


def _is_message(asked: Asked) -> bool:
    return asked.method == "PUT" and asked.parts[6:8] == ["send", "m.room.message"]


def _response(answer: Answer) -> web.Response:
    return web.Response(status=answer.status, body=answer.body, headers={"Content-Type": answer.mime})
