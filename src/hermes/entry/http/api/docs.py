"""`/docs`: the API as a page to read, made from the same document as `/openapi.json`. It loads nothing and
runs nothing; its one style sheet is named by its hash."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import sha256
from html import escape
from importlib.resources import files

from aiohttp import web

from hermes.entry.http.api.openapi import JSON, Json, document
from hermes.entry.http.site.endpoint import HttpCall, route

MEDIA = "text/html"
_CODE = re.compile(r"`([^`]+)`")
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} API</title>
<style>{style}</style>
</head>
<body>
<nav aria-label="Contents">
{contents}</nav>
<main>
<h1>{title} API <small>{version}</small></h1>
<p>{description}</p>
{articles}</main>
</body>
</html>
"""
_START = """<p>Send the key with every request: <code>Authorization: Bearer &lt;key&gt;</code>. It is
<code>API_SERVER_KEY</code> in the <code>.env</code> file of the gateway’s home. Any OpenAI client works with
the base address <code>{address}/v1</code> and the model <code>hermes-agent</code>.</p>
<pre><code>export API_SERVER_KEY=…
curl {address}/v1/models -H "Authorization: Bearer $API_SERVER_KEY"</code></pre>
<p>Errors have one shape everywhere, <a href="#type-ErrorBody">ErrorBody</a>, with a sentence for people and a
code for programs. The same as this page for programs: <a href="/openapi.json">/openapi.json</a>.</p>
"""


@route("GET", "/docs", "This API, for people.", scope=None, media=MEDIA)
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
    api, contents, articles = document(version), "", ""
    for level, ident, label, text in _articles(api, escape(address)):
        contents += f'<a class="{level}" href="#{ident}">{label}</a>\n'
        articles += f'<article class="{level}" id="{ident}">\n<{level}>{label}</{level}>\n{text}</article>\n'
    facts = {name: escape(text) for name, text in api["info"].items() if isinstance(text, str)}
    page = _PAGE.format(style=style, contents=contents, articles=articles, **facts)
    return page.encode(), policy


def _articles(api: Json, address: str) -> Iterator[tuple[str, str, str, str]]:
    """Everything on the page, in its order: the level and id of each article, its label and its text."""
    yield "h2", "start", "Getting started", _START.format(address=address)
    for tag in api["tags"]:
        name = tag["name"]
        yield "h2", name, name.capitalize().replace("_", " "), f"<p>{_words(tag['description'])}</p>\n"
        for path, methods in api["paths"].items():
            for method, operation in methods.items():
                if name in operation["tags"]:
                    # A narrow column may break a path between its parts only.
                    label = f"<code>{escape(path).replace('/', '<wbr>/')}</code>"
                    badge = f'<b class="{method}">{method.upper()}</b>'
                    text = "".join(_endpoint(method, path, operation, address))
                    yield "h3", operation["operationId"], badge + label, text
    yield "h2", "types", "Types", ""
    for name, schema in sorted(api["components"]["schemas"].items()):
        yield "h3", f"type-{name}", f"<code>{name}</code>", "".join(_type(name, schema))


def _endpoint(method: str, path: str, operation: Json, address: str) -> Iterator[str]:
    yield f"<p>{_words(operation['description'])}</p>\n"
    yield from _table(
        ("Parameter", "In", "Type", ""),
        [
            (f"`{each['name']}`", each["in"], _shape(each["schema"]), each.get("description", ""))
            for each in operation["parameters"]
        ],
    )
    command = [f"curl -X {method.upper()} {address}{escape(path)}"]
    if operation["security"]:
        command.append('-H "Authorization: Bearer $API_SERVER_KEY"')
    body = operation.get("requestBody", {}).get("content", {}).get(JSON, {})
    if "example" in body:
        yield f"<p>Body: {_words(_shape(body['schema']))}</p>\n"
        example = json.dumps(body["example"], ensure_ascii=False).replace("'", r"'\''")
        command += ["-H 'Content-Type: application/json'", f"-d '{escape(example, quote=False)}'"]
    yield "<pre><code>" + " \\\n  ".join(command) + "</code></pre>\n"
    yield from _table(
        ("Status", "Answer", "Type", "Headers"),
        [
            (
                f"`{status}`",
                answer["description"],
                " or ".join(
                    _shape(content["schema"]) if content else "events"
                    for content in answer["content"].values()
                ),
                ", ".join(f"`{name}`" for name in answer["headers"]),
            )
            for status, answer in sorted(operation["responses"].items())
        ],
    )


def _type(name: str, schema: Json) -> Iterator[str]:
    about = schema["description"] if schema["description"] != name else ""
    yield f"<p>{_words(about if 'properties' in schema else _shape(schema))}</p>\n"
    needed = schema.get("required", ())
    rows = [
        (f"`{field}`", _shape(kind), "" if field in needed else f"`{json.dumps(kind.get('default'))}`")
        for field, kind in schema.get("properties", {}).items()
    ]
    yield from _table(("Field", "Type", "If left out"), rows)


def _table(head: Iterable[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Nothing where there are no rows; cells are plain text with code and types marked."""
    if rows:
        yield "<table><thead><tr>" + "".join(f"<th>{cell}</th>" for cell in head) + "</tr></thead>\n<tbody>"
        for row in rows:
            yield "<tr>" + "".join(f"<td>{_words(cell)}</td>" for cell in row) + "</tr>\n"
        yield "</tbody></table>\n"


def _words(text: str) -> str:
    """Text as HTML; a word in backquotes is code, and links to the type if it is `#` and a type's name."""
    linked = re.sub(r"`#(\w+)`", r'<a href="#type-\1">\1</a>', escape(text))
    return _CODE.sub(r"<code>\1</code>", linked)


def _shape(schema: Json) -> str:
    """A type as one reads it, as text for `_words`."""
    if "$ref" in schema:
        return f"`#{schema['$ref'].rsplit('/', 1)[-1]}`"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_shape, schema["anyOf"])))
    values = schema.get("enum", [schema["const"]] if "const" in schema else ())
    if values:
        return " or ".join(f"`{json.dumps(value)}`" for value in values)
    kind = str(schema.get("type", "anything"))
    if kind == "array":
        return f"list of {_shape(schema.get('items', {}))}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_shape(schema['additionalProperties'])}"
    bounds = [
        f"{word} {schema[key]:,}"
        for key, word in (("minimum", "from"), ("maximum", "to"), ("maxLength", "length up to"))
        if key in schema
    ]
    return " ".join([kind, *bounds])
