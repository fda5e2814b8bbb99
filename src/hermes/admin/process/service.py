"""`hermes gateway install|uninstall`: the gateway as a service that begins with the machine or the login."""

from __future__ import annotations

import getpass
import os
import pwd
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from hermes.admin.process.background import stop_gateway
from hermes.admin.shell.command import CliCommand
from hermes.domain.errors import UserError
from hermes.domain.text import one_line
from hermes.domain.word import replace
from hermes.execution.service.checkout import checkout_in_use
from hermes.execution.service.launchd import LaunchdService
from hermes.execution.service.spec import NO_MANAGER, ServiceSpec
from hermes.execution.service.systemd import SystemdService
from hermes.state.home.homes import PROFILES_FOLDER, USUAL_HOME, prepare_home, root_home
from hermes.state.home.locks import FOLDER_VARIABLE, RUNTIME_VARIABLE
from hermes.state.home.wholefile import write_whole
from hermes.state.settings.loader import load_settings

Service = SystemdService | LaunchdService
_PLACES = (FOLDER_VARIABLE, "XDG_STATE_HOME", RUNTIME_VARIABLE)
"""They say where gateways find each other: one in a terminal and the service must not use one token twice."""
_SYSTEMD_RUNS = Path("/run/systemd/system")


def install(command: CliCommand) -> int:
    asked, console = command.asked, command.console
    _check_asked(command)
    if asked.system and not asked.run_as_user and os.getuid() == 0:
        console.note("It will run as root. Better: --run-as-user NAME")
    spec = _asked_spec(command)
    service, home = _kind(spec), spec.home
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
    if asked.run_as_user:
        _check_access(spec)
    else:
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
    more = " --system" * asked.system + (f" --run-as-user {asked.run_as_user}" if asked.run_as_user else "")
    for note in [*notes, "See how it is: hermes status", f"Take it back: hermes gateway uninstall{more}"]:
        console.note(note)
    return 0


def uninstall(command: CliCommand) -> int:
    _check_asked(command)
    spec = _asked_spec(command)
    service, home = _kind(spec), spec.home
    if not service.file.exists():
        other = "another user add --run-as-user" if command.asked.system else "the whole system add --system"
        raise UserError(f"There is no service of {home}: {service.file} does not exist. For one of {other}.")
    _check_manager()
    service.remove()
    command.console.line(f"The service is removed ({service.title}). The home {home} stays as it is.")
    return 0


def installed_service(home: Path, environ: dict[str, str]) -> str:
    """What a status says of the service of a home; empty if there is none."""
    specs = (_spec(home, environ, system=system) for system in (False, True))
    services = [_kind(spec) for spec in specs]
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


def _check_manager() -> None:
    if sys.platform != "darwin" and not _SYSTEMD_RUNS.is_dir():
        raise UserError("There is no systemd on this machine.", hint=NO_MANAGER)


def _asked_spec(command: CliCommand) -> ServiceSpec:
    asked, home = command.asked, command.home
    usual = root_home({**command.environ, "HERMES_HOME": ""})
    if asked.run_as_user and home.is_relative_to(usual):  # nobody said which: it is that user's usual one
        home = Path(pwd.getpwnam(asked.run_as_user).pw_dir) / USUAL_HOME / home.relative_to(usual)
    user, sudo = asked.run_as_user or getpass.getuser(), bool(getattr(asked, "allow_sudo", False))
    return _spec(home, dict(command.environ), system=asked.system, user=user, sudo=sudo)


def _check_access(spec: ServiceSpec) -> None:
    """What the service could not do as its user, it would try again every two seconds without end."""
    place = next(folder for folder in (spec.home, *spec.home.parents) if folder.exists())
    program = spec.program[: spec.program.index("gateway")]
    for words, what in (
        ((*program, "--version"), f"run {program[0]}"),
        (("test", "-w", str(place)), f"write into {place}"),
    ):
        try:
            _run_as(spec, words)
        except (OSError, subprocess.SubprocessError) as error:
            told = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip().splitlines()
            why = f": {one_line(told[-1], 200)}" if told else "."
            hint = "Install Hermes where that user reaches it, or name a home of that user with HERMES_HOME."
            raise UserError(f"The user {spec.user} cannot {what}{why}", hint=hint) from None


def _run_as(spec: ServiceSpec, words: Sequence[str]) -> None:
    """The first run of a user may install packages for that user."""
    entry = pwd.getpwnam(spec.user)
    environ = {"PATH": spec.environ.get("PATH", ""), "HOME": entry.pw_dir, "HERMES_HOME": str(spec.home)}
    subprocess.run(
        words, env=environ, cwd="/", capture_output=True, timeout=900, check=True,
        user=entry.pw_uid, group=entry.pw_gid, extra_groups=os.getgrouplist(spec.user, entry.pw_gid),
    )  # fmt: skip


def _kind(spec: ServiceSpec) -> Service:
    """A home whose usual name a service of another home has gets one with a mark of its own."""
    kind = LaunchdService if sys.platform == "darwin" else SystemdService
    usual, apart = kind(spec), kind(replace(spec, apart=True))
    taken = usual.file.exists() and usual.home_line not in usual.file.read_text(errors="replace")
    return apart if taken or apart.file.exists() else usual


def _spec(
    home: Path, environ: dict[str, str], *, system: bool, user: str = "", sudo: bool = False
) -> ServiceSpec:
    checkout = checkout_in_use()
    program = [str(checkout / "hermes")] if checkout else [sys.executable, "-P", "-m", "hermes"]
    own = not user or user == getpass.getuser()  # another user has other folders
    return ServiceSpec(
        variables={name: environ[name] for name in _PLACES if own and environ.get(name)},
        program=(*program, "gateway", "run", "--quiet"),
        home=home,
        environ=environ,
        profile=home.name if home.parent.name == PROFILES_FOLDER else "",
        system=system,
        user=user,
        sudo=sudo,
        drain=load_settings(home, environ).settings.agent.restart_drain_timeout,
    )
