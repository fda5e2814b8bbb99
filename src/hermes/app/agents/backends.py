"""Where agents' commands run: backends by settings and route, made by plugins, kept alive as long as they are
used; and what commands may do there without asking."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import re
import shutil
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Hashable,
    Iterator,
    Mapping,
    Sequence,
)
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar, cast

from msgspec import Struct

from hermes import plugins
from hermes.agent.danger.scope import CommandScope, UserLocks, is_free_workspace, is_wide
from hermes.app.agents.ladder import (
    BoundaryChoice,
    Commander,
    SandboxProbes,
    boundary_facts,
    choose,
    leaves_open,
    probe_facts,
)
from hermes.app.homes import MEDIA, SANDBOXES, WORKSPACE, homes_for
from hermes.control.chores import HOURLY, Chore
from hermes.control.jobs.runs import RUN_SESSIONS
from hermes.control.people.routing import job_source
from hermes.domain.address import CHAT_KINDS, Source, SourceKind
from hermes.domain.clock import Clock
from hermes.domain.errors import UserError
from hermes.domain.event import AgentEvent, Notice
from hermes.domain.ids import AgentId
from hermes.domain.ports.agent import Agent, Run
from hermes.domain.ports.world import (
    OPEN_NETWORK,
    Backend,
    BackendRequest,
    Boundary,
    Files,
    FolderRules,
    MakeBackend,
    NetworkRules,
    ProcessView,
    World,
)
from hermes.domain.rows import MediaItem
from hermes.domain.session import owner_of
from hermes.domain.settings.settings import AUTO, Profile, Route, Settings, TerminalSettings
from hermes.domain.text import one_line
from hermes.domain.turn import Turn
from hermes.domain.word import replace
from hermes.execution.backend_life import KeptBackend
from hermes.execution.routed_backend import RoutedBackend
from hermes.execution.sandboxes.probe import SandboxProbe
from hermes.state.home.homes import INSIDE, USUAL_HOME

log = logging.getLogger("hermes.backend")
T = TypeVar("T")
_TEND_SECONDS = 30.0
_INCOMING = "incoming"
_PIECE = 1 << 20
_STOP_SECONDS = 15.0
_MOST_SCOPES = 256
_LED_AWAY = (
    "The folder of this session, {folder}, is or lies behind a link now, so this works in the agent's own"
    " folder. Put the folder back, or begin a new session where it is."
)
_UNUSED_SECONDS = 30 * 86_400.0
_TASK = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_JOB_RUN = re.compile(rf"{RUN_SESSIONS}(?P<job>[0-9a-f]{{12}})_")
_Key = tuple[AgentId, str, Path, Path, NetworkRules]
_Given = tuple[TerminalSettings, dict[str, str | None]]


class GatewayBackends:
    """The backends of a gateway's agents, by agent, name, home, workspace and network."""

    def __init__(
        self,
        environ: Mapping[str, str],
        clock: Clock,
        settings: Callable[[], Settings],
        probes: SandboxProbes | None = None,
    ) -> None:
        self._environ = environ
        self.probes = probes or SandboxProbes(environ, terminal=lambda: settings().terminal)
        self._clock = clock
        self.settings = settings
        self._makers: Mapping[str, MakeBackend] = {}
        self._shared: dict[Hashable, Any] = {}
        self._kept: dict[_Key, KeptBackend] = {}
        self._given: dict[_Key, _Given] = {}
        self._retired: list[KeptBackend] = []
        self._newest: dict[tuple[AgentId, str], _Key] = {}
        self._making: dict[_Key, asyncio.Future[KeptBackend]] = {}
        self._sharing = RLock()
        self.lead_out: Callable[[BackendRequest], BackendRequest] = lambda request: request
        """Adds the way to the hosts that a backend may reach."""
        self.bound: dict[tuple[AgentId, str], Callable[[], Awaitable[HeldBackend]]] = {}
        """The backend of each session in which a turn runs, also for agents of another generation."""

    def load(self) -> None:
        """Reads plugins, so it runs in a thread."""
        self._makers = plugins.backends(self.settings().plugins)

    def offers(self, name: str) -> bool:
        return name in self._makers

    def has(self, order: BackendOrder) -> bool:
        return order.key in self._kept

    async def get(self, order: BackendOrder) -> KeptBackend:
        """The one that is there (commands and processes outlive the settings that an agent was built with),
        else a new one, made in a thread, once for all who want it at the same time."""
        self._retire(order)
        while (kept := self._kept.get(order.key)) is None:
            making = self._making.get(order.key)
            if making is None:
                making = asyncio.get_running_loop().run_in_executor(None, self.make, order)
                self._making[order.key] = making
                making.add_done_callback(partial(self._made, order.key))
            await asyncio.shield(making)
        return kept

    def make(self, order: BackendOrder) -> KeptBackend:
        """A `UserError` if it is not there or cannot be made: nothing else may stand in for it. Blocks."""
        name, profile = order.name, order.profile
        maker = self._makers.get(name)
        if maker is None:
            there = ", ".join(sorted(self._makers)) or "none"
            raise UserError(
                f"There is no backend “{one_line(name, 40)}” for the commands of {profile.agent}.",
                hint=f"Install its plugin, or name one of: {there} (terminal.backend, routes[].backend).",
            )
        if order.own_folder:
            order.workspace.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.utime(order.workspace)
        request = self._request(order)
        kept = KeptBackend(name, plugins.make_backend(name, maker, request), self._clock)
        self._given[order.key] = _given(request)
        self._kept[order.key] = kept
        return kept

    def _request(self, order: BackendOrder) -> BackendRequest:
        request = BackendRequest(
            profile=order.profile,
            workspace=order.workspace,
            environ={**self._environ, INSIDE: "1"},
            passthrough=(INSIDE, *order.passthrough),
            share=self._share,
            route=order.route,
            network=order.network,
        )
        return self.lead_out(request)

    def _retire(self, order: BackendOrder) -> None:
        """Let go of one that would be made from other settings or variables by now, once nothing runs in it.
        A turn that began before stays with what is there."""
        kept = self._kept.get(order.key)
        if kept is None or order.passthrough != self.settings().terminal.env_passthrough or not kept.idle():
            return
        if _made_from(order.profile.settings) != _made_from(self.settings()):
            return
        if self._given[order.key] != _given(self._request(order)):
            self._retired.append(self._kept.pop(order.key))

    def _made(self, key: _Key, making: asyncio.Future[KeptBackend]) -> None:
        del self._making[key]
        if not making.cancelled():
            making.exception()  # whoever waited has it; nobody may have

    def name_own(self, order: BackendOrder) -> None:
        """Note which one an agent has for itself, whatever the folders of its sessions are."""
        self._newest[order.key[:2]] = order.key

    def of_agent(self, agent: AgentId, home: Path) -> list[KeptBackend]:
        kept = tuple(self._kept.items())  # a thread may be making one
        return [each for key, each in kept if (key[0], key[2]) == (agent, home)]

    def is_idle(self, agent: AgentId) -> bool:
        """Whether nothing runs for an agent, in any of its backends."""
        return all(kept.idle() for (whose, *_), kept in tuple(self._kept.items()) if whose == agent)

    def _share(self, key: Hashable, make: Callable[[], T]) -> T:
        with self._sharing:  # backends are made in several threads
            if key not in self._shared:
                self._shared[key] = make()
            return cast(T, self._shared[key])

    @property
    def chores(self) -> Sequence[Chore]:
        return (
            Chore(name="backends", every=_TEND_SECONDS, run=self.tend, first=1.0),
            Chore(name="sandboxes", every=HOURLY, run=self.sweep),
        )

    async def sweep(self, homes: Collection[Path] = ()) -> str:
        """Remove the folders of strangers that nothing has used for long."""
        keys = tuple(self._kept)
        kept = {key[3] for key in keys}
        homes = homes or {key[2] for key in keys}
        before = self._clock.now().timestamp() - _UNUSED_SECONDS
        gone = await asyncio.to_thread(lambda: sum(_sweep(home / SANDBOXES, kept, before) for home in homes))
        return f"{gone} folders removed"

    async def tend(self) -> str:
        """Look how they are, and let go of those that nothing has used for a while."""
        terminal = self.settings().terminal
        seconds = terminal.lifetime_seconds
        if terminal.backend == AUTO:  # a while after the start, so that nobody's first answer waits for it
            await self.probes.get()
        await asyncio.gather(*(kept.tend(seconds) for kept in tuple(self._kept.values())))
        await asyncio.gather(*(kept.tend(0.0) for kept in self._retired))
        self._retired = [kept for kept in self._retired if kept.is_open]
        own = set(self._newest.values())
        for key, kept in tuple(self._kept.items()):
            # Folders of sessions come and go; the next command there makes it again.
            if key not in own and not kept.is_open and kept.idle():
                del self._kept[key]
        left = tuple(self._kept.values())
        return f"{sum(kept.is_open for kept in left)} of {len(left)} open"

    async def close(self) -> None:
        """All at once, and not for ever."""
        await self.probes.close()
        kept = (*self._kept.values(), *self._retired)
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                ends = await asyncio.gather(*(each.close() for each in kept), return_exceptions=True)
        except TimeoutError:
            log.warning("backend.not_closed: some took longer than %g s", _STOP_SECONDS)
            return
        for each, error in zip(kept, ends, strict=True):
            if error is not None:
                log.warning("backend.not_closed backend=%s why=%s", each.name, error)

    def _facts(self) -> list[dict[str, Any]]:
        """Of each, whatever the folders of its sessions are; but those of an agent's former home only while
        they are open."""
        homes: dict[tuple[AgentId, str, Path], list[KeptBackend]] = {}
        for key, kept in tuple(self._kept.items()):
            if kept.is_open or self._newest.get(key[:2]) == key:
                homes.setdefault(key[:3], []).append(kept)
        return [_backend_facts(agent, name, alike) for (agent, name, _), alike in homes.items()]

    def facts(self) -> dict[str, Any]:
        """The backends, which boundary counts for whom, and which sandboxes work here; of the latter two
        nothing while that is looked for."""
        probes = self.probes.results
        return {
            "backends": self._facts(),
            "boundaries": [] if probes is None else boundary_facts(self.settings(), probes, self._worlds()),
            "sandboxes": [] if probes is None else [*probe_facts(probes)],
        }

    async def boundaries(self, settings: Settings) -> list[dict[str, Any]]:
        """Those that commands would have with these settings, in worlds that nobody has seen yet."""
        return boundary_facts(settings, await self.probes.get())

    def _worlds(self) -> dict[tuple[str, NetworkRules], World]:
        kept = tuple(self._kept.items())
        return {(key[1], key[4]): each.world for key, each in kept if each.world is not None}


def _backend_facts(agent: AgentId, name: str, alike: Sequence[KeptBackend]) -> dict[str, Any]:
    world = next((kept.world for kept in alike if kept.world is not None), None)
    return {
        "agent": agent,
        "backend": name,
        "sandbox": "" if world is None else world.sandbox,
        "network": "open" if world is None else str(world.network),
        "here": world is not None and world.host_files,
        "open": any(kept.is_open for kept in alike),
        "trouble": next((kept.trouble for kept in alike if kept.trouble), ""),
    }


def _given(request: BackendRequest) -> _Given:
    """What a backend is made from: the settings, and the variables besides the usual ones."""
    variables = {name: request.environ.get(name) for name in request.passthrough}
    return _made_from(request.profile.settings), variables


def _made_from(settings: Settings) -> TerminalSettings:
    """Without what is asked for at each use, or is part of the key."""
    usual = TerminalSettings()
    return replace(
        settings.terminal,
        backend=usual.backend,
        network=usual.network,
        timeout=usual.timeout,
        env_passthrough=usual.env_passthrough,
        lifetime_seconds=usual.lifetime_seconds,
    )


class BackendOrder(Struct, frozen=True, kw_only=True):
    """Which backend is wanted: by its name, for an agent, in a folder, with a network; and the names of the
    variables that its commands are given."""

    name: str
    profile: Profile
    workspace: Path
    network: NetworkRules = OPEN_NETWORK
    route: Route | None = None
    own_folder: bool = False
    passthrough: tuple[str, ...] = ()

    @property
    def key(self) -> _Key:
        return (self.profile.agent, self.name, self.profile.home, self.workspace, self.network)


class HeldBackend(Struct, frozen=True, kw_only=True):
    """A backend, and why it is this one."""

    kept: KeptBackend
    choice: BoundaryChoice


class AgentBackends:
    """Those of one agent. Who commands, the route of the turn and the settings say which one its commands run
    in; the session, the folder in which they start, else it is the agent's own."""

    def __init__(self, profile: Profile, workspace: Path, gateway: GatewayBackends) -> None:
        self._profile = profile
        self._workspace = workspace
        self._gateway = gateway
        self.backend = RoutedBackend(self._of_session, self._all)
        for name in self._declared():
            choice = choose(Commander(named=name), profile.settings, ())
            order = self._order(name, workspace, choice, gateway.settings())
            gateway.name_own(order)
            if not gateway.has(order):
                gateway.make(order)

    def of(self, turn: Turn, folder: str | None = None) -> Backend:
        return self._alone(Commander.of(turn), turn.session, folder)

    def of_source(self, source: Source | None, folder: str | None = None, session: str = "") -> Backend:
        """That of what comes from there; of the agent itself, if it comes from nowhere."""
        return self._alone(Commander(source=source), session, folder)

    def of_job(self, maker: Source | None, session: str = "") -> Backend:
        """That of a job which somebody made, in the session of one of its runs."""
        run = _JOB_RUN.match(session)
        source = None if run is None else job_source(run["job"])
        return self._alone(Commander(source=source, maker=maker, alone=True), session)

    def trusts(self, maker: Source | None) -> bool:
        """Whether a job is the owner's or an admin's, who may name folders of this machine."""
        return Commander(maker=maker).is_trusted(self._gateway.settings())

    async def place(
        self, source: Source | None, folder: str | None = None, session: str = ""
    ) -> World | None:
        """None while it is looked for what works here: nobody waits for that before a command does."""
        open_yet = leaves_open(Commander(source=source), self._gateway.settings())
        if open_yet and self._gateway.probes.results is None:
            return None
        return await self.of_source(source, folder, session).place()

    def project_files(self, source: Source | None, folder: str | None, session: str) -> Files | None:
        """The files among which a project may tell how to work in it; none for strangers: their folder is
        their own."""
        trusted = Commander(source=source).is_trusted(self._gateway.settings())
        return self.of_source(source, folder, session).files if trusted else None

    def _all(self) -> list[KeptBackend]:
        return self._gateway.of_agent(self._profile.agent, self._profile.home)

    def _alone(self, who: Commander, session: str, folder: str | None = None) -> Backend:
        hold = partial(self._hold, who, session, folder, self._gateway.settings())

        async def choose(_: str) -> KeptBackend:
            return (await hold()).kept

        return RoutedBackend(choose, self._all)

    @contextlib.contextmanager
    def bind(self, turn: Turn, folder: str | None = None) -> Iterator[None]:
        """What the session does meanwhile is done in one backend, whatever the settings become."""
        bound, key = self._gateway.bound, (self._profile.agent, turn.session)
        settings = self._gateway.settings()
        get = bound[key] = partial(self._hold, Commander.of(turn), turn.session, folder, settings)
        try:
            yield
        finally:
            if bound.get(key) is get:  # a run that was left behind may end during the next one
                del bound[key]

    async def processes(self, session: str) -> list[ProcessView]:
        """What runs in the background for a session, in any of them."""
        views = [await kept.ask(lambda backend: backend.processes.list(session)) for kept in self._all()]
        return [view for listed in views for view in listed]

    async def asks_all(self, session: str) -> bool:
        """Whether a person is asked before each command of the session."""
        get = self._gateway.bound.get((self._profile.agent, session))
        return get is not None and (await get()).choice.ask_all

    def _declared(self) -> Collection[str]:
        settings, agent = self._profile.settings, self._profile.agent  # they may not count yet
        routed = (route.backend for route in settings.routes if route.agent == agent and route.backend)
        names = (name.strip().lower() for name in (settings.terminal.backend, *routed))
        return [name for name in dict.fromkeys(names) if name != AUTO]

    async def _of_session(self, session: str) -> KeptBackend:
        get = self._gateway.bound.get((self._profile.agent, session))
        if get is not None:
            return (await get()).kept
        if session:  # what its turn left running must not slip out of the sandbox that it was in
            raise UserError(f"No turn runs in the session {session}, so nothing can be done there now.")
        return (await self._hold(Commander(), "", None, self._gateway.settings())).kept

    async def _hold(
        self, who: Commander, session: str, folder: str | None, settings: Settings
    ) -> HeldBackend:
        """The backend that who commands gets, once it is sure that it holds what it must."""
        choice = choose(who, settings, await self._probes(who, settings))
        choice.check()
        workspace = self._workspace
        if choice.apart:
            workspace = self._profile.home / SANDBOXES / choice.backend / _task(who, session) / WORKSPACE
        elif folder is not None and not await asyncio.to_thread(is_led_away, folder):
            workspace = Path(folder)
        order = self._order(choice.backend, workspace, choice, settings)
        if workspace == self._workspace:
            self._gateway.name_own(order)
        kept = await self._gateway.get(order)
        choice.check(await kept.place())
        return HeldBackend(kept=kept, choice=choice)

    async def _probes(self, who: Commander, settings: Settings) -> Collection[SandboxProbe]:
        """What works here, where it matters: nobody waits for it in vain."""
        probes = await self._gateway.probes.get() if leaves_open(who, settings) else ()
        return [probe for probe in probes if self._gateway.offers(probe.name)]

    def _order(self, name: str, workspace: Path, choice: BoundaryChoice, settings: Settings) -> BackendOrder:
        both = (self._profile.settings, self._gateway.settings())
        names = ((route, route.backend.strip().lower()) for each in both for route in each.routes)
        return BackendOrder(
            name=name,
            profile=self._profile,
            workspace=workspace,
            network=choice.network,
            route=next((route for route, named in names if named == name), None),
            own_folder=choice.apart,
            passthrough=settings.terminal.env_passthrough,
        )

    async def bring(self, turn: Turn, item: MediaItem, path: str, folder: str | None = None) -> str:
        """Where the turn's commands find a file that came with a message and is kept at a path of ours: there
        if they see it, else a copy."""
        backend = self.of(turn, folder)
        world = await backend.place()
        if world.host_files:
            return path
        copy = f"{incoming_folder(world, self._profile)}/{os.path.basename(path)}"
        there = await backend.files.stat("", copy)
        if there is None or there.size != item.size:
            await backend.files.write("", copy, _pieces(path))
        return copy


def incoming_folder(world: World, profile: Profile) -> str:
    """Where files that came with messages are in a world."""
    return str(profile.home / MEDIA) if world.host_files else f"{world.workspace.rstrip('/')}/{_INCOMING}"


def _task(who: Commander, session: str) -> str:
    """The name of a stranger's folder: one for each session, and for all runs of a job. The ids of an API
    client's sessions are its own words, and may be those of another key before, so the key counts too."""
    source = who.source
    kind = SourceKind.PRIVATE if source is None else source.kind
    run = _JOB_RUN.match(session) if kind is SourceKind.JOB else None
    if run is not None:
        return f"job-{run['job']}"
    if source is not None and kind not in CHAT_KINDS:
        name = "\0".join((kind.value, owner_of(source) or "", session))
    elif _TASK.fullmatch(session):
        return f"session-{session}"
    else:
        name = session
    return f"{kind.value}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def _sweep(folder: Path, kept: Collection[Path], before: float) -> int:
    gone = 0
    for workspace in folder.glob(f"*/*/{WORKSPACE}"):
        if workspace not in kept and not workspace.is_symlink() and workspace.stat().st_mtime < before:
            shutil.rmtree(workspace.parent, ignore_errors=True)
            gone += not workspace.exists()
    return gone


async def _pieces(path: str) -> AsyncIterator[bytes]:
    with await asyncio.to_thread(open, path, "rb") as file:
        while piece := await asyncio.to_thread(file.read, _PIECE):
            yield piece


class BoundAgent:
    """An agent whose commands run where the route of the turn and the folder of the session say."""

    def __init__(self, agent: Agent, backends: AgentBackends) -> None:
        self._agent = agent
        self._backends = backends

    async def run(self, run: Run) -> AsyncIterator[AgentEvent]:
        folder = run.session.workspace
        if folder is not None and await asyncio.to_thread(is_led_away, folder):
            log.warning("backend.folder_moved session=%s folder=%s", run.session.id, folder)
            yield Notice(text=_LED_AWAY.format(folder=one_line(folder, 200)))
        with self._backends.bind(run.turn, folder):
            async for event in self._agent.run(run):
                yield event


def is_led_away(folder: str) -> bool:
    """Whether a link stands now where a session's folder was, or above it. The real path was stored, so what
    is there now was never meant, and rules for paths would be judged by a name that is not where things
    happen."""
    return os.path.realpath(folder) != folder


class WorldScopes:
    """What an agent's commands may do without asking, by the world they run in. `closed` are the homes of the
    gateway and its agents; another machine or a sandbox may hold one too, at the usual place.
    `locks` tells what the operator says about commands, as it is now."""

    def __init__(self, profile: Profile, closed: tuple[str, ...], locks: Callable[[], UserLocks]) -> None:
        self._profile = profile
        self._closed = closed
        self._locks = locks
        self._scopes: dict[World, CommandScope] = {}

    async def of(self, world: World) -> CommandScope:
        if world not in self._scopes:
            if len(self._scopes) >= _MOST_SCOPES:
                self._scopes.clear()
            self._scopes[world] = await asyncio.to_thread(self._make, world)
        locks = self._locks()
        return replace(
            self._scopes[world], deny=locks.deny, ask=locks.ask, allow=locks.allow, folders=locks.folders
        )

    def _make(self, world: World) -> CommandScope:
        workspace = Path(world.workspace)
        if world.host_files:
            wide = is_wide(world.workspace, world.home)
            homes = homes_for(self._profile, workspace, self._closed)
        else:
            wide = not is_free_workspace(world.workspace, world.home)
            closed = (*self._closed, f"{world.home.rstrip('/')}/{USUAL_HOME}")
            own = () if world.boundary is Boundary.NONE else (world.workspace, world.home)
            homes = FolderRules(closed=closed, writable=own)
        return CommandScope(
            cwd=world.workspace,
            workspace=world.workspace,
            home=world.home,
            wide=wide,
            homes=homes,
            own_pids=(os.getpid(),) if world.host_files else (),
            contained=world.boundary.holds_strangers,
            network_open=world.network.open,
        )
