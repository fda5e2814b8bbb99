"""`hermes profile`: further homes in `profiles/`, each with its own settings, database and gateway. It works
on the home that holds them, so it also helps when the profile in use is gone."""

from __future__ import annotations

import argparse
import shutil
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from msgspec import Struct

from hermes.admin.process.home_files import GATEWAY, hold_home, home_holder, home_in_use
from hermes.admin.shell.command import JSON, CliCommand, Subcommands
from hermes.admin.shell.output import Column
from hermes.domain.errors import UserError
from hermes.domain.settings.settings import NAME_RULE, is_name
from hermes.domain.text import one_line
from hermes.state.home.homes import (
    ACTIVE_FILE,
    DEFAULT_PROFILE,
    PROFILES_FOLDER,
    active_profile,
    find_home,
    prepare_home,
    profile_home,
    profile_names,
)
from hermes.state.home.textfile import replace_text

REMOVED_FOLDER = ".removed"
"""In `profiles/`. Not a name that a profile can have."""


class ListedProfile(Struct, frozen=True, kw_only=True):
    name: str
    home: Path
    in_use: bool
    gateway: str


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Further homes, each with its own settings, conversations and gateway."
    add = Subcommands(parser).add
    name = {"name": f"its name: {NAME_RULE}"}
    add("list", "List the profiles; the one in use is marked.", _list, JSON)
    add("create", "Create a profile with an empty home.", _create, name)
    known = {"name": "the profile; `default` is the home itself"}
    add("use", "Use a profile from now on, wherever -p and HERMES_PROFILE name no other.", _use, known)
    options = {"name": "the profile", "--purge": "delete its data", "-y, --yes": "do not ask"}
    add("remove", "Remove a profile. Its data are moved aside, unless you add --purge.", _remove, options)


def _list(command: CliCommand) -> None:
    root, current = command.home, find_current(command)
    profiles = []
    for name in (DEFAULT_PROFILE, *profile_names(root)):
        home = profile_home(root, name)
        holder = home_holder(home)
        running = holder is not None and holder.what == GATEWAY
        gateway = f"running (process {holder.pid})" if running and holder is not None else "not running"
        profiles.append(ListedProfile(name=name, home=home, in_use=home == current, gateway=gateway))
    columns = [
        Column("name", "PROFILE"),
        Column("in_use", "IN USE", lambda in_use: "yes" if in_use else ""),
        Column("gateway", "GATEWAY"),
        Column("home", "HOME"),
    ]
    command.list(profiles, columns)


def find_current(command: CliCommand) -> Path | None:
    """The home of a command without `-p`; None if the chosen profile is gone."""
    try:
        return find_home(command.environ)
    except UserError as error:
        command.console.note(f"{error.message} Choose one with: hermes profile use default")
        return None


def _create(command: CliCommand) -> None:
    root, name = command.home, command.asked.name
    if not is_name(name):
        raise UserError(f"A profile cannot be called “{one_line(name, 80)}”.", hint=f"Use {NAME_RULE}.")
    home = root / PROFILES_FOLDER / name
    if home.exists():
        raise UserError(f"There is a profile “{name}” already: {home}", hint=f"Use it: hermes -p {name}")
    prepare_home(root)
    prepare_home(home)
    command.console.line(f"The profile “{name}” is created: {home}")
    command.console.note(f"Use it once: hermes -p {name} …   From now on: hermes profile use {name}")


def _use(command: CliCommand) -> None:
    root, name, console = command.home, command.asked.name, command.console
    home = profile_home(root, name)
    prepare_home(root)
    _choose(root, name)
    console.line(f"hermes uses the profile “{name}” from now on: {home}")
    current = find_current(command)
    if current != home:
        variable = "HERMES_PROFILE" if command.environ.get("HERMES_PROFILE") else "HERMES_HOME"
        console.line(f"{variable} is set in this environment and names {current}, which takes effect.")


def _choose(root: Path, name: str) -> None:
    if name == DEFAULT_PROFILE:
        (root / ACTIVE_FILE).unlink(missing_ok=True)
    else:
        replace_text(root / ACTIVE_FILE, f"{name}\n", 0o600)


def _free_place(folder: Path, name: str) -> Path:
    """Two profiles of one name may be removed within a second."""
    places = (folder / (f"{name}-{number}" if number else name) for number in count())
    return next(place for place in places if not place.exists())


def _remove(command: CliCommand) -> None:
    root, name, console = command.home, command.asked.name, command.console
    if name == DEFAULT_PROFILE:
        raise UserError(
            f"The profile “{DEFAULT_PROFILE}” is the home itself: {root}",
            hint="docs/start/install.md says how to uninstall Hermes.",
        )
    home = profile_home(root, name)
    holder = home_holder(home)
    if holder is not None and holder.what == GATEWAY:
        hint = f"Stop it first: hermes -p {name} gateway stop"
        raise UserError(f"A gateway runs on {home} ({holder}).", hint=hint)
    if holder is not None:
        raise home_in_use(home, holder)
    if not command.asked.yes:
        what = "and delete all its data permanently" if command.asked.purge else "(its data are kept)"
        console.confirm(f"Remove the profile “{name}” {what}? {home}")
    aside = _free_place(root / PROFILES_FOLDER / REMOVED_FOLDER, f"{name}-{datetime.now(UTC):%Y%m%d-%H%M%S}")
    if active_profile(root) == name:
        _choose(root, DEFAULT_PROFILE)
        console.line(f"hermes uses the profile “{DEFAULT_PROFILE}” again: {root}")
    aside.parent.mkdir(mode=0o700, exist_ok=True)
    # Moved first, so that a purge that is cut off leaves no half of a home behind under its name.
    with hold_home(home, command.name):
        home.rename(aside)
    if command.asked.purge:
        shutil.rmtree(aside)
        console.line(f"The profile “{name}” and its data are deleted.")
        return
    console.line(f"The profile “{name}” is removed. Its data are in {aside}")
    console.note(f"To bring it back: mv {aside} {home}")
