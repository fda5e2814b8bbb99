"""The one way an endpoint is written, and what it works with:

    @route("POST", "/v1/things", "Make a thing.")
    async def make(call: HttpCall, body: ThingRequest, loudly: bool = False) -> Thing: ...

`body` is decoded into the type that its annotation names, the other parameters come from the query, and the
answer is encoded from its own type. The server, the OpenAPI document and the tests read the same table. The
call is one request; the site is what all requests share."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from inspect import signature
from types import UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec
from aiohttp import web
from msgspec import Struct, field

from hermes.control.core import Agents
from hermes.control.gateway import Gateway
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.clock import Clock
from hermes.domain.ids import EVERY_AGENT, AgentId, SessionId, TurnId
from hermes.domain.models.model_facts import ModelFacts
from hermes.domain.ports.store import Tx
from hermes.domain.ports.world import Egress
from hermes.domain.settings.live import SettingsReport
from hermes.domain.turns.event import FeedItem
from hermes.domain.turns.turn import Turn
from hermes.entry.http.site.admission import HttpOptions, KeyScope, Principal
from hermes.entry.http.site.errors import ApiError, bad_request
from hermes.entry.http.site.headers import CHAT_ID, THREAD_ID, USER_ID
from hermes.entry.http.site.run_limits import RunLimits, TurnedAway
from hermes.entry.http.site.streams import Streams
from hermes.entry.terminal.usage import GatewayUse

PLATFORM = "api_server"
LONGEST_NAME = 256
_UNFIT = re.compile(r"[\x00-\x1f\x7f/\\]|\.\.")
_FIELD = re.compile(r"Object (?:contains unknown|(?P<lacks>missing required)) field `(?P<name>.*)`")
T = TypeVar("T")
_encode = msgspec.json.Encoder().encode
Answer = Callable[..., Awaitable[Any]]


PATH_PART = re.compile(r"\{(\w+)(?::[^{}]*)?\}")


class HttpRoute(Struct, frozen=True, kw_only=True):
    """One endpoint. Without a `scope` it is open to everybody; the requests of a `signed` one carry a
    signature that the resource checks. `gives` are the types its answer may have. With `spreads`, the fields
    of the body are the parameters. One that `attaches` is for terminals: those elsewhere reach it on the
    port, with a key that may do everything.

    The rest is for the documents: the headers it reads and those it answers with (`returns`), errors of its
    own, further statuses of its usual answer, the media type of an answer that is not JSON, and an example
    body."""

    method: str
    path: str
    summary: str
    answer: Answer
    scope: KeyScope | None
    body: Any = None
    query: type[msgspec.Struct] | None = None
    gives: tuple[Any, ...]
    spreads: bool = False
    attaches: bool = False
    status: int = 200
    signed: bool = False
    headers: tuple[str, ...] = ()
    returns: tuple[str, ...] = ()
    refuses: tuple[int, ...] = ()
    also: tuple[int, ...] = ()
    media: str = ""
    example: Mapping[str, Any] | None = None


def shown_path(endpoint: HttpRoute) -> str:
    """The path with the names of its parts, without what they must look like."""
    return PATH_PART.sub(r"{\1}", endpoint.path)


ROUTES: list[HttpRoute] = []
LOCAL_ROUTES: list[HttpRoute] = []
"""Endpoints of the owner's socket; the API's documents do not list them."""


def route(
    method: str, path: str, summary: str, *, scope: KeyScope | None = KeyScope.CHAT, **more: Any
) -> Callable[[Answer], Answer]:
    """Declare an endpoint of the API; `more` are further fields of its `HttpRoute`."""
    return _declaring(ROUTES, method=method, path=path, summary=summary, scope=scope, **more)


def local_route(
    method: str, path: str, summary: str, *, attaches: bool = False
) -> Callable[[Answer], Answer]:
    """As `route`, on the owner's socket; a POST takes its parameters as the fields of its body."""
    facts = {"method": method, "path": path, "summary": summary, "attaches": attaches}
    return _declaring(LOCAL_ROUTES, scope=KeyScope.ADMIN, spreads=method == "POST", **facts)


def _declaring(routes: list[HttpRoute], *, spreads: bool = False, **facts: Any) -> Callable[[Answer], Answer]:
    def declare(answer: Answer) -> Answer:
        hints, parameters = get_type_hints(answer), _parameters(answer)
        body, query = (parameters, None) if spreads else (hints.get("body"), parameters)
        given = hints["return"]
        gives = get_args(given) if get_origin(given) in (Union, UnionType) else (given,)
        routes.append(HttpRoute(answer=answer, body=body, query=query, gives=gives, spreads=spreads, **facts))
        return answer

    return declare


def _parameters(answer: Answer) -> type[msgspec.Struct] | None:
    """A struct of what a function takes beside its first parameter and `body`; None if that is nothing."""
    hints = get_type_hints(answer, include_extras=True)
    _, *taken = signature(answer).parameters.values()
    fields = [
        (each.name, hints[each.name])
        if each.default is each.empty
        else (each.name, hints[each.name], each.default)
        for each in taken
        if each.name != "body"
    ]
    if not fields:
        return None
    return msgspec.defstruct(answer.__name__, fields, kw_only=True, module=answer.__module__)


class Site(Struct, frozen=True, kw_only=True):
    """What all requests share. `facts` reports the state of the process, `model` names that of an agent as
    its provider does, `task_model` that for small tasks, `model_facts` is what is known of one of them, or of
    another model of the agent; `aliases` are further names of models."""

    gateway: Gateway
    clock: Clock
    options: HttpOptions
    model: Callable[[AgentId], str]
    task_model: Callable[[AgentId], str]
    model_facts: Callable[[AgentId, str], ModelFacts]
    version: str
    facts: Callable[[], Mapping[str, Any]]
    aliases: Mapping[str, str] = field(default_factory=dict)
    apply: Callable[[], Awaitable[SettingsReport]]
    """Adopts the settings that stand in the files now."""
    open_webhooks: Callable[[], Awaitable[str]]
    """Sees to it that webhooks can come in if there are routes; where they do."""
    runs: RunLimits
    egress: Egress
    restart: Callable[[], Awaitable[None]]
    """Begins anew with them; a `UserError` if that would fail."""
    copy_database: Callable[[], Awaitable[str]]
    """The path of a copy of the database as it is now."""
    turned_away: TurnedAway = field(default_factory=TurnedAway)
    streams: Streams = field(default_factory=Streams)
    use: GatewayUse = field(default_factory=GatewayUse)

    @property
    def agents(self) -> Agents:
        return self.gateway.agents

    @property
    def default(self) -> AgentId:
        return self.gateway.default_agent


class HttpCall(Struct, frozen=True, kw_only=True):
    """One request being answered. `profile` is the agent that its path names (`/p/<agent>/…`): then nothing
    is routed."""

    site: Site
    request: web.Request
    principal: Principal
    profile: AgentId | None = None
    content: bytes = b""
    """Its body, as it was sent."""

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
        return None if self.principal.may(KeyScope.SESSIONS) else self.credential

    async def find(self, look: Callable[[Tx], T | None], missing: Exception) -> T:
        """The first hit among the agents; raises `missing` if there is none."""
        for scope in self.scopes:
            hit = await self.gateway.read(scope, look)
            if hit is not None:
                return hit
        raise missing

    async def collect(self, look: Callable[[Tx], list[T]]) -> list[T]:
        """What a query finds with all agents that this client may see."""
        return [row for scope in self.scopes for row in await self.gateway.read(scope, look)]

    @property
    def scopes(self) -> Collection[AgentId]:
        """What to ask for rows of all agents that this client may see: everybody at once, or those that its
        key names, one by one."""
        wide = self.principal.agents is None
        return (EVERY_AGENT,) if wide else self.agents

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
        return source is not None and source.address.credential == self.credential

    @property
    def credential(self) -> str:
        """The key as addresses and usage name it."""
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
    complaint, _, place = str(error).partition(" - at `")
    place = place.removeprefix("key` in `").removesuffix("`").removeprefix("$").removeprefix(".")
    at = f" at “{place}”" if place else ""
    field = _FIELD.fullmatch(complaint)
    if field is None:
        return bad_request(f"{where} is not right{at}: {complaint}.", param=place or None)
    name, param = field["name"], f"{place}.{field['name']}" if place else field["name"]
    if field["lacks"]:
        return bad_request(
            f"{where} lacks “{name[:80]}”{at}.", param=param, code="missing_required_parameter"
        )
    why = f"{where} has “{name[:80]}”{at}, which is not supported here: leave it out."
    return bad_request(why, param=param, code="unsupported_parameter")


def session_name(text: str) -> SessionId:
    return SessionId(_check_name(text, "A session id", param="id"))


def _check_name(text: str, what: str, *, param: str) -> str:
    if not text.strip() or len(text) > LONGEST_NAME or _UNFIT.search(text):
        raise bad_request(
            f"{what} is 1 to {LONGEST_NAME} characters without control and path characters.", param=param
        )
    return text
