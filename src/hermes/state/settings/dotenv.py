"""The `.env` file: lines of `NAME=value` with quotes, comments and an optional `export`.

Reading never fails; writing changes or removes one variable and keeps every other line as it is."""

from __future__ import annotations

import re

from msgspec import Struct

from hermes.domain.text import one_line
from hermes.state.home.findings import SettingsFindings
from hermes.state.home.textfile import UNREADABLE, TextFile

MOST_LINES = 200
_START = re.compile(r"\s*(export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=[^\S\n]*")
_SINGLE = re.compile(r"'([^']*)'")
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_PLAIN = re.compile(r"[A-Za-z0-9_./:@+=,*-]*")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$", "'": "'"}


class DotenvEntry(Struct, frozen=True, kw_only=True):
    """One variable, on the lines `first` to `last`."""

    name: str
    value: str
    first: int
    last: int
    exported: bool = False


def parse_dotenv(file: TextFile, findings: SettingsFindings) -> list[DotenvEntry]:
    """The variables in their order; a line that cannot be understood is a problem and is passed over."""
    lines = file.text.split("\n")
    entries: list[DotenvEntry] = []
    number = 0
    while number < len(lines):
        number += 1
        line = lines[number - 1]
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if number in file.damaged and UNREADABLE in line:
            continue
        entry = _entry(lines, number, findings)
        if entry is not None:
            entries.append(entry)
            number = entry.last
    return entries


def _entry(lines: list[str], number: int, findings: SettingsFindings) -> DotenvEntry | None:
    line = lines[number - 1]
    start = _START.match(line)
    if start is None:
        # The line itself may be a secret that lost its name, so it is not shown.
        findings.problem(number, "This line is not `NAME=value`.", "Write it so, or put # before it.")
        return None
    name, rest = start[2], line[start.end() :]
    exported = start[1] is not None
    if rest[:1] not in ("'", '"'):
        value = "" if rest.startswith("#") else re.split(r"\s#", rest, maxsplit=1)[0].strip()
        return DotenvEntry(name=name, value=value, first=number, last=number, exported=exported)
    form = _SINGLE if rest[0] == "'" else _DOUBLE
    whole = rest
    quoted = form.match(rest)
    if quoted is None:
        whole = "\n".join([rest, *lines[number : number + MOST_LINES]])
        quoted = form.match(whole)
    if quoted is None:
        findings.problem(number, f"The quote after {one_line(name)}= is never closed.", "Close it.")
        return None
    last = number + quoted[0].count("\n")
    after = whole[quoted.end() :].split("\n", 1)[0].strip()
    if after and not after.startswith("#"):
        message = f"Something stands after the closing quote of {one_line(name)}."
        findings.problem(number, message, "Put the whole value in one pair of quotes.")
        return None
    value = quoted[1] if rest[0] == "'" else _ESCAPE.sub(_unescape, quoted[1])
    return DotenvEntry(name=name, value=value, first=number, last=last, exported=exported)


def _unescape(escape: re.Match[str]) -> str:
    return _ESCAPED.get(escape[1], escape[0])


def spell_value(value: str) -> str:
    """The value as it must be written to be read back the same."""
    if _PLAIN.fullmatch(value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") + '"'


def with_variable(text: str, name: str, value: str | None) -> str:
    """The file's text with this variable in its old place or at the end, or without it for None; every other
    line stays as it is."""
    entries = parse_dotenv(TextFile(text=text), SettingsFindings(""))
    mine = [entry for entry in entries if entry.name == name]
    lines = text.split("\n")
    export = "export " if mine and mine[-1].exported else ""
    new = [] if value is None else [f"{export}{name}={spell_value(value)}"]
    for entry in reversed(mine):
        lines[entry.first - 1 : entry.last] = new if entry is mine[-1] else []
    if value is None:
        return "\n".join(lines)
    if not lines[-1]:
        lines.pop()
    return "\n".join(lines if mine else [*lines, *new]) + "\n"
