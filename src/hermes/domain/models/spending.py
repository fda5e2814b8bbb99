"""For whom a turn spends (its agent, a person, a job), and the budgets that count for them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta, tzinfo
from fnmatch import fnmatchcase

from msgspec import Struct

from hermes.domain.chats.address import Source, SourceKind
from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId
from hermes.domain.settings.budgets import Budget
from hermes.domain.text import one_line
from hermes.domain.turns.session import owner_of
from hermes.domain.turns.turn import Turn
from hermes.domain.word import replace


class Spender(Struct, frozen=True, kw_only=True):
    """`person` and `job` are empty where there is none."""

    agent: AgentId
    person: str = ""
    job: str = ""


def spender_of(agent: AgentId, source: Source | None, origin: Source | None = None) -> Spender:
    """A job spends for whoever had it made (`origin`). An API key is one person, whomever it names: else who
    makes up names could spend without end."""
    if source is None:
        return Spender(agent=agent)
    job = source.address.chat if source.kind is SourceKind.JOB else ""
    if job:
        return replace(spender_of(agent, origin), job=job)
    if source.kind in (SourceKind.API, SourceKind.WEBHOOK):
        return Spender(agent=agent, person=source.address.credential)
    return Spender(agent=agent, person=owner_of(source) or source.address.credential)


def turn_spender(turn: Turn) -> Spender:
    return spender_of(turn.agent, turn.source, turn.input.guidance.origin)


_JOB_BUDGET = re.compile(r"\$?\s*(\d+(?:\.\d+)?)(?:\s*(k|m)?\s*tokens?)?")
JOB_BUDGET = "job "
"""How the names of budgets begin that jobs have themselves."""
AGENT_BUDGET = "agents."
"""How those begin that agents have themselves."""


def job_budget(job: str, text: str) -> dict[str, Budget]:
    """What a job may spend in a day, as it was said (“0.50”, “20k tokens”), by its name; a `UserError` if
    that is no budget."""
    words = text.strip().lower()
    if not words or words == "none":
        return {}
    match = _JOB_BUDGET.fullmatch(words)
    if match is None:
        raise UserError(
            f"“{one_line(text, 40)}” is no budget.",
            hint="Write dollars or tokens for a day: 0.50, 20k tokens.",
        )
    number = float(match[1])
    if "token" not in words:
        return {f"{JOB_BUDGET}{job}": Budget(job=job, dollars=number)}
    tokens = int(number * {"k": 1000, "m": 1_000_000}.get(match[2] or "", 1))
    return {f"{JOB_BUDGET}{job}": Budget(job=job, tokens=tokens)}


# --- budgets -----------------------------------------------------------------------------------------


class Spent(Struct, frozen=True, kw_only=True):
    """What counts against a budget."""

    calls: float = 0
    tokens: float = 0
    dollars: float = 0.0


NOTHING_SPENT = Spent()
_UNITS = {
    "calls": "{spent:,.0f} of {limit:,} model calls",
    "tokens": "{spent:,.0f} of {limit:,} tokens",
    "dollars": "${spent:,.2f} of ${limit:,.2f}",
}


class BudgetStanding(Struct, frozen=True, kw_only=True):
    """What ended and running turns spent of a budget in a period, over how many that have ended, and what
    turns hold that run."""

    turns: int
    spent: Spent
    held: Spent


class BudgetAccount(Struct, frozen=True, kw_only=True):
    """A budget as it counts for one spender in one period. `renews` is when the next one begins."""

    name: str
    key: str
    period: str
    budget: Budget
    renews: datetime | None = None

    def share(self, standing: BudgetStanding) -> Spent:
        """What a turn holds before anything is known of it: a call, and what turns took so far on average, or
        a hundredth of the budget while none has ended."""

        def average(spent: float, limit: float | None) -> float:
            return spent / standing.turns if standing.turns else (limit or 0) / 100

        budget, spent = self.budget, standing.spent
        return Spent(
            calls=1,
            tokens=average(spent.tokens, budget.tokens),
            dollars=average(spent.dollars, budget.dollars),
        )

    def used_up(self, spent: Spent, held: Spent = NOTHING_SPENT) -> str:
        """Which limits are reached, in words; empty if none."""
        reached = [
            name
            for name in _UNITS
            if (limit := getattr(self.budget, name)) is not None
            and getattr(spent, name) + getattr(held, name) >= limit
        ]
        return ", ".join(self.words(spent, reached))

    def words(self, spent: Spent, names: Iterable[str] = tuple(_UNITS)) -> list[str]:
        """What was spent of each limit."""
        limits = {name: getattr(self.budget, name) for name in names}
        return [
            _UNITS[name].format(spent=getattr(spent, name), limit=limit)
            for name, limit in limits.items()
            if limit is not None
        ]


def accounts_of(
    spender: Spender, budgets: Mapping[str, Budget], now: datetime, zone: tzinfo
) -> list[BudgetAccount]:
    """The budgets that count for a spender."""
    accounts: list[BudgetAccount] = []
    for name, budget in budgets.items():
        wanted = {part: getattr(budget, part) for part in ("agent", "person", "job")}
        named = {part: getattr(spender, part) for part, pattern in wanted.items() if pattern}
        if all(value and fnmatchcase(value, wanted[part]) for part, value in named.items()):
            key = "\n".join((name, *named.values()))
            period, renews = _period(budget.per, now.astimezone(zone))
            accounts.append(BudgetAccount(name=name, key=key, period=period, budget=budget, renews=renews))
    return accounts


def _period(per: str, here: datetime) -> tuple[str, datetime | None]:
    today = here.replace(hour=0, minute=0, second=0, microsecond=0)
    if per == "day":
        return f"{today:%Y-%m-%d}", today + timedelta(days=1)
    if per == "month":
        first = today.replace(day=1)
        return f"{first:%Y-%m}", (first + timedelta(days=32)).replace(day=1)
    return per, None


def renamed_key(key: str, old: AgentId, new: AgentId) -> str:
    """The key of an account after an agent got another id."""
    name, *named = key.split("\n")
    if name == f"{AGENT_BUDGET}{old}":
        name = f"{AGENT_BUDGET}{new}"
    return "\n".join((name, *(new if place == 0 and one == old else one for place, one in enumerate(named))))
