"""The way out: connections to the SMTP server. One that was used is kept for the next mail, a while; after a
fault, or when the server has given it up, another is opened."""

from __future__ import annotations

import asyncio
import logging

import aiosmtplib

from hermes.domain.errors import Refused, Unreachable
from hermes.domain.text import one_line, trouble_told
from hermes.entry.platforms.email.compose import error_for
from hermes.entry.platforms.email.servers import MailServers, drop

log = logging.getLogger("hermes.email")
KEPT_SECONDS = 20.0
"""How long a connection waits for the next mail; servers hang up after a minute or more."""
_AT_ONCE = 8
_AT_ONCE_MICROSOFT = 3
"""So many connections of a mailbox Microsoft takes."""
_GOING_AWAY = 421
_BROKEN = (aiosmtplib.SMTPException, OSError, TimeoutError)


class SmtpClient:
    def __init__(self, servers: MailServers) -> None:
        self._servers = servers
        microsoft = servers.smtp_host.endswith((".office365.com", ".outlook.com"))
        self._room = asyncio.Semaphore(_AT_ONCE_MICROSOFT if microsoft else _AT_ONCE)
        self._free: list[tuple[aiosmtplib.SMTP, float]] = []
        self.keeps = False
        """Whether connections are kept; where nobody closes them in the end, they are not."""

    def close(self) -> None:
        self.keeps = False
        while self._free:
            drop(self._free.pop()[0])

    async def submit(self, to: str, data: bytes, *, copy: bool, seconds: float) -> None:
        """Only what goes wrong once the mail itself is on its way leaves a doubt whether it arrived."""
        async with self._room:
            client = await self._begun(to, len(data), seconds)
            keep = on_its_way = False
            try:
                await client.rcpt(to, encoding="utf-8")
                if copy:
                    await self._copy(client)
                on_its_way = True
                await client.data(data)
                keep = True
            except aiosmtplib.SMTPResponseException as error:
                if on_its_way and error.code < 200:
                    # No answer that anybody understands.
                    raise Unreachable("The SMTP server speaks in riddles", maybe_done=True) from None
                keep = error.code != _GOING_AWAY and await _reset(client)
                raise error_for(error.code, error.message) from None
            except _BROKEN as error:
                raise Unreachable(
                    f"The connection to the SMTP server broke ({trouble_told(error)})", maybe_done=on_its_way
                ) from None
            finally:
                if keep and self.keeps:
                    self._keep(client)
                else:
                    drop(client)

    async def _begun(self, to: str, size: int, seconds: float) -> aiosmtplib.SMTP:
        """A connection on which a mail of this size has been announced. What was kept may be dead, or the
        server may want no more on it: then a new one tells."""
        client = self._kept()
        if client is not None:
            try:
                await self._announce(client, to, size)
                return client
            except _BROKEN:
                drop(client)
            except BaseException:
                drop(client)
                raise
        client = await self._servers.open_smtp(seconds)
        try:
            await self._announce(client, to, size)
            return client
        except aiosmtplib.SMTPResponseException as error:
            drop(client)
            raise error_for(error.code, error.message) from None
        except _BROKEN as error:
            drop(client)
            raise Unreachable(f"The connection to the SMTP server broke ({trouble_told(error)})") from None
        except BaseException:
            drop(client)
            raise

    async def _announce(self, client: aiosmtplib.SMTP, to: str, size: int) -> None:
        options = [f"SIZE={size}"] if client.supports_extension("size") else []
        if not (to + self._servers.address).isascii():
            if not client.supports_extension("smtputf8"):
                raise Refused(
                    f"{self._servers.smtp_host} carries no addresses outside ASCII like {one_line(to, 80)}"
                    " (no SMTPUTF8): ask the person for another address"
                )
            options += ["BODY=8BITMIME", "SMTPUTF8"]
        await client.mail(self._servers.address, options=options, encoding="utf-8")

    async def _copy(self, client: aiosmtplib.SMTP) -> None:
        try:
            await client.rcpt(self._servers.address, encoding="utf-8")
        except aiosmtplib.SMTPResponseException as error:
            if error.code == _GOING_AWAY:
                raise
            log.info("email.no_copy why=%s", one_line(error.message))

    def _kept(self) -> aiosmtplib.SMTP | None:
        while self._free:
            client, _ = self._free.pop()
            if client.is_connected:
                return client
        return None

    def _keep(self, client: aiosmtplib.SMTP) -> None:
        loop = asyncio.get_running_loop()
        self._free.append((client, loop.time()))
        loop.call_later(KEPT_SECONDS, self._close_old)

    def _close_old(self) -> None:
        latest = asyncio.get_running_loop().time() - KEPT_SECONDS + 0.1
        old = [client for client, since in self._free if since <= latest]
        self._free = [(client, since) for client, since in self._free if since > latest]
        for client in old:
            drop(client)


async def _reset(client: aiosmtplib.SMTP) -> bool:
    try:
        await client.rset()
        return True
    except _BROKEN:
        return False
