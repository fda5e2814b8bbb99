"""The composition root: one gateway on one home, put together from settings, store, agents and platforms.

Its life: read the settings → open the store → choose the models → start the gateway → connect the platforms,
each by a host of its own → run until told to stop → drain: turns reach a record, lanes empty, hosts
disconnect; then backends, the model client and the store close, in this order. Who may work on a home,
signals and logs are `admin.gateway`'s.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from hermes import plugins
from hermes.agent.context.images import ImageAttachingProvider
from hermes.agent.models.choose import NO_PROBE, ModelChoice
from hermes.agent.models.registry import Models
from hermes.agent.models.routes import ModelRoute, RoutedProvider
from hermes.agent.run.loop import AgentLoop, LoopLimits
from hermes.agent.tools import Workbench
from hermes.app.accounts import AccountFactory, rename_webhook_account
from hermes.app.homes import MEDIA, WORKSPACE, closed_homes, homes_for, is_wide, user_home
from hermes.app.hooks import AppHooks
from hermes.app.http import AppHttp
from hermes.app.import_jobs import take_over_jobs
from hermes.app.import_people import import_people
from hermes.app.jobs import HomeJobs, job_tool
from hermes.app.messaging import Messaging
from hermes.app.prompt import SystemPrompt
from hermes.app.real_models import keep_real_models
from hermes.app.store import StoreLifecycle
from hermes.app.tools import (
    Inject,
    InjectingProvider,
    Toolsets,
    added_tools,
    check_toolsets,
    limited_tools,
    own_tools,
    redacting,
)
from hermes.app.vitals import LiveStatus, StatusListener
from hermes.app.waking import ProcessNotifier
from hermes.control.chores import HOURLY, Chore
from hermes.control.commands.registry import GatewayInfo
from hermes.control.commands.tiers import tier_of
from hermes.control.gateway import STOP_SECONDS, Gateway
from hermes.control.hooks.dispatch import Hooks
from hermes.control.people.routing import agent_chooser
from hermes.control.runtime import Runtime
from hermes.control.turn.gates import gate_tools
from hermes.control.wiring import GatewayParts
from hermes.control.workers import Supervisor
from hermes.domain.address import read_platform
from hermes.domain.capabilities import Capabilities
from hermes.domain.clock import Clock, SystemClock, zone_named
from hermes.domain.errors import PRINTED, UserError
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.ports.agent import Provider
from hermes.domain.ports.platform import Platform
from hermes.domain.ports.store import Store
from hermes.domain.ports.world import Backend, Media
from hermes.domain.settings.settings import Profile, Settings
from hermes.domain.tool import Tool
from hermes.entry.host import AdapterHost, PlatformAccount
from hermes.entry.http.site.call import AgentFacts, Site
from hermes.entry.http.site.streams import Streams
from hermes.execution.local.backend import LocalBackend, LocalOptions
from hermes.state.files.aliases import ChannelAliases
from hermes.state.files.media import MediaFiles
from hermes.state.files.session_log import FOLDER as LOG_FOLDER
from hermes.state.files.session_log import SessionLogs
from hermes.state.home.homes import DATABASE_FILE, INSIDE, agent_home
from hermes.state.settings.loader import LoadedSettings, load_settings
from hermes.state.settings.models import model_of, model_routes
from hermes.state.store.connection import StoreOptions
from hermes.state.store.tables.search import recall_from
from hermes.state.store.writer import SqliteStore

log = logging.getLogger("hermes.app")


@dataclass(frozen=True, slots=True, kw_only=True)
class AppOverrides:
    """What a test or an embedding program brings along, instead of what settings and plugins say.

    `workspace` is where the agents' commands start, `toolsets` are the main agent's, `change` has the last
    word on the settings, `inject` on what a model is told, `in_memory` keeps nothing, and only where it
    `boots` do hooks hear of the start and BOOT.md runs."""

    provider: Provider | None = None
    tools: Sequence[Tool] | None = None
    platforms: Mapping[str, Platform] | None = None
    clock: Clock = field(default_factory=SystemClock)
    workspace: Path | None = None
    toolsets: Toolsets = field(default_factory=Toolsets)
    change: Callable[[Settings], Settings] | None = None
    inject: Inject | None = None
    in_memory: bool = False
    boots: bool = True


class App:
    """One gateway on one home, for a process that has the home to itself."""

    def __init__(
        self, home: Path, environ: Mapping[str, str], given: AppOverrides | None = None, version: str = ""
    ) -> None:
        self._home = home
        self._version = version
        self._environ = environ
        self._given = given or AppOverrides()
        self.restarting = False
        """Whether it was stopped in order to begin anew."""
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()
        self._manifests = plugins.platform_manifests() if self._given.platforms is None else ()
        names = [manifest.name for manifest in self._manifests]
        names += [read_platform(name)[0] for name in self._given.platforms or ()]
        self.loaded: LoadedSettings = load_settings(home, environ, platforms=names)
        if self._given.change is not None:
            self.loaded = replace(self.loaded, settings=self._given.change(self.loaded.settings))
        self._gateway: Gateway | None = None
        self._store: SqliteStore | None = None
        self._models = Models()
        self._choices: dict[AgentId, ModelChoice] = {}
        self._routes: dict[str, ModelRoute] = {}
        self._waking = ProcessNotifier(lambda: None if self._stop.is_set() else self._gateway)
        self._backends: list[Backend] = []
        self._chores: list[Chore] = []
        self._loops = Supervisor(self._given.clock)
        self._closed: tuple[str, ...] = ()
        self._hooks: AppHooks | None = None
        self._messaging = Messaging(home, environ, lambda: self.gateway.courier)

    @property
    def gateway(self) -> Gateway:
        """What doors talk to; there is one from `running` on."""
        assert self._gateway is not None, "the gateway has not started"
        return self._gateway

    @property
    def store(self) -> SqliteStore:
        assert self._store is not None, "the store is not open"
        return self._store

    @property
    def choice(self) -> ModelChoice:
        """The main agent's model; known from `running` on."""
        return self._choices.get(MAIN_AGENT) or ModelChoice.given(self.loaded.settings.model.default)

    @property
    def model_line(self) -> str:
        """One line: which model answers, and why."""
        return self.choice.line

    @property
    def display(self) -> dict[str, Any]:
        """What terminals must know of the settings."""
        shown = self.loaded.settings.display
        return {"tool_progress": shown.tool_progress, "show_reasoning": shown.show_reasoning}

    def stop(self) -> None:
        """Drain and end; called again, end without draining."""
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()

    def restart(self) -> None:
        """Drain and end, to begin anew; whoever runs this sees to that."""
        if not self._stop.is_set():
            self.restarting = True
            self._stop.set()

    async def live(self, watch: StatusListener) -> None:
        """Run until `stop`. What a person must mend first is raised as a `UserError`."""
        watch.tell("starting")
        try:
            if self.loaded.stops:
                raise self.loaded.stops[0]
            await self._with_store(watch)
        except UserError as error:
            log.error("app.failed why=%s", error, extra=PRINTED)
            watch.tell("startup_failed", exit_reason=str(error))
            raise
        why = "asked to restart" if self.restarting else "asked to stop"
        watch.tell("stopped", exit_reason=why, restart_requested=self.restarting)

    async def _with_store(self, watch: StatusListener) -> None:
        if self._given.in_memory:
            async with SqliteStore(None) as self._store:
                await self._serve(self._store, watch)
            return
        spare = self.loaded.settings.gateway.reserve_mb * 1024 * 1024
        keeper = StoreLifecycle(
            path=self._home / DATABASE_FILE,
            clock=self._given.clock,
            options=StoreOptions(reserve_bytes=spare),
            watch=watch,
            stopping=self._stop,
            hurrying=self._hurry,
            restart=self.restart,
            loops=self._loops,
        )
        self._store = await keeper.open()
        if self._store is None:
            return
        self._chores.append(keeper.chore)
        try:
            await self._serve(self._store, watch)
        finally:
            await keeper.close()

    async def _serve(self, store: SqliteStore, watch: StatusListener) -> None:
        logs = self._logs(store)
        writing = self._loops.keep("session logs", logs.live) if logs is not None else None
        try:
            await self._run(store, watch, logs)
        finally:
            if self._hooks is not None:
                await self._hooks.close()
            for backend in self._backends:
                await backend.close()
            await self._models.close()
            if writing is not None and logs is not None:
                writing.cancel()
                await asyncio.wait((writing,))
                await logs.write()

    def _command_info(self, settings: Settings) -> GatewayInfo:
        return GatewayInfo(
            is_admin=lambda source: tier_of(source, settings).owner,
            version=self._version,
            home=str(self._home),
            can_restart=self._given.boots,
            offered=lambda agent: self._models.offered.get(agent, ()),
        )

    async def _run(self, store: Store, watch: StatusListener, logs: SessionLogs | None) -> None:
        clock, settings = self._given.clock, self.loaded.settings
        vitals = LiveStatus(self._home, self.loaded, watch, self._loops)
        vitals.store = self.store.facts
        await self._choose(settings, store)
        if not self._given.in_memory:
            self._hooks = await asyncio.to_thread(AppHooks, self._home, self._environ, clock)
        runtimes = await asyncio.to_thread(self._runtimes, store, settings)
        accounts = self._accounts(store)
        parts = GatewayParts(
            store=store,
            runtimes=runtimes,
            settings=settings,
            clock=clock,
            loops=self._loops,
            capabilities=self._capabilities(),
            hooks=self._own_hooks,
            select=agent_chooser(self._own_hooks),
            owner=str(self._home),
            aliases={name: route.model for name, route in self._routes.items()},
            around=self._command_info(settings),
            restart=self.restart,
            chores=self._chores,
            accounts=[account.name for account in accounts],
            channel_names=ChannelAliases(self._home).read,
        )
        if logs is not None:
            parts = replace(parts, committed=logs.committed, forgotten=logs.forget)
        self._gateway = gateway = Gateway(parts)
        if not self._given.in_memory:
            await import_people(self._home, store)
        for runtime in runtimes.values() if not self._given.in_memory else ():
            await take_over_jobs(runtime, clock)
        await gateway.start()
        http = AppHttp(self._home, self.loaded, self._environ, vitals.tell_platform)
        if not self._given.in_memory:
            await http.open(self._door(gateway, runtimes, http, vitals))
        kept = {
            one.name: AdapterHost(one, gateway, clock, rename_webhook_account(vitals.tell_platform))
            for one in accounts
        }
        vitals.watch(kept, gateway)
        hosts = [self._loops.keep(name, host.live) for name, host in kept.items()]
        names = [account.name for account in accounts]
        told = {"agents": sorted(runtimes), "accounts": names, "api": http.address, **self._model_facts()}
        told |= {"workspace": str(self._workspace(runtimes[MAIN_AGENT].profile)), "display": self.display}
        hooks = self._hooks
        vitals.tell("running", **told, hooks=[] if hooks is None else hooks.facts())
        if hooks is not None and self._given.boots:
            hooks.begin(gateway, names, vitals.tell_hooks)
        try:
            await self._stop.wait()
        finally:
            vitals.tell("draining")
            http.drain()
            await self._drain(gateway, hosts)
            await http.close()

    @property
    def _own_hooks(self) -> Hooks:
        return Hooks() if self._hooks is None else self._hooks.hooks

    def _model_name(self, agent: AgentId, runtime: Runtime) -> str:
        choice = self._choices.get(agent)
        return runtime.profile.settings.model.default if choice is None else choice.model

    def _door(
        self, gateway: Gateway, runtimes: Mapping[AgentId, Runtime], http: AppHttp, vitals: LiveStatus
    ) -> Site:
        return Site(
            gateway=gateway,
            options=http.options(),
            facts=vitals.facts,
            clock=self._given.clock,
            default=self.loaded.settings.default_agent,
            agents={
                agent: AgentFacts(
                    agent=agent, model=self._model_name(agent, runtime), tools=tuple(runtime.tools)
                )
                for agent, runtime in runtimes.items()
            },
            version=self._version,
            aliases=gateway.aliases,
            streams=Streams(self._loops),
        )

    async def _drain(self, gateway: Gateway, hosts: list[asyncio.Task[None]]) -> None:
        grace = self.loaded.settings.agent.restart_drain_timeout
        stopping = asyncio.create_task(gateway.stop(grace, restarts=self.restarting), name="drain")
        hurrying = asyncio.create_task(self._hurry.wait(), name="hurry")
        await asyncio.wait((stopping, hurrying), return_when=asyncio.FIRST_COMPLETED)
        hurrying.cancel()
        if not stopping.done():
            log.warning("app.hurry: leaving at once; unfinished turns go on at the next start")
            gateway.hurry()
        for host in hosts:
            host.cancel()
        if hosts:
            await asyncio.wait(hosts, timeout=STOP_SECONDS)
        await stopping

    def _logs(self, store: SqliteStore) -> SessionLogs | None:
        if self._given.in_memory or not self.loaded.settings.sessions.write_json:
            return None
        return SessionLogs(self._home / LOG_FOLDER, store, self.loaded.secrets.redact)

    # --- models ---

    async def _choose(self, settings: Settings, store: Store) -> None:
        routes = model_routes(self.loaded)
        given = self._given.provider
        if given is not None:
            self._routes = {
                name: ModelRoute(provider=given, model=one.default) for name, one in routes.items()
            }
            return
        makers = await asyncio.to_thread(plugins.providers)
        self._models = Models(makers, probe=not self.loaded.variables.get(NO_PROBE))
        wanted = {
            agent: model_of(agent, self.loaded) for agent in (MAIN_AGENT, *map(AgentId, settings.agents))
        }
        chosen = {agent: await self._models.choose(model) for agent, model in wanted.items()}
        self._choices = await keep_real_models(store, chosen, wanted)
        self._routes = await self._models.routes(routes)
        refresh = partial(self._models.refresh, self._choices)
        self._chores.append(Chore(name="model list", every=HOURLY, run=refresh, first=30.0))
        log.info("model.chosen %s", self.model_line)

    def _model_facts(self) -> dict[str, str]:
        choice = self.choice
        return {
            "model": choice.line,
            "model_name": choice.model,
            "model_provider": choice.provider,
            "model_why": choice.why,
        }

    def _provider(self, profile: Profile, media: Media) -> Provider:
        provider = self._given.provider
        if provider is None:
            provider = self._models.provider(self._choices[profile.agent], profile.settings.model)
        provider = ImageAttachingProvider(RoutedProvider(provider, self._routes), media)
        return provider if self._given.inject is None else InjectingProvider(provider, self._given.inject)

    # --- agents ---

    def _runtimes(self, store: Store, settings: Settings) -> dict[AgentId, Runtime]:
        """Reads plugins and makes folders, so it runs beside the loop."""
        plugins.load_commands()
        self._closed = closed_homes(self._home, self._environ, settings)
        added = plugins.tools() if self._given.tools is None else ()
        check_toolsets(self.loaded, added)
        runtimes: dict[AgentId, Runtime] = {}
        for agent in (MAIN_AGENT, *map(AgentId, settings.agents)):
            try:
                home = agent_home(self._home, agent, settings)
                home.mkdir(mode=0o700, parents=True, exist_ok=True)
                own = replace(settings, model=model_of(agent, self.loaded))
                runtimes[agent] = self._runtime(
                    Profile(agent=agent, home=home, settings=own), store.scoped(agent), added
                )
            except (UserError, OSError) as error:
                if agent == MAIN_AGENT:
                    raise error if isinstance(error, UserError) else UserError(str(error)) from error
                log.error("agent.left_out agent=%s why=%s", agent, error)
        return runtimes

    def _runtime(self, profile: Profile, store: Store, added: Sequence[Tool]) -> Runtime:
        settings = profile.settings
        workspace = self._workspace(profile)
        workspace.mkdir(mode=0o700, parents=True, exist_ok=True)
        tools = self._given.tools
        backend: LocalBackend | None = None
        if tools is None:
            backend = LocalBackend(
                home=profile.home,
                environ={**self._environ, INSIDE: "1"},
                options=LocalOptions(workspace=workspace, passthrough=(INSIDE,)),
            )
            self._backends.append(backend)
            tools = self._tools(profile, store, backend, workspace, added)
        choice = self._choices.get(profile.agent)
        model = settings.model.default if choice is None else choice.model
        prompt = SystemPrompt(
            profile=profile,
            tools=[tool.name for tool in tools],
            workspace=workspace,
            model=model,
            clock=self._given.clock,
        )
        media = MediaFiles(profile.home / MEDIA, store, self._given.clock)
        loop = AgentLoop(
            provider=self._provider(profile, media),
            tools=gate_tools(self._own_hooks, redacting(tools, self.loaded.secrets.redact)),
            model=model,
            system=lambda session: prompt.build(),
            clock=self._given.clock,
            limits=LoopLimits(iterations=settings.agent.max_turns, retries=settings.agent.api_max_retries),
        )
        known_as = model if choice is None else f"{choice.model} ({choice.provider})"
        jobs = None if self._given.in_memory else HomeJobs(profile.home, self._environ, backend)
        return Runtime(
            profile=profile,
            agent=loop,
            store=store,
            model=known_as,
            prompt=prompt.current,
            tools=tools,
            media=media,
            jobs=jobs,
            take_file=self._messaging.files(profile, workspace, media, profile.home / MEDIA, self._closed),
            processes=None if backend is None else backend.processes.list,
        )

    def _workspace(self, profile: Profile) -> Path:
        return self._given.workspace or profile.home / WORKSPACE

    def _tools(
        self, profile: Profile, store: Store, backend: LocalBackend, workspace: Path, added: Sequence[Tool]
    ) -> list[Tool]:
        bench = Workbench(
            backend=backend,
            recall=recall_from(store, zone_named(profile.settings.timezone)),
            workspace=str(workspace),
            home=user_home(self._environ),
            wide=is_wide(workspace, self._environ),
            homes=homes_for(profile, workspace, self._closed),
            find_process=backend.processes.find,
            own_pids=(os.getpid(),),
            asks=profile.settings.approvals.mode != "off",
            deny=profile.settings.approvals.deny,
            ended=self._waking.tell_ended,
            jobs=None if self._given.in_memory else job_tool(lambda: self._gateway),
            post=self._messaging.office,
        )
        chosen = self._given.toolsets
        hosted = profile.settings.agents.get(profile.agent)
        if hosted is not None:
            chosen = Toolsets(enabled=hosted.enabled_toolsets, disabled=hosted.disabled_toolsets)
        return limited_tools(
            [*own_tools(bench, chosen, added), *added_tools(chosen, added)], profile.settings
        )

    # --- platforms ---

    def _capabilities(self) -> dict[str, Capabilities]:
        if self._given.platforms is not None:
            return {read_platform(name)[0]: one.capabilities for name, one in self._given.platforms.items()}
        return {manifest.name: manifest.capabilities for manifest in self._manifests}

    def _accounts(self, store: Store) -> list[PlatformAccount]:
        desk = AccountFactory(
            home=self._home,
            environ=self._environ,
            clock=self._given.clock,
            open_file=self._messaging.open,
        )
        if self._given.platforms is not None:
            return desk.given(store, self._given.platforms)
        return desk.declared(store, self._manifests, self.loaded)
