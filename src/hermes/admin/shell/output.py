"""How an operator's command speaks: tables that fit the terminal, JSON for machines, colours only where they
are wanted, questions only where somebody can answer. Nothing it prints can steer a terminal."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import Any, TextIO

from msgspec import Struct

from hermes.domain.errors import UserError
from hermes.domain.text import one_line, showable, width

_GAP = "  "
_NARROWEST = 8
_LONGEST_CELL = 400
_NAMED_COMMAND = re.compile(r"(?<![\w./-])hermes (?=--resume|--continue|-q|(?!profile\b)[a-z])")
"""A command in a sentence of ours, but for `hermes profile`, which is about all homes."""


class CliConsole(Struct, frozen=True, kw_only=True):
    """Where a command prints. A width of 0 is a pipe: nothing is cut for it."""

    out: TextIO
    err: TextIO
    width: int = 0
    colour: bool = False
    interactive: bool = False
    draws: bool = False
    """Whether the terminal can move its cursor."""
    hermes: str = "hermes"
    """The command as it reaches the home that is worked on."""

    def spell(self, text: str) -> str:
        """A sentence with commands in it, as they must be written to work on this home."""
        return _NAMED_COMMAND.sub(lambda match: f"{self.hermes} ", text)

    def line(self, text: str = "") -> None:
        self.out.write(showable(text) + "\n")

    def note(self, text: str) -> None:
        """Something beside the answer: a hint, a warning. Never in the way of a pipe."""
        self.err.write(showable(self.spell(text)) + "\n")

    def strong(self, text: str) -> None:
        self.out.write(self._bold(showable(text)) + "\n")

    def json(self, value: Any) -> None:
        # Escaped control characters cannot steer a terminal, and lone surrogates stay readable.
        self.out.write(json.dumps(value, ensure_ascii=True, indent=2) + "\n")

    def words(self, text: str, indent: str = "") -> None:
        """Sentences, as wide as the terminal; their further lines are indented."""
        self.out.writelines(f"{line}\n" for line in _wrapped(showable(text), self.width, indent))

    def table(
        self, header: Sequence[str], rows: Sequence[Sequence[str]], *, whole: int = 1, wrap: bool = False
    ) -> None:
        """Rows in columns. The first `whole` columns are never cut, so that an id can be copied; with `wrap`
        the last one is not cut either, but goes on below."""
        flat = [[one_line(cell, _LONGEST_CELL) for cell in row] for row in rows]
        widths = [max(map(width, column)) for column in zip(header, *flat, strict=True)]
        widths = self._fitted(widths, whole)
        self.out.write(self._bold(_row(header, widths)) + "\n")
        for row in flat:
            *first, last = row
            for line in _wrapped(last, widths[-1]) if wrap and self.width else [last]:
                self.out.write(_row([*first, line], widths) + "\n")
                first = [""] * len(first)

    def bar(self, before: str, bar: str, after: str) -> None:
        """A line of a plot."""
        painted = f"\x1b[36m{bar}\x1b[0m" if self.colour and bar else bar
        self.out.write(f"{showable(before)}{painted}{showable(after)}".rstrip() + "\n")

    def facts(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Names and values; a value that does not fit goes on below."""
        longest = max((len(name) for name, _ in pairs), default=0)
        for name, value in pairs:
            self.words(
                f"{name.ljust(longest)}{_GAP}{one_line(value, _LONGEST_CELL)}", " " * (longest + len(_GAP))
            )

    def confirm(self, question: str) -> None:
        """Ask, and raise unless the answer is yes."""
        if not self.interactive:
            raise UserError(
                "This needs a confirmation, and there is no terminal to ask in.", hint="Add --yes to confirm."
            )
        if self.ask(f"{question} [y/N]").lower() not in ("y", "yes"):
            raise UserError("Nothing was changed.")

    def ask(self, question: str, *, secret: bool = False) -> str:
        """What somebody at the terminal answers; a secret is not shown while it is typed."""
        prompt = showable(question) + " "
        if secret:
            from getpass import getpass

            try:
                return getpass(prompt, self.err).strip()
            except EOFError:
                raise UserError("Nothing was changed.") from None
            except KeyboardInterrupt:
                self.err.write("\n")
                raise
        self.err.write(prompt)
        self.err.flush()
        try:
            answer = sys.stdin.readline()
        except KeyboardInterrupt:
            self.err.write("\n")
            raise
        if not answer:
            raise UserError("Nothing was changed.")
        return answer.strip()

    def _fitted(self, widths: list[int], whole: int) -> list[int]:
        spare = self.width - len(_GAP) * (len(widths) - 1)
        while self.width and sum(widths) > spare:
            widest = max(range(whole, len(widths)), key=lambda place: widths[place], default=None)
            if widest is None or widths[widest] <= _NARROWEST:
                break
            widths[widest] -= 1
        return widths

    def _bold(self, text: str) -> str:
        return f"\x1b[1m{text}\x1b[0m" if self.colour else text


def this_console(environ: Mapping[str, str]) -> CliConsole:
    """The console of this process."""
    out, err = sys.stdout, sys.stderr or io.StringIO()
    if out is None:
        raise UserError("There is no standard output to write to.")
    terminal = out.isatty()
    told = environ.get("COLUMNS", "")
    columns = int(told) if told.isascii() and told.isdigit() else 0
    if not columns and terminal:
        try:
            columns = os.get_terminal_size(out.fileno()).columns
        except OSError:
            columns = 80
    colour = terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
    interactive = sys.stdin is not None and sys.stdin.isatty() and err.isatty()
    draws = environ.get("TERM", "dumb") not in ("", "dumb", "unknown")
    return CliConsole(out=out, err=err, width=columns, colour=colour, interactive=interactive, draws=draws)


class Column(Struct, frozen=True):
    """One fact of listed things, declared once for JSON and for the table. Without a header it stands only in
    JSON, without a key only in the table. `value` finds the fact (else it is the field of that name) and
    `cell` prints it."""

    key: str = ""
    header: str = ""
    cell: Callable[[Any], str] | None = None
    value: Callable[[Any], Any] | None = None

    def of(self, item: Any) -> Any:
        if self.value is not None:
            return self.value(item)
        return item[self.key] if isinstance(item, dict) else getattr(item, self.key)

    def text(self, item: Any) -> str:
        value = self.of(item)
        return self.cell(value) if self.cell is not None else "" if value is None else str(_plain(value))


def as_json(item: object, columns: Sequence[Column]) -> dict[str, Any]:
    return {column.key: _plain(column.of(item)) for column in columns if column.key}


def facts(value: object, *names: str) -> dict[str, Any]:
    """These of its fields, as JSON can tell them."""
    return {name: _plain(getattr(value, name)) for name in names}


def dash(value: object) -> str:
    """A cell that may be empty."""
    return str(value or "–")


def _plain(value: Any) -> Any:
    if isinstance(value, list | dict):
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat()
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def ago(at: datetime, now: datetime | None = None) -> str:
    """A time as people say it."""
    seconds = int(((now or datetime.now(UTC)) - at).total_seconds())
    if seconds < 60:
        return "just now"
    for size, unit, most in ((60, "min", 3_600), (3_600, "h", 86_400), (86_400, "d", 30 * 86_400)):
        if seconds < most:
            return f"{seconds // size} {unit} ago"
    return f"{at.astimezone():%Y-%m-%d}"


def _wrapped(text: str, columns: int, indent: str = "") -> list[str]:
    """The text in lines of so many columns; a word is never torn. Without a width it is one line."""
    if not columns:
        return [text]
    lines: list[str] = []
    line, *more = text.split(" ")
    for word in more:
        if line.strip() and width(line) + 1 + width(word) > columns:
            lines.append(line.rstrip())
            line = indent + word
        else:
            line = f"{line} {word}"
    return [*lines, line.rstrip()]


def _row(row: Sequence[str], widths: Sequence[int]) -> str:
    parts = [cut_to(cell, size) for cell, size in zip(row, widths, strict=True)]
    padded = (part + " " * (size - width(part)) for part, size in zip(parts, widths, strict=True))
    return _GAP.join(padded).rstrip()


def cut_to(text: str, size: int) -> str:
    """The text in so many columns."""
    if width(text) <= size:
        return text
    while text and width(text) >= size:
        text = text[:-1]
    return text.rstrip() + "…"
