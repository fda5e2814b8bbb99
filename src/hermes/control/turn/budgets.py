"""Budgets of turns. The commit that claims a turn holds a share of each budget that counts for it, or refuses
it; every commit of its records spends, and the one that ends it lets go of the share. So a crash anywhere
neither loses a share nor counts a reply twice. Without budgets nothing is read or written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, tzinfo

from msgspec import Struct

from hermes.control.core import GatewayCore, Runtime
from hermes.domain.clock import zone_named
from hermes.domain.errors import Refused, UserError
from hermes.domain.ids import JobId
from hermes.domain.models.model_facts import ModelFacts
from hermes.domain.models.spending import (
    AGENT_BUDGET,
    JOB_BUDGET,
    NOTHING_SPENT,
    BudgetAccount,
    Spender,
    Spent,
    accounts_of,
    job_budget,
    turn_spender,
)
from hermes.domain.models.usage import Usage
from hermes.domain.ports.store import Tx
from hermes.domain.settings.budgets import Budget
from hermes.domain.turns.event import Entry, Failed, ModelSaid, calls_in
from hermes.domain.turns.session import Session
from hermes.domain.turns.turn import Turn

_RAISE = "Whoever runs this gateway can raise it ({setting} in config.yaml)."
_RAISE_JOB = "`hermes cron edit {job} --budget …` raises it."
_NO_PRICE = (
    "The budget “{name}” is in dollars, but the price of the model {model} is not known, so nothing may be"
    " spent. Whoever runs this gateway can set models.{model}.price_in and price_out, or a budget in tokens."
)
_UNREADABLE = "What was spent of the budget “{name}” cannot be read, so nothing more may be. See the log."


class BudgetSpent(UserError):
    """Somebody may not spend more; `renews` is from when on they may, if ever."""

    def __init__(self, failed: Failed, renews: datetime | None) -> None:
        super().__init__(failed.reason)
        self.renews = renews


class BudgetGate(Struct, frozen=True, kw_only=True):
    """The budgets as they are now. `facts` tells what is known of a model."""

    budgets: Mapping[str, Budget]
    now: datetime
    zone: tzinfo
    facts: Callable[[str], ModelFacts]

    def accounts(self, spender: Spender) -> list[BudgetAccount]:
        return accounts_of(spender, self.budgets, self.now, self.zone)

    def _accounts_of(self, tx: Tx, turn: Turn) -> list[BudgetAccount]:
        """Those of who spends in a turn, and that of the job itself which it is a run of."""
        spender, parent = turn_spender(turn), turn.input.guidance.parent
        theirs = tx if parent is None else tx.scoped(parent.agent)
        job = theirs.jobs.get(JobId(spender.job)) if spender.job else None
        own = {} if job is None else job_budget(job.id, job.budget)
        return accounts_of(spender, {**self.budgets, **own}, self.now, self.zone)

    def take(self, tx: Tx, turn: Turn, session: Session) -> tuple[Failed, datetime | None] | None:
        """Hold a share of each budget for a turn; if one is spent, why nothing is held and until when."""
        model = turn.input.guidance.model or session.model or ""
        shares: list[tuple[BudgetAccount, Spent]] = []
        for account in self._accounts_of(tx, turn):
            failed, share = self._look(tx, account, turn, model)
            if failed is not None:
                return failed, account.renews
            shares.append((account, share))
        for account, share in shares:
            tx.budgets.hold(turn.id, account.key, account.period, share)
        return None

    def _look(self, tx: Tx, account: BudgetAccount, turn: Turn, model: str) -> tuple[Failed | None, Spent]:
        if account.budget.dollars is not None and self.facts(model).price_in is None:
            words = _NO_PRICE.format(name=account.name, model=model or "of this agent")
            return Failed(reason=words, budget=account.name), NOTHING_SPENT
        try:
            standing = tx.budgets.standing(account.key, account.period, turn.id)
        except Refused:
            return Failed(reason=_UNREADABLE.format(name=account.name), budget=account.name), NOTHING_SPENT
        # One that was begun holds its share already: what others hold was looked at then.
        used_up = account.used_up(standing.spent, NOTHING_SPENT if turn.attempt else standing.held)
        return (spent_words(account, used_up) if used_up else None), account.share(standing)

    def may_go_on(self, tx: Tx, turn: Turn, new: Iterable[Entry]) -> Failed | None:
        """Why a turn may not ask the model again after these records."""
        for account in self._accounts_of(tx, turn):
            if account.budget.dollars is not None:
                unpriced = [usage for usage in calls_in(entry.record for entry in new) if usage.cost is None]
                if unpriced:
                    words = _NO_PRICE.format(name=account.name, model=_model_of(new))
                    return Failed(reason=words, budget=account.name)
            try:
                used_up = account.used_up(tx.budgets.standing(account.key, account.period).spent)
            except Refused:
                return Failed(reason=_UNREADABLE.format(name=account.name), budget=account.name)
            if used_up:
                return spent_words(account, used_up)
        return None

    def spend_beside(self, tx: Tx, spender: Spender, used: Usage) -> None:
        """Count a call that no turn held a share for."""
        for account in self.accounts(spender):
            tx.budgets.spend_beside(account.key, account.period, _spent([used]))

    def is_spent(self, tx: Tx, spender: Spender) -> bool:
        """Whether nothing more may be spent on calls beside turns."""
        try:
            for account in self.accounts(spender):
                standing = tx.budgets.standing(account.key, account.period)
                if account.used_up(standing.spent, standing.held):
                    return True
        except Refused:
            return True
        return False


def gate_of(core: GatewayCore, runtime: Runtime) -> BudgetGate:
    settings = core.live.of(runtime.profile.agent)
    zone = zone_named(settings.timezone)
    return BudgetGate(budgets=settings.budgets, now=core.clock.now(), zone=zone, facts=runtime.facts)


def spend(tx: Tx, turn: Turn, new: Iterable[Entry], *, ends: bool) -> None:
    """Count what new records of a turn took; called in the commit that writes them."""
    calls = calls_in(entry.record for entry in new)
    if calls:
        tx.budgets.spend(turn.id, _spent(calls))
    if ends:
        tx.budgets.release(turn.id)


def _setting(name: str) -> str:
    """Where a budget stands: an agent's own is with the agent."""
    return f"{name}.budget" if name.startswith(AGENT_BUDGET) else f"budgets.{name}"


def spent_words(account: BudgetAccount, used_up: str) -> Failed:
    when = {"day": " today", "month": " this month"}.get(account.budget.per, "")
    renews = f" It begins anew at {account.renews:%Y-%m-%d %H:%M %Z}." if account.renews else ""
    reason = f"The budget “{account.name}” is spent: {used_up}{when}.{renews}"
    own = account.name.startswith(JOB_BUDGET)
    remedy = (
        _RAISE_JOB.format(job=account.budget.job) if own else _RAISE.format(setting=_setting(account.name))
    )
    return Failed(reason=f"{reason} {remedy}", budget=account.name)


def _spent(calls: Iterable[Usage]) -> Spent:
    every = list(calls)
    return Spent(
        calls=len(every),
        tokens=sum(usage.total for usage in every),
        dollars=sum(usage.cost or 0.0 for usage in every),
    )


def _model_of(new: Iterable[Entry]) -> str:
    named = [entry.record.model for entry in new if isinstance(entry.record, ModelSaid)]
    return next(filter(None, named), "that answered")
