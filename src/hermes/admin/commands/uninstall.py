"""`hermes uninstall`: stop the gateway and remove the links to the command; with `--full` the data of the
home too. It says first what it would remove, and removes only what is ours; not the program itself."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from hermes.admin.process.background import stop_gateway
from hermes.admin.process.home_files import home_holder
from hermes.admin.process.service import installed_service
from hermes.admin.shell.command import CliCommand, declare
from hermes.domain.errors import UserError
from hermes.state.home.homes import DATABASE_FILE, HOME_FOLDERS

_ROOT = Path(__file__).parents[4]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(act=_uninstall)
    parser.description = (
        "Stop the gateway and remove Hermes from this machine; your data stay without --full."
    )
    full = {"--full": "also delete the home: settings, keys, conversations, memory"}
    declare(parser, full | {"--dry-run": "only show what would be removed", "-y, --yes": "do not ask"})


def _uninstall(command: CliCommand) -> None:
    asked, console, home = command.asked, command.console, command.home
    places = [*_links(command.environ)]
    if asked.full and home.exists():
        if not _is_home(home):
            raise UserError(
                f"{home} does not look like a home of Hermes.", hint="Look at it, and delete it by hand."
            )
        places.append(home)
    for place in places:
        console.line(f"remove {place}")
    if not places:
        console.line("There is nothing to remove but the program itself.")
    if asked.dry_run or not places:
        return
    if not asked.yes:
        console.confirm("Remove all of this permanently?" if asked.full else "Remove this? Your data stay.")
    if service := installed_service(home, dict(command.environ)):
        raise UserError(f"The gateway is a service ({service}).", hint="First: hermes gateway uninstall")
    if home_holder(home) is not None:
        stop_gateway(home, command.environ, console)
    for place in places:
        if place.is_symlink():
            place.unlink()
        else:
            shutil.rmtree(place)
    if home.exists():
        console.line(f"Your data are still in {home}.")
    if (_ROOT / "hermes").is_file():
        console.line(f"Delete the program itself: rm -r {_ROOT}")


def _links(environ: Mapping[str, str]) -> Iterator[Path]:
    """Those on the path that lead to our command."""
    script = _ROOT / "hermes"
    for folder in filter(None, environ.get("PATH", "").split(os.pathsep)):
        link = Path(folder) / "hermes"
        if link.is_symlink() and link.resolve() == script.resolve():
            yield link


def _is_home(home: Path) -> bool:
    marks = (DATABASE_FILE, "config.yaml", ".env", *HOME_FOLDERS)
    return home != Path.home() and sum((home / name).exists() for name in marks) >= 2
