"""Counting what models took, and telling it. The sums of days follow the records by a cursor, once an hour
and whenever somebody wants to see them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime, timedelta

from msgspec import Struct

from hermes.control.chores import HOURLY, Chore
from hermes.domain.models.usage import CostStatus, UsageGroup, UsageSum, merged, total_of
from hermes.domain.ports.store import Store, Tx

LONGEST_REPORT = 3660
BY = ("model", "agent", "person", "job", "role")


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


# --- reports -----------------------------------------------------------------------------------------


class UsageLine(Struct, frozen=True, kw_only=True):
    """A sum as programs read it: what it is of, tokens, and dollars. `cost` is without the calls whose price
    is not known."""

    name: str
    calls: int
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    cache_hit_ratio: float | None
    cost: float
    cost_status: CostStatus
    unpriced_calls: int


class UsageReport(Struct, frozen=True, kw_only=True):
    """What models took from one day to another (of UTC): by what was asked for, the largest first, and day by
    day."""

    first: str
    last: str
    by: str
    groups: list[UsageLine]
    days: list[UsageLine]
    total: UsageLine


class UsageQuery(Struct, frozen=True, kw_only=True):
    """The sums of so many days up to now, of everybody or of one person."""

    by: str
    days: int
    now: datetime
    person: str = ""

    @property
    def first(self) -> date:
        return self.now.date() - timedelta(days=self.days - 1)

    def read(self, tx: Tx) -> list[UsageGroup]:
        return tx.usage.sums(("day", self.by), self.first, self.now.date(), self.person)

    def report(self, sums: Iterable[UsageGroup]) -> UsageReport:
        groups = list(sums)
        by_name, by_day = merged(groups, 1), merged(groups, 0)
        largest = sorted(by_name.items(), key=lambda item: (-item[1].cost, -item[1].total, item[0]))
        every = (str(self.first + timedelta(days=past)) for past in range(self.days))
        return UsageReport(
            first=str(self.first),
            last=str(self.now.date()),
            by=self.by,
            groups=[usage_line(name, used) for name, used in largest],
            days=[usage_line(day, by_day.get(day, UsageSum())) for day in every],
            total=usage_line("", total_of(groups)),
        )


def usage_line(name: str, used: UsageSum) -> UsageLine:
    return UsageLine(
        name=name,
        calls=used.calls,
        prompt_tokens=used.prompt,
        completion_tokens=used.completion,
        cached_tokens=used.cached,
        cache_write_tokens=used.cache_written,
        reasoning_tokens=used.reasoning,
        cache_hit_ratio=None if used.hit_ratio is None else round(used.hit_ratio, 4),
        cost=round(used.cost, 6),
        cost_status=used.status,
        unpriced_calls=used.unpriced,
    )
