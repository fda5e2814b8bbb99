"""`hermes dump`: how everything is set up, on one page without secrets, for whoever helps."""

from __future__ import annotations

import argparse
import asyncio
import platform
import sys

from hermes.admin.commands.model import make_search
from hermes.admin.process.home_files import LOG_FILE, home_holder
from hermes.admin.process.logs import read_lines
from hermes.admin.shell.changing import load
from hermes.admin.shell.command import JSON, CliCommand, declare
from hermes.app.accounts import declared_accounts
from hermes.domain.text import list_some
from hermes.plugins import platform_manifests

_LINES = 20


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(act=_dump)
    parser.description = "Print how everything is set up, without secrets: paste it where you ask for help."
    declare(parser, {"--show-keys": "also the first and last characters of keys"} | JSON)


def _dump(command: CliCommand) -> None:
    from hermes.admin.commands.config_file import different_settings

    loaded = load(command)
    search, holder = asyncio.run(make_search(command, loaded)), home_holder(command.home)
    accounts = [one.name for one in declared_accounts(platform_manifests(), loaded) if one.enabled]
    keys = [*loaded.secrets.names]
    if command.asked.show_keys:
        keys = [f"{name}={_masked(loaded.secrets.reveal(name) or '')}" for name in keys]
    lines = [line for line in read_lines(command.home / LOG_FILE) if " WARNING " in line or " ERROR " in line]
    facts = {
        "version": command.version,
        "python": f"{platform.python_version()} ({sys.executable})",
        "system": platform.platform(),
        "home": str(command.home),
        "gateway": "not running" if holder is None else str(holder),
        "model": "" if search.own is None else search.own.line,
        "platforms": accounts,
        "keys": keys,
        "settings": {row["key"]: row["value"] for row in different_settings(loaded)},
        "problems": [str(problem) for problem in loaded.problems],
        "log": [loaded.secrets.redact(line) for line in lines[-_LINES:]],
    }
    if command.asked.json:
        command.console.json(facts)
        return
    for name, value in facts.items():
        if isinstance(value, list | dict) and name in ("settings", "problems", "log"):
            command.console.line(f"{name}:")
            shown = value.items() if isinstance(value, dict) else ((line, "") for line in value)
            for key, inner in shown:
                command.console.line(f"  {key}{f': {inner}' if inner != '' else ''}")
        else:
            text = list_some(value) if isinstance(value, list) else str(value)
            command.console.line(f"{name + ':':10} {text or '–'}")


def _masked(key: str) -> str:
    return f"{key[:4]}…{key[-2:]}" if len(key) >= 12 else "***"
