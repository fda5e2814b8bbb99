"""`/usage`: what this session and this person spent."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from hermes.control.commands.registry import CommandCall, CommandReply, CommandRequest, command
from hermes.control.usage import count_usage
from hermes.domain.clock import zone_named
from hermes.domain.errors import Refused
from hermes.domain.spending import BudgetAccount, accounts_of, spender_of
from hermes.domain.usage import CostStatus, UsageGroup, UsageSum, total_of


class _Spent(Struct, frozen=True, kw_only=True):
    session: Sequence[UsageGroup]
    today: Sequence[UsageGroup]
    budgets: Sequence[str]


async def _count(request: CommandRequest) -> _Spent:
    await count_usage(request.runtime.store)
    return await request.read(_spent)


def _spent(call: CommandCall) -> _Spent:
    spender, today = spender_of(call.session.agent, call.source), call.now.date()
    accounts = accounts_of(spender, call.settings.budgets, call.now, zone_named(call.settings.timezone))
    return _Spent(
        session=call.tx.usage.of_session(call.session.id),
        today=call.tx.usage.sums(("model",), today, today, spender.person),
        budgets=[_left(call, account) for account in accounts],
    )


def _left(call: CommandCall, account: BudgetAccount) -> str:
    try:
        spent = call.tx.budgets.standing(account.key, account.period).spent
    except Refused:
        return f"Budget “{account.name}”: what was spent cannot be read, so it lets nothing through."
    renews = f", anew at {account.renews:%Y-%m-%d %H:%M %Z}" if account.renews else ""
    return f"Budget “{account.name}”: {', '.join(account.words(spent))} spent{renews}."


@command("usage", "what this session and you used: tokens, cache, cost", prepare=_count)
def usage(call: CommandCall) -> CommandReply:
    spent: _Spent = call.prepared
    session, today = total_of(spent.session), total_of(spent.today)
    if not (session.calls or today.calls or spent.budgets):
        return CommandReply(text="The model was not asked yet.")
    lines = [f"This session: {usage_words(session)}."]
    if len(spent.session) > 1:
        lines += [f"- {_who(group)}: {usage_words(group.used)}" for group in spent.session]
    lines.append(f"You, today: {usage_words(today)}.")
    lines += spent.budgets
    return CommandReply(text="\n".join(lines))


def _who(group: UsageGroup) -> str:
    model, role = group.key
    return model if role == "main" else f"{model or 'a model'} for {role}"


def usage_words(used: UsageSum) -> str:
    """A sum in words: calls, tokens, how much of them a cache saved, dollars."""
    calls = f"{used.calls:,} model call{'' if used.calls == 1 else 's'}"
    if not used.calls:
        return calls
    saved = f" ({used.cached / used.prompt:.0%} cached)" if used.cached else ""
    return f"{calls}, {used.prompt:,} tokens read{saved}, {used.completion:,} written, {cost_words(used)}"


def cost_words(used: UsageSum) -> str:
    match used.status:
        case CostStatus.INCLUDED:
            return "no cost"
        case CostStatus.UNKNOWN:
            return "cost unknown"
        case CostStatus.ESTIMATED:
            more = f" without {used.unpriced} calls of unknown price" if used.unpriced else ""
            return f"about ${used.cost:.4f}{more}"
