"""Services elsewhere that run commands: what each needs here, for `hermes setup` and `hermes doctor`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from hermes.admin.commands.platform_packages import FURTHER_EXTRAS, install_extra, is_installed
from hermes.admin.shell.command import CliCommand
from hermes.domain.errors import UserError
from hermes.state.settings.by_key import set_settings
from hermes.state.settings.loader import LoadedSettings


class SandboxService(Struct, frozen=True, kw_only=True):
    """`variables` are its keys. Its packages are the extra of its name."""

    title: str
    variables: tuple[str, ...]


SERVICES: Mapping[str, SandboxService] = {
    "daytona": SandboxService(title="Daytona", variables=("DAYTONA_API_KEY",)),
    "modal": SandboxService(title="Modal", variables=("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET")),
}


def missing_keys(name: str, loaded: LoadedSettings) -> list[str]:
    return [variable for variable in SERVICES[name].variables if not loaded.variable(variable)]


def have_service(command: CliCommand, name: str, loaded: LoadedSettings) -> None:
    """Install its packages and ask for its keys, as far as they are not there."""
    extra, console = FURTHER_EXTRAS[name], command.console
    if not is_installed(extra):
        install_extra(extra, name, console)
    keys = {
        variable: console.ask(f"{variable} (it is not shown):", secret=True)
        for variable in missing_keys(name, loaded)
    }
    if not all(keys.values()):
        raise UserError(f"{SERVICES[name].title} needs a key.", hint="Nothing was changed.")
    set_settings(command.home, keys)


def service_faults(loaded: LoadedSettings) -> Iterator[tuple[str, str, str]]:
    """The name of each backend that is to be used and cannot, why, and a remedy."""
    settings = loaded.settings
    named = {settings.terminal.backend, *(route.backend for route in settings.routes)}
    for name in sorted({each.strip().lower() for each in named} & SERVICES.keys()):
        if not is_installed(FURTHER_EXTRAS[name]):
            yield name, "its packages are not installed", f"hermes platforms install {name}"
        for variable in missing_keys(name, loaded):
            yield name, f"{variable} is not set", f"hermes config set {variable}"
