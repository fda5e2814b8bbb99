"""`hermes config edit`, `diff`, `migrate` and `schema`: the whole of `config.yaml` rather than one key."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from shutil import which
from typing import Any

from hermes.admin.shell.changing import apply_change, load
from hermes.admin.shell.command import CliCommand
from hermes.admin.shell.output import Column
from hermes.domain.errors import UserError
from hermes.domain.settings.settings import Settings
from hermes.domain.text import one_line
from hermes.plugins import platform_manifests
from hermes.state.home.findings import SettingsFindings
from hermes.state.home.homes import prepare_home
from hermes.state.home.textfile import read_text
from hermes.state.settings.loader import CONFIG_FILE, LoadedSettings, check_text
from hermes.state.settings.migration import CONFIG_VERSION, plan_migration
from hermes.state.settings.names import PlatformNames
from hermes.state.settings.schema import settings_schema
from hermes.state.settings.whole_changes import ConfigChange

_NEW_FILE = "# Settings of Hermes. All keys: docs/reference/settings.md, or `hermes config schema`.\n"
_EDITORS = ("editor", "nano", "vim", "vi")


def platform_names() -> PlatformNames:
    return PlatformNames.of(platform_manifests())


def schema(command: CliCommand) -> None:
    command.console.json(settings_schema(platform_names()))


# --- edit --------------------------------------------------------------------------------------------


def edit(command: CliCommand) -> int:
    """In the person's own editor, on a copy: what is wrong with it never reaches the gateway unasked."""
    home, console = prepare_home(command.home), command.console
    path = home / CONFIG_FILE
    if not console.interactive:
        raise UserError("There is no terminal to edit in.", hint="hermes config set KEY VALUE")
    program = _editor(command.environ)
    file = read_text(path, SettingsFindings(str(path)))
    text = file.text or _NEW_FILE
    with tempfile.TemporaryDirectory(prefix="hermes-") as folder:
        copy = Path(folder) / CONFIG_FILE
        copy.touch(0o600)
        copy.write_text(text, encoding="utf-8")
        while True:
            if subprocess.run([*program, str(copy)], check=False).returncode:
                raise UserError(f"{program[0]} failed; nothing was changed.")
            text = copy.read_text(encoding="utf-8", errors="replace")
            if text in (file.text, _NEW_FILE):
                console.line("Nothing was changed.")
                return 0
            _, problems = check_text(text, platform_names().names)
            for problem in problems:
                console.line(str(problem))
            if not problems:
                break
            if console.ask("Press Enter to edit it again, or type “discard”:").lower() == "discard":
                raise UserError("Nothing was changed.")
    mode = 0o600 if file.mode is None else file.mode
    command.asked.dry_run = False
    apply_change(command, ConfigChange(file=path, before=file.text, after=text, mode=mode))
    return 0


def _editor(environ: Mapping[str, str]) -> list[str]:
    named = environ.get("VISUAL") or environ.get("EDITOR") or ""
    words = shlex.split(named) or [program for program in _EDITORS if which(program)][:1]
    if not words or which(words[0]) is None:
        what = f"There is no program “{one_line(named, 60)}”." if named else "There is no editor here."
        raise UserError(what, hint="Name yours: export EDITOR=nano")
    return words


# --- diff --------------------------------------------------------------------------------------------


def diff(command: CliCommand) -> None:
    loaded = load(command)
    columns = [
        Column("key", "KEY"),
        Column("default", "DEFAULT", _cell),
        Column("value", "VALUE", lambda value: loaded.secrets.redact(_cell(value))),
        Column("where", "WHERE"),
    ]
    command.list(different_settings(loaded), columns, none="Every setting has its default.")


def different_settings(loaded: LoadedSettings) -> list[dict[str, Any]]:
    """What is set otherwise than by default, and where; secrets as `***`."""
    from hermes.admin.commands.config import plain

    usual, now = dict(_leaves(plain(Settings()))), dict(_leaves(plain(loaded.settings)))
    return [
        {"key": key, "default": usual.get(key), "value": value, "where": _where(loaded, key)}
        for key, value in now.items()
        if value != usual.get(key) and (key in usual or key in loaded.lines)
    ]


def _leaves(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, inner in value.items():
        if isinstance(inner, dict) and inner:
            yield from _leaves(inner, f"{prefix}{name}.")
        else:
            yield prefix + name, inner or None if isinstance(inner, dict | list) else inner


def _where(loaded: LoadedSettings, key: str) -> str:
    line = loaded.lines.get(key) or loaded.lines.get(key.rpartition(".")[0])
    return f"{os.path.basename(loaded.file)}:{line}" if line else "a variable"


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "–" if value in (None, "", []) else one_line(str(value), 60)


# --- migrate -----------------------------------------------------------------------------------------


def run_migration(command: CliCommand) -> int:
    asked, console = command.asked, command.console
    planned = plan_migration(command.home, platform_names().names)
    if asked.json:
        facts = {"version": planned.version, "current": CONFIG_VERSION, "changes": list(planned.changes)}
        console.json(facts)
    if planned.newer:
        raise UserError(
            f"{command.home / CONFIG_FILE} is of version {planned.version}; this program knows"
            f" {CONFIG_VERSION} and leaves it as it is.",
            hint="Update Hermes.",
        )
    if planned.change is None:
        if not asked.json:
            console.line("The settings are up to date; there is nothing to migrate.")
    elif not (asked.json and asked.dry_run):
        for change in planned.changes:
            console.note(f"  {change}")
        if not (asked.yes or asked.dry_run):
            console.confirm(f"Migrate config.yaml from version {planned.version} to {CONFIG_VERSION}?")
        if apply_change(command, planned.change, despite_known=True):
            console.note("To take it back: hermes config rollback")
    return 0


def migration_notes(home: Path) -> tuple[list[str], list[str]]:
    """Problems and notes for `hermes config check`."""
    try:
        planned = plan_migration(home, platform_names().names)
    except UserError as error:
        return [f"{error.message} {error.hint}"], []
    if planned.newer:
        return [f"config.yaml is of version {planned.version}, written by a newer Hermes. Update Hermes."], []
    if planned.changes:
        names = ", ".join(planned.changes)
        return [], [f"config.yaml has older names ({names}). Rename them: hermes config migrate"]
    return [], []
