"""`hermes access explain`: whether a message from somewhere would be answered, and what each rule says."""

from __future__ import annotations

import argparse

from hermes.admin.shell.command import JSON, CliCommand, Subcommands
from hermes.admin.shell.home import open_home
from hermes.admin.shell.output import Column, facts
from hermes.control.people.access import EXAMPLE, FLAGS, VALUES, read_access_request
from hermes.entry.desk import explain_access


def arguments(parser: argparse.ArgumentParser) -> None:
    summary = "Show whether a message would be answered, and what each rule says about it."
    options = ", ".join([*(f"{name}=…" for name in VALUES), *FLAGS])
    explained = Subcommands(parser).add("explain", summary, _explain, JSON)
    explained.description = f"{summary} For example: {EXAMPLE}"
    explained.add_argument("source", nargs="+", help=f"platform:chat[:thread], then any of {options}")


def _explain(command: CliCommand) -> None:
    given = command.asked.source
    words = given if len(given) > 1 else given[0].split()
    read_access_request(words)  # what cannot be read is told before anybody is asked
    verdict = open_home(command).ask(explain_access, words=words)
    if not command.asked.json:
        command.console.strong(str(verdict))
    columns = [
        Column("", " ", value=lambda row: row[0]),
        Column("rule", "RULE", value=lambda row: row[1].rule),
        Column("said", "SAYS", value=lambda row: row[1].reason),
        Column("outcome", "DECIDES", value=lambda row: row[1].outcome),
    ]
    command.list(
        list(enumerate(verdict.steps, 1)),
        columns,
        whole=2,
        wrap=lambda steps: {**facts(verdict, "outcome", "reason"), "steps": steps},
    )
