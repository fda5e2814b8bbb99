"""What every endpoint works with: the site, which all requests share, and the call, which is one request; and
how the values of a request are decoded and an answer is encoded."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import msgspec
from aiohttp import web

from hermes.control.gateway import Gateway
from hermes.domain.address import Address, Source, SourceKind
from hermes.domain.clock import Clock
from hermes.domain.event import FeedItem
from hermes.domain.ids import AgentId, SessionId, TurnId
from hermes.domain.ports.store import Tx
from hermes.domain.tool import Tool
from hermes.domain.turn import Turn
from hermes.entry.http.site.admission import HttpOptions, KeyScope, Principal
from hermes.entry.http.site.errors import ApiError, bad_request
from hermes.entry.http.site.headers import CHAT_ID, THREAD_ID, USER_ID
from hermes.entry.http.site.streams import Streams

PLATFORM = "api_server"
LONGEST_NAME = 256
_UNFIT = re.compile(r"[\x00-\x1f\x7f/\\]|\.\.")
T = TypeVar("T")
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFacts:
    """An agent as clients see it: its model, by the model's own name, and its tools."""

    model: str
    tools: tuple[Tool, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What all requests share. `facts` reports the state of the process, `aliases` are further names of
    models."""

    gateway: Gateway
    clock: Clock
    options: HttpOptions
    default: AgentId
    agents: Mapping[AgentId, AgentFacts]
    version: str
    facts: Callable[[], Mapping[str, Any]]
    aliases: Mapping[str, str] = field(default_factory=dict)
    streams: Streams = field(default_factory=Streams)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpCall:
    """One request being answered. `profile` is the agent that its path names (`/p/<agent>/…`): then nothing
    is routed."""

    site: Site
    request: web.Request
    principal: Principal
    profile: AgentId | None = None

    @property
    def gateway(self) -> Gateway:
        return self.site.gateway

    @property
    def default(self) -> AgentId:
        """The agent of a request that names none."""
        return self.site.default if self.profile is None else self.profile

    def part(self, name: str) -> str:
        """A part of the path."""
        return self.request.match_info[name]

    def name_header(self, name: str) -> str | None:
        """A header that carries a name; anything that could be more than a name is refused."""
        value = self.request.headers.get(name)
        return None if value is None else _check_name(value, name, param=name)

    def source(self, chat: str) -> Source:
        """Who speaks here, from where; a client may speak for its own chats and people."""
        given = self.name_header(CHAT_ID)
        user = self.name_header(USER_ID)
        address = Address(
            platform=PLATFORM,
            account=self.principal.name,
            chat=given or user or chat,
            thread=self.name_header(THREAD_ID),
        )
        return Source(address=address, kind=SourceKind.API, user=user or self.principal.name)

    @property
    def agents(self) -> list[AgentId]:
        """Those that this client may see."""
        return [agent for agent in self.site.agents if self.principal.sees(agent)]

    def watch(self, turn: Turn, *, after: int = 0, live: bool = True) -> AsyncGenerator[FeedItem]:
        """What a turn shows, after a record; without `live` its records alone."""
        return cast(AsyncGenerator[FeedItem], self.gateway.watch(turn.agent, turn.id, after, live=live))

    @property
    def owner(self) -> str | None:
        """Only sessions that began through this credential may be seen; None if all may be."""
        return None if self.principal.may(KeyScope.SESSIONS) else self._credential

    async def find(self, look: Callable[[Tx], T | None], missing: Exception) -> T:
        """The first hit among the agents; raises `missing` if there is none."""
        for agent in self.agents:
            hit = await self.gateway.read(agent, look)
            if hit is not None:
                return hit
        raise missing

    async def turn(self, ident: TurnId | None, missing: Exception) -> Turn:
        """A turn that this client may see."""

        def look(tx: Tx) -> Turn | None:
            turn = None if ident is None else tx.turns.get(ident)
            return turn if turn is not None and self.may_see(turn.source) else None

        return await self.find(look, missing)

    def may_see(self, source: Source | None) -> bool:
        return self.owns(source) or self.principal.may(KeyScope.SESSIONS)

    def owns(self, source: Source | None) -> bool:
        """Whether this client is who spoke there."""
        return source is not None and source.address.credential == self._credential

    @property
    def _credential(self) -> str:
        return Address(platform=PLATFORM, account=self.principal.name, chat="-").credential


def as_json(value: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(body=_encode(value), status=status, content_type="application/json", headers=headers)


def decode_query(kind: type[T], query: Mapping[str, str]) -> T:
    try:
        return msgspec.convert(dict(query), kind, strict=False)
    except msgspec.ValidationError as error:
        raise validation_error(error, where="The query") from error


def validation_error(error: msgspec.ValidationError, where: str = "The request") -> ApiError:
    """What a decoder complains of, as a sentence that names the place."""
    complaint, _, place = str(error).partition(" - at `$")
    param = place.removesuffix("`").removeprefix(".") or None
    at = f" at “{param}”" if param else ""
    return bad_request(f"{where} is not right{at}: {complaint}.", param=param)


def session_name(text: str) -> SessionId:
    return SessionId(_check_name(text, "A session id", param="id"))


def _check_name(text: str, what: str, *, param: str) -> str:
    if not text.strip() or len(text) > LONGEST_NAME or _UNFIT.search(text):
        raise bad_request(
            f"{what} is 1 to {LONGEST_NAME} characters without control and path characters.", param=param
        )
    return text
