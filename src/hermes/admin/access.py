"""`hermes access explain`: whether a message from somewhere would be answered, and what each rule says."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from hermes.admin.gateway import on_store
from hermes.admin.output import Console
from hermes.admin.running import find_running
from hermes.control.access import Verdict
from hermes.control.explain import EXAMPLE, FLAGS, VALUES, explain, read_knock
from hermes.domain.address import Address
from hermes.domain.capabilities import Capabilities
from hermes.plugins import platform_manifests
from hermes.state.settings import load_settings
from hermes.state.sqlite import SqliteStore


def arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    told = "Say whether a message would be answered, and what each rule says about it."
    known = ", ".join([*(f"{name}=…" for name in VALUES), *FLAGS])
    asked = commands.add_parser("explain", help=told, description=f"{told} For example: {EXAMPLE}")
    asked.add_argument("source", nargs="+", help=f"platform:chat[:thread], then any of {known}")
    asked.add_argument("--json", action="store_true", help="print JSON")


def run(asked: argparse.Namespace, home: Path, environ: Mapping[str, str], console: Console) -> int:
    words = asked.source if len(asked.source) > 1 else asked.source[0].split()
    verdict = _verdict(words, home, environ)
    if asked.json:
        console.json(_facts(verdict))
        return 0
    console.strong(str(verdict))
    rows = [
        [str(number), step.rule, step.said, "" if step.outcome is None else step.outcome.value]
        for number, step in enumerate(verdict.steps, 1)
    ]
    console.table(["", "RULE", "SAYS", "DECIDES"], rows, whole=2)
    return 0


def _verdict(words: list[str], home: Path, environ: Mapping[str, str]) -> Verdict:
    knock = read_knock(words)
    running = find_running(home, environ)
    if running is not None:
        return running.post("/control/access", Verdict, {"words": words})
    able = {manifest.name: manifest.capabilities for manifest in platform_manifests()}
    settings = load_settings(home, environ, platforms=able).settings

    def capabilities(to: Address) -> Capabilities:
        return able.get(to.platform) or Capabilities()

    async def ask(store: SqliteStore) -> Verdict:
        return await store.read(lambda tx: explain(tx, knock, settings, capabilities))

    found = on_store(home, "hermes access", ask)
    return found or explain(None, knock, settings, capabilities)


def _facts(verdict: Verdict) -> dict[str, object]:
    return {
        "outcome": verdict.outcome.value,
        "reason": verdict.reason,
        "steps": [
            {"rule": step.rule, "said": step.said, "outcome": step.outcome and step.outcome.value}
            for step in verdict.steps
        ],
    }
