"""The one way an endpoint is written:

    @route("POST", "/v1/things", "Make a thing.")
    async def make(call: HttpCall, body: ThingRequest, loudly: bool = False) -> Thing: ...

`body` is decoded into the type that its annotation names, the other parameters come from the query, and the
answer is encoded from its own type. The server, the OpenAPI document and the tests read the same table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from hermes.entry.http.site.admission import KeyScope

Answer = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRoute:
    """One endpoint. Without a `scope` it is open to everybody; the requests of a `signed` one carry a
    signature that the resource checks. `gives` are the types its answer may have. With `spreads`, the fields
    of the body are the parameters.

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
    status: int = 200
    signed: bool = False
    headers: tuple[str, ...] = ()
    returns: tuple[str, ...] = ()
    refuses: tuple[int, ...] = ()
    also: tuple[int, ...] = ()
    media: str = ""
    example: Mapping[str, Any] | None = None


ROUTES: list[HttpRoute] = []
LOCAL_ROUTES: list[HttpRoute] = []
"""Endpoints on the owner's socket alone; the API's documents do not list them."""


def route(
    method: str, path: str, summary: str, *, scope: KeyScope | None = KeyScope.CHAT, **more: Any
) -> Callable[[Answer], Answer]:
    """Declare an endpoint of the API; `more` are further fields of its `HttpRoute`."""
    return _declaring(ROUTES, method=method, path=path, summary=summary, scope=scope, **more)


def local_route(method: str, path: str, summary: str) -> Callable[[Answer], Answer]:
    """As `route`, on the owner's socket alone; a POST takes its parameters as the fields of its body."""
    spreads = method == "POST"
    return _declaring(
        LOCAL_ROUTES, method=method, path=path, summary=summary, scope=KeyScope.ADMIN, spreads=spreads
    )


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
