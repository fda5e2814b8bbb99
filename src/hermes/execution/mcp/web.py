"""A server that is reached over HTTP. Its operator named the address, so nothing leads elsewhere: redirects
to another site are not followed, and an answer has an end. The proxy of the machine is used, if it has one.

Imports the SDK: it is loaded with the first connection."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from hermes.domain.errors import NeedsLogin
from hermes.domain.settings.mcp import McpServer
from hermes.domain.text import one_line

LONGEST_ANSWER = 64 << 20
_QUIET_SECONDS = 3600.0
"""How long a stream may say nothing; calls have limits of their own."""
GetToken = Callable[[str], Awaitable[str]]
"""An access token other than the one that was refused."""


class BearerToken(httpx2.Auth):  # type: ignore[misc]
    """Sends the token of a login, and another one if that was refused."""

    def __init__(self, get: GetToken) -> None:
        self._get = get

    async def async_auth_flow(self, request: Any) -> AsyncGenerator[Any, Any]:
        token = await self._get("")
        request.headers["Authorization"] = f"Bearer {token}"
        response = yield request
        if response.status_code == 401:
            request.headers["Authorization"] = f"Bearer {await self._get(token)}"
            response = yield request
        challenge = response.headers.get("WWW-Authenticate", "")
        if response.status_code == 403 and "insufficient_scope" in challenge:
            wanted = one_line(challenge, 200)
            raise NeedsLogin(f"the login does not allow this ({wanted}): set oauth.scope, and log in again")


class _EndingStream(httpx2.AsyncByteStream):  # type: ignore[misc]
    def __init__(self, stream: Any, limit: int) -> None:
        self._stream = stream
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            self._limit -= len(chunk)
            if self._limit < 0:
                raise httpx2.ReadError("its answer has no end")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


class EndingTransport(httpx2.AsyncHTTPTransport):  # type: ignore[misc]
    """Gives up an answer that is longer than anybody reads."""

    async def handle_async_request(self, request: Any) -> Any:
        response = await super().handle_async_request(request)
        response.stream = _EndingStream(response.stream, LONGEST_ANSWER)
        return response


def web_client(server: McpServer, auth: Any = None, over: asyncio.Event | None = None) -> Any:
    """`over` is set when the server has forgotten the session: it answers what is posted with 404 then
    (https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management)."""
    place = urlsplit(server.url)
    proxy = None if proxy_bypass(place.hostname or "") else getproxies().get(place.scheme)

    async def heed(response: Any) -> None:
        asked = response.request
        known = asked.method == "POST" and "mcp-session-id" in asked.headers
        if over is not None and known and response.status_code == 404:
            over.set()

    return httpx2.AsyncClient(
        transport=EndingTransport(trust_env=False, proxy=proxy),
        headers=server.sent_headers,
        auth=auth,
        timeout=httpx2.Timeout(server.connect_timeout, read=_QUIET_SECONDS),
        trust_env=False,
        event_hooks={"response": [heed]},
    )


@contextlib.asynccontextmanager
async def web_streams(
    server: McpServer, get_token: GetToken | None, over: asyncio.Event
) -> AsyncIterator[tuple[Any, Any]]:
    """The two streams that the SDK talks over."""
    auth = None if get_token is None else BearerToken(get_token)
    if server.transport == "sse":
        streams = sse_client(
            server.url,
            timeout=server.connect_timeout,
            sse_read_timeout=_QUIET_SECONDS,
            httpx_client_factory=lambda headers=None, timeout=None, auth=None: web_client(server, auth),
            auth=auth,
        )
        async with streams as both:
            yield both
        return
    async with (
        web_client(server, auth, over) as client,
        streamable_http_client(server.url, http_client=client) as both,
    ):
        yield both
