"""Calls of the Bot API. The bot's token is part of every address, so nothing of what goes wrong on the way is
told but its kind."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import aiohttp

from hermes.domain.errors import HermesError, Refused, Unreachable
from hermes.domain.ports.world import Sink
from hermes.domain.text import trouble_told
from hermes.entry.platforms.telegram.compose import Upload
from hermes.entry.platforms.telegram.convert import error_for

log = logging.getLogger("hermes.telegram")
_UPLOAD_SECONDS = 55.0
_PIECE = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class TelegramResponse:
    """An answer of Telegram's."""

    status: int
    answer: Any

    @property
    def ok(self) -> bool:
        return self.status < 300 and isinstance(self.answer, dict) and self.answer.get("ok") is True

    @property
    def result(self) -> Any:
        """What was asked for; an error of ours if it was refused."""
        if not self.ok:
            # Something that is no answer of the Bot API (a proxy's page) says nothing about what was done.
            status = self.status if self.status >= 300 else 500
            raise error_for(status, self.answer)
        return self.answer.get("result")

    def says(self, *words: str) -> bool:
        """Whether it is a refusal with one of these in its description."""
        told = self.answer.get("description") if isinstance(self.answer, dict) else ""
        return self.status == 400 and isinstance(told, str) and any(word in told for word in words)


class TelegramApi:
    answer_seconds = 30.0
    """How long an answer is waited for, if nobody says otherwise."""

    def __init__(self, base: str, token: str, proxy: str | None) -> None:
        self._base = base.rstrip("/")
        self._token = token
        self._proxy = proxy
        self._session: aiohttp.ClientSession | None = None
        self._over = False
        self._small: set[asyncio.Task[None]] = set()

    async def call(self, method: str, *, seconds: float | None = None, **asked: Any) -> Any:
        return (await self.ask(method, asked, seconds=seconds)).result

    async def ask(
        self,
        method: str,
        asked: Mapping[str, Any],
        *,
        seconds: float | None = None,
        files: Mapping[str, Upload] | None = None,
    ) -> TelegramResponse:
        """Files go by the names of their parameters."""
        if not files:
            return await self._post(method, seconds or self.answer_seconds, json=dict(asked))
        form = aiohttp.FormData()
        for name, value in asked.items():
            form.add_field(name, value if isinstance(value, str) else json.dumps(value))
        for name, file in files.items():
            mime = file.mime or "application/octet-stream"
            form.add_field(name, io.BytesIO(file.data), filename=file.name, content_type=mime)
        return await self._post(method, max(self.answer_seconds, _UPLOAD_SECONDS), data=form)

    def aside(self, method: str, **asked: Any) -> None:
        """A call that nobody waits for, or misses if it fails."""
        task = asyncio.get_running_loop().create_task(self._try(method, asked))
        self._small.add(task)
        task.add_done_callback(self._small.discard)

    async def _try(self, method: str, asked: Mapping[str, Any]) -> None:
        try:
            await self.call(method, **asked)
        except HermesError as error:
            log.info("telegram.small method=%s why=%s", method, error)

    async def download(self, path: str, sink: Sink) -> None:
        url = f"{self._base}/file/bot{self._token}/{quote(path)}"
        try:
            async with self._http().get(url, proxy=self._proxy, allow_redirects=False) as response:
                if response.status != 200:
                    gone = 400 <= response.status < 500
                    why = f"Telegram does not give the file (HTTP {response.status})"
                    raise Refused(why) if gone else Unreachable(why)
                async for piece in response.content.iter_chunked(_PIECE):
                    await sink(piece)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Unreachable(f"The file stopped coming ({trouble_told(error)})") from error

    async def _post(self, method: str, seconds: float, **body: Any) -> TelegramResponse:
        url = f"{self._base}/bot{self._token}/{method}"
        limit = aiohttp.ClientTimeout(total=seconds)
        try:
            async with self._http().post(url, timeout=limit, proxy=self._proxy, **body) as response:
                raw = await response.read()
                status = response.status
        except (aiohttp.ClientConnectorError, aiohttp.InvalidURL) as error:
            raise Unreachable(f"Telegram cannot be reached ({trouble_told(error)})") from None
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Unreachable(f"Telegram did not answer ({trouble_told(error)})", maybe_done=True) from None
        try:
            return TelegramResponse(status=status, answer=json.loads(raw))
        except ValueError:
            return TelegramResponse(status=status, answer=None)

    def _http(self) -> aiohttp.ClientSession:
        if self._over:
            # Who sends while the connection ends would open one that nobody closes.
            raise Unreachable("the connection to Telegram has ended")
        if self._session is None:
            self._session = aiohttp.ClientSession()
        return self._session

    async def close(self) -> None:
        self._over = True
        for task in tuple(self._small):
            task.cancel()
        if self._small:
            await asyncio.wait(tuple(self._small), timeout=1.0)
        if self._session is not None:
            await self._session.close()
            self._session = None
