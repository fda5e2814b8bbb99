"""From the tree of `config.yaml` to typed settings. Whatever is wrong becomes a problem with its line and
counts as its default; where a default would widen rights, what was written wrongly denies instead."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

from hermes.domain.chats.address import SourceKind, account_problem
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.models.providers import find_provider
from hermes.domain.settings import settings as declared
from hermes.domain.settings.agents import SUBAGENT
from hermes.domain.settings.budgets import AgentBudget, Budget
from hermes.domain.settings.declaring import NONE_LISTED, Secret, Section, is_section
from hermes.domain.settings.egress import BrokeredSecret
from hermes.domain.settings.fallback import FallbackEntry, PoolSettings
from hermes.domain.settings.manner import (
    HumanDelay,
    Personality,
    PlatformDisplay,
    PlatformHint,
    ReasoningOverride,
    RuntimeFooter,
)
from hermes.domain.settings.mcp import MCP_NAME, McpServer
from hermes.domain.settings.platforms import ApiKey, PlatformSettings
from hermes.domain.settings.providers import ProviderModel, ProviderSettings
from hermes.domain.settings.skills import PlatformSkills
from hermes.domain.system.entry_points import entry_points
from hermes.domain.text import one_line
from hermes.domain.word import replace
from hermes.state.home.findings import SettingsFindings, nearest
from hermes.state.settings import values
from hermes.state.settings.key_places import not_a_section
from hermes.state.settings.names import (
    AUXILIARY,
    LATER,
    PLATFORM_FIELDS,
    PLATFORM_KEYS,
    VERSION_KEY,
    field_of,
    is_key_like,
    is_later,
    own_keys,
)
from hermes.state.settings.secrets import looks_like_placeholder, password_in
from hermes.state.settings.yaml_tree import YamlList, YamlMapping, YamlNode, YamlScalar

S = TypeVar("S", bound=Section)
API_SERVER = "api_server"
_HTTP_KEYS = own_keys(API_SERVER, ())
_TABLES = """agents auxiliary budgets models providers platforms quick_commands reset_by_type
    reset_by_platform routes platform_toolsets fallback_providers
    credential_pool_strategies mcp_servers"""
TABLES = tuple(_TABLES.split())
"""Settings that hold any number of sections, in the order of reading: others name agents."""
_VOIDED = frozenset(("models", "quick_commands", "auxiliary", "providers", "mcp_servers"))
_LIMITS = frozenset(
    knob.name
    for section in (declared.Settings, PlatformSettings, *values.sections(declared.Settings).values())
    for knob in values.knobs(section).values()
    if knob.about.instead is not None
) | {"platform_toolsets"}
OLDER_KINDS = {"dm": "private", "forum": "thread"}
_SHORT: dict[type, str] = {
    Personality: "system_prompt",
    PlatformHint: "append",
    ReasoningOverride: "effort",
    HumanDelay: "mode",
    RuntimeFooter: "enabled",
}
"""Sections that may be written as the value of one field."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_SECRET_HEADERS = frozenset({"Authorization", "authorization", "Cookie", "cookie"})
_CAPITAL = re.compile("(?<=[a-z0-9])[A-Z]")
OLDER_PROVIDER_KEYS = {
    "url": "base_url",
    "api": "base_url",
    "default_model": "model",
    "headers": "extra_headers",
}
_REFERENCE = re.compile(r"(\$?)\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
Entry = tuple[str, Any] | None
"""A section of a table under its name; None if it does not count."""
_DENY = frozenset({"approvals.deny", "approvals.ask"})
"""Lists of which nothing may get lost: `5` or an empty item in one was meant to be a command."""


def _is_blank(node: YamlNode, *, strict: bool = True) -> bool:
    """Whether nothing is said: nothing at all, or also an empty text or list if it is `strict`."""
    if isinstance(node, YamlScalar):
        return node.empty or (strict and not (node.text.strip() or node.unreadable))
    return isinstance(node, YamlList) and not node.items


def _is_text(item: YamlScalar, path: str) -> bool:
    if path not in _DENY or item.unreadable:
        return True
    return isinstance(values.typed(item, item.text), str) and bool(item.text.strip())


def _is_unknown(platform: str, key: str) -> bool:
    """Whether a block cannot have this key. What an adapter reads is its own business, unless the key looks
    like one that every platform has; the HTTP server's are all known."""
    if key in PLATFORM_KEYS or field_of(platform, key) in PLATFORM_FIELDS:
        return False
    return key not in _HTTP_KEYS if platform == API_SERVER else bool(nearest(key, [*PLATFORM_FIELDS]))


def known_keys() -> list[str]:
    """Every dotted key with a fixed name."""
    keys = list(values.knobs(declared.Settings))
    for name, section in values.sections(declared.Settings).items():
        keys += [f"{name}.{knob}" for knob in values.knobs(section)]
    return [*keys, *TABLES]


def is_lost_limit(path: str, meant: str) -> bool:
    """Whether an unknown key was to restrict. An agent whose toolsets cannot be read has none, and a key of
    the API no rights; elsewhere the limit would be dropped."""
    name = path.rpartition(".")[2]
    if ".keys." in path or (path.startswith("agents.") and "toolset" in name):
        return False
    return meant.rpartition(".")[2] in _LIMITS or (path.startswith("agents.") and name in PLATFORM_FIELDS)


def _remedy(error: values.WrongValue, path: str) -> str:
    """What to do, or what counts meanwhile: entries of some tables do not count at all with a mistake."""
    head = path.partition(".")[0]
    if head == "budgets" and not error.meant:
        return f"{values.MEANWHILE}nothing is spent where {one_line(path.rpartition('.')[0])} counts."
    voided = path.rpartition(".")[0] if head in _VOIDED else ""
    return (
        f"{values.MEANWHILE}{one_line(voided)} does not count."
        if voided and not error.meant
        else error.remedy
    )


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
    """Reads one file; `variable` answers `${NAME}`, `platforms` are the names that may have a block.

    One walk, led by the types of the settings classes: `read` reads whatever a field holds. What is checked
    beyond that in the entries of a table is in the methods that `_entry` names."""

    def __init__(
        self, findings: SettingsFindings, platforms: frozenset[str], variable: Callable[[str], str | None]
    ) -> None:
        self.findings = findings
        self.platforms = platforms
        self.variable = variable
        self.secrets: dict[str, str] = {}
        self.agents: dict[str, declared.HostedAgent] = {}
        self.lines: dict[str, int] = {}
        """Where each value stands."""
        self._entry: dict[type, Callable[[str, int, YamlNode, str], Entry]] = {
            declared.HostedAgent: self.agent,
            PlatformSettings: self.platform,
            ApiKey: self.api_key,
            declared.QuickCommand: self.quick_command,
            declared.ModelFactSettings: self.model_facts,
            declared.AuxiliaryModel: self.auxiliary_model,
            ProviderSettings: self.provider,
            ProviderModel: self.provider_model,
            declared.ResetSettings: self.reset,
            declared.PlatformToolsets: self.toolsets,
            declared.PluginOptions: self.plugin_options,
            PlatformSkills: self.platform_skills,
            BrokeredSecret: self.brokered,
            Budget: self.budget,
            PoolSettings: self.pool,
            McpServer: self.mcp_server,
            Personality: partial(self.plain_entry, Personality),
            PlatformHint: partial(self.of_platform, PlatformHint),
            PlatformDisplay: partial(self.of_platform, PlatformDisplay),
            ReasoningOverride: partial(self.plain_entry, ReasoningOverride),
        }

    def settings(self, root: YamlMapping) -> declared.Settings:
        given: dict[str, Any] = {}
        own, order = values.specs(declared.Settings), ("", *TABLES)
        siblings = [name for name in own if name not in TABLES] + [*values.knobs(declared.GatewaySettings)]
        siblings += [*self.platforms, *(key for key in LATER if "." not in key)]
        for name in sorted(root.pairs, key=lambda name: order.index(name if name in TABLES else "")):
            line, node = root.pairs[name]
            if name in own:
                given[name] = self.read(own[name], node, name)
            else:
                self.unknown(name, line, siblings)
        if "default_agent" in given:
            line = root.pairs["default_agent"][0]
            if not self.is_agent("default_agent", line, given["default_agent"], speaks=True):
                del given["default_agent"]
        for name, secret in given["security"].broker.items() if "security" in given else ():
            for agent in {*secret.agents} - {"*", *NONE_LISTED}:
                path = f"security.broker.{name}.agents"
                self.is_agent(path, self.lines.get(path, 1), agent)
        if "plugins" in given:
            self.check_plugins(given["plugins"])
        return declared.Settings(**given)

    def read(self, spec: values.SettingSpec, node: YamlNode, path: str) -> Any:
        """What one field holds."""
        if not is_section(spec.kind):
            return self.value(spec, node, path)
        if spec.holder is tuple:
            return self.fallbacks(node, path) if spec.kind is FallbackEntry else self.routes(node, path)
        return self.table(spec.kind, node, path) if spec.holder else self.section(spec.kind, node, path)

    def section(self, kind: type[S], node: YamlNode, path: str) -> S:
        """A settings class from the mapping that stands for it, or from the value of its main field."""
        short = _SHORT.get(kind)
        if short is not None and isinstance(node, YamlScalar) and not node.empty:
            node = YamlMapping(pairs={short: (node.line, node)}, line=node.line)
        return kind(**self.fields(kind, node, path))

    def fields(self, kind: type, node: YamlNode, path: str) -> dict[str, Any]:
        given: dict[str, Any] = {}
        own = values.specs(kind)
        for name, line, child in self.pairs(node, path):
            if name in own:
                given[name] = self.read(own[name], child, f"{path}.{name}")
            else:
                self.unknown(f"{path}.{name}", line, list(own))
        return given

    def table(self, kind: type, node: YamlNode, path: str) -> dict[str, Any]:
        """Sections under names of their own; those that do not count are left out."""
        entry = self._entry[kind]
        if kind is Budget and not (isinstance(node, YamlMapping) or _is_blank(node)):
            not_a_section(path, node, self.findings)
            return {declared.UNREADABLE: Budget(calls=0)}  # a limit that cannot be read denies
        entries = [entry(name, line, child, f"{path}.{name}") for name, line, child in self.pairs(node, path)]
        return dict(filter(None, entries))

    def pairs(self, node: YamlNode, path: str) -> Iterator[tuple[str, int, YamlNode]]:
        if isinstance(node, YamlMapping):
            for name, (line, child) in node.pairs.items():
                yield name, line, child
        else:
            not_a_section(path, node, self.findings)

    # --- what the entries of each table hold beyond their fields

    def agent(self, name: str, line: int, node: YamlNode, path: str) -> Entry:
        if not declared.is_name(name):
            message = f"An agent cannot be called “{one_line(name)}”."
            self.findings.problem(line, message, f"Use {declared.NAME_RULE}; some are reserved.")
            return None
        before, pairs = self.findings.count, dict(node.pairs) if isinstance(node, YamlMapping) else {}
        if "toolsets" in pairs and "enabled_toolsets" not in pairs:
            pairs["enabled_toolsets"] = pairs.pop("toolsets")
        at_line, budget = pairs.pop("budget", (line, None))
        if isinstance(node, YamlMapping):
            node = YamlMapping(pairs=pairs, line=node.line)
        agent = self.section(declared.HostedAgent, node, path)
        if any("toolset" in key for key in pairs) and self.findings.count > before:
            # "All toolsets" is the default; a list that cannot be read must not give an agent more.
            agent = replace(agent, enabled_toolsets=("none",))
        if budget is not None:
            agent = replace(agent, budget=self.own_budget(at_line, budget, f"{path}.budget"))
        if agent.mode == SUBAGENT and name == MAIN_AGENT:
            self.findings.problem(line, f"The agent main cannot be a {SUBAGENT}.", "Remove its mode.")
            agent = replace(agent, mode="all")
        if agent.home_dir and name == MAIN_AGENT:
            self.findings.problem(line, "The agent main lives in the home itself.", "Remove its home_dir.")
        self.agents[name] = agent
        return name, agent

    def is_agent(self, path: str, line: int, name: str, *, speaks: bool = False) -> bool:
        """Whether it is the name of an agent, that people may speak with if it must; if not, a problem."""
        if name in (MAIN_AGENT, *self.agents):
            alone = name in self.agents and self.agents[name].mode == SUBAGENT
            if speaks and alone:
                message = f"{path} names the agent “{name}”, a {SUBAGENT}, which people do not reach."
                self.findings.problem(line, message, f"Set agents.{name}.mode to all, or name another agent.")
            return not (speaks and alone)
        meant = nearest(name, [*self.agents, MAIN_AGENT])
        message = f"{path} names the agent “{one_line(name)}”, which is not declared."
        hint = f"Did you mean “{meant}”?" if meant else "Declare it under `agents:`."
        self.findings.problem(line, message, hint)
        return False

    def quick_command(self, name: str, line: int, node: YamlNode, path: str) -> Entry:
        """A command with a mistake in it does not count at all."""
        before = self.findings.count
        made = self.section(declared.QuickCommand, node, path)
        own = name.lower().replace("_", "-")
        if self.findings.count > before:
            return None
        if {"exec": made.command, "alias": made.target}.get(made.type) and declared.is_name(own):
            return own, made
        hint = "Write {type: exec, command: …} or {type: alias, target: /…} under a plain name."
        self.findings.problem(line, f"{one_line(path)} is no command.", hint)
        return None

    def model_facts(self, name: str, line: int, node: YamlNode, path: str) -> Entry:
        """Half of what is known of a model would be believed like the whole: a mistake voids it all."""
        before = self.findings.count
        facts = self.section(declared.ModelFactSettings, node, path)
        return None if self.findings.count > before else (name, facts)

    def auxiliary_model(self, name: str, line: int, node: YamlNode, path: str) -> Entry:
        """With a mistake in it the main model does this work, too."""
        if name not in AUXILIARY:
            self.unknown(path, line, list(AUXILIARY))
            return None
        before = self.findings.count
        model = self.section(declared.AuxiliaryModel, node, path)
        return None if self.findings.count > before else (AUXILIARY[name], model)

    def provider(self, name: str, line: int, node: YamlNode, path: str) -> Entry:
        """An endpoint half of which cannot be read could be reached in a way that nobody meant."""
        before = self.findings.count
        if isinstance(node, YamlMapping):
            node = YamlMapping(pairs=dict(self.snake_case(node, path)), line=node.line)
            at_line, models = node.pairs.get("models", (line, None))
            if isinstance(models, YamlList):
                names = [item for item in models.items if isinstance(item, YamlScalar)]
                listed = {item.text: (item.line, YamlScalar(text="", line=item.line)) for item in names}
                node.pairs["models"] = (at_line, YamlMapping(pairs=dict(listed), line=at_line))
        made = self.section(ProviderSettings, node, path)
        if self.findings.count > before:
            return None
        if not made.base_url and find_provider(name) is None:
            hint = "Give it a base_url."
            self.findings.problem(line, f"{one_line(path)} has no address.", hint)
            return None
        return name.strip().lower(), made

    def snake_case(self, node: YamlMapping, path: str) -> Iterator[tuple[str, tuple[int, YamlNode]]]:
        """Keys as `base_url`, also where they are written as `baseUrl`; `api` and `url` are older names."""
        for key, (line, child) in node.pairs.items():
            own = OLDER_PROVIDER_KEYS.get(key) or _CAPITAL.sub(lambda match: "_" + match[0].lower(), key)
            if own != key and own in values.specs(ProviderSettings):
                self.findings.note(
                    line, f"{one_line(path)}.{one_line(key)} is read as {own}.", f"Write {own}."
                )
                key = own
            yield key, (line, child)

    def provider_model(self, name: str, line: int, node: YamlNode, path: str) -> Entry:
        return name, self.section(ProviderModel, node, path)

    def reset(self, name: str, line: int, node: YamlNode, path: str) -> Entry:
        by_type = path.startswith("reset_by_type.")
        known = [kind.value for kind in SourceKind] if by_type else sorted(self.platforms)
        own = OLDER_KINDS.get(name, name)
        platform, at, account = own.partition("@")
        if platform not in known or (at and by_type):
            self.unknown(path, line, known)
        elif not (at and self.is_wrong_account(line, platform, account)):
            return own, self.section(declared.ResetSettings, node, path)
        return None

    def toolsets(self, name: str, line: int, node: YamlNode, path: str) -> Entry:
        """`telegram: [file, todo]`. A limit for a platform that there is not limits nothing, so it stops."""
        known = {*self.platforms, *declared.DOORS}
        if name.partition("@")[0] not in known:
            meant = nearest(name, sorted(known))
            message = f"platform_toolsets names “{one_line(name)}”, which is no platform."
            self.findings.stop(line, message, f"Did you mean “{meant}”?" if meant else "Remove it.")
            return None
        self.lines[path] = line
        inner = YamlMapping(pairs={"toolsets": (line, node)}, line=line)
        return name, self.section(declared.PlatformToolsets, inner, path)

    def platform_skills(self, name: str, line: int, node: YamlNode, path: str) -> Entry:
        """`telegram: [plan]`."""
        known = {*self.platforms, *declared.DOORS}
        if name.partition("@")[0] not in known:
            self.unknown(path, line, sorted(known))
            return None
        inner = YamlMapping(pairs={"disabled": (line, node)}, line=line)
        return name, self.section(PlatformSkills, inner, path)

    def plain_entry(self, kind: type[Any], name: str, line: int, node: YamlNode, path: str) -> Entry:
        """A section without rules of its own."""
        return name, self.section(kind, node, path)

    def of_platform(self, kind: type[Any], name: str, line: int, node: YamlNode, path: str) -> Entry:
        if name.partition("@")[0] not in {*self.platforms, *declared.DOORS}:
            self.no_such_platform(line, name)
            return None
        return name, self.section(kind, node, path)

    def brokered(self, name: str, line: int, node: YamlNode, path: str) -> Entry:
        """Without a value or hosts there is nothing to put in, or nowhere; a mistake voids it all."""
        before = self.findings.count
        made = self.section(BrokeredSecret, node, path)
        named = _VARIABLE.fullmatch(made.variable or "X") is not None
        known = isinstance(node, YamlMapping) and node.pairs.keys() <= values.specs(BrokeredSecret).keys()
        if self.findings.count > before:
            return None
        if made.value and made.hosts and all(made.hosts) and named and known:
            return name, made
        hint = "Write {value: ${NAME}, hosts: [api.example.org], variable: NAME}."
        self.findings.problem(line, f"{one_line(path)} is no secret for the broker.", hint)
        return None

    def budget(self, name: str, line: int, node: YamlNode, path: str) -> Entry:
        """A limit that cannot be read denies: with a mistake in it, nothing more may be spent."""
        before = self.findings.count
        made = self.section(Budget, node, path)
        if made.dollars is made.tokens is made.calls is None and self.findings.count == before:
            hint = "Write {person: '*', per: day, dollars: 2}; tokens and calls can be limited, too."
            self.findings.problem(line, f"{one_line(path)} limits neither dollars, tokens nor calls.", hint)
        return name, made if self.findings.count == before else replace(made, calls=0)

    def own_budget(self, line: int, node: YamlNode, path: str) -> AgentBudget:
        """That of an agent, as `budget`."""
        before = self.findings.count
        made = self.section(AgentBudget, node, path)
        if made.of("") is None and self.findings.count == before:
            hint = "Write {per: day, dollars: 2}; tokens and calls can be limited, too."
            self.findings.problem(line, f"{one_line(path)} limits neither dollars, tokens nor calls.", hint)
        return made if self.findings.count == before else replace(made, calls=0)

    def plugin_options(self, name: str, line: int, node: YamlNode, path: str) -> Entry:
        if not isinstance(node, YamlMapping):
            not_a_section(path, node, self.findings)
            return None
        flat: dict[str, Any] = {"extra": {}, "secrets": {}}
        return name, declared.PluginOptions(values=self.own_key(flat, name, node, path, name))

    def check_plugins(self, chosen: declared.PluginSettings) -> None:
        """A name that no plugin has. It may belong to one that is not installed here; if it looks like one
        that is, that one was meant, and would be used though it is disabled."""
        entries = entry_points()
        installed = {entry.package for entry in entries}
        installed |= {f"{entry.group.removeprefix('hermes.')}:{entry.name}" for entry in entries}
        for key, names in (("enabled", chosen.enabled), ("disabled", chosen.disabled)):
            for name in sorted({*names} - {"*", *NONE_LISTED, *installed}):
                meant = nearest(name, sorted(installed))
                tell = self.findings.problem if meant else self.findings.note
                message = f"plugins.{key} names “{one_line(name)}”, which is not installed."
                hint = f"Did you mean “{meant}”?" if meant else "`hermes plugins list` names those that are."
                tell(self.lines[f"plugins.{key}"], message, hint)

    def is_wrong_account(self, line: int, platform: str, account: str) -> bool:
        """Whether no account can be called so, which is a problem."""
        problem = account_problem(platform, account)
        if problem is not None:
            self.findings.problem(line, problem.message, problem.hint)
        return problem is not None

    def api_key(self, name: str, line: int, node: YamlNode, path: str) -> Entry:
        """`name: secret`, or `name: {key: …, scopes: …, agents: …}`. Its rights are a limit: whatever is
        empty, unknown or unreadable leaves the key without any, never with the default ones."""
        before = self.findings.count
        if isinstance(node, YamlScalar) and not node.empty:
            node = YamlMapping(pairs={"key": (line, node)}, line=line)
        made = self.section(ApiKey, node, path)
        for agent in made.agents or ():
            if made.agents != NONE_LISTED:
                self.is_agent(f"{path}.agents", self.lines[f"{path}.agents"], agent)
        wrong = self.findings.count > before
        return name, replace(made, scopes=NONE_LISTED, agents=NONE_LISTED) if wrong else made

    # --- models that answer instead of others

    def fallbacks(self, node: YamlNode, path: str) -> tuple[FallbackEntry, ...]:
        if not isinstance(node, YamlList) and not (isinstance(node, YamlScalar) and node.empty):
            self.findings.problem(
                node.line, f"{path} must be a list.", "Begin each model with “- provider:”."
            )
        items = node.items if isinstance(node, YamlList) else ()
        entries = (self.fallback(item, f"{path}[{number}]") for number, item in enumerate(items))
        return tuple(filter(None, entries))

    def fallback(self, node: YamlNode, path: str) -> FallbackEntry | None:
        before = self.findings.count
        entry = self.section(FallbackEntry, node, path)
        if self.findings.count > before:
            return None
        if entry.model and (entry.provider or entry.base_url):
            return entry
        remedy = "Write {provider: …, model: …}."
        self.findings.problem(node.line, f"{path} has no model, or no provider and no base_url.", remedy)
        return None

    def pool(self, name: str, line: int, node: YamlNode, path: str) -> Entry:
        """`openrouter: round_robin`."""
        spec = find_provider(name)
        inner = YamlMapping(pairs={"strategy": (line, node)}, line=line)
        return spec.id if spec else name, self.section(PoolSettings, inner, path)

    def mcp_server(self, name: str, line: int, node: YamlNode, path: str) -> Entry:
        before = self.findings.count
        server = self.section(McpServer, node, path)
        if self.findings.count > before:
            return None
        if not MCP_NAME.fullmatch(name):
            message = f"An MCP server cannot be called “{one_line(name)}”."
            self.findings.problem(line, message, "Use letters, digits, “-” and single “_”, at most 32.")
            return None
        if bool(server.command) == bool(server.url):
            hint = "Give it a command or a url, and not both."
            self.findings.problem(line, f"{one_line(path)} does not say which server it is.", hint)
            return None
        for agent in {*server.agents} - {*NONE_LISTED}:
            self.is_agent(f"{path}.agents", line, agent)
        return name, server

    # --- routes

    def routes(self, node: YamlNode, path: str) -> tuple[declared.Route, ...]:
        if isinstance(node, YamlList):
            read = [self.route(item, f"{path}[{number}]") for number, item in enumerate(node.items)]
            return tuple(filter(None, read))
        if not (isinstance(node, YamlScalar) and (node.empty or node.unreadable)):
            self.findings.stop(node.line, "routes must be a list.", "Begin each route with “- match:”.")
        return ()

    def route(self, node: YamlNode, path: str) -> declared.Route | None:
        """A route with a mistake in it would match more than was meant, or nothing: then nothing starts."""
        before, earlier = self.findings.count, len(self.findings.problems)
        given = self.fields(declared.Route, node, path)
        pairs = node.pairs if isinstance(node, YamlMapping) else {}
        lacks = [name for name in ("match", "agent") if name not in pairs or _is_blank(pairs[name][1])]
        if isinstance(given.get("agent"), str):
            self.is_agent(f"{path}.agent", pairs["agent"][0], given["agent"], speaks=True)
        if self.findings.count == before and lacks:
            remedy = "Write {match: {…}, agent: …}."
            self.findings.problem(node.line, f"{path} has no {lacks[-1]}.", remedy)
        platform = given["match"].platform if "match" in given else None
        if platform is not None and platform not in self.platforms:
            self.no_such_platform(self.lines[f"{path}.match.platform"], platform)
        if self.findings.count == before:
            return declared.Route(**given)
        self.findings.stop_for(earlier)
        return None

    def no_such_platform(self, line: int, name: str) -> None:
        platform, at, account = name.partition("@")
        meant = nearest(platform, sorted(self.platforms))
        remedy = f"Did you mean “{meant}{at}{account}”?" if meant else ""
        if platform in self.platforms:
            remedy = f"Write platform: {platform}, and account: {account} beside it."
        message = f"There is no platform “{one_line(name)}”."
        self.findings.problem(line, message, remedy or "Install the plugin that offers it, or remove it.")

    # --- platforms

    def platform(self, name: str, line: int, node: YamlNode, path: str) -> Entry:
        platform, at, account = name.partition("@")
        if platform not in self.platforms:
            self.no_such_platform(line, name)
        elif at and self.is_wrong_account(line, platform, account):
            return None
        if not isinstance(node, YamlMapping) and not (isinstance(node, YamlScalar) and node.empty):
            not_a_section(path, node, self.findings)
            return name, PlatformSettings(enabled=False)
        own = [*PLATFORM_FIELDS, *(_HTTP_KEYS if name == API_SERVER else ())]
        given: dict[str, Any] = {"extra": {}, "secrets": {}, "trees": {}}
        for key, at_line, child in self.pairs(node, path):
            if key == "extra":
                for inner, at_line, grandchild in self.pairs(child, f"{path}.extra"):
                    if name == API_SERVER and _is_unknown(name, inner):
                        self.unknown(f"{path}.extra.{inner}", at_line, own)
                    else:
                        self.platform_key(given, name, inner, grandchild, under_extra=True)
            elif key == "home_channel" and isinstance(child, YamlMapping):
                given |= self.home_channel(child, f"{path}.{key}")
            elif _is_unknown(name, key):
                self.unknown(f"{path}.{key}", at_line, own)
            else:
                self.platform_key(given, name, key, child)
        return name, PlatformSettings(**given)

    def platform_key(
        self, given: dict[str, Any], platform: str, name: str, node: YamlNode, *, under_extra: bool = False
    ) -> None:
        """Under `extra:` a name that every platform has does not replace what stands in the block itself."""
        path, meant = f"platforms.{platform}.{name}", field_of(platform, name)
        if name == "keys" and platform == API_SERVER:
            keys = self.table(ApiKey, node, path)
            given["keys"] = given.get("keys", keys) if under_extra else keys
        elif meant not in PLATFORM_FIELDS:
            tree = self.own_key(given, name, node, path, name)
            if not isinstance(node, YamlScalar):
                given["trees"][name] = tree
            if name == "model_routes" and isinstance(node, YamlMapping):
                self.check_model_routes(node, path)
        else:
            knob = PLATFORM_FIELDS[meant]
            value = self.value(knob, node, path)
            if under_extra:
                given.setdefault(meant, value)
            else:
                # A list under its older name adds to the one that stands beside it.
                given[meant] = (*given.get(meant, ()), *value) if knob.many else value

    def home_channel(self, node: YamlMapping, path: str) -> dict[str, str]:
        """`home_channel` as a mapping; Hermes Agent writes `platform` and `name` into it, too."""
        place: dict[str, str] = {}
        fields = {"chat_id": "home_channel", "thread_id": "home_thread"}
        for name, line, child in self.pairs(node, path):
            if name in fields:
                knob = PLATFORM_FIELDS[fields[name]]
                place[knob.name] = self.value(knob, child, f"{path}.{name}")
            elif name not in ("platform", "name"):
                self.unknown(f"{path}.{name}", line, [*fields, "platform", "name"])
        return place

    def check_model_routes(self, node: YamlMapping, path: str) -> None:
        """A name for a model leads to one."""
        for alias, (line, route) in node.pairs.items():
            model = route.get("model") if isinstance(route, YamlMapping) else None
            if not isinstance(model, YamlScalar) or model.empty:
                remedy = "Write {model: <name>}, or remove it."
                self.findings.problem(line, f"{path}.{one_line(alias)} names no model.", remedy)

    def own_key(self, given: dict[str, Any], name: str, node: YamlNode, path: str, last: str) -> Any:
        """Keep a platform's own key as text or as a secret, flattened; the result is the same as a tree.
        `last` is the last part of its name that is not a number."""
        if isinstance(node, YamlMapping):
            return {
                key: self.own_key(given, f"{name}.{key}", child, f"{path}.{key}", key)
                for key, (_, child) in node.pairs.items()
            }
        if isinstance(node, YamlList) and not all(isinstance(item, YamlScalar) for item in node.items):
            return [
                self.own_key(given, f"{name}.{number}", child, f"{path}.{number}", last)
                for number, child in enumerate(node.items)
            ]
        if isinstance(node, YamlList):
            items = [item for item in self.texts(node, path) or () if item]
            given["extra"][name] = ("\n" if any("," in item for item in items) else ",").join(items)
            return [self.leaf(item, last) for item in node.items if isinstance(item, YamlScalar)]
        if not node.empty and (text := self.text(node, path)) is not None:
            if is_key_like(name) or password_in(text):
                given["secrets"][name] = self.kept(path, node, Secret(text))
            else:
                given["extra"][name] = text
        return self.leaf(node, last)

    def leaf(self, node: YamlScalar, name: str) -> Any:
        """A scalar of a tree with its type. What is wrong with it has been reported."""
        text, missing = self.filled(node.text)
        wrong = node.unreadable or bool(missing)
        if is_key_like(name) or password_in(text):
            return Secret("" if wrong or node.empty or looks_like_placeholder(text) else text)
        return None if wrong else values.typed(node, text)

    # --- given

    def unknown(self, path: str, line: int, siblings: list[str]) -> None:
        label = one_line(path)
        if any(stop.line == line or f"“{label}." in stop.message for stop in self.findings.stops):
            return
        if path == VERSION_KEY:
            return  # `state/settings/migration.py` says what it means
        if is_later(path):
            self.findings.note(line, f"“{label}” is known, but not used yet.")
            return
        meant = "" if self.findings.full else suggestion(path, siblings)
        (self.findings.stop if is_lost_limit(path, meant) else self.findings.problem)(
            line,
            f"“{label}” is not a known setting.",
            f"Did you mean “{meant}”?" if meant else "Remove it.",
        )

    def value(self, knob: values.SettingSpec, node: YamlNode, path: str) -> Any:
        """The value of one field; the default where nothing or something wrong is said."""
        self.lines[path] = node.line
        try:
            value = self.checked_value(knob, node, path)
            if knob.about.if_empty and (value == () or _is_blank(node, strict=knob.many)):
                message = f"{path} is empty, {knob.about.if_empty}."
                self.findings.problem(node.line, message, "Give it a value, or remove the line.")
                return values.fallback(knob)
            return value
        except values.WrongValue as error:
            written = "a list" if isinstance(node, YamlList) else "a mapping"
            if isinstance(node, YamlScalar):
                written = f"“{one_line(node.text, 40)}”"
            if knob.many if isinstance(node, YamlList) else knob.kind is Secret:
                written = "this"
            message = f"{path} must be {error.expected}, not {written}."
            if path in _DENY:
                self.findings.stop(node.line, message, "Write each command as a text in quotes.")
            else:
                self.findings.problem(node.line, message, _remedy(error, path))
            return values.fallback(knob)

    def json_object(self, knob: values.SettingSpec, node: YamlMapping, path: str) -> str:
        """A mapping of any form, as JSON text. What looks like a credential in it is hidden in texts."""
        flat: dict[str, Any] = {"extra": {}, "secrets": {}}
        tree = self.own_key(flat, knob.name, node, path, knob.name)
        for name in tree.keys() & _SECRET_HEADERS:
            self.secrets[f"{path}.{name}"] = str(tree[name])
        return json.dumps(tree, default=lambda secret: secret.reveal(), ensure_ascii=False)

    def checked_value(self, knob: values.SettingSpec, node: YamlNode, path: str) -> Any:
        if knob.about.form == "json" and isinstance(node, YamlMapping):
            return self.json_object(knob, node, path)
        if isinstance(node, YamlList) and knob.many:
            if not all(isinstance(item, YamlScalar) and _is_text(item, path) for item in node.items):
                raise values.WrongValue(knob)
            texts = self.texts(node, path)
            return values.fallback(knob) if texts is None else values.checked(knob, texts)
        if not isinstance(node, YamlScalar):
            raise values.WrongValue(knob)
        if node.empty:
            return values.fallback(knob) if knob.about.empty_denies else knob.default
        if node.text and not _is_text(node, path):
            raise values.WrongValue(knob)
        text = self.text(node, path)
        if text is None:
            return values.fallback(knob)
        if not text and knob.kind is not str:
            return knob.default
        return self.kept(path, node, values.convert(knob, text))

    def text(self, node: YamlScalar, path: str) -> str | None:
        """The scalar's text with its `${NAME}`s filled in; nothing if one is not set."""
        if node.unreadable:
            self.findings.count += 1  # reported already
            return None
        text, missing = self.filled(node.text)
        if missing:
            message = f"{path} refers to ${{{missing[0]}}}, which is not set."
            self.findings.problem(node.line, message, f"Set {missing[0]} in .env or in the environment.")
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
        """A list of texts; nothing if one cannot be read, so that no half list counts."""
        items: list[str] = []
        for item in node.items:
            text = self.text(item, path) if isinstance(item, YamlScalar) else None
            if text is None:
                return None
            items.append(text.strip())
        return tuple(items)

    def kept(self, path: str, node: YamlScalar, value: Any) -> Any:
        """Remember a secret, so that it is taken out of every text; note one that is written openly."""
        if not isinstance(value, Secret) or not value:
            return value
        if looks_like_placeholder(value.reveal()):
            self.findings.problem(node.line, f"{path} is still a placeholder.", "Put in the real value.")
            return Secret("")
        self.secrets[path] = value.reveal()
        if "${" not in node.text:
            self.findings.note(
                node.line, f"{path} is a secret.", f"It is safer in .env: hermes config set {path} …"
            )
        return value
