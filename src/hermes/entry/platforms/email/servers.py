"""The two servers of a mailbox: how they are reached, and what they say when they are not."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import TypeVar

import aiosmtplib

from hermes.domain.chats.adapter import AdapterContext, Finding, good, wrong
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable, UserError
from hermes.domain.text import one_line, trouble_told
from hermes.domain.word import replace
from hermes.entry.platforms.email.addresses import canonical
from hermes.entry.platforms.email.imap import ImapConnection, MailLogin
from hermes.entry.platforms.email.oauth import LOCAL, OAuthTokens, login_command, provider_of
from hermes.entry.platforms.email.smtp import open_smtp

T = TypeVar("T")
_USUAL = {
    "IMAP": "993 is encrypted from the start, others are upgraded (usually 143) unless EMAIL_TLS is direct",
    "SMTP": "465 is encrypted from the start, others are upgraded (usually 587) unless EMAIL_TLS is direct",
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
        return await self._opened("IMAP", "993", seconds, ImapConnection.open)

    async def open_smtp(self, seconds: float) -> aiosmtplib.SMTP:
        domain = self.address.rpartition("@")[2]
        return await self._opened("SMTP", "587", seconds, lambda box: open_smtp(box, domain))

    async def _opened(
        self, what: str, usual_port: str, seconds: float, open_: Callable[[MailLogin], Awaitable[T]]
    ) -> T:
        """Where tokens are used, with one that counts; one that is refused may have ended before its time."""
        tokens = self._tokens
        token = "" if tokens is None else await tokens.access()
        box = MailLogin(
            host=self.imap_host if what == "IMAP" else self.smtp_host,
            port=self._context.port(f"EMAIL_{what}_PORT", usual_port),
            user=self._user,
            password=self._password,
            token=token,
            tls=await self._tls_context(),
            direct=self._context.setting("EMAIL_TLS").lower() == "direct",
            seconds=seconds,
        )
        try:
            return await open_(box)
        except NeedsLogin:
            if tokens is None:
                raise
            return await open_(replace(box, token=await tokens.access(refused=token)))

    async def _tls_context(self) -> ssl.SSLContext | None:
        """How connections are encrypted; they are, unless the servers are on this machine."""
        wanted = self._context.setting("EMAIL_TLS", "true").lower()
        if wanted not in ("true", "yes", "on", "1", "direct", "false", "no", "off", "0"):
            raise UserError(f"EMAIL_TLS is {one_line(wanted, 20)}: true, direct or false is wanted.")
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


def integer(context: AdapterContext, name: str, usual: int) -> int:
    text = context.setting(name, str(usual))
    if not (text.isascii() and text.isdigit() and len(text) < 9):
        raise UserError(f"{name} is {one_line(text, 20)}: a whole number is wanted, like {usual}.")
    return int(text)
