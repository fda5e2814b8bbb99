"""The ladder: which boundary the commands of a turn get. Container, bubblewrap, landlock (never for
strangers), else this machine with a question before each command for owner and admins, and for strangers
nothing.

What works is probed once, soon after the start, and kept with its reason. A backend that somebody named is
never replaced: if it cannot hold what it must, the commands are refused."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from hermes.control.people.standing import at_machine, is_trusted
from hermes.domain.chats.address import LOCAL_DOOR, Address, Source, SourceKind
from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId
from hermes.domain.ports.world import (
    LOCAL,
    NO_NETWORK,
    OPEN_NETWORK,
    UNKNOWN_BOUNDARY,
    Boundary,
    NetworkRules,
    World,
)
from hermes.domain.settings.settings import (
    AUTO,
    NO_NETWORK_WORD,
    OPEN_NETWORK_WORD,
    Route,
    RouteMatch,
    Settings,
    TerminalSettings,
)
from hermes.domain.text import list_some
from hermes.domain.turns.turn import Turn
from hermes.domain.word import replace
from hermes.execution.sandboxes.probe import SandboxProbe, probe_in_child

log = logging.getLogger("hermes.backend")
_RANKS = {Boundary.CONTAINER: 0, Boundary.SANDBOX: 1, Boundary.WEAK: 2}
_HOST = re.compile(r"(\*\.)?[a-z0-9]([a-z0-9.:-]{0,251}[a-z0-9])?")
WHOLE_NETWORK = ("landlock", "daytona", "modal")
"""Those that open or close the network as a whole."""
SSH = "ssh"
_OPEN_BACKENDS = (LOCAL, SSH)
"""Those that cannot limit the network at all."""
_LOOK = "See what is missing: hermes doctor"
_STRANGERS_RUN = "Commands and files of people who are neither owner nor admin need a sandbox"
_NAME_ONE = "Set terminal.backend: auto, or name a sandbox in a route for them (routes[].backend)."
_OTHER_ONE = "Choose another (terminal.backend, routes[].backend), or set the network to open."
_NO_LOCAL = (f"{_STRANGERS_RUN}, and none is set for them.", _NAME_ONE)
_NO_SANDBOX = (f"{_STRANGERS_RUN}, and none works on this machine.", _LOOK)
_NO_WALL = (
    "The network cannot be limited for commands, because no sandbox works on this machine.",
    f"{_LOOK}; or remove terminal.network.",
)


class Commander(Struct, frozen=True, kw_only=True):
    """Whose commands they are: the source of the turn, and its `maker`, where somebody else had it made.
    `alone` is what nobody sits at: a job, a sub-agent. `named` is a backend that was settled before."""

    source: Source | None = None
    maker: Source | None = None
    alone: bool = False
    named: str = ""

    @classmethod
    def of(cls, turn: Turn) -> Commander:
        guidance = turn.input.guidance
        return cls(
            source=turn.source,
            maker=guidance.origin,
            alone=bool(guidance.unattended) or guidance.parent is not None,
            named=guidance.backend,
        )

    def is_trusted(self, settings: Settings) -> bool:
        return is_trusted(self.source if self.maker is None else self.maker, settings)

    @property
    def at_machine(self) -> bool:
        return self.source is not None and not self.alone and at_machine(self.source)

    def routes(self, settings: Settings) -> list[Route]:
        """A job is no way around the sandbox of whoever made it."""
        found = (settings.route_for(self.maker), settings.route_for(self.source))
        return [route for route in found if route is not None]


class BoundaryChoice(Struct, frozen=True, kw_only=True):
    """Where commands run and what they reach. `apart` are those of a stranger, in a folder of their own;
    `ask_all` says that a person is asked before each. With a `refusal` none is run."""

    backend: str = ""
    network: NetworkRules = OPEN_NETWORK
    apart: bool = False
    ask_all: bool = False
    refusal: tuple[str, str] | None = None
    """The sentence and its remedy."""

    def check(self, world: World | None = None) -> None:
        """A `UserError` says why nothing is run: at all, or in the backend's world."""
        fault = self.refusal or (None if world is None else self.fault(world))
        if fault is not None:
            raise UserError(fault[0], hint=fault[1])

    def fault(self, world: World) -> tuple[str, str] | None:
        """What the world does not hold although it must."""
        unlimited = world.network.open and not self.network.open
        return self.weakness(world.boundary, holds_network=not unlimited)

    def weakness(self, boundary: Boundary, *, holds_network: bool) -> tuple[str, str] | None:
        if self.apart and not boundary.holds_strangers:
            return (
                f"{_STRANGERS_RUN}, and the backend {self.backend} does not hold them in well enough.",
                _NAME_ONE,
            )
        if not holds_network:
            return (f"The backend {self.backend} cannot limit the network, and here it must.", _OTHER_ONE)
        return None


def holds_network(backend: str, network: NetworkRules) -> bool:
    """Whether a backend can limit commands to a network, as far as that is known before it is made."""
    if network.open:
        return True
    return backend not in _OPEN_BACKENDS and not (backend in WHOLE_NETWORK and network.hosts)


def leaves_open(who: Commander, settings: Settings) -> bool:
    """Whether what works here decides where these commands run."""
    at_machine = who.at_machine and _network(who, settings).open
    return _named(who, settings) == AUTO and not at_machine


def _named(who: Commander, settings: Settings) -> str:
    routed = (route.backend for route in who.routes(settings))
    return next(filter(None, (who.named, *routed, settings.terminal.backend)), AUTO).strip().lower()


def _network(who: Commander, settings: Settings) -> NetworkRules:
    """A route may open it for strangers; what is said for all counts for owner and admins."""
    trusted = who.is_trusted(settings)
    routed = (route.network for route in who.routes(settings))
    words = next(filter(None, routed), settings.terminal.network if trusted else ())
    try:
        return read_network(words) if words else OPEN_NETWORK if trusted else NO_NETWORK
    except ValueError:
        return NO_NETWORK


def choose(who: Commander, settings: Settings, probes: Collection[SandboxProbe]) -> BoundaryChoice:
    """`probes` count only where nothing is named."""
    name, network = _named(who, settings), _network(who, settings)
    stranger = not who.is_trusted(settings)
    if name != AUTO:
        refusal = _NO_LOCAL if stranger and name == LOCAL else None
        return BoundaryChoice(backend=name, network=network, apart=stranger, refusal=refusal)
    if who.at_machine and network.open:
        return BoundaryChoice(backend=LOCAL)
    for probe in climb(probes):
        if probe.works and (probe.boundary.holds_strangers or not stranger):
            return BoundaryChoice(backend=probe.name, network=network, apart=stranger)
    if stranger:
        return BoundaryChoice(network=network, apart=True, refusal=_NO_SANDBOX)
    refusal = None if network.open else _NO_WALL
    return BoundaryChoice(backend=LOCAL, network=network, ask_all=True, refusal=refusal)


def climb(probes: Collection[SandboxProbe]) -> list[SandboxProbe]:
    """The strongest first."""
    return sorted(probes, key=lambda probe: _RANKS.get(probe.boundary, len(_RANKS)))


def read_network(words: Sequence[str]) -> NetworkRules:
    """What the settings say of the network; a `ValueError` if that is neither a word nor hosts."""
    names = tuple(word.strip().lower() for word in words)
    if names == (OPEN_NETWORK_WORD,):
        return OPEN_NETWORK
    if names == (NO_NETWORK_WORD,):
        return NO_NETWORK
    for name in names:
        if name in (OPEN_NETWORK_WORD, NO_NETWORK_WORD) or not _HOST.fullmatch(name):
            raise ValueError(name)
    return NetworkRules(hosts=names)


# --- what works here ---------------------------------------------------------------------------------


class SandboxProbes:
    """What is known of the sandboxes of this machine. The first who asks waits; after that the answer is kept
    until `renew`, and while it is looked for anew, the old one counts."""

    def __init__(
        self,
        environ: Mapping[str, str],
        probe: Callable[
            [Mapping[str, str], TerminalSettings], Awaitable[Collection[SandboxProbe]]
        ] = probe_in_child,
        *,
        terminal: Callable[[], TerminalSettings] = TerminalSettings,
    ) -> None:
        self._environ = environ
        self._terminal = terminal
        self._probe = probe
        self._looking: asyncio.Task[None] | None = None
        self.results: tuple[SandboxProbe, ...] | None = None

    async def get(self) -> tuple[SandboxProbe, ...]:
        while self.results is None:
            self.renew()
            assert self._looking is not None
            await asyncio.shield(self._looking)
        return self.results

    def renew(self) -> None:
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look(), name="sandbox probes")

    async def _look(self) -> None:
        self.results = tuple(climb(await self._probe(self._environ, self._terminal())))
        for probe in self.results:
            why = "" if probe.works else f" why={probe.why}"
            log.info("sandbox.probed sandbox=%s works=%s%s", probe.name, probe.works, why)

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait((self._looking,))


# --- what is told of it ------------------------------------------------------------------------------

TERMINAL, TRUSTED, STRANGERS = "terminal", "owner and admins", "strangers"
_KINDS = {TERMINAL: SourceKind.PRIVATE, TRUSTED: SourceKind.JOB, STRANGERS: SourceKind.WEBHOOK}
_PEOPLE = {
    who: Commander(
        source=Source(address=Address(platform=LOCAL_DOOR if who == TERMINAL else "-", chat="-"), kind=kind)
    )
    for who, kind in _KINDS.items()
}


def boundary_facts(
    settings: Settings,
    probes: Collection[SandboxProbe],
    worlds: Mapping[tuple[str, NetworkRules], World] | None = None,
) -> list[dict[str, Any]]:
    """Which boundary counts for whom: in general, by each route that says something of its own, and for
    agents with a backend of their own. `worlds`
    are those of backends, with the network they were made with, that have told theirs."""
    cases = [("", who, replace(settings, routes=())) for who in _PEOPLE]
    for number, route in enumerate(settings.routes):
        if route.backend or route.network:
            # As if everything came by this route.
            alone = replace(settings, routes=(replace(route, match=RouteMatch()),))
            cases += [(f"routes[{number}]", who, alone) for who in (TRUSTED, STRANGERS)]
    apart: dict[str, list[AgentId]] = {}
    for agent, hosted in settings.agents.items():
        if hosted.backend:
            apart.setdefault(hosted.backend, []).append(AgentId(agent))
    for agents in apart.values():
        own = replace(settings.of(agents[0]), routes=())
        cases += [(f"agents {list_some(agents)}", who, own) for who in _PEOPLE]
    told = {} if worlds is None else worlds
    return [
        _facts(who, route, choose(_PEOPLE[who], each, probes), probes, told) for route, who, each in cases
    ]


def _facts(
    who: str,
    route: str,
    choice: BoundaryChoice,
    probes: Collection[SandboxProbe],
    worlds: Mapping[tuple[str, NetworkRules], World],
) -> dict[str, Any]:
    probe = next((probe for probe in probes if probe.name == choice.backend), None)
    world = worlds.get((choice.backend, choice.network)) or _other_world(choice, worlds)
    boundary = world.boundary if world is not None else probe.boundary if probe is not None else Boundary.NONE
    told = world is not None or probe is not None or choice.backend in ("", *_OPEN_BACKENDS)
    why, remedy = ("", "") if probe is None or probe.works else (probe.why, probe.remedy)
    refusal = choice.refusal
    if refusal is None and told and not why:
        holds = holds_network(choice.backend, choice.network)
        refusal = choice.weakness(boundary, holds_network=holds) or (choice.fault(world) if world else None)
    return {
        "who": who,
        "route": route,
        "backend": choice.backend,
        "boundary": str(boundary) if told else UNKNOWN_BOUNDARY,
        "network": str(choice.network),
        "own_folder": choice.apart,
        "ask_all": choice.ask_all,
        "refused": "" if refusal is None else refusal[0],
        "why": why,
        "remedy": remedy if refusal is None else refusal[1],
    }


def _other_world(choice: BoundaryChoice, worlds: Mapping[tuple[str, NetworkRules], World]) -> World | None:
    """That of the same backend with another network: it holds commands as strongly."""
    found = next((world for (name, _), world in worlds.items() if name == choice.backend), None)
    return None if found is None else replace(found, network=choice.network)


def probe_facts(probes: Collection[SandboxProbe]) -> Iterator[dict[str, Any]]:
    for probe in climb(probes):
        yield {
            "sandbox": probe.name,
            "boundary": str(probe.boundary),
            "works": probe.works,
            "why": probe.why,
            "remedy": probe.remedy,
        }
