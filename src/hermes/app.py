"""The composition root: one gateway on one home, put together from settings, store, agents and platforms.

Its life: read the settings → open the store → start the gateway → connect the platforms, each by a host of
its own → run until told to stop → drain: turns reach a record, lanes empty, hosts disconnect, the store
closes. Who may work on a home, signals and logs are `admin.gateway`'s.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from hermes import plugins
from hermes.agent.loop import AgentLoop, LoopLimits
from hermes.control.gateway import STOP_SECONDS, Gateway, Parts
from hermes.control.runtime import Runtime
from hermes.domain.capabilities import Capabilities, Manifest
from hermes.domain.clock import Clock, SystemClock
from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.ports import ModelPiece, ModelRequest, Platform, Provider, Store
from hermes.domain.settings import PlatformSettings, Profile, Secret, Settings
from hermes.domain.tool import Tool
from hermes.entry.host import Account, Host, HostState
from hermes.state.profiles import agent_home
from hermes.state.settings import Loaded, load_settings
from hermes.state.sqlite import SqliteStore

log = logging.getLogger("hermes.app")
DATABASE_FILE = "state.db"


class Watch(Protocol):
    """Told what the gateway is doing: starting, running, draining, stopped, and how each platform is."""

    def tell(self, state: str, **facts: Any) -> None: ...

    def tell_platform(self, account: str, state: HostState, why: str) -> None: ...


class NoModel:
    """Stands where no provider is: says so to whoever asks."""

    def call(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        raise UserError(
            "No model is configured.",
            hint="This version brings no provider along; install a plugin with one, or wait for the next.",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a test or an embedding program brings along, instead of what settings and plugins say."""

    provider: Provider | None = None
    tools: Sequence[Tool] | None = None
    platforms: Mapping[str, Platform] | None = None
    clock: Clock = field(default_factory=SystemClock)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreLease:
    """An account's lease as a row. The owner is the home: its lock lets nobody else take it back at once."""

    store: Store
    clock: Clock
    name: str
    owner: str

    async def take(self, seconds: float) -> bool:
        now = self.clock.now()
        epoch = await self.store.write(lambda tx: tx.leases.take(self.name, self.owner, now, seconds))
        return epoch is not None

    async def release(self) -> None:
        await self.store.write(lambda tx: tx.leases.release(self.name, self.owner))


class App:
    """One gateway on one home, for a process that has the home to itself."""

    def __init__(self, home: Path, environ: Mapping[str, str], given: Given | None = None) -> None:
        self._home = home
        self._given = given or Given()
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()
        self._providers: Mapping[str, plugins.MakeProvider] = {}
        self._manifests = plugins.platform_manifests() if self._given.platforms is None else ()
        names = [manifest.name for manifest in self._manifests] + list(self._given.platforms or ())
        self.loaded: Loaded = load_settings(home, environ, platforms=names)

    def stop(self) -> None:
        """Drain and end; called again, end without draining."""
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()

    async def live(self, watch: Watch) -> None:
        """Run until `stop`. What a person must mend first is raised as a `UserError`."""
        watch.tell("starting")
        try:
            async with SqliteStore(self._home / DATABASE_FILE) as store:
                await self._serve(store, watch)
        except UserError as error:
            log.error("app.failed why=%s", error)
            watch.tell("startup_failed", exit_reason=str(error))
            raise
        watch.tell("stopped", exit_reason="asked to stop")

    async def _serve(self, store: SqliteStore, watch: Watch) -> None:
        clock, settings = self._given.clock, self.loaded.settings
        runtimes = await asyncio.to_thread(self._runtimes, store, settings)
        gateway = Gateway(
            Parts(
                store=store,
                runtimes=runtimes,
                settings=settings,
                clock=clock,
                capabilities=self._capabilities(),
            )
        )
        await gateway.start()
        accounts = list(self._accounts(store))
        hosts = [
            asyncio.create_task(Host(account, gateway, clock, watch.tell_platform).live(), name=account.name)
            for account in accounts
        ]
        names = [account.name for account in accounts]
        watch.tell("running", agents=sorted(runtimes), accounts=names, model=self._model(settings))
        try:
            await self._stop.wait()
        finally:
            watch.tell("draining")
            await self._drain(gateway, hosts)

    async def _drain(self, gateway: Gateway, hosts: list[asyncio.Task[None]]) -> None:
        stopping = asyncio.create_task(gateway.stop(STOP_SECONDS), name="drain")
        hurrying = asyncio.create_task(self._hurry.wait(), name="hurry")
        await asyncio.wait((stopping, hurrying), return_when=asyncio.FIRST_COMPLETED)
        hurrying.cancel()
        leaving = list(hosts)
        if not stopping.done():
            log.warning("app.hurry: leaving at once; unfinished turns go on at the next start")
            leaving = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in leaving:
            task.cancel()
        if leaving:
            await asyncio.wait(leaving, timeout=STOP_SECONDS)
        if stopping.done() and not stopping.cancelled():
            stopping.result()

    # --- agents ---

    def _runtimes(self, store: Store, settings: Settings) -> dict[AgentId, Runtime]:
        """Reads plugins and makes folders, so it runs beside the loop."""
        plugins.load_commands()
        self._providers = plugins.providers()
        tools = plugins.tools() if self._given.tools is None else self._given.tools
        runtimes: dict[AgentId, Runtime] = {}
        for agent in (MAIN_AGENT, *map(AgentId, settings.agents)):
            try:
                home = agent_home(self._home, agent, settings)
                home.mkdir(mode=0o700, parents=True, exist_ok=True)
            except (UserError, OSError) as error:
                log.error("agent.left_out agent=%s why=%s", agent, error)
                continue
            profile = Profile(agent=agent, home=home, settings=_settings_of(agent, settings))
            loop = self._agent(profile, _tools_of(agent, settings, tools))
            runtimes[agent] = Runtime(profile=profile, agent=loop, store=store.scoped(agent))
        return runtimes

    def _agent(self, profile: Profile, tools: Sequence[Tool]) -> AgentLoop:
        settings = profile.settings
        limits = LoopLimits(iterations=settings.agent.max_turns, retries=settings.agent.api_max_retries)
        return AgentLoop(
            provider=self._given.provider or self._provider(settings),
            tools=tools,
            model=settings.model.default,
            system=settings.agent.system_prompt,
            clock=self._given.clock,
            limits=limits,
        )

    def _model(self, settings: Settings) -> str:
        """Which model answers, in words."""
        name = settings.model.default or "none"
        provider = self._given.provider or self._provider(settings)
        return f"{name} (no provider is installed)" if isinstance(provider, NoModel) else name

    def _provider(self, settings: Settings) -> Provider:
        wanted = settings.model.provider
        if wanted == "auto" and len(self._providers) == 1:
            (make,) = self._providers.values()
            return make(settings.model)
        known = self._providers.get(wanted)
        return NoModel() if known is None else known(settings.model)

    # --- platforms ---

    def _capabilities(self) -> dict[str, Capabilities]:
        if self._given.platforms is not None:
            return {name.partition("@")[0]: one.capabilities for name, one in self._given.platforms.items()}
        return {manifest.name: manifest.capabilities for manifest in self._manifests}

    def _accounts(self, store: Store) -> Iterator[Account]:
        for name, platform in (self._given.platforms or {}).items():
            yield Account(name=name, make=_ready(platform), lease=self._lease(store, name))
        for manifest in self._manifests:
            if is_enabled(manifest, self.loaded):
                make = _adapter(manifest, self.loaded)
                yield Account(name=manifest.name, make=make, lease=self._lease(store, manifest.name))

    def _lease(self, store: Store, account: str) -> StoreLease:
        owner = str(self._home)
        return StoreLease(store=store, clock=self._given.clock, name=f"account:{account}", owner=owner)


def is_enabled(manifest: Manifest, loaded: Loaded) -> bool:
    """Said so, or not said otherwise and everything it requires is there."""
    block = loaded.settings.platforms.get(manifest.name)
    if block is not None and block.enabled is not None:
        return block.enabled
    wanted = [field.env for field in manifest.settings if field.required]
    return bool(wanted) and not missing_settings(manifest, loaded)


def missing_settings(manifest: Manifest, loaded: Loaded) -> list[str]:
    """The variables that a platform requires and nobody has set."""
    wanted = (field.env for field in manifest.settings if field.required)
    return [name for name in wanted if not loaded.find(manifest.name, name)]


def _adapter(manifest: Manifest, loaded: Loaded) -> Callable[[], Awaitable[Platform]]:
    async def make() -> Platform:
        missing = missing_settings(manifest, loaded)
        if missing:
            raise UserError(
                f"{manifest.title} needs {', '.join(missing)}.", hint=f"hermes config set {missing[0]} …"
            )
        adapter = await asyncio.to_thread(plugins.load_adapter, manifest)
        block = loaded.settings.platforms.get(manifest.name, PlatformSettings())

        def find(variable: str) -> Secret | None:
            return loaded.find(manifest.name, variable)

        return adapter(block, find)

    return make


def _ready(platform: Platform) -> Callable[[], Awaitable[Platform]]:
    async def make() -> Platform:
        return platform

    return make


def _settings_of(agent: AgentId, settings: Settings) -> Settings:
    """The gateway's settings with what its own block says of an agent."""
    hosted = settings.agents.get(agent)
    if hosted is None:
        return settings
    model = replace(
        settings.model,
        default=hosted.model or settings.model.default,
        provider=hosted.provider or settings.model.provider,
    )
    return replace(settings, model=model)


def _tools_of(agent: AgentId, settings: Settings, tools: Sequence[Tool]) -> list[Tool]:
    hosted = settings.agents.get(agent)
    if hosted is None:
        return list(tools)
    allowed = set(hosted.enabled_toolsets) or {tool.toolset for tool in tools}
    return [tool for tool in tools if tool.toolset in allowed - set(hosted.disabled_toolsets)]
