"""`hermes insights`: what models took, as a table and as a plot by day."""

from __future__ import annotations

import argparse

import msgspec

from hermes.admin.shell.command import JSON, CliCommand, declare, number_to
from hermes.admin.shell.home import open_home
from hermes.admin.shell.output import CliConsole, Column
from hermes.control.usage import BY, LONGEST_REPORT, UsageLine, UsageReport
from hermes.domain.models.usage import CostStatus
from hermes.domain.word import replace
from hermes.entry.desk import usage_report

_EIGHTHS = " ▏▎▍▌▋▊▉"
_WIDEST = 60
_NARROW = 20


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(act=_insights)
    parser.description = "Show what models took: calls, tokens, cache and cost."
    declare(parser, JSON | {"--agent NAME": "only this agent", "--person ID": "only this person"})
    declare(
        parser, {"--days N": "how many days, today included (30)"}, type=number_to(LONGEST_REPORT), default=30
    )
    declare(parser, {"--by WHAT": f"one of {', '.join(BY)} (model)"}, choices=BY, default="model")


def _insights(command: CliCommand) -> None:
    asked = command.asked
    report = open_home(command).ask(
        usage_report, days=asked.days, by=asked.by, agent=asked.agent, person=asked.person or ""
    )
    columns = [
        Column("name", report.by.upper(), lambda name: name or "-"),
        Column("calls", "CALLS", _count),
        Column("prompt_tokens", "READ", _count),
        Column("cache_hit_ratio", "CACHED", lambda ratio: "-" if ratio is None else f"{ratio:.0%}"),
        Column("completion_tokens", "WRITTEN", _count),
        Column("", "COST", None, _cost),
    ]
    if asked.json:
        command.console.json(msgspec.to_builtins(report))
        return
    if not report.total.calls:
        command.console.line(f"No model was asked from {report.first} to {report.last}. Ask one: hermes")
        return
    command.print_table([*report.groups, replace(report.total, name="all")], columns)
    command.console.line()
    _plot(command.console, report)


def _count(number: int) -> str:
    return f"{number:,}"


def _cost(line: UsageLine) -> str:
    match line.cost_status:
        case CostStatus.INCLUDED:
            return "included"
        case CostStatus.UNKNOWN:
            return "unknown"
        case CostStatus.ESTIMATED:
            return f"${line.cost:,.4f}{' and more' if line.unpriced_calls else ''}"


def _plot(console: CliConsole, report: UsageReport) -> None:
    """A bar for each day: dollars if there are any, else tokens."""
    priced = report.total.cost > 0
    amounts = [
        line.cost if priced else float(line.prompt_tokens + line.completion_tokens) for line in report.days
    ]
    most = max(amounts)
    room = min(_WIDEST, max(_NARROW, (console.width or 80) - 30))
    console.strong("Dollars by day" if priced else "Tokens by day")
    for line, amount in zip(report.days, amounts, strict=True):
        eighths = round(amount / most * room * 8) if most else 0
        # The smallest amount is seen, too.
        eighths = max(eighths, 1) if amount else 0
        bar = "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
        shown = f"{amount:,.4f}" if priced else f"{amount:,.0f}"
        console.bar(f"{line.name}  ", bar, f" {shown}" if amount else "")
