"""How a person lets us into a mailbox without a password: by a code that is typed in elsewhere (RFC 8628), or
in a browser that comes back to this machine (RFC 8252, with the proof of RFC 7636)."""

from __future__ import annotations

import asyncio
import base64
import secrets
from collections.abc import Callable
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from hermes.domain.adapter import AdapterContext
from hermes.domain.errors import NeedsLogin, Unreachable, UserError
from hermes.domain.text import one_line, showable
from hermes.entry.platforms.email.oauth import OAuthProvider, ask, client_of, provider_of, token_url

_PATIENCE = 900.0
_PAGE = b"<!DOCTYPE html><title>Hermes</title><p>That is all. You may close this page.</p>"
Tell = Callable[[str], None]


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
            told = await get(context, provider, tell)
    except TimeoutError:
        raise UserError("Nobody has decided in time.", hint="Try again.") from None
    refresh = told.get("refresh_token")
    if not isinstance(refresh, str) or not refresh.isascii() or not refresh.isprintable():
        raise NeedsLogin(f"{provider.title} gave access, but no refresh token")
    return {"EMAIL_OAUTH_REFRESH_TOKEN": refresh}


async def _by_code(context: AdapterContext, provider: OAuthProvider, tell: Tell) -> dict[str, Any]:
    url, client = token_url(context, provider), client_of(context)
    begin = f"{url.removesuffix('/token')}/devicecode"
    asked = {"client_id": client["client_id"], "scope": provider.scope}
    told = await ask(context, provider, begin, asked)
    device, code, where = (
        str(told.get(name) or "") for name in ("device_code", "user_code", "verification_uri")
    )
    if not (device and code and where):
        raise Unreachable(f"{provider.title} gives no code to type in")
    tell(
        f"Open {one_line(showable(where), 200)} in any browser, log in as {context.setting('EMAIL_ADDRESS')},"
    )
    tell(f"and type in this code: {one_line(showable(code), 40)}")
    interval = told.get("interval")
    seconds = float(interval) if isinstance(interval, int) and 0 <= interval <= 60 else 5.0
    grant = {"grant_type": "urn:ietf:params:oauth:grant-type:device_code", "device_code": device, **client}
    while True:
        await context.clock.sleep(max(seconds, 1.0))
        try:
            return await ask(context, provider, url, grant)
        except Unreachable as error:
            seconds += error.after or 0.0


async def _by_browser(context: AdapterContext, provider: OAuthProvider, tell: Tell) -> dict[str, Any]:
    state, verifier = secrets.token_urlsafe(24), secrets.token_urlsafe(48)
    came: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(10):
                line = (await reader.readline()).split()
                while (await reader.readline()).strip():
                    pass
            query = parse_qs(urlsplit(line[1].decode("ascii", "replace")).query) if len(line) > 1 else {}
            said = {name: values[0] for name, values in query.items()}
            mine = secrets.compare_digest(said.get("state", "").encode(), state.encode())
            head = b"200 OK" if mine else b"404 Not Found"
            page = _PAGE if mine else b""
            writer.write(
                b"HTTP/1.1 %s\r\nContent-Type: text/html\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s"
                % (head, len(page), page)
            )
            await writer.drain()
            if mine and not came.done():
                came.set_result(said)
        except (OSError, TimeoutError, ValueError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        port = server.sockets[0].getsockname()[1]
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
        said = await came
    finally:
        server.close()
    if "code" not in said:
        raise NeedsLogin(
            f"{provider.title} did not let us in: {one_line(showable(said.get('error', '?')), 80)}"
        )
    grant = {"grant_type": "authorization_code", "code": said["code"], "redirect_uri": back}
    grant |= {"code_verifier": verifier} | client_of(context)
    return await ask(context, provider, token_url(context, provider), grant)
