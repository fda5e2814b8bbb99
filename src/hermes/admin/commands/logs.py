"""`hermes logs`: the logs of a home, by level, age, session and component; `-f` goes on with what comes."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from hermes.admin.process.home_files import LOG_FILE, OUTPUT_FILE
from hermes.admin.process.logs import LogFollower, read_lines
from hermes.admin.shell.command import CliCommand, declare, number_to
from hermes.admin.shell.output import Column, ago
from hermes.domain.errors import UserError
from hermes.domain.text import one_line

_FILES = {
    "gateway": LOG_FILE,
    "agent": LOG_FILE,
    "errors": "logs/errors.log",
    "output": OUTPUT_FILE,
}
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_LOOK_SECONDS = 0.25
_HEAD = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),\d+ (\w+) +(\S+) ")
_AGE = re.compile(r"(\d{1,6}) ?(s|m|min|h|d)")
_UNITS = {"s": "seconds", "m": "minutes", "min": "minutes", "h": "hours", "d": "days"}
_FILTERS = {
    "--session ID": "only lines about this session (the beginning of its id is enough)",
    "--component NAME": "only this part, like turn, platform, cron, model",
    "--grep TEXT": "only lines that hold this text",
}


class LogFilter(Struct, frozen=True, kw_only=True):
    """Which entries are shown. A line without a head belongs to the one before it."""

    least: int = 0
    since: datetime | None = None
    session: str = ""
    component: str = ""
    text: str = ""

    def select(self, lines: Iterable[str]) -> Iterator[str]:
        shown = self == LogFilter()
        for line in lines:
            head = _HEAD.match(line)
            if head is not None:
                shown = self._fits(head, line)
            if shown:
                yield line

    def _fits(self, head: re.Match[str], line: str) -> bool:
        at, level, component = head.groups()
        if level in _LEVELS and _LEVELS.index(level) < self.least:
            return False
        if self.since is not None and datetime.fromisoformat(at) < self.since:
            return False
        event = line[head.end() :].partition(" ")[0]
        parts = component.split(".") + event.split(".")
        if self.component and self.component.removeprefix("hermes.") not in parts:
            return False
        return (not self.session or f"={self.session}" in line) and self.text.lower() in line.lower()


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(act=show)
    parser.description = "Show the end of a log; `hermes logs list` lists the files."
    names = {"[which]": f"one of {', '.join(_FILES)}, or list (gateway)"}
    declare(parser, names, choices=(*_FILES, "list"), default="gateway")
    declare(parser, {"-n, --lines N": "how many lines (50)"}, type=number_to(1_000_000, least=0), default=50)
    declare(parser, {"-f, --follow": "follow the log until Ctrl-C", "--json": "of list: print JSON"})
    declare(parser, {"--level LEVEL": "this level and above"}, type=str.upper, choices=_LEVELS)
    declare(parser, {"--since WHEN": "10m, 2h, 3d, or a time like 2026-05-01T09:00"}, type=_moment)
    declare(parser, _FILTERS, default="")


def _moment(text: str) -> datetime:
    if age := _AGE.fullmatch(text.strip().lower()):
        return datetime.now(UTC).astimezone().replace(tzinfo=None) - timedelta(
            **{_UNITS[age[2]]: int(age[1])}
        )
    try:
        return datetime.fromisoformat(text.strip()).astimezone().replace(tzinfo=None)
    except ValueError:
        raise argparse.ArgumentTypeError(f"“{one_line(text, 40)}” is no age like 2h and no time") from None


def show(command: CliCommand) -> None:
    asked, console = command.asked, command.console
    if asked.which == "list":
        return _list(command)
    path = command.home / _FILES[asked.which]
    if not path.exists() and not asked.follow:
        hint = "Nothing went wrong." if asked.which == "errors" else "Start the gateway: hermes gateway start"
        raise UserError(f"There is no log yet at {path}.", hint=hint)
    chosen = LogFilter(
        least=_LEVELS.index(asked.level) if asked.level else 0,
        since=asked.since,
        session=asked.session,
        component=asked.component,
        text=asked.grep,
    )
    following = LogFollower(path)
    shown = list(chosen.select(read_lines(path)))
    for line in shown[-asked.lines :] if asked.lines else ():
        console.line(line)
    if not shown and not asked.follow:
        console.note("No line of the log fits.")
    while asked.follow:
        for line in chosen.select(following.news()):
            console.line(line)
        console.out.flush()
        time.sleep(_LOOK_SECONDS)


def _list(command: CliCommand) -> None:
    places = [(name, command.home / file) for name, file in _FILES.items() if name != "agent"]
    rows = [(name, path, path.stat()) for name, path in places if path.exists()]
    columns = [
        Column("name", "LOG", value=lambda row: row[0]),
        Column("size", "SIZE", lambda size: f"{size / 1000:,.1f} kB", lambda row: row[2].st_size),
        Column("changed", "CHANGED", ago, lambda row: datetime.fromtimestamp(row[2].st_mtime).astimezone()),
        Column("file", "FILE", value=lambda row: str(row[1])),
    ]
    command.list(
        rows, columns, none="There are no logs yet. They begin with the gateway: hermes gateway start"
    )
