"""`hermes grants`: permanent approvals, listed and revoked."""

from __future__ import annotations

import argparse

from hermes.admin.shell.command import JSON, CliCommand, Subcommands
from hermes.admin.shell.home import open_home
from hermes.admin.shell.output import Column, ago
from hermes.domain.errors import UserError
from hermes.domain.text import one_line
from hermes.entry.desk import list_grants, revoke_grant


def arguments(parser: argparse.ArgumentParser) -> None:
    add = Subcommands(parser).add
    add("list", "List the permanent approvals of all agents and people.", _list, JSON)
    grant = {"grant": "its id, as `hermes grants list` shows it"}
    add("revoke", "Revoke a permanent approval: the agent asks again from then on.", _revoke, grant)


def _list(command: CliCommand) -> None:
    columns = [
        Column("id", "GRANT"),
        Column("at", "GIVEN", ago),
        Column("agent", "AGENT"),
        Column("person", "PERSON"),
        Column("action", "ACTION", lambda text: one_line(text, 200), lambda grant: grant.text),
        Column("digest"),
        Column("by"),
    ]
    command.list(
        open_home(command).ask(list_grants), columns, none="There are no permanent approvals.", whole=4
    )


def _revoke(command: CliCommand) -> None:
    grant = command.asked.grant
    if not open_home(command).ask(revoke_grant, grant=grant):
        raise UserError(
            f"There is no grant “{one_line(grant, 60)}”.", hint="`hermes grants list` shows them."
        )
    command.console.line(f"{grant} is revoked.")
