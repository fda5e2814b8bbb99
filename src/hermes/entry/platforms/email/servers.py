"""The two servers of a mailbox: how they are reached, and what they say when they are not."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import TypeVar

import aiosmtplib

from hermes.domain.adapter import AdapterContext, Finding, good, wrong
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable, UserError
from hermes.domain.text import one_line, trouble_told
from hermes.entry.platforms.email.addresses import canonical
from hermes.entry.platforms.email.compose import error_for
from hermes.entry.platforms.email.imap import ImapConnection, ImapLogin, cannot_reach, refused_token
from hermes.entry.platforms.email.oauth import LOCAL, OAuthTokens, login_command, provider_of

T = TypeVar("T")
_USUAL = {
    "IMAP": "993 is encrypted from the start, any other port is upgraded (usually 143)",
    "SMTP": "465 is encrypted from the start, any other port is upgraded (usually 587)",
}


class MailServers:
    def __init__(self, context: AdapterContext) -> None:
        self._context = context
        self.address = canonical(context.setting("EMAIL_ADDRESS"))
        if not self.address:
            raise NeedsLogin("EMAIL_ADDRESS is no address; one looks like hermes@example.org")
        provider = provider_of(context)
        self.imap_host = context.setting("EMAIL_IMAP_HOST", provider.imap_host if provider else "")
        self.smtp_host = context.setting("EMAIL_SMTP_HOST", provider.smtp_host if provider else "")
        for what, host in (("IMAP", self.imap_host), ("SMTP", self.smtp_host)):
            if not host:
                raise NeedsLogin(f"EMAIL_{what}_HOST is missing: the name of the {what} server")
        self._tokens = None if provider is None else OAuthTokens(context, provider)
        self._password = context.setting("EMAIL_PASSWORD")
        if not self._password and self._tokens is None:
            raise NeedsLogin(
                "EMAIL_PASSWORD is missing; Microsoft takes none: set EMAIL_OAUTH_PROVIDER=microsoft instead"
            )
        self._user = context.setting("EMAIL_USER", self.address)
        self._tls: ssl.SSLContext | None = None

    @property
    def proof(self) -> str:
        return "the password" if self._tokens is None else "an access token"

    async def tried(self, what: str, ask: Callable[[], Awaitable[str]]) -> Finding:
        """What came of a try to use one of the servers, and what may help if it failed."""
        try:
            return good(await ask())
        except (NeedsLogin, Refused, Unreachable) as error:
            return wrong(f"{one_line(str(error), 300).rstrip('.')}.", self._remedy(what, error))

    def _remedy(self, what: str, error: HermesError) -> str:
        host, port = f"EMAIL_{what}_HOST", f"EMAIL_{what}_PORT"
        if isinstance(error, Refused):
            return "Name a folder that is there: hermes config set EMAIL_FOLDER INBOX"
        if isinstance(error, NeedsLogin) and self._tokens is not None:
            return f"Let the gateway in anew: {login_command(self._context)}"
        if isinstance(error, NeedsLogin):
            return (
                "Set EMAIL_PASSWORD anew, and EMAIL_USER if the name to log in with is not the address. Where"
                " two factors are on, an app password is wanted; Microsoft wants EMAIL_OAUTH_PROVIDER."
            )
        match error.__cause__:
            case ssl.SSLCertVerificationError():
                return f"Set {host} to the name in the certificate, or EMAIL_CA_FILE to who signed it."
            case socket.gaierror():
                return f"There is no such name: see your provider's help page for {host}."
            case OSError():
                return f"See {host} and {port}: {_USUAL[what]}. A firewall may stand between."
        return f"See {port}: {_USUAL[what]}."

    async def open_mailbox(self, seconds: float) -> ImapConnection:
        return await self._with_token(lambda token: self._open_mailbox(seconds, token))

    async def open_smtp(self, seconds: float) -> aiosmtplib.SMTP:
        """Connected and logged in."""
        return await self._with_token(lambda token: self._open_smtp(seconds, token))

    async def _with_token(self, open_: Callable[[str], Awaitable[T]]) -> T:
        """Where tokens are used, with one that counts; one that is refused may have ended before its time."""
        if self._tokens is None:
            return await open_("")
        token = await self._tokens.access()
        try:
            return await open_(token)
        except NeedsLogin:
            return await open_(await self._tokens.access(refused=token))

    async def _open_mailbox(self, seconds: float, token: str) -> ImapConnection:
        return await ImapConnection.open(
            ImapLogin(
                host=self.imap_host,
                port=self._context.port("EMAIL_IMAP_PORT", "993"),
                user=self._user,
                password=self._password,
                token=token,
                tls=await self._tls_context(),
                seconds=seconds,
            )
        )

    async def _open_smtp(self, seconds: float, token: str) -> aiosmtplib.SMTP:
        port, tls = self._context.port("EMAIL_SMTP_PORT", "587"), await self._tls_context()
        client = aiosmtplib.SMTP(
            hostname=self.smtp_host,
            port=port,
            timeout=seconds,
            use_tls=tls is not None and port == 465,
            start_tls=False,
            tls_context=tls,
            local_hostname=self.address.rpartition("@")[2],
        )
        try:
            await client.connect()
            await client.ehlo()
            if tls is not None and port != 465:
                if not client.supports_extension("starttls"):
                    raise Unreachable(f"The SMTP server does not encrypt on port {port} (no STARTTLS)")
                await client.starttls()
                await client.ehlo()
            if token:
                await self._show_token(client, token)
            elif client.supports_extension("auth"):
                await self._log_in(client)
            return client
        except aiosmtplib.SMTPResponseException as error:
            drop(client)
            raise error_for(error.code, error.message) from None
        except (aiosmtplib.SMTPException, OSError, TimeoutError) as error:
            drop(client)
            cause = _as_known(error.__cause__ if isinstance(error.__cause__, OSError) else error)
            raise cannot_reach("SMTP", self.smtp_host, port, cause) from cause
        except BaseException:
            drop(client)
            raise

    async def _log_in(self, client: aiosmtplib.SMTP) -> None:
        """In one way only: who tries a wrong password in several is shut out the sooner."""
        methods = client.supported_auth_methods
        if "plain" in methods:
            await client.auth_plain(self._user, self._password)
        elif "login" in methods:
            await client.auth_login(self._user, self._password)
        else:
            await client.login(self._user, self._password)

    async def _show_token(self, client: aiosmtplib.SMTP, token: str) -> None:
        try:
            await client.auth_xoauth2(self._user, token)
        except aiosmtplib.SMTPAuthenticationError as error:
            if error.code < 500:
                raise
            raise NeedsLogin(refused_token("SMTP", self._user, f"{error.code} {error.message}")) from None

    async def _tls_context(self) -> ssl.SSLContext | None:
        """How connections are encrypted; they are, unless the servers are on this machine."""
        if self._context.is_off("EMAIL_TLS"):
            if any(host not in LOCAL for host in (self.imap_host, self.smtp_host)):
                raise UserError(
                    "EMAIL_TLS=false is for servers on this machine only: the password would be readable.",
                    hint="Take EMAIL_TLS out of the settings.",
                )
            return None
        if self._tls is None:
            path = self._context.setting("EMAIL_CA_FILE") or None
            try:
                self._tls = await asyncio.to_thread(ssl.create_default_context, cafile=path)
            except (OSError, ValueError) as error:
                raise UserError(
                    f"EMAIL_CA_FILE cannot be read: {one_line(path or '')} ({trouble_told(error)})."
                ) from error
        return self._tls


def drop(client: aiosmtplib.SMTP) -> None:
    """Close it now: an encrypted connection would wait for the other side."""
    if isinstance(client.transport, asyncio.WriteTransport):
        client.transport.abort()
    client.close()


def integer(context: AdapterContext, name: str, usual: int) -> int:
    text = context.setting(name, str(usual))
    if not (text.isascii() and text.isdigit() and len(text) < 9):
        raise UserError(f"{name} is {one_line(text, 20)}: a whole number is wanted, like {usual}.")
    return int(text)


def _as_known(error: BaseException) -> Exception:
    if isinstance(error, TimeoutError):
        return TimeoutError()
    if isinstance(error, aiosmtplib.SMTPServerDisconnected):
        return ConnectionResetError(104, "it hung up")
    return error if isinstance(error, Exception) else OSError()
