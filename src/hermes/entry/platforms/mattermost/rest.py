"""Calls of Mattermost's REST interface (v4). Faults become our errors, without the token in them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable
from hermes.domain.ports.world import Sink
from hermes.domain.text import one_line, trouble_told
from hermes.entry.platforms.mattermost.convert import ID

_PIECE = 64 * 1024
_UPLOAD_SECONDS = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MattermostServer:
    """Where it is and who we are there."""

    url: str
    token: str
    proxy: str | None = None

    @property
    def socket_url(self) -> str:
        return "ws" + self.url.removeprefix("http") + "/api/v4/websocket"


class MattermostRest:
    answer_seconds = 30.0

    def __init__(self, server: MattermostServer) -> None:
        self._server = server
        self._session: aiohttp.ClientSession | None = None
        self._over = False

    @property
    def session(self) -> aiohttp.ClientSession:
        if self._over:
            raise Unreachable("the connection to Mattermost has ended")
        if self._session is None:
            # The server's cookies would be credentials of another kind.
            self._session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())
        return self._session

    async def close(self) -> None:
        self._over = True
        if self._session is not None:
            await self._session.close()

    async def get(self, path: str, **params: str | int) -> Any:
        return await self._ask("GET", path, self.answer_seconds, params=params)

    async def post(self, path: str, asked: Any) -> Any:
        return await self._ask("POST", path, self.answer_seconds, json=asked)

    async def put(self, path: str, asked: Mapping[str, Any]) -> Any:
        return await self._ask("PUT", path, self.answer_seconds, json=asked)

    async def delete(self, path: str) -> Any:
        return await self._ask("DELETE", path, self.answer_seconds)

    async def upload(self, channel: str, name: str, data: bytes, mime: str | None) -> str:
        """The id of a file that no post has yet; one that stays alone is seen by nobody."""
        form = aiohttp.FormData()
        form.add_field("channel_id", channel)
        form.add_field("files", data, filename=name, content_type=mime or "application/octet-stream")
        seconds = max(self.answer_seconds, _UPLOAD_SECONDS)
        try:
            told = await self._ask("POST", "/files", seconds, data=form)
        except Unreachable as error:
            raise Unreachable(str(error), after=error.after) from error
        try:
            number = told["file_infos"][0]["id"]
        except (TypeError, KeyError, IndexError):
            number = None
        if not isinstance(number, str) or not ID.fullmatch(number):
            raise Unreachable("Mattermost does not say which file it took")
        return number

    async def download(self, number: str, sink: Sink) -> None:
        if not ID.fullmatch(number):
            raise Refused("that is no file of Mattermost's")
        limit = aiohttp.ClientTimeout(total=None, sock_connect=30.0, sock_read=self.answer_seconds)
        try:
            async with self.session.get(
                self._url(f"/files/{number}"), timeout=limit, **self._common()
            ) as response:
                if response.status != 200:
                    raise error_for(response.status, None, response.headers)
                async for piece in response.content.iter_chunked(_PIECE):
                    await sink(piece)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Unreachable(f"The file stopped coming ({trouble_told(error)})") from None

    async def _ask(self, method: str, path: str, seconds: float, **more: Any) -> Any:
        limit = aiohttp.ClientTimeout(total=seconds)
        try:
            async with self.session.request(
                method, self._url(path), timeout=limit, **self._common(), **more
            ) as response:
                raw, status, headers = await response.read(), response.status, response.headers
        except (aiohttp.ClientConnectorError, aiohttp.InvalidURL) as error:
            raise Unreachable(f"Mattermost cannot be reached ({trouble_told(error)})") from None
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Unreachable(f"Mattermost did not answer ({trouble_told(error)})", maybe_done=True) from None
        try:
            answer = json.loads(raw)
        except ValueError:
            answer = None
        if status >= 300 and not (status == 404 and answer is None):
            raise error_for(status, answer, headers)
        if answer is None:
            raise Unreachable("What answers there is no Mattermost: look at MATTERMOST_URL", maybe_done=True)
        return answer

    def _url(self, path: str) -> str:
        return f"{self._server.url}/api/v4{path}"

    def _common(self) -> dict[str, Any]:
        # A redirect would carry the token to whoever it names.
        return {
            "headers": {"Authorization": f"Bearer {self._server.token}"},
            "proxy": self._server.proxy,
            "allow_redirects": False,
        }


def error_for(status: int, answer: Any, headers: Mapping[str, str]) -> HermesError:
    """What an answer that is no success means for who called."""
    sort = _told(answer, "id")
    told = one_line(_told(answer, "message") or f"HTTP {status}", 160)
    if status == 429:
        return Unreachable("Mattermost wants us to be slower", after=_wait(headers))
    if status >= 500:
        return Unreachable(f"Mattermost has a fault of its own ({told})", maybe_done=True)
    if 300 <= status < 400:
        return Unreachable("Mattermost sends us elsewhere: set MATTERMOST_URL to the address where it ends")
    if status == 401:
        return NeedsLogin(
            "Mattermost does not take the token: make a new one, or enable the bot again (MATTERMOST_TOKEN)"
        )
    if status == 413 or "too_large" in sort:
        return Refused(f"The file is too large for this Mattermost ({told})")
    if "message_length" in sort:
        return Refused(f"The message is too long for this Mattermost ({told})")
    if "root_id" in sort:
        return Refused(f"The thread is gone ({told})")
    if status == 403:
        return Refused(f"Mattermost does not let the bot do that there: add it to the channel ({told})")
    if status == 404:
        return Refused(f"Mattermost does not have it any more ({told})")
    return Refused(f"Mattermost refuses it ({told})")


def _wait(headers: Mapping[str, str]) -> float:
    """The seconds to wait: told as such, or as those that are left of the current window."""
    for name in ("Retry-After", "X-Ratelimit-Reset"):
        told = headers.get(name, "")
        if told.isascii() and told.isdigit() and int(told) <= 3_600:
            return float(max(int(told), 1))
    return 5.0


def _told(answer: Any, name: str) -> str:
    value = answer.get(name) if isinstance(answer, dict) else None
    return value if isinstance(value, str) else ""
