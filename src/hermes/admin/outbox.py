"""`hermes outbox`: messages that wait or were given up; try them again, or drop them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from hermes.admin.home import open_home
from hermes.admin.output import Commands, Console, ago, facts, number_to
from hermes.domain.rows import OutboxRow
from hermes.domain.text import one_line

_TEXT = 60


def arguments(parser: argparse.ArgumentParser) -> None:
    command = Commands(parser).add
    listed = command("list", "List the messages that wait or were given up, oldest first.", json=True)
    listed.add_argument(
        "-n", "--limit", type=number_to(10_000), default=100, metavar="N", help="how many (100)"
    )
    for name, told in (
        ("retry", "Send messages again, with all their time before them."),
        ("drop", "Give messages up for good."),
    ):
        changed = command(name, told)
        changed.add_argument("key", nargs="*", help="its key, or the beginning of it")
        changed.add_argument("--all", action="store_true", help="all that were given up")
        if name == "drop":
            changed.add_argument("-y", "--yes", action="store_true", help="do not ask")


def run(asked: argparse.Namespace, home: Path, environ: Mapping[str, str], console: Console) -> int:
    place = open_home(home, environ, f"hermes outbox {asked.command}")
    if asked.command == "list":
        return _list(asked, place.get("/control/outbox", list[OutboxRow], limit=asked.limit), console)
    if bool(asked.key) == asked.all:
        console.note("Name messages by their keys, or say --all for those that were given up.")
        return 2
    drop = asked.command == "drop"
    if drop and not asked.yes:
        console.confirm("Drop what was given up?" if asked.all else f"Drop {', '.join(asked.key)} for good?")
    rows = place.post("/control/outbox", list[OutboxRow], {"keys": asked.key, "drop": drop})
    done = "dropped" if drop else "tried again" if place.running else "tried again at the next start"
    console.line(f"{len(rows)} {'message is' if len(rows) == 1 else 'messages are'} {done}.")
    return 0


def _list(asked: argparse.Namespace, rows: Sequence[OutboxRow], console: Console) -> int:
    if asked.json:
        console.json([_facts(row) for row in rows])
    elif not rows:
        console.line("Nothing waits and nothing was given up.")
    else:
        now = datetime.now(UTC)
        told = [
            [row.key, str(row.to), row.state.value, str(row.attempts), ago(row.created_at, now), row.error,
             one_line(row.body.text or _files(row), _TEXT)]
            for row in rows
        ]  # fmt: skip
        console.table(("KEY", "TO", "STATE", "TRIES", "MADE", "WHY", "TEXT"), told, whole=2)
    return 0


def _facts(row: OutboxRow) -> dict[str, object]:
    told = facts(row, "key", "to", "state", "attempts", "created_at", "next_at", "error")
    files = [file.name or file.ref for file in row.body.attachments]
    return {**told, "text": row.body.text, "attachments": files}


def _files(row: OutboxRow) -> str:
    return ", ".join(f"📎 {file.name or file.kind.value}" for file in row.body.attachments)
