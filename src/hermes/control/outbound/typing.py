"""Signs that a turn works, where a platform can show some: “… is typing” for as long as it waits for nobody,
and a reaction on the message that it answers. They are a courtesy: what goes wrong with one ends it for the
turn and nothing else, and nothing of it is stored. A turn that is taken up after a crash begins anew with
them, so the reaction of its first life is taken away in the end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine

from hermes.control.feed import Feed
from hermes.control.workers import report_death
from hermes.domain.address import Address
from hermes.domain.clock import Clock
from hermes.domain.errors import HermesError
from hermes.domain.event import Asked, Entry, Failed, Finished
from hermes.domain.message import Receipt
from hermes.domain.ports.platform import Platform, Reactions, Typing
from hermes.domain.settings.settings import Settings
from hermes.domain.turn import Turn

log = logging.getLogger("hermes.signs")
WORKS, DONE, FAILED = "👀", "✅", "❌"
_EVERY = 4.0
"""Platforms show it for five seconds or more."""
_SWITCH = "typing_indicator"
_NO = frozenset({"false", "no", "off", "0"})


class ActivityIndicator:
    def __init__(self, clock: Clock, settings: Settings, platform: Callable[[str], Platform | None]) -> None:
        self._clock = clock
        self._settings = settings
        self._platform = platform
        self._shown: set[asyncio.Task[None]] = set()

    def begin(self, turn: Turn, feed: Feed) -> None:
        """A turn starts to work, or goes on."""
        platform = None if turn.reply is None else self._platform(turn.reply.to.credential)
        if turn.reply is None or platform is None:
            return
        to, ref = turn.reply.to, turn.reply.ref
        block, wanted = self._settings.block(to), platform.capabilities.marks_work
        if isinstance(platform, Typing) and block.extra.get(_SWITCH, "").lower() not in _NO:
            self._show(self._type(to, feed), f"typing {to}")
        wanted = wanted if block.reactions is None else block.reactions
        if wanted and ref is not None and isinstance(platform, Reactions):
            before = feed.entries[-1].seq if feed.entries else 0
            self._show(self._mark(Receipt(to=to, ref=ref), feed, before), f"mark {to}")

    async def close(self) -> None:
        for task in tuple(self._shown):
            task.cancel()
        if self._shown:
            await asyncio.wait(tuple(self._shown))

    def _show(self, sign: Coroutine[object, object, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(sign, name=name)
        self._shown.add(task)
        task.add_done_callback(self._shown.discard)
        task.add_done_callback(report_death)

    async def _type(self, to: Address, feed: Feed) -> None:
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

    async def _mark(self, message: Receipt, feed: Feed, before: int) -> None:
        """`before` is the last record of what the turn did already: it may have asked, and been answered."""
        if not await self._react(message, WORKS):
            return
        async for seen in feed.watch(before, live=False):
            if isinstance(seen, Entry) and isinstance(seen.record, Asked):
                return
        last = feed.entries[-1].record if feed.entries else None
        if isinstance(last, Asked):
            return
        became = DONE if isinstance(last, Finished) else FAILED if isinstance(last, Failed) else ""
        await self._react(message, became, instead=WORKS)

    async def _react(self, message: Receipt, emoji: str, instead: str = "") -> bool:
        platform = self._platform(message.to.credential)
        if platform is None or not isinstance(platform, Reactions):
            return False
        try:
            await platform.react(message, emoji, instead=instead)
        except HermesError as error:
            log.debug("reaction.not_shown to=%s why=%s", message.to, error)
            return False
        return True


def _waits(feed: Feed) -> bool:
    return bool(feed.entries) and isinstance(feed.entries[-1].record, Asked)
