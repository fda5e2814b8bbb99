"""`hermes trace`: where a message is, from the inbox through its turn and records to the outbox."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from hermes.admin.home import open_home
from hermes.admin.output import Console
from hermes.domain.errors import UserError
from hermes.domain.text import one_line


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("message", help="a platform's message id, a delivery id, or a turn like turn_1a2b…")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(asked: argparse.Namespace, home: Path, environ: Mapping[str, str], console: Console) -> int:
    place = open_home(home, environ, "hermes trace")
    lines = place.get("/control/trace", list[str], message=asked.message)
    if not lines:
        raise UserError(
            f"There is no message or turn “{one_line(asked.message, 60)}”.",
            hint="Old rows are forgotten (gateway.dedupe_days); `hermes sessions search` finds words.",
        )
    if asked.json:
        console.json([dict(zip(("stage", "told"), line.split(maxsplit=1), strict=True)) for line in lines])
    else:
        for line in lines:
            console.line(line)
    return 0
