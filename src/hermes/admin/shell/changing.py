"""How a command changes `config.yaml`: it shows the difference, writes it, and a running gateway adopts it.
What the gateway refuses, or what would be wrong at its next start, is taken back as a whole."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from hermes import plugins
from hermes.admin.shell.command import CliCommand
from hermes.admin.shell.home import open_home
from hermes.domain.errors import UserError
from hermes.domain.text import list_some
from hermes.entry.desk import apply_settings
from hermes.state.settings.loader import LoadedSettings, load_settings
from hermes.state.settings.whole_changes import ConfigChange, take_back, write_change

DRY_RUN = {"--dry-run": "show what would change, and change nothing"}
UNCHANGED = "Nothing was changed."
_LINE = re.compile(r":\d+(?=:)")


def load(command: CliCommand, text: str | None = None) -> LoadedSettings:
    """The settings of the home, or what they would be with this text in config.yaml."""
    names = [manifest.name for manifest in plugins.platform_manifests()]
    return load_settings(command.home, command.environ, platforms=names, text=text)


def apply_change(command: CliCommand, change: ConfigChange, *, despite_known: bool = False) -> bool:
    """Show and do it; False if that was only to be shown, or there is nothing to do. A `UserError` says why
    it cannot be, and then the file is as it was; `despite_known` is done whatever was wrong before."""
    console, before = command.console, load(command)
    if change.after == change.before:
        console.line("The settings say so already; nothing was changed.")
        return False
    for line in _difference(change):
        console.line(before.secrets.redact(line))
    _check(command, before, change)
    if command.asked.dry_run:
        console.line(f"That was a dry run. {UNCHANGED}")
        return False
    write_change(change)
    try:
        report = open_home(command).ask(apply_settings)
    except BaseException as error:
        if despite_known and isinstance(error, UserError) and _LINE.sub(":", error.message) in _known(before):
            console.line(f"Written. As before, this is wrong in it: {error.message} {error.hint}".rstrip())
            return True
        take_back(change)
        if isinstance(error, UserError):
            raise UserError(error.message, hint=f"{error.hint} {UNCHANGED}".strip()) from error
        raise
    if not report.generation:
        console.line("It takes effect when the gateway starts.")
    elif report.waits:
        restart = console.spell("hermes gateway restart")
        console.line(f"Adopted; after a restart ({restart}) also: {list_some(report.waits)}.")
    else:
        console.line("The running gateway has adopted it.")
    return True


def _check(command: CliCommand, before: LoadedSettings, change: ConfigChange) -> None:
    """A mistake that was there before is no reason to refuse, whatever line it stands in now."""
    known = _known(before)
    now = load(command, change.after)
    for error in (*now.stops, *now.problems):
        if _LINE.sub(":", error.message) not in known:
            raise UserError(error.message, hint=f"{error.hint} {UNCHANGED}".strip())


def _known(before: LoadedSettings) -> set[str]:
    return {_LINE.sub(":", error.message) for error in (*before.stops, *before.problems)}


def _difference(change: ConfigChange) -> Iterator[str]:
    name = change.file.name
    before, after = change.before.splitlines(), change.after.splitlines()
    yield from difflib.unified_diff(before, after, name, f"{name} (new)", lineterm="", n=1)
