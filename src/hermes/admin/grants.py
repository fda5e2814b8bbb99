"""`hermes grants`: what people allowed for good, listed and taken back."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from hermes.admin.home import open_home
from hermes.admin.output import Commands, Console, ago, facts
from hermes.domain.errors import UserError
from hermes.domain.grants import Grant
from hermes.domain.text import one_line


def arguments(parser: argparse.ArgumentParser) -> None:
    command = Commands(parser).add
    command("list", "List what was allowed for good, of all agents and people.", json=True)
    revoked = command("revoke", "Take a grant back: from then on it is asked first.")
    revoked.add_argument("grant", help="its id, as the list tells it")


def run(asked: argparse.Namespace, home: Path, environ: Mapping[str, str], console: Console) -> int:
    place = open_home(home, environ, f"hermes grants {asked.command}")
    if asked.command == "list":
        _list(place.get("/control/grants", list[Grant]), console, as_json=asked.json)
        return 0
    if not place.post("/control/grants/revoke", bool, {"grant": asked.grant}):
        raise UserError(
            f"There is no grant “{one_line(asked.grant, 60)}”.",
            hint="`hermes grants list` shows what there is.",
        )
    console.line(f"{asked.grant} is revoked.")
    return 0


def _list(found: list[Grant], console: Console, *, as_json: bool) -> None:
    if as_json:
        names = ("id", "agent", "person", "digest", "by", "at")
        console.json([{**facts(one, *names), "action": one.text} for one in found])
        return
    if not found:
        console.line("Nothing was allowed for good.")
        return
    now = datetime.now(UTC)
    rows = [[one.id, ago(one.at, now), one.agent, one.person, one_line(one.text, 200)] for one in found]
    console.table(["GRANT", "GIVEN", "AGENT", "PERSON", "ACTION"], rows, whole=4)
