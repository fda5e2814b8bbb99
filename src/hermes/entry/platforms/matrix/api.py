"""Calls of the Client-Server API: one homeserver, one access token, which the operator set or a user and a
password give. The token travels in a header and is told to nobody; answers that are no success become our
errors."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import re
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import quote, urlsplit

import aiohttp

from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable, UserError
from hermes.domain.ports.world import Sink
from hermes.entry.kit.errors import TOO_FAST
from hermes.entry.kit.files import read_kept, write_kept
from hermes.entry.kit.http import HttpAnswer, HttpClient
from hermes.entry.kit.payload import as_size, as_text, dig
from hermes.entry.kit.transfer import OutgoingFile
from hermes.entry.platforms.matrix.convert import error_for
from hermes.entry.platforms.matrix.sync import MatrixIdentity

log = logging.getLogger("hermes.matrix")
_SMALL = 1_000_000
_TOKEN = "MATRIX_ACCESS_TOKEN"
_ON, _OFF = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_FILE = "login.json"
_REDIRECTS = 3


def homeserver(address: str) -> str:
    """The address as it was meant: https unless it names another scheme."""
    url = address if "://" in address else f"https://{address}"
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or re.search(r"\s", url):
        raise UserError("MATRIX_HOMESERVER is no address.", hint="One looks like https://matrix.example.org.")
    return url.rstrip("/")


def path(*parts: str) -> str:
    """A path of the API, each part escaped."""
    return "/".join(quote(part, safe="") for part in parts)


class MatrixClient(HttpClient[HttpAnswer]):
    def __init__(self, address: str, proxy: str | None = None) -> None:
        super().__init__(
            "The homeserver",
            HttpAnswer,
            proxy=proxy,
            # Polls and sends of many rooms at once, each of them short or alone.
            open_session=lambda **more: aiohttp.ClientSession(
                **(more or {"connector": aiohttp.TCPConnector(limit=0)})
            ),
        )
        self.url = homeserver(address)
        self._named = "://" not in address
        """Whether only a server's name was given: then its `.well-known` file may say where it answers."""
        self.token = ""
        self.renew: Callable[[], Awaitable[None]] | None = None
        """Called when a token is not good any more that a new login would replace."""
        self.fresh = False
        """Whether the token is new, and nothing has come of it yet."""
        self.limited: Callable[[], None] = lambda: None
        """Called when the homeserver wants us to be slower."""
        self._most_bytes: float | None = None

    async def call(
        self,
        method: str,
        where: str,
        asked: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> Any:
        """What the homeserver says to a call under /_matrix/client/."""
        body = None if asked is None else json.dumps(asked, ensure_ascii=False).encode("utf-8", "replace")
        headers = {"Content-Type": "application/json"} if body is not None else {}
        return await self._ask(
            method, f"/_matrix/client/{where}", seconds=seconds, params=query, data=body, headers=headers
        )

    async def discover(self) -> None:
        """Find the homeserver of a name, as it says itself; a name that says nothing is the address. Nothing
        secret is sent."""
        if not self._named:
            return
        try:
            reply = await self.exchange(
                "GET", f"{self.url}/.well-known/matrix/client", allow_redirects=True, max_redirects=3
            )
        except Unreachable:
            return
        address = as_text(dig(reply.answer, "m.homeserver", "base_url"))
        if reply.status == 200 and "://" in address:
            try:
                self.url = homeserver(address)
            except UserError as error:
                raise UserError(
                    "The .well-known file of MATRIX_HOMESERVER names no address.",
                    hint="Set MATRIX_HOMESERVER to the address itself, like https://matrix.example.org.",
                ) from error
        self._named = False

    async def upload(self, data: bytes, name: str, mime: str) -> str:
        if len(data) > _SMALL and len(data) > await self._most():
            raise Refused(f"The homeserver takes files of {self._most_bytes:,} bytes, and this is larger")
        file = OutgoingFile(data)
        answer = await self._ask(
            "POST",
            "/_matrix/media/v3/upload",
            params={"filename": name},
            files=[file],
            data=file,
            headers={"Content-Type": mime},
        )
        address = as_text(dig(answer, "content_uri"))
        if not address.startswith("mxc://"):
            raise Unreachable("The homeserver does not say where it put the file")
        return address

    async def _most(self) -> float:
        """How large a file may be; as large as one likes if the homeserver does not say it."""
        if self._most_bytes is None:
            self._most_bytes = math.inf
            for where in ("/_matrix/client/v1/media/config", "/_matrix/media/v3/config"):
                with contextlib.suppress(Refused):
                    most = as_size(dig(await self._ask("GET", where), "m.upload.size"))
                    self._most_bytes = most or math.inf
                    break
        return self._most_bytes

    async def fetch(self, server: str, media: str, sink: Sink) -> None:
        """A file; older homeservers know only the second place."""
        file = path(server, media)
        for where in (f"client/v1/media/download/{file}", f"media/v3/download/{file}?allow_redirect=true"):
            url = f"{self.url}/_matrix/{where}"
            with contextlib.suppress(_Unrecognized):
                await self.download(
                    url, sink, headers=self._headers(), refusal=_no_file, redirects=_REDIRECTS
                )
                return
        raise Refused("The homeserver does not have the file")

    async def _ask(self, method: str, where: str, **more: Any) -> Any:
        more["headers"] = {**self._headers(), **more.get("headers", {})}
        reply = await self.exchange(method, self.url + where, **more)
        if reply.status >= 300:
            error = error_for(reply.status, reply.answer, reply.headers.get("Retry-After"))
            if reply.status == TOO_FAST:
                self.limited()
            if isinstance(error, NeedsLogin) and self.renew is not None:
                await self.renew()
                # The next login need not wait for anything, unless this one never was any good.
                after = None if self.fresh else 0.0
                raise Unreachable("The homeserver ended the login", after=after) from None
            raise error
        if reply.answer is None:
            raise Unreachable("The homeserver's answer cannot be read", maybe_done=True)
        return reply.answer

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


class _Unrecognized(Refused):
    """There is no such way on this homeserver, or nothing at its end."""


def _no_file(response: HttpAnswer) -> HermesError | None:
    if response.status == 200:
        return None
    if response.status in (404, 405) and dig(response.answer, "errcode") in (None, "M_UNRECOGNIZED"):
        return _Unrecognized("The homeserver does not know this way")
    if response.status in (401, TOO_FAST) or response.status >= 500:
        return error_for(response.status, response.answer)
    return Refused(f"The homeserver does not give the file (HTTP {response.status})")


# --- who we are ---


def token_of(context: AdapterContext) -> str:
    """The access token, or nothing where a password is to give one."""
    token = context.setting(_TOKEN)
    if not token and not (context.setting("MATRIX_USER_ID") and context.setting("MATRIX_PASSWORD")):
        raise NeedsLogin("Matrix needs MATRIX_ACCESS_TOKEN, or MATRIX_USER_ID and MATRIX_PASSWORD, to log in")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise NeedsLogin(f"{_TOKEN} is no access token; one is a single word")
    return token


async def log_in(client: MatrixClient, context: AdapterContext) -> MatrixIdentity:
    await client.discover()
    if not client.token:
        login = PasswordLogin(client, context)
        # The token of a password may expire or be taken back; the next connection logs in again.
        client.token, client.renew = await login.token(), login.forget
    account = await client.call("GET", "v3/account/whoami")
    user, device = as_text(dig(account, "user_id")), str(dig(account, "device_id") or "")
    if not user.startswith("@"):
        raise Unreachable("The homeserver does not say who we are")
    try:
        name = as_text(dig(await client.call("GET", f"v3/profile/{path(user)}/displayname"), "displayname"))
    except Refused:
        name = ""
    threads = is_on(context, "MATRIX_AUTO_THREAD")
    return MatrixIdentity(id=user, name=name, device=device, account=context.account, threads=threads)


def is_on(context: AdapterContext, variable: str) -> bool:
    text = context.setting(variable, "false").lower()
    if text not in (*_ON, *_OFF):
        raise UserError(f"{variable} is neither true nor false.")
    return text in _ON


class PasswordLogin:
    """The access token that a user and a password give: kept in the account's folder, for homeservers count
    logins (Synapse: `rc_login` in config/ratelimiting.py, five and then one in 333 s), and the device of a
    login is known to others. It counts as long as nothing of what it was got with changes."""

    def __init__(self, client: MatrixClient, context: AdapterContext) -> None:
        self._client = client
        self._context = context
        self._user, self._password = (context.setting(name) for name in ("MATRIX_USER_ID", "MATRIX_PASSWORD"))
        # The same device every time: its transaction ids and its keys go on to count.
        device = "HERMES" + sha256(self._user.encode()).hexdigest()[:8].upper()
        self._device = context.setting("MATRIX_DEVICE_ID", device)
        login = (client.url, self._user, self._password, self._device)
        self._key = sha256("\0".join(login).encode()).hexdigest()

    async def token(self) -> str:
        return await asyncio.to_thread(self._kept) or await self._new()

    async def forget(self) -> None:
        """Another one may have been got meanwhile, by a command beside the gateway: that is kept."""
        if await asyncio.to_thread(self._kept) == self._client.token:
            await asyncio.to_thread(self._keep, "")

    async def _new(self) -> str:
        asked = {
            "type": "m.login.password",
            "identifier": {"type": "m.id.user", "user": self._user},
            "password": self._password,
            "device_id": self._device,
            "initial_device_display_name": "Hermes Gateway",
        }
        try:
            answer = await self._client.call("POST", "v3/login", asked)
        except Refused as error:
            raise NeedsLogin(
                f"The homeserver does not take MATRIX_USER_ID and MATRIX_PASSWORD: {error}"
            ) from None
        token = as_text(dig(answer, "access_token"))
        if not token:
            raise Unreachable("The homeserver gives no access token")
        await asyncio.to_thread(self._keep, token)
        self._client.fresh = True
        return token

    def _kept(self) -> str:
        return read_kept(self._context, _FILE, self._key, "access_token")

    def _keep(self, token: str) -> None:
        try:
            write_kept(self._context, _FILE, self._key, "access_token", token)
        except OSError as error:
            log.warning("matrix.login_not_kept why=%s", error.strerror)
