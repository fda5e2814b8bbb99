"""The connections of one way in: how long one may stay without a request, how many there may be at once, and
what is answered to a client whose request cannot be read. An address is taken as it is meant: `//v1/models/`
is `/v1/models`.

Where there are too many connections, the one that has been without a request for the longest gives way. So
sockets that nobody uses keep out neither a client with a key nor the files that the gateway itself needs."""

from __future__ import annotations

import asyncio
import logging
import re
import resource
import secrets
from typing import Any

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestHandler
from yarl import URL

from hermes.domain.text import one_line
from hermes.entry.http.site.errors import ApiError
from hermes.entry.http.site.headers import REQUEST_ID

log = logging.getLogger("hermes.http")
_SLASHES = re.compile(r"/{2,}")
_TOLD_SECONDS = 60.0


def most_connections() -> int:
    """Half of the files that the process may open: the other half is for models, tools and the store."""
    return max(resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2, 16)


def new_request_id() -> str:
    return f"req_{secrets.token_hex(12)}"


class HttpConnection(RequestHandler):
    """One client's connection."""

    __slots__ = ()

    @property
    def is_idle(self) -> bool:
        """Whether it waits for the next request, or for the rest of its first lines."""
        return self._waiter is not None and not self._waiter.done()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if not isinstance(exc, HttpProcessingError) or request.writer.output_size:
            return super().handle_error(request, status, exc, message)
        # What it says of a bad line shows the line and points at the place; its first words are enough.
        why = one_line(exc.message.partition("\n")[0].rstrip(" :."), 200)
        log.info("http.unreadable peer=%s why=%s", request.remote, why)
        error = ApiError(status, "bad_http", f"The request cannot be read as HTTP: {why}.")
        response = error.response()
        response.headers[REQUEST_ID] = new_request_id()
        response.force_close()
        return response


class Connections(web.Server):
    """All connections of one way in; at most so many."""

    def __init__(self, app: web.Application, most: int, **options: Any) -> None:
        super().__init__(app._handle, request_factory=self._request, **options)  # type: ignore[arg-type]
        self._app = app
        self._most = most
        self._told_at = -_TOLD_SECONDS

    def __call__(self) -> RequestHandler:
        return HttpConnection(self, loop=self._loop, **self._kwargs)

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        if len(self._connections) > self._most:
            self._make_room(handler)

    def _make_room(self, newest: RequestHandler) -> None:
        idle = (each for each in self._connections if isinstance(each, HttpConnection) and each.is_idle)
        leaving = next(idle, newest)
        if self._loop.time() - self._told_at >= _TOLD_SECONDS:
            self._told_at = self._loop.time()
            which = "the newest" if leaving is newest else "the oldest idle"
            log.warning(
                "http.crowded connections=%d: %s one is closed. max_connections or the limit of open files "
                "may be too low.",
                len(self._connections),
                which,
            )
        leaving.force_close()

    def _request(
        self,
        message: RawRequestMessage,
        payload: StreamReader,
        protocol: RequestHandler,
        writer: AbstractStreamWriter,
        task: asyncio.Task[None],
    ) -> web.BaseRequest:
        return self._app._make_request(_tidy(message), payload, protocol, writer, task)


def _tidy(message: RawRequestMessage) -> RawRequestMessage:
    path, mark, query = message.path.partition("?")
    tidy = _SLASHES.sub("/", path).rstrip("/") or "/"
    if tidy == path or not path.startswith("/"):
        return message
    target = tidy + mark + query
    url = URL.build(path=tidy, query_string=query.partition("#")[0], encoded=True)
    return message._replace(path=target, url=url)


class ConnectionRunner(web.AppRunner):
    """Runs an application on connections that are limited."""

    def __init__(self, app: web.Application, *, most: int, **options: Any) -> None:
        super().__init__(app, **options)
        self._most = most

    async def _make_server(self) -> web.Server:
        await super()._make_server()
        options = {name: value for name, value in self._kwargs.items() if name != "access_log_class"}
        return Connections(self.app, self._most, loop=asyncio.get_running_loop(), **options)
