"""Calls of Slack's Web API. Every token goes in a header, to Slack's own addresses alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp

from hermes.domain.errors import HermesError, Refused, Unreachable
from hermes.domain.ports.world import Sink
from hermes.entry.kit.errors import TOO_FAST, retry_after
from hermes.entry.kit.http import HttpAnswer, HttpClient
from hermes.entry.kit.payload import as_dict, dig
from hermes.entry.platforms.slack.wire import error_for, is_ours

# What only reads takes its parameters as a form; what writes takes JSON.
_WRITES = ("chat.", "reactions.add", "reactions.remove", "files.complete", "conversations.open", "assistant.")
_JSON = {"Content-Type": "application/json; charset=utf-8"}
_NO_PERMISSION = "Slack does not give the file; the app may lack the permission files:read"


class SlackResponse(HttpAnswer):
    """An answer of Slack's."""

    @property
    def result(self) -> dict[str, Any]:
        """The answer; an error of ours if it is a refusal."""
        answer = as_dict(self.answer)
        if self.status < 300 and answer.get("ok") is True:
            return answer
        # Something that is no answer of the Web API (a proxy's page) says nothing about what was done.
        status = self.status if self.status >= 300 or "error" in answer else 500
        raise error_for(status, self.answer, self.headers.get("Retry-After"))

    def says(self, *errors: str) -> bool:
        return dig(self.answer, "error") in errors

    @property
    def at(self) -> float | None:
        """The time on Slack's clock, in seconds."""
        try:
            return parsedate_to_datetime(self.headers.get("Date", "")).timestamp()
        except (ValueError, TypeError):
            return None


class SlackApi(HttpClient[SlackResponse]):
    """Calls with the bot's token, unless another is given."""

    gone_statuses = frozenset(range(400, 500)) - {TOO_FAST}

    def __init__(self, base: str, token: str, proxy: str | None) -> None:
        super().__init__("Slack", SlackResponse, proxy=proxy)
        self.base = base.rstrip("/")
        self._token = token

    async def call(self, method: str, **asked: Any) -> dict[str, Any]:
        return (await self.ask(method, asked)).result

    async def ask(self, method: str, asked: Mapping[str, Any], *, token: str = "") -> SlackResponse:
        headers = {"Authorization": f"Bearer {token or self._token}"}
        if method.startswith(_WRITES):
            headers |= _JSON
            data: Any = json.dumps(asked).encode()
        else:
            data = {
                name: value if isinstance(value, str) else json.dumps(value) for name, value in asked.items()
            }
        return await self.exchange("POST", f"{self.base}/{method}", headers=headers, data=data)

    async def upload(self, url: str, name: str, data: bytes, mime: str) -> None:
        """Put a file where Slack said. The address itself is the permission: no token goes along."""
        self._check_ours(url)
        form = aiohttp.FormData()
        form.add_field("file", data, filename=name, content_type=mime)
        told = await self.exchange("POST", url, seconds=self.upload_limit, data=form)
        if told.status == 413:
            raise Refused("The file is too large for Slack (HTTP 413)")
        if told.status != 200:
            # Until it is completed nobody sees anything of it, so it may simply be tried again.
            why = f"Slack did not take the file (HTTP {told.status})"
            raise Unreachable(why, after=retry_after(told.headers))

    async def respond(self, url: str, text: str) -> None:
        """Answer a slash command where Slack said; the address itself is the permission."""
        self._check_ours(url)
        data = json.dumps({"text": text, "response_type": "ephemeral"}).encode()
        told = await self.exchange("POST", url, headers=_JSON, data=data)
        if told.status in self.gone_statuses:
            raise Refused("The slash command was too long ago to be answered where the bot is not")
        if told.status != 200:
            raise error_for(told.status, None, told.headers.get("Retry-After"))

    async def fetch(self, url: str, sink: Sink, html: bool) -> None:
        """Get a file with the bot's token. Without the right to it Slack shows a page to log in on."""
        self._check_ours(url)

        def refusal(response: SlackResponse) -> HermesError | None:
            page = response.headers.get("Content-Type", "").partition(";")[0].strip() == "text/html"
            if 300 <= response.status < 400 or (response.status == 200 and page and not html):
                return Refused(_NO_PERMISSION)
            return self._no_file(response)

        await self.download(url, sink, headers={"Authorization": f"Bearer {self._token}"}, refusal=refusal)

    async def open_socket(self, url: str) -> aiohttp.ClientWebSocketResponse:
        """A connection for Socket Mode; a dead one is noticed by its missing heartbeat."""
        self._check_ours(url)
        return await self.connect(url, heartbeat=20.0)

    def _check_ours(self, url: str) -> None:
        if not is_ours(url, self.base):
            raise Refused("Slack names an address that is not its own")
