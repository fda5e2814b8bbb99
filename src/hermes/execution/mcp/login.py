"""Logging in to an MCP server: the SDK finds the authorization server, introduces Hermes to it, and exchanges
the code that a person brings back from their browser. Stores nothing.

Imports the SDK: only who logs in loads it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata
from pydantic import ValidationError

from hermes.domain.errors import Refused, Unreachable, UserError
from hermes.domain.models.credential import Credential, CredentialKind, OAuthClient
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.mcp import McpServer
from hermes.domain.text import one_line, showable
from hermes.execution.egress.reach import Reach
from hermes.execution.mcp.web import web_client

logging.getLogger("mcp").setLevel(logging.CRITICAL)  # what goes wrong is told in a sentence
_PATH = "/callback"
_PAGE = b"You can close this window: Hermes is logged in, or says in the terminal why not.\n"
_LONGEST_REQUEST = 16 * 1024
SECONDS = 600.0
TellAddress = Callable[[str], None]
ReadAddress = Callable[[], Awaitable[str]]


class _Introduction(OAuthClientMetadata):  # type: ignore[misc]
    """What Hermes says of itself. A scope that the settings name stays, whatever the server names."""

    def __setattr__(self, name: str, value: object) -> None:
        if name != "scope" or not self.scope:
            super().__setattr__(name, value)


class _Learned:
    """The SDK's storage: what it learned in this one login."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.tokens: Any = None

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        return self.client

    async def set_client_info(self, client: Any) -> None:
        self.client = client


async def log_in(
    name: str,
    server: McpServer,
    now: datetime,
    *,
    reach: Reach,
    tell: TellAddress,
    paste: ReadAddress | None = None,
) -> Credential:
    """The login as it is stored. The server may lead us to other hosts, as far as `reach` goes. `tell` shows
    a person where to go; `paste` gives the address that they were led to, where no browser can come back to
    this machine. A `UserError` says what went wrong."""
    async with _way_back(server.oauth.redirect_port, paste) as (redirect, come_back):
        chosen = server.oauth
        metadata = _Introduction(
            client_name="Hermes Gateway",
            redirect_uris=[redirect],
            grant_types=["authorization_code", "refresh_token"],
            response_types=["code"],
            token_endpoint_auth_method="none",  # nobody can keep a secret on a person's machine
            scope=chosen.scope or None,
        )
        learned = _Learned(_registered(server, redirect) if chosen.client_id else None)

        async def lead(address: str) -> None:
            if urlsplit(address).scheme not in ("http", "https"):
                raise UserError(f"{name} leads to an address that is none of the web.")
            tell(showable(address))

        async def stay_outside(request: Any) -> None:
            place = urlsplit(str(request.url))
            if place.hostname != urlsplit(server.url).hostname:
                await reach.pin(place.hostname or "", place.port or (443 if place.scheme == "https" else 80))

        provider = OAuthClientProvider(server.url, metadata, learned, lead, come_back)
        try:
            async with asyncio.timeout(SECONDS), web_client(server, provider) as client:
                client.event_hooks["request"].append(stay_outside)
                answer = await client.post(server.url, json=_GREETING, headers=_HEADERS)
                if learned.tokens is None:  # some let everybody in, and ask at the first question
                    known = {"Mcp-Session-Id": answer.headers.get("Mcp-Session-Id", "")}
                    answer = await client.post(server.url, json=_QUESTION, headers={**_HEADERS, **known})
        except TimeoutError:
            raise UserError("Nobody logged in in time.", hint=f"Try again: hermes mcp login {name}") from None
        except (OAuthFlowError, ValidationError, httpx2.HTTPError, Refused, Unreachable) as error:
            why = one_line(showable(str(error)), 300)
            raise UserError(f"The login at {name} failed: {why}") from error
        if learned.tokens is None:
            raise UserError(
                f"{name} wants no login (it answers HTTP {answer.status_code}).", hint="Remove auth: oauth."
            )
    return _credential(name, server, learned, provider.context, now)


_HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
_ABOUT = {"name": "hermes-gateway", "version": "1"}
_GREETING = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": _ABOUT},
}
_QUESTION = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}


def _registered(server: McpServer, redirect: str) -> Any:
    secret = server.oauth.client_secret.reveal()
    return OAuthClientInformationFull(
        client_id=server.oauth.client_id,
        client_secret=secret or None,
        redirect_uris=[redirect],
        token_endpoint_auth_method="client_secret_basic" if secret else "none",
    )


def _credential(name: str, server: McpServer, learned: _Learned, context: Any, now: datetime) -> Credential:
    tokens, client = learned.tokens, learned.client
    metadata = context.oauth_metadata
    token_url = str(metadata.token_endpoint) if metadata is not None else ""
    life = None if tokens.expires_in is None else now + timedelta(seconds=int(tokens.expires_in))
    with_resource = context.should_include_resource_param(_HEADERS["MCP-Protocol-Version"])
    return Credential(
        id=f"mcp-{name}",
        provider=f"mcp-{name}",
        label=name,
        kind=CredentialKind.OAUTH,
        source="authorization_code",
        key=Secret(tokens.access_token),
        refresh=Secret(tokens.refresh_token or ""),
        expires_at=life,
        base_url=server.url,
        client=OAuthClient(
            token_url=token_url or context.get_authorization_base_url(server.url) + "/token",
            client_id=client.client_id,
            client_secret=Secret(client.client_secret or ""),
            basic=client.token_endpoint_auth_method == "client_secret_basic",
            resource=context.get_resource_url() if with_resource else "",
            remedy=f"hermes mcp login {name}",
        ),
    )


# --- the way back from the browser -------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _way_back(
    port: int, paste: ReadAddress | None
) -> AsyncIterator[tuple[str, Callable[[], Awaitable[Any]]]]:
    """An address of this machine that a browser comes back to, and what it brings."""
    came: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            head = await reader.readuntil(b"\r\n\r\n")
            target = head.split(b" ", 2)[1].decode("ascii", "replace")
            ours = urlsplit(target).path == _PATH
            status = b"200 OK" if ours else b"404 Not Found"
            page = _PAGE if ours else b""
            size = str(len(page)).encode()
            writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Type: text/plain\r\nContent-Length: " + size)
            writer.write(b"\r\nConnection: close\r\n\r\n" + page)
            await writer.drain()
            if ours and not came.done():
                came.set_result(target)
        writer.close()

    try:
        listener = await asyncio.start_server(greet, "127.0.0.1", port, limit=_LONGEST_REQUEST)
    except OSError as error:
        raise UserError(
            f"The port {port} of this machine is taken.", hint="Set oauth.redirect_port."
        ) from error
    place = listener.sockets[0].getsockname()[1]

    async def come_back() -> Any:
        return _read_code(await (came if paste is None else paste()))

    try:
        yield f"http://127.0.0.1:{place}{_PATH}", come_back
    finally:
        listener.close()


def _read_code(address: str) -> Any:
    brought = {name: values[0] for name, values in parse_qs(urlsplit(address.strip()).query).items()}
    if "error" in brought:
        why = one_line(showable(brought.get("error_description") or brought["error"]), 200)
        raise UserError(f"The login was refused: {why}")
    if "code" not in brought:
        raise UserError("This address brings no code.", hint="Paste the whole address that you were led to.")
    return AuthorizationCodeResult(code=brought["code"], state=brought.get("state"), iss=brought.get("iss"))
