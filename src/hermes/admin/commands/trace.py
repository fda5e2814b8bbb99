"""`hermes trace`: where a message is, from the inbox through its turn and records to the outbox."""

from __future__ import annotations

import argparse

from hermes.admin.shell.command import JSON, CliCommand, declare
from hermes.admin.shell.home import open_home
from hermes.domain.errors import UserError
from hermes.domain.text import one_line
from hermes.entry.desk import trace


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(act=_trace)
    parser.description = "Show where a message is: received, answered, sent."
    message = {"message": "a platform's message id, a delivery id, or a turn like turn_1a2b…"}
    declare(parser, message | JSON)


def _trace(command: CliCommand) -> None:
    message, console = command.asked.message, command.console
    lines = open_home(command).ask(trace, message=message)
    if not lines:
        raise UserError(
            f"There is no message or turn “{one_line(message, 60)}”.",
            hint="Old rows are forgotten (gateway.dedupe_days); `hermes sessions search` finds words.",
        )
    if command.asked.json:
        console.json([dict(zip(("stage", "told"), line.split(maxsplit=1), strict=True)) for line in lines])
    else:
        console.line("\n".join(lines))
