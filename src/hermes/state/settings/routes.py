"""The routes of `config.yaml`: which chats go to which agent. A route with a mistake in it does not count."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.settings.settings import Route, RouteMatch
from hermes.state.settings.values import knobs
from hermes.state.settings.yaml_tree import YamlList, YamlMapping, YamlNode, YamlScalar

if TYPE_CHECKING:
    from hermes.state.settings.reader import SettingsReader


def read_routes(reader: SettingsReader, node: YamlNode | None, agents: Collection[str]) -> Iterator[Route]:
    if node is None or (isinstance(node, YamlScalar) and (node.empty or node.unreadable)):
        return
    if not isinstance(node, YamlList):
        reader.found.problem(node.line, "routes must be a list.", "Begin each route with “- match:”.")
        return
    for number, item in enumerate(node.items):
        before = reader.found.count
        route = _route(reader, item, f"routes[{number}]", agents)
        # A route that is only partly understood would match more than was meant.
        if route is not None and reader.found.count == before:
            yield route


def _route(reader: SettingsReader, node: YamlNode, path: str, agents: Collection[str]) -> Route | None:
    if isinstance(node, YamlScalar) and node.unreadable:
        return None
    if not isinstance(node, YamlMapping):
        reader.found.problem(node.line, f"{path} must hold match and agent.", "Write {match: {…}, agent: …}.")
        return None
    for name, (line, _) in node.pairs.items():
        if name not in ("match", "agent"):
            reader.unknown(f"{path}.{name}", line, ["match", "agent"])
    match, agent = node.get("match"), node.get("agent")
    chosen = reader.text(agent, f"{path}.agent") if isinstance(agent, YamlScalar) and not agent.empty else ""
    if chosen is None or (isinstance(match, YamlScalar) and match.unreadable):
        return None
    if not chosen or not isinstance(match, YamlMapping):
        lacks = "agent" if not chosen else "match"
        reader.found.problem(node.line, f"{path} has no {lacks}.", "Write {match: {…}, agent: …}.")
        return None
    if chosen not in (MAIN_AGENT, *agents):
        reader.no_such_agent(f"{path}.agent", node.pairs["agent"][0], chosen, list(agents))
        return None
    found = _match(reader, match, f"{path}.match")
    return None if found is None else Route(match=found, agent=AgentId(chosen))


def _match(reader: SettingsReader, node: YamlMapping, path: str) -> RouteMatch | None:
    own = knobs(RouteMatch)
    values: dict[str, Any] = {}
    for name, (line, child) in node.pairs.items():
        key = f"{path}.{name}"
        if name not in own:
            reader.unknown(key, line, list(own))
        elif isinstance(child, YamlScalar) and child.empty:
            reader.found.problem(line, f"{key} is empty.", "Give it a value, or remove the line.")
        else:
            # An older name of the same sort of place.
            dm = name == "kind" and isinstance(child, YamlScalar) and child.text == "dm"
            values[name] = "private" if dm else reader.value(own[name], child, key)
    platform = values.get("platform")
    if platform and platform not in reader.platforms:
        reader.no_such_platform(node.pairs["platform"][0], platform)
    return None if None in values.values() else RouteMatch(**values)
