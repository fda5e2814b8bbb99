"""A home as a command finds it: the gateway that runs there is asked through its socket; where none runs, the
command opens the database for a moment and does the same itself. The operations are in `entry/desk.py`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar, get_type_hints

from msgspec import Struct

from hermes import plugins
from hermes.admin.process.home_files import hold_home
from hermes.admin.process.running import RunningGateway, find_running
from hermes.admin.shell.command import CliCommand
from hermes.control.jobs.editing import JobDesk
from hermes.control.jobs.runs import JobContext
from hermes.control.outbound.sending import MessageSender
from hermes.control.outbound.targets import named_targets
from hermes.control.people.routing import route
from hermes.control.sessions.administration import remove_session
from hermes.domain.chats.address import Source
from hermes.domain.chats.capabilities import Capabilities, Manifest
from hermes.domain.chats.message import Inbound
from hermes.domain.clock import SystemClock, zone_named
from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT, AgentId, DeliveryId, SessionId
from hermes.domain.ports.agent import MemoryCare
from hermes.domain.ports.world import JobWorld
from hermes.domain.settings.live import LiveSettings, SettingsReport
from hermes.domain.settings.settings import Profile, Settings
from hermes.domain.tools.checkpoint import CheckpointView
from hermes.domain.tools.toolsets import check_names
from hermes.entry.desk import OPERATIONS, OperatorDesk
from hermes.state.files.aliases import ChannelAliases
from hermes.state.home.homes import DATABASE_FILE, agent_home, prepare_home
from hermes.state.settings.loader import LoadedSettings, load_settings
from hermes.state.store.care.backup import backup, backups_of
from hermes.state.store.care.repair import open_checked
from hermes.state.store.writer import SqliteStore
from hermes.stream.wire.socket import decode, encode

P = ParamSpec("P")
T = TypeVar("T")


def open_home(command: CliCommand, *, creating: bool = False) -> HomeAccess:
    """The home of a command; one that is `creating` makes a database where there is none."""
    return HomeAccess(command=command, gateway=find_running(command.home, command.environ), creating=creating)


def agents_of(settings: Settings) -> list[AgentId]:
    return [MAIN_AGENT, *map(AgentId, settings.agents)]


class HomeAccess(Struct, frozen=True, kw_only=True):
    """A home: in the hands of a gateway, or resting. What is changed in one that rests counts at the next
    start."""

    command: CliCommand
    gateway: RunningGateway | None
    creating: bool = False

    @property
    def running(self) -> bool:
        return self.gateway is not None

    @property
    def empty(self) -> bool:
        """Whether nothing ever happened here."""
        path = self.command.home / DATABASE_FILE
        return not self.running and not path.exists() and not backups_of(path)

    def ask(
        self, perform: Callable[Concatenate[OperatorDesk, P], Awaitable[T]], *args: P.args, **given: P.kwargs
    ) -> T:
        """What comes of an operation of the desk: the same, down to the words, whoever performs it."""
        assert not args, "what is asked for has a name"
        kind: type[T] = get_type_hints(perform)["return"]
        if self.gateway is not None:
            method, path, _ = OPERATIONS[perform]
            return self.gateway.ask(method, path, kind, **given)
        return decode(kind, encode(self._work(lambda desk: perform(desk, *args, **given))))

    def _work(self, work: Callable[[OperatorDesk], Awaitable[T]]) -> T:
        """Do something with the database; where there is none, with an empty one that is forgotten."""

        async def opened(path: Path | None) -> T:
            if path is None:
                async with SqliteStore(None) as store:
                    return await work(self._desk(store))
            checked = await open_checked(path, SystemClock())
            for notice in checked.notices:
                self.command.console.note(notice)
            try:
                return await work(self._desk(checked.store))
            finally:
                await checked.store.close()

        home = self.command.home
        if self.creating:
            prepare_home(home)
        elif self.empty:
            return asyncio.run(opened(None))
        with hold_home(home, self.command.name):
            return asyncio.run(opened(home / DATABASE_FILE))

    def _desk(self, store: SqliteStore) -> OperatorDesk:
        manifests = plugins.platform_manifests()
        home, environ = self.command.home, self.command.environ
        loaded = load_settings(home, environ, platforms=[one.name for one in manifests])
        able = {one.name: one.capabilities for one in manifests}
        courier = MessageSender(
            store=store,
            clock=SystemClock(),
            live=LiveSettings(loaded.settings),
            accounts=lambda: _accounts(manifests, loaded),
            aliases=ChannelAliases(home).read,
            capabilities=lambda to: able.get(to.platform) or Capabilities(),
            ring=lambda to: None,
            wake=lambda agent, session: None,
        )

        async def delete(agent: AgentId, session: SessionId) -> None:
            await store.scoped(agent).write(lambda tx: remove_session(tx, session))

        return OperatorDesk(
            agents=agents_of(loaded.settings),
            default=loaded.settings.default_agent,
            route=partial(_route, loaded.settings),
            courier=courier,
            jobs=lambda agent: self._jobs(courier, agent),
            delete=delete,
            sends=lambda to: False,
            carry=lambda: None,
            apply=partial(_check_settings, loaded),
            restart=_no_gateway,
            copy_database=self._copy_database,
            memory_of=partial(self._memory_of, courier, loaded),
            tend_checkpoints=partial(self._tend_checkpoints, courier),
        )

    async def _copy_database(self) -> str:
        return str(await asyncio.to_thread(backup, self.command.home / DATABASE_FILE, SystemClock().now()))

    async def _memory_of(self, courier: MessageSender, loaded: LoadedSettings, agent: AgentId) -> MemoryCare:
        from hermes.app.agents.memory import AgentMemory

        settings = loaded.settings
        home = agent_home(self.command.home, agent, settings)
        profile = Profile(agent=agent, home=home, settings=settings)
        store, redact = courier.store.scoped(agent), loaded.secrets.redact
        return AgentMemory(profile, store, courier.clock, lambda: settings, redact)

    async def _tend_checkpoints(
        self, courier: MessageSender, agent: AgentId, action: str
    ) -> list[CheckpointView]:
        from hermes.app.agents.checkpoints import CheckpointStores

        settings = courier.live.now
        home = agent_home(self.command.home, agent, settings)
        profile = Profile(agent=agent, home=home, settings=settings)
        stores = CheckpointStores(
            profile,
            courier.store.scoped(agent),
            courier.clock,
            lambda: settings.checkpoints,
            self.command.environ,
        )
        return await stores.tend(action)

    def _jobs(self, courier: MessageSender, agent: AgentId) -> JobDesk:
        from hermes.app.agents.agent_backends import AgentBackends
        from hermes.app.agents.backends import GatewayBackends
        from hermes.app.agents.tools import known_names
        from hermes.app.homes import WORKSPACE
        from hermes.app.jobs import HomeJobs

        settings = courier.live.of(agent)

        async def world() -> JobWorld:
            home, environ = agent_home(self.command.home, agent, settings), self.command.environ
            made = GatewayBackends(environ, courier.clock, lambda: settings)
            await asyncio.to_thread(made.load)
            profile = Profile(agent=agent, home=home, settings=settings)
            return HomeJobs(home, environ, AgentBackends(profile, home / WORKSPACE, made))

        async def check_toolsets(names: Sequence[str]) -> None:
            added = {*plugins.tools(settings.plugins).toolsets, *settings.mcp_servers}
            check_names(names, known_names(added))

        rules = JobContext(
            now=courier.clock.now(),
            zone=zone_named(settings.timezone),
            settings=settings,
            targets=named_targets(courier.aliases, courier.accounts()),
        )
        return JobDesk(
            agent=agent,
            store=courier.store.scoped(agent),
            clock=courier.clock,
            rules=rules,
            world=world,
            check_toolsets=check_toolsets,
        )


async def _check_settings(loaded: LoadedSettings) -> SettingsReport:
    """Where no gateway runs, nothing has to be adopted; what is wrong is told all the same."""
    for error in (*loaded.stops, *loaded.problems):
        raise error
    return SettingsReport(generation=0)


async def _no_gateway() -> None:
    raise UserError("No gateway runs here.", hint="Start one with: hermes gateway start")


async def _route(settings: Settings, source: Source, text: str) -> AgentId:
    """By the routes alone: hooks are asked by a gateway that runs."""
    inbound = Inbound(delivery=DeliveryId("-"), source=source, text=text, at=SystemClock().now())
    return await route(inbound, settings, agents_of(settings))


def _accounts(manifests: Sequence[Manifest], loaded: LoadedSettings) -> list[str]:
    from hermes.app.accounts import declared_accounts  # brings all of the gateway along

    return [one.name for one in declared_accounts(manifests, loaded) if one.enabled]
