"""Counting what models took. The sums of days follow the records by a cursor, once an hour and whenever
somebody wants to see them."""

from __future__ import annotations

from hermes.control.chores import HOURLY, Chore
from hermes.domain.ports.store import Store


async def count_usage(store: Store) -> int:
    """Bring the sums of days up to date, batch by batch, so that no write has to wait for long."""
    counted = 0
    while batch := await store.write(lambda tx: tx.usage.count()):
        counted += batch
    return counted


def counting(store: Store) -> Chore:
    async def count() -> str:
        await store.write(lambda tx: tx.budgets.tidy())
        return f"{await count_usage(store)} records counted"

    return Chore(name="usage", every=HOURLY, run=count, first=60.0)
