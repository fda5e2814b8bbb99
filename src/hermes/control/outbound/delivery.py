"""The outbound side of the gateway: the lanes of all chats, and what a chat sees of a turn that works.

When an account comes up, its chats get what earlier lives left unsent. A turn that begins is shown by “… is
typing”, a reaction and a draft, where the platform has them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from hermes.control.core import GatewayCore
from hermes.control.feed import Feed
from hermes.control.outbound.accounts import PlatformAccounts
from hermes.control.outbound.send_pace import SendPace
from hermes.control.workers import TaskSet, Workers
from hermes.domain.chats.address import Address, SourceKind
from hermes.domain.chats.message import Receipt
from hermes.domain.clock import Clock
from hermes.domain.errors import HermesError, Unreachable
from hermes.domain.models.manner import Manner
from hermes.domain.ports.platform import Platform, Reactions, Typing
from hermes.domain.settings.live import LiveSettings
from hermes.domain.system.hooks import GATE_SEND
from hermes.domain.turns.event import Asked, Entry, Failed, Finished
from hermes.domain.turns.turn import Turn
from hermes.stream.fold.display import display_for
from hermes.stream.fold.draft_pace import draft_pace

if TYPE_CHECKING:
    from hermes.control.outbound.lane import Lane

log = logging.getLogger("hermes.signs")
WORKS, DONE, FAILED = "👀", "✅", "❌"
_EVERY = 4.0
"""Platforms show it for five seconds or more."""
_AGAIN, _TRIES = 5.0, 20
"""How often, and how many times, a reaction is taken back that could not be."""
_SWITCH = "typing_indicator"
_NO = frozenset({"false", "no", "off", "0"})
_LANES = 512


class Delivery:
    """A lane is started when its chat has something to send and its account is up."""

    def __init__(self, core: GatewayCore, accounts: PlatformAccounts) -> None:
        self._core = core
        self._accounts = accounts
        self._pace = SendPace()
        self._activity = ActivityIndicator(core.clock, core.live, accounts.up.get)
        self._lanes: Workers[Address] = Workers(
            start=self._lane, page=self._page, places=_LANES, name="lane", loops=core.loops
        )

    def attach(self, account: str, platform: Platform) -> None:
        """The account is up: its lanes run, beginning with what earlier lives left unsent."""
        self._accounts.up[account] = platform
        self._lanes.search()

    def begin(self, turn: Turn, feed: Feed, manner: Manner | None = None) -> None:
        """A turn starts to run, or goes on: show that it works, and what it says where drafts are wanted, in
        the manner of its session."""
        if turn.reply is None:
            return
        self._activity.begin(turn, feed)
        if GATE_SEND in self._core.hooks.followed:  # nothing is shown before the hook has seen it
            return
        to = turn.reply.to
        display = display_for(self._core.live.now, to, manner)
        platform = self._accounts.up.get(to.credential)
        kind = SourceKind.GROUP if turn.source is None else turn.source.kind
        pace = None if platform is None else draft_pace(display.streaming, platform.capabilities, kind)
        if pace is None:
            return
        from hermes.control.outbound.draft import Draft
        from hermes.control.outbound.lane import Lane

        draft = Draft(turn=turn, feed=feed, pace=pace, display=display, core=self._core)
        self._lanes.ring(to)
        lane = self._lanes.active.get(to)
        if isinstance(lane, Lane):
            lane.follow(draft)

    def ring(self, to: Address) -> None:
        """There may be something to send to this chat."""
        if to.credential in self._accounts.up:
            self._lanes.ring(to)

    def ring_reply(self, turn: Turn) -> None:
        """Something of this turn may be ready to be sent."""
        if turn.reply is not None:
            self.ring(turn.reply.to)

    def sends(self, to: Address) -> bool:
        """Whether somebody sends to this chat now, or will without being asked."""
        return to.credential in self._accounts.up or to in self._lanes.active

    async def close(self, grace: float, hurry: asyncio.Event) -> None:
        await self._activity.close()
        await self._lanes.close(grace, hurry)

    def _lane(self, to: Address) -> Lane:
        from hermes.control.outbound.lane import Lane  # which a gateway without chats never needs

        return Lane(to, self._core, lambda: self._accounts.up.get(to.credential), self.ring, self._pace)

    async def _page(self, after: int, limit: int) -> list[tuple[int, Address]]:
        rows: list[tuple[int, Address]] = []
        for account in tuple(self._accounts.up):
            rows += await self._waiting(account, after, limit)
        return sorted(rows, key=lambda row: row[0])[:limit]

    async def _waiting(self, account: str, after: int, limit: int) -> list[tuple[int, Address]]:
        return await self._core.store.read(lambda tx: tx.outbox.waiting(account, after, limit))


class ActivityIndicator:
    """Shows that a turn works: “… is typing” while it waits for nobody, and a reaction on the message that it
    answers. Both are a courtesy: what goes wrong with one ends it for the turn and nothing else, and nothing
    of it is stored. A turn that resumes after a crash shows them again, so the reaction of its first life is
    removed in the end."""

    def __init__(self, clock: Clock, live: LiveSettings, platform: Callable[[str], Platform | None]) -> None:
        self._clock = clock
        self._live = live
        self._platform = platform
        self._shown = TaskSet()

    def begin(self, turn: Turn, feed: Feed) -> None:
        """A turn starts to work, or goes on."""
        platform = None if turn.reply is None else self._platform(turn.reply.to.credential)
        if turn.reply is None or platform is None:
            return
        to, ref = turn.reply.to, turn.reply.ref
        block, wanted = self._live.now.block(to), platform.capabilities.marks_work
        if isinstance(platform, Typing) and block.extra.get(_SWITCH, "").lower() not in _NO:
            self._shown.begin(self._type(to, feed), f"typing {to}")
        wanted = wanted if block.reactions is None else block.reactions
        if wanted and ref is not None and isinstance(platform, Reactions):
            before = feed.entries[-1].seq if feed.entries else 0
            after = platform.capabilities.marks_after
            self._shown.begin(self._mark(Receipt(to=to, ref=ref), feed, before, after), f"mark {to}")

    async def close(self) -> None:
        await self._shown.close()

    async def _type(self, to: Address, feed: Feed) -> None:
        while not (feed.ended or (feed.entries and isinstance(feed.entries[-1].record, Asked))):
            platform = self._platform(to.credential)
            if platform is None or not isinstance(platform, Typing):
                return
            try:
                await platform.typing(to)
            except HermesError as error:
                log.debug("typing.not_shown to=%s why=%s", to, error)
                return
            await self._clock.sleep(_EVERY)

    async def _mark(self, message: Receipt, feed: Feed, before: int, after: float) -> None:
        """`before` is the last record of what the turn did already: it may have asked, and been answered."""
        if after:
            await self._clock.sleep(after)
            if feed.ended or (feed.entries and isinstance(feed.entries[-1].record, Asked)):
                return
        if await self._react(message, WORKS) is not None:
            return
        async for seen in feed.watch(before, live=False):
            if isinstance(seen, Entry) and isinstance(seen.record, Asked):
                return
        last = feed.entries[-1].record if feed.entries else None
        if isinstance(last, Asked):
            return
        became = DONE if isinstance(last, Finished) else FAILED if isinstance(last, Failed) else ""
        for _ in range(_TRIES):
            # What says that we work may not stay for ever.
            wait = await self._react(message, became, instead=WORKS)
            if not wait:
                return
            await self._clock.sleep(wait)

    async def _react(self, message: Receipt, emoji: str, instead: str = "") -> float | None:
        """None if it is shown; else the seconds after which it may be, or 0 if it never will."""
        platform = self._platform(message.to.credential)
        if platform is None:
            return _AGAIN
        if not isinstance(platform, Reactions):
            return 0.0
        try:
            await platform.react(message, emoji, instead=instead)
        except HermesError as error:
            log.debug("reaction.not_shown to=%s why=%s", message.to, error)
            return max(error.after or 0.0, _AGAIN) if isinstance(error, Unreachable) else 0.0
        return None
