"""A lane: the one writer of one chat. It posts drafts, edits them and delivers finals, in order.

Its life: it starts when its chat has something to send or a turn begins to speak there, and leaves when both
are done. A row is marked `attempting` before it is sent. A row that cannot be sent now holds up the rows
behind it, never another chat.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from datetime import datetime, timedelta

from msgspec import Struct

from hermes.control.core import GatewayCore
from hermes.control.outbound.draft import Draft
from hermes.control.outbound.notices import report_undelivered
from hermes.control.outbound.row_sender import WAITS, RowSender
from hermes.control.outbound.send_pace import SendPace
from hermes.control.workers import pause_after, wait_for_ring
from hermes.domain.chats.address import Address
from hermes.domain.chats.rows import OutboxRow, OutState
from hermes.domain.errors import Unreachable
from hermes.domain.ports.platform import Platform
from hermes.domain.ports.store import Tx
from hermes.domain.turns.gateway_event import DeliveryEnded
from hermes.domain.word import replace

log = logging.getLogger("hermes.lane")


class _Step(Struct, frozen=True, kw_only=True):
    """What the lane does next: make an attempt, or wait for so many seconds if there are any."""

    attempt: RowSender | None = None
    seconds: float = 0.0
    reported: Address | None = None
    """Where the operator reads that the row before was given up."""


class Lane:
    """`platform` is that of the chat's account while it is up; `ring` wakes the lane of the chat where the
    operator reads that a row was given up."""

    def __init__(
        self,
        to: Address,
        core: GatewayCore,
        platform: Callable[[], Platform | None],
        ring: Callable[[Address], None],
        pace: SendPace,
    ) -> None:
        self._to = to
        self._core = core
        self._platform = platform
        self._ring_other = ring
        self._pace = pace
        self._drafts: list[Draft] = []
        self._bell = asyncio.Event()
        self._due = True
        self._leaving = False
        self._unsaved: OutboxRow | None = None
        """The row that was attempted last, as it is to be stored: only this lane knows how that went."""
        self._taking = False
        """The next row is being taken; whether it is marked as attempted cannot be told yet."""
        self._pause: tuple[str, datetime] | None = None
        """The row that waits behind another of the same answer, and until when."""
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
                platform = self._platform()
                if platform is None:
                    return
                step = _Step()
                if self._due or self._unsaved is not None:
                    step = await self._advance(platform)
                if step.attempt is not None:
                    self._unsaved = await step.attempt.send()
                    for draft in self._drafts:
                        draft.settle(self._unsaved)
                elif self._due:
                    # Something was finished meanwhile: it comes before what others begin to say.
                    continue
                elif self._leaving or not await self._idle(platform, step.seconds):
                    return
        finally:
            for draft in self._drafts:
                draft.stop()
            if self._taking or self._unsaved is not None:
                reported = await self._core.store.write(self._leave)
                self._tell_end(reported)

    # --- finals ---

    async def _advance(self, platform: Platform) -> _Step:
        """Store how the last row ended and take the next one. That the last one was sent is known here alone,
        so it is kept until it is stored."""
        self._due, self._taking = False, True
        failures = 0
        while True:
            try:
                step = await self._core.store.write(self._next(platform))
            except Unreachable as error:
                if self._unsaved is None or self._leaving:
                    raise
                failures += 1
                log.warning("lane.not_stored to=%s key=%s why=%s", self._to, self._unsaved.key, error)
                await self._core.clock.sleep(pause_after(failures))
                continue
            self._tell_end(step.reported)
            self._unsaved, self._taking = None, False
            return step

    def _next(self, platform: Platform) -> Callable[[Tx], _Step]:
        """One unit: store how the last row ended, and mark the next one as being attempted."""
        now = self._core.clock.now()

        def attempt(tx: Tx) -> _Step:
            reported = self._settle(tx)
            return replace(self._take(tx, now, platform), reported=reported)

        return attempt

    def _settle(self, tx: Tx) -> Address | None:
        """Store how the last row ended; if it was given up, where the operator reads of it."""
        if self._unsaved is None:
            return None
        tx.outbox.save(self._unsaved)
        if self._unsaved.state is not OutState.DEAD:
            return None
        return report_undelivered(tx, self._unsaved, self._core.live.now, self._core.clock.now())

    def _take(self, tx: Tx, now: datetime, platform: Platform) -> _Step:
        row = tx.outbox.head(self._to)
        if row is None:
            return _Step()
        able, shut = platform.capabilities, self._is_shut(tx, platform, now)
        reopened = row.error == WAITS and not shut
        next_at = now if reopened else row.next_at or now
        wait = max((at - now).total_seconds() for at in (next_at, self._paused_until(row, now)))
        if able.send_interval:
            wait = max(wait, self._pace.wait(self._to, able, self._core.clock.monotonic()))
        if wait > 0:
            return _Step(seconds=wait)
        doubtful = row.state is not OutState.DUE
        # Set before the commit: whoever leaves cannot tell whether that came about.
        self._marked = None if doubtful else row.key
        siblings = tuple(tx.outbox.of_turn(row.turn)) if able.edits and row.turn is not None else ()
        replaced = None if row.body.replaces is None else tx.outbox.get(row.body.replaces)
        # An attempt that ends, and not in the middle of a file, takes its transfer back.
        transfers = row.transfers + bool(row.body.attachments)
        row = replace(
            row, state=OutState.ATTEMPTING, attempts=row.attempts + 1, transfers=transfers, next_at=None
        )
        tx.outbox.save(row)
        if able.send_interval:
            self._pace.count(self._to, able, self._core.clock.monotonic())
        sender = RowSender(
            core=self._core,
            platform=platform,
            row=row,
            doubtful=doubtful,
            siblings=siblings,
            replaced=replaced,
            shut=shut,
        )
        return _Step(attempt=sender)

    def _is_shut(self, tx: Tx, platform: Platform, now: datetime) -> bool:
        """Whether the person has not written for so long that only templates reach them."""
        window = platform.capabilities.reply_window
        seen = tx.directory.seen(self._to) if window else None
        return seen is not None and (now - seen).total_seconds() >= window

    def _paused_until(self, row: OutboxRow, now: datetime) -> datetime:
        """A message of the same answer may wait a little behind the one before, as people do."""
        last, bounds = self._unsaved, self._core.live.now.human_delay.bounds
        if bounds is not None and last is not None and last.turn is not None and last.turn == row.turn:
            self._pause = (row.key, now + timedelta(seconds=random.uniform(*bounds)))
        key, until = self._pause or ("", now)
        return until if key == row.key and not self._leaving else now

    def _leave(self, tx: Tx) -> Address | None:
        """One unit for a lane that leaves in the middle: how the last row ended. The next one may be marked
        already and is not sent: if this lane did that, and nobody had before, it is as it was."""
        reported = self._settle(tx)
        row = tx.outbox.head(self._to)
        untouched = row is not None and row.state is OutState.ATTEMPTING and row.attempts == 1
        if row is not None and untouched and row.key == self._marked:
            tx.outbox.save(replace(row, state=OutState.DUE, attempts=0, transfers=0))
        return reported

    def _tell_end(self, reported: Address | None) -> None:
        row = self._unsaved
        if row is not None and row.state in (OutState.SENT, OutState.DEAD):
            self._core.events.emit(DeliveryEnded(key=row.key, to=row.to, turn=row.turn, state=row.state))
        if reported is not None:
            self._ring_other(reported)

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
            await wait_for_ring(self._bell, self._core.clock, wait, "lane")
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
