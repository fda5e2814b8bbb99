"""Access tokens for mail servers that take no passwords (RFC 6749): got with a refresh token, renewed before
they end or when a server refuses one. A provider may exchange the refresh token on the way; the latest one is
kept in the account's folder, as long as the operator names the one that it came from.

A person gives us the first one by a code that is typed in elsewhere (RFC 8628), or in a browser that comes
back to this machine (RFC 8252, with the proof of RFC 7636)."""

from __future__ import annotations

import asyncio
import base64
import logging
import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any
from urllib.parse import urlencode, urlsplit

from msgspec import Struct

from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.chats.address import spell_platform
from hermes.domain.errors import HermesError, NeedsLogin, Unreachable, UserError
from hermes.domain.text import one_line, showable
from hermes.entry.kit.files import read_kept, write_kept
from hermes.entry.kit.payload import dig

log = logging.getLogger("hermes.email")
LOCAL = ("localhost", "127.0.0.1", "::1")
_FILE = "oauth.json"
_MOST = 64 * 1024
_SECONDS = 20.0
_EARLY = timedelta(seconds=120)
_USUAL_LIFE = 1800
_PATIENCE = 900.0
_PAGE = "<!DOCTYPE html><title>Hermes</title><p>That is all. You may close this page.</p>"
Tell = Callable[[str], None]


class OAuthProvider(Struct, frozen=True, kw_only=True):
    """Who gives tokens, and for which servers."""

    title: str
    imap_host: str
    smtp_host: str
    token_url: str
    scope: str
    by_code: bool = False
    """Whether a person may let us in by a code that is typed in elsewhere."""
    consent_url: str = ""
    """Where a person lets us in with a browser."""


PROVIDERS = {
    "google": OAuthProvider(
        title="Google",
        imap_host="imap.gmail.com",
        smtp_host="smtp.gmail.com",
        token_url="https://oauth2.googleapis.com/token",
        scope="https://mail.google.com/",
        consent_url="https://accounts.google.com/o/oauth2/v2/auth",
    ),
    "microsoft": OAuthProvider(
        title="Microsoft",
        imap_host="outlook.office365.com",
        smtp_host="smtp.office365.com",
        token_url="https://login.microsoftonline.com/common/oauth2/v2.0/token",
        scope=(
            "https://outlook.office.com/IMAP.AccessAsUser.All https://outlook.office.com/SMTP.Send"
            " offline_access"
        ),
        by_code=True,
    ),
}
_OTHER = OAuthProvider(title="The token server", imap_host="", smtp_host="", token_url="", scope="")


def provider_of(context: AdapterContext) -> OAuthProvider | None:
    """None where a password is used."""
    name = context.setting("EMAIL_OAUTH_PROVIDER").lower()
    if name and name not in PROVIDERS:
        raise UserError(
            f"EMAIL_OAUTH_PROVIDER is {one_line(name, 30)}: {' or '.join(PROVIDERS)} is wanted.",
            hint="For another one, set EMAIL_OAUTH_TOKEN_URL instead.",
        )
    if name:
        return PROVIDERS[name]
    return _OTHER if context.setting("EMAIL_OAUTH_TOKEN_URL") else None


class OAuthTokens:
    """The access of one account; its connections share it."""

    def __init__(self, context: AdapterContext, provider: OAuthProvider) -> None:
        self._context = context
        self._provider = provider
        self._url = token_url(context, provider)
        client, self._given = (
            context.setting(f"EMAIL_OAUTH_{what}") for what in ("CLIENT_ID", "REFRESH_TOKEN")
        )
        if not client:
            raise NeedsLogin("EMAIL_OAUTH_CLIENT_ID is missing: see docs/platforms/email.md")
        if not self._given:
            raise NeedsLogin(f"EMAIL_OAUTH_REFRESH_TOKEN is missing: `{login_command(context)}` gets it")
        self._key = sha256("\0".join((self._url, client, self._given)).encode()).hexdigest()
        self._token = ""
        self._ends = datetime.min.replace(tzinfo=UTC)
        self._alone = asyncio.Lock()

    async def access(self, refused: str = "") -> str:
        """A token that has not ended; another one than was refused."""
        async with self._alone:
            if self._token in ("", refused) or self._ends <= self._context.clock.now():
                await self._renew()
            return self._token

    async def _renew(self) -> None:
        kept = await asyncio.to_thread(self._kept)
        try:
            await self._exchange(kept or self._given)
        except NeedsLogin:
            if not kept:
                raise
            # What was kept does not count any more; what the operator said may.
            await self._exchange(self._given)

    async def _exchange(self, refresh: str) -> None:
        asked = {"grant_type": "refresh_token", "refresh_token": refresh, **client_of(self._context)}
        if self._provider.scope:
            asked["scope"] = self._provider.scope
        now = self._context.clock.now()
        reply = await ask(self._context, self._provider, self._url, asked)
        token, following, life = map(reply.get, ("access_token", "refresh_token", "expires_in"))
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise Unreachable(f"{self._provider.title} answers without an access token")
        self._context.learn(token)
        if isinstance(following, str) and following and following != refresh:
            await asyncio.to_thread(self._keep, following)
        seconds = int(life) if isinstance(life, int | str) and str(life).isdigit() else _USUAL_LIFE
        # A token that ends at once would be asked for at once again.
        lasts = max(timedelta(seconds=min(seconds, 86_400)) - _EARLY, timedelta(seconds=30))
        self._token, self._ends = token, now + lasts

    # --- the refresh token that came in the other's place ---

    def _kept(self) -> str:
        return read_kept(self._context, _FILE, self._key, "refresh_token")

    def _keep(self, refresh: str) -> None:
        try:
            write_kept(self._context, _FILE, self._key, "refresh_token", refresh)
        except OSError as error:
            log.warning("email.token_not_kept why=%s", error.strerror)


def token_url(context: AdapterContext, provider: OAuthProvider) -> str:
    url = context.setting("EMAIL_OAUTH_TOKEN_URL", provider.token_url)
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOCAL):
        raise UserError(
            f"EMAIL_OAUTH_TOKEN_URL is {one_line(url, 80)}: an address that begins with https:// is wanted."
        )
    return url


def client_of(context: AdapterContext) -> dict[str, str]:
    """Who asks; a client without a secret is a public one."""
    client = {"client_id": context.setting("EMAIL_OAUTH_CLIENT_ID")}
    if secret := context.setting("EMAIL_OAUTH_CLIENT_SECRET"):
        client["client_secret"] = secret
    return client


def login_command(context: AdapterContext) -> str:
    return f"hermes platforms login {spell_platform('email', context.account)}"


async def ask(
    context: AdapterContext, provider: OAuthProvider, url: str, asked: Mapping[str, str]
) -> dict[str, Any]:
    """One question to a token server; its refusals as our errors."""
    from hermes.entry.kit.http import HttpAnswer, HttpClient

    client = HttpClient(f"The token server {one_line(urlsplit(url).netloc, 80)}", HttpAnswer)
    client.answer_seconds, client.most_bytes = _SECONDS, _MOST
    try:
        reply = await client.exchange("POST", url, data=asked)
    finally:
        await client.close()
    if reply.status == 200 and isinstance(reply.answer, dict):
        return reply.answer
    raise _error(context, provider.title, reply.status, reply.answer)


def _error(context: AdapterContext, title: str, status: int, reply: Any) -> HermesError:
    name, description = (showable(str(dig(reply, key) or "")) for key in ("error", "error_description"))
    why = one_line(": ".join(filter(None, (name, description))), 200)
    if name in ("authorization_pending", "slow_down"):
        return Unreachable("Nobody has decided yet", after=5.0 if name == "slow_down" else 0.0)
    if status >= 500 or status == 429 or not name or name == "temporarily_unavailable":
        return Unreachable(f"{title} gives no access token now (HTTP {status}{f', {why}' if why else ''})")
    if name in ("invalid_client", "unauthorized_client"):
        return NeedsLogin(
            f"{title} does not know this client (EMAIL_OAUTH_CLIENT_ID, EMAIL_OAUTH_CLIENT_SECRET): {why}"
        )
    if name in ("invalid_grant", "interaction_required", "consent_required"):
        return NeedsLogin(
            f"{title} does not take EMAIL_OAUTH_REFRESH_TOKEN any more,"
            f" `{login_command(context)}` gets another ({why})"
        )
    return NeedsLogin(f"{title} refuses to give an access token: {why}")


# --- how a person lets us in ---


async def log_in(context: AdapterContext, tell: Tell) -> dict[str, str]:
    """What is to be kept: the refresh token. `tell` says what the person has to do."""
    provider = provider_of(context)
    if provider is None or not (provider.by_code or provider.consent_url):
        raise UserError(
            "It is not said who lets us in without a password.",
            hint="hermes config set EMAIL_OAUTH_PROVIDER google (or microsoft)",
        )
    if not context.setting("EMAIL_OAUTH_CLIENT_ID"):
        raise UserError(
            "EMAIL_OAUTH_CLIENT_ID is missing: the id of an application that you register with"
            f" {provider.title}.",
            hint="docs/platforms/email.md says how.",
        )
    get = _by_code if provider.by_code else _by_browser
    try:
        async with asyncio.timeout(_PATIENCE):
            answer = await get(context, provider, tell)
    except TimeoutError:
        raise UserError("Nobody has decided in time.", hint="Try again.") from None
    refresh = answer.get("refresh_token")
    if not isinstance(refresh, str) or not refresh.isascii() or not refresh.isprintable():
        raise NeedsLogin(f"{provider.title} gave access, but no refresh token")
    return {"EMAIL_OAUTH_REFRESH_TOKEN": refresh}


async def _by_code(context: AdapterContext, provider: OAuthProvider, tell: Tell) -> dict[str, Any]:
    url, client = token_url(context, provider), client_of(context)
    begin = f"{url.removesuffix('/token')}/devicecode"
    asked = {"client_id": client["client_id"], "scope": provider.scope}
    answer = await ask(context, provider, begin, asked)
    device, code, where = (
        str(answer.get(name) or "") for name in ("device_code", "user_code", "verification_uri")
    )
    if not (device and code and where):
        raise Unreachable(f"{provider.title} gives no code to type in")
    me = context.setting("EMAIL_ADDRESS")
    tell(f"Open {one_line(showable(where), 200)} in any browser, log in as {me},")
    tell(f"and type in this code: {one_line(showable(code), 40)}")
    interval = answer.get("interval")
    seconds = float(interval) if isinstance(interval, int) and 0 <= interval <= 60 else 5.0
    grant = {"grant_type": "urn:ietf:params:oauth:grant-type:device_code", "device_code": device, **client}
    while True:
        await context.clock.sleep(max(seconds, 1.0))
        try:
            return await ask(context, provider, url, grant)
        except Unreachable as error:
            seconds += error.after or 0.0


async def _by_browser(context: AdapterContext, provider: OAuthProvider, tell: Tell) -> dict[str, Any]:
    from aiohttp import web

    state, verifier = secrets.token_urlsafe(24), secrets.token_urlsafe(48)
    came: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()

    async def answer(request: web.BaseRequest) -> web.Response:
        query = dict(request.query)
        if not secrets.compare_digest(query.get("state", "").encode(errors="replace"), state.encode()):
            return web.Response(status=404)
        if not came.done():
            came.set_result(query)
        return web.Response(text=_PAGE, content_type="text/html")

    # The answer holds a secret: it is logged nowhere.
    runner = web.ServerRunner(web.Server(answer, access_log=None), shutdown_timeout=2.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        back = f"http://127.0.0.1:{port}"
        proof = base64.urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        asked = {
            "client_id": context.setting("EMAIL_OAUTH_CLIENT_ID"),
            "redirect_uri": back,
            "response_type": "code",
            "scope": provider.scope,
            "state": state,
            "code_challenge": proof,
            "code_challenge_method": "S256",
            "access_type": "offline",
            "prompt": "consent",
            "login_hint": context.setting("EMAIL_ADDRESS"),
        }
        tell("Open this address in a browser on this machine, and say yes:")
        tell(f"{provider.consent_url}?{urlencode(asked)}")
        tell(f"(A browser elsewhere needs a way back: ssh -L {port}:127.0.0.1:{port} to this machine first.)")
        query = await came
    finally:
        await runner.cleanup()
    if not query.get("code"):
        why = one_line(showable(query.get("error") or "?"), 80)
        raise NeedsLogin(f"{provider.title} did not let us in: {why}")
    grant = {"grant_type": "authorization_code", "code": query["code"], "redirect_uri": back}
    grant |= {"code_verifier": verifier} | client_of(context)
    return await ask(context, provider, token_url(context, provider), grant)
