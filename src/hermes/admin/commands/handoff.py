"""`hermes handoff`: conversations on their way from the terminal to a chat."""

from __future__ import annotations

import argparse
from functools import partial

from hermes.admin.shell.command import JSON, CliCommand, Subcommands
from hermes.admin.shell.home import open_home
from hermes.admin.shell.output import Column, ago
from hermes.entry.desk import change_handoff, list_handoffs

_LISTED = 50


def arguments(parser: argparse.ArgumentParser) -> None:
    add = Subcommands(parser).add
    summary = "List the hand-offs, latest first. `/handoff <platform>` in a chat starts one."
    add("list", summary, _list, JSON)
    handoff = {"handoff": "its id, as `hermes handoff list` shows it"}
    add("retry", "Retry a hand-off that failed.", partial(_change, cancel=False), handoff)
    add("cancel", "Cancel a hand-off that is not done yet.", partial(_change, cancel=True), handoff)


def _list(command: CliCommand) -> None:
    columns = [
        Column("id", "HANDOFF"),
        Column("created_at", "MADE", ago),
        Column("session", "SESSION"),
        Column("account", "TO"),
        Column("state", "STATE"),
        Column("", "WHERE, OR WHY NOT", value=lambda handoff: handoff.to or handoff.error),
        Column("agent"),
        Column("attempts"),
        Column("to"),
        Column("error"),
    ]
    handoffs = open_home(command).ask(list_handoffs, limit=_LISTED)
    command.list(handoffs, columns, none="There are no hand-offs.", whole=3)


def _change(command: CliCommand, *, cancel: bool) -> None:
    place = open_home(command)
    changed = place.ask(change_handoff, handoff=command.asked.handoff, cancel=cancel)
    done = "is cancelled" if cancel else "will be retried"
    command.console.line(f"{changed.id} {done}{'' if place.running else ' at the next start'}.")
