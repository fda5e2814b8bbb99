"""`hermes migrate`: move in from a home of Hermes Agent or OpenClaw. Nothing in the old home is changed,
nothing that is here already is overwritten, and what is left out is said. It can be repeated."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from hermes.admin.process.home_files import GATEWAY, home_holder
from hermes.admin.shell.command import CliCommand, declare
from hermes.admin.shell.home import open_home
from hermes.agent.context.prompt import IDENTITY
from hermes.domain.errors import UserError
from hermes.domain.turns.moving import MovedSession
from hermes.entry.desk import move_sessions
from hermes.state.home.homes import prepare_home
from hermes.state.moving.arriving import Arrival, MoveReport
from hermes.state.moving.hermes_agent import DATABASE, StoredSessions
from hermes.state.moving.openclaw import is_openclaw, read_openclaw, variables_of
from hermes.state.moving.openclaw_sessions import OldSessions
from hermes.state.moving.openclaw_settings import OldSettings
from hermes.state.settings.loader import SECRETS_FILE

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
    "cron/output": "what jobs said",
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
_OPENCLAW_HOMES = (".openclaw", ".clawdbot", ".moltbot")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Move in from a home of Hermes Agent (0.19 or later) or OpenClaw. The old home stays as it is."
    )
    declare(
        parser, {"[source]": "the old home; else this home itself, if Hermes Agent used it, or ~/.openclaw"}
    )
    declare(parser, {"-n, --dry-run": "only say what would be done", "-y, --yes": "do not ask"})
    parser.set_defaults(act=_migrate)


def _migrate(command: CliCommand) -> None:
    asked, home, console = command.asked, command.home, command.console
    source = Path(os.path.abspath(Path(asked.source).expanduser())) if asked.source else _found(command)
    same = source.resolve() == home.resolve()
    holder = home_holder(home)
    if not same and holder is not None and holder.what == GATEWAY:
        raise UserError("A gateway runs on this home.", hint="Stop it first: hermes gateway stop")
    _check_source(source)
    if not asked.dry_run and not asked.yes:
        console.confirm(f"Move in from {source} to {home}? The old home stays as it is.")
    if not asked.dry_run:
        prepare_home(home)
    arrival = Arrival(home=home, dry=asked.dry_run, usual={"SOUL.md": IDENTITY})
    sessions: Iterable[MovedSession]
    if is_openclaw(source):
        sessions = _from_openclaw(source, arrival)
    else:
        if not same:
            _from_hermes(source, arrival)
        sessions = StoredSessions(source / DATABASE) if (source / DATABASE).exists() else ()
    report = arrival.report
    try:
        report.taken.append(_count(sessions) if asked.dry_run else _sessions(command, sessions))
    finally:  # files are there by now, whatever the conversations are like
        report.left += getattr(sessions, "left", ())
        _tell(command, report)


def _found(command: CliCommand) -> Path:
    """This home itself, if Hermes Agent used it before; else a home of OpenClaw where those stand."""
    own = Path(command.environ.get("HOME") or Path.home())
    others = [own / name for name in _OPENCLAW_HOMES if is_openclaw(own / name)]
    if not _is_hermes(command.home) and not others:
        message = f"Hermes Agent did not use {command.home}, and there is no home of OpenClaw."
        raise UserError(message, hint="Name the old home: hermes migrate ~/old-home")
    return command.home if _is_hermes(command.home) else others[0]


def _is_hermes(folder: Path) -> bool:
    return (folder / DATABASE).exists()


def _check_source(source: Path) -> None:
    if not source.is_dir():
        raise UserError(f"There is no folder {source}.", hint="Name the old home: hermes migrate ~/.openclaw")
    known = (DATABASE, "config.yaml", ".env", "SOUL.md")
    if not is_openclaw(source) and not any((source / name).exists() for name in known):
        raise UserError(
            f"{source} is no home of Hermes Agent or OpenClaw.",
            hint="It would have a config.yaml or state.db, or an openclaw.json.",
        )


def _from_openclaw(source: Path, arrival: Arrival) -> OldSessions:
    old = read_openclaw(source, datetime.now(UTC))
    arrival.settings(old.settings)
    for name, (text, what) in old.texts.items():
        arrival.text(name, text, what)
    for folder, name in old.folders:
        arrival.folder(folder, name, "a skill")
    arrival.report.left += [*old.left, *old.settings.left]
    return old.sessions


def _from_hermes(source: Path, arrival: Arrival) -> None:
    for name, what in _TAKEN.items():
        old = source / name
        if name == SECRETS_FILE and old.is_file() and (arrival.home / name).exists():
            variables = variables_of(old, arrival.report.left)
            arrival.settings(OldSettings(variables=variables))
        elif old.is_dir():
            arrival.folder(old, name, what)
        elif old.exists():
            arrival.file(old, name, what)
    tops = {name.partition("/")[0] for name in _TAKEN}
    others = sorted(name for name in os.listdir(source) if name not in _LEFT and name not in tops)
    tops -= set(_TAKEN)
    others += [
        f"{top}/{name}"
        for top in sorted(tops)
        if (source / top).is_dir()
        for name in sorted(os.listdir(source / top))
        if f"{top}/{name}" not in _TAKEN
    ]
    left = arrival.report.left
    left += [f"{name}: not known here" for name in others]
    if (source / "profiles").is_dir():
        left.append("profiles: move in from each of them (hermes -p NAME migrate OLD/profiles/NAME)")


def _sessions(command: CliCommand, sessions: Iterable[MovedSession]) -> str:
    home = open_home(command, creating=True)
    done = new = 0
    coming = iter(sessions)
    while some := list(islice(coming, _AT_ONCE)):
        new += home.ask(move_sessions, sessions=some)
        done += len(some)
        if command.console.interactive:
            command.console.note(f"… {done} conversations")
    return f"{new} conversation{'s' * (new != 1)} ({done - new} were here already)"


def _count(sessions: Iterable[MovedSession]) -> str:
    found = list(sessions)
    messages = sum(len(one.messages) for one in found)
    return (
        f"{len(found)} conversation{'s' * (len(found) != 1)} with {messages} message{'s' * (messages != 1)}"
    )


def _tell(command: CliCommand, report: MoveReport) -> None:
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
