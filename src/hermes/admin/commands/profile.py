"""`hermes profile`: further homes in `profiles/`, each with its own settings, database and gateway. It works
on the home that holds them, so it also helps when the profile in use is gone."""

from __future__ import annotations

import argparse
import shutil
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from msgspec import Struct

from hermes.admin.commands.profile_copies import add_copies, new_home
from hermes.admin.process.home_files import GATEWAY, hold_home, home_holder, home_in_use
from hermes.admin.shell.command import JSON, CliCommand, Subcommands, declare
from hermes.admin.shell.output import Column, dash
from hermes.domain.errors import UserError
from hermes.domain.settings.settings import NAME_RULE
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
from hermes.state.settings.loader import load_settings

REMOVED_FOLDER = ".removed"
"""In `profiles/`. Not a name that a profile can have."""
DESCRIPTION_FILE = "description.txt"
"""In a home: what it is for."""
_LONGEST_DESCRIPTION = 200


class ListedProfile(Struct, frozen=True, kw_only=True):
    name: str
    home: Path
    in_use: bool
    gateway: str
    description: str


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Further homes, each with its own settings, conversations and gateway."
    commands = Subcommands(parser)
    add = commands.add
    name = {"name": f"its name: {NAME_RULE}"}
    add("list", "List the profiles; the one in use is marked.", _list, JSON)
    created = add("create", "Create a profile with an empty home.", _create, name)
    declare(created, {"--description TEXT": "what it is for"}, default="")
    known = {"name": "the profile; `default` is the home itself"}
    add("show", "Show what a profile has.", _show, known | JSON)
    described = add("describe", "Say what a profile is for, or show what was said.", _describe, known)
    declare(described, {"[text]": "what it is for; empty text removes what was said"})
    add("rename", "Give a profile another name.", _rename, {"name": "the profile"} | {"new": "its new name"})
    add("use", "Use a profile from now on, wherever -p and HERMES_PROFILE name no other.", _use, known)
    add_copies(commands)
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
        profiles.append(
            ListedProfile(
                name=name,
                home=home,
                in_use=home == current,
                gateway=gateway,
                description=_description_of(home),
            )
        )
    columns = [
        Column("name", "PROFILE"),
        Column("in_use", "IN USE", lambda in_use: "yes" if in_use else ""),
        Column("gateway", "GATEWAY"),
        Column("description", "DESCRIPTION", dash),
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
    home, description = new_home(root, name), _checked(command.asked.description)
    prepare_home(root)
    prepare_home(home)
    _keep_description(home, description)
    command.console.line(f"The profile “{name}” is created: {home}")
    command.console.note(f"Use it once: hermes -p {name} …   From now on: hermes profile use {name}")


def _show(command: CliCommand) -> None:
    home = profile_home(command.home, command.asked.name)
    settings = load_settings(home, {}).settings
    holder = home_holder(home)
    facts = {
        "name": command.asked.name,
        "description": _description_of(home),
        "home": str(home),
        "gateway": "not running" if holder is None else str(holder),
        "model": settings.model.default or settings.model.provider,
        "agents": ", ".join(("main", *settings.agents)),
        "platforms": ", ".join(settings.platforms) or "none",
    }
    if command.asked.json:
        command.console.json(facts)
    else:
        command.console.facts([(name.capitalize(), value) for name, value in facts.items()])


def _describe(command: CliCommand) -> None:
    name, text = command.asked.name, command.asked.text
    home = profile_home(command.home, name)
    if text is not None:
        _keep_description(prepare_home(home), _checked(text))
    told = _description_of(home)
    command.console.line(told or f"Nothing is said of the profile “{name}”.")


def _checked(description: str) -> str:
    told = one_line(description, len(description) + 1)
    if len(told) > _LONGEST_DESCRIPTION:
        raise UserError(f"A description has at most {_LONGEST_DESCRIPTION} characters, not {len(told)}.")
    return told


def _keep_description(home: Path, text: str) -> None:
    if text:
        replace_text(home / DESCRIPTION_FILE, f"{text}\n", 0o600)
    else:
        (home / DESCRIPTION_FILE).unlink(missing_ok=True)


def _description_of(home: Path) -> str:
    try:
        told = (home / DESCRIPTION_FILE).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    return one_line(told, _LONGEST_DESCRIPTION)


def _rename(command: CliCommand) -> None:
    """One step of the file system, while nobody works on the home."""
    root, name, new = command.home, command.asked.name, command.asked.new
    if name == DEFAULT_PROFILE:
        raise UserError(f"The profile “{DEFAULT_PROFILE}” is the home itself.", hint="It keeps its name.")
    home = profile_home(root, name)
    place = new_home(root, new)
    _check_unused(home, name)
    chosen = active_profile(root) == name
    with hold_home(home, command.name):
        home.rename(place)
    if chosen:
        _choose(root, new)
    command.console.line(f"The profile “{name}” is called “{new}” now: {place}")


def _check_unused(home: Path, name: str) -> None:
    holder = home_holder(home)
    if holder is not None and holder.what == GATEWAY:
        hint = f"Stop it first: hermes -p {name} gateway stop"
        raise UserError(f"A gateway runs on {home} ({holder}).", hint=hint)
    if holder is not None:
        raise home_in_use(home, holder)


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
    _check_unused(home, name)
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
