"""`hermes checkpoints`: how much is kept of earlier states of workspaces; remove old ones, or all."""

from __future__ import annotations

import argparse
from functools import partial

from hermes.admin.shell.command import JSON, CliCommand, Subcommands, declare
from hermes.admin.shell.home import open_home
from hermes.admin.shell.output import Column
from hermes.entry.desk import tend_checkpoints


def arguments(parser: argparse.ArgumentParser) -> None:
    add = Subcommands(parser).add
    status = add("status", "List the folders that have checkpoints.", partial(_tend, action="status"), JSON)
    listed = add("list", "The same as status.", partial(_tend, action="status"), JSON)
    prune = add("prune", "Remove those that are too old or too many.", partial(_tend, action="prune"), JSON)
    clear = add("clear", "Remove all of them.", partial(_tend, action="clear"), JSON)
    for each in (status, listed, prune, clear):
        declare(each, {"--agent AGENT": "of this agent alone"})
    declare(clear, {"-y, --yes": "do not ask"})


def _tend(command: CliCommand, *, action: str) -> None:
    if action == "clear" and not command.asked.yes:
        command.console.confirm("Remove all checkpoints? No file of a workspace is touched.")
    views = open_home(command).ask(tend_checkpoints, action=action, agent=command.asked.agent)
    columns = [
        Column("agent", "AGENT"),
        Column("root", "FOLDER"),
        Column("checkpoints", "CHECKPOINTS"),
        Column("size"),
        Column("", "SIZE", value=lambda view: f"{view.size / 1e6:.1f} MB"),
    ]
    command.list(views, columns, none="There are no checkpoints.", whole=2)
