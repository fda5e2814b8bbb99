"""The adapter host: keeps one account's adapter alive.

Its life: it takes the account's lease and waits while somebody else has it; makes the adapter; runs it from
the stored cursor, attached to delivery for as long as it runs; and when the adapter ends or breaks, backs off
and begins again. An adapter that stays connected and hears nothing any more is rebuilt, too: its platform
declares how long a healthy line can be silent, and every `accept`, also of nothing, is a sign of life. What
only an operator can mend (no login, a missing package) parks it: it says so and ends.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from hermes.control.gateway import Gateway
from hermes.domain.chats.message import Inbound
from hermes.domain.clock import Clock
from hermes.domain.errors import HermesError, Lost, NeedsLogin, Refused, Unreachable, UserError
from hermes.domain.ports.platform import Notices, Platform
from hermes.domain.system.border import ForeignExit, contain

log = logging.getLogger("hermes.host")
LEASE_SECONDS = 60.0
FIRST_DELAY = 1.0
LONGEST_DELAY = 300.0
LONGEST_OFFLINE = 20.0
"""The longest wait while nobody is reached: trying again costs nothing then, and people wait."""
HEALTHY_SECONDS = 60.0
_RENEW_SECONDS = 20.0
_SETTLED_SECONDS = 3.0
_LEASE_DELAY = 1.0
_SHORT, _LONG_WAIT = 0.01, 30.0
_GOODBYE_SECONDS = 5.0


class HostState(StrEnum):
    """waiting → connecting → connected ⇄ retrying; `parked` until an operator acts, `stopped` at the end."""

    WAITING = "waiting"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    RETRYING = "retrying"
    PARKED = "parked"
    STOPPED = "stopped"


class Lease(Protocol):
    """The right to use the account; nobody else has it as long as it is renewed in time."""

    async def take(self, seconds: float) -> bool: ...

    async def release(self) -> None: ...

    def holder(self) -> str:
        """Who else has it, in words."""


class PlatformAccount(Struct, frozen=True, kw_only=True):
    """One account on one platform: its credential (`telegram@work`), and how its adapter is made. An adapter
    knows the variables of its platform; `worded` calls them as this account has them."""

    name: str
    make: Callable[[], Awaitable[Platform]]
    lease: Lease
    worded: Callable[[str], str] = str


Report = Callable[[str, HostState, str], None]
"""Told of every change: the account, its state, and a sentence why."""


class AdapterHost:
    def __init__(self, account: PlatformAccount, gateway: Gateway, clock: Clock, report: Report) -> None:
        self._account = account
        self._gateway = gateway
        self._clock = clock
        self._report = report
        self._reported: tuple[HostState, str] | None = None
        self._platform: Platform | None = None
        self._failures = 0
        self._began = 0.0
        self._heard = 0.0
        self.heard_at: datetime | None = None
        """When the adapter last gave a sign of life."""

    async def live(self) -> None:
        try:
            while not await self._try():
                pass
        finally:
            await self._let_go()

    async def _try(self) -> bool:
        """One connection, from lease to end. True when there is nothing more to try."""
        try:
            await self._rest()
            await self._own()
            await self._connect()
            error: HermesError = Unreachable("the platform closed the connection")
        except (NeedsLogin, Refused, UserError) as problem:
            why = self._account.worded(str(problem))
            log.warning("host.parked account=%s why=%s", self._account.name, why)
            self._tell(HostState.PARKED, why)
            return True
        except HermesError as problem:
            error = problem
        except Exception as broken:  # the adapter host is one of the three places that may catch everything
            log.exception("host.broke account=%s", self._account.name)
            error = Unreachable(f"the adapter broke ({type(broken).__name__})")
        await self._back_off(error)
        return False

    async def _rest(self) -> None:
        """Wait while an admin lets the account rest."""
        name = self._account.name
        if await self._gateway.resting(name):
            await self._account.lease.release()
            self._tell(HostState.PARKED, f"it rests; /platform resume {name} wakes it")
            await self._gateway.resting.until(name, resting=False)

    async def _mind_rest(self) -> None:
        """End the connection of an account that is to rest."""
        await self._gateway.resting.until(self._account.name, resting=True)
        raise Unreachable("it is to rest", after=0.0)

    async def _own(self) -> None:
        while not await self._account.lease.take(LEASE_SECONDS):
            self._tell(HostState.WAITING, self._account.lease.holder())
            await self._clock.sleep(_LEASE_DELAY)

    async def _connect(self) -> None:
        name = self._account.name
        self._began = self._clock.monotonic()
        self._tell(HostState.CONNECTING)
        self._platform = platform = await self._account.make()
        cursor = await self._gateway.cursor(name)
        self._gateway.attach(name, platform)
        self._heard = self._clock.monotonic()
        bound = platform.capabilities.silence_seconds
        running = asyncio.create_task(self._run(platform, cursor), name=f"adapter {name}")
        keeping = asyncio.create_task(self._keep(silent=bound <= 0), name=f"lease {name}")
        resting = asyncio.create_task(self._mind_rest(), name=f"rest {name}")
        tasks = [running, keeping, resting]
        if bound > 0:
            tasks.append(asyncio.create_task(self._listen(bound), name=f"progress {name}"))
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._gateway.detach(name)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=_GOODBYE_SECONDS)
        for task in done:
            if task.cancelled():
                raise Unreachable("the adapter gave up by itself")
            task.result()

    async def _run(self, platform: Platform, cursor: str | None) -> None:
        try:
            await contain(platform.run(self._accept, cursor))
        except ForeignExit as error:
            log.warning("host.gave_up account=%s why=%s", self._account.name, error)
            raise Unreachable("the adapter gave up by itself") from error

    async def _keep(self, *, silent: bool) -> None:
        """Hold the lease. An adapter is connected at its first sign of life, which comes when its platform
        has let it in; one that promises none (`silent`) when it has lived for a moment."""
        if silent:
            await self._clock.sleep(_SETTLED_SECONDS)
            self._tell_connected()
        while True:
            await self._clock.sleep(_RENEW_SECONDS)
            if not await self._account.lease.take(LEASE_SECONDS):
                raise Lost("another gateway has taken the account")

    async def _listen(self, bound: float) -> None:
        """End the connection of an adapter that is deaf: nothing came, not even a sign of life."""
        while True:
            silent = self._clock.monotonic() - self._heard
            if silent >= bound:
                log.warning("host.deaf account=%s silent=%.0f", self._account.name, silent)
                raise Unreachable(f"it was connected and heard nothing for {silent:.0f} s")
            await self._clock.sleep(max(bound - silent, _SHORT))  # a rest of nothing never passes

    async def _accept(self, items: Sequence[Inbound], cursor: str | None) -> None:
        if items or cursor is not None:
            await self._gateway.accept(self._account.name, items, cursor)
        self._heard, self.heard_at = self._clock.monotonic(), self._clock.now()
        self._tell_connected()

    async def _back_off(self, error: HermesError) -> None:
        if self._clock.monotonic() - self._began >= HEALTHY_SECONDS:
            self._failures = 0
        self._failures += 1
        after, offline = (error.after, error.offline) if isinstance(error, Unreachable) else (None, False)
        longest = LONGEST_OFFLINE if offline else LONGEST_DELAY
        seconds = after if after is not None else back_off(self._failures, longest)
        why = self._account.worded(str(error))
        log.info("host.retry account=%s after=%.1f why=%s", self._account.name, seconds, why)
        # Whoever reads a long wait may read it late.
        at = self._clock.now() + timedelta(seconds=seconds)
        when = f" (at {at:%H:%M:%S} UTC)" if seconds >= _LONG_WAIT else ""
        self._tell(HostState.RETRYING, f"{why}; trying again in {seconds:.0f} s{when}")
        await self._clock.sleep(seconds)

    async def _let_go(self) -> None:
        try:
            async with asyncio.timeout(_GOODBYE_SECONDS):
                await self._account.lease.release()
        except (HermesError, TimeoutError) as error:
            # It runs out by itself.
            log.info("host.lease_left account=%s why=%s", self._account.name, error)
        if self._reported is None or self._reported[0] is not HostState.PARKED:
            self._tell(HostState.STOPPED)

    def _tell_connected(self) -> None:
        notice = self._platform.notice() if isinstance(self._platform, Notices) else ""
        self._tell(HostState.CONNECTED, self._account.worded(notice))

    def _tell(self, state: HostState, why: str = "") -> None:
        if self._reported != (state, why):
            before, self._reported = self._reported, (state, why)
            if state is HostState.CONNECTED and (before is None or before[0] is not state):
                log.info("host.connected account=%s", self._account.name)
            self._report(self._account.name, state, why)


def back_off(failures: int, longest: float = LONGEST_DELAY) -> float:
    """Seconds to wait after so many failures in a row: 1 s, doubling up to the longest, a quarter more or
    less."""
    full: float = min(FIRST_DELAY * 2 ** min(failures - 1, 16), longest)
    return min(full * (0.75 + random.random() / 2), longest)
