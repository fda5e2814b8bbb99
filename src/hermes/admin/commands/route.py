"""`hermes route`: which chats, API clients, webhooks and jobs go to which agent. It changes `routes` in
config.yaml, and a running gateway adopts that."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from hermes.admin.shell.changing import DRY_RUN, apply_change, load
from hermes.admin.shell.command import JSON, CliCommand, Subcommands, number_to
from hermes.admin.shell.home import open_home
from hermes.admin.shell.output import Column
from hermes.control.people.access import EXAMPLE, VALUES, read_access_request
from hermes.control.people.routing import RouteStep, explain_route
from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId
from hermes.domain.settings.settings import Route, RouteMatch, Settings
from hermes.domain.text import one_line
from hermes.domain.word import field_names
from hermes.entry.hosted_agents import routed_agent
from hermes.state.settings.whole_changes import plan_change, section_of

_MOST = 10_000


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Which chats, API clients, webhooks and jobs go to which agent."
    commands = Subcommands(parser)
    add = commands.add
    add("list", "List the routes in their order; the first that fits counts.", _list, JSON)
    match = {f"--{name.replace('_', '-')} VALUE": "as `match` has it" for name in field_names(RouteMatch)}
    more = {"--toolsets A,B": "only these toolsets", "--backend NAME": "where its commands run"}
    added = add("add", "Add a route, behind the others unless you say where.", _add, match | more | DRY_RUN)
    added.add_argument("agent", help="the agent that answers")
    about = "its place: 1 is the first"
    added.add_argument("--at", metavar="N", type=number_to(_MOST), help=about)
    removed = add("remove", "Remove a route.", _remove, DRY_RUN)
    removed.add_argument("number", type=number_to(_MOST), help="its number in `hermes route list`")
    summary = "Show which agent a message would go to, by which rule, and why not by the others."
    explained = add("explain", summary, _explain, JSON)
    explained.description = f"{summary} For example: {EXAMPLE}"
    options = ", ".join(f"{name}=…" for name in VALUES)
    explained.add_argument("source", nargs="+", help=f"platform:chat[:thread], then any of {options}")


def _list(command: CliCommand) -> None:
    loaded = load(command)
    rows = [(n, route) for n, route in enumerate(loaded.settings.routes, 1)]
    columns = [
        Column("number", "ROUTE", value=lambda row: row[0]),
        Column("match", "MATCH", _spelled, value=lambda row: _match(row[1])),
        Column("agent", "AGENT", value=lambda row: row[1].agent),
        Column("toolsets", "TOOLSETS", ", ".join, value=lambda row: list(row[1].toolsets)),
        Column("backend", "BACKEND", value=lambda row: row[1].backend),
    ]
    command.list(rows, columns, none="There are no routes; every message goes to the default agent.", whole=2)
    for note in route_notes(loaded.settings):
        command.console.note(note)
    for stop in loaded.stops:
        command.console.note(loaded.secrets.redact(str(stop)))


def _match(route: Route) -> dict[str, str]:
    given = ((name, getattr(route.match, name)) for name in field_names(RouteMatch))
    return {name: value for name, value in given if value is not None}


def _spelled(match: dict[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in match.items()) or "everything"


def route_notes(settings: Settings) -> Iterator[str]:
    """Routes that can never count, since an earlier one takes all that they would."""
    pairs = [_match(route).items() for route in settings.routes]
    for place, pair in enumerate(pairs):
        earlier = next((n for n, other in enumerate(pairs[:place]) if other <= pair), None)
        if earlier is not None:
            yield f"Route {place + 1} never counts: route {earlier + 1} takes everything that it would."


def _add(command: CliCommand) -> None:
    asked = command.asked
    values = {name: getattr(asked, name) for name in field_names(RouteMatch)}
    entry: dict[str, Any] = {"match": {name: value for name, value in values.items() if value is not None}}
    if not entry["match"]:
        hint = f"Set default_agent instead: hermes config set default_agent {asked.agent}"
        raise UserError("A route without a match would take everything.", hint=hint)
    entry["agent"] = asked.agent
    if asked.toolsets:
        entry["toolsets"] = [name.strip() for name in asked.toolsets.split(",")]
    if asked.backend:
        entry["backend"] = asked.backend

    def change(data: Any) -> None:
        routes = section_of(data, "routes", list)
        if asked.at is not None:
            _check_numbers(command, routes)
        routes.insert(len(routes) if asked.at is None else asked.at - 1, entry)

    if apply_change(command, plan_change(command.home, change)):
        for note in route_notes(load(command).settings):
            command.console.note(note)


def _remove(command: CliCommand) -> None:
    def change(data: Any) -> None:
        routes = section_of(data, "routes", list)
        if len(routes) < command.asked.number:
            raise UserError(
                f"There is no route {command.asked.number}.", hint="`hermes route list` numbers them."
            )
        _check_numbers(command, routes)
        del routes[command.asked.number - 1]

    apply_change(command, plan_change(command.home, change))


def _check_numbers(command: CliCommand, written: list[Any]) -> None:
    """A number means what `route list` shows, and that leaves out routes that are wrong."""
    if len(written) != len(load(command).settings.routes):
        hint = "`hermes config check` names it: mend it or delete it in config.yaml first."
        raise UserError("A route in config.yaml is wrong, so numbers of routes are not sure.", hint=hint)


def _explain(command: CliCommand) -> None:
    given = command.asked.source
    words = given if len(given) > 1 else given[0].split()
    request = read_access_request(words)
    settings = load(command).settings
    steps = explain_route(request.source, settings)
    home = open_home(command)
    agent = home.ask(routed_agent, words=words)
    if steps[-1].decides and agent != steps[-1].agent:
        asked = RouteStep(rule="select_agent hooks", agent=AgentId(agent), reason="named it", decides=True)
        steps = [*(step for step in steps if step.rule != asked.rule and not step.decides), asked]
    if not command.asked.json:
        command.console.strong(f"{one_line(words[0], 80)} → {agent}")
        if not home.running:
            command.console.note("Hooks are asked by a gateway that runs; none does.")
    columns = [
        Column("rule", "RULE"),
        Column("agent", "AGENT"),
        Column("reason", "SAYS"),
        Column("decides", "DECIDES", lambda decides: "yes" if decides else ""),
    ]
    command.list(steps, columns, whole=2, wrap=lambda rows: {"agent": agent, "steps": rows})
