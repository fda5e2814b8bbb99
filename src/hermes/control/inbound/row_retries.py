"""Rows of the inbox that break when they are taken. Each keeps its place and is tried again after a pause.
What the store could not do is tried until it can; a row that breaks three times otherwise is ended with a
reason, and whoever wrote it is told."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from hermes.control.outbound.notices import notify
from hermes.control.workers import MOST_FAILURES, Supervisor, pause_after
from hermes.domain.address import Address, SourceKind
from hermes.domain.errors import Lost, Unreachable
from hermes.domain.message import InboundKind
from hermes.domain.ports.store import Store, Tx
from hermes.domain.rows import InboxRow, UnreadableRow, UnreadableTurn

LOOP = "intake"
GIVEN_UP = "failed: it broke each time it was taken"
NOT_TAKEN = "⚠️ Something went wrong inside Hermes, so this message was not taken. The log has the details."


@dataclass(slots=True, kw_only=True)
class RowRetries:
    """The tries of the row that is first in its chat."""

    store: Store
    loops: Supervisor
    ring_lane: Callable[[Address], None]
    end_turn: Callable[[UnreadableTurn], Awaitable[None]]
    failures: int = 0
    faults: int = 0

    async def take(self, rows: Sequence[InboxRow], take: Callable[[], Awaitable[None]]) -> bool:
        """Try to take a row, with those that are taken together with it; whether they are done with."""
        given_up = self.faults >= MOST_FAILURES
        error = await self.loops.attempt(
            LOOP, (lambda: self._give_up(rows)) if given_up else take, f"inbox row {rows[0].n}"
        )
        if error is None:
            self.failures = self.faults = 0
            return True
        if isinstance(error, UnreadableTurn):
            # The row is in order; a turn of its session is not.
            await self.loops.attempt(LOOP, partial(self.end_turn, error), f"turn of {error.session}")
        self.failures += 1
        self.faults += not isinstance(error, Unreachable)
        await self.loops.clock.sleep(pause_after(self.failures))
        return False

    async def _give_up(self, rows: Sequence[InboxRow]) -> None:
        inbound, now = rows[0].inbound, self.loops.clock.now()
        place = inbound.source.address
        # In a shared chat only if it was said to us.
        for_us = inbound.source.kind is SourceKind.PRIVATE or inbound.mentions_me
        tells = inbound.what is InboundKind.BUTTON or (inbound.what is InboundKind.MESSAGE and for_us)

        def give_up(tx: Tx) -> None:
            for row in rows:
                tx.inbox.finish(row.n, GIVEN_UP)
            if tells:
                notify(tx, f"reply:{rows[0].n}:0", place, NOT_TAKEN, now, inbound.ref)

        with contextlib.suppress(Lost):  # it was ended after all
            await self.store.write(give_up)
        self.ring_lane(place)


async def end_unreadable(store: Store, loops: Supervisor, error: UnreadableRow) -> None:
    """Nobody knows whose it is; those behind it are not to wait."""
    loops.note(LOOP, error, f"inbox row {error.n}")
    await store.write(lambda tx: tx.inbox.finish(error.n, f"failed: {error}"))
