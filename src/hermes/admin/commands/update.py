"""`hermes update`: bring a clone up to date, and the gateway that runs from it."""

from __future__ import annotations

import argparse

from hermes.admin.shell.command import JSON, CliCommand, declare
from hermes.admin.shell.home import open_home
from hermes.domain.errors import UserError
from hermes.entry.desk import restart_gateway
from hermes.execution.service.checkout import checkout_in_use, look_for_update, passed_on, update_checkout


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Bring Hermes up to date (git pull), then restart the gateway of this home."
    declare(
        parser,
        {"--check": "only say what is new; exit code 1 if something is", **JSON, "-y, --yes": "do not ask"},
    )
    parser.set_defaults(act=_update)


def _update(command: CliCommand) -> int:
    asked, console = command.asked, command.console
    environ = passed_on(command.environ)
    state = look_for_update(checkout_in_use(), environ)
    if asked.json:
        console.json({"behind": state.behind, "changes": list(state.changes), "root": str(state.root)})
        return int(bool(state.behind and asked.check))
    console.line(str(state))
    if asked.check or not state.behind:
        return int(bool(state.behind))
    if not asked.yes:
        console.confirm("Update now? A running gateway restarts; unfinished work continues afterwards.")
    update_checkout(state, environ)
    console.line("Hermes is up to date now.")
    home = open_home(command)
    if home.running:
        try:
            home.ask(restart_gateway)
        except UserError as error:
            raise UserError(
                f"The gateway still runs the old version: {error.message}", hint=error.hint
            ) from None
        console.line("The gateway restarts with it.")
    return 0
