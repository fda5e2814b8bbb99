"""From the tree of `config.yaml` to typed settings. Whatever is wrong becomes a problem with its line and
counts as its default; where a default would widen rights, what was written wrongly denies instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from hermes.domain.address import SourceKind, account_problem
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.settings import (
    NAME_RULE,
    GatewaySettings,
    HostedAgent,
    QuickCommand,
    ResetSettings,
    Settings,
    is_name,
)
from hermes.domain.text import one_line
from hermes.state.settings.findings import SettingsFindings, nearest
from hermes.state.settings.http_keys import API_SERVER, read_api_keys
from hermes.state.settings.names import LATER, PLATFORM_KEYS, is_key_like, is_later, own_key
from hermes.state.settings.places import not_a_section
from hermes.state.settings.routes import read_routes
from hermes.state.settings.values import (
    SettingSpec,
    WrongValue,
    checked,
    convert,
    expected,
    knobs,
    sections,
    shown,
    typed,
)
from hermes.state.settings.yaml_tree import YamlList, YamlMapping, YamlNode, YamlScalar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

S = TypeVar("S", bound="DataclassInstance")
NO_TOOLSET = "none"
TABLES: dict[str, type] = {
    "agents": HostedAgent,
    "quick_commands": QuickCommand,
    "reset_by_type": ResetSettings,
    "reset_by_platform": ResetSettings,
}
"""Settings that hold any number of sections, each under a name of its own."""
_LIMITS = frozenset(
    knob.name
    for section in (Settings, PlatformSettings, *sections(Settings).values())
    for knob in knobs(section).values()
    if knob.about.instead is not None
)
_OF_PLATFORMS = frozenset(knobs(PlatformSettings))
_BY_VARIABLE = {
    variable.removeprefix("<P>_").lower(): knob.name
    for knob in knobs(PlatformSettings).values()
    for variable in knob.about.env
}
_OLDER_KINDS = {"dm": "private", "forum": "thread"}
_REFERENCE = re.compile(r"(\$?)\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_PASSWORD_IN_ADDRESS = re.compile(r"://[^/\s@:]*:([^/\s@]+)@")
_PLACEHOLDER = re.compile(
    r"<.*>|\[.*\]|x{3,}|\*+|\.{3,}|(?:sk-)?(?:your|my)[-_ ].*|change[-_ ]?me|placeholder|todo|.*[-_ ]here",
    re.IGNORECASE,
)
_DENY = "approvals.deny"
"""A list of which nothing may get lost: `5` or an empty item in it was meant to be a command."""


def _is_text(item: YamlScalar) -> bool:
    return item.unreadable or (isinstance(typed(item, item.text), str) and bool(item.text.strip()))


def password_in(value: str) -> str:
    """The password inside an address like `http://name:password@host`, if there is one."""
    found = _PASSWORD_IN_ADDRESS.search(value)
    return found[1] if found else ""


def looks_like_placeholder(value: str) -> bool:
    """Whether somebody copied an example and did not fill it in."""
    return _PLACEHOLDER.fullmatch(value.strip()) is not None


def fallback(knob: SettingSpec) -> Any:
    """What counts instead of a wrong value: the default, but a wrong `enabled` does not enable."""
    if knob.about.instead is not None:
        return knob.about.instead
    return False if knob.kind is bool and knob.default is None else knob.default


def known_keys() -> list[str]:
    """Every dotted key with a fixed name."""
    keys = list(knobs(Settings))
    for name, section in sections(Settings).items():
        keys += [f"{name}.{knob}" for knob in knobs(section)]
    return [*keys, "routes", "platforms", *TABLES]


def field_of(platform: str, key: str) -> str:
    """The field that a key of a block means: its own name, an older one, or one that its variables have."""
    meant = own_key(platform, key)
    return meant if meant in _OF_PLATFORMS else _BY_VARIABLE.get(key, meant)


def is_lost_limit(path: str, meant: str) -> bool:
    """Whether an unknown key was to restrict. An agent whose toolsets cannot be read has none, and a key of
    the API no rights; elsewhere the limit would be dropped."""
    name = path.rpartition(".")[2]
    if ".keys." in path or (path.startswith("agents.") and "toolset" in name):
        return False
    return meant.rpartition(".")[2] in _LIMITS or (path.startswith("agents.") and name in _OF_PLATFORMS)


def suggestion(path: str, siblings: list[str]) -> str:
    """The dotted key that was probably meant by an unknown one."""
    parent, _, name = path.rpartition(".")
    close = nearest(name, siblings)
    if close:
        return f"{parent}.{close}" if parent else close
    keys = known_keys()
    elsewhere = [key for key in keys if key.rpartition(".")[2] == name]
    return elsewhere[0] if elsewhere else nearest(path, keys)


class SettingsReader:
    """Reads one file; `variable` answers `${NAME}`, `platforms` are the names that may have a block."""

    def __init__(
        self, found: SettingsFindings, platforms: frozenset[str], variable: Callable[[str], str | None]
    ) -> None:
        self.found = found
        self.platforms = platforms
        self.variable = variable
        self.secrets: dict[str, str] = {}
        self.agent_names: tuple[str, ...] = ()
        self.lines: dict[str, int] = {}
        """Where each value stands."""

    def settings(self, root: YamlMapping) -> Settings:
        values: dict[str, Any] = {}
        own, inner = knobs(Settings), sections(Settings)
        for name, (line, node) in root.pairs.items():
            if name in own:
                values[name] = self.value(own[name], node, name)
            elif name in inner:
                values[name] = self.section(inner[name], node, name)
            elif name not in ("routes", "platforms", *TABLES):
                known = [*own, *inner, *knobs(GatewaySettings), *self.platforms]
                self.unknown(name, line, [*known, *(key for key in LATER if "." not in key)])
        agents = self.agents(root.get("agents"))
        self.agent_names = (MAIN_AGENT, *agents)
        values["platforms"] = self.blocks(root.get("platforms"))
        values["agents"] = agents
        values["quick_commands"] = self.quick_commands(root.get("quick_commands"))
        values["reset_by_type"] = self.resets(root.get("reset_by_type"), "reset_by_type")
        values["reset_by_platform"] = self.resets(root.get("reset_by_platform"), "reset_by_platform")
        values["routes"] = tuple(read_routes(self, root.get("routes"), agents))
        chosen = values.get("default_agent", MAIN_AGENT)
        if chosen not in (MAIN_AGENT, *agents):
            self.no_such_agent("default_agent", root.pairs["default_agent"][0], chosen, list(agents))
            values["default_agent"] = MAIN_AGENT
        return Settings(**values)

    def section(self, kind: type[S], node: YamlNode, path: str) -> S:
        """A settings class from the mapping that stands for it."""
        values: dict[str, Any] = {}
        own = knobs(kind)
        for name, line, child in self.pairs(node, path):
            if name in own:
                values[name] = self.value(own[name], child, f"{path}.{name}")
            else:
                self.unknown(f"{path}.{name}", line, list(own))
        return kind(**values)

    def pairs(self, node: YamlNode | None, path: str) -> Iterator[tuple[str, int, YamlNode]]:
        if isinstance(node, YamlMapping):
            for name, (line, child) in node.pairs.items():
                yield name, line, child
        elif node is not None:
            not_a_section(path, node, self.found)

    def unknown(self, path: str, line: int, siblings: list[str]) -> None:
        label = one_line(path)
        if any(stop.line == line or f"“{label}." in stop.message for stop in self.found.stops):
            return
        if is_later(path):
            self.found.note(line, f"“{label}” is known, but not used yet.")
            return
        meant = "" if self.found.full else suggestion(path, siblings)
        (self.found.stop if is_lost_limit(path, meant) else self.found.problem)(
            line,
            f"“{label}” is not a known setting.",
            f"Did you mean “{meant}”?" if meant else "Remove it.",
        )

    def value(self, knob: SettingSpec, node: YamlNode, path: str) -> Any:
        """The value of one field; the default where nothing or something wrong is said."""
        self.lines[path] = node.line
        try:
            if isinstance(node, YamlList) and knob.many:
                items = self.texts(node, path)
                return fallback(knob) if items is None else checked(knob, items)
            if not isinstance(node, YamlScalar):
                kind = "a list" if isinstance(node, YamlList) else "a mapping"
                return self.wrong(knob, path, node.line, kind, WrongValue(expected(knob)))
            if node.empty:
                return fallback(knob) if knob.about.empty_denies else knob.default
            if path == _DENY and not isinstance(typed(node, node.text), str):
                raise WrongValue(expected(knob))
            text = self.text(node, path)
            if text is None:
                return fallback(knob)
            if not text and knob.kind is not str:
                return knob.default
            return self.kept(path, node, convert(knob, text))
        except WrongValue as error:
            said = "this"
            if isinstance(node, YamlScalar) and knob.kind is not Secret:
                said = f"“{one_line(node.text, 40)}”"
            return self.wrong(knob, path, node.line, said, error)

    def wrong(self, knob: SettingSpec, path: str, line: int, said: str, error: WrongValue) -> Any:
        instead = fallback(knob)
        message = f"{path} must be {error.expected}, not {said}."
        if path == _DENY:
            self.found.stop(line, message, "Write each command as a text in quotes.")
            return instead
        self.found.problem(
            line,
            message,
            f"Did you mean “{error.meant}”?" if error.meant else f"For now it counts as {shown(instead)}.",
        )
        return instead

    def text(self, node: YamlScalar, path: str) -> str | None:
        """The scalar's text with its `${NAME}`s filled in; nothing if one is not set."""
        if node.unreadable:
            return None
        text, missing = self.filled(node.text)
        if missing:
            self.found.problem(
                node.line,
                f"{path} refers to ${{{missing[0]}}}, which is not set.",
                f"Set {missing[0]} in .env or in the environment.",
            )
            return None
        return text

    def filled(self, text: str) -> tuple[str, list[str]]:
        """A text with its `${NAME}`s filled in, and the names that are not set."""
        missing: list[str] = []

        def fill(reference: re.Match[str]) -> str:
            escaped, name, instead = reference.groups()
            if escaped:
                return reference[0][1:]
            value = self.variable(name) or instead
            if value is None:
                missing.append(name)
            return value or ""

        return _REFERENCE.sub(fill, text), missing

    def texts(self, node: YamlList, path: str) -> tuple[str, ...] | None:
        """A list of texts; one wrong item makes the whole list wrong, so that no half list counts."""
        items: list[str] = []
        for item in node.items:
            if not isinstance(item, YamlScalar) or (path == _DENY and not _is_text(item)):
                raise WrongValue("a list of texts")
            text = self.text(item, path)
            if text is None:
                return None
            items.append(text.strip())
        return tuple(items)

    def kept(self, path: str, node: YamlScalar, value: Any) -> Any:
        """Remember a secret, so that it is taken out of every text; note one that is written openly."""
        if not isinstance(value, Secret) or not value:
            return value
        if looks_like_placeholder(value.reveal()):
            self.found.problem(node.line, f"{path} is still a placeholder.", "Put in the real value.")
            return Secret("")
        self.secrets[path] = value.reveal()
        if "${" not in node.text:
            self.found.note(
                node.line, f"{path} is a secret.", f"It is safer in .env: hermes config set {path} …"
            )
        return value

    def agents(self, node: YamlNode | None) -> dict[str, HostedAgent]:
        agents: dict[str, HostedAgent] = {}
        homes: dict[str, str] = {}
        for name, line, child in self.pairs(node, "agents"):
            if not is_name(name):
                self.found.problem(
                    line,
                    f"An agent cannot be called “{one_line(name)}”.",
                    f"Use {NAME_RULE}; some are reserved.",
                )
                continue
            agent = self.agent(child, f"agents.{name}")
            if agent.home_dir and name == MAIN_AGENT:
                self.found.problem(line, "The agent main lives in the home itself.", "Remove its home_dir.")
            elif agent.home_dir and agent.home_dir in homes:
                self.found.problem(
                    line,
                    f"The agents {homes[agent.home_dir]} and {name} share one home_dir.",
                    "Give each a folder of its own.",
                )
            homes.setdefault(agent.home_dir, name)
            agents[name] = agent
        return agents

    def agent(self, node: YamlNode, path: str) -> HostedAgent:
        before = self.found.count
        agent = self.section(HostedAgent, node, path)
        toolsets = isinstance(node, YamlMapping) and any("toolset" in name for name in node.pairs)
        # "All toolsets" is the default; a list that cannot be read must not give an agent more.
        return (
            replace(agent, enabled_toolsets=(NO_TOOLSET,))
            if toolsets and self.found.count > before
            else agent
        )

    def resets(self, node: YamlNode | None, path: str) -> dict[str, ResetSettings]:
        known = [kind.value for kind in SourceKind] if path == "reset_by_type" else sorted(self.platforms)
        resets: dict[str, ResetSettings] = {}
        for name, line, child in self.pairs(node, path):
            own = _OLDER_KINDS.get(name, name)
            platform, at, account = own.partition("@")
            problem = account_problem(platform, account) if at else None
            if platform not in known or (at and path == "reset_by_type"):
                self.unknown(f"{path}.{name}", line, known)
            elif problem is not None:
                self.found.problem(line, problem.message, problem.hint)
            else:
                resets[own] = self.section(ResetSettings, child, f"{path}.{name}")
        return resets

    def quick_commands(self, node: YamlNode | None) -> dict[str, QuickCommand]:
        """A command with a mistake in it does not count at all."""
        commands: dict[str, QuickCommand] = {}
        for name, line, child in self.pairs(node, "quick_commands"):
            before, path = self.found.count, f"quick_commands.{name}"
            made = self.section(QuickCommand, child, path)
            own = name.lower().replace("_", "-")
            missing = {"exec": not made.command, "alias": not made.target}.get(made.type, True)
            if self.found.count > before:
                continue
            if missing or not is_name(own):
                self.found.problem(
                    line,
                    f"{one_line(path)} is no command.",
                    "Write {type: exec, command: …} or {type: alias, target: /…} under a plain name.",
                )
                continue
            commands[own] = made
        return commands

    def no_such_agent(self, path: str, line: int, name: str, agents: list[str]) -> None:
        meant = nearest(name, [*agents, MAIN_AGENT])
        self.found.problem(
            line,
            f"{path} names the agent “{one_line(name)}”, which is not declared.",
            f"Did you mean “{meant}”?" if meant else "Declare it under `agents:`.",
        )

    def no_such_platform(self, line: int, name: str) -> None:
        platform, at, account = name.partition("@")
        meant = nearest(platform, sorted(self.platforms))
        remedy = f"Did you mean “{meant}{at}{account}”?" if meant else ""
        if platform in self.platforms:
            remedy = f"Write platform: {platform}, and account: {account} beside it."
        self.found.problem(
            line,
            f"There is no platform “{one_line(name)}”.",
            remedy or "Install the plugin that offers it, or remove it.",
        )

    def blocks(self, node: YamlNode | None) -> dict[str, PlatformSettings]:
        blocks: dict[str, PlatformSettings] = {}
        for name, line, child in self.pairs(node, "platforms"):
            platform, at, account = name.partition("@")
            problem = account_problem(platform, account) if at else None
            if platform not in self.platforms:
                self.no_such_platform(line, name)
            elif problem is not None:
                self.found.problem(line, problem.message, problem.hint)
                continue
            blocks[name] = self.block(child, name)
        return blocks

    def block(self, node: YamlNode, platform: str) -> PlatformSettings:
        path = f"platforms.{platform}"
        if not isinstance(node, YamlMapping) and not (isinstance(node, YamlScalar) and node.empty):
            not_a_section(path, node, self.found)
            return PlatformSettings(enabled=False)
        own = knobs(PlatformSettings)
        values: dict[str, Any] = {"extra": {}, "secrets": {}, "trees": {}}
        for name, line, child in self.pairs(node, path):
            key = f"{path}.{name}"
            if name == "home_channel" and isinstance(child, YamlMapping):
                values |= self.home_channel(child, key)
            elif (meant := field_of(platform, name)) in own:
                said = self.value(own[meant], child, key)
                # A list under its older name adds to the one that stands beside it.
                values[meant] = (*values.get(meant, ()), *said) if own[meant].many else said
            elif name == "keys" and platform == API_SERVER:
                values["keys"] = read_api_keys(self, child, key)
            elif name == "extra":
                self.keep_extras(values, child, platform)
            elif name not in PLATFORM_KEYS and nearest(name, list(own)):
                self.unknown(key, line, list(own))
            else:
                self.keep_own(values, name, child, key)
        return PlatformSettings(**values)

    def keep_extras(self, values: dict[str, Any], node: YamlNode, platform: str) -> None:
        """What stands under `extra:`; a name that every platform has means the same there."""
        own = knobs(PlatformSettings)
        for name, _, child in self.pairs(node, f"platforms.{platform}.extra"):
            path, meant = f"platforms.{platform}.{name}", field_of(platform, name)
            if meant in own:
                values.setdefault(meant, self.value(own[meant], child, path))
            elif name == "keys" and platform == API_SERVER:
                values.setdefault("keys", read_api_keys(self, child, path))
            else:
                self.keep_own(values, name, child, path)

    def home_channel(self, node: YamlMapping, path: str) -> dict[str, str]:
        place: dict[str, str] = {}
        fields = {"chat_id": "home_channel", "thread_id": "home_thread", "platform": "", "name": ""}
        for name, line, child in self.pairs(node, path):
            if name not in fields:
                self.unknown(f"{path}.{name}", line, list(fields))
            elif fields[name]:
                place[fields[name]] = self.value(
                    knobs(PlatformSettings)[fields[name]], child, f"{path}.{name}"
                )
        return place

    def keep_own(self, values: dict[str, Any], name: str, node: YamlNode, path: str) -> None:
        """A platform's own key; one that holds more than a value is kept as a tree as well."""
        self.keep_extra(values, name, node, path)
        if not isinstance(node, YamlScalar):
            values["trees"][name] = self.tree(node, name)
        if name == "model_routes" and isinstance(node, YamlMapping):
            self.check_model_routes(node, path)

    def check_model_routes(self, node: YamlMapping, path: str) -> None:
        """A name for a model leads to one."""
        for alias, (line, said) in node.pairs.items():
            model = said.get("model") if isinstance(said, YamlMapping) else None
            if not isinstance(model, YamlScalar) or model.empty:
                remedy = "Write {model: <name>}, or remove it."
                self.found.problem(line, f"{path}.{one_line(alias)} names no model.", remedy)

    def tree(self, node: YamlNode, name: str) -> Any:
        """A node as it was written, with its types. Whatever is wrong in it was reported by `keep_extra`."""
        if isinstance(node, YamlMapping):
            return {inner: self.tree(child, inner) for inner, (_, child) in node.pairs.items()}
        if isinstance(node, YamlList):
            return [self.tree(item, name) for item in node.items]
        text, missing = self.filled(node.text)
        wrong = node.unreadable or bool(missing)
        if is_key_like(name) or password_in(text):
            return Secret("" if wrong or node.empty or looks_like_placeholder(text) else text)
        return None if wrong else typed(node, text)

    def keep_extra(self, values: dict[str, Any], name: str, node: YamlNode, path: str) -> None:
        """A platform's own key: a secret by its name, or text; collections are flattened."""
        if isinstance(node, YamlMapping):
            for inner, _, child in self.pairs(node, path):
                self.keep_extra(values, f"{name}.{inner}", child, f"{path}.{inner}")
        elif isinstance(node, YamlList):
            if all(isinstance(item, YamlScalar) for item in node.items):
                items = [item for item in self.texts(node, path) or () if item]
                values["extra"][name] = ("\n" if any("," in item for item in items) else ",").join(items)
                return
            for number, child in enumerate(node.items):
                self.keep_extra(values, f"{name}.{number}", child, f"{path}.{number}")
        elif not node.empty and (text := self.text(node, path)) is not None:
            if is_key_like(name) or password_in(text):
                values["secrets"][name] = self.kept(path, node, Secret(text))
            else:
                values["extra"][name] = text
