"""`hermes handoff`: conversations on their way from the terminal to a chat."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from hermes.admin.home import open_home
from hermes.admin.output import Commands, Console, ago, facts
from hermes.domain.handoff import Handoff

_LISTED = 50


def arguments(parser: argparse.ArgumentParser) -> None:
    command = Commands(parser).add
    command(
        "list", "List the hand-offs, the latest first. `/handoff <platform>` in a chat begins one.", json=True
    )
    for name, told in (
        ("retry", "Try a hand-off again that has failed."),
        ("cancel", "Let a hand-off be that is not done yet."),
    ):
        changed = command(name, told)
        changed.add_argument("handoff", help="its id, as the list tells it")


def run(asked: argparse.Namespace, home: Path, environ: Mapping[str, str], console: Console) -> int:
    place = open_home(home, environ, f"hermes handoff {asked.command}")
    if asked.command == "list":
        _list(place.get("/control/handoffs", list[Handoff], limit=_LISTED), console, as_json=asked.json)
        return 0
    cancel = asked.command == "cancel"
    changed = place.post("/control/handoffs", Handoff, {"handoff": asked.handoff, "cancel": cancel})
    done = "is cancelled" if cancel else "is tried again"
    console.line(f"{changed.id} {done}{'' if place.running else ' at the next start'}.")
    return 0


def _list(found: list[Handoff], console: Console, *, as_json: bool) -> None:
    if as_json:
        names = ("id", "agent", "session", "account", "state", "attempts", "to", "error", "created_at")
        console.json([facts(one, *names) for one in found])
        return
    if not found:
        console.line("Nothing was handed over.")
        return
    now = datetime.now(UTC)
    rows = [
        [one.id, ago(one.created_at, now), one.session, one.account, one.state.value, _where(one)]
        for one in found
    ]
    console.table(["HANDOFF", "MADE", "SESSION", "TO", "STATE", "WHERE, OR WHY NOT"], rows, whole=3)


def _where(one: Handoff) -> str:
    return str(one.to) if one.to is not None else one.error
