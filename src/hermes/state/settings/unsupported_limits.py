"""Settings that restrict what an agent may do and that nothing here honours. Whoever writes one counts on it,
so the gateway does not start with it. A value that restricts nothing, like an empty list, is let through."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from msgspec import Struct

from hermes.domain.ports.world import BACKENDS
from hermes.domain.settings.settings import AUTO
from hermes.domain.system.entry_points import entry_points
from hermes.domain.text import closest, one_line
from hermes.state.home.findings import SettingsFindings, is_slip
from hermes.state.settings.yaml_tree import YamlMapping as Tree
from hermes.state.settings.yaml_tree import YamlNode, YamlScalar

_OFF = frozenset({"", "null", "~", "none", "false", "no", "off", "0"})
_EITHER = _OFF | {"true", "yes", "on", "1"}
REMOVE = "Remove it, or do not run Hermes here."


class UnsupportedLimit(Struct, frozen=True, kw_only=True):
    """Why a setting would not hold, and the values of it that narrow nothing, or are honoured: the names of
    plugins in a `group`."""

    why: str
    harmless: frozenset[str] = _OFF
    group: str = ""

    def holds(self, value: str) -> bool:
        value = value.strip().lower()
        return value in self.harmless or bool(self.group and value in installed(self.group))


_LOCAL = frozenset({"", "local"})
_BACKEND = UnsupportedLimit(why="no such backend is installed", harmless=_LOCAL | {AUTO}, group=BACKENDS)
_HOST = UnsupportedLimit(why="commands run on this machine itself", harmless=_LOCAL)
_NO_SCANNER = "no scanner looks at commands"
_NO_SANDBOX = UnsupportedLimit(why="a sandbox is chosen by terminal.backend or routes[].backend")
_ABOVE = UnsupportedLimit(why="toolsets by platform stand in platform_toolsets, at the top")
_FOR_ALL = UnsupportedLimit(why="approvals are the same for all")
_AT_TOP = UnsupportedLimit(why="what may be reached is the same for all, and stands at the top")
NARROWING: Mapping[str, UnsupportedLimit] = {
    "terminal.backend": _BACKEND,
    "terminal.env_type": _HOST,
    "sandbox": _NO_SANDBOX,
    "container": _NO_SANDBOX,
    "docker": _NO_SANDBOX,
    "security.tirith_enabled": UnsupportedLimit(why=_NO_SCANNER),
    "security.tirith_fail_open": UnsupportedLimit(why=_NO_SCANNER, harmless=frozenset({"", "true"})),
    "security.website_blocklist.enabled": UnsupportedLimit(why="it must be true or false", harmless=_EITHER),
    "privacy": UnsupportedLimit(why="nothing personal is taken out of what a model is told"),
}
"""By dotted name; one covers everything below it."""
_TOOLSETS = ("toolsets", "enabled_toolsets", "disabled_toolsets", "platform_toolsets")
OF_ONE: Mapping[str, Mapping[str, UnsupportedLimit]] = {
    "agents": {"backend": _BACKEND, "platform_toolsets": _ABOVE},
    "platforms": {"approvals": _FOR_ALL, **dict.fromkeys(_TOOLSETS, _ABOVE)},
}
"""Further ones that narrow nothing where they stand for one agent or one platform."""
_NOT_HERE = {
    "terminal.backend": _HOST,
    "security.allowed_hosts": _AT_TOP,
    "security.website_blocklist.enabled": _AT_TOP,
}
"""Those that count at the top alone."""
_NO_SECTION = UnsupportedLimit(why="settings stand below this name, so the value counts for nothing")
_SLIP = "its name is misspelled; “{}” may be meant"
_SECURITY = UnsupportedLimit(why="it is not known here")
_KNOWN_SECURITY = """redact_secrets allow_private_urls allow_lazy_installs tirith_enabled tirith_fail_open
    tirith_path tirith_timeout website_blocklist private_hosts allowed_hosts egress_proxy broker"""
SECURITY_KNOWN = frozenset(_KNOWN_SECURITY.split())
"""What is known below `security`; anything else there is taken for a limit."""
VARIABLES: Mapping[str, UnsupportedLimit] = {
    "TERMINAL_ENV": _BACKEND,
    "HERMES_WRITE_SAFE_ROOT": UnsupportedLimit(why="files may be written elsewhere too"),
}


def installed(group: str) -> Collection[str]:
    """The names of plugins; nothing of them is imported."""
    return {entry.name for entry in entry_points(group)}


def stop_at_limits(root: Tree, findings: SettingsFindings) -> None:
    """Report every one of them: at top level, under `gateway`, for an agent or for a platform."""
    for prefix, tree in _places(root):
        own = dict(OF_ONE.get(prefix.partition(".")[0], {}))
        own |= _NOT_HERE if prefix else {}
        for name, narrowing in {**NARROWING, **own}.items():
            _check(tree, prefix, name.split("."), narrowing, findings)
        security = tree.get("security")
        for name in security.pairs if isinstance(security, Tree) else ():
            if name not in SECURITY_KNOWN:
                _check(tree, prefix, ["security", name], _SECURITY, findings)


def stop_at_variable(name: str, value: str, line: int | None, findings: SettingsFindings) -> None:
    narrowing = VARIABLES.get(name)
    if narrowing is not None and not narrowing.holds(value):
        _tell(name, line, narrowing, findings, value)


def _places(root: Tree) -> Iterator[tuple[str, Tree]]:
    yield "", root
    gateway = root.get("gateway")
    if isinstance(gateway, Tree):
        yield "gateway.", gateway
    for section in ("agents", "platforms"):
        below = root.get(section)
        for name, (_, tree) in below.pairs.items() if isinstance(below, Tree) else ():
            if isinstance(tree, Tree):
                yield f"{section}.{name}.", tree


def _check(
    tree: Tree, prefix: str, parts: list[str], narrowing: UnsupportedLimit, findings: SettingsFindings
) -> None:
    """Report the setting, also under a misspelled name, and what stands in place of its section."""
    for name, (line, node) in tree.pairs.items():
        if name != parts[0]:
            if not is_slip(name, parts[0]):
                continue
            # Under another name nothing honours it, whatever is installed.
            narrowing = UnsupportedLimit(why=_SLIP.format(parts[0]), harmless=narrowing.harmless)
        if len(parts) == 1:
            if _narrows(node, narrowing.holds):
                value = node.text if isinstance(node, YamlScalar) else ""
                _tell(prefix + name, line, narrowing, findings, value)
        elif isinstance(node, Tree):
            _check(node, f"{prefix}{name}.", parts[1:], narrowing, findings)
        elif _narrows(node, lambda text: not text.strip()):
            _tell(prefix + name, line, _NO_SECTION, findings)


def _narrows(node: YamlNode, holds: Callable[[str], bool]) -> bool:
    if isinstance(node, YamlScalar):
        return not node.empty and not holds(node.text)
    return any(_narrows(child, holds) for child in node.children())


def _tell(
    name: str, line: int | None, narrowing: UnsupportedLimit, findings: SettingsFindings, value: str = ""
) -> None:
    message = f"“{one_line(name)}” is a limit that does not hold here: {narrowing.why}."
    if not any(stop.line == line and stop.message == message for stop in findings.stops):
        findings.stop(line, message, _instead(narrowing, value))


def _instead(narrowing: UnsupportedLimit, value: str) -> str:
    """The names that would hold, the nearest one first."""
    names = sorted({*narrowing.harmless, *installed(narrowing.group)} - {""}) if narrowing.group else []
    if not names:
        return REMOVE
    near = closest(value.strip().lower(), names)
    meant = f"Did you mean “{near}”? " if near else ""
    return f"{meant}There are: {', '.join(names)}."
