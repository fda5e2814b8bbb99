"""Calls of Mattermost's REST interface (v4). Faults become our errors, without the token in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import aiohttp

from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable
from hermes.domain.ports.world import Sink
from hermes.domain.text import one_line
from hermes.entry.kit.errors import error_table, seconds_of
from hermes.entry.kit.files import ANY_MIME
from hermes.entry.kit.http import HttpAnswer, HttpClient, UploadForm
from hermes.entry.kit.payload import as_dicts, as_text, dig
from hermes.entry.kit.transfer import OutgoingFile
from hermes.entry.platforms.mattermost.convert import ID

_WORDS = ("too_large", "message_length", "root_id")
"""What an error's id has in it that tells one refusal from another."""
_error = error_table(
    "Mattermost",
    {
        range(300, 400): (
            Unreachable,
            "Mattermost sends us elsewhere: set MATTERMOST_URL to the address where it ends",
        ),
        401: (
            NeedsLogin,
            "Mattermost does not take the token: make a new one, or enable the bot again (MATTERMOST_TOKEN)",
        ),
        "message_length": (Refused, "The message is too long for this Mattermost ({why})"),
        "root_id": (Refused, "The thread is gone ({why})"),
        403: (Refused, "Mattermost does not let the bot do that there: add it to the channel ({why})"),
        404: (Refused, "Mattermost does not have it any more ({why})"),
    },
    too_large={"too_large"},
)


class MattermostApi(HttpClient[HttpAnswer]):
    def __init__(self, url: str, token: str, proxy: str | None) -> None:
        super().__init__(
            "Mattermost",
            HttpAnswer,
            proxy=proxy,
            # The server's cookies would be credentials of another kind.
            open_session=lambda **more: aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), **more),
        )
        self.url = url
        self.token = token
        self._headers = {"Authorization": f"Bearer {token}"}

    async def call(self, method: str, path: str, asked: Any = None, **more: Any) -> Any:
        response = await self.exchange(method, self._url(path), headers=self._headers, json=asked, **more)
        status, answer = response.status, response.answer
        if status >= 300 and not (status == 404 and answer is None):
            raise error_for(status, answer, response.headers)
        if answer is None:
            raise Unreachable("What answers there is no Mattermost: look at MATTERMOST_URL", maybe_done=True)
        return answer

    async def get(self, path: str, **params: str | int) -> Any:
        return await self.call("GET", path, params=params)

    async def upload(self, channel: str, name: str, data: bytes, mime: str | None) -> str:
        """The id of a file that no post has yet; one that stays alone is seen by nobody."""
        form = UploadForm()
        form.add_field("channel_id", channel)
        file = OutgoingFile(data)
        form.add_field("files", file, filename=name, content_type=mime or ANY_MIME)
        try:
            answer = await self.call("POST", "/files", files=[file], data=form)
        except Unreachable as error:
            raise Unreachable(str(error), after=error.after, in_transfer=error.maybe_done) from error
        for info in as_dicts(dig(answer, "file_infos"))[:1]:
            if ID.fullmatch(as_text(info.get("id"))):
                return as_text(info["id"])
        raise Unreachable("Mattermost does not say which file it took")

    async def fetch(self, number: str, sink: Sink) -> None:
        if not ID.fullmatch(number):
            raise Refused("that is no file of Mattermost's")

        def refusal(answer: HttpAnswer) -> HermesError | None:
            return None if answer.status == 200 else error_for(answer.status, None, answer.headers)

        await self.download(self._url(f"/files/{number}"), sink, headers=self._headers, refusal=refusal)

    def _url(self, path: str) -> str:
        return f"{self.url}/api/v4{path}"


def error_for(status: int, answer: Any, headers: Mapping[str, str]) -> HermesError:
    name = as_text(dig(answer, "id"))
    why = one_line(as_text(dig(answer, "message")) or f"HTTP {status}", 160)
    code = next((words for words in _WORDS if words in name), "")
    return _error(status, code, why, _wait(headers))


def _wait(headers: Mapping[str, str]) -> float:
    """The seconds to wait: told as such, or as those that are left of the current window."""
    for name in ("Retry-After", "X-Ratelimit-Reset"):
        seconds = seconds_of(headers.get(name))
        if seconds is not None and seconds <= 3_600:
            return max(seconds, 1.0)
    return 5.0
