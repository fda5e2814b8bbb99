"""The backends of a gateway: made by plugins from settings and variables, shared by all who want the same,
kept alive as long as they are used. Who gets which one is decided in `agent_backends.py`."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Hashable,
    Mapping,
    Sequence,
)
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar, cast

from msgspec import Struct

from hermes import plugins
from hermes.app.agents.ladder import (
    BoundaryChoice,
    SandboxProbes,
    boundary_facts,
    probe_facts,
)
from hermes.app.homes import SANDBOXES, WORKSPACE
from hermes.control.chores import HOURLY, Chore
from hermes.domain.clock import Clock
from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.ports.world import (
    OPEN_NETWORK,
    BackendRequest,
    MakeBackend,
    NetworkRules,
    World,
)
from hermes.domain.settings.settings import AUTO, ApprovalSettings, Profile, Route, Settings, TerminalSettings
from hermes.domain.text import one_line
from hermes.domain.word import replace
from hermes.execution.backend_life import KeptBackend
from hermes.state.home.homes import INSIDE

log = logging.getLogger("hermes.backend")
T = TypeVar("T")
_TEND_SECONDS = 30.0
_STOP_SECONDS = 15.0
_UNUSED_SECONDS = 30 * 86_400.0
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
        self.variable: Callable[[AgentId, str], str] = lambda agent, name: environ.get(name, "")
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
            find=lambda name: self.variable(order.profile.agent, name),
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
        await self._leave_removed()
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

    async def _leave_removed(self) -> None:
        """What an agent that is gone left running has nobody who could stop it."""
        there = {MAIN_AGENT, *self.settings().agents, *(agent for agent, _ in self.bound)}
        gone = [key for key in tuple(self._kept) if key[0] not in there]
        await _close([self._kept.pop(key) for key in gone])

    async def close(self) -> None:
        """All at once, and not for ever."""
        await self.probes.close()
        await _close((*self._kept.values(), *self._retired))

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


async def _close(kept: Sequence[KeptBackend]) -> None:
    try:
        async with asyncio.timeout(_STOP_SECONDS):
            ends = await asyncio.gather(*(each.close() for each in kept), return_exceptions=True)
    except TimeoutError:
        log.warning("backend.not_closed: some took longer than %g s", _STOP_SECONDS)
        return
    for each, error in zip(kept, ends, strict=True):
        if error is not None:
            log.warning("backend.not_closed backend=%s why=%s", each.name, error)


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
    approvals: ApprovalSettings


def _sweep(folder: Path, kept: Collection[Path], before: float) -> int:
    gone = 0
    for workspace in folder.glob(f"*/*/{WORKSPACE}"):
        if workspace not in kept and not workspace.is_symlink() and workspace.stat().st_mtime < before:
            shutil.rmtree(workspace.parent, ignore_errors=True)
            gone += not workspace.exists()
    return gone
