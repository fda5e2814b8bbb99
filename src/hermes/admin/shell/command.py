"""One command of `hermes`, from its words to its exit code.

A module of `hermes.admin` has `arguments(parser)`, which names the commands below it and what each does; what
is done gets one thing, the `CliCommand`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from hermes.admin.shell.output import CliConsole
from hermes.domain.errors import UserError
from hermes.domain.process_mark import own_level
from hermes.domain.process_rank import RIGHTS, Rank, rank_of
from hermes.domain.text import showable
from hermes.entry.http.site.peers import lowest_level


@dataclass(frozen=True, slots=True, kw_only=True)
class CliCommand:
    """A command as it was given: its name and arguments, the home, the environment, and where it prints."""

    name: str
    asked: argparse.Namespace
    home: Path
    environ: Mapping[str, str]
    console: CliConsole
    version: str = ""

    def show(
        self,
        told: object,
        header: Sequence[str],
        rows: Sequence[Sequence[str]],
        *,
        none: str = "",
        whole: int = 1,
    ) -> None:
        """A list: as JSON for machines, as a table for people, or a sentence that says there is nothing."""
        if self.asked.json:
            self.console.json(told)
        elif rows or not none:
            self.console.table(header, rows, whole=whole)
        else:
            self.console.line(none)


Act = Callable[[CliCommand], int | None]
"""What a command does; its exit code, 0 if it has nothing to say of it."""


class UsageError(Exception):
    """The arguments were wrong; the message says how."""


class CliParser(argparse.ArgumentParser):
    """Says what is wrong in one sentence and leaves the ending of the process to its caller."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{showable(message)}\n{self.format_usage().strip()}\nSee: {self.prog} --help")


class Subcommands:
    """The commands below one. What a command does is its help and its description."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._added = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(self, name: str, told: str, act: Act, *, json: bool = False) -> argparse.ArgumentParser:
        parser = self._added.add_parser(name, help=told, description=told)
        parser.set_defaults(act=act, name_of_command=parser.prog)
        if json:
            add_json(parser)
        return parser


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def number_to(most: int, least: int = 1) -> Callable[[str], int]:
    """Reads an argument that is a number."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
            raise argparse.ArgumentTypeError(f"“{text[:20]}” is not a number from {least} to {most}")
        return int(text)

    return read


def _check_rank(name: str) -> None:
    """What hooks, scripts and agents start may look, but not act as the owner. The gateway's socket holds
    without this; here it is said sooner, and for commands that work on the files."""
    try:
        rank = rank_of(lowest_level(os.getpid()))
    except (OSError, LookupError, ValueError):
        rank = rank_of(own_level())
    if rank is not Rank.OWNER and name not in RIGHTS[rank].commands:
        raise UserError(f"{rank.label.capitalize()} may not do this: hermes {name}.", hint=rank.remedy)


def perform(
    name: str,
    words: Sequence[str],
    home: Path,
    environ: Mapping[str, str],
    console: CliConsole,
    version: str = "",
) -> int:
    """Run a subcommand of the named command; returns the exit code. `UsageError` for wrong arguments."""
    parser = CliParser(prog=f"hermes {name}")
    parser.set_defaults(name_of_command=parser.prog)
    module: Any = import_module(f"hermes.admin.commands.{name}")
    module.arguments(parser)
    try:
        asked = parser.parse_args(words)
    except SystemExit:  # argparse has printed its help
        return 0
    _check_rank(asked.name_of_command.removeprefix("hermes "))
    command = CliCommand(
        name=asked.name_of_command,
        asked=asked,
        home=home,
        environ=environ,
        console=console,
        version=version,
    )
    return asked.act(command) or 0
