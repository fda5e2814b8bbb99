"""The outbound side of the gateway as a whole: what it does when an account comes up, when a turn begins and
when the gateway stops."""

from __future__ import annotations

import asyncio

from hermes.control.feed import Feed, GatewayCounters
from hermes.control.outbound.accounts import PlatformAccounts
from hermes.control.outbound.command_menus import MenuEntries, Menus
from hermes.control.outbound.context import OutboundContext
from hermes.control.outbound.draft import Draft
from hermes.control.outbound.lanes import Lanes
from hermes.control.outbound.typing import ActivityIndicator
from hermes.control.workers import Supervisor
from hermes.domain.address import SourceKind
from hermes.domain.hooks import GATE_SEND
from hermes.domain.ports.platform import Platform
from hermes.domain.turn import Turn
from hermes.stream.fold.drafts import draft_pace
from hermes.stream.fold.turn_fold import ProgressLevel


class Delivery:
    def __init__(
        self,
        accounts: PlatformAccounts,
        context: OutboundContext,
        loops: Supervisor,
        tally: GatewayCounters,
        menu: MenuEntries,
    ) -> None:
        self._accounts = accounts
        self._context = context
        self.lanes = Lanes(accounts, context, loops, tally)
        self._activity = ActivityIndicator(context.clock, context.settings, accounts.platform)
        self._menus = Menus(context.store, menu)

    def attach(self, account: str, platform: Platform) -> None:
        """The account is up: its lanes run, beginning with what earlier lives left unsent."""
        self._accounts.attach(account, platform)
        self._menus.offer(account, platform)
        self.lanes.search()

    def begin(self, turn: Turn, feed: Feed) -> None:
        """A turn starts to run, or goes on: show that it works, and what it says where drafts are wanted."""
        if turn.reply is None:
            return
        self._activity.begin(turn, feed)
        if self._context.hooks.follows(GATE_SEND):  # nothing is shown before the hook has seen it
            return
        platform = self._accounts.platform(turn.reply.to.credential)
        if platform is None:
            return
        settings = self._context.settings
        kind = SourceKind.GROUP if turn.source is None else turn.source.kind
        pace = draft_pace(settings.streaming, platform.capabilities, kind)
        if pace is None:
            return
        progress = ProgressLevel(settings.display.tool_progress)
        draft = Draft(
            turn=turn,
            feed=feed,
            pace=pace,
            progress=progress,
            store=self._context.store,
            clock=self._context.clock,
        )
        self.lanes.follow(turn.reply.to, draft)

    def ring_reply(self, turn: Turn) -> None:
        """Something of this turn may be ready to be sent."""
        if turn.reply is not None:
            self.lanes.ring(turn.reply.to)

    async def close(self, grace: float, hurry: asyncio.Event) -> None:
        await self._menus.close()
        await self._activity.close()
        await self.lanes.close(grace, hurry)
