"""`hermes access explain`: whether a message from somewhere would be answered, and what each rule says."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from hermes.admin.home import open_home
from hermes.admin.output import Console
from hermes.control.access import Verdict
from hermes.control.explain import EXAMPLE, FLAGS, VALUES, read_knock


def arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    told = "Say whether a message would be answered, and what each rule says about it."
    known = ", ".join([*(f"{name}=…" for name in VALUES), *FLAGS])
    asked = commands.add_parser("explain", help=told, description=f"{told} For example: {EXAMPLE}")
    asked.add_argument("source", nargs="+", help=f"platform:chat[:thread], then any of {known}")
    asked.add_argument("--json", action="store_true", help="print JSON")


def run(asked: argparse.Namespace, home: Path, environ: Mapping[str, str], console: Console) -> int:
    words = asked.source if len(asked.source) > 1 else asked.source[0].split()
    read_knock(words)  # what cannot be read is told before anybody is asked
    verdict = open_home(home, environ, "hermes access").post("/control/access", Verdict, {"words": words})
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


def _facts(verdict: Verdict) -> dict[str, object]:
    return {
        "outcome": verdict.outcome.value,
        "reason": verdict.reason,
        "steps": [
            {"rule": step.rule, "said": step.said, "outcome": step.outcome and step.outcome.value}
            for step in verdict.steps
        ],
    }
