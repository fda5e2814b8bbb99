"""One command of `hermes`, from its arguments to its exit code.

A module of `hermes.admin.commands` has `arguments(parser)`, which declares its subcommands and the function
behind each. That function gets one argument, the `CliCommand`."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from msgspec import Struct

from hermes.admin.shell.output import CliConsole, Column, as_json
from hermes.domain.errors import UserError
from hermes.domain.system.process_mark import own_level
from hermes.domain.system.process_rank import RIGHTS, Rank, rank_of
from hermes.domain.text import closest, showable
from hermes.entry.http.site.owner_socket import lowest_level

_QUIET = logging.NullHandler()


class CliCommand(Struct, frozen=True, kw_only=True):
    """What a command's function needs: its name and arguments, the home, the environment, the console."""

    name: str
    asked: argparse.Namespace
    home: Path
    environ: Mapping[str, str]
    console: CliConsole
    version: str = ""

    def list(
        self,
        items: Sequence[Any],
        columns: Sequence[Column],
        *,
        none: str = "",
        whole: int = 1,
        wrap: Callable[[Sequence[dict[str, Any]]], object] = lambda rows: rows,
    ) -> None:
        """Print a list: JSON for machines (`wrap` puts it into a larger answer), a table for people, or the
        sentence `none`."""
        if self.asked.json:
            self.console.json(wrap([as_json(item, columns) for item in items]))
        elif items or not none:
            self.print_table(items, columns, whole=whole)
        else:
            self.console.line(none)

    def print_table(self, items: Sequence[Any], columns: Sequence[Column], *, whole: int = 1) -> None:
        shown = [column for column in columns if column.header]
        header = [column.header for column in shown]
        self.console.table(header, [[column.text(item) for column in shown] for item in items], whole=whole)


Act = Callable[[CliCommand], int | None]
"""The function behind a command. It returns the exit code; None is 0."""


JSON = {"--json": "print JSON"}
STATUS = JSON | {"--jobs": "also show the maintenance jobs"}
"""Of both commands that show how it is: a gateway that runs does without the module behind them."""
NO_ARGUMENTS: Mapping[str, str] = {}


class UsageError(Exception):
    """The arguments were wrong; the message says how."""


class CliParser(argparse.ArgumentParser):
    """Raises `UsageError` with one sentence instead of ending the process; a mistyped word is told together
    with the one that was probably meant."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given, formatter_class=argparse.RawDescriptionHelpFormatter)
        self.set_defaults(parser_of_command=self, name_of_command=self.prog)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{showable(message)}\n{self.format_usage().strip()}\nSee: {self.prog} --help")

    def format_help(self) -> str:
        from hermes.admin.shell.examples import EXAMPLES

        if shown := EXAMPLES.get(self.prog.removeprefix("hermes "), ()):
            examples = "".join(f"\n  {line}" for line in shown)
            self.epilog = f"{self.epilog}\n\nExamples:{examples}" if self.epilog else f"Examples:{examples}"
        return super().format_help()

    def refuse(self, words: Sequence[str]) -> NoReturn:
        """Words that no option and no argument takes."""
        names = [name for action in self._actions for name in action.option_strings]
        near = next((closest(word.partition("=")[0], names) for word in words if word.startswith("-")), "")
        hint = f" (did you mean {near}?)" if near else ""
        self.error(f"unrecognized arguments: {' '.join(words)}{hint}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = [*map(str, action.choices or ())]
        if choices and value not in choices:
            near = closest(str(value), choices)
            hint = f"did you mean {near}?" if near else f"choose from {', '.join(choices)}"
            raise argparse.ArgumentError(action, f"invalid choice: “{str(value)[:60]}” ({hint})")


class Subcommands:
    """The subcommands of a command. Each has one line of help, which is also its description. A command that
    does something by itself is not `required` to have one."""

    def __init__(self, parser: argparse.ArgumentParser, *, required: bool = True) -> None:
        self._added = parser.add_subparsers(required=required, metavar="COMMAND")

    def add(
        self, name: str, summary: str, act: Act, arguments: Mapping[str, str] = NO_ARGUMENTS
    ) -> argparse.ArgumentParser:
        parser = self._added.add_parser(name, help=summary, description=summary)
        parser.set_defaults(act=act)
        declare(parser, arguments)
        return parser


def declare(parser: argparse.ArgumentParser, arguments: Mapping[str, str], **given: Any) -> None:
    """Add arguments with their help, each spelled as its usage shows it: `job`, `[job]`, `-y, --yes`,
    `-n, --limit N`. What is `given` holds for all that take a value."""
    for spelled, summary in arguments.items():
        *short, last = spelled.split(", ")
        name, _, metavar = last.partition(" ")
        if name.startswith("["):
            parser.add_argument(name.strip("[]"), nargs="?", help=summary, **given)
        elif not name.startswith("-"):
            parser.add_argument(name, help=summary, **given)
        elif metavar:
            parser.add_argument(*short, name, metavar=metavar, help=summary, **given)
        else:
            parser.add_argument(*short, name, action="store_true", help=summary)


def number_to(most: int, least: int = 1) -> Callable[[str], int]:
    """Reads an argument that is a number."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
            raise argparse.ArgumentTypeError(f"“{text[:20]}” is not a number from {least} to {most}")
        return int(text)

    return read


def _check_rank(name: str) -> None:
    """Processes that hooks, scripts and agents start may look but not act as the owner. The gateway's socket
    enforces that too; this says it sooner, and covers commands that work on files."""
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
    # Without a log, what is wrong with a plugin would be printed raw by each command; `plugins list` tells.
    logging.getLogger("hermes.plugins").addHandler(_QUIET)
    parser = CliParser(prog=f"hermes {name}")
    module: Any = import_module(f"hermes.admin.commands.{name.replace('-', '_')}")
    module.arguments(parser)
    try:
        asked, unknown = parser.parse_known_args(words)
    except SystemExit:  # argparse has printed its help
        return 0
    if unknown:
        asked.parser_of_command.refuse(unknown)
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
