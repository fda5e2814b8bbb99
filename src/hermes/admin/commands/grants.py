"""`hermes grants`: what people allowed for good, listed and taken back."""

from __future__ import annotations

import argparse

from hermes.admin.shell.command import CliCommand, Subcommands
from hermes.admin.shell.home import open_home
from hermes.admin.shell.output import ago, facts
from hermes.domain.errors import UserError
from hermes.domain.text import one_line
from hermes.entry.desk import list_grants, revoke_grant


def arguments(parser: argparse.ArgumentParser) -> None:
    add = Subcommands(parser).add
    add("list", "List what was allowed for good, of all agents and people.", _list, json=True)
    revoked = add("revoke", "Take a grant back: from then on it is asked first.", _revoke)
    revoked.add_argument("grant", help="its id, as the list tells it")


def _list(command: CliCommand) -> None:
    found = open_home(command).ask(list_grants)
    names = ("id", "agent", "person", "digest", "by", "at")
    told = [{**facts(one, *names), "action": one.text} for one in found]
    rows = [[one.id, ago(one.at), one.agent, one.person, one_line(one.text, 200)] for one in found]
    header = ["GRANT", "GIVEN", "AGENT", "PERSON", "ACTION"]
    command.show(told, header, rows, none="Nothing was allowed for good.", whole=4)


def _revoke(command: CliCommand) -> None:
    grant = command.asked.grant
    if not open_home(command).ask(revoke_grant, grant=grant):
        raise UserError(
            f"There is no grant “{one_line(grant, 60)}”.", hint="`hermes grants list` shows what there is."
        )
    command.console.line(f"{grant} is revoked.")
