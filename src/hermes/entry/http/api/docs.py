"""`/docs`: the HTTP door for people who read, one page made from the same document as `/openapi.json`. It
loads nothing and runs nothing; its one style sheet is named by its hash."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

from aiohttp import web

from hermes.entry.http.api.openapi import JSON, Json, document
from hermes.entry.http.site.call import HttpCall
from hermes.entry.http.site.routing import RouteDetails, route

MEDIA = "text/html"
_CODE = re.compile(r"`([^`]+)`")
_DEPTH = 4
_TITLES = {"openapi": "OpenAPI", "docs": "This page"}


@route("GET", "/docs", "This API, for people.", scope=None, details=RouteDetails(media=MEDIA))
async def read_docs(call: HttpCall) -> web.Response:
    page, policy = _page(call.site.version, str(call.request.url.origin()))
    return web.Response(
        body=page,
        headers={"Content-Type": f"{MEDIA}; charset=utf-8", "Content-Security-Policy": policy},
    )


@lru_cache(maxsize=8)
def _page(version: str, address: str) -> tuple[bytes, str]:
    style = files("hermes.entry.http.api").joinpath("docs.css").read_text(encoding="utf-8")
    digest = b64encode(sha256(style.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{digest}'; frame-ancestors 'none'; base-uri 'none';"
        " form-action 'none'"
    )
    return "".join(_render(document(version), address, style)).encode(), policy


def _render(told: Json, address: str, style: str) -> Iterator[str]:
    info, schemas = told["info"], told["components"]["schemas"]
    groups = {tag["name"]: (tag["description"], list(_operations(told, tag["name"]))) for tag in told["tags"]}
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield f"<title>{escape(info['title'])} API</title>\n<style>{style}</style>\n</head>\n<body>\n"
    yield from _contents(groups, schemas)
    yield f"<main>\n<h1>{escape(info['title'])} API <small>{escape(info['version'])}</small></h1>\n"
    yield f"<p>{escape(info['description'])}</p>\n"
    yield from _introduction(address)
    for name, (about, operations) in groups.items():
        yield f'<section id="{name}">\n<h2>{_title(name)}</h2>\n<p>{_words(about)}</p>\n'
        for method, path, operation in operations:
            yield from _endpoint(method, path, operation, schemas, address)
        yield "</section>\n"
    yield '<section id="types">\n<h2>Types</h2>\n'
    for name, schema in sorted(schemas.items()):
        yield from _type(name, schema)
    yield "</section>\n</main>\n</body>\n</html>\n"


def _operations(told: Json, tag: str) -> Iterator[tuple[str, str, Json]]:
    for path, methods in told["paths"].items():
        for method, operation in methods.items():
            if tag in operation["tags"]:
                yield method.upper(), path, operation


def _contents(
    groups: Mapping[str, tuple[str, list[tuple[str, str, Json]]]], schemas: Iterable[str]
) -> Iterator[str]:
    yield '<nav aria-label="Contents">\n<a class="top" href="#start">Getting started</a>\n'
    for name, (_, operations) in groups.items():
        yield f'<a class="group" href="#{name}">{_title(name)}</a>\n'
        for method, path, operation in operations:
            shown = f"{_badge(method)}<span>{_breakable(path)}</span>"
            yield f'<a href="#{operation["operationId"]}">{shown}</a>\n'
    yield '<a class="group" href="#types">Types</a>\n'
    for name in sorted(schemas):
        yield f'<a class="type" href="#type-{name}">{escape(name)}</a>\n'
    yield "</nav>\n"


def _introduction(address: str) -> Iterator[str]:
    yield '<section id="start">\n<h2>Getting started</h2>\n'
    yield (
        "<p>Send the key with every request: <code>Authorization: Bearer &lt;key&gt;</code>. It is"
        " <code>API_SERVER_KEY</code> in the <code>.env</code> file of the gateway’s home. Any OpenAI client"
        f" works with the base address <code>{escape(address)}/v1</code> and the model"
        " <code>hermes-agent</code>.</p>\n"
    )
    yield _shell(
        f'export API_SERVER_KEY=…\ncurl {address}/v1/models -H "Authorization: Bearer $API_SERVER_KEY"'
    )
    yield (
        "<p>Errors have one shape everywhere, <a href='#type-ErrorBody'>ErrorBody</a>, with a sentence for"
        " people and a code for programs. The same as this page for programs:"
        " <a href='/openapi.json'>/openapi.json</a>.</p>\n</section>\n"
    )


def _endpoint(method: str, path: str, operation: Json, schemas: Json, address: str) -> Iterator[str]:
    title = f"{_badge(method)}<code>{escape(path)}</code>"
    yield f'<article id="{operation["operationId"]}">\n<h3>{title}</h3>\n'
    yield f"<p>{_words(operation['description'])}</p>\n"
    if operation["parameters"]:
        rows = [
            (
                f"<code>{escape(one['name'])}</code>",
                one["in"],
                _shape(one["schema"]),
                _words(one.get("description", "")),
            )
            for one in operation["parameters"]
        ]
        yield from _table(("Parameter", "In", "Type", ""), rows)
    body = operation.get("requestBody", {}).get("content", {}).get(JSON)
    if body is not None:
        yield f"<p>Body: {_shape(body['schema'])}</p>\n"
    yield _shell(_curl(method, path, operation, schemas, address))
    yield from _answers(operation["responses"])
    yield "</article>\n"


def _answers(responses: Json) -> Iterator[str]:
    rows, refused = [], []
    for status, told in sorted(responses.items()):
        schemas = [content.get("schema", {}) for content in told["content"].values()]
        if any(schema.get("$ref", "").endswith("/ErrorBody") for schema in schemas):
            refused.append((f"<code>{status}</code>", _words(told["description"])))
            continue
        shapes = [
            f"{_shape(content['schema']) if content else 'events'} <small>{escape(media)}</small>"
            for media, content in told["content"].items()
        ]
        headers = ", ".join(f"<code>{escape(name)}</code>" for name in told.get("headers", {}))
        with_headers = f"<br><small>with</small> {headers}" if headers else ""
        rows.append((f"<code>{status}</code>", "<br>".join(shapes) + with_headers))
    yield from _table(("Answer", "Type"), rows)
    if refused:
        codes = " ".join(code for code, _ in refused)
        yield f"<details><summary>Errors {codes}</summary>\n"
        yield from _table(("Status", "When"), refused)
        yield "</details>\n"


def _type(name: str, schema: Json) -> Iterator[str]:
    yield f'<article id="type-{name}">\n<h3><code>{escape(name)}</code></h3>\n'
    if schema.get("description", name) != name:
        yield f"<p>{_words(schema['description'])}</p>\n"
    properties = schema.get("properties")
    if properties is None:
        yield f"<p>{_shape(schema)}</p>\n"
    else:
        needed = schema.get("required", ())
        rows = [
            (f"<code>{escape(field)}</code>", _shape(kind), "" if field in needed else _default(kind))
            for field, kind in properties.items()
        ]
        yield from _table(("Field", "Type", "If left out"), rows)
    yield "</article>\n"


# --- small parts ---------------------------------------------------------------------------------------


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    yield "<table><thead><tr>" + "".join(f"<th>{cell}</th>" for cell in head) + "</tr></thead>\n<tbody>"
    for row in rows:
        yield "<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>\n"
    yield "</tbody></table>\n"


def _title(tag: str) -> str:
    return _TITLES.get(tag) or escape(tag.capitalize().replace("_", " "))


def _badge(method: str) -> str:
    return f'<b class="{method.lower()}">{method}</b>'


def _breakable(path: str) -> str:
    """A path that a narrow column may break, between its parts only."""
    return escape(path).replace("/", "<wbr>/")


def _words(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", escape(text))


def _shell(text: str) -> str:
    return f"<pre><code>{escape(text)}</code></pre>\n"


def _default(kind: Json) -> str:
    return f"<code>{escape(json.dumps(kind['default']))}</code>" if "default" in kind else "left out"


def _shape(schema: Json) -> str:
    """A type as one reads it, with links to those that are told of elsewhere."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return f'<a href="#type-{name}">{escape(name)}</a>'
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_shape(one) for one in schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(f"<code>{escape(json.dumps(value))}</code>" for value in schema["enum"])
    if "const" in schema:
        return f"<code>{escape(json.dumps(schema['const']))}</code>"
    kind = schema.get("type", "anything")
    if kind == "array":
        return f"list of {_shape(schema.get('items', {}))}"
    if kind == "object":
        more = schema.get("additionalProperties")
        return f"object of {_shape(more)}" if isinstance(more, dict) and more else "object"
    bounds = [
        f"{word} {schema[key]:,}"
        for key, word in (("minimum", "from"), ("maximum", "to"), ("maxLength", "up to"))
        if key in schema
    ]
    unit = " characters" if "maxLength" in schema else ""
    return escape(str(kind)) + (f" <small>{' '.join(bounds)}{unit}</small>" if bounds else "")


def _curl(method: str, path: str, operation: Json, schemas: Json, address: str) -> str:
    parts = [f"curl {address}{path}" if method == "GET" else f"curl -X {method} {address}{path}"]
    if operation["security"]:
        parts.append('-H "Authorization: Bearer $API_SERVER_KEY"')
    body = operation.get("requestBody", {}).get("content", {}).get(JSON)
    if body is not None:
        example = body.get("example") or sample(body["schema"], schemas)
        parts.append("-H 'Content-Type: application/json'")
        parts.append("-d '" + json.dumps(example, ensure_ascii=False).replace("'", r"'\''") + "'")
    return " \\\n  ".join(parts)


def sample(schema: Json, schemas: Json, depth: int = 0) -> Any:
    """Something of this shape, with what it needs and no more."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rsplit("/", 1)[-1]]
    if "anyOf" in schema:
        return sample(schema["anyOf"][0], schemas, depth)
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            needed = schema.get("required", ()) if depth < _DEPTH else ()
            return {field: sample(schema["properties"][field], schemas, depth + 1) for field in needed}
        case "array":
            return [sample(schema.get("items", {}), schemas, depth + 1)]
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return True
        case "null":
            return None
        case _:
            return "…"
