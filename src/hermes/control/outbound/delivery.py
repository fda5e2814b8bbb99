"""The outbound side of the gateway as a whole: accounts, lanes, menus, what is shown while a turn runs."""

from __future__ import annotations

import asyncio

from hermes.control.hooks.dispatch import Hooks
from hermes.control.outbound.accounts import PlatformAccounts
from hermes.control.outbound.command_menus import MenuEntries, Menus
from hermes.control.outbound.lanes import Lanes
from hermes.control.outbound.turn_display import TurnDisplay
from hermes.control.outbound.typing import ActivityIndicator
from hermes.control.tally import GatewayCounters
from hermes.control.workers import Supervisor
from hermes.domain.ports.platform import Platform
from hermes.domain.ports.store import Store
from hermes.domain.settings.settings import Settings


class Delivery:
    def __init__(
        self,
        accounts: PlatformAccounts,
        *,
        store: Store,
        loops: Supervisor,
        settings: Settings,
        tally: GatewayCounters,
        hooks: Hooks,
        menu: MenuEntries,
    ) -> None:
        self.accounts = accounts
        self.lanes = Lanes(accounts, store=store, loops=loops, settings=settings, tally=tally, hooks=hooks)
        self._activity = ActivityIndicator(loops.clock, settings, accounts.platform)
        self._menus = Menus(store, menu)
        self.display = TurnDisplay(
            accounts=accounts,
            lanes=self.lanes,
            activity=self._activity,
            store=store,
            clock=loops.clock,
            settings=settings,
            hooks=hooks,
        )

    def attach(self, account: str, platform: Platform) -> None:
        """The account is up: its lanes run, beginning with what earlier lives left unsent."""
        self.accounts.attach(account, platform)
        self._menus.offer(account, platform)
        self.lanes.search()

    async def close(self, grace: float, hurry: asyncio.Event) -> None:
        await self._menus.close()
        await self._activity.close()
        await self.lanes.close(grace, hurry)
