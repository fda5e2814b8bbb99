"""The named keys of the HTTP API. What they may do is a limit: whatever is empty, unknown or unreadable in
one leaves it without any right, and never with the rights of a key that nothing was said about."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hermes.domain.settings.declaring import NONE_LISTED
from hermes.domain.settings.platforms import ApiKey
from hermes.state.settings.yaml_tree import YamlList, YamlMapping, YamlNode, YamlScalar

if TYPE_CHECKING:
    from hermes.state.settings.reader import SettingsReader

API_SERVER = "api_server"


def read_api_keys(reader: SettingsReader, node: YamlNode, path: str) -> dict[str, ApiKey]:
    """`name: secret`, or `name: {key: …, scopes: …, agents: …}`."""
    keys: dict[str, ApiKey] = {}
    for name, line, child in reader.pairs(node, path):
        before = reader.found.count
        if isinstance(child, YamlScalar) and not child.empty:
            child = YamlMapping(pairs={"key": (line, child)}, line=line)
        made = reader.section(ApiKey, child, f"{path}.{name}")
        if isinstance(child, YamlMapping):
            _check_limits(reader, child, f"{path}.{name}", made)
        wrong = reader.found.count > before
        keys[name] = replace(made, scopes=NONE_LISTED, agents=NONE_LISTED) if wrong else made
    return keys


def _check_limits(reader: SettingsReader, node: YamlMapping, path: str, made: ApiKey) -> None:
    for limit, value in (("scopes", made.scopes), ("agents", made.agents)):
        line, said = node.pairs.get(limit, (0, None))
        if said is not None and (value == () or _is_empty(said)):
            reader.found.problem(
                line,
                f"{path}.{limit} is empty, so the key has no rights.",
                "Name what it may, or remove the line.",
            )
    for agent in made.agents or ():
        if agent not in reader.agent_names and made.agents != NONE_LISTED:
            line = node.pairs["agents"][0]
            reader.no_such_agent(f"{path}.agents", line, agent, list(reader.agent_names))


def _is_empty(node: YamlNode) -> bool:
    if isinstance(node, YamlScalar):
        return node.empty or not (node.text.strip() or node.unreadable)
    return isinstance(node, YamlList) and not node.items
