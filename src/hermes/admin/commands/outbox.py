"""`hermes outbox`: messages that wait or were given up; try them again, or drop them."""

from __future__ import annotations

import argparse
from functools import partial

from hermes.admin.shell.command import CliCommand, Subcommands, number_to
from hermes.admin.shell.home import open_home
from hermes.admin.shell.output import ago, facts
from hermes.domain.rows import OutboxRow
from hermes.domain.text import one_line
from hermes.entry.desk import change_outbox, outbox

_TEXT = 60


def arguments(parser: argparse.ArgumentParser) -> None:
    add = Subcommands(parser).add
    listed = add("list", "List the messages that wait or were given up, oldest first.", _list, json=True)
    listed.add_argument(
        "-n", "--limit", type=number_to(10_000), default=100, metavar="N", help="how many (100)"
    )
    told = "Send messages again, with all their time before them."
    retried = add("retry", told, partial(_change, drop=False))
    dropped = add("drop", "Give messages up for good.", partial(_change, drop=True))
    for changed in (retried, dropped):
        changed.add_argument("key", nargs="*", help="its key, or the beginning of it")
        changed.add_argument("--all", action="store_true", help="all that were given up")
    dropped.add_argument("-y", "--yes", action="store_true", help="do not ask")


def _list(command: CliCommand) -> None:
    found = open_home(command).ask(outbox, limit=command.asked.limit)
    rows = [
        [row.key, str(row.to), row.state.value, str(row.attempts), ago(row.created_at), row.error,
         one_line(row.body.text or _files(row), _TEXT)]
        for row in found
    ]  # fmt: skip
    header = ("KEY", "TO", "STATE", "TRIES", "MADE", "WHY", "TEXT")
    none = "Nothing waits and nothing was given up."
    command.show([_facts(row) for row in found], header, rows, none=none, whole=2)


def _facts(row: OutboxRow) -> dict[str, object]:
    told = facts(row, "key", "to", "state", "attempts", "created_at", "next_at", "error")
    files = [file.name or file.ref for file in row.body.attachments]
    return {**told, "text": row.body.text, "attachments": files}


def _files(row: OutboxRow) -> str:
    return ", ".join(f"📎 {file.name or file.kind.value}" for file in row.body.attachments)


def _change(command: CliCommand, *, drop: bool) -> int:
    asked, console = command.asked, command.console
    if bool(asked.key) == asked.all:
        console.note("Name messages by their keys, or say --all for those that were given up.")
        return 2
    if drop and not asked.yes:
        console.confirm("Drop what was given up?" if asked.all else f"Drop {', '.join(asked.key)} for good?")
    place = open_home(command)
    rows = place.ask(change_outbox, keys=asked.key, drop=drop)
    done = "dropped" if drop else "tried again" if place.running else "tried again at the next start"
    console.line(f"{len(rows)} {'message is' if len(rows) == 1 else 'messages are'} {done}.")
    return 0
