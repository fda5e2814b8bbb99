"""What settings of `terminal` and of routes cannot mean: networks that are none, this machine for strangers,
limits that nothing would hold, credentials for commands. Each is a `SettingsError`, and nothing starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hermes.app.agents.ladder import SSH, WHOLE_NETWORK, holds_network, read_network
from hermes.control.people.standing import OWNERS_KEYS, is_trusted
from hermes.domain.chats.address import (
    DEFAULT_ACCOUNT,
    LOCAL_DOOR,
    Address,
    Source,
    SourceKind,
    read_platform,
)
from hermes.domain.errors import SettingsError
from hermes.domain.ports.world import LOCAL
from hermes.domain.settings.settings import SCRIPT_DOOR, RouteMatch, Settings
from hermes.domain.text import one_line
from hermes.state.settings.loader import LoadedSettings
from hermes.state.settings.names import is_key_like

_API = "api_server"


def check_terminal(loaded: LoadedSettings, environ: Mapping[str, str]) -> None:
    for error in terminal_problems(loaded, environ):
        raise error


def terminal_problems(loaded: LoadedSettings, environ: Mapping[str, str]) -> Iterator[SettingsError]:
    settings = loaded.settings
    said = {"terminal.network": (settings.terminal.network, settings.terminal.backend)}
    for number, route in enumerate(settings.routes):
        own = settings.agents[route.agent].backend if route.agent in settings.agents else ""
        backend = route.backend or own or settings.terminal.backend
        said[f"routes[{number}].network"] = (route.network, backend)
        if _is_local(route.backend or own) and _strangers_fit(route.match, settings):
            key = f"routes[{number}].backend" if route.backend else f"agents.{route.agent}.backend"
            by = "this route" if route.backend else f"routes[{number}]"
            yield loaded.wrong(
                key,
                f"{key}: people who are neither owner nor admin may come by {by},"
                " and their commands do not run on this machine itself.",
                "Name a sandbox, or give match the user_id of an admin.",
            )
    for key, (words, backend) in said.items():
        yield from _network_problems(loaded, key, words, backend)
    for name in settings.terminal.env_passthrough:
        if is_key_like(name) or loaded.secrets.redact(environ.get(name, "")) != environ.get(name, ""):
            message = (
                f"terminal.env_passthrough: {one_line(name, 60)} holds a credential, and commands get none."
            )
            yield loaded.wrong("terminal.env_passthrough", message, "Take it out of the list.")


def nameless_machine(loaded: LoadedSettings) -> Iterator[SettingsError]:
    """The gateway starts without it, but refuses the commands."""
    settings = loaded.settings
    backends = (settings.terminal.backend, *(route.backend for route in settings.routes))
    if not settings.terminal.ssh_host and SSH in (name.strip().lower() for name in backends):
        message = "No machine is named for the backend ssh, so commands there are refused."
        yield loaded.wrong("terminal.backend", message, "Set terminal.ssh_host.")


def _network_problems(
    loaded: LoadedSettings, key: str, words: tuple[str, ...], backend: str
) -> Iterator[SettingsError]:
    try:
        name = backend.strip().lower()
        holds = not words or holds_network(name, read_network(words))
    except ValueError as error:
        message = f"{key}: “{one_line(str(error), 60)}” is no host."
        yield loaded.wrong(key, message, "Write open, none, or a list like [pypi.org, *.example.org].")
        return
    if not holds:
        what = "cannot limit the network" + (" to some hosts" if name in WHOLE_NETWORK else "")
        message = f"{key} does not hold: the backend {name} {what}."
        yield loaded.wrong(key, message, "Set the backend to auto or to a sandbox, or remove the limit.")


def _is_local(backend: str) -> bool:
    return backend.strip().lower() == LOCAL


def _strangers_fit(match: RouteMatch, settings: Settings) -> bool:
    """Whether somebody who is neither owner nor admin may come by a route, as far as it says who may. A job
    counts as whoever made it."""
    if match.kind == SourceKind.JOB or match.platform in (LOCAL_DOOR, SCRIPT_DOOR):
        return False
    if match.kind == SourceKind.API or match.platform == _API:
        keys = settings.block(Address(platform=_API, chat="-")).keys
        accounts = [match.account] if match.account else [*OWNERS_KEYS, *keys]
        return not all(is_trusted(_source(match, _API, name, SourceKind.API), settings) for name in accounts)
    if match.platform is None:
        return True
    there = [read_platform(name) for name in settings.platforms]
    known = [account for platform, account in there if platform == match.platform] or [DEFAULT_ACCOUNT]
    kinds = [SourceKind(match.kind)] if match.kind else [SourceKind.PRIVATE, SourceKind.GROUP]
    return not all(
        is_trusted(_source(match, match.platform, account, kind), settings)
        for account in ([match.account] if match.account else known)
        for kind in kinds
    )


def _source(match: RouteMatch, platform: str, account: str, kind: SourceKind) -> Source:
    address = Address(platform=platform, account=account, chat=match.chat_id or "-")
    return Source(address=address, kind=kind, user=match.user_id, user_alt=match.user_id_alt)
