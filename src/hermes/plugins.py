"""Every extension point on one screen. A plugin is a package with entry points in one of these groups, and
what Hermes brings along registers by the same means. Nothing is read before somebody asks, and a plugin
that breaks is told of in one sentence and never stops the rest."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from importlib import import_module
from threading import Thread
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, field

from hermes.domain.chats.address import LOCAL_DOOR
from hermes.domain.chats.capabilities import Manifest
from hermes.domain.errors import UserError
from hermes.domain.ports.world import BACKENDS
from hermes.domain.settings.settings import PluginSettings
from hermes.domain.system.entry_points import EntryPoint, entry_points
from hermes.domain.text import one_line
from hermes.domain.word import replace

if TYPE_CHECKING:
    from hermes.domain.chats.adapter import AdapterContext, DescribeApp, LogIn
    from hermes.domain.ports.agent import Memory, Provider
    from hermes.domain.ports.platform import Platform
    from hermes.domain.ports.world import Backend, BackendRequest, MakeBackend
    from hermes.domain.settings.settings import ModelSettings, Profile
    from hermes.domain.tools.services import ToolServices
    from hermes.domain.tools.tool import Tool
    from hermes.domain.tools.toolbox import ToolSource

    MakeMemory = Callable[[Profile], Memory]
    MakeProvider = Callable[[ModelSettings], Provider]
    MakePlatform = Callable[[AdapterContext], Platform]
    MakeTools = Callable[[ToolServices], Sequence[Tool] | ToolSource]

log = logging.getLogger("hermes.plugins")
T = TypeVar("T")
API = 1
"""The version of the plugin interface. A plugin's module may say in `HERMES_API` which one it is made for."""
OURS = "hermes-gateway"
"""The entry of the tools that Hermes brings along; they come before all others."""
BUILTIN = "builtin"
"""Their entry's name, which is no toolset: they have several."""
EVERY_PLUGIN = PluginSettings()
LOAD_SECONDS = 10.0
"""How long the import of a plugin may take, or a function that makes something."""
NEXT_SECONDS = 1.0
"""How long if another one has just been given up: several that hang must not add up."""
_AGAIN_AFTER = 60.0

PLATFORMS = "hermes.platforms"
TOOLS = "hermes.tools"
PROVIDERS = "hermes.providers"
MEMORY = "hermes.memory"
COMMANDS = "hermes.commands"
HOOKS = "hermes.hooks"

GROUPS = {
    PLATFORMS: "a `Manifest`; its adapter is called with an `AdapterContext` for a `Platform`",
    TOOLS: "a `Tool`, several, or a function of an agent's `ToolServices` that makes them or a `ToolSource`",
    PROVIDERS: "called with `ModelSettings` for a `Provider`; the entry's name is the provider's",
    BACKENDS: "called with a `BackendRequest` for a `Backend`; the entry's name is the backend's",
    MEMORY: "called with a `Profile` for a `Memory`; `memory.provider` names the one that is used",
    COMMANDS: "a module whose functions carry the `@command` of `hermes.control.commands.registry`",
    HOOKS: "a function (event_type, context) that observes; its attribute `events` names what it follows",
}


PARTS = {
    TOOLS: ("open", "tools", "changed", "close"),
    MEMORY: ("notes",),
    BACKENDS: ("open", "health", "idle", "close", "place", "cwd", "run", "start", "files", "processes"),
}
"""What something must have that a plugin's function makes."""


class PluginFault(UserError):
    """What is wrong with a plugin, for whoever asked for it."""


class InstalledPlugin(Struct, frozen=True, kw_only=True):
    """A plugin as it stands: what it offers, or `why` it cannot be used."""

    group: str
    name: str
    package: str
    version: str
    value: Any = None
    disabled: bool = False
    why: str = ""


class OfferedTools(Struct, frozen=True, kw_only=True):
    """The tools of plugins: those that are the same for every agent, and what makes some for one."""

    plain: tuple[Tool, ...] = ()
    makers: Mapping[str, MakeTools] = field(default_factory=dict)

    @property
    def toolsets(self) -> set[str]:
        return {*(tool.toolset for tool in self.plain), *self.makers} - {BUILTIN}


def platform_manifests() -> tuple[Manifest, ...]:
    """The platforms there are, by name. Manifests are plain data: no adapter and no SDK is imported."""
    # The name of the local door opens it for everybody: no platform may have it.
    usable = (manifest for _, manifest in _load(PLATFORMS) if manifest.name != LOCAL_DOOR)
    return tuple(sorted(usable, key=lambda manifest: manifest.name))


def tools(used: PluginSettings = EVERY_PLUGIN) -> OfferedTools:
    plain: list[Tool] = []
    makers: dict[str, MakeTools] = {}
    for name, value in _load(TOOLS, used):
        if callable(value):
            makers[name] = value
        else:
            plain += value if isinstance(value, list | tuple) else (value,)
    return OfferedTools(plain=tuple(plain), makers=makers)


def make_tools(name: str, make: MakeTools, services: ToolServices) -> Sequence[Tool] | ToolSource:
    """What a plugin makes of an agent's services; nothing if it fails. Blocks: call it off the loop."""

    def make_all() -> Sequence[Tool] | ToolSource:
        made = make(services)
        return tuple(made) if isinstance(made, Iterable) else made  # a generator works only now

    return _make_or_tell(TOOLS, name, make_all) or ()


def providers(used: PluginSettings = EVERY_PLUGIN) -> Mapping[str, MakeProvider]:
    return dict(_load(PROVIDERS, used))


def backends(used: PluginSettings = EVERY_PLUGIN) -> Mapping[str, MakeBackend]:
    """What makes the places that commands run in, by their names."""
    return dict(_load(BACKENDS, used))


def make_backend(name: str, make: MakeBackend, request: BackendRequest) -> Backend:
    """What a plugin makes for an agent's commands. A `UserError` if it does not: nothing else may stand in
    for it. Blocks: call it off the loop."""
    try:
        return _make(BACKENDS, name, lambda: make(request))
    except Exception as error:  # foreign code may raise anything
        if isinstance(error, UserError) and not isinstance(error, PluginFault):
            raise  # its own words for people
        raise UserError(f"The backend “{name}” cannot be made ({_words(error)}).") from error


def memories(used: PluginSettings = EVERY_PLUGIN) -> Mapping[str, MakeMemory]:
    return dict(_load(MEMORY, used))


def make_memory(name: str, make: MakeMemory, profile: Profile) -> Memory | None:
    """What a plugin remembers for an agent; None if it fails. Blocks: call it off the loop."""
    return _make_or_tell(MEMORY, name, lambda: make(profile))


def ask_memory(name: str, ask: Callable[[], T]) -> T | None:
    """What a memory says at once; None if it fails. Blocks: call it off the loop."""
    try:
        return _in_thread(name, ask, "its function")
    except Exception as error:  # foreign code may raise anything
        _tell(MEMORY, name, _words(error))
        return None


def hooks(used: PluginSettings = EVERY_PLUGIN) -> Mapping[str, Callable[[str, dict[str, Any]], Any]]:
    return dict(_load(HOOKS, used))


def load_commands(used: PluginSettings = EVERY_PLUGIN) -> None:
    """Slash commands register themselves when their module is imported."""
    for _ in _load(COMMANDS, used):
        pass


def load_adapter(manifest: Manifest) -> MakePlatform:
    """The adapter of a platform; this is where its SDK is imported."""
    adapter: MakePlatform = _named(manifest, manifest.adapter)
    return adapter


def load_login(manifest: Manifest) -> LogIn:
    """What lets us into a platform with a person's help."""
    log_in: LogIn = _named(manifest, manifest.login)
    return log_in


def load_app(manifest: Manifest) -> DescribeApp:
    """What describes our app for a platform's vendor."""
    describe: DescribeApp = _named(manifest, manifest.app)
    return describe


def _named(manifest: Manifest, place: str) -> Any:
    module, _, name = place.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        needs = f"Install {', '.join(manifest.requires) or 'its packages'}"
        needs = f"Run: hermes platforms install {manifest.name}" if manifest.extra is not None else needs
        raise UserError(
            f"{manifest.title} cannot be used: {error}.", hint=f"{needs}, then start the gateway again."
        ) from error


def survey(used: PluginSettings) -> list[InstalledPlugin]:
    """Every plugin that is installed, group by group, loaded: how it stands with each."""
    return [plugin for group in GROUPS for plugin in _installed(group, used)]


def _load(group: str, used: PluginSettings = EVERY_PLUGIN) -> Iterator[tuple[str, Any]]:
    """The things that plugins offer, by name."""
    for plugin in _installed(group, used):
        if plugin.why:
            _tell(group, plugin.name, plugin.why)
        elif not plugin.disabled:
            yield plugin.name, plugin.value


def _installed(group: str, used: PluginSettings) -> Iterator[InstalledPlugin]:
    """Ours come first, and no plugin can take a name of theirs."""
    ours: set[str] = set()
    for entry in sorted(entry_points(group), key=_place):
        package = entry.package
        plugin = InstalledPlugin(group=group, name=entry.name, package=package, version=entry.version)
        if package != OURS and not used.allows(package, f"{group.removeprefix('hermes.')}:{entry.name}"):
            yield replace(plugin, disabled=True)
            continue
        try:
            value = _load_own(entry) if package == OURS else _load_foreign(entry)
        except Exception as error:  # foreign code may raise anything while it is imported
            yield replace(plugin, why=_words(error))
            continue
        names = {entry.name, value.name if isinstance(value, Manifest) else entry.name}
        if package == OURS:
            ours |= names
            yield replace(plugin, value=value)
            continue
        taken = sorted(ours & names) if group != COMMANDS else ()  # their entries' names mean nothing
        why = f"Hermes itself has one that is called {taken[0]}" if taken else _fault(group, value)
        yield replace(plugin, value=value, why=why)


def _place(entry: EntryPoint) -> tuple[bool, str]:
    return entry.package != OURS, entry.name


def is_installed(group: str, name: str) -> bool:
    """Whether there is such an entry, however it stands with it."""
    return any(entry.name == name for entry in entry_points(group))


def _fault(group: str, value: object) -> str:
    """What is wrong with the kind of thing that an entry is; empty if nothing is."""
    if group == PLATFORMS:
        return "" if isinstance(value, Manifest) else "it is not a Manifest"
    if group == COMMANDS:
        return "" if isinstance(value, ModuleType) else "it is not a module"
    if group == TOOLS and not callable(value):
        from hermes.domain.tools.tool import Tool

        several = value if isinstance(value, list | tuple) else (value,)
        return "" if all(isinstance(each, Tool) for each in several) else "it is neither a Tool nor several"
    if not callable(value):
        return "it is not a function"
    events = getattr(value, "events", ()) if group == HOOKS else ()
    if not isinstance(events, list | tuple) or not all(isinstance(event, str) for event in events):
        return "its `events` are not a list of names"
    return ""


def _load_own(entry: EntryPoint) -> Any:
    """A gateway uses few of the backends and memories that there are: each is imported when the first is
    made."""

    def make(given: BackendRequest | Profile) -> Any:
        return entry.load()(given)

    return make if entry.group in (BACKENDS, MEMORY) else entry.load()


def _load_foreign(entry: EntryPoint) -> Any:
    def load() -> Any:
        module = import_module(entry.module)
        api = getattr(module, "HERMES_API", API)
        if api != API:
            raise PluginFault(f"it is made for version {api} of the plugin interface, and this is {API}")
        return entry.load()

    return _in_thread(entry.module, load, "its import")


def _make(group: str, name: str, make: Callable[[], T]) -> T:
    """What a plugin's function makes, or whatever it raises."""
    made = _in_thread(name, make, "its function")
    lacking = [part for part in PARTS[group] if not hasattr(made, part) and not isinstance(made, tuple)]
    if lacking:
        raise PluginFault(f"what it made has no `{lacking[0]}`")
    return made


def _make_or_tell(group: str, name: str, make: Callable[[], T]) -> T | None:
    """The same; None, and a word in the log, if it fails."""
    key = f"{group.removeprefix('hermes.')}:{name}"
    try:
        made = _make(group, name, make)
        broken.pop(key, None)
        return made
    except Exception as error:  # foreign code may raise anything
        broken[key] = _words(error)
        _tell(group, name, broken[key])
        return None


broken: dict[str, str] = {}
"""Why functions of plugins made nothing when this process last called them, by group and name."""


_hung: dict[str, float] = {}
"""What was given up and has not come back, and when it was given up."""


def _in_thread(name: str, work: Callable[[], T], what: str) -> T:
    """Do a plugin's work in a thread of its own: one that hangs is left to itself, and the rest goes on."""
    done: Future[T] = Future()
    key, now = f"{what} ({name})", time.monotonic()
    if key in _hung:
        raise PluginFault(f"{what} has not ended yet")
    in_a_row = any(now - at < _AGAIN_AFTER for at in _hung.values())
    seconds = min(NEXT_SECONDS, LOAD_SECONDS) if in_a_row else LOAD_SECONDS

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # whatever it is, it is told of where the plugin is asked for
            done.set_exception(error if isinstance(error, Exception) else RuntimeError(repr(error)))
        _hung.pop(key, None)

    Thread(target=run, name=f"plugin {name}", daemon=True).start()
    try:
        return done.result(seconds)
    except TimeoutError:
        if done.done():
            raise
        _hung[key] = time.monotonic()
        if done.done():  # at the last moment, so nobody else would take it out
            _hung.pop(key, None)
        raise PluginFault(f"{what} did not end within {seconds:g} s") from None


def _words(error: Exception) -> str:
    return one_line(
        error.message if isinstance(error, UserError) else f"{type(error).__name__}: {error}", 200
    )


def _tell(group: str, name: str, why: str) -> None:
    log.warning("plugin.broken group=%s name=%s: it is left out (%s)", group, name, one_line(why, 200))
