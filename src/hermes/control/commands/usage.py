"""`/usage` and `/insights`: what this session, this person or an agent took of models."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from hermes.control.commands.registry import CommandCall, CommandReply, CommandRequest, command
from hermes.control.usage import LONGEST_REPORT, UsageLine, UsageQuery, UsageReport, count_usage, usage_line
from hermes.domain.clock import zone_named
from hermes.domain.errors import Refused, UserError
from hermes.domain.models.spending import BudgetAccount, accounts_of, spender_of
from hermes.domain.models.usage import CacheMiss, CostStatus, UsageGroup, UsageSum, total_of
from hermes.domain.turns.event import ModelSaid

_LATEST = 12
_MISSES = {
    CacheMiss.BELOW_FLOOR: "it is still shorter than what this model caches",
    CacheMiss.FIRST_CALL: "it was the first one",
    CacheMiss.EXPIRED: "the one before was too long ago",
    CacheMiss.MODEL_CHANGED: "another model was asked than before",
    CacheMiss.TOOLS_CHANGED: "the tools changed",
    CacheMiss.PREFIX_CHANGED: "something said before is told differently now, as after a summary or an undo",
    CacheMiss.UNEXPLAINED: "nothing changed, so the service did not keep it",
}


class _Spent(Struct, frozen=True, kw_only=True):
    session: Sequence[UsageGroup]
    today: Sequence[UsageGroup]
    budgets: Sequence[str]
    latest: Sequence[str]


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
        latest=_latest(call),
    )


def _latest(call: CommandCall) -> list[str]:
    """What is to be known of the last reply: who gave it in the place of the agent's model, and why its
    prompt was not cached."""
    entries = call.tx.journal.read(call.session.id, most=_LATEST, newest=True)
    replies = [entry.record for entry in reversed(entries) if isinstance(entry.record, ModelSaid)]
    last = next((reply for reply in replies if reply.model), None)
    if last is None:
        return []
    other = last.other_provider
    lines = [f"The last answer came from {last.model} by {other}."] if other else []
    if last.cache_miss is not None:
        lines.append(f"Its prompt was not found in the cache: {_MISSES[last.cache_miss]}.")
    return lines


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
    lines += [*spent.latest, *spent.budgets]
    return CommandReply(text="\n".join(lines))


async def _look(request: CommandRequest) -> UsageReport:
    days = request.number(LONGEST_REPORT, default="30")
    if days is None:
        raise UserError("Write how many days to look at.", hint=f"/insights 7, at most {LONGEST_REPORT}.")
    person = "" if request.is_admin else spender_of(request.session.agent, request.source).person
    await count_usage(request.runtime.store)
    query = UsageQuery(by="model", days=days, now=request.now, person=person)
    return query.report(await request.read(lambda call: query.read(call.tx)))


@command(
    "insights", "what you used in the last days; all of this agent for admins", usage="[days]", prepare=_look
)
def insights(call: CommandCall) -> CommandReply:
    report: UsageReport = call.prepared
    whose = "Everybody with this agent" if call.is_admin else "You"
    lines = [f"{whose}, {report.first} to {report.last}: {line_words(report.total)}."]
    lines += [f"- {line.name or 'a model'}: {line_words(line)}" for line in report.groups]
    return CommandReply(text="\n".join(lines))


def _who(group: UsageGroup) -> str:
    model, role = group.key
    return model if role == "main" else f"{model or 'a model'} for {role}"


def usage_words(used: UsageSum) -> str:
    return line_words(usage_line("", used))


def line_words(line: UsageLine) -> str:
    """A sum in words: calls, tokens, how much of them a cache saved, dollars."""
    calls = f"{line.calls:,} model call{'' if line.calls == 1 else 's'}"
    if not line.calls:
        return calls
    saved = f" ({line.cache_hit_ratio:.0%} cached)" if line.cache_hit_ratio else ""
    read = f"{line.prompt_tokens:,} tokens read{saved}"
    return f"{calls}, {read}, {line.completion_tokens:,} written, {_cost(line)}"


def _cost(line: UsageLine) -> str:
    match line.cost_status:
        case CostStatus.INCLUDED:
            return "no cost"
        case CostStatus.UNKNOWN:
            return "cost unknown"
        case CostStatus.ESTIMATED:
            count = line.unpriced_calls
            more = f" without {count} call{'' if count == 1 else 's'} of unknown price" if count else ""
            return f"about ${line.cost:.4f}{more}"
