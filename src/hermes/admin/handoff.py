"""`hermes handoff`: conversations on their way from the terminal to a chat. Through the gateway that runs, or
else in the store itself."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from hermes.admin.gateway import on_store
from hermes.admin.output import Console, ago
from hermes.admin.running import find_running
from hermes.admin.sessions import agents_of
from hermes.control.handoff import cancel_handoff, retry_handoff
from hermes.domain.errors import UserError
from hermes.domain.handoff import Handoff
from hermes.domain.ids import AgentId
from hermes.domain.ports import Tx
from hermes.domain.text import one_line
from hermes.state.settings import load_settings
from hermes.state.sqlite import SqliteStore

_LISTED = 50


def arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    told = "List the hand-offs, the latest first. `/handoff <platform>` in a chat begins one."
    listed = commands.add_parser("list", help=told, description=told)
    listed.add_argument("--json", action="store_true", help="print JSON")
    for name, told in (
        ("retry", "Try a hand-off again that has failed."),
        ("cancel", "Let a hand-off be that is not done yet."),
    ):
        changed = commands.add_parser(name, help=told, description=told)
        changed.add_argument("handoff", help="its id, as the list tells it")


def run(asked: argparse.Namespace, home: Path, environ: Mapping[str, str], console: Console) -> int:
    desk = _Desk(home, environ)
    if asked.command == "list":
        _list(desk.all(), console, as_json=asked.json)
        return 0
    changed = desk.change(asked.handoff, cancel=asked.command == "cancel")
    done = "is cancelled" if asked.command == "cancel" else "is tried again"
    console.line(f"{changed.id} {done}{'' if desk.running else ' at the next start'}.")
    return 0


class _Desk:
    def __init__(self, home: Path, environ: Mapping[str, str]) -> None:
        self._home = home
        self._environ = environ
        self.running = find_running(home, environ)

    def all(self) -> list[Handoff]:
        if self.running is not None:
            return self.running.get("/control/handoffs", list[Handoff], limit=_LISTED)

        async def collect(store: SqliteStore) -> list[Handoff]:
            found: list[Handoff] = []
            for agent in self._agents():
                found += await store.scoped(agent).read(lambda tx: tx.handoffs.latest(None, _LISTED))
            return sorted(found, key=lambda one: one.created_at, reverse=True)[:_LISTED]

        return on_store(self._home, "hermes handoff list", collect) or []

    def change(self, wanted: str, *, cancel: bool) -> Handoff:
        if self.running is not None:
            body = {"handoff": wanted, "cancel": cancel}
            return self.running.post("/control/handoffs", Handoff, body)
        now = datetime.now(UTC)

        def unit(tx: Tx) -> Handoff | None:
            if tx.handoffs.get(wanted) is None:
                return None
            return cancel_handoff(tx, wanted) if cancel else retry_handoff(tx, wanted, now)

        async def change(store: SqliteStore) -> Handoff | None:
            tried = [await store.scoped(agent).write(unit) for agent in self._agents()]
            return next((one for one in tried if one is not None), None)

        changed = on_store(self._home, "hermes handoff", change)
        if changed is None:
            raise UserError(
                f"There is no hand-off “{one_line(wanted, 40)}”.", hint="`hermes handoff list` shows them."
            )
        return changed

    def _agents(self) -> list[AgentId]:
        return agents_of(load_settings(self._home, self._environ).settings)


def _list(found: list[Handoff], console: Console, *, as_json: bool) -> None:
    if as_json:
        console.json([_facts(one) for one in found])
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


def _facts(one: Handoff) -> dict[str, object]:
    return {
        "id": one.id,
        "agent": one.agent,
        "session": one.session,
        "account": one.account,
        "state": one.state.value,
        "attempts": one.attempts,
        "to": None if one.to is None else str(one.to),
        "error": one.error,
        "created_at": one.created_at.isoformat(),
    }
