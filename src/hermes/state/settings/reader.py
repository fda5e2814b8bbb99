"""From the tree of `config.yaml` to typed settings: what is checked in each table beyond the types of its
fields. Where a default would widen rights, what was written wrongly denies instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from hermes.domain.chats.address import SourceKind
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.models.providers import find_provider
from hermes.domain.settings import settings as declared
from hermes.domain.settings.agents import SUBAGENT
from hermes.domain.settings.budgets import AgentBudget, Budget
from hermes.domain.settings.declaring import NONE_LISTED
from hermes.domain.settings.egress import BrokeredSecret
from hermes.domain.settings.fallback import FallbackEntry, PoolSettings
from hermes.domain.settings.manner import (
    Personality,
    PlatformDisplay,
    PlatformHint,
    ReasoningOverride,
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
)
from hermes.state.settings.platform_reader import PlatformReader
from hermes.state.settings.section_reader import Entry
from hermes.state.settings.value_reader import TABLES, is_blank
from hermes.state.settings.yaml_tree import YamlList, YamlMapping, YamlNode, YamlScalar

OLDER_KINDS = {"dm": "private", "forum": "thread"}
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_CAPITAL = re.compile("(?<=[a-z0-9])[A-Z]")
OLDER_PROVIDER_KEYS = {
    "url": "base_url",
    "api": "base_url",
    "default_model": "model",
    "headers": "extra_headers",
}


class SettingsReader(PlatformReader):
    """Reads one file."""

    def __init__(
        self, findings: SettingsFindings, platforms: frozenset[str], variable: Callable[[str], str | None]
    ) -> None:
        super().__init__(findings, platforms, variable)
        self.agents: dict[str, declared.HostedAgent] = {}
        self.lists = {FallbackEntry: self.fallbacks, declared.Route: self.routes}
        self.entries = {
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

    def agent(self, name: str, line: int, node: YamlNode, path: str) -> Entry:
        if not declared.is_name(name):
            message = f"An agent cannot be called “{one_line(name)}”."
            self.findings.problem(line, message, f"Use {declared.NAME_RULE}.")
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
        hint = f"Did you mean “{meant}”?" if meant else "Declare it under `agents:`, or take it out here."
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
        lacks = [name for name in ("match", "agent") if name not in pairs or is_blank(pairs[name][1])]
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
