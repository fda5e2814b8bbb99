"""One connection to addresses that were checked: a request with its answer, or a tunnel; directly or through
the operator's own proxy. Nothing is checked, followed or kept here."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from hermes.domain.errors import Refused, Unreachable, UserError
from hermes.domain.safety.hosts import is_public
from hermes.domain.text import trouble_told
from hermes.domain.word import replace
from hermes.execution.egress.broker import Headers

if TYPE_CHECKING:
    from ssl import SSLContext

    import aiohttp

CONNECT_SECONDS = 20.0
IDLE_SECONDS = 300.0
_NEXT_SECONDS = 0.5
_SOCKS = "aiohttp_socks"
_HEAD_BYTES = 16 * 1024
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class WireRequest(Struct, frozen=True, kw_only=True):
    """`host` as it stands in `url`; `addresses` are those to connect to."""

    method: str
    url: str
    host: str
    addresses: tuple[str, ...]
    headers: Headers = ()
    body: bytes | AsyncIterable[bytes] = b""
    length: int | None = None


class Wire(Struct, frozen=True, kw_only=True):
    """`proxy` is the operator's way out (`http://`, `socks5://`), empty = none. It is told a name, which it
    looks up itself; for a tunnel, a SOCKS proxy is told the address that was checked. `tls` replaces the
    usual trust in certificates."""

    proxy: str = ""
    tls: SSLContext | None = None

    def to(self, addresses: Sequence[str]) -> Wire:
        """The same, but past the proxy to a network of ours."""
        return self if all(map(is_public, addresses)) else replace(self, proxy="")

    @contextlib.asynccontextmanager
    async def exchange(self, request: WireRequest) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer, its body unread and as it was encoded. `Unreachable` if none comes."""
        import aiohttp
        from yarl import URL

        headers = list(request.headers)
        not_reached: tuple[type[Exception], ...]
        not_reached = (aiohttp.ClientConnectorError, *_socks_errors(self.proxy))
        if request.length is not None:
            headers.append(("Content-Length", str(request.length)))
        session = aiohttp.ClientSession(
            connector=self._connector(request),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=IDLE_SECONDS),
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        )
        session._retry_connection = False  # one request is one request
        try:
            async with (
                session,
                session.request(
                    request.method,
                    URL(request.url, encoded=True),
                    headers=headers,
                    data=request.body or None,
                    allow_redirects=False,
                    proxy=self.proxy if self.proxy.startswith("http") else None,
                    ssl=self.tls or True,
                ) as response,
            ):
                yield response
        except not_reached as error:
            raise Unreachable(f"It cannot be reached ({trouble_told(error)}).", offline=True) from None
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise Unreachable(f"It did not answer ({trouble_told(error)}).", maybe_done=True) from None

    def _connector(self, request: WireRequest) -> aiohttp.BaseConnector:
        """One for each request: a connection that is kept would outlive the check."""
        import aiohttp

        options: dict[str, Any] = {"use_dns_cache": False, "force_close": True}
        if _is_socks(self.proxy):
            made = _socks_package().ProxyConnector.from_url(self.proxy, rdns=True, **options)
            connector: aiohttp.BaseConnector = made
            return connector
        if not self.proxy:  # else it is the proxy's name that is looked up
            options["resolver"] = _resolver(request)
        return aiohttp.TCPConnector(**options)

    async def dial(self, host: str, port: int, addresses: Sequence[str]) -> Streams:
        """A tunnel to one of the addresses; `Unreachable` if none answers."""
        not_reached: tuple[type[Exception], ...]
        not_reached = (OSError, TimeoutError, *_socks_errors(self.proxy))
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                if _is_socks(self.proxy):
                    package = import_module("python_socks.async_.asyncio")
                    sock = await package.Proxy.from_url(self.proxy).connect(addresses[0], port)
                    return await asyncio.open_connection(sock=sock)
                if self.proxy:
                    return await _through(self.proxy, host, port)
                return await _first(addresses, port)
        except not_reached as error:
            raise Unreachable(f"It cannot be reached ({trouble_told(error)}).", offline=True) from None


def check_proxy(proxy: str) -> None:
    """A `UserError` if it cannot be used."""
    parts = urlsplit(proxy)
    if parts.scheme not in ("http", "socks4", "socks5") or not parts.hostname:
        raise UserError(  # it may hold a password, so it is not repeated
            "security.egress.proxy is no proxy: an address is wanted, like http://127.0.0.1:3128 or"
            " socks5://127.0.0.1:1080."
        )
    if _is_socks(proxy) and find_spec(_SOCKS) is None:
        raise UserError(
            "security.egress.proxy is a SOCKS proxy, for which a package is missing.",
            hint="Run: hermes platforms install socks",
        )


def _is_socks(proxy: str) -> bool:
    return proxy.startswith("socks")


def _socks_package() -> Any:
    return import_module(_SOCKS)


def _socks_errors(proxy: str) -> tuple[type[Exception], ...]:
    if not _is_socks(proxy):
        return ()
    package = _socks_package()
    return (package.ProxyConnectionError, package.ProxyError, package.ProxyTimeoutError)


def _resolver(request: WireRequest) -> Any:
    from aiohttp.abc import AbstractResolver, ResolveResult

    class Pinned(AbstractResolver):
        """Knows the addresses that were checked, and asks nobody."""

        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
        ) -> list[ResolveResult]:
            if host != request.host:
                raise OSError(f"{host} was not checked")
            return [
                ResolveResult(
                    hostname=host,
                    host=address,
                    port=port,
                    family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                    proto=socket.IPPROTO_TCP,
                    flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
                )
                for address in request.addresses
            ]

        async def close(self) -> None:
            pass

    return Pinned()


async def _first(addresses: Sequence[str], port: int) -> Streams:
    """To whichever answers first. The next one is tried when one fails, or says nothing for a moment."""
    left, tries = list(addresses), set[asyncio.Task[Streams]]()
    failure: BaseException = OSError("it has no address")
    try:
        while left or tries:
            if left:
                tries.add(asyncio.create_task(asyncio.open_connection(left.pop(0), port)))
            moment = _NEXT_SECONDS if left else None
            ended, _ = await asyncio.wait(tries, timeout=moment, return_when=asyncio.FIRST_COMPLETED)
            for each in ended:
                tries.discard(each)
                error = each.exception()
                if error is None:
                    return each.result()
                failure = error
        raise failure
    finally:
        for each in tries:
            each.cancel()
            each.add_done_callback(_let_go)


def _let_go(late: asyncio.Task[Streams]) -> None:
    """Of a connection that came about although another one is used."""
    if not late.cancelled() and late.exception() is None:
        late.result()[1].close()


async def _through(proxy: str, host: str, port: int) -> Streams:
    """By CONNECT to another proxy."""
    from base64 import b64encode

    parts = urlsplit(proxy)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80, limit=_HEAD_BYTES)
    try:
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}"]
        if parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            lines.append(f"Proxy-Authorization: Basic {b64encode(login.encode()).decode()}")
        writer.write("\r\n".join([*lines, "", ""]).encode())
        await writer.drain()
        head = await reader.readuntil(b"\r\n\r\n")
        if head.split(b" ", 2)[1:2] != [b"200"]:
            raise Refused(f"The proxy of the settings does not lead to {host}.")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        writer.close()
        raise ConnectionError("the proxy gave no answer") from None
    except BaseException:
        writer.close()
        raise
    return reader, writer
