"""Discord's HTTP API: calls at the pace that it asks for, and what its errors mean.

Limits are told with every answer, per route and channel; one that is used up is waited for before the next
call, so that Discord rarely has to refuse (who is refused too often is shut out)."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from hermes.domain.clock import Clock
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable
from hermes.domain.ports.world import Sink
from hermes.domain.text import one_line, trouble_told

API = "https://discord.com/api/v10"
TOKEN = "DISCORD_BOT_TOKEN"
FILE_HOSTS = frozenset({"cdn.discordapp.com", "media.discordapp.net"})
_AGENT = "DiscordBot (hermes-gateway, 1)"
_PATIENCE = 5.0
_BLOCKED = 40333
_BLOCKED_SECONDS = 60.0
_TRIES = 5
_MOST_ROUTES = 1000
_PIECE = 64 * 1024
_NUMBER = re.compile(r"/[0-9]+(?=/|$)")
File = tuple[str, bytes, str]
"""Name, bytes, type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscordResponse:
    """An answer of Discord's."""

    status: int
    answer: Any
    headers: Mapping[str, str]

    @property
    def result(self) -> Any:
        """What was asked for; an error of ours if it was refused."""
        if self.status >= 300:
            raise self.error
        return self.answer

    @property
    def error(self) -> HermesError:
        """What it means that it is no success."""
        return error_for(self.status, self.answer, self.headers)

    @property
    def code(self) -> Any:
        """Discord's own number of what went wrong."""
        return _field(self.answer, "code")

    def blames(self, field: str) -> bool:
        """Whether a field of the request is what it refuses."""
        errors = self.answer.get("errors") if isinstance(self.answer, dict) else None
        return self.status == 400 and isinstance(errors, dict) and field in errors


class DiscordRest:
    answer_seconds = 30.0
    upload_seconds = 55.0

    def __init__(self, token: str, base: str, proxy: str | None, clock: Clock) -> None:
        self._token = token
        self._base = base.rstrip("/")
        self._proxy = proxy
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None
        self._over = False
        self._free_at: dict[str, float] = {}
        self._all_free_at = 0.0

    @property
    def http(self) -> aiohttp.ClientSession:
        if self._over:
            # Who sends while the connection ends would open one that nobody closes.
            raise Unreachable("the connection to Discord has ended")
        if self._session is None:
            self._session = aiohttp.ClientSession(headers={"User-Agent": _AGENT})
        return self._session

    @property
    def proxy(self) -> str | None:
        return self._proxy

    async def close(self) -> None:
        self._over = True
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def call(self, method: str, path: str, asked: Any = None, **query: Any) -> Any:
        return (await self.ask(method, path, asked, **query)).result

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
        body: dict[str, Any] = {} if asked is None else {"json": asked}
        if query:
            body["params"] = query
        return await self._request(method, path, self.answer_seconds, body)

    async def upload(self, path: str, asked: Mapping[str, Any], files: Sequence[File]) -> DiscordResponse:
        form = aiohttp.FormData()
        form.add_field("payload_json", json.dumps(asked), content_type="application/json")
        for number, (name, data, mime) in enumerate(files):
            # As a file: large bytes would be written in one go, and everything else would wait.
            form.add_field(f"files[{number}]", io.BytesIO(data), filename=name, content_type=mime)
        seconds = max(self.answer_seconds, self.upload_seconds)
        return await self._request("POST", path, seconds, {"data": form})

    async def _request(
        self, method: str, path: str, seconds: float, body: Mapping[str, Any]
    ) -> DiscordResponse:
        route = _route(method, path)
        await self._wait_for(route)
        url = self._base + path
        limit = aiohttp.ClientTimeout(total=seconds)
        headers = {} if path.startswith("/interactions/") else {"Authorization": f"Bot {self._token}"}
        try:
            async with self.http.request(
                method, url, headers=headers, timeout=limit, proxy=self._proxy, allow_redirects=False, **body
            ) as response:
                raw = await response.read()
                told = DiscordResponse(status=response.status, answer=_json(raw), headers=response.headers)
        except (aiohttp.ClientConnectorError, aiohttp.InvalidURL) as error:
            raise Unreachable(f"Discord cannot be reached ({trouble_told(error)})") from None
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Unreachable(f"Discord did not answer ({trouble_told(error)})", maybe_done=True) from None
        except ValueError:
            raise Refused("That cannot be sent to Discord") from None
        self._remember(route, told)
        return told

    # --- pace ---

    async def _wait_for(self, route: str) -> None:
        wait = max(self._free_at.get(route, 0.0), self._all_free_at) - self._clock.monotonic()
        if wait > _PATIENCE:
            raise Unreachable("Discord wants us to be slower", after=round(wait, 3))
        if wait > 0:
            await self._clock.sleep(wait)

    def _remember(self, route: str, told: DiscordResponse) -> None:
        now = self._clock.monotonic()
        if len(self._free_at) > _MOST_ROUTES:
            self._free_at = {name: at for name, at in self._free_at.items() if at > now}
        if told.status == 429:
            free = now + _delay(told.answer, told.headers)
            if _is_everywhere(told):
                self._all_free_at = free
            else:
                self._free_at[route] = free
        elif _is_blocked(told.status, told.answer):
            self._all_free_at = now + _BLOCKED_SECONDS
        elif told.headers.get("X-RateLimit-Remaining") == "0":
            after = _seconds(told.headers.get("X-RateLimit-Reset-After"))
            self._free_at[route] = now + (after or 0.0)

    # --- files ---

    async def fetch(self, url: Any, sink: Sink) -> None:
        """A file of Discord's own servers, and of no others."""
        own = urlsplit(self._base)
        asked = urlsplit(url) if isinstance(url, str) else None
        theirs = asked is not None and asked.scheme == "https" and asked.netloc in FILE_HOSTS
        ours = asked is not None and self._base != API and asked[:2] == own[:2]
        if not (theirs or ours):
            raise Refused("the file is not on Discord's own servers")
        limit = aiohttp.ClientTimeout(
            total=None, sock_connect=self.answer_seconds, sock_read=self.answer_seconds
        )
        try:
            async with self.http.get(
                url, proxy=self._proxy, timeout=limit, allow_redirects=False
            ) as response:
                if response.status != 200:
                    why = f"Discord does not give the file (HTTP {response.status})"
                    raise Refused(why) if 300 <= response.status < 500 else Unreachable(why)
                async for piece in response.content.iter_chunked(_PIECE):
                    await sink(piece)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Unreachable(f"The file stopped coming ({trouble_told(error)})") from None


def _route(method: str, path: str) -> str:
    """What shares a limit: the method, the shape of the path, and the channel or server in front."""
    front, _, rest = path.removeprefix("/").partition("/")
    number, _, rest = rest.partition("/")
    shape = _NUMBER.sub("/…", "/" + rest).partition("/reactions/")[0]
    return f"{method} {front}/{number}{shape}"


# --- errors --------------------------------------------------------------------------------------


def error_for(status: int, answer: Any, headers: Mapping[str, str]) -> HermesError:
    """What an answer that is no success means for who called."""
    code = _field(answer, "code")
    told = one_line(str(_field(answer, "message") or f"HTTP {status}"), 120)
    if detail := _first_detail(_field(answer, "errors")):
        told = f"{told}: {one_line(detail, 120)}"
    if status == 401:
        return NeedsLogin(
            f"Discord does not know this bot token; copy it anew from the developer portal ({TOKEN})"
        )
    if status == 429:
        return Unreachable(f"Discord wants us to be slower ({told})", after=_delay(answer, headers))
    if status >= 500:
        return Unreachable(f"Discord has a fault of its own ({told})", maybe_done=True)
    if _is_blocked(status, answer):
        why = "Something before Discord turned us away (HTTP 403)"
        return Unreachable(why, after=_BLOCKED_SECONDS)
    if status == 403:
        return Refused(f"Discord does not let us do that there ({told})")
    if status == 413 or code == 40005:
        return Refused(f"The file is too large for Discord ({told})")
    if status == 404:
        return Refused(f"Discord does not find it ({told})")
    return Refused(f"Discord refuses it ({told})")


def _is_blocked(status: int, answer: Any) -> bool:
    """Whether what stands before Discord turned us away, which says nothing of what was asked."""
    return status == 403 and (not isinstance(answer, dict) or answer.get("code") == _BLOCKED)


def _is_everywhere(told: DiscordResponse) -> bool:
    """Whether a limit is of all that we ask. One that says nothing of itself is not Discord's but of what
    stands before it: who was refused too often is shut out there, for a while and from everything."""
    if told.headers.get("X-RateLimit-Global") or _field(told.answer, "global") is True:
        return True
    return told.headers.get("X-RateLimit-Scope") == "global" or not _is_discords(told.answer, told.headers)


def _is_discords(answer: Any, headers: Mapping[str, str]) -> bool:
    return _field(answer, "retry_after") is not None or "X-RateLimit-Scope" in headers


def _delay(answer: Any, headers: Mapping[str, str]) -> float:
    found = _field(answer, "retry_after")
    if isinstance(found, int | float) and not isinstance(found, bool) and 0 <= found < 86_400:
        return float(found)
    usual = 5.0 if _is_discords(answer, headers) else _BLOCKED_SECONDS
    return _seconds(headers.get("Retry-After")) or usual


def _seconds(text: str | None) -> float | None:
    found = re.fullmatch(r"[0-9]{1,5}(\.[0-9]{1,6})?", text or "", re.ASCII)
    return None if found is None else float(found[0])


def _first_detail(errors: Any, depth: int = 0) -> str:
    """The first sentence in Discord's nested errors."""
    if isinstance(errors, list):
        errors = {str(number): one for number, one in enumerate(errors[:3])}
    if not isinstance(errors, dict) or depth > 8:
        return ""
    if isinstance(told := errors.get("message"), str):
        return told
    return next(filter(None, (_first_detail(one, depth + 1) for one in errors.values())), "")


def _field(answer: Any, name: str) -> Any:
    return answer.get(name) if isinstance(answer, dict) else None


def _json(raw: bytes) -> Any:
    try:
        return json.loads(raw) if raw else None
    except ValueError:
        return None
