"""Every extension point on one screen. A plugin is a package with entry points in one of these groups, and
what Hermes brings along registers by the same means. Nothing is read before somebody asks, and a plugin
that breaks is told of in one sentence and never stops the rest."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hermes.domain.address import LOCAL_DOOR
from hermes.domain.capabilities import Manifest
from hermes.domain.errors import UserError
from hermes.domain.text import one_line

if TYPE_CHECKING:
    from hermes.domain.adapter import AdapterContext, LogIn
    from hermes.domain.ports.agent import Provider
    from hermes.domain.ports.platform import Platform
    from hermes.domain.settings.settings import ModelSettings
    from hermes.domain.tool import Tool

    MakeProvider = Callable[[ModelSettings], Provider]
    MakePlatform = Callable[[AdapterContext], Platform]

log = logging.getLogger("hermes.plugins")

PLATFORMS = "hermes.platforms"
TOOLS = "hermes.tools"
PROVIDERS = "hermes.providers"
BACKENDS = "hermes.backends"
MEMORY = "hermes.memory"
COMMANDS = "hermes.commands"
HOOKS = "hermes.hooks"

GROUPS = {
    PLATFORMS: "a `Manifest`; its adapter is called with an `AdapterContext` for a `Platform`",
    TOOLS: "a `Tool`, or several",
    PROVIDERS: "called with `ModelSettings` for a `Provider`; the entry's name is the provider's",
    BACKENDS: "where commands run; read from a later version on",
    MEMORY: "what an agent knows beyond a session; read from a later version on",
    COMMANDS: "a module whose functions carry the `@command` of `hermes.control.commands.registry`",
    HOOKS: "a function (event_type, context) that observes; its attribute `events` names what it follows",
}


def platform_manifests() -> tuple[Manifest, ...]:
    """The platforms there are, by name. Manifests are plain data: no adapter and no SDK is imported."""
    manifests = (value for name, value in _load(PLATFORMS) if _is(Manifest, name, value, PLATFORMS))
    # The name of the local door opens it for everybody: no platform may have it.
    usable = (manifest for manifest in manifests if manifest.name != LOCAL_DOOR)
    return tuple(sorted(usable, key=lambda manifest: manifest.name))


def tools() -> tuple[Tool, ...]:
    from hermes.domain.tool import Tool

    offered: list[Tool] = []
    for name, value in _load(TOOLS):
        values = value if isinstance(value, Iterable) else (value,)
        offered += [each for each in values if _is(Tool, name, each, TOOLS)]
    return tuple(offered)


def providers() -> Mapping[str, MakeProvider]:
    return dict(_load(PROVIDERS))


def hooks() -> Mapping[str, Callable[[str, dict[str, Any]], Any]]:
    found = dict(_load(HOOKS))
    for name in [name for name, value in found.items() if not callable(value)]:
        del found[name]
        _tell(HOOKS, name, "it is not a function")
    return found


def load_commands() -> None:
    """Slash commands register themselves when their module is imported."""
    for _ in _load(COMMANDS):
        pass


def load_adapter(manifest: Manifest) -> MakePlatform:
    """The adapter of a platform; this is where its SDK is imported."""
    adapter: MakePlatform = _named(manifest, manifest.adapter)
    return adapter


def load_login(manifest: Manifest) -> LogIn:
    """What lets us into a platform with a person's help."""
    log_in: LogIn = _named(manifest, manifest.login)
    return log_in


def _named(manifest: Manifest, place: str) -> Any:
    module, _, name = place.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        needs = ", ".join(manifest.requires) or "its packages"
        needs = f"hermes-gateway[{manifest.extra}]" if manifest.extra else needs
        raise UserError(
            f"{manifest.title} cannot be used: {error}.", hint=f"Install {needs}, then start again."
        ) from error


def _load(group: str) -> Iterator[tuple[str, Any]]:
    """The things that plugins offer, by name."""
    from importlib.metadata import entry_points

    for entry in sorted(entry_points(group=group), key=lambda entry: entry.name):
        try:
            value = entry.load()
        except Exception as error:  # foreign code may raise anything while it is imported
            _tell(group, entry.name, f"{type(error).__name__}: {error}")
            continue
        yield entry.name, value


def _is(kind: type, name: str, value: object, group: str) -> bool:
    if not isinstance(value, kind):
        _tell(group, name, f"it is not a {kind.__name__}")
    return isinstance(value, kind)


def _tell(group: str, name: str, why: str) -> None:
    log.warning("plugin.broken group=%s name=%s: it is left out (%s)", group, name, one_line(why, 200))
