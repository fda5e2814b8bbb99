"""“… is typing”: shown where a platform can, for as long as a turn works and waits for nobody. It is a
courtesy: what goes wrong with it ends it for the turn and nothing else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from hermes.control.feed import Feed
from hermes.domain.address import Address
from hermes.domain.clock import Clock
from hermes.domain.errors import HermesError
from hermes.domain.event import Asked
from hermes.domain.ports import Platform, Typing
from hermes.domain.settings import Settings

log = logging.getLogger("hermes.typing")
_EVERY = 4.0
"""Platforms show it for five seconds or more."""
_SWITCH = "typing_indicator"


class TypingSigns:
    def __init__(self, clock: Clock, settings: Settings, platform: Callable[[str], Platform | None]) -> None:
        self._clock = clock
        self._settings = settings
        self._platform = platform
        self._shown: set[asyncio.Task[None]] = set()

    def begin(self, to: Address, feed: Feed) -> None:
        """A turn starts to work, or goes on."""
        if not isinstance(self._platform(to.credential), Typing) or self._is_off(to):
            return
        task = asyncio.get_running_loop().create_task(self._show(to, feed), name=f"typing {to}")
        self._shown.add(task)
        task.add_done_callback(self._shown.discard)

    async def close(self) -> None:
        for task in tuple(self._shown):
            task.cancel()
        if self._shown:
            await asyncio.wait(tuple(self._shown))

    def _is_off(self, to: Address) -> bool:
        said = self._settings.block(to).extra.get(_SWITCH, "")
        return said.lower() in ("false", "no", "off", "0")

    async def _show(self, to: Address, feed: Feed) -> None:
        while not (feed.ended or _waits(feed)):
            platform = self._platform(to.credential)
            if platform is None or not isinstance(platform, Typing):
                return
            try:
                await platform.typing(to)
            except HermesError as error:
                log.debug("typing.not_shown to=%s why=%s", to, error)
                return
            await self._clock.sleep(_EVERY)


def _waits(feed: Feed) -> bool:
    return bool(feed.entries) and isinstance(feed.entries[-1].record, Asked)
