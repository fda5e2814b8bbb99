"""The one client for addresses that came from a person, a model or outside content.

It speaks to the open network alone: a name is looked up for every request, what is connected to is what was
checked, and each redirect is checked like the first address. It keeps no cookies and uses no proxy."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from hermes.domain.errors import UserError
from hermes.domain.hosts import is_public, leads_inside
from hermes.domain.ports.world import FetchedPage
from hermes.domain.text import one_line

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

MOST_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PIECE = 64 * 1024
_INSIDE = "It leads into a network that is not the open one."


class EgressClient:
    """`is_open` says which IP addresses may be reached; tests widen it."""

    def __init__(self, is_open: Callable[[str], bool] = is_public) -> None:
        self._is_open = is_open
        self._session: aiohttp.ClientSession | None = None

    async def fetch(self, url: str, *, limit: int = 5_000_000, seconds: float = 30.0) -> FetchedPage:
        try:
            async with asyncio.timeout(seconds):
                return await self._follow(url, limit)
        except TimeoutError:
            raise _not_fetched(url, f"There was no answer within {seconds:g} s.") from None

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _follow(self, url: str, limit: int) -> FetchedPage:
        import aiohttp

        for _ in range(MOST_REDIRECTS + 1):
            try:
                async with self._opened().get(self._checked(url), allow_redirects=False) as response:
                    target = response.headers.get("Location", "")
                    if response.status not in _REDIRECTS or not target:
                        return await _read(response, url, limit)
                    url = urljoin(url, target)
            except (aiohttp.ClientError, ValueError) as error:
                inside = isinstance(getattr(error, "os_error", None), _NotOpen)
                raise _not_fetched(url, _INSIDE if inside else f"{type(error).__name__}.") from error
        raise _not_fetched(url, f"It leads on more than {MOST_REDIRECTS} times.")

    def _checked(self, url: str) -> URL:
        """The address as it is connected to: what is checked is what the client's own reading made of it, for
        a literal IP is looked up nowhere."""
        from yarl import URL

        try:
            read = URL(url)
            host, written = read.raw_host or "", str(read)
        except ValueError:
            raise _not_fetched(url, "It is not an address on the web.") from None
        if read.scheme not in ("http", "https") or not host:
            raise _not_fetched(url, "It is not an address on the web: http:// or https:// is wanted.")
        if read.user is not None or read.password is not None:
            raise _not_fetched(url, "It has a name or a password in it.")
        if (leads_inside(url) or leads_inside(written)) and not self._is_open(host):
            raise _not_fetched(url, _INSIDE)
        return read

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            import aiohttp

            connector = aiohttp.TCPConnector(resolver=_resolver(self._is_open), use_dns_cache=False)
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        return self._session


class _NotOpen(OSError):
    """The name leads to an address that may not be reached."""


def _resolver(is_open: Callable[[str], bool]) -> Any:
    from aiohttp import ThreadedResolver
    from aiohttp.abc import ResolveResult

    class OpenResolver(ThreadedResolver):
        """Names that lead to addresses of the open network, and to nothing else beside them."""

        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
        ) -> list[ResolveResult]:
            addresses = await super().resolve(host, port, family)
            if not all(is_open(address["host"]) for address in addresses):
                raise _NotOpen(f"{host} is not of the open network")
            return addresses

    return OpenResolver()


async def _read(response: aiohttp.ClientResponse, url: str, limit: int) -> FetchedPage:
    data = bytearray()
    async for piece in response.content.iter_chunked(_PIECE):
        data += piece
        if len(data) > limit:
            raise _not_fetched(url, f"It has more than {limit:,} bytes.")
    return FetchedPage(url=url, status=response.status, mime=response.content_type, data=bytes(data))


def _not_fetched(url: str, why: str) -> UserError:
    return UserError(f"{one_line(url, 200)} was not fetched. {why}")
