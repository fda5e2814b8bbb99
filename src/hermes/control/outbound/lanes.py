"""The lanes of all chats. A lane is started when its chat has something to send and its account is up."""

from __future__ import annotations

import asyncio

from hermes.control.feed import GatewayCounters
from hermes.control.outbound.accounts import PlatformAccounts
from hermes.control.outbound.context import OutboundContext
from hermes.control.outbound.draft import Draft
from hermes.control.outbound.lane import Lane
from hermes.control.workers import Supervisor, Workers
from hermes.domain.address import Address

_LANES = 512


class Lanes:
    def __init__(
        self, accounts: PlatformAccounts, context: OutboundContext, loops: Supervisor, tally: GatewayCounters
    ) -> None:
        self._accounts = accounts
        self._context = context
        self._tally = tally
        self._lanes: Workers[Address] = Workers(
            start=self._lane, page=self._page, places=_LANES, name="lane", loops=loops
        )

    def ring(self, to: Address) -> None:
        """There may be something to send to this chat."""
        if self._accounts.platform(to.credential) is not None:
            self._lanes.ring(to)

    def search(self) -> None:
        """An account came up: look for chats with something to send."""
        self._lanes.search()

    def follow(self, to: Address, draft: Draft) -> None:
        """Show a draft in this chat."""
        self._lanes.ring(to)
        lane = self._lanes.get(to)
        if isinstance(lane, Lane):
            lane.follow(draft)

    def sends(self, to: Address) -> bool:
        """Whether somebody sends to this chat now, or will without being asked."""
        return self._accounts.platform(to.credential) is not None or self._lanes.get(to) is not None

    async def close(self, grace: float, hurry: asyncio.Event) -> None:
        await self._lanes.close(grace, hurry)

    def _lane(self, to: Address) -> Lane:
        return Lane(to, self._context, lambda: self._accounts.platform(to.credential), self._given_up)

    async def _page(self, after: int, limit: int) -> list[tuple[int, Address]]:
        rows: list[tuple[int, Address]] = []
        for account in self._accounts.up:
            rows += await self._waiting(account, after, limit)
        return sorted(rows, key=lambda row: row[0])[:limit]

    async def _waiting(self, account: str, after: int, limit: int) -> list[tuple[int, Address]]:
        return await self._context.store.read(lambda tx: tx.outbox.waiting(account, after, limit))

    def _given_up(self, reported: Address | None) -> None:
        self._tally.undeliverable += 1
        if reported is not None:
            self.ring(reported)
