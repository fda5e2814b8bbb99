"""Calls of the Bot API. The bot's token is part of every address."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

from hermes.domain.chats.adapter import Finding, good, wrong
from hermes.domain.errors import Refused
from hermes.domain.ports.world import Sink
from hermes.entry.kit.files import ANY_MIME
from hermes.entry.kit.http import HttpAnswer, HttpClient, UploadForm
from hermes.entry.kit.payload import as_text, dig
from hermes.entry.kit.transfer import OutgoingFile
from hermes.entry.platforms.telegram.compose import Upload
from hermes.entry.platforms.telegram.convert import error_for

_PIECE = 1024 * 1024


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

    def __init__(self, base: str, token: str, proxy: str | None, *, files: str = "") -> None:
        super().__init__("Telegram", TelegramResponse, proxy=proxy)
        self.files = files
        """The folder in which a Bot API server on this machine keeps its files, if it does."""
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
        form = UploadForm()
        for name, value in asked.items():
            form.add_field(name, value if isinstance(value, str) else json.dumps(value))
        bodies = {name: OutgoingFile(file.data) for name, file in files.items()}
        for name, file in files.items():
            form.add_field(name, bodies[name], filename=file.name, content_type=file.mime or ANY_MIME)
        moving = [*bodies.values()]
        return await self.exchange("POST", url, files=moving, allow_redirects=True, data=form)

    async def fetch(self, path: str, sink: Sink) -> None:
        if path.startswith("/"):
            await self._pour(path, sink)
            return
        await self.download(f"{self._base}/file/bot{self._token}/{quote(path)}", sink)

    async def _pour(self, path: str, sink: Sink) -> None:
        """A file that the server names by its path (it runs with --local)."""
        if not self.files:
            raise Refused(
                "this Bot API server keeps files in a folder (--local); TELEGRAM_LOCAL_FILES has to name it"
            )
        try:
            file = await asyncio.to_thread(self._open, path)
        except OSError:
            raise Refused("the file is not in the folder that TELEGRAM_LOCAL_FILES names") from None
        with file:
            while piece := await asyncio.to_thread(file.read, _PIECE):
                await sink(piece)

    def _open(self, path: str) -> BinaryIO:
        """The server's own path counts from the folder of the bot on: where it runs in a container, the rest
        is called otherwise here. Nothing outside of the folder is opened."""
        folder = Path(self.files).resolve()
        _, found, rest = path.partition(f"/{self._token}/")
        place = (folder / self._token / rest if found else Path(path)).resolve()
        if not place.is_relative_to(folder) or not place.is_file():
            raise FileNotFoundError
        return place.open("rb")

    def look_at_files(self) -> Finding:
        """Whether the folder can be read. Blocks."""
        folder = Path(self.files)
        if folder.is_absolute() and os.access(folder / self._token, os.R_OK | os.X_OK):
            return good("The files of the Bot API server can be read.")
        text = "TELEGRAM_LOCAL_FILES names no folder with files of this bot that can be read."
        return wrong(text, "It is the server's working directory (--dir), as it is seen on this machine.")
