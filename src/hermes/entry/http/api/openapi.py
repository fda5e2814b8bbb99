"""`/openapi.json`: what the API takes and answers, made from the table of routes and from the very types that
decode requests and encode answers. It holds no secret, so it is open to everybody."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from http import HTTPStatus
from typing import Any

import msgspec
from aiohttp import web

from hermes.entry.http.api import RESOURCES, TAGS
from hermes.entry.http.site import headers
from hermes.entry.http.site.endpoint import (
    LONGEST_NAME,
    PATH_PART,
    ROUTES,
    HttpCall,
    HttpRoute,
    route,
    shown_path,
)
from hermes.entry.http.site.errors import ErrorBody

Json = dict[str, Any]
JSON, EVENTS = "application/json", "text/event-stream"
_REFS = "#/components/schemas/{name}"
# No control and no path characters, and never two dots in a row.
_FIT = r"^\.?([^./\\\x00-\x1f\x7f]\.?)*$"
_NAME: Json = {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME, "pattern": _FIT}
HEADERS: Mapping[str, tuple[str, Json]] = {
    headers.IDEMPOTENCY: (
        "Makes a repeat harmless: the same request under the same key is the same turn.",
        _NAME,
    ),
    headers.SESSION_ID: ("The session: a known one goes on, a new one begins under this id.", _NAME),
    headers.SESSION_KEY: ("A name for whom the client speaks for; given back as it came.", _NAME),
    headers.CHAT_ID: ("The chat, at the client's side, in which this is said.", _NAME),
    headers.USER_ID: ("The person, at the client's side, who says it.", _NAME),
    headers.THREAD_ID: ("The thread of that chat.", _NAME),
    headers.LAST_EVENT: (
        "The id of the last event that was seen; the stream goes on after it.",
        {"type": "string", "pattern": r"^\d{0,15}$"},
    ),
    headers.RUN_ID: ("The run that answers, for `/v1/runs/{id}`.", {"type": "string"}),
    "Retry-After": ("Seconds after which it is worth trying again.", {"type": "string"}),
    "WWW-Authenticate": ("How a key is sent.", {"type": "string"}),
}
_RESPONSES = (web.Response, web.StreamResponse)
_ERROR_HEADERS = {401: ("WWW-Authenticate",), 429: ("Retry-After",), 503: ("Retry-After",)}
_ERRORS = {
    400: "Something in the request is wrong; the message says what and where.",
    401: "There is no key or signature, or it is wrong.",
    403: "The key may not do this, or the request claims a Host or an Origin that is not allowed.",
    404: "What was named is not here, or not for this key.",
    409: "It cannot be done as things are now.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    422: "This Idempotency-Key was used for another request.",
    429: "Too much at once, or too many wrong keys.",
    500: "Something broke at our side.",
    502: "The agent could not answer.",
    503: "Not now: the gateway is stopping, or nothing can be stored.",
}


@route("GET", "/openapi.json", "This document.", scope=None)
async def read_document(call: HttpCall) -> dict[str, Any]:
    return document(call.site.version)


@cache
def document(version: str) -> Json:
    """The document of every route there is; resources register theirs before the first request."""
    shapes, components = _shapes(ROUTES)
    paths: dict[str, Json] = {}
    for endpoint in ROUTES:
        paths.setdefault(shown_path(endpoint), {})[endpoint.method.lower()] = _operation(endpoint, shapes)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Hermes Gateway",
            "version": version or "0",
            "description": "An agent behind an OpenAI-compatible API: chat completions, responses, and runs"
            " and sessions that outlive their clients.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": "/"}],
        "security": [{"key": []}],
        "tags": [{"name": tag, "description": about} for tag, about in tags(ROUTES).items()],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def tags(routes: Iterable[HttpRoute]) -> dict[str, str]:
    """Each tag with what its module says of itself, in the order of the resources."""
    modules = {tag_of(endpoint): endpoint.answer.__module__ for endpoint in routes}
    return {
        tag: _line((sys.modules[modules[tag]].__doc__ or "").split("\n\n")[0])
        for tag in RESOURCES
        if tag in modules
    }


def tag_of(endpoint: HttpRoute) -> str:
    return TAGS[endpoint.answer.__module__]


def errors(endpoint: HttpRoute) -> dict[int, str]:
    """The statuses an endpoint may refuse with, each with its reason."""
    statuses = {400, 403, 500, *endpoint.refuses}
    if endpoint.scope is not None:
        statuses |= {401, 429, 503}
    if endpoint.body is not None:
        statuses |= {404, 413, 415}
    if PATH_PART.search(endpoint.path):
        statuses.add(404)
    return {status: _ERRORS[status] for status in sorted(statuses)}


def _operation(endpoint: HttpRoute, shapes: Mapping[Any, Json]) -> Json:
    scope = "" if endpoint.scope is None else f" Needs a key with the scope `{endpoint.scope}`."
    operation: Json = {
        "operationId": f"{tag_of(endpoint)}_{endpoint.answer.__name__}",
        "summary": endpoint.summary,
        "description": _line(f"{endpoint.summary} {endpoint.answer.__doc__ or ''}") + scope,
        "tags": [tag_of(endpoint)],
        "security": [] if endpoint.scope is None else [{"key": []}],
        "parameters": _parameters(endpoint),
        "responses": {
            str(status): _answer(endpoint, status, shapes) for status in (endpoint.status, *endpoint.also)
        },
    }
    if endpoint.body is not None:
        content = {"schema": shapes[endpoint.body]}
        if endpoint.example is not None:
            content["example"] = dict(endpoint.example)
        operation["requestBody"] = {"required": True, "content": {JSON: content}}
    if endpoint.signed:
        anything: Json = {kind: {"schema": {}} for kind in (JSON, "application/x-www-form-urlencoded")}
        operation["requestBody"] = {"required": True, "content": anything}
    for status, why in errors(endpoint).items():
        if status not in endpoint.also:
            operation["responses"][str(status)] = {
                "description": why,
                "content": {JSON: {"schema": shapes[ErrorBody]}},
                "headers": _headers(_ERROR_HEADERS.get(status, ())),
            }
    return operation


def _parameters(endpoint: HttpRoute) -> list[Json]:
    """What an endpoint takes beside its body: parts of the path, fields of the query, headers."""
    text = {"type": "string", "minLength": 1}
    path = [_parameter("path", name, text, required=True) for name in PATH_PART.findall(endpoint.path)]
    fields: Mapping[str, Json] = {}
    if endpoint.query is not None:
        [shape] = msgspec.json.schema_components([endpoint.query])[1].values()
        fields = shape["properties"]
    query = [_parameter("query", name, schema) for name, schema in fields.items()]
    headers = [
        {**_parameter("header", name, HEADERS[name][1]), "description": HEADERS[name][0]}
        for name in endpoint.headers
    ]
    return [*path, *query, *headers]


def _parameter(place: str, name: str, schema: Json, *, required: bool = False) -> Json:
    return {"name": name, "in": place, "required": required, "schema": schema}


def _answer(endpoint: HttpRoute, status: int, shapes: Mapping[Any, Json]) -> Json:
    content: Json = {}
    for kind in endpoint.gives if status != HTTPStatus.NO_CONTENT else ():
        if kind is web.StreamResponse:
            content[EVENTS] = {}
        elif kind is web.Response and endpoint.media:
            content[endpoint.media] = {"schema": {"type": "string"}}
        elif kind is not web.Response:  # which is the same answer with headers or a status of its own
            content[JSON] = {"schema": shapes[kind]}
    phrase = HTTPStatus(status).phrase
    return {"description": phrase, "content": content, "headers": _headers(endpoint.returns)}


def _headers(names: Iterable[str]) -> Json:
    return {name: {"description": HEADERS[name][0], "schema": HEADERS[name][1]} for name in names}


def _shapes(routes: Sequence[HttpRoute]) -> tuple[Mapping[Any, Json], dict[str, Json]]:
    """The shapes of all types that routes take and give, and the components that they refer to."""
    bodies = [endpoint.body for endpoint in routes if endpoint.body is not None]
    given = [kind for endpoint in routes for kind in endpoint.gives if kind not in _RESPONSES]
    taken, answers = set(_structs(bodies)), list(_structs([*given, ErrorBody]))
    kinds = list(dict.fromkeys([*bodies, *given, *answers]))
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REFS)
    shapes = dict(zip(kinds, schemas, strict=True))
    for schema in components.values():
        schema["description"] = _line(schema.get("description", "")) or schema["title"]
    for struct in answers:
        if struct not in taken:
            name = shapes[struct]["$ref"].rsplit("/", 1)[-1]
            components[name]["required"] = list(_always_there(struct))
    return shapes, components


def _structs(kinds: Iterable[Any]) -> Iterator[type[msgspec.Struct]]:
    """Every struct that these types are made of."""
    waiting = [msgspec.inspect.type_info(kind) for kind in kinds]
    seen: set[type[msgspec.Struct]] = set()
    while waiting:
        info = waiting.pop()
        if isinstance(info, msgspec.inspect.StructType):
            if info.cls not in seen:
                seen.add(info.cls)
                yield info.cls
                waiting += [field.type for field in info.fields]
        elif isinstance(info, msgspec.inspect.UnionType):
            waiting += info.types
        elif isinstance(info, msgspec.inspect.DictType):
            waiting.append(info.value_type)
        elif isinstance(info, msgspec.inspect.CollectionType):
            waiting.append(info.item_type)


def _always_there(struct: type[msgspec.Struct]) -> Iterator[str]:
    """The fields that an answer of this type never lacks."""
    left_out = struct.__struct_config__.omit_defaults
    for field in msgspec.structs.fields(struct):
        if field.required or not (left_out or field.default is msgspec.UNSET):
            yield field.encode_name


def _line(text: str) -> str:
    return " ".join(text.split())
