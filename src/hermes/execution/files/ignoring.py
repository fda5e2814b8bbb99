"""What a search among files leaves out: folders that nobody means, and what `.gitignore` files name."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence

from hermes.execution.files.globs import Part, compile_parts, fits
from hermes.execution.files.work import read_file

SKIPPED = frozenset(
    {
        ".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".nox", ".mypy_cache",
        ".pytest_cache", ".ruff_cache", ".cache", ".idea", "site-packages",
    }
)  # fmt: skip
IGNORE_FILE = ".gitignore"
_MOST_IGNORED = 65_536
_MOST_RULES = 1000
"""Of one `.gitignore`."""
_ESCAPED = re.compile(r"\\(.)")


def read_ignored(folder: str) -> IgnoreRules:
    try:
        data = read_file(os.path.join(folder, IGNORE_FILE), 0, _MOST_IGNORED, follow=True)
    except OSError:
        data = b""
    return IgnoreRules(folder, data.decode("utf-8", "replace"))


def rules_above(root: str) -> tuple[IgnoreRules, ...]:
    """What the repository that a folder lies in ignores by the `.gitignore` files of the folders above it."""
    above: list[str] = []
    folder = root
    while not os.path.lexists(os.path.join(folder, ".git")):
        if folder == os.path.dirname(folder):
            return ()
        folder = os.path.dirname(folder)
        above.append(folder)
    return tuple(map(read_ignored, reversed(above)))


def is_hidden(rules: Sequence[IgnoreRules], path: str, is_folder: bool, deadline: float) -> bool:
    """By the rules of its folder and those above, outermost first: the innermost that speak of it count."""
    for each in reversed(rules):
        verdict = each.judge(path, is_folder, deadline)
        if verdict is not None:
            return verdict
    return False


def _literal(escaped: re.Match[str]) -> str:
    """As a glob without backslashes says it."""
    return f"[{escaped[1]}]" if escaped[1] in "*?[" else escaped[1]


class IgnoreRules:
    """The first plain lines of one `.gitignore`, of which the last that speaks of a file counts."""

    def __init__(self, folder: str, text: str) -> None:
        self._start = len(folder.rstrip("/")) + 1
        self._rules: list[tuple[list[Part], bool, bool, bool]] = []
        for line in text[:_MOST_IGNORED].splitlines():
            rule = line.rstrip(" ")
            if (len(rule) - len(rule.rstrip("\\"))) % 2 and rule != line:
                rule += " "  # the one behind a backslash
            if not rule or rule.startswith("#"):
                continue
            body = rule.removeprefix("!")
            plain = _ESCAPED.sub(_literal, body.strip("/"))
            anchored = "/" in body.rstrip("/")
            self._rules.append((compile_parts(plain), anchored, body.endswith("/"), body == rule))
            if len(self._rules) >= _MOST_RULES:
                break
        self._rules.reverse()

    def judge(self, path: str, is_folder: bool, deadline: float) -> bool | None:
        """Whether it is hidden; None if nothing is said of it."""
        names = path[self._start :].split("/")
        for parts, anchored, only_folders, hides in self._rules:
            if time.monotonic() > deadline:
                return True
            if (is_folder or not only_folders) and fits(parts, names if anchored else names[-1:]):
                return hides
        return None
