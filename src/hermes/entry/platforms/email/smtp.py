"""The way out: connections to the SMTP server, and what its answers mean. A connection that was used is kept
for the next mail, a while; after a fault, or when the server has given it up, another is opened."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress

import aiosmtplib

from hermes.domain.chats.message import SLOWEST_BYTES
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable
from hermes.domain.text import one_line, showable, trouble_told
from hermes.entry.platforms.email.imap import MailLogin, cannot_reach, refused_token

log = logging.getLogger("hermes.email")
TOO_FAST_SECONDS = 60.0
"""A server that wants us to be slower does not say by how much."""
KEPT_SECONDS = 20.0
"""How long a connection waits for the next mail; servers hang up after a minute or more."""
_AT_ONCE = 8
_AT_ONCE_MICROSOFT = 3
"""So many connections of a mailbox Microsoft takes."""
_GOING_AWAY = 421
_STATUS = {
    **dict.fromkeys(("5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10"), "There is no such address"),
    **dict.fromkeys(("5.3.4", "5.2.3"), "The mail is too large for the server"),
    "5.2.1": "The mailbox of that address is switched off",
    "5.2.2": "The mailbox of that address is full",
    "5.7.1": "The server's rules forbid the mail",
}
"""What servers say more precisely (RFC 3463)."""
_LOGIN_CODES = (530, 534, 535, 538)
_BROKEN = (aiosmtplib.SMTPException, OSError, TimeoutError)


class SmtpClient:
    def __init__(self, address: str, host: str, open_: Callable[[float], Awaitable[aiosmtplib.SMTP]]) -> None:
        self._address = address
        self._host = host
        self._open = open_
        microsoft = host.endswith((".office365.com", ".outlook.com"))
        self._room = asyncio.Semaphore(_AT_ONCE_MICROSOFT if microsoft else _AT_ONCE)
        self._free: dict[aiosmtplib.SMTP, asyncio.TimerHandle] = {}
        self.keeps = False
        """Whether connections are kept; where nobody closes them in the end, they are not."""

    def close(self) -> None:
        self.keeps = False
        while client := self._kept():
            drop(client)

    async def submit(self, to: str, data: bytes, *, copy: bool, seconds: float, data_seconds: float) -> None:
        """Only what goes wrong once the mail itself is on its way leaves a doubt whether it arrived. A server
        may look through all of it before it answers: it has `data_seconds` for that."""
        async with self._room:
            client: aiosmtplib.SMTP | None = None
            keep = on_its_way = False
            try:
                client = await self._begun(to, len(data), seconds)
                await client.rcpt(to, encoding="utf-8")
                if copy:
                    await self._copy(client)
                on_its_way = True
                await client.data(data, timeout=data_seconds + len(data) / SLOWEST_BYTES)
                keep = True
            except aiosmtplib.SMTPResponseException as error:
                if on_its_way and error.code < 200:
                    # No answer that anybody understands.
                    raise Unreachable("The SMTP server speaks in riddles", maybe_done=True) from None
                keep = client is not None and error.code != _GOING_AWAY and await _reset(client)
                raise error_for(error.code, error.message) from None
            except _BROKEN as error:
                raise Unreachable(
                    f"The connection to the SMTP server broke ({trouble_told(error)})", maybe_done=on_its_way
                ) from None
            finally:
                if client is not None and keep and self.keeps:
                    timer = asyncio.get_running_loop().call_later(KEPT_SECONDS, self._give_up, client)
                    self._free[client] = timer
                elif client is not None:
                    drop(client)

    async def _begun(self, to: str, size: int, seconds: float) -> aiosmtplib.SMTP:
        """A connection on which a mail of this size has been announced. What was kept may be dead, or the
        server may want no more on it: then a new one tells."""
        if kept := self._kept():
            with suppress(*_BROKEN):
                return await self._announced(kept, to, size)
        return await self._announced(await self._open(seconds), to, size)

    async def _announced(self, client: aiosmtplib.SMTP, to: str, size: int) -> aiosmtplib.SMTP:
        options = [f"SIZE={size}"] if client.supports_extension("size") else []
        try:
            if not (to + self._address).isascii():
                if not client.supports_extension("smtputf8"):
                    raise Refused(
                        f"{self._host} carries no addresses outside ASCII like"
                        f" {one_line(to, 80)} (no SMTPUTF8): ask the person for another address"
                    )
                options += ["BODY=8BITMIME", "SMTPUTF8"]
            await client.mail(self._address, options=options, encoding="utf-8")
        except BaseException:
            drop(client)
            raise
        return client

    async def _copy(self, client: aiosmtplib.SMTP) -> None:
        try:
            await client.rcpt(self._address, encoding="utf-8")
        except aiosmtplib.SMTPResponseException as error:
            if error.code == _GOING_AWAY:
                raise
            log.info("email.no_copy why=%s", one_line(error.message))

    def _kept(self) -> aiosmtplib.SMTP | None:
        while self._free:
            client, timer = self._free.popitem()
            timer.cancel()
            if client.is_connected:
                return client
        return None

    def _give_up(self, client: aiosmtplib.SMTP) -> None:
        del self._free[client]
        drop(client)


async def _reset(client: aiosmtplib.SMTP) -> bool:
    try:
        await client.rset()
        return True
    except _BROKEN:
        return False


async def open_smtp(box: MailLogin, domain: str) -> aiosmtplib.SMTP:
    """Connected and logged in; we call ourselves by the domain."""
    upgrade = box.tls is not None and box.port != 465 and not box.direct
    client = aiosmtplib.SMTP(
        hostname=box.host,
        port=box.port,
        timeout=box.seconds,
        use_tls=box.tls is not None and not upgrade,
        start_tls=False,
        tls_context=box.tls,
        local_hostname=domain,
    )
    try:
        await client.connect()
        await client.ehlo()
        if upgrade:
            if not client.supports_extension("starttls"):
                raise Unreachable(f"The SMTP server does not encrypt on port {box.port} (no STARTTLS)")
            await client.starttls()
            await client.ehlo()
        if box.token:
            await _show_token(client, box)
        elif client.supports_extension("auth"):
            await _log_in(client, box)
        return client
    except aiosmtplib.SMTPResponseException as error:
        drop(client)
        raise error_for(error.code, error.message) from None
    except _BROKEN as error:
        drop(client)
        cause: Exception = error.__cause__ if isinstance(error.__cause__, OSError) else error
        if isinstance(cause, aiosmtplib.SMTPServerDisconnected):
            cause = ConnectionResetError(104, "it hung up")
        raise cannot_reach("SMTP", box.host, box.port, cause) from cause
    except BaseException:
        drop(client)
        raise


async def _log_in(client: aiosmtplib.SMTP, box: MailLogin) -> None:
    """In one way only: who tries a wrong password in several is shut out the sooner."""
    methods = client.supported_auth_methods
    if "plain" in methods:
        await client.auth_plain(box.user, box.password)
    elif "login" in methods:
        await client.auth_login(box.user, box.password)
    else:
        await client.login(box.user, box.password)


async def _show_token(client: aiosmtplib.SMTP, box: MailLogin) -> None:
    try:
        await client.auth_xoauth2(box.user, box.token)
    except aiosmtplib.SMTPAuthenticationError as error:
        if error.code < 500:
            raise
        raise NeedsLogin(refused_token("SMTP", box.user, f"{error.code} {error.message}")) from None


def drop(client: aiosmtplib.SMTP) -> None:
    """Close it now: an encrypted connection would wait for the other side."""
    if isinstance(client.transport, asyncio.WriteTransport):
        client.transport.abort()
    client.close()


def error_for(code: int, reply: object) -> HermesError:
    """What a refusal of the SMTP server means for who sent. With an answer like these, nothing was sent."""
    words = reply.decode("utf-8", "replace") if isinstance(reply, bytes) else str(reply)
    why = one_line(f"{code} {showable(words)}", 180)
    if code in _LOGIN_CODES:
        return NeedsLogin(f"The SMTP server does not take this name and password (EMAIL_PASSWORD): {why}")
    if code < 200:
        return Unreachable("What answers there is no SMTP server")
    if code < 500:
        return Unreachable(f"The SMTP server wants us to come back later ({why})", after=TOO_FAST_SECONDS)
    status = re.search(r"\b5\.\d{1,3}\.\d{1,3}\b", words, re.ASCII)
    reason = _STATUS.get(status[0] if status else "5.3.4" if code == 552 else "")
    return Refused(f"{reason or 'The SMTP server refuses the mail'} ({why})")
