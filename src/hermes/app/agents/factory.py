"""The agents of a gateway: the runtime of each, with its model, tools, backend, prompt and loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct

from hermes import plugins
from hermes.agent.context.compress import Compressor
from hermes.agent.context.prompt import IDENTITY
from hermes.agent.run.loop import AgentLoop, LoopLimits
from hermes.agent.tools.code import CodeRules
from hermes.agent.tools.delegate import Delegation
from hermes.agent.tools.folder_notes import FolderNotes
from hermes.agent.tools.registry import (
    CommandRules,
    JobActions,
    MemoryBook,
    ProcessNews,
    Recall,
    SkillBook,
    SudoPassword,
)
from hermes.agent.tools.trail import SessionTrail
from hermes.app.agents.agent_backends import AgentBackends, BoundAgent
from hermes.app.agents.backends import GatewayBackends
from hermes.app.agents.checkpoints import CheckpointStores
from hermes.app.agents.compression import make_compressor
from hermes.app.agents.manner import AgentManner
from hermes.app.agents.mcp import mcp_limits, mcp_sources
from hermes.app.agents.media import AgentMedia, check_media
from hermes.app.agents.memory import AgentMemory
from hermes.app.agents.memory_provider import ProviderMemory
from hermes.app.agents.models import AgentModels
from hermes.app.agents.process_news import AppProcessNews
from hermes.app.agents.prompt import BUILT_IN, SystemPrompt, make_memories
from hermes.app.agents.redaction import redacting
from hermes.app.agents.references import AgentReferences
from hermes.app.agents.registry import AgentRegistry
from hermes.app.agents.rewinding import AgentCheckpoints, able_to_rewind
from hermes.app.agents.skills import AgentSkills
from hermes.app.agents.sudo import SudoPasswords
from hermes.app.agents.terminal_settings import check_terminal
from hermes.app.agents.tools import OpenSources, TurnLimits, check_own_toolsets, check_toolsets, house_limits
from hermes.app.agents.world_scopes import WorldScopes, locks_of
from hermes.app.browser import AppBrowser
from hermes.app.egress import AppEgress
from hermes.app.homes import MEDIA, WORKSPACE, closed_homes
from hermes.app.jobs import HomeJobs, job_tool
from hermes.app.messaging import Messaging
from hermes.app.overrides import AppOverrides
from hermes.app.skill_hub import SkillHub
from hermes.control.chores import Chore
from hermes.control.core import Runtime
from hermes.control.gateway import Gateway
from hermes.control.hooks.dispatch import Hooks
from hermes.control.people.memory import person_of
from hermes.control.turn.gates import gate_tool
from hermes.control.turn.passwords import PasswordDesk
from hermes.control.workers import Supervisor
from hermes.domain.chats.address import Source
from hermes.domain.chats.channels import MessagingPort
from hermes.domain.clock import Clock
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.ports.agent import Memory, Provider
from hermes.domain.ports.browser import Browser
from hermes.domain.ports.house import House
from hermes.domain.ports.store import Store
from hermes.domain.ports.web import Web
from hermes.domain.ports.world import Backend, DocumentReader, Egress, Media, World
from hermes.domain.settings.live import LiveSettings
from hermes.domain.settings.settings import PluginOptions, Profile, Settings
from hermes.domain.tools.services import ToolServices
from hermes.domain.tools.tool import Tool
from hermes.domain.tools.toolbox import Toolbox, ToolSource
from hermes.domain.turns.session import Session
from hermes.domain.turns.turn import Cause, Turn
from hermes.domain.word import replace
from hermes.execution.documents.reader import DocumentProcess
from hermes.execution.house.home_assistant import HomeAssistantHouse
from hermes.execution.web.access import WebAccess
from hermes.state.files.media import MediaFiles
from hermes.state.home.homes import agent_home
from hermes.state.memory.files import write_first_soul
from hermes.state.settings.loader import LoadedSettings, check_agent_secrets
from hermes.state.settings.model_access import model_of
from hermes.state.store.tables.search import recall_from

log = logging.getLogger("hermes.app")


class AgentSurroundings(Struct, frozen=True, kw_only=True):
    """What agents are built with, whatever the settings say. `live` are the settings of now: approvals and
    what is withdrawn count at once, also for a turn that runs."""

    home: Path
    environ: Mapping[str, str]
    overrides: AppOverrides
    messaging: Messaging
    gateway: Callable[[], Gateway | None]
    stopping: Callable[[], bool]
    loops: Supervisor
    live: LiveSettings
    egress: AppEgress
    browser: AppBrowser


class AgentFactory:
    """Makes the runtimes of a gateway's agents, and owns what they share: models, routes, backends."""

    def __init__(self, around: AgentSurroundings, loaded: LoadedSettings) -> None:
        self._around = around
        self._loaded = loaded
        self._overrides = around.overrides
        self._documents = DocumentProcess()
        given = around.overrides
        home = None if given.in_memory else around.home
        self.models = AgentModels(loaded, given.provider, given.inject, given.clock, home)
        self.backends = GatewayBackends(
            around.environ, around.overrides.clock, lambda: around.live.now, around.overrides.probes
        )
        self.backends.lead_out = around.egress.lead_out
        self.backends.variable = self._variable
        self._before: AgentFactory | None = None
        self._retired = False
        self._closed: tuple[str, ...] = ()
        self._added = plugins.OfferedTools()
        self._sources: dict[AgentId, OpenSources] = {}
        self._providers: dict[AgentId, list[ProviderMemory]] = {}
        self._store: Store | None = None
        self._hooks = Hooks()

    async def close(self) -> None:
        """End what the agents hold, those of earlier generations too."""
        await self.retire()
        await self.backends.close()

    async def retire(self) -> None:
        """No turn works any more with agents that were built here; backends are their successors'."""
        self._retired = True
        ends = [sources.close() for sources in self._sources.values()]
        ends += [provider.close() for made in self._providers.values() for provider in made]
        if self._before is not None:
            ends.append(self._before.retire())
        await asyncio.gather(*ends)  # all at once, so that they take as long as the slowest
        self._sources, self._providers, self._before = {}, {}, None
        await self.models.close()

    async def release(self, agent: AgentId) -> bool:
        """Free what an agent holds that nobody needs now; False if it has something going on."""
        if not self.backends.is_idle(agent):
            return False
        sources = self._sources.pop(agent, None)
        if sources is not None:
            await sources.close()
        for provider in self._providers.pop(agent, ()):
            await provider.close()
        return True

    def look_again(self) -> None:
        """What the owner accepted of MCP servers may be other than it was."""
        for opened in self._sources.values():
            opened.look_again()

    async def succeed(self, loaded: LoadedSettings) -> tuple[AgentFactory, Runtime]:
        """The factory for another generation of settings, and the main agent that it built; a `UserError` if
        that cannot be. Commands and processes go on: an agent keeps its backend."""
        assert self._store is not None
        after = type(self)(self._around, loaded)
        after.backends = self.backends
        after._store, after._hooks = self._store, self._hooks
        try:
            await after.models.open()
            before = self.models.check(self.ids)
            for agent, error in after.models.check(after.ids).items():
                if agent not in before:  # a mistake with which the gateway works already is no reason
                    raise error
            await asyncio.to_thread(after._load)
            main = await after.build(MAIN_AGENT)
        except BaseException:
            await after.retire()
            raise
        after._before = self
        self.backends.variable = after._variable
        return after, main

    def _variable(self, agent: AgentId, name: str) -> str:
        return self._loaded.of(agent).variable(name)

    @property
    def ids(self) -> tuple[AgentId, ...]:
        return (MAIN_AGENT, *map(AgentId, self._loaded.settings.agents))

    def provider(self, profile: Profile, media: Media) -> Provider:
        return self.models.provider(profile, media)

    # --- agents ---

    async def open(self, store: Store, hooks: Hooks, chores: list[Chore]) -> AgentRegistry:
        """What the agents share, and the main one, without which there is no start; the others are built when
        they are needed."""
        self._store, self._hooks = store, hooks
        await self.models.open()
        await asyncio.to_thread(self._load)
        chores += self.backends.chores
        registry = AgentRegistry(self.ids, self.build, self.release)
        await registry.get(MAIN_AGENT)
        return registry

    def _load(self) -> None:
        """Reads plugins, so it runs in a thread."""
        settings = self._loaded.settings
        self._around.egress.check(settings)
        plugins.load_commands(settings.plugins)
        self._closed = closed_homes(self._around.home, self._around.environ, settings)
        if self._overrides.tools is None:
            self._added = plugins.tools(settings.plugins)
        check_toolsets(self._loaded, {*self._added.toolsets, *settings.mcp_servers})
        check_terminal(self._loaded, self._around.environ)
        check_media(self._loaded)
        self.backends.load()

    async def build(self, agent: AgentId) -> Runtime:
        assert self._store is not None
        await self.models.choose(agent, self._store)
        runtime, sources = await asyncio.to_thread(self._make, agent, self._store.scoped(agent))
        opened = OpenSources(toolbox=runtime.toolbox, sources=sources, loops=self._around.loops)
        if not self._retired:  # else somebody asked long ago, and only the next who asks gets to work
            self._sources[agent] = opened
            await opened.open()
        return runtime

    def _make(self, agent: AgentId, store: Store) -> tuple[Runtime, Mapping[str, ToolSource]]:
        """Makes folders, so it runs in a thread."""
        settings = self._loaded.settings
        home = agent_home(self._around.home, agent, settings)
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        if agent != MAIN_AGENT:
            check_agent_secrets(home)
        own = replace(settings.of(agent), model=model_of(agent, self._loaded))
        sources: dict[str, ToolSource] = {}
        return self._runtime(Profile(agent=agent, home=home, settings=own), store, sources), sources

    def _runtime(self, profile: Profile, store: Store, sources: dict[str, ToolSource]) -> Runtime:
        workspace, tools = self._made_workspace(profile.home), self._overrides.tools
        media = MediaFiles(profile.home / MEDIA, store, self._overrides.clock)
        backends = AgentBackends(profile, workspace, self.backends)
        backend, scopes = backends.backend, self._scopes(profile)
        memory, skills = self._memory(profile, store), self._skills(profile, backend)
        memories, provider = self._memories(memory, profile)
        engines = self._engines(profile, store, media)
        if tools is None:
            services = self._services(profile, store, backends, media, scopes).plus(MemoryBook, memory)
            services = engines.offered(services.plus(SkillBook, skills))
            tools = [*self.tools(services, sources), *(() if provider is None else provider.tools())]
            logins = self.models.credentials.store(profile.agent, profile.home)
            sources |= mcp_sources(profile, backends, media, logins, self._overrides.clock)
        checkpoints, tools = self._keeping(profile, store, backends, tools)
        toolbox = self._toolbox(profile, tools, skills)
        prompt = SystemPrompt(
            profile=profile,
            toolbox=toolbox,
            place=backends.place,
            files=backends.project_files,
            window=partial(self.models.window, profile.agent),
            model=self.models.name(profile.agent),
            clock=self._overrides.clock,
            memories=memories,
            conceal=self._loaded.secrets.conceal,
            skills=skills.catalogue,
        )
        memory.changed = prompt.forget
        now, clock = self._now(profile), self._overrides.clock
        before = None if provider is None else provider.before_compression
        compressor = make_compressor(profile.agent, self.models, lambda: now().compression, clock, before)
        loop = self._loop(profile, media, toolbox, prompt, compressor)
        return Runtime(
            profile=profile,
            agent=able_to_rewind(BoundAgent(loop, backends), checkpoints),
            checkpoints=checkpoints,
            store=store,
            model=self.models.title(profile),
            facts=partial(self.models.facts_of, profile.agent),
            title=self.models.titler(profile.agent, clock),
            describe=self.models.describer(profile.agent, clock),
            transcribe=engines.transcriber(),
            speak=engines.speaker(),
            prompt=prompt.freeze,
            compression=compressor,
            workspace=str(workspace),
            expand=self._references(profile, toolbox, backends).expand,
            person_notes=memory.person_notes,
            person=self._person,
            memory=memory,
            memory_provider=provider,
            skills=skills,
            toolbox=toolbox,
            media=media,
            jobs=None if self._overrides.in_memory else self._jobs(profile, backends),
            take_file=self._around.messaging.files(profile, backend, media, scopes),
            bring_file=backends.bring,
            processes=backends.processes,
        )

    def _made_workspace(self, home: Path) -> Path:
        workspace = self.workspace(home)
        if self._overrides.workspace is None and not workspace.exists():
            write_first_soul(home, IDENTITY)
        workspace.mkdir(mode=0o700, parents=True, exist_ok=True)
        return workspace

    def _engines(self, profile: Profile, store: Store, media: Media) -> AgentMedia:
        return AgentMedia(
            profile=profile,
            store=store,
            models=self.models,
            egress=self._around.egress.client(profile.agent),
            media=media,
            variable=self._loaded.of(profile.agent).variable,
        )

    def _loop(
        self,
        profile: Profile,
        media: Media,
        toolbox: Toolbox,
        prompt: SystemPrompt,
        compressor: Compressor | None,
    ) -> AgentLoop:
        settings, now, clock = profile.settings, self._now(profile), self._overrides.clock
        return AgentLoop(
            provider=self.provider(profile, media),
            toolbox=toolbox,
            model=prompt.model,
            system=lambda session: prompt.build(),
            clock=clock,
            facts=partial(self.models.facts_of, profile.agent),
            ask_model=partial(self.models.asker, profile.agent, clock),
            smart=lambda: now().approvals.mode == "smart",
            manner=AgentManner(self._around.live, profile.home, settings.prefill_messages_file),
            limits=LoopLimits(
                iterations=settings.agent.max_turns,
                retries=settings.agent.api_max_retries,
                guard=settings.tool_loop_guardrails,
                silence=settings.agent.gateway_timeout,
            ),
            link_hosts=lambda: settings.approvals.link_hosts,
            compressor=compressor,
            cache_ttl=settings.prompt_caching.cache_ttl,
        )

    def _memory(self, profile: Profile, store: Store) -> AgentMemory:
        return AgentMemory(
            profile, store, self._overrides.clock, self._now(profile), self._loaded.secrets.redact
        )

    def _skills(self, profile: Profile, backend: Backend) -> AgentSkills:
        """Reads files, so it runs in a thread."""
        now = self._now(profile)
        egress, clock = self._around.egress, self._overrides.clock
        hub = SkillHub(
            profile.home, lambda: now().skills, egress.client(profile.agent), egress.pin_host, clock
        )
        skills = AgentSkills(profile, now, clock, self._loaded.secrets.redact, hub.act)
        skills.backend = backend
        skills.recover()
        skills.scan()
        return skills

    def _memories(
        self, own: AgentMemory, profile: Profile
    ) -> tuple[dict[str, Memory], ProviderMemory | None]:
        memories = make_memories(own, profile, self._loaded.of(profile.agent))
        others = [(name, memory) for name, memory in memories.items() if name != BUILT_IN]
        if not others:
            return memories, None
        provider = ProviderMemory(*others[0], self._overrides.clock)
        self._providers.setdefault(profile.agent, []).append(provider)
        own.provider = provider
        return memories, provider

    def _person(self, turn: Turn) -> str | None:
        """What a turn of another's doing is told about people, it was told by whoever began it."""
        if turn.cause is Cause.CHILD:
            return None
        return person_of(turn.input.guidance.origin or turn.source, self._around.live.now)

    def _references(self, profile: Profile, toolbox: Toolbox, backends: AgentBackends) -> AgentReferences:
        return AgentReferences(
            toolbox=toolbox,
            backends=backends,
            egress=partial(self._around.egress.client, profile.agent),
            read=self._documents,
            facts=partial(self.models.facts_of, profile.agent),
        )

    def _jobs(self, profile: Profile, backends: AgentBackends) -> HomeJobs:
        return HomeJobs(profile.home, self._around.environ, backends, self._loaded.secrets.redact)

    def _keeping(
        self, profile: Profile, store: Store, backends: AgentBackends, tools: Sequence[Tool]
    ) -> tuple[AgentCheckpoints | None, Sequence[Tool]]:
        """The checkpoints of an agent, and its tools as they make some; none for a script."""
        if self._overrides.in_memory:
            return None, tools
        around, clock = self._around, self._overrides.clock
        stores = CheckpointStores(profile, store, clock, lambda: around.live.now.checkpoints, around.environ)

        async def place(source: Source, session: Session) -> World:
            return await backends.of_source(source, session.workspace, session.id).place()

        checkpoints = AgentCheckpoints(stores, backends.backend, backends.of, place)
        return checkpoints, checkpoints.dress(tools)

    def _scopes(self, profile: Profile) -> WorldScopes:
        now = self._now(profile)
        return WorldScopes(profile, self._closed, lambda: locks_of(now()))

    def _now(self, profile: Profile) -> Callable[[], Settings]:
        """The settings of this moment, as they count for the agent."""
        return partial(self._around.live.of, profile.agent)

    def workspace(self, home: Path) -> Path:
        return self._overrides.workspace or home / WORKSPACE

    def tools(self, services: ToolServices, sources: dict[str, ToolSource]) -> list[Tool]:
        """An agent's tools: those that Hermes brings along come first; what has a life of its own goes to the
        `sources`."""
        made_here: list[Tool] = []
        for name, make in self._added.makers.items():
            options = self._loaded.settings.plugins.entries.get(name) or PluginOptions()
            made = plugins.make_tools(name, make, services.plus(PluginOptions, options))
            if isinstance(made, Sequence):
                made_here += made
            else:
                sources[name] = made
        if self._loaded.settings.agent.context_files:
            made_here = FolderNotes(services.get(Backend)).dress(made_here)
        return [*made_here, *self._added.plain]

    def _services(
        self, profile: Profile, store: Store, backends: AgentBackends, media: Media, scopes: WorldScopes
    ) -> ToolServices:
        """What tools work with, whoever they come from."""
        now = self._now(profile)
        return ToolServices(
            {
                Backend: backends.backend,
                Egress: self._around.egress.client(profile.agent),
                DocumentReader: self._documents,
                Web: self._web(profile),
                House: self._house(),
                Browser: self._around.browser.of(profile.agent),
                Media: media,
                Profile: profile,
                Clock: self._overrides.clock,
                Recall: recall_from(store, profile.settings.timezone),
                CommandRules: CommandRules(
                    scope_in=scopes.of,
                    asks=lambda: now().approvals.mode != "off",
                    asks_all=backends.asks_all,
                    approvals=backends.approvals,
                    seconds=lambda: now().terminal.timeout,
                    trail=SessionTrail(store),
                ),
                Delegation: Delegation(
                    settings=lambda: now().delegation, agents=lambda: now().helpers_of(profile.agent)
                ),
                CodeRules: CodeRules(now=lambda: now().code_execution),
                ProcessNews: AppProcessNews(self._running_gateway, self._loaded.secrets.redact),
                SudoPassword: SudoPasswords(self._loaded.secrets, now, self._password_desk),
                JobActions: None if self._overrides.in_memory else job_tool(self._around.gateway),
                MessagingPort: self._around.messaging.office,
            }
        )

    def _web(self, profile: Profile) -> WebAccess:
        return WebAccess(
            settings=self._now(profile),
            key=self._loaded.of(profile.agent).variable,
            egress=self._around.egress.client(profile.agent),
            documents=self._documents,
            clock=self._overrides.clock,
        )

    def _house(self) -> HomeAssistantHouse | None:
        """The house of the gateway's Home Assistant account, if there is one."""

        def told(variable: str) -> str:
            secret = self._loaded.find("homeassistant", variable)
            return "" if secret is None else secret.reveal().strip()

        if not told("HASS_TOKEN"):
            return None
        usual = "http://homeassistant.local:8123"
        return HomeAssistantHouse(lambda: told("HASS_URL") or usual, lambda: told("HASS_TOKEN"))

    def _password_desk(self) -> PasswordDesk | None:
        gateway = self._around.gateway()
        return None if gateway is None else gateway.passwords

    def _toolbox(self, profile: Profile, tools: Sequence[Tool], skills: AgentSkills) -> Toolbox:
        limits = TurnLimits(
            settings=lambda: self._around.live.now, agent=profile.agent, main=self._overrides.toolsets
        )
        added = {
            *self._added.toolsets,
            *profile.settings.mcp_servers,
            *(tool.toolset for tool in tools if isinstance(tool, Tool)),
        }
        check_own_toolsets(self._loaded, limits.own(profile.settings), profile.agent, added)
        secrets = self._loaded.secrets
        toolbox = Toolbox(
            tools,
            limits=lambda session, source: (
                *limits(session, source),
                *skills.limits(source),
                *mcp_limits(lambda: self._around.live.now, source),
                *house_limits(self._around.live.now, session, source),
            ),
            dress=lambda tool: gate_tool(self._hooks, redacting(tool, secrets)),
            loading=profile.settings.tools.rule,
        )
        for name, fault in toolbox.problems.items():
            log.warning("tool.left_out agent=%s tool=%s: %s", profile.agent, name, fault)
        return toolbox

    def _running_gateway(self) -> Gateway | None:
        return None if self._around.stopping() else self._around.gateway()
