"""Where keys may stand in `config.yaml`: gateway keys at top level or under `gateway:`, platform blocks in
three places, `model:` as a mere name. This puts each into its one place, before it is read."""

from __future__ import annotations

from hermes.domain.settings import settings as declared
from hermes.state.home.findings import SettingsFindings
from hermes.state.settings import values
from hermes.state.settings.yaml_tree import YamlList, YamlMapping, YamlNode, YamlScalar

Pair = tuple[int, YamlNode]
_ALSO_UNDER_GATEWAY = """group_sessions_per_user thread_sessions_per_user allowed_users allow_all_users
    unauthorized_dm_behavior streaming agents default_agent routes platforms session_reset reset_by_type
    reset_by_platform quick_commands toolsets platform_toolsets"""
ALSO_UNDER_GATEWAY = tuple(_ALSO_UNDER_GATEWAY.split())
"""Top-level keys that may stand under `gateway:` as well."""
ALIASES = {("model", "model"): "default", ("streaming", "mode"): "transport"}
"""Other names of keys. Saying how answers are streamed wants them streamed, which is the default."""
_SWITCH = "message_timestamps"
"""A key of the gateway that may be written as `name: {enabled: …}`."""
_VARIABLES = "docker_env"
"""A key of `terminal` that may be written as `{NAME: value}`."""


def arrange(root: YamlMapping, platforms: frozenset[str], findings: SettingsFindings) -> YamlMapping:
    """The same settings, each in its own place. `root` itself stays as it was read."""
    pairs = dict(root.pairs)
    gateway = _copied(pairs, "gateway")
    for name in ALSO_UNDER_GATEWAY:
        if name in gateway:
            pairs[name] = _merged(pairs.get(name), gateway.pop(name))
    blocks = sorted(name for name in pairs if name.partition("@")[0] in platforms)
    for section, names in (("gateway", [*values.knobs(declared.GatewaySettings)]), ("platforms", blocks)):
        for name in names:
            if name in pairs:
                _move(pairs, name, section, findings)
    _move_custom_providers(pairs, findings)
    _append_fallback_model(pairs)
    line, model = pairs.get("model", (1, None))
    if isinstance(model, YamlScalar) and not model.empty:
        pairs["model"] = (line, YamlMapping(pairs={"default": (line, model)}, line=line))
    for (section, alias), name in ALIASES.items():
        inner = _copied(pairs, section)
        if alias in inner:
            inner.setdefault(name, inner.pop(alias))
    gateway = _copied(pairs, "gateway")
    switch = gateway.get(_SWITCH, (1, None))[1]
    if isinstance(switch, YamlMapping) and switch.pairs.keys() == {"enabled"}:
        gateway[_SWITCH] = switch.pairs["enabled"]
    terminal = _copied(pairs, "terminal")
    if isinstance(variables := terminal.get(_VARIABLES, (1, None))[1], YamlMapping):
        terminal[_VARIABLES] = (variables.line, _assignments(variables))
    return YamlMapping(pairs=pairs, line=root.line)


def _move_custom_providers(pairs: dict[str, Pair], findings: SettingsFindings) -> None:
    """`custom_providers: [{name: …}]`, the older form of `providers: {name: …}`."""
    line, listed = pairs.get("custom_providers", (1, None))
    if not isinstance(listed, YamlList):
        return
    del pairs["custom_providers"]
    named: dict[str, Pair] = {}
    for item in listed.items:
        name = item.get("name") if isinstance(item, YamlMapping) else None
        if isinstance(name, YamlScalar) and name.text.strip():
            named[name.text.strip().lower().replace(" ", "-")] = (item.line, item)
        else:
            findings.problem(item.line, "A custom provider has no name.", "Begin it with “- name: …”.")
    pairs["providers"] = _merged(pairs.get("providers"), (line, YamlMapping(pairs=named, line=line)))


def _append_fallback_model(pairs: dict[str, Pair]) -> None:
    """`fallback_model: {…}`, the older form: one more entry of `fallback_providers`."""
    line, older = pairs.get("fallback_model", (1, None))
    if not isinstance(older, YamlMapping | YamlList):
        return
    del pairs["fallback_model"]
    more = older.items if isinstance(older, YamlList) else [older]
    _, listed = pairs.get("fallback_providers", (line, None))
    before = listed.items if isinstance(listed, YamlList) else [] if listed is None else [listed]
    pairs["fallback_providers"] = (line, YamlList(items=[*before, *more], line=line))


def _assignments(variables: YamlMapping) -> YamlNode:
    """`{NAME: value}` as a list of `NAME=value`; as it is if a value is no text."""
    items: list[YamlNode] = []
    for name, (line, value) in variables.pairs.items():
        if not isinstance(value, YamlScalar):
            return variables
        text = "" if value.empty else value.text
        items.append(YamlScalar(text=f"{name}={text}", line=line, plain=False, unreadable=value.unreadable))
    return YamlList(items=items, line=variables.line)


def _copied(pairs: dict[str, Pair], section: str) -> dict[str, Pair]:
    """The pairs of a section as a copy that may be changed in place; without a section, none."""
    line, node = pairs.get(section, (1, None))
    if not isinstance(node, YamlMapping):
        return {}
    inner = dict(node.pairs)
    pairs[section] = (line, YamlMapping(pairs=inner, line=node.line))
    return inner


def _move(pairs: dict[str, Pair], name: str, section: str, findings: SettingsFindings) -> None:
    """Put a top-level pair into a section."""
    pair = pairs.pop(name)
    line, target = pairs.get(section, (pair[0], YamlMapping(pairs={}, line=pair[0])))
    if not isinstance(target, YamlMapping):
        not_a_section(section, target, findings)
        target = YamlMapping(pairs={}, line=line)
    inner = target.pairs | {name: _merged(pair, target.pairs.get(name))}
    pairs[section] = (line, YamlMapping(pairs=inner, line=line))


def _merged(high: Pair | None, low: Pair | None) -> Pair:
    """Both, the higher one winning key by key. One of the two may be missing."""
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


def not_a_section(path: str, node: YamlNode, findings: SettingsFindings) -> None:
    """Report what is no mapping; empty is fine, and what is unreadable was reported already."""
    if isinstance(node, YamlScalar) and (node.empty or node.unreadable):
        findings.count += node.unreadable
        return
    kind = "a single value" if isinstance(node, YamlScalar) else "a list"
    message = f"Below {path} must stand `name: value` lines, not {kind}."
    findings.problem(node.line, message, "Write them indented on the lines below, or remove it.")
