"""Calls of the Client-Server API: one homeserver, one access token. The token travels in a header and is told
to nobody; answers that are no success become our errors."""

from __future__ import annotations

import contextlib
import io
import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

import aiohttp

from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable, UserError
from hermes.domain.ports.world import Sink
from hermes.domain.text import trouble_told
from hermes.entry.platforms.matrix.convert import error_for

_PIECE = 64 * 1024
_ANSWER_BYTES = 128 * 1024 * 1024
_UPLOAD_SECONDS = 55.0
_SMALL = 1_000_000


def homeserver(said: str) -> str:
    """The address as it was meant: https unless something else is said."""
    url = said if "://" in said else f"https://{said}"
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or re.search(r"\s", url):
        raise UserError("MATRIX_HOMESERVER is no address.", hint="One looks like https://matrix.example.org.")
    return url.rstrip("/")


def path(*parts: str) -> str:
    """A path of the API, each part escaped."""
    return "/".join(quote(part, safe="") for part in parts)


class MatrixClient:
    answer_seconds = 30.0

    def __init__(self, said: str, proxy: str | None = None) -> None:
        self.url = homeserver(said)
        self._named = "://" not in said
        """Whether only a server's name was said: then its `.well-known` file may say where it answers."""
        self.token = ""
        self.renew: Callable[[], object] | None = None
        """Called when a token is not good any more that a new login would replace."""
        self.proxy = proxy
        self._most_bytes: float | None = None
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    async def call(
        self,
        method: str,
        where: str,
        asked: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> Any:
        """What the homeserver says to a call under /_matrix/client/."""
        body = None if asked is None else json.dumps(asked, ensure_ascii=False).encode("utf-8", "replace")
        headers = {"Content-Type": "application/json"} if body is not None else {}
        return await self._ask(
            method,
            f"/_matrix/client/{where}",
            seconds or self.answer_seconds,
            params=query,
            data=body,
            headers=headers,
        )

    async def discover(self) -> None:
        """Find the homeserver of a name, as it says itself; a name that says nothing is the address. Nothing
        secret is sent."""
        if not self._named:
            return
        limit = aiohttp.ClientTimeout(total=self.answer_seconds)
        try:
            async with self._http().get(
                f"{self.url}/.well-known/matrix/client", timeout=limit, proxy=self.proxy, max_redirects=3
            ) as response:
                told = _read(await response.content.read(_PIECE)) if response.status == 200 else None
        except (aiohttp.ClientError, TimeoutError):
            return
        about = told.get("m.homeserver") if isinstance(told, dict) else None
        found = about.get("base_url") if isinstance(about, dict) else None
        if isinstance(found, str) and "://" in found:
            try:
                self.url = homeserver(found)
            except UserError as error:
                raise UserError(
                    "The .well-known file of MATRIX_HOMESERVER names no address.",
                    hint="Set MATRIX_HOMESERVER to the address itself, like https://matrix.example.org.",
                ) from error
        self._named = False

    async def upload(self, data: bytes, name: str, mime: str) -> str:
        if len(data) > _SMALL and len(data) > await self._most():
            raise Refused(f"The homeserver takes files of {self._most_bytes:,} bytes, and this is larger")
        told = await self._ask(
            "POST",
            "/_matrix/media/v3/upload",
            max(self.answer_seconds, _UPLOAD_SECONDS),
            params={"filename": name},
            # In pieces: other chats go on meanwhile.
            data=io.BytesIO(data),
            headers={"Content-Type": mime},
        )
        found = told.get("content_uri") if isinstance(told, dict) else None
        if not isinstance(found, str) or not found.startswith("mxc://"):
            raise Unreachable("The homeserver does not say where it put the file")
        return found

    async def _most(self) -> float:
        """How large a file may be; as large as one likes if the homeserver does not say it."""
        if self._most_bytes is None:
            self._most_bytes = math.inf
            for where in ("/_matrix/client/v1/media/config", "/_matrix/media/v3/config"):
                with contextlib.suppress(Refused):
                    told = await self._ask("GET", where, self.answer_seconds)
                    most = told.get("m.upload.size") if isinstance(told, dict) else None
                    if isinstance(most, int) and not isinstance(most, bool) and most > 0:
                        self._most_bytes = most
                    break
        return self._most_bytes

    async def download(self, server: str, media: str, sink: Sink) -> None:
        """A file, with our name on the request; older homeservers know only the way without."""
        try:
            await self._download(f"/_matrix/client/v1/media/download/{path(server, media)}", sink)
        except _Unrecognized:
            where = f"/_matrix/media/v3/download/{path(server, media)}?allow_redirect=false"
            try:
                await self._download(where, sink)
            except _Unrecognized as error:
                raise Refused("The homeserver does not have the file") from error

    async def _download(self, where: str, sink: Sink) -> None:
        limit = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=self.answer_seconds)
        try:
            async with self._http().get(
                self.url + where,
                headers=self._headers(),
                timeout=limit,
                proxy=self.proxy,
                allow_redirects=False,
            ) as response:
                if response.status != 200:
                    raise _no_file(response.status, _read(await response.content.read(_PIECE)))
                async for piece in response.content.iter_chunked(_PIECE):
                    await sink(piece)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Unreachable(f"The file stopped coming ({trouble_told(error)})") from error

    async def _ask(self, method: str, where: str, seconds: float, **more: Any) -> Any:
        more["headers"] = {**self._headers(), **more.get("headers", {})}
        limit = aiohttp.ClientTimeout(total=seconds)
        try:
            async with self._http().request(
                method, self.url + where, timeout=limit, proxy=self.proxy, allow_redirects=False, **more
            ) as response:
                raw = await _whole(response)
                status, wait = response.status, response.headers.get("Retry-After")
        except (aiohttp.ClientConnectorError, aiohttp.InvalidURL) as error:
            raise Unreachable(f"The homeserver cannot be reached ({trouble_told(error)})") from None
        except (aiohttp.ClientError, TimeoutError) as error:
            why = f"The homeserver did not answer ({trouble_told(error)})"
            raise Unreachable(why, maybe_done=True) from None
        answer = _read(raw)
        if status >= 300:
            wrong = error_for(status, answer, wait)
            if isinstance(wrong, NeedsLogin) and self.renew is not None:
                self.renew()
                raise Unreachable("The homeserver ended the login") from None
            raise wrong
        if answer is None:
            raise Unreachable("The homeserver's answer cannot be read", maybe_done=True)
        return answer

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def _http(self) -> aiohttp.ClientSession:
        if self._closed:
            raise Unreachable("The connection to the homeserver has ended")
        if self._session is None:
            # Polls and sends of many rooms at once, each of them short or alone.
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        return self._session

    async def close(self) -> None:
        self._closed = True
        if self._session is not None:
            await self._session.close()


class _Unrecognized(Refused):
    """There is no such way on this homeserver, or nothing at its end."""


async def _whole(response: aiohttp.ClientResponse) -> bytes:
    raw = bytearray()
    async for piece in response.content.iter_any():
        raw += piece
        if len(raw) > _ANSWER_BYTES:
            raise Unreachable("The homeserver's answer is too long")
    return bytes(raw)


def _read(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


def _no_file(status: int, answer: Any) -> HermesError:
    code = answer.get("errcode") if isinstance(answer, dict) else None
    if status in (404, 405) and code in (None, "M_UNRECOGNIZED"):
        return _Unrecognized("The homeserver does not know this way")
    if status in (401, 429) or status >= 500:
        return error_for(status, answer)
    return Refused(f"The homeserver does not give the file (HTTP {status})")
