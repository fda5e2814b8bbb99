"""The body of a webhook: read up to a limit, and understood as JSON or as a form."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs

from aiohttp import web

from hermes.entry.http.site.errors import ApiError, bad_request, too_large

MOST_DEPTH = 64
_MOST_FIELDS = 1000
_FORM = "application/x-www-form-urlencoded"


async def read_body(request: web.Request, limit: int) -> bytes:
    if request.content_length is not None and request.content_length > limit:
        raise too_large(limit)
    body = bytearray()
    async for piece in request.content.iter_any():
        body += piece
        if len(body) > limit:
            raise too_large(limit)
    return bytes(body)


def read_payload(body: bytes, kind: str) -> Any:
    """What a body says. `kind` is its content type."""
    if kind == _FORM:
        return _read_form(body)
    if kind == "application/json" or kind.endswith("+json"):
        return _read_json(body)
    raise ApiError(415, "unsupported_content_type", "The body must be JSON or a form (Content-Type).")


def _read_json(body: bytes | str) -> Any:
    try:
        text = body.decode("utf-8") if isinstance(body, bytes) else body
        payload = json.loads(text, parse_constant=_refuse)
    except RecursionError as error:
        raise _too_deep() from error
    except ValueError as error:
        raise bad_request("The body is not JSON.", code="invalid_json") from error
    if is_deeper(payload, MOST_DEPTH):
        raise _too_deep()
    return payload


def _read_form(body: bytes) -> Any:
    """Fields by name. GitHub sends its JSON as the one field `payload`."""
    try:
        fields = parse_qs(
            body.decode("utf-8"), keep_blank_values=True, strict_parsing=True, max_num_fields=_MOST_FIELDS
        )
    except ValueError as error:
        raise bad_request("The body is not a form.", code="invalid_form") from error
    if fields.keys() == {"payload"} and len(fields["payload"]) == 1:
        return _read_json(fields["payload"][0])
    return {name: values[0] if len(values) == 1 else values for name, values in fields.items()}


def is_deeper(value: Any, depth: int) -> bool:
    level = [value]
    for _ in range(depth):
        below: list[Any] = []
        for one in level:
            below += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        if not below:
            return False
        level = below
    return True


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _too_deep() -> ApiError:
    return bad_request("The body is nested too deeply.", code="invalid_json")
