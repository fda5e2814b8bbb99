"""The body of a request, read up to a size and at no less than a certain pace."""

from __future__ import annotations

import asyncio

from aiohttp import web
from aiohttp.web_protocol import RequestPayloadError

from hermes.entry.http.site.errors import ApiError, bad_request, too_large

_LEAST_RATE = 16_384
"""Bytes a second. A body may take the time of the settings, and longer as long as it comes at this pace."""


async def read_body(request: web.Request, limit: int, seconds: float) -> bytes:
    if request.content_length is not None and request.content_length > limit:
        raise too_large(limit)
    if not request.body_exists:
        return b""
    body, until = bytearray(), asyncio.get_running_loop().time() + seconds
    try:
        if request.content.is_eof() and request.content.total_bytes <= limit:
            return await request.content.read()  # it is all here
        async with asyncio.timeout_at(until) as deadline:
            async for piece in request.content.iter_any():
                body += piece
                if len(body) > limit:
                    raise too_large(limit)
                deadline.reschedule(until + len(body) / _LEAST_RATE)
    except TimeoutError as error:
        why = "The body of the request came too slowly."
        raise ApiError(408, "body_too_slow", why, headers={"Connection": "close"}) from error
    except RequestPayloadError as error:
        raise bad_request("The body cannot be read as its headers say.", code="bad_http") from error
    return bytes(body)
