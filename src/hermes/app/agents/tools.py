"""The toolbox of an agent, put together: what limits its tools, what all of them go through, and the sources
that are kept open for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence, Set
from functools import partial
from typing import Protocol, TypeVar, runtime_checkable

from msgspec import Struct, field

from hermes.agent.tools.registry import TOOLS, toolsets
from hermes.control.people.standing import is_trusted
from hermes.control.workers import Supervisor
from hermes.domain.chats.address import LOCAL_DOOR, Source, SourceKind
from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.settings.settings import Settings
from hermes.domain.system.border import contain, describe
from hermes.domain.text import one_line
from hermes.domain.tools.toolbox import Toolbox, ToolsetLimit, ToolSource
from hermes.domain.tools.toolsets import NO_TOOLSET, check_names, preset_of
from hermes.domain.turns.session import Session
from hermes.state.settings.loader import LoadedSettings

log = logging.getLogger("hermes.tools")
T = TypeVar("T")
_OTHER_NAMES = {"cli": LOCAL_DOOR, "api": "api_server"}
"""What platforms are called in `platform_toolsets`, where that is not their name."""
_HOUSE = "homeassistant"
"""Both the platform and the toolset."""
OPEN_SECONDS = 30.0
FIRST_SECONDS = 1.5
"""How long an agent's first turn waits for its sources."""
CLOSE_SECONDS = 5.0
ASK_SECONDS = 1.0
"""How long a source rests between two askings: one that says “changed” all the time would hold the loop."""


# --- limits ------------------------------------------------------------------------------------------


def limit_for_all(settings: Settings) -> ToolsetLimit:
    """What the settings leave to every agent."""
    return ToolsetLimit(enabled=settings.toolsets, disabled=settings.agent.disabled_toolsets)


class TurnLimits(Struct, frozen=True, kw_only=True):
    """The limits of an agent's turns, by the settings of now: for all agents, for this one, for the platform
    and for the route that the turn came by. `main` is that of the main agent, which the settings do not host;
    any other that they do not host is gone, and has nothing left."""

    settings: Callable[[], Settings]
    agent: AgentId
    main: ToolsetLimit = field(default_factory=ToolsetLimit)

    def __call__(self, session: Session | None, source: Source | None) -> Sequence[ToolsetLimit]:
        settings = self.settings()
        return (limit_for_all(settings), self.own(settings), *_limits_by_place(settings, session, source))

    def own(self, settings: Settings) -> ToolsetLimit:
        hosted = settings.agents.get(self.agent)
        if hosted is not None:
            return ToolsetLimit(enabled=hosted.enabled_toolsets, disabled=hosted.disabled_toolsets)
        return self.main if self.agent == MAIN_AGENT else ToolsetLimit(enabled=(NO_TOOLSET,))


def _limits_by_place(
    settings: Settings, session: Session | None, source: Source | None
) -> Iterator[ToolsetLimit]:
    if source is None or source.kind is not SourceKind.JOB:
        yield ToolsetLimit(disabled=("notify",))  # elsewhere an answer is heard anyway
    for name, chosen in settings.platform_toolsets.items():
        if name in _names_of(source, session):
            yield ToolsetLimit(enabled=_with_group(name, chosen.toolsets))
    route = settings.route_for(source)
    if route is not None and route.toolsets:
        yield ToolsetLimit(enabled=route.toolsets)
    if session is not None and session.manner is not None and session.manner.tools_off:
        yield ToolsetLimit(disabled=session.manner.tools_off)


def house_limits(
    settings: Settings, session: Session | None, source: Source | None
) -> Sequence[ToolsetLimit]:
    """Who may speak with the agent may not open its owner's door, unless a limit of the place names the
    toolset. Those who speak through the house live there."""
    names, route = _names_of(source, session), settings.route_for(source)
    chosen = {*names, *(() if route is None else route.toolsets)}
    for key in names & settings.platform_toolsets.keys():
        chosen |= {*settings.platform_toolsets[key].toolsets}
    if _HOUSE in chosen or is_trusted(source, settings):
        return ()
    return (ToolsetLimit(disabled=(_HOUSE,)),)


def _names_of(source: Source | None, session: Session | None) -> Set[str]:
    """What a platform and its account may be called. A turn that nobody wrote is limited like its session."""
    place = "" if session is None else session.place or ""
    credential = source.address.credential if source else place.partition(":")[0]
    platform = credential.partition("@")[0]
    return {credential, platform, *(name for name, own in _OTHER_NAMES.items() if own == platform)}


def _with_group(platform: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """The names with the group in place of the platform's own preset."""
    preset, group = preset_of(platform.partition("@")[0])
    return tuple(group if name.replace("_", "-") == preset else name for name in names)


def check_toolsets(loaded: LoadedSettings, added: Collection[str]) -> None:
    """A `SettingsError` for a limit that names a toolset which is none: it may be mistyped. `added` are the
    toolsets of plugins."""
    settings = loaded.settings
    limits = {"toolsets": settings.toolsets, "agent.disabled_toolsets": settings.agent.disabled_toolsets}
    limits |= {
        f"platform_toolsets.{name}": _with_group(name, chosen.toolsets)
        for name, chosen in settings.platform_toolsets.items()
    }
    limits |= {f"routes[{place}].toolsets": route.toolsets for place, route in enumerate(settings.routes)}
    for key, names in limits.items():
        _check_limit(loaded, key, names, added)


def check_own_toolsets(
    loaded: LoadedSettings, limit: ToolsetLimit, agent: AgentId, added: Collection[str]
) -> None:
    """A `UserError` for a name in an agent's own limit that means nothing."""
    own = {"enabled_toolsets": limit.enabled, "disabled_toolsets": limit.disabled}
    for key, names in own.items():
        _check_limit(loaded, f"agents.{agent}.{key}", names, added)


def _check_limit(loaded: LoadedSettings, key: str, names: Collection[str], added: Collection[str]) -> None:
    try:
        check_names(names, known_names({*added, *loaded.settings.mcp_servers}))
    except UserError as error:
        raise loaded.wrong(key, f"{key}: {error.message}", error.hint) from error


def known_names(added: Collection[str]) -> set[str]:
    """What limits may name: our toolsets and tools, and what plugins add."""
    return {*toolsets(), *TOOLS, *added}


# --- sources that live -------------------------------------------------------------------------------


@runtime_checkable
class WatchesOwner(Protocol):
    """A source that offers what its owner has accepted."""

    def look_again(self) -> None: ...


class OpenSources(Struct, kw_only=True):
    """Keeps the sources of an agent's toolbox open, each in a loop of its own. One that fails has no tools
    until it was opened again; the others and the turns that run go on."""

    toolbox: Toolbox
    sources: Mapping[str, ToolSource]
    loops: Supervisor
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _asked: dict[str, asyncio.Event] = field(default_factory=dict)

    async def open(self) -> None:
        """Open all; returns when each has told its tools or failed, or after a moment."""
        for name, source in self.sources.items():
            self._asked[name] = asyncio.Event()
            self._tasks.append(self.loops.keep(f"tools of {name}", partial(self._live, name, source)))
        waits = [asyncio.ensure_future(asked.wait()) for asked in self._asked.values()]
        if waits:
            _, late = await asyncio.wait(waits, timeout=FIRST_SECONDS)
            for wait in late:
                wait.cancel()

    def look_again(self) -> None:
        """Tell those that read something of the owner's that it may have changed."""
        for source in self.sources.values():
            if isinstance(source, WatchesOwner):
                source.look_again()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_SECONDS + 1.0)

    async def _live(self, name: str, source: ToolSource) -> None:
        why, clock, level = "it was closed", self.loops.clock, logging.WARNING
        try:
            await _in_time(source.open())
            while True:
                asked = clock.monotonic()
                self.toolbox.offer(name, await _in_time(source.tools()))
                for place, fault in self.toolbox.problems.items():
                    if place.startswith(f"{name}/"):
                        log.warning("tool.left_out tool=%s why=%s", place, fault)
                self._asked[name].set()
                await contain(source.changed())
                await clock.sleep(max(asked + ASK_SECONDS - clock.monotonic(), 0.0))
        except asyncio.CancelledError:
            level = logging.INFO
            raise
        except BaseException as error:
            why = one_line(describe(error), 200)
            raise
        finally:
            self.toolbox.withdraw(name, why)
            self._asked[name].set()
            log.log(level, "tools.withdrawn source=%s why=%s", name, why)
            await _in_time(source.close(), CLOSE_SECONDS)


async def _in_time(work: Awaitable[T], seconds: float = OPEN_SECONDS) -> T:
    try:
        async with asyncio.timeout(seconds):
            return await contain(work)
    except TimeoutError:
        raise TimeoutError(f"it gave no answer within {seconds:g} s") from None
