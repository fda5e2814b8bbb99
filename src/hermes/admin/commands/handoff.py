"""`hermes handoff`: conversations on their way from the terminal to a chat."""

from __future__ import annotations

import argparse
from functools import partial

from hermes.admin.shell.command import CliCommand, Subcommands
from hermes.admin.shell.home import open_home
from hermes.admin.shell.output import ago, facts
from hermes.entry.desk import change_handoff, list_handoffs

_LISTED = 50


def arguments(parser: argparse.ArgumentParser) -> None:
    add = Subcommands(parser).add
    told = "List the hand-offs, the latest first. `/handoff <platform>` in a chat begins one."
    add("list", told, _list, json=True)
    retried = add("retry", "Try a hand-off again that has failed.", partial(_change, cancel=False))
    cancelled = add("cancel", "Let a hand-off be that is not done yet.", partial(_change, cancel=True))
    for changed in (retried, cancelled):
        changed.add_argument("handoff", help="its id, as the list tells it")


def _list(command: CliCommand) -> None:
    found = open_home(command).ask(list_handoffs, limit=_LISTED)
    names = ("id", "agent", "session", "account", "state", "attempts", "to", "error", "created_at")
    rows = [
        [one.id, ago(one.created_at), one.session, one.account, one.state.value, str(one.to or one.error)]
        for one in found
    ]
    header = ["HANDOFF", "MADE", "SESSION", "TO", "STATE", "WHERE, OR WHY NOT"]
    command.show(
        [facts(one, *names) for one in found], header, rows, none="Nothing was handed over.", whole=3
    )


def _change(command: CliCommand, *, cancel: bool) -> None:
    place = open_home(command)
    changed = place.ask(change_handoff, handoff=command.asked.handoff, cancel=cancel)
    done = "is cancelled" if cancel else "is tried again"
    command.console.line(f"{changed.id} {done}{'' if place.running else ' at the next start'}.")
