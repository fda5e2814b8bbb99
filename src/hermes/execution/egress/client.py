"""The one client for addresses that came from a person, a model or outside content.

Each hop is checked like the first: the address is read once, its host looked up once, and what is connected
to is what was checked. It keeps no cookies and no connections; what an answer unpacks to counts against the
limit."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from hermes.domain.errors import HermesError, Refused, Unreachable, UserError
from hermes.domain.ports.world import FetchedPage, WebRequest
from hermes.domain.text import one_line
from hermes.domain.word import replace
from hermes.execution.egress.broker import Headers, Mask, Outgoing
from hermes.execution.egress.parts import EgressParts
from hermes.execution.egress.wire import WireRequest

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

MOST_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_PIECE = 64 * 1024
_GZIP_HEAD = b"\x1f\x8b"
_OURS = frozenset({"host", "content-length", "transfer-encoding", "connection", "cookie", "accept-encoding"})
_EVERYWHERE = frozenset({"accept", "accept-language", "user-agent"})
"""Headers that go along to another host; any other may hold a credential."""


class EgressClient:
    """Asks for one agent, whose secrets of the broker it may put in."""

    def __init__(self, parts: EgressParts | None = None, agent: str = "") -> None:
        self._parts = parts or EgressParts()
        self._agent = agent

    async def fetch(self, url: str, *, limit: int = 5_000_000, seconds: float = 30.0) -> FetchedPage:
        try:
            return await self.request(
                WebRequest(url=url, limit=limit, seconds=seconds, redirects=MOST_REDIRECTS)
            )
        except HermesError as error:
            raise UserError(f"{one_line(url, 200)} was not fetched. {error}") from error

    async def request(self, request: WebRequest) -> FetchedPage:
        try:
            async with asyncio.timeout(request.seconds):
                return await self._follow(request)
        except TimeoutError:
            why = f"There was no answer within {request.seconds:g} s."
            raise Unreachable(why, maybe_done=True) from None

    async def check(self, url: str) -> None:
        address = read_url(WebRequest(url=url))
        await self._parts.reach().pin(address.raw_host or "", address.port or 0)

    async def close(self) -> None:
        """Nothing is kept between requests."""

    async def _follow(self, request: WebRequest) -> FetchedPage:
        for _ in range(request.redirects + 1):
            answer = await self._hop(request)
            if isinstance(answer, FetchedPage):
                return answer
            request = answer
        raise Refused(f"It leads on more than {request.redirects} times.")

    async def _hop(self, request: WebRequest) -> FetchedPage | WebRequest:
        """The answer, or the request that it leads to."""
        url = read_url(request)
        host, port, tls = url.raw_host or "", url.port or 0, url.scheme == "https"
        reach = self._parts.reach()
        granted = {"granted": request.private, "any_port": request.private}
        name = reach.check(host, port, **granted)
        addresses = await reach.pin(host, port, **granted)
        headers = (*_headers(request), ("Accept-Encoding", "gzip, deflate"))
        outgoing = Outgoing(host=name, port=port, tls=tls, url=str(url), headers=headers, body=request.body)
        filled = self._parts.broker(self._agent).fill(outgoing)
        wired = WireRequest(
            method=request.method,
            url=filled.request.url,
            host=host,
            addresses=addresses,
            headers=filled.request.headers,
            body=filled.request.body,
        )
        mask = Mask(filled.hidden)
        async with self._parts.wire().to(addresses).exchange(wired) as response:
            target = _masked(mask, response.headers.get("Location", ""))
            if response.status in _REDIRECTS and target and request.redirects:
                return _redirected(request, url, response.status, target)
            data = await _read(response, request.limit) if request.limit else b""
            return FetchedPage(
                url=str(url),
                status=response.status,
                mime=response.content_type,
                data=mask.replace(data),
                headers={key.lower(): _masked(mask, value) for key, value in response.headers.items()},
            )


def read_url(request: WebRequest) -> URL:
    """The address as it is connected to: what is checked is the client's own reading of it."""
    from yarl import URL

    try:
        url = URL(request.url)
        usable, named = bool(url.raw_host), url.user is not None or url.password is not None
        str(url)
    except ValueError:
        raise Refused("It is not an address on the web.") from None
    if url.scheme not in ("http", "https") or not usable:
        raise Refused("It is not an address on the web: http:// or https:// is wanted.")
    if named:
        raise Refused("It has a name or a password in it.")
    if request.method not in _METHODS:
        raise Refused(f"“{one_line(request.method, 20)}” is not a method that is sent.")
    return url


def _headers(request: WebRequest) -> Headers:
    for name, value in request.headers.items():
        if not name.isascii() or any(char in "\r\n\0" for char in name + value):
            raise Refused("A header cannot be sent as it is.")
    return tuple((name, value) for name, value in request.headers.items() if name.lower() not in _OURS)


def _masked(mask: Mask, text: str) -> str:
    return mask.replace(text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")


def _redirected(request: WebRequest, url: URL, status: int, target: str) -> WebRequest:
    """The next request. To another host go neither a body nor headers that may hold a credential."""
    after = replace(request, url=urljoin(str(url), target), private=False)
    if status == 303 or (status in (301, 302) and request.method == "POST"):
        after = replace(after, method="HEAD" if request.method == "HEAD" else "GET", body=b"")
    if read_url(after).origin() == url.origin():
        return replace(after, private=request.private)
    if after.body:
        raise Refused("It leads to another host, to which the body is not sent on.")
    kept = {name: value for name, value in after.headers.items() if name.lower() in _EVERYWHERE}
    return replace(after, headers=kept)


async def _read(response: aiohttp.ClientResponse, limit: int) -> bytes:
    data = bytearray()
    async for piece in _unpacked(response):
        data += piece
        if len(data) > limit:
            raise Refused(f"It has more than {limit:,} bytes.")
    return bytes(data)


async def _unpacked(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """The body in small pieces, however much a few bytes of it unpack to."""
    coding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if coding in ("identity", ""):
        async for piece in response.content.iter_chunked(_PIECE):
            yield piece
        return
    if coding not in ("gzip", "x-gzip", "deflate"):
        raise Refused(f"It is encoded in a way that is not read ({one_line(coding, 30)}).")
    unpacker = _Unpacker(coding)
    try:
        async for piece in response.content.iter_chunked(_PIECE):
            for part in unpacker.take(piece):
                yield part
        yield unpacker.end()
    except zlib.error:
        raise Unreachable("Its content cannot be unpacked.", maybe_done=True) from None


class _Unpacker:
    """Of one body. Packed with gzip, it may be several in a row; what else stands behind the end counts for
    nothing."""

    def __init__(self, coding: str) -> None:
        self._coding = coding
        self._stream: zlib._Decompress | None = None
        self._held = b""

    def take(self, data: bytes) -> Iterator[bytes]:
        """What it unpacks to, in small parts."""
        data, self._held = self._held + data, b""
        while data:
            if self._stream is None:  # some send deflate without its head
                headless = self._coding == "deflate" and data[0] & 0x0F != 8
                self._stream = zlib.decompressobj(-zlib.MAX_WBITS if headless else zlib.MAX_WBITS | 32)
            elif self._stream.eof:
                if self._coding == "deflate" or not _GZIP_HEAD.startswith(data[:2]):
                    return
                if len(data) < len(_GZIP_HEAD):
                    self._held = data
                    return
                self._stream = zlib.decompressobj(zlib.MAX_WBITS | 16)
            yield self._stream.decompress(data, _PIECE)
            data = self._stream.unused_data if self._stream.eof else self._stream.unconsumed_tail

    def end(self) -> bytes:
        if self._stream is None:
            return b""
        rest = self._stream.flush()
        if not self._stream.eof:
            raise zlib.error("it ends early")
        return rest
