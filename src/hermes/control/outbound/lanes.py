"""Delivery: the lanes of all chats, and which platform accounts are up to carry them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from hermes.control.feed import Feed, GatewayCounters
from hermes.control.hooks.dispatch import Hooks
from hermes.control.outbound.command_menus import Menus
from hermes.control.outbound.draft import Draft
from hermes.control.outbound.lane import UNSENT, Lane, LaneContext
from hermes.control.outbound.outbox_admin import notify
from hermes.control.outbound.outgoing_files import name_files
from hermes.control.outbound.targets import home_channel
from hermes.control.outbound.topics import lane_of, real_place
from hermes.control.outbound.typing import ActivityIndicator
from hermes.control.workers import Supervisor, Workers
from hermes.domain.address import Address, SourceKind
from hermes.domain.capabilities import NO_ABILITIES, Capabilities
from hermes.domain.hooks import GATE_SEND
from hermes.domain.ports.platform import Platform
from hermes.domain.ports.store import Store, Tx
from hermes.domain.rows import OutboxRow
from hermes.domain.settings.settings import Settings
from hermes.domain.text import one_line
from hermes.domain.turn import Turn
from hermes.stream.fold.drafts import draft_pace
from hermes.stream.fold.turn_fold import ProgressLevel

_LANES = 512
_REPORT = "report:"


class Delivery:
    def __init__(
        self,
        *,
        store: Store,
        loops: Supervisor,
        settings: Settings,
        tally: GatewayCounters,
        hooks: Hooks,
        declared: Mapping[str, Capabilities],
    ) -> None:
        self.declared = declared
        self._store = store
        self._clock = clock = loops.clock
        self._settings = settings
        self._tally = tally
        self._hooks = hooks
        self._platforms: dict[str, Platform] = {}
        self._signs = ActivityIndicator(clock, settings, self._platforms.get)
        self._menus = Menus(store, settings)
        world = LaneContext(
            store=store,
            clock=clock,
            settings=settings,
            platform=self._platforms.get,
            report=self._report,
            given_up=self._given_up,
            hooks=hooks,
        )
        self._lanes: Workers[Address] = Workers(
            start=lambda to: Lane(to, world), page=self._page, places=_LANES, name="lane", loops=loops
        )

    # --- accounts come and go ---

    def attach(self, account: str, platform: Platform) -> None:
        """The account is up: its lanes run, beginning with what earlier lives left unsent."""
        self._platforms[account] = platform
        self._menus.offer(account, platform)
        self._lanes.search()

    def detach(self, account: str) -> None:
        self._platforms.pop(account, None)

    def sends(self, to: Address) -> bool:
        """Whether somebody sends to this chat now, or will by himself."""
        return to.credential in self._platforms or self._lanes.get(to) is not None

    def platform(self, account: str) -> Platform | None:
        """The platform of an account that is up."""
        return self._platforms.get(account)

    def capabilities(self, to: Address) -> Capabilities:
        """What can be done in a chat: what its account says itself while it is up, for servers differ."""
        platform = self._platforms.get(to.credential)
        abilities = self.declared.get(to.platform) if platform is None else platform.capabilities
        return abilities or NO_ABILITIES

    @property
    def accounts(self) -> tuple[str, ...]:
        return tuple(self._platforms)

    async def close(self, grace: float, hurry: asyncio.Event) -> None:
        await self._menus.close()
        await self._signs.close()
        await self._lanes.close(grace, hurry)

    # --- work ---

    def ring(self, to: Address) -> None:
        if to.credential in self._platforms:
            self._lanes.ring(to)

    def ring_reply(self, turn: Turn) -> None:
        """Something of this turn may be ready to be sent."""
        if turn.reply is not None:
            self.ring(turn.reply.to)

    def begin(self, turn: Turn, feed: Feed) -> None:
        """A turn starts to run: show it as it speaks, where the chat can."""
        if turn.reply is None:
            return
        self._signs.begin(turn, feed)
        if self._hooks.follows(GATE_SEND):  # nothing is shown before it was asked about
            return
        platform = self._platforms.get(turn.reply.to.credential)
        if platform is None:
            return
        kind = SourceKind.GROUP if turn.source is None else turn.source.kind
        pace = draft_pace(self._settings.streaming, platform.capabilities, kind)
        if pace is None:
            return
        self._lanes.ring(turn.reply.to)
        lane = self._lanes.get(turn.reply.to)
        if isinstance(lane, Lane):
            progress = ProgressLevel(self._settings.display.tool_progress)
            draft = Draft(
                turn=turn, feed=feed, pace=pace, progress=progress, store=self._store, clock=self._clock
            )
            lane.follow(draft)

    async def _page(self, after: int, limit: int) -> list[tuple[int, Address]]:
        found: list[tuple[int, Address]] = []
        for account in tuple(self._platforms):
            found += await self._waiting(account, after, limit)
        return sorted(found, key=lambda row: row[0])[:limit]

    async def _waiting(self, account: str, after: int, limit: int) -> list[tuple[int, Address]]:
        return await self._store.read(lambda tx: tx.outbox.waiting(account, after, limit))

    def _report(self, tx: Tx, row: OutboxRow) -> Address | None:
        """Tell the operator once, in the home channel, what could not be delivered. The chat itself is not
        shut out: the next message to it is tried as any other."""
        files = name_files(row.body.attachments)
        if files and not row.body.text:
            # Whoever waits in the chat for files that went without words hears of it there.
            text = f"📎 {files} could not be sent: {one_line(row.error, 120)}"
            notify(tx, UNSENT + row.key, row.to, text, self._clock.now())
        home = home_channel(tx, self._settings, row.to)
        home = None if home is None else lane_of(tx, home)
        if home is None or home in (row.to, real_place(tx, row.to)) or row.key.startswith(_REPORT):
            return None
        said = "(not kept)" if row.body.fleeting else one_line(row.body.text or files, 120)
        text = f"⚠️ A message to {row.to} could not be delivered ({row.error}): {said}"
        return home if notify(tx, _REPORT + row.key, home, text, self._clock.now()) else None

    def _given_up(self, reported: Address | None) -> None:
        self._tally.undeliverable += 1
        if reported is not None:
            self.ring(reported)
