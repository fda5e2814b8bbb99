"""`hermes grants`: what people allowed for good, listed and taken back. Through the gateway that runs, or
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
from hermes.domain.errors import UserError
from hermes.domain.grants import Grant
from hermes.domain.ids import AgentId
from hermes.domain.text import one_line
from hermes.state.settings import load_settings
from hermes.state.sqlite import SqliteStore


def arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    told = "List what was allowed for good, of all agents and people."
    listed = commands.add_parser("list", help=told, description=told)
    listed.add_argument("--json", action="store_true", help="print JSON")
    told = "Take a grant back: from then on it is asked first."
    revoked = commands.add_parser("revoke", help=told, description=told)
    revoked.add_argument("grant", help="its id, as the list tells it")


def run(asked: argparse.Namespace, home: Path, environ: Mapping[str, str], console: Console) -> int:
    running = find_running(home, environ)
    agents = agents_of(load_settings(home, environ).settings)
    if asked.command == "list":
        found = _stored(home, agents) if running is None else running.get("/control/grants", list[Grant])
        _list(found, console, as_json=asked.json)
        return 0
    if running is None:
        done = _revoke(home, agents, asked.grant)
    else:
        done = running.post("/control/grants/revoke", dict[str, bool], {"grant": asked.grant})["revoked"]
    if not done:
        raise UserError(
            f"There is no grant “{one_line(asked.grant, 60)}”.",
            hint="`hermes grants list` shows what there is.",
        )
    console.line(f"{asked.grant} is revoked.")
    return 0


def _stored(home: Path, agents: list[AgentId]) -> list[Grant]:
    async def collect(store: SqliteStore) -> list[Grant]:
        return [
            grant for agent in agents for grant in await store.scoped(agent).read(lambda tx: tx.grants.list())
        ]

    return on_store(home, "hermes grants list", collect) or []


def _list(found: list[Grant], console: Console, *, as_json: bool) -> None:
    if as_json:
        console.json([_facts(grant) for grant in found])
        return
    if not found:
        console.line("Nothing was allowed for good.")
        return
    now = datetime.now(UTC)
    rows = [[one.id, ago(one.at, now), one.agent, one.person, one_line(one.text, 200)] for one in found]
    console.table(["GRANT", "GIVEN", "AGENT", "PERSON", "ACTION"], rows, whole=4)


def _revoke(home: Path, agents: list[AgentId], wanted: str) -> bool:
    async def revoke(store: SqliteStore) -> bool:
        return any([await store.scoped(agent).write(lambda tx: tx.grants.revoke(wanted)) for agent in agents])

    return on_store(home, "hermes grants revoke", revoke) or False


def _facts(grant: Grant) -> dict[str, str]:
    return {
        "id": grant.id,
        "agent": grant.agent,
        "person": grant.person,
        "action": grant.text,
        "digest": grant.digest,
        "by": grant.by,
        "at": grant.at.isoformat(),
    }
