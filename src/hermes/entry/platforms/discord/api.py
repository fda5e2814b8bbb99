"""Discord's HTTP API: calls at the pace that it asks for, and what its errors mean.

Limits are told with every answer, per route and channel; one that is used up is waited for before the next
call, so that Discord rarely has to refuse (who is refused too often is shut out)."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from hermes.domain.clock import Clock
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable
from hermes.domain.ports.world import Sink
from hermes.domain.text import one_line
from hermes.entry.kit.errors import TOO_FAST, error_table, retry_after, seconds_of, slower
from hermes.entry.kit.http import HttpAnswer, HttpClient, UploadForm
from hermes.entry.kit.payload import Recent, as_dict, dig
from hermes.entry.kit.transfer import OutgoingFile
from hermes.entry.platforms.discord.convert import is_snowflake

API = "https://discord.com/api/v10"
TOKEN = "DISCORD_BOT_TOKEN"
UNKNOWN_TOKEN = f"Discord does not know this bot token; copy it anew from the developer portal ({TOKEN})"
FILE_HOSTS = frozenset({"cdn.discordapp.com", "media.discordapp.net"})
_PATIENCE = 5.0
_BLOCKED = 40333
_BLOCKED_SECONDS = 60.0
_TRIES = 5
_MOST_ROUTES = 1000
_NUMBER = re.compile(r"/[0-9]+(?=/|$)")
File = tuple[str, bytes, str]
"""Name, bytes, type."""


class DiscordResponse(HttpAnswer, frozen=True):
    @property
    def result(self) -> Any:
        """What was asked for; an error of ours if it was refused."""
        if self.status >= 300:
            raise self.error
        return self.answer

    @property
    def error(self) -> HermesError:
        return error_for(self.status, self.answer, self.headers)

    @property
    def code(self) -> Any:
        return dig(self.answer, "code")

    def blames(self, field: str) -> bool:
        """Whether a field of the request is what it refuses."""
        return self.status == 400 and field in as_dict(dig(self.answer, "errors"))


class DiscordApi(HttpClient[DiscordResponse]):
    def __init__(self, token: str, base: str, proxy: str | None, clock: Clock) -> None:
        super().__init__(
            "Discord",
            DiscordResponse,
            proxy=proxy,
            open_session=lambda **more: aiohttp.ClientSession(
                headers={"User-Agent": agent_of(token)}, **more
            ),
        )
        self._token = token
        self._base = base.rstrip("/")
        self._clock = clock
        self._buckets: Recent[str, str] = Recent(_MOST_ROUTES)
        self._free_at: dict[str, float] = {}
        self._all_free_at = 0.0

    async def call(self, method: str, path: str, asked: Any = None, **query: Any) -> Any:
        return (await self.ask(method, path, asked, **query)).result

    async def application(self) -> dict[str, Any]:
        app = as_dict(await self.call("GET", "/applications/@me"))
        if not is_snowflake(app.get("id")):
            raise Unreachable("Discord does not say which application the bot belongs to")
        return app

    async def read(self, path: str, **query: Any) -> Any:
        """A look at something, as often as it takes while Discord only wants us to be slower."""
        for _ in range(_TRIES):
            try:
                return await self.call("GET", path, **query)
            except Unreachable as error:
                if error.after is None or error.after > 60:
                    raise
                await self._clock.sleep(error.after)
        return await self.call("GET", path, **query)

    async def ask(self, method: str, path: str, asked: Any = None, **query: Any) -> DiscordResponse:
        return await self._request(method, path, json=asked, params=query or None)

    async def upload(self, path: str, asked: Mapping[str, Any], files: Sequence[File]) -> DiscordResponse:
        form = UploadForm()
        form.add_field("payload_json", json.dumps(asked), content_type="application/json")
        bodies = [OutgoingFile(data) for _, data, _ in files]
        for number, (name, _, mime) in enumerate(files):
            form.add_field(f"files[{number}]", bodies[number], filename=name, content_type=mime)
        return await self._request("POST", path, files=bodies, data=form)

    async def _request(self, method: str, path: str, **more: Any) -> DiscordResponse:
        route = _route(method, path)
        await self._wait_for(route)
        headers = {} if path.startswith("/interactions/") else {"Authorization": f"Bot {self._token}"}
        try:
            answer = await self.exchange(method, self._base + path, headers=headers, **more)
        except ValueError:
            raise Refused("That cannot be sent to Discord") from None
        self._remember(route, answer)
        return answer

    async def _wait_for(self, route: str) -> None:
        # The limit of all that we ask does not bind answers to interactions, which have three seconds.
        everywhere = 0.0 if "interactions/" in route else self._all_free_at
        wait = (
            max(self._free_at.get(self._buckets.get(route, route), 0.0), everywhere) - self._clock.monotonic()
        )
        if wait > _PATIENCE:
            raise Unreachable("Discord wants us to be slower", after=round(wait, 3))
        if wait > 0:
            await self._clock.sleep(wait)

    def _remember(self, route: str, answer: DiscordResponse) -> None:
        now = self._clock.monotonic()
        if len(self._free_at) > _MOST_ROUTES:
            self._free_at = {name: at for name, at in self._free_at.items() if at > now}
        if bucket := answer.headers.get("X-RateLimit-Bucket"):
            # Discord's own name of what shares a limit; each channel and server has one of its own
            # (discord-api-docs, topics/rate-limits: “top-level resources … are not shared between them”).
            self._buckets[route] = f"{bucket} {_resource(route)}"
        limit = self._buckets.get(route, route)
        if answer.status == TOO_FAST:
            free = now + _delay(answer.answer, answer.headers)
            if _is_everywhere(answer):
                self._all_free_at = free
            else:
                self._free_at[limit] = free
        elif _is_blocked(answer.status, answer.answer):
            self._all_free_at = now + _BLOCKED_SECONDS
        elif answer.headers.get("X-RateLimit-Remaining") == "0":
            after = seconds_of(answer.headers.get("X-RateLimit-Reset-After"))
            self._free_at[limit] = now + (after or 0.0)

    async def fetch(self, url: Any, sink: Sink) -> None:
        """A file of Discord's own servers, and of no others."""
        own = urlsplit(self._base)
        asked = urlsplit(url) if isinstance(url, str) else None
        theirs = asked is not None and asked.scheme == "https" and asked.netloc in FILE_HOSTS
        ours = asked is not None and self._base != API and asked[:2] == own[:2]
        if not (theirs or ours):
            raise Refused("the file is not on Discord's own servers")
        await self.download(url, sink)


def agent_of(token: str) -> str:
    """Discord wants an address in it, and what stands before it turns away who has none: the bot's own page.
    The first part of a token is the bot's number."""
    first = token.partition(".")[0]
    with suppress(ValueError):
        number = base64.urlsafe_b64decode(first + "=" * (-len(first) % 4)).decode("ascii")
        if is_snowflake(number):
            return f"DiscordBot (https://discord.com/users/{number}, 1)"
    return "DiscordBot (https://discord.com, 1)"


def _resource(route: str) -> str:
    return "/".join(route.partition(" ")[2].split("/")[:2])


def _route(method: str, path: str) -> str:
    """What shares a limit, until Discord says so: the method, the shape of the path, and the channel or
    server in front."""
    front, _, rest = path.removeprefix("/").partition("/")
    number, _, rest = rest.partition("/")
    shape, reactions, _ = _NUMBER.sub("/…", "/" + rest).partition("/reactions/")
    # To put a reaction and to take it away share one.
    return f"{'' if reactions else method} {front}/{number}{shape}{reactions}"


_error = error_table(
    "Discord",
    {
        401: (NeedsLogin, UNKNOWN_TOKEN),
        "blocked": (slower, "Something before Discord turned us away (HTTP 403)"),
        403: (Refused, "Discord does not let us do that there ({why})"),
        404: (Refused, "Discord does not find it ({why})"),
    },
    too_large={"40005"},
)


def error_for(status: int, answer: Any, headers: Mapping[str, str]) -> HermesError:
    why = one_line(str(dig(answer, "message") or f"HTTP {status}"), 120)
    if detail := _first_detail(dig(answer, "errors")):
        why = f"{why}: {one_line(detail, 120)}"
    blocked = _is_blocked(status, answer)
    code = "blocked" if blocked else str(dig(answer, "code"))
    after = _BLOCKED_SECONDS if blocked else _delay(answer, headers)
    return _error(status, code, why, after)


def _is_blocked(status: int, answer: Any) -> bool:
    """Whether what stands before Discord turned us away, which says nothing of what was asked."""
    return status == 403 and (not isinstance(answer, dict) or answer.get("code") == _BLOCKED)


def _is_everywhere(answer: DiscordResponse) -> bool:
    """Whether a limit is of all that we ask. One that says nothing of itself is not Discord's but of what
    stands before it: who was refused too often is shut out there, for a while and from everything."""
    headers = answer.headers
    if headers.get("X-RateLimit-Global") or dig(answer.answer, "global") is True:
        return True
    return headers.get("X-RateLimit-Scope") == "global" or not _is_discords(answer.answer, headers)


def _is_discords(answer: Any, headers: Mapping[str, str]) -> bool:
    return dig(answer, "retry_after") is not None or "X-RateLimit-Scope" in headers


def _delay(answer: Any, headers: Mapping[str, str]) -> float:
    seconds = dig(answer, "retry_after")
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 <= seconds < 86_400:
        return float(seconds)
    usual = 5.0 if _is_discords(answer, headers) else _BLOCKED_SECONDS
    return retry_after(headers) or usual


def _first_detail(errors: Any, depth: int = 0) -> str:
    if isinstance(errors, list):
        errors = dict(enumerate(errors[:3]))
    if not isinstance(errors, dict) or depth > 8:
        return ""
    if isinstance(detail := errors.get("message"), str):
        return detail
    return next(filter(None, (_first_detail(inner, depth + 1) for inner in errors.values())), "")
