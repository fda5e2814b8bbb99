"""`hermes access explain`: whether a message from somewhere would be answered, and what each rule says."""

from __future__ import annotations

import argparse

from hermes.admin.shell.command import CliCommand, Subcommands
from hermes.admin.shell.home import open_home
from hermes.admin.shell.output import facts
from hermes.control.people.access_explain import EXAMPLE, FLAGS, VALUES, read_access_request
from hermes.entry.desk import explain_access


def arguments(parser: argparse.ArgumentParser) -> None:
    told = "Say whether a message would be answered, and what each rule says about it."
    known = ", ".join([*(f"{name}=…" for name in VALUES), *FLAGS])
    asked = Subcommands(parser).add("explain", told, _explain, json=True)
    asked.description = f"{told} For example: {EXAMPLE}"
    asked.add_argument("source", nargs="+", help=f"platform:chat[:thread], then any of {known}")


def _explain(command: CliCommand) -> None:
    given = command.asked.source
    words = given if len(given) > 1 else given[0].split()
    read_access_request(words)  # what cannot be read is told before anybody is asked
    verdict = open_home(command).ask(explain_access, words=words)
    if not command.asked.json:
        command.console.strong(str(verdict))
    rows = [
        [str(number), step.rule, step.said, "" if step.outcome is None else step.outcome.value]
        for number, step in enumerate(verdict.steps, 1)
    ]
    steps = [facts(step, "rule", "said", "outcome") for step in verdict.steps]
    told = {**facts(verdict, "outcome", "reason"), "steps": steps}
    command.show(told, ["", "RULE", "SAYS", "DECIDES"], rows, whole=2)
