"""Backends for tests: the local one without a gateway around it, and one that does nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from hermes.agent.danger.scope import CommandScope
from hermes.app.agents.ladder import SandboxProbes
from hermes.domain.errors import HermesError, Unreachable
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.ports.world import (
    OPEN_NETWORK,
    Backend,
    BackendRequest,
    Boundary,
    NetworkRules,
    OpenEgress,
    World,
)
from hermes.domain.settings.settings import Profile, Settings, TerminalSettings
from hermes.execution.far.backend import FarBackend
from hermes.execution.far.pipes import Pipes, start_program
from hermes.execution.far.shipping import FarFacts
from hermes.execution.local.backend import LocalBackend, build_environment, make_local
from hermes.execution.sandboxes.probe import SandboxProbe
from hermes.state.files.outgoing import SendRules

NOWHERE = World(workspace="/w", home="/h", system="Linux", shell="bash")


def local_backend(
    *, home: Path, workspace: Path, environ: Mapping[str, str], passthrough: tuple[str, ...] = ()
) -> LocalBackend:
    """Commands and files of this machine, by the fork server, as a gateway has them."""
    return make_local(
        backend_request(home=home, workspace=workspace, environ=environ, passthrough=passthrough)
    )


def backend_request(
    *,
    home: Path,
    workspace: Path,
    environ: Mapping[str, str],
    passthrough: tuple[str, ...] = (),
    network: NetworkRules = OPEN_NETWORK,
    open_egress: OpenEgress | None = None,
) -> BackendRequest:
    """What a gateway makes a backend from."""
    return BackendRequest(
        profile=Profile(agent=MAIN_AGENT, home=home, settings=Settings()),
        workspace=workspace,
        environ=environ,
        passthrough=passthrough,
        share=lambda key, make: make(),
        network=network,
        open_egress=open_egress,
    )


def far_backend(*, home: Path, workspace: Path, environ: Mapping[str, str]) -> FarBackend:
    """The same by pipes to a far end, as in a container or on another machine."""
    place = HerePlace(workspace, build_environment(environ))
    return FarBackend(place, states=home / "cache/shells", given={})


class HerePlace:
    """This machine as a far world."""

    alone = False

    def __init__(self, workspace: Path, env: Mapping[str, str]) -> None:
        self._workspace = workspace
        self.tool_env = env

    async def open(self) -> None:
        return

    async def start(self, argv: Sequence[str]) -> Pipes:
        return await start_program(argv, self.tool_env)

    async def explain(self, words: str) -> HermesError | None:
        return Unreachable(f"this machine cannot run anything ({words})")

    def world(self, facts: FarFacts | None) -> World:
        home = self.tool_env["HOME"]
        return World(workspace=str(self._workspace), home=home, system="here", shell="bash", host="here")

    async def close(self, *, only_orphans: bool = False) -> None:
        return


_KINDS = {"docker": Boundary.CONTAINER, "bubblewrap": Boundary.SANDBOX, "landlock": Boundary.WEAK}


def fake_probes(*works: str) -> SandboxProbes:
    """As on a machine where these sandboxes work and no others, whatever works on this one."""

    async def probe(environ: Mapping[str, str], terminal: TerminalSettings) -> list[SandboxProbe]:
        return [_probed(name, name in works) for name in _KINDS]

    return SandboxProbes({}, probe)


def _probed(name: str, works: bool) -> SandboxProbe:
    why, remedy = ("", "") if works else (f"{name} is not installed.", f"Install {name}.")
    return SandboxProbe(name=name, boundary=_KINDS[name], works=works, why=why, remedy=remedy)


class BoxedBackend:
    """A backend that says of itself that it is in another `world`; nothing holds its commands in."""

    def __init__(self, inner: Backend, world: World) -> None:
        self._inner = inner
        self._world = world

    async def place(self, session: str = "") -> World:
        return self._world

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def make_boxed(name: str, request: BackendRequest) -> Backend:
    """The local backend under the name of a sandbox, and with the world that it would have."""
    world = World(
        workspace=str(request.workspace),
        home="/home/box",
        system="Linux",
        shell="bash",
        sandbox=name,
        boundary=_KINDS[name],
        network=request.network,
    )
    return cast(Backend, BoxedBackend(make_local(request), world))


class _NoFiles:
    async def stat(self, session: str, path: str) -> None:
        return None


class NoBackend:
    """Says where it is, has no files, and does nothing."""

    files = _NoFiles()

    async def place(self, session: str = "") -> World:
        return NOWHERE

    async def cwd(self, session: str) -> str:
        return NOWHERE.workspace


def fixed_scope(scope: CommandScope | None = None) -> Callable[[World], Awaitable[CommandScope]]:
    """The same scope in every world; if none is given, that of the world's own folders."""

    async def scope_in(world: World) -> CommandScope:
        return scope or CommandScope(cwd=world.workspace, workspace=world.workspace, home=world.home)

    return scope_in


def fixed_rules(*, allowed: Sequence[Path], homes: Sequence[Path]) -> Callable[[World], Awaitable[SendRules]]:
    """The same folders that files may be sent from in every world."""

    async def rules(world: World) -> SendRules:
        return SendRules(allowed=[*map(str, allowed)], homes=[*map(str, homes)])

    return rules
