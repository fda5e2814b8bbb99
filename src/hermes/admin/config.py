"""`hermes config`: show, get, set, path and check. Reads and writes files only; no gateway is needed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, NoReturn, TextIO

from hermes.domain.errors import UserError
from hermes.domain.settings import Secret
from hermes.domain.text import showable
from hermes.plugins import platform_manifests
from hermes.state.profiles import prepare_home
from hermes.state.setting_keys import find_key, value_at
from hermes.state.settings import CONFIG_FILE, SECRETS_FILE, Loaded, check_text, load_settings
from hermes.state.settings_write import set_setting

OK, PROBLEMS, WRONG_USE = 0, 1, 2


class _Usage(Exception):
    """The arguments were wrong, or help was asked for; everything is printed already."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class _Parser(argparse.ArgumentParser):
    """Prints where it is told to and never ends the process."""

    out: TextIO = sys.stdout
    err: TextIO = sys.stderr

    def _print_message(self, message: str, file: Any = None) -> None:
        (self.err if file is sys.stderr else self.out).write(message)

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        if message:
            self.err.write(message)
        raise _Usage(status)


def _parser(out: TextIO, err: TextIO) -> _Parser:
    class Parser(_Parser):
        pass

    Parser.out, Parser.err = out, err
    parser = Parser(
        prog="hermes config",
        description="Read, change and check the settings in config.yaml and .env.",
        epilog="The environment beats .env, .env beats config.yaml. All keys: docs/reference/settings.md",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)

    def command(name: str, told: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=told, description=told)

    command("show", "Print the settings that count now, as YAML; secrets are shown as ***.")
    get = command("get", "Print one setting, or one section.")
    get.add_argument("key", help="a dotted key like agent.max_turns, or a variable like HERMES_MODEL")
    change = command("set", "Change one setting; secrets go to .env, all others to config.yaml.")
    change.add_argument("key", help="a dotted key like agent.max_turns, or a variable like OPENAI_API_KEY")
    change.add_argument("value", help="the new value; a list is written with commas")
    command("path", "Print where config.yaml and .env are.")
    command("check", "Print every problem with its file, its line and its remedy.")
    return parser


def run(args: list[str], home: Path, environ: Mapping[str, str], out: TextIO, err: TextIO) -> int:
    """Run one command. 0 = done, 1 = problems were found, 2 = the command cannot be done so."""
    try:
        asked = _parser(out, err).parse_args(args)
    except _Usage as usage:
        return usage.code
    try:
        if asked.command == "path":
            out.write(f"{home / CONFIG_FILE}\n{home / SECRETS_FILE}\n")
            return OK
        if asked.command == "set":
            return _set(home, environ, asked.key, asked.value, out)
        loaded = load_settings(home, environ)
        if asked.command == "check":
            return _check(loaded, out)
        if asked.command == "get":
            out.write(_said(loaded, _got(loaded, asked.key)))
        else:
            out.write(_said(loaded, plain(loaded.settings)))
        if loaded.problems:
            err.write(f"{len(loaded.problems)} problem(s) in the settings; see: hermes config check\n")
        return OK
    except UserError as error:
        err.write(showable(str(error)) + "\n")
        return WRONG_USE


def plain(value: Any) -> Any:
    """Settings as plain data, with `***` for secrets."""
    if isinstance(value, Secret):
        return "***" if value else ""
    if isinstance(value, StrEnum):
        return value.value
    if is_dataclass(value):
        # What stands in `trees` stands flattened in `extra` and `secrets` as well.
        names = [item.name for item in fields(value) if item.name != "trees"]
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, tuple) else value


def _got(loaded: Loaded, key: str) -> Any:
    if "." in key or not key.isupper():
        return plain(value_at(loaded.settings, key))
    find_key(key, also=_platform_variables())
    secret = loaded.secrets.get(key)
    return plain(secret) if secret else loaded.variables.get(key, "")


def _said(loaded: Loaded, value: Any) -> str:
    if isinstance(value, (dict, list)):
        import yaml

        text = yaml.safe_dump(value, allow_unicode=True, sort_keys=False, width=100_000) if value else ""
    elif isinstance(value, bool):
        text = f"{value}\n".lower()
    else:
        text = "\n" if value is None else f"{value}\n"
    return loaded.secrets.redact(text)


def _platform_variables() -> list[str]:
    """What platforms have for themselves."""
    return [field.env for manifest in platform_manifests() for field in manifest.settings]


def _set(home: Path, environ: Mapping[str, str], key: str, value: str, out: TextIO) -> int:
    prepare_home(home)
    written = set_setting(home, key, value, _platform_variables())
    out.write(f"{written.name} is set in {written.file}\n")
    if written.secret:
        if environ.get(written.name, value) != value:
            out.write(f"{written.name} is also set in the environment, which counts.\n")
    elif "${" not in value:
        file, _ = check_text((home / CONFIG_FILE).read_text(encoding="utf-8"))
        if value_at(load_settings(home, environ).settings, key) != value_at(file, key):
            out.write("A variable in .env or in the environment says something else, which counts.\n")
    return OK


def _check(loaded: Loaded, out: TextIO) -> int:
    found = [*map(str, loaded.problems), *_webhook_problems(loaded), *_account_problems(loaded)]
    for problem in found:
        out.write(loaded.secrets.redact(showable(problem)) + "\n")
    for note in loaded.notes:
        out.write("note: " + loaded.secrets.redact(showable(str(note))) + "\n")
    if found:
        return PROBLEMS
    out.write("config ok\n")
    return OK


def _account_problems(loaded: Loaded) -> list[str]:
    from hermes.app.accounts import ONE_EACH, declared_accounts, same_credentials

    enabled = [one for one in declared_accounts(platform_manifests(), loaded) if one.enabled]
    doubles = same_credentials(enabled).items()
    return [f"{name} has the same credential as {first}. {ONE_EACH}" for name, first in doubles]


def _webhook_problems(loaded: Loaded) -> list[str]:
    """What only the readers of webhook routes and targets understand."""
    block = loaded.settings.platforms.get("webhook")
    if block is None:
        return []
    from hermes.entry.http.webhooks.routes import problems, read_routes
    from hermes.entry.platforms.webhook.convert import target_problems

    def find(variable: str) -> Secret | None:
        return loaded.find("webhook", variable)

    routes = read_routes(block.trees.get("routes"), find("WEBHOOK_SECRET") or Secret(""))
    return [*problems(routes), *target_problems(block.trees.get("targets"), find)]
