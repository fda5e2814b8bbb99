"""Globs as people and models write them: `*.{ts,tsx}`, `src/**/*.py`, `./docs/*.md`, `!*.log`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import translate

_MOST_CHOICES = 100


class PathGlob:
    """A glob without a slash is matched by the name of a file; one with a slash by its path below the `root`
    of the search, folder by folder."""

    def __init__(self, glob: str, root: str) -> None:
        self._wanted = not glob.startswith("!")
        plain = glob.removeprefix("!").removeprefix(f"{root.rstrip('/')}/").removeprefix("./")
        self._choices = [compile_parts(choice.strip("/")) for choice in _choices(plain)]
        self._anchored = plain.startswith("/") or "/" in plain.rstrip("/")
        self._start = len(root.rstrip("/")) + 1

    def matches(self, path: str) -> bool:
        names = path[self._start :].split("/") if self._anchored else [path.rpartition("/")[2]]
        return self._wanted == any(fits(choice, names) for choice in self._choices)


def _choices(glob: str) -> list[str]:
    """Without braces: one glob for each of the words in them."""
    done: list[str] = []
    left = [glob]
    while left:
        each = left.pop(0)
        before, brace, rest = each.rpartition("{")
        inside, close, after = rest.partition("}")
        if not brace or not close or len(done) + len(left) >= _MOST_CHOICES:
            done.append(each)
        else:
            left += [f"{before}{word}{after}" for word in inside.split(",")]
    return done


Part = re.Pattern[str] | None
"""What a folder or file is called; None for `**`, any number of folders."""


def compile_parts(glob: str) -> list[Part]:
    return [None if part == "**" else re.compile(translate(part)) for part in glob.split("/")]


def fits(parts: Sequence[Part], names: Sequence[str]) -> bool:
    places = {0}
    for number, part in enumerate(parts, 1):
        if part is None:
            last = number == len(parts)  # then it is something below
            places = set(range(min(places, default=len(names)) + last, len(names) + 1))
        else:
            places = {at + 1 for at in places if at < len(names) and part.match(names[at])}
    return len(names) in places
