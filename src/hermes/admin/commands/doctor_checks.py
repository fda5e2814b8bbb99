"""What the doctor looks at beside sandboxes and files: program, settings, model, platforms, database, and
what extends it. One check is one function; `further_checks` calls them all. None of them changes anything:
what can be put right safely is a `fix`, which `hermes doctor --fix` calls."""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from shutil import which
from typing import Any

from msgspec import Struct

from hermes.admin.commands import config_file
from hermes.admin.commands.platform_packages import FURTHER_EXTRAS, is_importable, is_installed
from hermes.admin.commands.sandbox_services import service_faults
from hermes.admin.shell.command import CliCommand
from hermes.app.accounts import declared_accounts
from hermes.domain.errors import UserError
from hermes.domain.text import list_some, one_line
from hermes.plugins import platform_manifests
from hermes.state.files.hook_files import read_hooks
from hermes.state.home.homes import DATABASE_FILE, HOME_FOLDERS, prepare_home
from hermes.state.settings.loader import CONFIG_FILE, LoadedSettings
from hermes.state.settings.migration import plan_migration
from hermes.state.settings.whole_changes import ConfigChange, write_change
from hermes.state.store.sqlite import look_into, problems_of

_LEAST_PYTHON = (3, 11)
_PACKAGES = ("aiohttp", "apsw", "msgspec", "regex", "ruamel.yaml", "yaml")
_PROGRAMS = {
    "git": "checkpoints, skills from git",
    "rg": "fast search in files",
    "ffmpeg": "voice messages",
    "ssh": "the backend ssh",
}
_LEAST_FREE = 500_000_000


class CheckState(StrEnum):
    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


class DoctorCheck(Struct, frozen=True, kw_only=True):
    """What was looked at, how it is, and what to do about it; `fix` does that, and says what it did."""

    name: str
    state: CheckState
    detail: str
    remedy: str = ""
    fix: Callable[[], str] | None = None

    @property
    def facts(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "state": self.state.value,
            "detail": self.detail,
            "remedy": self.remedy,
            "fixable": self.fix is not None,
        }


class Patient(Struct, frozen=True, kw_only=True):
    """The home that is looked at; `live` is what a running gateway says of itself."""

    command: CliCommand
    loaded: LoadedSettings
    live: Mapping[str, Any] | None

    @property
    def home(self) -> Path:
        return self.command.home


Check = Callable[[Patient], Iterator[DoctorCheck]]
_ok = partial(DoctorCheck, state=CheckState.OK)
_note = partial(DoctorCheck, state=CheckState.NOTE)
_problem = partial(DoctorCheck, state=CheckState.PROBLEM)


def further_checks(patient: Patient) -> Iterator[DoctorCheck]:
    for check in CHECKS:
        yield from check(patient)
    if not patient.command.asked.offline:
        yield from _model(patient)
        yield from _platforms(patient)


# --- the program -------------------------------------------------------------------------------------


def _python(patient: Patient) -> Iterator[DoctorCheck]:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < _LEAST_PYTHON:
        yield _problem(name="python", detail=f"{version} is too old", remedy="Install Python 3.11 or newer.")
        return
    missing = [name for name in _PACKAGES if not is_importable(name)]
    if missing:
        remedy = "Install Hermes anew; from a checkout: rm -r .venv, then ./hermes"
        yield _problem(name="packages", detail=f"missing: {', '.join(missing)}", remedy=remedy)
    yield _ok(name="python", detail=f"{version}, {sys.executable}")


def _certificates(patient: Patient) -> Iterator[DoctorCheck]:
    """Without them no provider can be reached."""
    named = patient.command.environ.get("SSL_CERT_FILE", "")
    if named and not os.access(named, os.R_OK):
        remedy = "Unset SSL_CERT_FILE, or name a file that can be read."
        yield _problem(
            name="certificates", detail=f"SSL_CERT_FILE names {named}, which cannot be read", remedy=remedy
        )
        return
    paths = ssl.get_default_verify_paths()
    known = len(ssl.create_default_context().get_ca_certs())
    if not known and not (paths.capath and os.path.isdir(paths.capath) and os.listdir(paths.capath)):
        yield _note(
            name="certificates",
            detail="this Python knows no authorities of its own",
            remedy="If providers cannot be reached, install the system's certificates: ca-certificates",
        )
        return
    yield _ok(name="certificates", detail=f"{known} authorities" if known else str(paths.capath))


def _command(patient: Patient) -> Iterator[DoctorCheck]:
    if place := which("hermes"):
        yield _ok(name="command", detail=place)
        return
    script = Path(__file__).parents[4] / "hermes"
    remedy = f"ln -s {script} ~/.local/bin/hermes" if script.is_file() else "pip install --user, or pipx"
    yield _note(name="command", detail="`hermes` is not on the path", remedy=remedy)


def _programs(patient: Patient) -> Iterator[DoctorCheck]:
    for name, use in _PROGRAMS.items():
        if which(name) is None:
            yield _note(name="programs", detail=f"there is no {name}: {use}", remedy=f"Install {name}.")


# --- the home ----------------------------------------------------------------------------------------


def _folders(patient: Patient) -> Iterator[DoctorCheck]:
    home = patient.home
    if not home.exists():
        yield _note(name="home", detail=f"{home} does not exist yet", remedy="hermes setup")
        return
    missing = [name for name in HOME_FOLDERS if not (home / name).is_dir()]
    if missing:
        yield _note(
            name="home",
            detail=f"folders are missing: {', '.join(missing)}",
            remedy="They are made at the next start.",
            fix=lambda: f"{prepare_home(home)} has all its folders",
        )
    if not os.access(home, os.W_OK):
        yield _problem(name="home", detail=f"{home} cannot be written", remedy=f"chmod u+rwx {home}")
    free = shutil.disk_usage(home).free
    if free < _LEAST_FREE:
        remedy = "Free some space; old checkpoints: hermes checkpoints prune"
        yield _problem(name="disk", detail=f"{free / 1e6:,.0f} MB are free", remedy=remedy)


def _database(patient: Patient) -> Iterator[DoctorCheck]:
    """Read in full, if no gateway works on it."""
    path = patient.home / DATABASE_FILE
    if patient.live is not None or not path.exists():
        return
    with closing(look_into(path)) as db:
        said = problems_of(db)
    if not said:
        yield _ok(name="database", detail=f"{path.stat().st_size / 1e6:,.1f} MB, sound")
    else:
        remedy = "The gateway repairs it at its start, from a backup where it must: hermes gateway start"
        yield _problem(
            name="database", detail=f"it is damaged: {one_line('; '.join(said), 200)}", remedy=remedy
        )


def _config(patient: Patient) -> Iterator[DoctorCheck]:
    loaded = patient.loaded
    if loaded.problems:
        first = loaded.secrets.redact(str(loaded.problems[0]))
        more = f", and {len(loaded.problems) - 1} more" if len(loaded.problems) > 1 else ""
        yield _problem(name="config", detail=first + more, remedy="hermes config check")
    unused = [note.message for note in loaded.notes if "not used yet" in note.message]
    if unused:
        names = list_some([message.split("”")[0].strip("“") for message in unused], 10)
        yield _note(name="config", detail=f"accepted, but not used: {names}", remedy="hermes config check")
    if not loaded.has_file:
        return
    try:
        planned = plan_migration(patient.home, config_file.platform_names().names)
    except UserError as error:
        yield _problem(name="config", detail=error.message, remedy=error.hint)
        return
    if planned.newer:
        detail = f"{CONFIG_FILE} is of version {planned.version}, written by a newer Hermes"
        yield _problem(name="config", detail=detail, remedy="Update Hermes.")
    elif planned.change is not None and planned.changes:
        yield _note(
            name="config",
            detail=f"older names: {list_some(planned.changes, 5)}",
            remedy="hermes config migrate",
            fix=partial(_migrate, planned.change),
        )


def _migrate(change: ConfigChange) -> str:
    write_change(change)
    return "migrated; to take it back: hermes config rollback"


# --- what it talks to --------------------------------------------------------------------------------


def _credentials(patient: Patient) -> Iterator[DoctorCheck]:
    now = datetime.now(UTC)
    for agent, stored in patient.loaded.credentials.items():
        for one in stored:
            if one.dead:
                yield _problem(
                    name="credentials",
                    detail=f"{one.label} of {one.provider} ({agent}) is refused: {one_line(one.dead, 120)}",
                    remedy=f"hermes auth login {one.provider}; or hermes auth remove {one.provider} {one.id}",
                )
            elif not one.is_usable(now):
                yield _note(
                    name="credentials",
                    detail=f"{one.label} of {one.provider} rests for a while",
                    remedy=f"hermes auth reset {one.provider}",
                )


def _model(patient: Patient) -> Iterator[DoctorCheck]:
    """Which model answers, and whether its provider knows us."""
    from hermes.admin.commands.model import make_search
    from hermes.agent.models.choose import ModelAccess
    from hermes.agent.models.servers import list_models

    search = asyncio.run(make_search(patient.command, patient.loaded))
    choice = search.own
    assert choice is not None
    if choice.way is ModelAccess.NONE:
        yield _problem(name="model", detail=f"no model answers: {choice.why}", remedy=choice.hint)
    elif choice.way is ModelAccess.DEMO:
        yield _note(name="model", detail="only the demo model answers", remedy="hermes setup model")
    elif choice.way is not ModelAccess.HTTP:
        yield _ok(name="model", detail=choice.line)
    else:
        listing = asyncio.run(list_models(search.keyed(choice), 10.0))
        if listing.fault:
            remedy = "Check the key and the network: hermes setup model"
            yield _problem(name="model", detail=f"{choice.title}: {listing.fault}", remedy=remedy)
        else:
            yield _ok(name="model", detail=choice.line)


def _platforms(patient: Patient) -> Iterator[DoctorCheck]:
    """Each account in use, by what its platform says of its credentials."""
    from hermes.admin.commands.platforms import findings_of

    for declared in declared_accounts(platform_manifests(), patient.loaded):
        if not declared.enabled:
            continue
        extra = declared.manifest.extra
        if extra is not None and not extra.purpose and not is_installed(extra):
            yield _problem(
                name=declared.name,
                detail="its packages are not installed",
                remedy=f"hermes platforms install {declared.manifest.name}",
            )
            continue
        findings = asyncio.run(findings_of(declared, patient.home))
        for one in findings:
            made = _ok if one.good else _problem
            yield made(name=declared.name, detail=one_line(one.text, 300), remedy=one.hint)


# --- what extends it ---------------------------------------------------------------------------------


def _extensions(patient: Patient) -> Iterator[DoctorCheck]:
    for problem in read_hooks(patient.home).problems:
        yield _problem(name="hooks", detail=one_line(str(problem), 200), remedy="hermes hooks list")
    named = patient.loaded.settings.memory.provider
    extra = FURTHER_EXTRAS.get(named)
    if extra is not None and not is_installed(extra):
        remedy = f"hermes memory setup {named}"
        yield _problem(name="memory", detail=f"the packages of {named} are not installed", remedy=remedy)
    for name, why, remedy in service_faults(patient.loaded):
        yield _problem(name=name, detail=why, remedy=remedy)


def _skills(patient: Patient) -> Iterator[DoctorCheck]:
    from hermes.admin.commands.skills import skills_of

    for fault in skills_of(patient.command).faults:
        detail = f"{fault.folder}: {one_line(fault.why, 120)}"
        yield _note(name="skills", detail=detail, remedy="hermes skills list --faults")


def _version(patient: Patient) -> Iterator[DoctorCheck]:
    """A gateway that was started before an update runs the old program."""
    own = patient.command.version
    said = str((patient.live or {}).get("version") or own)
    if own and said != own:
        detail = f"it is of version {said}, this command of version {own}"
        yield _note(name="gateway", detail=detail, remedy="hermes gateway restart")


def _security(patient: Patient) -> Iterator[DoctorCheck]:
    """The rest of what the audit finds is told by checks of their own."""
    from hermes.admin.commands.security import Severity, audit

    told = ("root", "mode:", "weak-secret", "unread-limit")
    for one in audit(patient.home, patient.command.environ):
        if not one.id.startswith(told) and one.severity >= Severity.HIGH:
            yield _problem(name="security", detail=one.text, remedy=one.fix)


CHECKS: tuple[Check, ...] = (
    _python,
    _certificates,
    _command,
    _programs,
    _folders,
    _database,
    _config,
    _credentials,
    _extensions,
    _skills,
    _version,
    _security,
)
