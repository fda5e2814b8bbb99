"""`hermes backup`: the whole home in one file, checked, put back, and made by the clock."""

from __future__ import annotations

import argparse
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from hermes.admin.process.home_files import RESTORE, hold_home
from hermes.admin.shell.command import JSON, CliCommand, Subcommands, declare, number_to
from hermes.admin.shell.home import open_home
from hermes.admin.shell.output import Column
from hermes.app.backups import (
    QUICK,
    HomeBackups,
    backups_folder,
    homes_outside,
    known_passphrase,
    made_at,
    opened,
)
from hermes.control.jobs.schedule import Once, read_schedule
from hermes.domain.clock import zone_named
from hermes.domain.errors import UserError
from hermes.domain.settings.settings import Settings
from hermes.domain.text import size_told
from hermes.entry.desk import apply_settings, copy_database
from hermes.state.home.archive import ArchiveManifest, Progress, read_archive, unpack_archive
from hermes.state.home.homes import prepare_home, profile_names
from hermes.state.home.restoring import finish_restore, is_unfinished, restore
from hermes.state.settings.by_key import set_setting, unset_setting
from hermes.state.settings.loader import LoadedSettings, load_settings
from hermes.state.store.care.backup import check_archived

_FILE = {"file": "the backup"}
_TOLD_SECONDS = 2.0


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Backups of the whole home: settings, secrets, conversations, memory, skills, jobs, files."
    )
    add = Subcommands(parser).add
    making = {
        "-o, --output FILE": "where to write it; usually archives/ in the home",
        "-q, --quick": "settings, secrets, memory and hooks alone, without conversations, jobs and files",
        "-e, --encrypt": "encrypt it with a passphrase",
    }
    add("create", "Write a backup, also while the gateway runs.", _create, making | JSON)
    add("list", "List the backups there are.", _list, JSON)
    add("verify", "Check every file of a backup.", _verify, _FILE | JSON)
    again = add(
        "restore", "Put a backup in place of what stands in this home.", _restore, {"[file]": "the backup"}
    )
    declare(again, {"-n, --dry-run": "only say what would be done", "-y, --yes": "do not ask"})
    timed = add("schedule", "Make backups by the clock, or show when.", _schedule)
    declare(timed, {"[when]": "like `every day at 3am`, `0 3 * * *` or `off`"})
    declare(timed, {"-k, --keep N": "how many are kept"}, type=number_to(1000))


def _create(command: CliCommand) -> None:
    asked, settings = command.asked, _settings(command)
    passphrase = _new_passphrase(command) if asked.encrypt else ""
    backups, now = _backups(command, settings, passphrase), datetime.now(UTC)
    target = (
        _target(asked.output, backups, now)
        if asked.output
        else backups.target(now, QUICK if asked.quick else "")
    )
    home = open_home(command)
    database = "" if asked.quick or home.empty else home.ask(copy_database)
    manifest = backups.make(target, database, now, _progress(command), quick=asked.quick)
    _tell(command, target, manifest)
    others = profile_names(command.home)
    if others and not asked.json:
        command.console.note(
            f"Profiles have backups of their own: {', '.join(others)} (hermes -p NAME backup create)."
        )


def _target(output: str, backups: HomeBackups, now: datetime) -> Path:
    named = Path(output).absolute()
    if output.endswith("/") and not named.is_dir():
        raise UserError(f"There is no folder {named}.", hint="Make it first, or mount its disk.")
    target = named / backups.target(now).name if named.is_dir() else named
    if target.exists():
        raise UserError(f"{target} is there already.", hint="Name another file.")
    if not target.parent.is_dir():
        raise UserError(f"There is no folder {target.parent}.", hint="Make it first, or name another file.")
    return target


def _list(command: CliCommand) -> None:
    columns = [
        Column("name", "BACKUP"),
        Column("", "MADE", value=lambda file: f"{made_at(file).astimezone():%Y-%m-%d %H:%M}"),
        Column("", "SIZE", value=lambda file: size_told(file.stat().st_size)),
    ]
    there = _backups(command, _settings(command)).listed()
    command.list(there, columns, none="There are no backups yet. Make one: hermes backup create")


def _verify(command: CliCommand) -> None:
    file = Path(command.asked.file)
    with opened(file, lambda: passphrase_of(command)) as plain:
        manifest = unpack_archive(file, None, _progress(command), plain)
        _check_database(file, plain, manifest)
    _tell(command, file, manifest, verb="is whole")


def _check_database(file: Path, plain: IO[bytes], manifest: ArchiveManifest) -> None:
    """SQLite itself looks at a copy among the temporary files."""
    from tempfile import TemporaryDirectory, gettempdir
    from zipfile import ZipFile

    if not manifest.database:
        return
    try:
        with TemporaryDirectory(prefix="hermes-verify-") as folder, ZipFile(plain) as archive:
            check_archived(Path(archive.extract(f"home/{manifest.database}", folder)), file)
    except OSError as error:
        why = f"The database in {file} cannot be unpacked into {gettempdir()} ({error.strerror})."
        raise UserError(why, hint="Make room there, or set TMPDIR to a folder that has some.") from None


def _restore(command: CliCommand) -> None:
    home, console, asked = command.home, command.console, command.asked
    if asked.file is None:
        if not is_unfinished(home):
            raise UserError(
                "No restore was interrupted here.", hint="Name a backup: hermes backup restore FILE"
            )
        with hold_home(home, RESTORE):
            console.line(f"The restore is finished. What stood here before: {finish_restore(home)}")
        return
    file = Path(asked.file)
    with opened(file, lambda: passphrase_of(command)) as plain:
        manifest = read_archive(file, plain)
        replaced = f"{'the settings, secrets, memory and hooks' if manifest.quick else 'all'} of {home}"
        if asked.dry_run:
            _check_database(file, plain, manifest)
            _tell(command, file, manifest, verb=f"would replace {replaced}")
            return
        if not asked.yes:
            console.confirm(f"Replace {replaced} by the backup of {manifest.made_at:%Y-%m-%d %H:%M} UTC?")
        with hold_home(prepare_home(home), RESTORE):
            restore(home, file, _progress(command), plain, check_archived)
    console.line(f"Restored {home}. What was replaced is kept in {home / 'before-restore'}.")
    console.note("Start it again: hermes gateway start")


def _schedule(command: CliCommand) -> None:
    asked, home, console = command.asked, command.home, command.console
    settings = _settings(command)
    if asked.when and asked.when != "off":
        zone = zone_named(settings.timezone)
        if isinstance(read_schedule(asked.when, datetime.now(UTC), zone), Once):
            raise UserError(f"“{asked.when}” is once.", hint="Say how often, like: every day at 3am")
        set_setting(prepare_home(home), "backup.schedule", asked.when)
    elif asked.when:
        unset_setting(home, "backup.schedule")
    if asked.keep:
        set_setting(prepare_home(home), "backup.keep", str(asked.keep))
    running = open_home(command)
    if running.running and (asked.when or asked.keep):
        running.ask(apply_settings)
    chosen = _settings(command).backup
    if not chosen.schedule:
        console.line(
            'No backups are made by the clock. For example: hermes backup schedule "every day at 3am"'
        )
        return
    sealed = (
        "encrypted"
        if known_passphrase(_loaded(command))
        else "not encrypted (set HERMES_BACKUP_PASSPHRASE to encrypt)"
    )
    where = backups_folder(home, _settings(command))
    console.line(
        f"Backups are made {chosen.schedule}; the newest {chosen.keep} are kept in {where}, {sealed}."
    )
    if not running.running:
        console.note("The gateway makes them while it runs: hermes gateway start")


# --- what they share ---------------------------------------------------------------------------------


def _loaded(command: CliCommand) -> LoadedSettings:
    return load_settings(command.home, command.environ)


def _settings(command: CliCommand) -> Settings:
    return _loaded(command).settings


def _backups(command: CliCommand, settings: Settings, passphrase: str = "") -> HomeBackups:
    folder = backups_folder(command.home, settings)
    return HomeBackups(
        home=command.home,
        folder=folder,
        version=command.version,
        passphrase=passphrase,
        left_out=homes_outside(command.home, settings),
    )


def passphrase_of(command: CliCommand) -> str:
    return known_passphrase(_loaded(command)) or _ask(command, "Passphrase of the backup:")


def _ask(command: CliCommand, question: str) -> str:
    if not command.console.interactive:
        raise UserError("There is nobody to ask for the passphrase.", hint="Set HERMES_BACKUP_PASSPHRASE.")
    return command.console.ask(question, secret=True)


def _new_passphrase(command: CliCommand) -> str:
    if known := known_passphrase(_loaded(command)):
        return known
    first = _ask(command, "Passphrase of the new backup:")
    if not first:
        raise UserError("The passphrase is empty.", hint="Type one, or set HERMES_BACKUP_PASSPHRASE.")
    if _ask(command, "Once more:") != first:
        raise UserError("The two passphrases differ.", hint="Try again.")
    return first


def _progress(command: CliCommand) -> Progress:
    """Tells now and then how far it is, where somebody looks."""
    console, last = command.console, time.monotonic()

    def tell(files: int, size: int) -> None:
        nonlocal last
        if console.interactive and time.monotonic() - last > _TOLD_SECONDS:
            last = time.monotonic()
            console.note(f"… {files} files, {size_told(size)}")

    return tell


def _tell(command: CliCommand, file: Path, manifest: ArchiveManifest, verb: str = "") -> None:
    facts: dict[str, Any] = {
        "file": str(file),
        "made_at": manifest.made_at.isoformat(),
        "version": manifest.version,
        "files": len(manifest.files),
        "bytes": manifest.size,
        "quick": manifest.quick,
        "left_out": manifest.left_out,
    }
    if getattr(command.asked, "json", False):
        command.console.json(facts)
        return
    made = f"made {manifest.made_at:%Y-%m-%d %H:%M} UTC by Hermes {manifest.version}"
    command.console.line(f"{file} {verb}".strip())
    files = len(manifest.files)
    command.console.line(f"{files} file{'s' * (files != 1)}, {size_told(manifest.size)}, {made}")
    for line in manifest.left_out[:20]:
        command.console.note(f"left out: {line}")
