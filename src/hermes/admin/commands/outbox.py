"""`hermes outbox`: messages that wait or were given up; send them again, or drop them."""

from __future__ import annotations

import argparse
from functools import partial

from hermes.admin.shell.command import JSON, CliCommand, Subcommands, declare, number_to
from hermes.admin.shell.home import open_home
from hermes.admin.shell.output import Column, ago
from hermes.domain.chats.rows import OutboxRow
from hermes.domain.text import one_line
from hermes.entry.desk import change_outbox, outbox

_TEXT = 60


def arguments(parser: argparse.ArgumentParser) -> None:
    add = Subcommands(parser).add
    listed = add("list", "List the messages that wait or were given up, oldest first.", _list, JSON)
    declare(listed, {"-n, --limit N": "how many (100)"}, type=number_to(10_000), default=100)
    retried = add("retry", "Send messages again, with a fresh time limit.", partial(_change, drop=False))
    dropped = add("drop", "Drop messages permanently.", partial(_change, drop=True))
    for changed in (retried, dropped):
        changed.add_argument("key", nargs="*", help="its key, or the beginning of it")
        declare(changed, {"--all": "all that were given up"})
    declare(dropped, {"-y, --yes": "do not ask"})


def _list(command: CliCommand) -> None:
    columns = [
        Column("key", "KEY"),
        Column("to", "TO"),
        Column("state", "STATE"),
        Column("attempts", "TRIES"),
        Column("created_at", "MADE", ago),
        Column("next_at"),
        Column("error", "WHY"),
        Column("text", value=lambda row: row.body.text),
        Column("", "TEXT", value=lambda row: one_line(row.body.text or _files(row), _TEXT)),
        Column("attachments", value=lambda row: [file.name or file.ref for file in row.body.attachments]),
    ]
    rows = open_home(command).ask(outbox, limit=command.asked.limit)
    command.list(rows, columns, none="No message waits, and none was given up.", whole=2)


def _files(row: OutboxRow) -> str:
    return ", ".join(f"📎 {file.name or file.kind.value}" for file in row.body.attachments)


def _change(command: CliCommand, *, drop: bool) -> int:
    asked, console = command.asked, command.console
    if bool(asked.key) == asked.all:
        console.note("Name messages by their keys, or use --all for those that were given up.")
        return 2
    if drop and not asked.yes:
        console.confirm(
            "Drop all messages that were given up?"
            if asked.all
            else f"Drop {', '.join(asked.key)} permanently?"
        )
    place = open_home(command)
    rows = place.ask(change_outbox, keys=asked.key, drop=drop)
    done = "dropped" if drop else "tried again" if place.running else "tried again at the next start"
    console.line(f"{len(rows)} {'message is' if len(rows) == 1 else 'messages are'} {done}.")
    return 0
