"""Where keys may stand: gateway keys at top level or under `gateway:`, platform blocks in three places,
`model:` as a mere name. Brings the tree into the one form that the reader knows; top level wins."""

from __future__ import annotations

from hermes.domain.settings.settings import GatewaySettings
from hermes.state.settings.findings import SettingsFindings
from hermes.state.settings.values import knobs
from hermes.state.settings.yaml_tree import YamlMapping, YamlNode, YamlScalar

# Top-level keys that may stand under `gateway:` as well.
ALSO_UNDER_GATEWAY = (
    "group_sessions_per_user",
    "thread_sessions_per_user",
    "allowed_users",
    "allow_all_users",
    "unauthorized_dm_behavior",
    "streaming",
    "agents",
    "default_agent",
    "routes",
    "platforms",
    "session_reset",
    "reset_by_type",
    "reset_by_platform",
    "quick_commands",
    "toolsets",
)

ALIASES = {("model", "model"): "default", ("streaming", "mode"): "transport"}
"""Other names of keys. Who says how answers are streamed wants them streamed, which is the default."""
_SWITCHES = ("message_timestamps",)


def arrange(root: YamlMapping, platforms: frozenset[str], found: SettingsFindings) -> YamlMapping:
    """The same settings, each in its own place. `root` itself stays as it was read."""
    pairs = dict(root.pairs)
    gateway = pairs.get("gateway")
    if gateway is not None and isinstance(gateway[1], YamlMapping):
        inner = dict(gateway[1].pairs)
        for name in ALSO_UNDER_GATEWAY:
            if name in inner:
                pairs[name] = _merged(pairs.get(name), inner.pop(name))
        pairs["gateway"] = (gateway[0], YamlMapping(pairs=inner, line=gateway[1].line))
    for name in knobs(GatewaySettings):
        if name in pairs:
            _move(pairs, name, "gateway", found)
    for name in sorted(name for name in pairs if name.partition("@")[0] in platforms):
        _move(pairs, name, "platforms", found)
    _arrange_model(pairs)
    _arrange_aliases(pairs)
    _arrange_switches(pairs)
    return YamlMapping(pairs=pairs, line=root.line)


def _arrange_model(pairs: dict[str, tuple[int, YamlNode]]) -> None:
    line, model = pairs.get("model", (1, None))
    if isinstance(model, YamlScalar) and not model.empty:
        pairs["model"] = (line, YamlMapping(pairs={"default": (line, model)}, line=line))


def _arrange_aliases(pairs: dict[str, tuple[int, YamlNode]]) -> None:
    """A key under its other name; its own name wins."""
    for (section, alias), name in ALIASES.items():
        line, node = pairs.get(section, (1, None))
        if isinstance(node, YamlMapping) and alias in node.pairs:
            inner = dict(node.pairs)
            told = inner.pop(alias)
            inner.setdefault(name, told)
            pairs[section] = (line, YamlMapping(pairs=inner, line=node.line))


def _arrange_switches(pairs: dict[str, tuple[int, YamlNode]]) -> None:
    """`name: {enabled: …}` is `name: …`."""
    line, gateway = pairs.get("gateway", (1, None))
    if not isinstance(gateway, YamlMapping):
        return
    inner = dict(gateway.pairs)
    for name in _SWITCHES:
        switch = inner.get(name, (1, None))[1]
        if isinstance(switch, YamlMapping) and switch.pairs.keys() == {"enabled"}:
            inner[name] = switch.pairs["enabled"]
    pairs["gateway"] = (line, YamlMapping(pairs=inner, line=gateway.line))


def _move(pairs: dict[str, tuple[int, YamlNode]], name: str, section: str, found: SettingsFindings) -> None:
    """Put a top-level pair into a section."""
    line, target = pairs.get(section, (pairs[name][0], YamlMapping(pairs={}, line=pairs[name][0])))
    inner = dict(target.pairs) if isinstance(target, YamlMapping) else {}
    if not isinstance(target, YamlMapping):
        not_a_section(section, target, found)
    inner[name] = _merged(pairs.pop(name), inner.get(name))
    pairs[section] = (line, YamlMapping(pairs=inner, line=line))


def not_a_section(path: str, node: YamlNode, found: SettingsFindings) -> None:
    """Report what stands where settings below a name should stand; an empty or reported node is fine."""
    if isinstance(node, YamlScalar) and (node.empty or node.unreadable):
        return
    kind = "a single value" if isinstance(node, YamlScalar) else "a list"
    found.problem(
        node.line,
        f"Below {path} must stand `name: value` lines, not {kind}.",
        "Write them indented on the lines below, or remove it.",
    )


def _merged(high: tuple[int, YamlNode] | None, low: tuple[int, YamlNode] | None) -> tuple[int, YamlNode]:
    """Both, the higher one winning key by key."""
    if high is None or low is None:
        present = high or low
        assert present is not None
        return present
    if isinstance(high[1], YamlScalar) and high[1].empty:
        return low
    if not isinstance(high[1], YamlMapping) or not isinstance(low[1], YamlMapping):
        return high
    pairs = dict(low[1].pairs)
    for name, pair in high[1].pairs.items():
        pairs[name] = _merged(pair, pairs.get(name))
    return high[0], YamlMapping(pairs=pairs, line=high[1].line)
