"""Calls of Slack's Web API. Every token goes in a header, to Slack's own addresses alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp

from hermes.domain.errors import Refused, Unreachable
from hermes.domain.ports.world import Sink
from hermes.domain.text import trouble_told
from hermes.entry.platforms.slack.wire import error_for, is_ours

# What only reads takes its parameters as a form; what writes takes JSON.
_JSON = ("chat.", "reactions.add", "reactions.remove", "files.complete", "conversations.open", "assistant.")
_PIECE = 64 * 1024
_UPLOAD_SECONDS = 55.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackResponse:
    """An answer of Slack's."""

    status: int
    answer: Any
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def result(self) -> dict[str, Any]:
        """The answer; an error of ours if it is a refusal."""
        if self.status < 300 and isinstance(self.answer, dict) and self.answer.get("ok") is True:
            return self.answer
        told = isinstance(self.answer, dict) and "error" in self.answer
        # Something that is no answer of the Web API (a proxy's page) says nothing about what was done.
        status = self.status if self.status >= 300 or told else 500
        raise error_for(status, self.answer, self.headers.get("Retry-After"))

    def says(self, *errors: str) -> bool:
        return isinstance(self.answer, dict) and self.answer.get("error") in errors

    @property
    def at(self) -> float | None:
        """The time on Slack's clock, in seconds."""
        try:
            return parsedate_to_datetime(self.headers.get("Date", "")).timestamp()
        except (ValueError, TypeError):
            return None


class SlackApi:
    """Calls with the bot's token, unless another is given."""

    answer_seconds = 30.0

    def __init__(self, base: str, token: str, proxy: str | None) -> None:
        self.base = base.rstrip("/")
        self._token = token
        self._proxy = proxy
        self._session: aiohttp.ClientSession | None = None
        self._over = False

    async def call(self, method: str, **asked: Any) -> dict[str, Any]:
        return (await self.ask(method, asked)).result

    async def ask(self, method: str, asked: Mapping[str, Any], *, token: str = "") -> SlackResponse:
        headers = {"Authorization": f"Bearer {token or self._token}"}
        if method.startswith(_JSON):
            headers["Content-Type"] = "application/json; charset=utf-8"
            data: Any = json.dumps(asked).encode()
        else:
            data = {name: _formed(value) for name, value in asked.items()}
        url = f"{self.base}/{method}"
        status, raw, told = await self._post(url, data, headers, self.answer_seconds)
        try:
            answer = json.loads(raw)
        except ValueError:
            answer = None
        return SlackResponse(status=status, answer=answer, headers=told)

    async def upload(self, url: str, name: str, data: bytes, mime: str) -> None:
        """Put a file where Slack said. The address itself is the permission: no token goes along."""
        self.check_ours(url)
        form = aiohttp.FormData()
        form.add_field("file", data, filename=name, content_type=mime)
        status, _, told = await self._post(url, form, {}, max(self.answer_seconds, _UPLOAD_SECONDS))
        if status != 200:
            if status == 413:
                raise Refused("The file is too large for Slack (HTTP 413)")
            # Until it is completed nobody sees anything of it, so it may simply be tried again.
            raise Unreachable(f"Slack did not take the file (HTTP {status})", after=_after(told))

    async def respond(self, url: str, text: str) -> None:
        """Answer a slash command where Slack said; the address itself is the permission."""
        self.check_ours(url)
        data = json.dumps({"text": text, "response_type": "ephemeral"}).encode()
        status, _, told = await self._post(
            url, data, {"Content-Type": "application/json; charset=utf-8"}, self.answer_seconds
        )
        if 400 <= status < 500 and status != 429:
            raise Refused("The slash command was too long ago to be answered where the bot is not")
        if status != 200:
            raise error_for(status, None, told.get("Retry-After"))

    async def download(self, url: str, sink: Sink, html: bool) -> None:
        """Get a file with the bot's token. Without the right to it Slack shows a page to log in on."""
        self.check_ours(url)
        headers = {"Authorization": f"Bearer {self._token}"}
        try:
            async with self.http().get(
                url, headers=headers, proxy=self._proxy, allow_redirects=False
            ) as response:
                if response.status in (301, 302, 303, 307, 308):
                    raise Refused("Slack does not give the file; the app may lack the permission files:read")
                if response.status != 200:
                    gone = 400 <= response.status < 500 and response.status != 429
                    why = f"Slack does not give the file (HTTP {response.status})"
                    raise Refused(why) if gone else Unreachable(why, after=_after(response.headers))
                if response.content_type == "text/html" and not html:
                    raise Refused("Slack does not give the file; the app may lack the permission files:read")
                async for piece in response.content.iter_chunked(_PIECE):
                    await sink(piece)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Unreachable(f"The file stopped coming ({trouble_told(error)})") from None

    async def connect(self, url: str) -> aiohttp.ClientWebSocketResponse:
        """A connection for Socket Mode; a dead one is noticed by its missing heartbeat."""
        self.check_ours(url)
        try:
            async with asyncio.timeout(self.answer_seconds):
                return await self.http().ws_connect(
                    url,
                    heartbeat=20.0,
                    proxy=self._proxy,
                    timeout=aiohttp.ClientWSTimeout(ws_close=1.0),
                    max_msg_size=16 * 1024 * 1024,
                )
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Unreachable(f"Slack's socket cannot be opened ({trouble_told(error)})") from None

    def check_ours(self, url: str) -> None:
        if not is_ours(url, self.base):
            raise Refused("Slack names an address that is not its own")

    async def _post(
        self, url: str, data: Any, headers: Mapping[str, str], seconds: float
    ) -> tuple[int, bytes, Mapping[str, str]]:
        limit = aiohttp.ClientTimeout(total=seconds)
        try:
            async with self.http().post(
                url, data=data, headers=headers, timeout=limit, proxy=self._proxy, allow_redirects=False
            ) as response:
                return response.status, await response.read(), response.headers
        except (aiohttp.ClientConnectorError, aiohttp.InvalidURL) as error:
            raise Unreachable(f"Slack cannot be reached ({trouble_told(error)})") from None
        except RuntimeError as error:
            # Closed between two steps of ours.
            raise Unreachable(
                f"The connection to Slack is being renewed ({error})", maybe_done=True
            ) from None
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Unreachable(f"Slack did not answer ({trouble_told(error)})", maybe_done=True) from None

    def http(self) -> aiohttp.ClientSession:
        if self._over:
            raise Unreachable("The connection to Slack is being renewed")
        if self._session is None:
            self._session = aiohttp.ClientSession()
        return self._session

    async def close(self) -> None:
        """For good: who is late with a call is told so, and comes again to the next connection."""
        self._over = True
        if self._session is not None:
            await self._session.close()
            self._session = None


def _formed(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value)


def _after(headers: Mapping[str, str]) -> float | None:
    wait = headers.get("Retry-After", "")
    return float(wait) if wait.isascii() and wait.isdigit() and len(wait) < 6 else None
