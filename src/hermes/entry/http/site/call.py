"""What every resource of the HTTP door is given, and the one way a resource is written:

    @route("POST", "/v1/things", "Make a thing.")
    async def make(call: Call, body: ThingRequest, loudly: bool = False) -> Thing: ...

`body` is decoded into the type that its annotation names, what else is taken comes from the query, the answer
is encoded from its own type; the server, the OpenAPI document and the tests all read the same table."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from inspect import signature
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

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
from hermes.entry.http.site.admission import KeyScope, Principal
from hermes.entry.http.site.errors import ApiError, bad_request
from hermes.entry.http.site.headers import CHAT_ID, THREAD_ID, USER_ID
from hermes.entry.http.site.streams import Streams
from hermes.entry.http.site.traffic import Traffic

if TYPE_CHECKING:
    from hermes.entry.http.webhooks.stages import Webhooks

PLATFORM = "api_server"
LONGEST_NAME = 256
_UNFIT = re.compile(r"[\x00-\x1f\x7f/\\]|\.\.")
T = TypeVar("T")
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """What an operator may say of the door."""

    host: str = "127.0.0.1"
    port: int = 8642
    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    model_name: str = ""
    max_open: int = 512
    max_body: int = 10_000_000
    finish_when_gone: bool = False
    private_images: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFacts:
    """An agent as clients see it: the model behind it, by its own name, and what it can do."""

    agent: AgentId
    model: str
    tools: tuple[Tool, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What resources work with. `named`: the path named the default agent, so nothing is routed. `facts`
    tells how the process is, `aliases` are further names of models."""

    gateway: Gateway
    clock: Clock
    options: HttpOptions
    default: AgentId
    agents: Mapping[AgentId, AgentFacts]
    version: str
    named: bool = False
    facts: Callable[[], Mapping[str, Any]]
    aliases: Mapping[str, str] = field(default_factory=dict)
    streams: Streams = field(default_factory=Streams)
    webhooks: Webhooks | None = None
    traffic: Traffic = field(default_factory=Traffic)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpCall:
    """One request being answered."""

    door: Site
    request: web.Request
    principal: Principal

    def part(self, name: str) -> str:
        """A part of the path."""
        return self.request.match_info[name]

    def name_header(self, name: str) -> str | None:
        """A header that carries a name; anything that could be more than a name is refused."""
        value = self.request.headers.get(name)
        if value is None:
            return None
        if not value.strip() or len(value) > LONGEST_NAME or _UNFIT.search(value):
            raise bad_request(
                f"{name} is 1 to {LONGEST_NAME} characters without control and path characters.", param=name
            )
        return value

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
        return [agent for agent in self.door.agents if self.principal.sees(agent)]

    def watch(
        self, agent: AgentId, turn: TurnId, *, after: int = 0, live: bool = True
    ) -> AsyncGenerator[FeedItem]:
        """What a turn shows, from a record on; without `live` its records alone."""
        return cast(AsyncGenerator[FeedItem], self.door.gateway.watch(agent, turn, after, live=live))

    @property
    def owner(self) -> str | None:
        """Through whom sessions must have begun to be seen; None if all may be."""
        return None if self.principal.may(KeyScope.SESSIONS) else self._credential

    async def find(self, look: Callable[[Tx], T | None], missing: Exception) -> tuple[AgentId, T]:
        """What is found with one of the agents, and whose it is; `missing` is raised if it is nobody's."""
        for agent in self.agents:
            found = await self.door.gateway.read(agent, look)
            if found is not None:
                return agent, found
        raise missing

    async def turn(self, ident: TurnId | None, missing: Exception) -> tuple[AgentId, Turn]:
        """A turn that this client may see, and its agent."""

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


Answer = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteDetails:
    """What an endpoint's types do not tell: the headers it reads and those it answers with, errors of its
    own, further statuses of its usual answer, the type of an answer that is not JSON, a body to try it with.
    """

    headers: tuple[str, ...] = ()
    returns: tuple[str, ...] = ()
    refuses: tuple[int, ...] = ()
    also: tuple[int, ...] = ()
    media: str = ""
    example: Mapping[str, Any] | None = None


PLAIN = RouteDetails()
SIGNED = RouteDetails(refuses=(401, 404, 413, 429, 502, 503), also=(200,))


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRoute:
    """One endpoint. `scope` None is open to everybody; requests that are `signed` prove themselves, wherever
    they claim to be sent to."""

    method: str
    path: str
    told: str
    answer: Answer
    scope: KeyScope | None
    status: int = 200
    signed: bool = False
    wire: RouteDetails = PLAIN

    @property
    def hints(self) -> dict[str, Any]:
        return get_type_hints(self.answer)

    @property
    def body(self) -> Any:
        return self.hints.get("body")

    @property
    def query(self) -> type[msgspec.Struct] | None:
        return _named(self.answer)

    @property
    def gives(self) -> tuple[Any, ...]:
        """The types an answer may have."""
        given = self.hints.get("return")
        return get_args(given) if get_origin(given) in (Union, UnionType) else (given,)


ROUTES: list[HttpRoute] = []
LOCAL_ROUTES: list[HttpRoute] = []
"""Those on the owner's socket alone; clients of the API are not told of them."""


def _declared(into: list[HttpRoute], **facts: Any) -> Callable[[Answer], Answer]:
    def declare(answer: Answer) -> Answer:
        into.append(HttpRoute(answer=answer, **facts))
        return answer

    return declare


def route(
    method: str,
    path: str,
    told: str,
    *,
    scope: KeyScope | None = KeyScope.CHAT,
    status: int = 200,
    wire: RouteDetails = PLAIN,
) -> Callable[[Answer], Answer]:
    """Declare an endpoint; its tag in the documentation is the module it stands in."""
    return _declared(ROUTES, method=method, path=path, told=told, scope=scope, status=status, wire=wire)


def local_route(method: str, path: str, told: str) -> Callable[[Answer], Answer]:
    """As `route`, on the owner's socket alone; what a POST takes stands in its body, name by name."""
    declared = _declared(LOCAL_ROUTES, method=method, path=path, told=told, scope=KeyScope.ADMIN)

    def declare(answer: Answer) -> Answer:
        async def serve(call: HttpCall, body: msgspec.Struct) -> Any:
            return await answer(call, **msgspec.structs.asdict(body))

        serve.__name__, serve.__module__ = answer.__name__, answer.__module__
        serve.__annotations__ = {"body": _named(answer), "return": get_type_hints(answer)["return"]}
        return declared(serve)

    return declare if method == "POST" else declared


@cache
def _named(answer: Answer) -> type[msgspec.Struct] | None:
    """A type of what a function takes, but for its first parameter and `body`; None if that is nothing."""
    hints = get_type_hints(answer, include_extras=True)
    _, *taken = signature(answer).parameters.values()
    fields = [
        (one.name, hints[one.name]) if one.default is one.empty else (one.name, hints[one.name], one.default)
        for one in taken
        if one.name != "body"
    ]
    if not fields:
        return None
    return msgspec.defstruct(answer.__name__, fields, kw_only=True, module=answer.__module__)


def signed_route(method: str, path: str, told: str, *, status: int = 200) -> Callable[[Answer], Answer]:
    """As `route`, for requests with a proof of their own that the resource checks; its tag is its folder."""
    facts = {"method": method, "path": path, "told": told, "status": status}
    return _declared(ROUTES, scope=None, signed=True, wire=SIGNED, **facts)


def as_json(value: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(body=_encode(value), status=status, content_type="application/json", headers=headers)


def decode_query(kind: type[T], query: Mapping[str, str]) -> T:
    try:
        return msgspec.convert(dict(query), kind, strict=False)
    except msgspec.ValidationError as error:
        raise validation_error(error, where="The query") from error


def validation_error(error: msgspec.ValidationError, where: str = "The request") -> ApiError:
    """What a decoder complains of, as a sentence that names the place."""
    told, _, place = str(error).partition(" - at `$")
    param = place.removesuffix("`").removeprefix(".") or None
    at = f" at “{param}”" if param else ""
    return bad_request(f"{where} is not right{at}: {told}.", param=param)


def session_name(text: str) -> SessionId:
    if not text.strip() or len(text) > LONGEST_NAME or _UNFIT.search(text):
        raise bad_request(
            f"A session id is 1 to {LONGEST_NAME} characters without control and path characters.", param="id"
        )
    return SessionId(text)
