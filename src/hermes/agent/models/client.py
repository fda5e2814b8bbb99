"""The HTTP client that all providers of a process share, and the deadlines of a call made with it.

Owns connections and time; knows no wire format. The client session is made at first use and closed by
`close()`; nobody waits for a free connection, however many turns run.
"""

from __future__ import annotations

import asyncio
import io
import os
import ssl
from collections.abc import Mapping
from types import SimpleNamespace

import aiohttp
from msgspec import Struct
from yarl import URL

from hermes.domain.errors import FaultKind, ModelFault
from hermes.domain.settings.providers import NO_ENDPOINT_OPTIONS, EndpointOptions

_LARGE_BODY = 512 * 1024
_READ_BYTES = 32 * 1024
"""The most that is read at once: a stream that pours is read in turns with all others, and holds little."""


class Deadlines(Struct, frozen=True, kw_only=True):
    """Seconds to connect, to the first byte, between bytes, and for the whole call."""

    connect: float = 10.0
    first_byte: float = 60.0
    idle: float = 60.0
    total: float = 1800.0


HERE = Deadlines(first_byte=600.0, idle=300.0)
THINKING = Deadlines(first_byte=600.0, idle=600.0, total=3600.0)
"""For models that think far away: many say nothing meanwhile (docs.x.ai asks for 900 seconds and more)."""


def tls_of(options: EndpointOptions) -> ssl.SSLContext | bool:
    """How the certificate of an endpoint is checked: as usual, by authorities of its own, or not at all."""
    if not options.ssl_verify:
        return False
    if not options.ssl_ca_cert:
        return True
    try:
        return ssl.create_default_context(cafile=os.path.expanduser(options.ssl_ca_cert))
    except (OSError, ValueError) as error:
        words = f"No model can be reached: ssl_ca_cert ({options.ssl_ca_cert}) holds no certificate."
        hint = "Name a file in PEM format."
        raise ModelFault(words, kind=FaultKind.NO_MODEL, hint=hint) from error


class ModelClient:
    """One connection pool for one process."""

    def __init__(self, options: EndpointOptions = NO_ENDPOINT_OPTIONS) -> None:
        self._options = options
        self._session: aiohttp.ClientSession | None = None

    def session(self) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ssl=tls_of(self._options)),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),
                skip_auto_headers=("Accept", "User-Agent"),
                trace_configs=[_noting_reuse()],
            )
        return self._session

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def send(
        self, url: URL, headers: Mapping[str, str], body: bytes, *, place: str, deadlines: Deadlines
    ) -> ModelHttpResponse:
        """Send and wait for the headers. The answer must be closed. `place` names the other side in sentences
        for people."""
        begun = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(deadlines.first_byte + deadlines.connect):
                response = await self._post(url, headers, body, deadlines.connect)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise _translated(error, place) from error
        return ModelHttpResponse(response, place, deadlines, begun)

    async def _post(
        self, url: URL, headers: Mapping[str, str], body: bytes, connect: float
    ) -> aiohttp.ClientResponse:
        """A connection that was used before may be closed by the other side at any moment (llama.cpp's server
        does so after each stream): then the request is sent once more, on another."""
        limits = aiohttp.ClientTimeout(total=None, connect=connect, sock_connect=connect)
        trace: dict[str, bool] = {}

        async def post() -> aiohttp.ClientResponse:
            # A large body is handed over in slices, so that other turns go on meanwhile.
            data = body if len(body) <= _LARGE_BODY else io.BytesIO(body)
            return await self.session().post(
                url,
                headers=headers,
                data=data,
                timeout=limits,
                allow_redirects=False,
                trace_request_ctx=trace,
            )

        try:
            return await post()
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
            if not trace.get(_REUSED):
                raise
        return await post()


_REUSED = "reused"


def _noting_reuse() -> aiohttp.TraceConfig:
    async def note(session: aiohttp.ClientSession, context: SimpleNamespace, params: object) -> None:
        context.trace_request_ctx[_REUSED] = True

    config = aiohttp.TraceConfig()
    config.on_connection_reuseconn.append(note)
    return config


class ModelHttpResponse:
    """A response being read. One timer watches over it, however many pieces it has: at its time it looks
    whether anything came, and ends the response or waits on."""

    def __init__(
        self, response: aiohttp.ClientResponse, place: str, deadlines: Deadlines, begun: float
    ) -> None:
        self._response = response
        self._place = place
        self._total = deadlines.total
        self._loop = asyncio.get_running_loop()
        self._end = begun + deadlines.total
        self._heard = self._loop.time()
        self._quiet = deadlines.first_byte
        self._idle = deadlines.idle
        self._pours = False
        self._overdue: ModelFault | None = None
        self._timer = self._loop.call_at(min(self._heard + self._quiet, self._end), self._look)
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers

    async def read(self) -> bytes:
        """What has come, at least something; empty at the end."""
        try:
            if self._pours:
                await asyncio.sleep(0)
            data = await self._response.content.read(_READ_BYTES)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._overdue or _translated(error, self._place) from error
        self._pours = len(data) == _READ_BYTES
        self._heard = self._loop.time()
        self._quiet = self._idle
        return data

    def hurry(self, idle: float) -> None:
        """Only little can still come: do not wait long for it."""
        if idle < self._idle:
            self._idle = self._quiet = idle
            self._timer.cancel()
            self._look()

    async def read_all(self, most: int) -> bytes:
        """The whole body, or as much of it as `most` allows and a little more."""
        read: list[bytes] = []
        size = 0
        while size <= most and (data := await self.read()):
            read.append(data)
            size += len(data)
        return b"".join(read)

    def close(self) -> None:
        """Give the connection back if everything was read; otherwise the other side sees it closed."""
        self._timer.cancel()
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()

    def _look(self) -> None:
        now = self._loop.time()
        due = min(self._heard + self._quiet, self._end)
        if now < due:
            self._timer = self._loop.call_at(due, self._look)
            return
        if now >= self._end:
            words = f"the answer was not complete after {self._total:g} seconds and was cut off."
            self._overdue = ModelFault(words, kind=FaultKind.BAD_REQUEST)
        else:
            words = f"{self._place} said nothing for {self._quiet:g} seconds"
            self._overdue = ModelFault(words, kind=FaultKind.BROKEN)
        self._response.close()


def _translated(error: Exception, place: str) -> ModelFault:
    """A transport's error as one of ours; its text may name addresses, never keys."""
    match error:
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientSSLError():
            words = f"The certificate of {place} could not be verified."
            return ModelFault(words, kind=FaultKind.NO_MODEL)
        case aiohttp.InvalidURL() | aiohttp.NonHttpUrlClientError() | ValueError():
            words = f"No model can be reached: {place} is not an address."
            return ModelFault(words, kind=FaultKind.NO_MODEL, hint="Check model.base_url.")
        case aiohttp.ClientConnectorDNSError():
            words = f"the name of {place} could not be found"
        case aiohttp.ConnectionTimeoutError():
            words = f"{place} could not be connected to in time"
        case TimeoutError():
            words = f"{place} did not answer in time"
        case aiohttp.ClientConnectorError():
            words = f"{place} refuses connections"
        case aiohttp.ClientPayloadError() | aiohttp.ClientConnectionError():
            words = f"{place} closed the connection before the answer was complete"
        case _:
            words = f"{place} gave an answer that is not proper HTTP ({type(error).__name__})"
    return ModelFault(words, kind=FaultKind.BROKEN)
