"""The way out: connections to the SMTP server. One that was used is kept for the next mail, a while; after a
fault, or when the server has given it up, another is opened."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

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
        self._free: dict[aiosmtplib.SMTP, asyncio.TimerHandle] = {}
        self.keeps = False
        """Whether connections are kept; where nobody closes them in the end, they are not."""

    def close(self) -> None:
        self.keeps = False
        while client := self._kept():
            drop(client)

    async def submit(self, to: str, data: bytes, *, copy: bool, seconds: float) -> None:
        """Only what goes wrong once the mail itself is on its way leaves a doubt whether it arrived."""
        async with self._room:
            client: aiosmtplib.SMTP | None = None
            keep = on_its_way = False
            try:
                client = await self._begun(to, len(data), seconds)
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
        return await self._announced(await self._servers.open_smtp(seconds), to, size)

    async def _announced(self, client: aiosmtplib.SMTP, to: str, size: int) -> aiosmtplib.SMTP:
        options = [f"SIZE={size}"] if client.supports_extension("size") else []
        try:
            if not (to + self._servers.address).isascii():
                if not client.supports_extension("smtputf8"):
                    raise Refused(
                        f"{self._servers.smtp_host} carries no addresses outside ASCII like"
                        f" {one_line(to, 80)} (no SMTPUTF8): ask the person for another address"
                    )
                options += ["BODY=8BITMIME", "SMTPUTF8"]
            await client.mail(self._servers.address, options=options, encoding="utf-8")
        except BaseException:
            drop(client)
            raise
        return client

    async def _copy(self, client: aiosmtplib.SMTP) -> None:
        try:
            await client.rcpt(self._servers.address, encoding="utf-8")
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
