"""`hermes gateway install|uninstall`: the gateway as a service that begins with the machine or the login."""

from __future__ import annotations

import getpass
import os
import pwd
import sys
from pathlib import Path

from hermes.admin.process.background import stop_gateway
from hermes.admin.shell.command import CliCommand
from hermes.domain.errors import UserError
from hermes.execution.service.checkout import checkout_in_use
from hermes.execution.service.launchd import LaunchdService
from hermes.execution.service.spec import NO_MANAGER, ServiceSpec
from hermes.execution.service.systemd import SystemdService
from hermes.state.home.homes import PROFILES_FOLDER, prepare_home
from hermes.state.home.wholefile import write_whole
from hermes.state.settings.loader import load_settings

Service = SystemdService | LaunchdService
_SYSTEMD_RUNS = Path("/run/systemd/system")


def install(command: CliCommand) -> int:
    asked, console, home = command.asked, command.console, command.home
    _check_asked(command)
    service = _service(command)
    text = service.text()
    if asked.print_only:
        console.line(text.rstrip())
        return 0
    _check_manager()
    if service.file.exists() and service.file.read_text(errors="replace") != text and not asked.force:
        raise UserError(
            f"{service.file} is there already, and differs.",
            hint="Replace it with: hermes gateway install --force (drop-ins stay)",
        )
    if not asked.run_as_user:
        prepare_home(home)
    if not asked.no_start:
        stop_gateway(home, command.environ, console)  # one without a service makes way
    try:
        service.file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(service.file, text.encode(), 0o644)
    except OSError as error:
        hint = "Run it with sudo, or leave --system out." if asked.system else "Check who owns the folder."
        raise UserError(f"{service.file} cannot be written ({error.strerror}).", hint=hint) from None
    notes = service.start(now=not asked.no_start)
    console.line(f"The gateway on {home} is a service now ({service.title}): {service.file}")
    for note in [*notes, "See how it is: hermes status", "Take it back: hermes gateway uninstall"]:
        console.note(note)
    return 0


def uninstall(command: CliCommand) -> int:
    service = _service(command)
    if not service.file.exists():
        other = "" if command.asked.system else " For one of the whole system add --system."
        raise UserError(f"There is no service of {command.home}: {service.file} does not exist.{other}")
    _check_manager()
    service.remove()
    command.console.line(f"The service is removed ({service.title}). The home {command.home} stays as it is.")
    return 0


def installed_service(home: Path, environ: dict[str, str]) -> str:
    """What a status says of the service of a home; empty if there is none."""
    specs = (_spec(home, environ, system=system) for system in (False, True))
    services: list[Service] = [_kind(spec) for spec in specs]
    return next((service.title for service in services if service.file.exists()), "")


def _check_asked(command: CliCommand) -> None:
    asked = command.asked
    if asked.run_as_user and not asked.system:
        raise UserError("--run-as-user goes with --system.", hint="Add --system, or leave it out.")
    if asked.system and sys.platform == "darwin":
        raise UserError("On macOS the service is always one of your login.", hint="Leave --system out.")
    if asked.run_as_user:
        try:
            pwd.getpwnam(asked.run_as_user)
        except KeyError:
            raise UserError(f"There is no user “{asked.run_as_user}”.", hint="Create it first.") from None
    if asked.system and not asked.run_as_user and os.getuid() == 0:
        command.console.note("It will run as root. Better: --run-as-user NAME")


def _check_manager() -> None:
    if sys.platform != "darwin" and not _SYSTEMD_RUNS.is_dir():
        raise UserError("There is no systemd on this machine.", hint=NO_MANAGER)


def _service(command: CliCommand) -> Service:
    asked = command.asked
    user = getattr(asked, "run_as_user", None) or getpass.getuser()
    sudo = bool(getattr(asked, "allow_sudo", False))
    return _kind(_spec(command.home, dict(command.environ), system=asked.system, user=user, sudo=sudo))


def _kind(spec: ServiceSpec) -> Service:
    return LaunchdService(spec) if sys.platform == "darwin" else SystemdService(spec)


def _spec(
    home: Path, environ: dict[str, str], *, system: bool, user: str = "", sudo: bool = False
) -> ServiceSpec:
    checkout = checkout_in_use()
    program = [str(checkout / "hermes")] if checkout else [sys.executable, "-P", "-m", "hermes"]
    return ServiceSpec(
        program=(*program, "gateway", "run", "--quiet"),
        home=home,
        environ=environ,
        profile=home.name if home.parent.name == PROFILES_FOLDER else "",
        system=system,
        user=user,
        sudo=sudo,
        drain=load_settings(home, environ).settings.agent.restart_drain_timeout,
    )
