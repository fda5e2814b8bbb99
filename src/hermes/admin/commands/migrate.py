"""`hermes migrate`: move in from a home of Hermes Agent. Nothing in the old home is changed, nothing that is
here already is overwritten, and what is left out is said. It can be repeated."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from msgspec import Struct, field

from hermes.admin.process.home_files import GATEWAY, home_holder
from hermes.admin.shell.command import CliCommand, declare
from hermes.admin.shell.home import open_home
from hermes.domain.errors import UserError
from hermes.domain.turns.moving import MovedSession
from hermes.entry.desk import move_sessions
from hermes.state.home.homes import prepare_home
from hermes.state.moving.hermes_agent import DATABASE, read_sessions

_TAKEN = {
    "config.yaml": "settings",
    ".env": "keys and tokens",
    "SOUL.md": "identity",
    "auth.json": "logins",
    "memories": "memory",
    "skills": "skills",
    "hooks": "hooks",
    "cron/jobs.json": "scheduled jobs",
    "cron/scripts": "scripts of jobs",
    "scripts": "scripts of jobs",
    "pairing": "people who are let in",
    "platforms": "people who are let in, and logins of platforms",
    "channel_aliases.json": "names of chats",
}
"""What has the same name in both programs. Jobs and people are read at the next start of the gateway."""
_NOT_NEEDED = """state.db state.db-wal state.db-shm logs cache sessions sandboxes gateway.pid gateway.lock bin
    node audio_cache image_cache gateway_state.json profiles active_profile models_dev_cache.json"""
_LEFT = frozenset(_NOT_NEEDED.split())
_AT_ONCE = 20


class Report(Struct):
    """What was, or would be, taken; what is here already; and what has no place here."""

    taken: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Move in from a home of Hermes Agent (0.19 or later). The old home stays as it is."
    declare(parser, {"[source]": "the old home; this home itself, if Hermes Agent used it before"})
    declare(parser, {"-n, --dry-run": "only say what would be done", "-y, --yes": "do not ask"})
    parser.set_defaults(act=_migrate)


def _migrate(command: CliCommand) -> None:
    asked, home, console = command.asked, command.home, command.console
    source = Path(os.path.abspath(Path(asked.source).expanduser())) if asked.source else home
    _check_source(source)
    same = source.resolve() == home.resolve()
    holder = home_holder(home)
    if not same and holder is not None and holder.what == GATEWAY:
        raise UserError("A gateway runs on this home.", hint="Stop it first: hermes gateway stop")
    if not asked.dry_run and not asked.yes:
        console.confirm(f"Move in from {source} to {home}? The old home stays as it is.")
    report = Report() if same else _files(source, home, dry=asked.dry_run)
    if (source / DATABASE).exists():
        sessions = read_sessions(source / DATABASE)
        report.taken.append(_count(sessions) if asked.dry_run else _sessions(command, sessions))
    _tell(command, report)


def _check_source(source: Path) -> None:
    if not source.is_dir():
        raise UserError(f"There is no folder {source}.", hint="Name the old home: hermes migrate ~/.hermes")
    if not any((source / name).exists() for name in (DATABASE, "config.yaml", ".env", "SOUL.md")):
        raise UserError(
            f"{source} is no home of Hermes Agent.", hint="It would have a config.yaml or state.db."
        )


def _files(source: Path, home: Path, *, dry: bool) -> Report:
    report = Report()
    if not dry:
        prepare_home(home)
    for name, what in _TAKEN.items():
        old, new = source / name, home / name
        if not old.exists():
            continue
        if old.is_dir():
            _folder(old, new, report, what, dry=dry)
        elif new.exists():
            report.kept.append(f"{name} ({what})")
        else:
            report.taken.append(f"{name} ({what})")
            if not dry:
                _copy(old, new)
    tops = {name.partition("/")[0] for name in _TAKEN}
    others = sorted(name for name in os.listdir(source) if name not in _LEFT and name not in tops)
    report.left += [f"{name}: not known here" for name in others]
    if (source / "profiles").is_dir():
        report.left.append("profiles: move in from each of them (hermes -p NAME migrate OLD/profiles/NAME)")
    return report


def _folder(old: Path, new: Path, report: Report, what: str, *, dry: bool) -> None:
    """File by file, so that what is here already stays."""
    count = 0
    for path in _walk(old):
        target = new / path
        if target.exists():
            report.kept.append(f"{old.name}/{path} ({what})")
            continue
        count += 1
        if not dry:
            _copy(old / path, target)
    if count:
        report.taken.append(f"{old.name}: {count} file{'s' * (count != 1)} ({what})")


def _walk(folder: Path) -> Iterator[str]:
    for top, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not os.path.islink(os.path.join(top, name))]
        for name in sorted(names):
            place = Path(top, name)
            if place.is_file() and not place.is_symlink():
                yield str(place.relative_to(folder))


def _copy(old: Path, new: Path) -> None:
    new.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = new.with_name(f".{new.name}.moving")
    shutil.copyfile(old, draft)
    draft.chmod(old.stat().st_mode & 0o700)
    draft.replace(new)


def _sessions(command: CliCommand, sessions: Iterator[MovedSession]) -> str:
    prepare_home(command.home)
    home = open_home(command, creating=True)
    done = new = 0
    while some := list(islice(sessions, _AT_ONCE)):
        new += home.ask(move_sessions, sessions=some)
        done += len(some)
        if command.console.interactive:
            command.console.note(f"… {done} conversations")
    return f"{new} conversation{'s' * (new != 1)} ({done - new} were here already)"


def _count(sessions: Iterator[MovedSession]) -> str:
    found = list(sessions)
    return f"{len(found)} conversations with {sum(len(one.messages) for one in found)} messages"


def _tell(command: CliCommand, report: Report) -> None:
    console, dry = command.console, command.asked.dry_run
    for title, lines in (
        ("Would be taken:" if dry else "Taken:", report.taken),
        ("Kept as they are here:", report.kept),
        ("Left out:", report.left),
    ):
        if lines:
            console.strong(title)
            for line in lines:
                console.line(f"  {line}")
    if not dry:
        console.note("What of the settings is not used here: hermes config check. Then: hermes gateway start")
