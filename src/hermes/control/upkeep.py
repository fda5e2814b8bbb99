"""Upkeep of the store: what is settled is forgotten by its age."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial

from hermes.domain.clock import Clock
from hermes.domain.ports import Store, Tx

_EVERY_SECONDS = 3600.0


async def forget_old_rows(store: Store, clock: Clock, age: timedelta) -> None:
    """For ever: in bites, so that no bite holds up the writer for long."""
    while True:
        now = clock.now()
        pruned = await store.write(partial(_prune, now - age, now))
        await clock.sleep(0 if pruned else _EVERY_SECONDS)


def _prune(before: datetime, now: datetime, tx: Tx) -> int:
    return tx.recovery.prune(before, now)
