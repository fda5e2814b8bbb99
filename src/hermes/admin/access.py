"""`hermes access explain`: whether a message from somewhere would be answered, and what each rule says."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from hermes.admin.home import open_home
from hermes.admin.output import Commands, Console, facts
from hermes.control.access import Verdict
from hermes.control.explain import EXAMPLE, FLAGS, VALUES, read_knock


def arguments(parser: argparse.ArgumentParser) -> None:
    command = Commands(parser).add
    told = "Say whether a message would be answered, and what each rule says about it."
    known = ", ".join([*(f"{name}=…" for name in VALUES), *FLAGS])
    asked = command("explain", told, json=True)
    asked.description = f"{told} For example: {EXAMPLE}"
    asked.add_argument("source", nargs="+", help=f"platform:chat[:thread], then any of {known}")


def run(asked: argparse.Namespace, home: Path, environ: Mapping[str, str], console: Console) -> int:
    words = asked.source if len(asked.source) > 1 else asked.source[0].split()
    read_knock(words)  # what cannot be read is told before anybody is asked
    verdict = open_home(home, environ, "hermes access").post("/control/access", Verdict, {"words": words})
    if asked.json:
        steps = [facts(step, "rule", "said", "outcome") for step in verdict.steps]
        console.json({**facts(verdict, "outcome", "reason"), "steps": steps})
        return 0
    console.strong(str(verdict))
    rows = [
        [str(number), step.rule, step.said, "" if step.outcome is None else step.outcome.value]
        for number, step in enumerate(verdict.steps, 1)
    ]
    console.table(["", "RULE", "SAYS", "DECIDES"], rows, whole=2)
    return 0
