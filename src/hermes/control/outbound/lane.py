"""A lane: the one writer of one chat. It posts drafts, edits them and delivers finals, in order.

Its life: it starts when its chat has something to send or a turn begins to speak there, and leaves when both
are done. A row is marked `attempting` before it is sent. A row that cannot be sent now holds up the rows
behind it, never another chat.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime

from hermes.control.bell import wait_for_ring
from hermes.control.hooks.dispatch import Hooks
from hermes.control.outbound.draft import Draft
from hermes.control.outbound.notices import report_undelivered
from hermes.control.outbound.row_sender import NextRow, RowSender
from hermes.control.workers import pause_after
from hermes.domain.address import Address
from hermes.domain.clock import Clock
from hermes.domain.errors import Unreachable
from hermes.domain.ports.platform import Platform
from hermes.domain.ports.store import Store, Tx
from hermes.domain.rows import OutboxRow, OutState
from hermes.domain.settings.settings import Settings

log = logging.getLogger("hermes.lane")


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneContext:
    """What all lanes share."""

    store: Store
    clock: Clock
    settings: Settings
    platform: Callable[[str], Platform | None]
    given_up: Callable[[Address | None], None]
    """Called once a row is given up, with the chat where the operator reads of it."""
    hooks: Hooks = field(default_factory=Hooks)


class Lane:
    def __init__(self, to: Address, context: LaneContext) -> None:
        self._to = to
        self._context = context
        self._sender = RowSender(to=to, clock=context.clock, settings=context.settings, hooks=context.hooks)
        self._drafts: list[Draft] = []
        self._bell = asyncio.Event()
        self._due = True
        self._leaving = False
        self._unsaved: OutboxRow | None = None
        """The row that was attempted last, as it is to be stored: only this lane knows how that went."""
        self._taking = False
        """The next row is being taken; whether it is marked as attempted cannot be told yet."""
        self._marked: str | None = None
        """The row that was marked last, if it never had been attempted before."""

    def wind_down(self) -> None:
        """Send what can be sent now; what has to wait is sent by the next life."""
        self._leaving = True
        self.ring()

    def ring(self) -> None:
        """There may be something in the outbox."""
        self._due = True
        self._bell.set()

    def follow(self, draft: Draft) -> None:
        """Show a turn that begins to speak here."""
        self._drafts.append(draft)
        draft.start(self._bell.set)
        self._bell.set()

    async def live(self) -> None:
        try:
            while True:
                self._bell.clear()
                platform = self._context.platform(self._to.credential)
                if platform is None:
                    return
                following = NextRow()
                if self._due or self._unsaved is not None:
                    following = await self._advance(platform)
                if following.row is not None:
                    self._unsaved = await self._sender.send(platform, following)
                    for draft in self._drafts:
                        draft.settle(self._unsaved)
                elif self._due:
                    # Something was finished meanwhile: it comes before what others begin to say.
                    continue
                elif self._leaving or not await self._idle(platform, following.seconds):
                    return
        finally:
            for draft in self._drafts:
                draft.stop()
            if self._taking or self._unsaved is not None:
                reported = await self._context.store.write(self._leave)
                self._count_dead(reported)

    # --- finals ---

    async def _advance(self, platform: Platform) -> NextRow:
        """Store how the last row ended and take the next one. That the last one was sent is known here alone,
        so it is kept until it is stored."""
        self._due, self._taking = False, True
        failures = 0
        while True:
            try:
                following = await self._context.store.write(self._next(platform))
            except Unreachable as error:
                if self._unsaved is None or self._leaving:
                    raise
                failures += 1
                log.warning("lane.not_stored to=%s key=%s why=%s", self._to, self._unsaved.key, error)
                await self._context.clock.sleep(pause_after(failures))
                continue
            self._count_dead(following.reported)
            self._unsaved, self._taking = None, False
            return following

    def _next(self, platform: Platform) -> Callable[[Tx], NextRow]:
        """One unit: store how the last row ended, and mark the next one as being attempted."""
        now = self._context.clock.now()

        def attempt(tx: Tx) -> NextRow:
            reported = self._settle(tx)
            return replace(self._take(tx, now, edits=platform.capabilities.edits), reported=reported)

        return attempt

    def _settle(self, tx: Tx) -> Address | None:
        """Store how the last row ended; if it was given up, where the operator reads of it."""
        if self._unsaved is None:
            return None
        tx.outbox.save(self._unsaved)
        if self._unsaved.state is not OutState.DEAD:
            return None
        return report_undelivered(tx, self._unsaved, self._context.settings, self._context.clock.now())

    def _take(self, tx: Tx, now: datetime, *, edits: bool) -> NextRow:
        row = tx.outbox.head(self._to)
        if row is None:
            return NextRow()
        if row.next_at is not None and row.next_at > now:
            return NextRow(seconds=(row.next_at - now).total_seconds())
        doubtful = row.state is not OutState.DUE
        # Set before the commit: whoever leaves cannot tell whether that came about.
        self._marked = None if doubtful else row.key
        siblings = tuple(tx.outbox.of_turn(row.turn)) if edits and row.turn is not None else ()
        replaced = None if row.body.replaces is None else tx.post.get(row.body.replaces)
        row = replace(row, state=OutState.ATTEMPTING, attempts=row.attempts + 1, next_at=None)
        tx.outbox.save(row)
        return NextRow(row=row, doubtful=doubtful, siblings=siblings, replaced=replaced)

    def _leave(self, tx: Tx) -> Address | None:
        """One unit for a lane that leaves in the middle: how the last row ended. The next one may be marked
        already and is not sent: if this lane did that, and nobody had before, it is as it was."""
        reported = self._settle(tx)
        row = tx.outbox.head(self._to)
        untouched = row is not None and row.state is OutState.ATTEMPTING and row.attempts == 1
        if row is not None and untouched and row.key == self._marked:
            tx.outbox.save(replace(row, state=OutState.DUE, attempts=0))
        return reported

    def _count_dead(self, reported: Address | None) -> None:
        if self._unsaved is not None and self._unsaved.state is OutState.DEAD:
            self._context.given_up(reported)

    # --- drafts ---

    async def _idle(self, platform: Platform, seconds: float) -> bool:
        """Show drafts until the next row is due or somebody rings; False if nothing is left to do."""
        self._due = seconds > 0
        wait = seconds or await self._show_drafts(platform)
        if wait is None and not self._drafts:
            return self._bell.is_set()
        if wait is None:
            await self._bell.wait()
        elif wait <= 0:
            await asyncio.sleep(0)
        else:
            await wait_for_ring(self._bell, self._context.clock, wait, "lane")
        return True

    async def _show_drafts(self, platform: Platform) -> float | None:
        """Bring every draft up to date; seconds until one of them needs it again."""
        waits: list[float] = []
        for draft in list(self._drafts):
            if draft.over:
                self._drafts.remove(draft)
                await draft.leave(platform)
                continue
            wait = await draft.step(platform)
            if wait is not None:
                waits.append(wait)
        return min(waits) if waits else None
