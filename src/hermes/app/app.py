"""The composition root: one gateway on one home, put together from settings, store, agents and platforms.

Its life: read the settings → open the store → choose the models → start the gateway → connect the platforms,
each by a host of its own → run until told to stop → drain: turns reach a record, lanes empty, hosts
disconnect; then backends, the model client and the store close, in this order. Who may work on a home,
signals and logs are in `admin/process/run.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from hermes import plugins
from hermes.agent.models.choose import ModelChoice
from hermes.app.accounts import AccountFactory, rename_webhook_account
from hermes.app.agents.factory import AgentFactory, AgentSurroundings
from hermes.app.agents.model_search import GatewayModels
from hermes.app.agents.registry import AgentRegistry
from hermes.app.backups import archiving
from hermes.app.browser import AppBrowser
from hermes.app.egress import AppEgress
from hermes.app.generations import SettingsGenerations, check_half_open, refusal
from hermes.app.hooks import AppHooks
from hermes.app.http import AppHttp
from hermes.app.imports import import_people, take_over_jobs
from hermes.app.messaging import Messaging
from hermes.app.overrides import AppOverrides
from hermes.app.store import StoreLifecycle
from hermes.app.vitals import LiveStatus, StatusListener
from hermes.control.chores import HOURLY, Chore
from hermes.control.commands.registry import GatewayInfo, tier_of
from hermes.control.events import Events
from hermes.control.gateway import STOP_SECONDS, Gateway
from hermes.control.hooks.dispatch import Hooks
from hermes.control.people.routing import agent_chooser
from hermes.control.sessions.retention import pruning
from hermes.control.wiring import GatewayParts
from hermes.control.workers import Supervisor, TaskSet
from hermes.domain.chats.address import read_platform
from hermes.domain.chats.capabilities import Capabilities
from hermes.domain.errors import PRINTED, HermesError, UserError, as_user_error
from hermes.domain.ids import MAIN_AGENT, AgentId, SessionId
from hermes.domain.ports.store import Store
from hermes.domain.safety.concealing import Concealing
from hermes.domain.settings.live import LiveSettings
from hermes.domain.turns.gateway_event import HandoffCompleted, RecordsStored, SessionRemoved
from hermes.domain.word import replace
from hermes.entry.host import AdapterHost, PlatformAccount
from hermes.entry.http.site.endpoint import Site
from hermes.entry.http.site.run_limits import RunLimits
from hermes.entry.http.site.streams import Streams
from hermes.entry.terminal.usage import ASKED_TO_STOP, UNUSED, GatewayUse
from hermes.state.files.aliases import ChannelAliases
from hermes.state.files.session_log import FOLDER as LOG_FOLDER
from hermes.state.files.session_log import SessionLogs
from hermes.state.home.homes import DATABASE_FILE
from hermes.state.settings.fingerprint import settings_fingerprint
from hermes.state.settings.loader import LoadedSettings, load_settings
from hermes.state.settings.names import PlatformNames
from hermes.state.store.sqlite import StoreOptions
from hermes.state.store.writer import SqliteStore

log = logging.getLogger("hermes.app")
_MODEL_LIST = "model list"
_SHOWN = (
    "tool_progress", "show_reasoning", "skin", "calm", "inline_diffs", "bell_on_complete", "show_cost",
    "timestamps", "editing_mode", "enter_key",
    "final_response_markdown",
)  # fmt: skip
"""What terminals must know of the settings."""


class App:
    """One gateway on one home, for a process that has the home to itself."""

    agent_factory = AgentFactory

    def __init__(
        self, home: Path, environ: Mapping[str, str], given: AppOverrides | None = None, version: str = ""
    ) -> None:
        self._home = home
        self._version = version
        self._environ = environ
        self._given = given or AppOverrides()
        self.restarting = False
        """Whether it was stopped in order to begin anew."""
        self.account_names: list[str] = []
        self._ready = asyncio.Event()
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()
        self._manifests = plugins.platform_manifests() if self._given.platforms is None else ()
        self.loaded: LoadedSettings = self._read_settings()
        self._secrets = self.loaded.secrets
        self._conceal = Concealing(loaded=self._secrets.conceal, everything=self._secrets.redact)
        self._live = LiveSettings(self.loaded.settings)
        self._gateway: Gateway | None = None
        self._settings: SettingsGenerations | None = None
        self._use = GatewayUse(stays=self._given.stay)
        self._end_reason = ASKED_TO_STOP
        self._store: SqliteStore | None = None
        self._copy_database = _no_copy
        self.loops = Supervisor(self._given.clock)
        """Keeps the long-lived loops of the process going."""
        self._events = Events(self.loops)
        self._hooks: AppHooks | None = None
        self._retiring = TaskSet()
        self._messaging = Messaging(home, lambda: self.gateway.courier)
        self._egress = AppEgress(home, environ, lambda: self._live.now)
        self._browser = AppBrowser(environ, lambda: self._live.now, self._given.clock, self._egress)
        self._chores: list[Chore] = [self._browser.chore]
        around = AgentSurroundings(
            home=home,
            environ=environ,
            overrides=self._given,
            messaging=self._messaging,
            gateway=lambda: self._gateway,
            stopping=self._stop.is_set,
            loops=self.loops,
            live=self._live,
            egress=self._egress,
            browser=self._browser,
        )
        self._agents = self.agent_factory(around, self.loaded)

    def _read_settings(self) -> LoadedSettings:
        names = [manifest.name for manifest in self._manifests]
        names += [read_platform(name)[0] for name in self._given.platforms or ()]
        loaded = load_settings(self._home, self._environ, platforms=names)
        if self._given.change is not None:
            loaded = replace(loaded, settings=self._given.change(loaded.settings))
        return loaded

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
        return self._agents.models.choice

    @property
    def display(self) -> dict[str, Any]:
        """What terminals must know of the settings."""
        shown = self.loaded.settings.display
        return {name: getattr(shown, name) for name in _SHOWN}

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

    async def restart_checked(self) -> None:
        """Restart, unless the next start would fail on the settings: then a `UserError` says why, and this
        gateway goes on."""
        try:
            await self.check_start()
        except (HermesError, OSError) as error:
            why = refusal(as_user_error(error))
            log.error("gateway.restart_refused why=%s", why)
            raise why from error
        self.restart()

    async def check_start(self) -> None:
        """Raise what would keep a gateway from starting with the files, packages and plugins as they are now.
        Where a program brings parts along, only this process has them."""
        loaded = await asyncio.to_thread(self._read_settings)
        loaded.secrets.join(self._secrets)  # before anything can be said of the new ones
        if not self._given.replaces:
            from hermes.app.start_check import check_new_process

            tolerated = self._agents.models.check(self._agents.ids)
            return await check_new_process(self._home, self._environ, tolerated)
        for stop in loaded.stops:
            raise stop
        check_half_open(loaded)
        factory, _ = await self._agents.succeed(loaded)
        await factory.retire()

    async def rehearse(self, tolerated: Collection[str] = ()) -> None:
        """Raise what keeps a gateway from starting here, as far as that can be told without the home's store.
        A wrong model is no reason for agents that are `tolerated`."""
        for stop in self.loaded.stops:
            raise stop
        check_half_open(self.loaded)
        store = await SqliteStore(None).open()
        try:
            await self._agents.open(store, Hooks(), [])
            for agent, error in self._agents.models.check(self._agents.ids).items():
                if agent not in tolerated:
                    raise error
        finally:
            await self._agents.close()
            await store.close()

    def restart_soon(self) -> None:
        """For a signal, which nobody waits for."""

        async def restart() -> None:
            with contextlib.suppress(UserError):  # it is in the log
                await self.restart_checked()

        self._retiring.begin(restart(), "restart")

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Task[None]]:
        """The gateway, ready, as a task, for a program that needs it for a while. How it fails is raised."""
        living = asyncio.create_task(self.live(), name="gateway")
        ready = asyncio.create_task(self._ready.wait(), name="ready")
        try:
            await asyncio.wait((living, ready), return_when=asyncio.FIRST_COMPLETED)
            if living.done():
                living.result()
            yield living
        finally:
            ready.cancel()
            self.stop()
            await asyncio.wait((living,))
        living.result()

    async def live(self, listener: StatusListener = lambda facts: None) -> None:
        """Run until `stop`. What a person must put right first is raised as a `UserError`."""
        status = LiveStatus(self._home, self.loaded, listener, self.loops, self._events)
        status.tell("starting")
        try:
            if self.loaded.stops:
                raise self.loaded.stops[0]
            await self._with_store(status)
        except UserError as error:
            log.error("app.failed why=%s", error, extra=PRINTED)
            status.tell("startup_failed", exit_reason=str(error))
            raise
        why = "asked to restart" if self.restarting else self._end_reason
        status.tell("stopped", exit_reason=why, restart_requested=self.restarting)

    async def _with_store(self, status: LiveStatus) -> None:
        if self._given.in_memory:
            async with SqliteStore(None) as self._store:
                await self._serve(self._store, status)
            return
        spare = self.loaded.settings.gateway.reserve_mb * 1024 * 1024
        keeper = StoreLifecycle(
            path=self._home / DATABASE_FILE,
            clock=self._given.clock,
            options=StoreOptions(reserve_bytes=spare),
            tell=status.tell,
            stopping=self._stop,
            hurrying=self._hurry,
            restart=self.restart,
            loops=self.loops,
        )
        self._store = await keeper.open()
        if self._store is None:
            return
        self._copy_database = keeper.copy
        clock = self._given.clock
        archives = archiving(self._home, lambda: self.loaded, clock, self._version, keeper.copy)
        self._chores += (keeper.chore, archives)
        try:
            await self._serve(self._store, status)
        finally:
            await keeper.close()

    async def _serve(self, store: SqliteStore, status: LiveStatus) -> None:
        status.begin(store.facts)
        logs = self._logs(store)
        writing = None if logs is None else await self._keep_logs(logs)
        try:
            await self._run(store, status, logs)
        finally:
            if self._hooks is not None:
                await self._hooks.close()
                if self._gateway is not None:
                    ends = self._gateway.observers.strike_out_heard
                    await self.loops.attempt("hook events", ends, "ends of sessions")
            await self._retiring.close()
            await self._agents.close()
            await self._browser.close()
            await self._egress.close()
            if writing is not None and logs is not None:
                writing.cancel()
                await asyncio.wait((writing,))
                await self.loops.attempt("session logs", logs.write, "last lines")

    def _command_info(self) -> GatewayInfo:
        return GatewayInfo(
            is_admin=lambda source: tier_of(source, self.loaded.settings).owner,
            version=self._version,
            home=str(self._home),
            can_restart=self._given.boots,
            check_start=self.check_start,
            update=self._update,
            directory=GatewayModels(
                self._home, lambda: self._agents.models, lambda: self.loaded, self._apply_settings
            ),
        )

    async def _apply_settings(self) -> None:
        if self._settings is not None:
            await self._settings.apply()

    async def _update(self) -> str:
        from hermes.execution.service import checkout  # rarely needed

        environ = checkout.passed_on(self._environ)
        state = await asyncio.to_thread(checkout.look_for_update, checkout.checkout_in_use(), environ)
        if state.behind:
            await asyncio.to_thread(checkout.update_checkout, state, environ)
        return str(state) if state.behind else ""

    async def _run(self, store: Store, status: LiveStatus, logs: SessionLogs | None) -> None:
        clock, settings = self._given.clock, self.loaded.settings
        if not self._given.in_memory:
            around = (self._home, self._environ, clock, settings.plugins, self.loops, self._secrets.redact)
            self._hooks = await asyncio.to_thread(AppHooks, *around)
        agents = await self._agents.open(store, self._own_hooks, self._chores)
        accounts = self._accounts(store)
        self._chores += (self._letting_go(agents), self._listing_models(), self._pruning(store))
        parts = GatewayParts(
            store=store,
            agents=agents,
            live=self._live,
            clock=clock,
            loops=self.loops,
            events=self._events,
            capabilities=self._capabilities(),
            hooks=self._own_hooks,
            conceal=self._conceal,
            select=agent_chooser(self._own_hooks),
            owner=str(self._home),
            aliases=self._agents.models.aliases,
            around=self._command_info(),
            restart=self.restart,
            chores=self._chores,
            accounts=[account.name for account in accounts],
            channel_names=ChannelAliases(self._home).read,
        )
        self._gateway = gateway = Gateway(parts)
        if not self._given.in_memory:
            await import_people(self._home, store)
            await take_over_jobs(self._home, agents, settings, store, clock)
        await gateway.start()
        http = AppHttp(self._home, self.loaded, self._environ, status.tell_platform)
        self._settings = generations = self._generations(parts, agents, status)
        if not self._given.in_memory:
            await http.open(self._door(gateway, http, status, generations))
        kept = {
            one.name: AdapterHost(one, gateway, clock, rename_webhook_account(status.tell_platform))
            for one in accounts
        }
        status.watch(kept, gateway, self._looked_up, lambda: agents.broken)
        hosts = [self.loops.keep(name, host.live) for name, host in kept.items()]
        if settings.gateway.watch_config:
            hosts.append(self.loops.keep("settings", generations.watch))
        self.account_names = names = [account.name for account in accounts]
        status.tell(
            "running", **self._facts(agents), accounts=names, api=http.address, temporary=not self._use.stays
        )
        self._ready.set()
        if not self._given.in_memory:
            hosts.append(self.loops.keep("warm-up", partial(_warm_up, agents)))
        self._begin_to_stay(status, hosts)
        asked = False
        try:
            asked = await self._stop.wait()
        finally:
            status.tell("draining")
            http.drain()
            await self._drain(gateway, hosts, broken=not asked)
            await http.close()

    def _begin_to_stay(self, status: LiveStatus, hosts: list[asyncio.Task[None]]) -> None:
        """Hooks hear of the start of a gateway that stays, at once or once it is told to. Another one leaves
        with its last terminal, unless a conversation goes on in a chat of its."""
        hooks, use = self._hooks, self._use

        def handed_over(event: HandoffCompleted) -> None:
            use.stay()

        def stays() -> None:
            status.tell_more({"temporary": False})
            if hooks is not None and self._given.boots:
                hooks.begin(self.gateway, self.account_names, status.tell_hooks)

        if use.stays:
            stays()
            return
        use.told_to_stay, use.left_alone = stays, partial(self._end, UNUSED)
        self._events.listen(handed_over, HandoffCompleted)
        hosts.append(self.loops.keep("leaving", self._leave_unused))

    async def _leave_unused(self) -> None:
        if await self._use.over(self.gateway.open_work, self._given.clock):
            self._end(UNUSED)

    def _end(self, reason: str) -> None:
        self._end_reason = reason
        self.stop()

    def _facts(self, agents: AgentRegistry) -> dict[str, Any]:
        """What a gateway tells of itself once it runs."""
        return {
            "agents": sorted(agents),
            **self._agents.models.facts(),
            "workspace": str(self._agents.workspace(self._home)),
            "display": self.display,
            "variables": (declared := PlatformNames.of(self._manifests).variables),
            "fingerprint": settings_fingerprint(self._home, self._environ, declared),
            "hooks": [] if self._hooks is None else self._hooks.facts(),
        }

    def _looked_up(self) -> dict[str, Any]:
        """What is looked up each time somebody asks."""
        return {**self._agents.backends.facts(), "providers": self._agents.models.places.health()}

    @property
    def _own_hooks(self) -> Hooks:
        return Hooks() if self._hooks is None else self._hooks.hooks

    def _door(
        self, gateway: Gateway, http: AppHttp, status: LiveStatus, generations: SettingsGenerations
    ) -> Site:
        options = http.options()
        return Site(
            egress=self._egress.client(),
            gateway=gateway,
            options=options,
            facts=status.facts,
            clock=self._given.clock,
            model=lambda agent: self._agents.models.name(agent),  # noqa: PLW0108 - it changes
            task_model=lambda agent: self._agents.models.task_name(agent),  # noqa: PLW0108 - it changes
            model_facts=lambda agent, model: self._agents.models.facts_of(agent, model),  # noqa: PLW0108 - it changes
            apply=generations.apply,
            open_webhooks=http.open_webhooks,
            restart=self.restart_checked,
            copy_database=self._copy_database,
            version=self._version,
            aliases=gateway.aliases,
            runs=RunLimits(
                options.max_runs,
                options.max_runs_per_client,
                gateway.feeds.is_driven,
                self._given.clock.monotonic,
            ),
            streams=Streams(self.loops),
            use=self._use,
        )

    async def _drain(self, gateway: Gateway, hosts: list[asyncio.Task[None]], *, broken: bool) -> None:
        grace = self.loaded.settings.agent.restart_drain_timeout
        ending = gateway.stop(grace, restarts=self.restarting, broken=broken)
        stopping = asyncio.create_task(ending, name="drain")
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

    async def _keep_logs(self, logs: SessionLogs) -> asyncio.Task[None]:
        await logs.open()
        self._events.listen(logs.ring, RecordsStored)
        self._events.listen(logs.forget, SessionRemoved)
        return self.loops.keep("session logs", logs.live)

    def _logs(self, store: SqliteStore) -> SessionLogs | None:
        if self._given.in_memory or not self.loaded.settings.sessions.write_json:
            return None
        return SessionLogs(self._home / LOG_FOLDER, store, self._secrets.redact)

    # --- another generation of settings ---

    def _generations(
        self, parts: GatewayParts, agents: AgentRegistry, status: LiveStatus
    ) -> SettingsGenerations:
        async def adopt(loaded: LoadedSettings) -> None:
            # Plugins are chosen at the start: commands and hooks that are there do not go, so nothing does.
            chosen = replace(loaded.settings, plugins=self.loaded.settings.plugins)
            loaded = replace(loaded, settings=chosen)
            loaded.secrets.join(self._secrets)  # before anything can be said of the new ones
            factory, main = await self._agents.succeed(loaded)
            before, self._agents, self.loaded = self._agents, factory, loaded
            self._secrets.follow(loaded.secrets)
            agents.renew(factory.ids, factory.build, factory.release, main)
            parts.live.adopt(loaded.settings)
            parts.aliases.clear()
            parts.aliases.update(factory.models.aliases)
            status.adopt(loaded, **self._facts(agents))
            self._retiring.begin(self._retire(before), "retire agents")
            self._retiring.begin(self._list_models(), "model list")

        def retry() -> None:
            agents.retry()
            self._agents.look_again()
            self._agents.backends.probes.renew()  # somebody may have installed what was missing
            self.gateway.actors.workers.search()  # turns may wait for an agent that is there again

        return SettingsGenerations(
            home=self._home,
            core=parts,
            loaded=self.loaded,
            read=self._read_settings,
            adopt=adopt,
            retry=retry,
            tell=status.tell_more,
            bounds=self._agents.backends.boundaries,
            connecting=[field.env for manifest in self._manifests for field in manifest.settings],
        )

    async def _retire(self, factory: AgentFactory) -> None:
        """Close what an earlier generation held, once the turns that ran then have ended."""
        active = self.gateway.actors.workers.active
        holding = set(active.values())
        while not holding.isdisjoint(active.values()):
            await self._given.clock.sleep(5.0)
        await factory.retire()

    def _pruning(self, store: Store) -> Chore:
        async def delete(agent: AgentId, session: SessionId) -> None:
            await self.gateway.delete_session(agent, session)

        return pruning(store, self._live, self._given.clock, delete)

    def _letting_go(self, agents: AgentRegistry) -> Chore:
        async def let_go() -> str:
            return f"{await agents.let_go(self.gateway.busy_agents)} agents let go"

        return Chore(name="idle agents", every=300.0, run=let_go, first=300.0)

    def _listing_models(self) -> Chore:
        async def refresh() -> str:
            return await self._agents.models.refresh()

        return Chore(name=_MODEL_LIST, every=HOURLY, run=refresh, first=30.0)

    async def _list_models(self) -> None:
        await self.gateway.chores.run(_MODEL_LIST)

    # --- platforms ---

    def _capabilities(self) -> dict[str, Capabilities]:
        if self._given.platforms is not None:
            return {read_platform(name)[0]: one.capabilities for name, one in self._given.platforms.items()}
        return {manifest.name: manifest.capabilities for manifest in self._manifests}

    def _accounts(self, store: Store) -> list[PlatformAccount]:
        factory = AccountFactory(
            home=self._home,
            environ=self._environ,
            clock=self._given.clock,
            store=store,
            open_file=self._messaging.open,
            egress=self._egress.client(),
        )
        if self._given.platforms is not None:
            return factory.given(self._given.platforms)
        return factory.declared(self._manifests, self.loaded)


async def _no_copy() -> str:
    raise UserError("This gateway keeps its database in memory.")


async def _warm_up(agents: AgentRegistry) -> None:
    """Do once what the first person would wait for: read the files of the prompt, write the list of tools,
    start the threads that do so."""
    if MAIN_AGENT in agents:
        runtime = await agents.get(MAIN_AGENT)
        if runtime.prompt is not None:
            await runtime.prompt(None, None)
