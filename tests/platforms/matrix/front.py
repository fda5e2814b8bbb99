"""What stands between the adapter and a homeserver, be it the fake or a Synapse: it answers on a port, goes
wrong when it is told to, and writes down what the bot did and was answered."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from hermes.testing.platform_suite import Fault
from hermes.testing.served import Route, ServedFake


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
    location: str = ""
    """Where else to ask, for a redirect."""

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


@dataclass(kw_only=True)
class Front(ServedFake):
    homeserver: Homeserver
    bot: str = ""
    """The bot's access token."""
    sent: list[Sent] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    uploads: dict[str, bytes] = field(default_factory=dict)
    reactions: dict[str, str] = field(default_factory=dict)
    typed: int = 0
    listening: int = 0
    """How many syncs there were that fixed a point or wait for what comes after one."""
    replays: list[str] = field(default_factory=list)
    """The points from which the next syncs are answered, whatever they ask for."""

    def routes(self) -> Iterable[Route]:
        yield "*", "/{path:.*}", self._serve

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        asked = Asked(
            method=request.method,
            path=request.rel_url.raw_path,
            query=dict(request.query),
            token=request.headers.get("Authorization", "").removeprefix("Bearer "),
            body=await request.read(),
            mime=request.headers.get("Content-Type", "application/json"),
        )
        self.asked.append(asked)

        async def act() -> web.StreamResponse:
            answer = await self.homeserver(self._listened(asked))
            if asked.token == self.bot and answer.status == 200:
                self._note(asked, answer)
                self.listening += asked.path.endswith("/v3/sync") and "since" not in asked.query
            return _response(answer)

        sends = asked.token == self.bot and _is_message(asked)
        return await (self.troubled(request, asked.parts[5], act) if sends else act())

    def _listened(self, asked: Asked) -> Asked:
        if not asked.path.endswith("/v3/sync") or asked.token != self.bot or "since" not in asked.query:
            return asked
        self.listening += 1
        if self.replays:
            return Asked(**{**asked.__dict__, "query": {**asked.query, "since": self.replays.pop(0)}})
        return asked

    def failed(self, fault: Fault) -> web.Response:
        match fault:
            case Fault.TOO_FAST | Fault.TOO_FAST_ALL:
                slow = wrong(429, "M_LIMIT_EXCEEDED", "Too Many Requests", retry_after_ms=3000)
                return _response(slow)
            case Fault.REVOKED:
                return _response(wrong(401, "M_UNKNOWN_TOKEN", "Unknown token", soft_logout=False))
            case Fault.GONE:
                return _response(wrong(403, "M_FORBIDDEN", "User @hermes:localhost not in room !x:localhost"))
        return _response(wrong(413, "M_TOO_LARGE", "event too large"))

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
    headers = {"Content-Type": answer.mime, **({"Location": answer.location} if answer.location else {})}
    return web.Response(status=answer.status, body=answer.body, headers=headers)
