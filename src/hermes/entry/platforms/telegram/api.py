"""Calls of the Bot API. The bot's token is part of every address."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import aiohttp

from hermes.domain.ports.world import Sink
from hermes.entry.kit.files import ANY_MIME
from hermes.entry.kit.http import HttpAnswer, HttpClient
from hermes.entry.kit.payload import as_text, dig
from hermes.entry.kit.transfer import OutgoingFile
from hermes.entry.platforms.telegram.compose import Upload
from hermes.entry.platforms.telegram.convert import error_for


class TelegramResponse(HttpAnswer, frozen=True):
    @property
    def ok(self) -> bool:
        return self.status < 300 and dig(self.answer, "ok") is True

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
        description = as_text(dig(self.answer, "description"))
        return self.status == 400 and any(word in description for word in words)


class TelegramApi(HttpClient[TelegramResponse]):
    gone_statuses = range(400, 500)

    def __init__(self, base: str, token: str, proxy: str | None) -> None:
        super().__init__("Telegram", TelegramResponse, proxy=proxy)
        self._base = base.rstrip("/")
        self._token = token

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
        url = f"{self._base}/bot{self._token}/{method}"
        if not files:
            return await self.exchange("POST", url, seconds=seconds, allow_redirects=True, json=dict(asked))
        form = aiohttp.FormData()
        for name, value in asked.items():
            form.add_field(name, value if isinstance(value, str) else json.dumps(value))
        bodies = {name: OutgoingFile(file.data) for name, file in files.items()}
        for name, file in files.items():
            form.add_field(name, bodies[name], filename=file.name, content_type=file.mime or ANY_MIME)
        moving = [*bodies.values()]
        return await self.exchange("POST", url, files=moving, allow_redirects=True, data=form)

    async def fetch(self, path: str, sink: Sink) -> None:
        await self.download(f"{self._base}/file/bot{self._token}/{quote(path)}", sink)
