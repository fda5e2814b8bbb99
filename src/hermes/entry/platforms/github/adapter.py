"""The GitHub adapter: writes comments through the REST API, or through the `gh` command without a token.

Each comment carries its key as a hidden mark, so that after a crash the issue tells whether it is there.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from typing import Any

from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Body, Receipt
from hermes.domain.errors import NeedsLogin, Unreachable
from hermes.domain.ports.platform import Accept
from hermes.entry.kit.http import HttpAnswer, HttpClient
from hermes.entry.kit.payload import as_dict, read_json
from hermes.entry.platforms.github import convert
from hermes.entry.platforms.github.manifest import MANIFEST

API = "https://api.github.com"
_SECONDS = 30.0
_LAST_WORDS_SECONDS = 1.0
_PAGES = 3
_STATUS = re.compile(r"\(HTTP (\d{3})\)")
_LOGIN_NEEDED = 4
_GH_VARIABLES = ("PATH", "HOME", "XDG_CONFIG_HOME", "GH_CONFIG_DIR", "GH_HOST")


class GithubAdapter:
    capabilities = MANIFEST.capabilities

    def __init__(self, context: AdapterContext) -> None:
        self._api = context.settings.extra.get("api_url", API).rstrip("/")
        self._token = context.find("GITHUB_TOKEN")
        variables = {name: context.find(name) for name in _GH_VARIABLES}
        self._environ = {name: value.reveal() for name, value in variables.items() if value is not None}
        self._client = HttpClient("GitHub", HttpAnswer)

    async def run(self, accept: Accept, cursor: str | None) -> None:
        """Nothing comes in here; stay until told to go."""
        try:
            await asyncio.Event().wait()
        finally:
            await self._client.close()

    async def send(self, to: Address, body: Body, *, key: str, reply_to: str | None) -> Receipt:
        comment = await self._ask("POST", convert.comments_path(to), {"body": convert.marked(body.text, key)})
        return Receipt(to=to, ref=str(_read(comment)["id"]))

    async def find_sent(self, to: Address, key: str) -> Receipt | None:
        """Looks at the newest comments; they are listed oldest first."""
        path = f"{convert.comments_path(to)}?per_page={convert.PER_PAGE}"
        first = await self._ask("GET", path)
        last = convert.last_page(first.headers.get("Link", ""))
        for page in range(last, max(last - _PAGES, 0), -1):
            comments = first if page == 1 else await self._ask("GET", f"{path}&page={page}")
            number = convert.find_marked(_read(comments), key)
            if number is not None:
                return Receipt(to=to, ref=number)
        return None

    async def _ask(self, method: str, path: str, body: object = None) -> HttpAnswer:
        response = await (self._rest(method, path, body) if self._token else self._gh(method, path, body))
        if response.status >= 300:
            text = response.raw.decode(errors="replace")
            message = str(as_dict(response.answer).get("message", text))
            raise convert.error_for(response.status, response.headers, message)
        return response

    async def _rest(self, method: str, path: str, body: object) -> HttpAnswer:
        assert self._token is not None
        headers = {
            "Authorization": f"Bearer {self._token.reveal()}",
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
            "User-Agent": "hermes-gateway",
        }
        return await self._client.exchange(method, f"{self._api}/{path}", json=body, headers=headers)

    async def _gh(self, method: str, path: str, body: object) -> HttpAnswer:
        arguments = ["api", "--include", "--method", method, path]
        given = None if body is None else json.dumps(body).encode()
        if given is not None:
            arguments += ["--input", "-"]
        try:
            process = await asyncio.create_subprocess_exec(
                "gh",
                *arguments,
                stdin=asyncio.subprocess.DEVNULL if given is None else asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=self._environ,
            )
        except OSError as error:
            raise NeedsLogin("GITHUB_TOKEN is not set, and there is no `gh` command") from error
        try:
            async with asyncio.timeout(_SECONDS):
                out, err = await process.communicate(given)
        except TimeoutError as error:
            raise Unreachable("`gh` did not answer", maybe_done=True) from error
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                # Something that it started may hold its output open: that is not waited for.
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(process.wait(), _LAST_WORDS_SECONDS)
        return _answer_of_gh(
            process.returncode or 0, out.decode(errors="replace"), err.decode(errors="replace")
        )


def _answer_of_gh(code: int, out: str, err: str) -> HttpAnswer:
    """`gh api --include` prints status line, headers and body; errors also end in `(HTTP 404)`."""
    if code == _LOGIN_NEEDED:
        raise NeedsLogin("`gh` is not logged in: run `gh auth login`, or set GITHUB_TOKEN")
    head, _, text = out.replace("\r\n", "\n").partition("\n\n")
    status, *lines = head.split("\n")
    words = status.split()
    named = _STATUS.search(err)
    if len(words) > 1 and words[0].startswith("HTTP/") and words[1].isdigit():
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip(): value.strip() for name, _, value in pairs}
        return HttpAnswer(status=int(words[1]), answer=read_json(text), headers=headers, raw=text.encode())
    if named is not None:
        return HttpAnswer(status=int(named[1]), answer=None, raw=err.encode())
    raise Unreachable(f"`gh` ended with code {code}", maybe_done=True)


def _read(response: HttpAnswer) -> Any:
    if response.answer is None:
        raise Unreachable("GitHub's answer is no JSON", maybe_done=True)
    return response.answer
