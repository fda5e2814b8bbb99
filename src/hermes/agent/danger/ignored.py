"""`.agentignore`: files of a workspace that an agent neither reads nor changes without asking, written as in
`.gitignore`."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import lru_cache

from msgspec import Struct

from hermes.agent.danger.shell.expand import has_glob, to_plain

FILE = ".agentignore"
LARGEST = 64 << 10
EVERYTHING = ("*",)
"""What stands for a file that is there but cannot be used."""
_MOST_STARS = 8
_STARS = re.compile(r"[*?]|\[[^]]*\]")
_TOKEN = re.compile(r"\\(.)|(\*\*/)|(/\*\*\Z)|(\*+)|(\?)|\[([!^]?)(\]?[^]]{0,200})\]|(.)", re.DOTALL)


class _IgnoreLine(Struct, frozen=True):
    pattern: re.Pattern[str]
    name: str
    keeps: bool


def read_lines(data: bytes) -> tuple[str, ...]:
    """The lines of the file that say something."""
    if len(data) > LARGEST:
        return EVERYTHING
    lines = (line.rstrip("\r") for line in data.decode("utf-8", "replace").split("\n"))
    return tuple(line for line in lines if line.strip() and not line.startswith("#"))


def is_ignored(path: str, workspace: str, lines: tuple[str, ...]) -> bool:
    """Whether an absolute path, or with globs something it may stand for, is kept from agents."""
    root = workspace.rstrip("/") + "/"
    if not path.startswith(root):
        return False
    below = path[len(root) :]
    plain = to_plain(below)
    ignored = False
    for line in _read(lines):
        if line.pattern.fullmatch(plain):
            ignored = not line.keeps
        elif has_glob(below) and not line.keeps and _may_meet(line.name, plain.rpartition("/")[2]):
            ignored = True
    return ignored


def _may_meet(name: str, glob: str) -> bool:
    """Whether a name may be one that a glob stands for. One with stars of its own may, unless what is fixed
    before or behind the stars of both differs."""
    if not _STARS.search(name):
        return fnmatchcase(name, glob)
    (head, *_, tail), (first, *_, last) = _STARS.split(name), _STARS.split(glob)
    heads, tails = (head, first), (tail[::-1], last[::-1])
    return all(min(pair, key=len) == max(pair, key=len)[: min(map(len, pair))] for pair in (heads, tails))


@lru_cache(maxsize=32)
def _read(lines: tuple[str, ...]) -> tuple[_IgnoreLine, ...]:
    return tuple(_line(line) for line in lines)


def _line(text: str) -> _IgnoreLine:
    keeps = text.startswith("!")
    body = (text[1:] if keeps else text).rstrip(" ")
    name = body.strip("/")
    anchored = "/" in body.rstrip("/")
    if name.count("*") > _MOST_STARS:
        return _IgnoreLine(re.compile(".*" if not keeps else "(?!)", re.DOTALL), name, keeps)
    pattern = "".join(map(_expression, _TOKEN.finditer(body.strip("/"))))
    below = "(/.*)?"
    return _IgnoreLine(re.compile(f"{'' if anchored else '(.*/)?'}{pattern}{below}", re.DOTALL), name, keeps)


def _expression(token: re.Match[str]) -> str:
    escaped, folders, under, stars, one, negated, group, char = token.groups()
    if folders:
        return "(?:.*/)?"
    if under:
        return "/.*"
    if stars:
        return "[^/]*"
    if one:
        return "[^/]"
    if group:
        return ("[^" if negated else "[") + re.sub(r"([\[\]&~|\\])", r"\\\1", group) + "]"
    return re.escape(escaped or char)
