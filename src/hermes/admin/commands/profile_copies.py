"""`hermes profile clone|export|import`: a profile as a file, and one made like another. A clone never holds
the tokens of chat accounts: two profiles cannot use one token."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import IO

from hermes.admin.commands.backup import passphrase_of
from hermes.admin.process.home_files import RESTORE, hold_home
from hermes.admin.shell.command import CliCommand, Subcommands
from hermes.admin.shell.home import open_home
from hermes.app.backups import opened
from hermes.domain.errors import UserError
from hermes.domain.settings.settings import NAME_RULE, is_name
from hermes.domain.text import one_line, size_told
from hermes.domain.word import replace
from hermes.entry.desk import copy_database
from hermes.state.files import subscriptions
from hermes.state.home.archive import BEFORE_RESTORE, ArchiveManifest, write_archive
from hermes.state.home.credentials import AUTH_FILE
from hermes.state.home.homes import PROFILES_FOLDER, prepare_home, profile_home
from hermes.state.home.restoring import restore
from hermes.state.home.textfile import replace_text
from hermes.state.settings import history
from hermes.state.settings.loader import SECRETS_FILE, load_settings, without_accounts
from hermes.state.settings.platform_reader import API_SERVER
from hermes.state.store.care.backup import check_archived

_KEYS_OF_PLATFORMS = "platforms"
_CONVERSATIONS = {"--conversations": "take its conversations along"}


def add_copies(commands: Subcommands) -> None:
    source = {"name": "the profile; `default` is the home itself"}
    new = {"new": f"the name of the new one: {NAME_RULE}"}
    summary = "Make a profile like another: settings, keys, agents, memory, skills; no accounts of chats."
    commands.add("clone", summary, _clone, source | new | _CONVERSATIONS)
    options = {"-o, --output FILE": "where to write it", "--secrets": "take keys and tokens along"}
    summary = "Write a profile to a file, without its keys and tokens."
    commands.add("export", summary, _export, source | options | _CONVERSATIONS)
    summary = "Make a profile from a file that was exported, or from a backup."
    commands.add("import", summary, _import, {"file": "the file"} | new)


def _clone(command: CliCommand) -> None:
    root, asked = command.home, command.asked
    source, target = profile_home(root, asked.name), new_home(root, asked.new)
    prepare_home(root)
    target.parent.mkdir(mode=0o700, exist_ok=True)
    with TemporaryDirectory(prefix=".clone-", dir=target.parent) as folder:  # which no archive holds
        file = Path(folder) / "profile.zip"
        _write(command, source, file, _is_of_accounts)
        _unpack(file, target)
    for secrets in filter(Path.is_file, target.rglob(f"{SECRETS_FILE}*")):
        text = secrets.read_text(encoding="utf-8", errors="replace")
        if (kept := without_accounts(text)) != text:
            replace_text(secrets, kept, 0o600)
    command.console.line(f"The profile “{asked.new}” is like “{asked.name}”: {target}")
    command.console.note("It has no accounts of chat platforms: two profiles cannot use one token.")
    if API_SERVER in load_settings(target, {}).settings.platforms:
        other = f"hermes -p {asked.new} config set platforms.{API_SERVER}.port …"
        command.console.note(f"Two profiles cannot serve HTTP on one port. To give it another: {other}")
    _tell_secrets(command, target)


def _export(command: CliCommand) -> None:
    asked = command.asked
    source = profile_home(command.home, asked.name)
    if not source.is_dir():
        raise UserError(f"There is nothing in {source} yet.")
    file = Path(asked.output or f"hermes-{asked.name}-{datetime.now(UTC):%Y%m%d-%H%M%S}.zip").absolute()
    if file.exists():
        raise UserError(f"{file} is there already.", hint="Name another file with -o.")
    manifest = _write(command, source, file, (lambda path: False) if asked.secrets else _is_secret)
    size = size_told(manifest.size)
    command.console.line(f"The profile “{asked.name}” is in {file} ({len(manifest.files)} files, {size}).")
    if not asked.secrets:
        command.console.note("Keys, tokens and webhooks are not in it (--secrets takes them along).")
        _tell_secrets(command, source)


def _import(command: CliCommand) -> None:
    root, asked = command.home, command.asked
    target = new_home(root, asked.new)
    prepare_home(root)
    file = Path(asked.file)
    with opened(file, lambda: passphrase_of(command)) as plain:
        _unpack(file, target, plain)
    command.console.line(f"The profile “{asked.new}” is there: {target}")
    command.console.note(f"Look at its settings first: hermes -p {asked.new} config check")


def new_home(root: Path, name: str) -> Path:
    if not is_name(name):
        raise UserError(f"A profile cannot be called “{one_line(name, 80)}”.", hint=f"Use {NAME_RULE}.")
    target = root / PROFILES_FOLDER / name
    if target.exists():
        raise UserError(f"There is a profile “{name}” already: {target}", hint=f"Use it: hermes -p {name}")
    return target


def _write(command: CliCommand, source: Path, file: Path, skips: Callable[[str], bool]) -> ArchiveManifest:
    home = open_home(replace(command, home=source))
    database = home.ask(copy_database) if command.asked.conversations and not home.empty else ""
    manifest = ArchiveManifest(made_at=datetime.now(UTC), version=command.version)
    copy = Path(database) if database else None
    write_archive(source, file, copy, manifest, lambda files, size: None, skips)
    return manifest


def _unpack(file: Path, target: Path, content: IO[bytes] | None = None) -> None:
    """Whole or not at all."""
    draft = target.parent / f".{target.name}.new"
    shutil.rmtree(draft, ignore_errors=True)  # one that was cut off
    try:
        with hold_home(prepare_home(draft), RESTORE):
            restore(draft, file, lambda files, size: None, content, check_archived)
        shutil.rmtree(draft / BEFORE_RESTORE, ignore_errors=True)
        draft.rename(target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _is_of_accounts(path: str) -> bool:
    """Keys of platforms; and earlier settings, in which anything may stand."""
    return PurePosixPath(path).parts[0] in (_KEYS_OF_PLATFORMS, history.FOLDER)


def _is_secret(path: str) -> bool:
    """Also a copy that an editor left beside it, like `.env.bak`."""
    name = PurePosixPath(path).name
    return name.startswith((SECRETS_FILE, AUTH_FILE, subscriptions.FILE)) or _is_of_accounts(path)


def _tell_secrets(command: CliCommand, home: Path) -> None:
    """What is written openly in config.yaml cannot be left out."""
    for note in load_settings(home, {}).notes:
        if note.message.endswith("is a secret."):
            command.console.note(f"{note.place}: {note.message} It is in the copy.")
