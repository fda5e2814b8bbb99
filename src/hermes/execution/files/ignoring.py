"""What a search among files leaves out: folders that nobody means, and what `.gitignore` files name."""

from __future__ import annotations

import fnmatch
import os
import re
import time

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


def read_ignored(folder: str) -> IgnoreRules:
    try:
        with open(os.path.join(folder, IGNORE_FILE), encoding="utf-8", errors="replace") as file:
            return IgnoreRules(folder, file.read(_MOST_IGNORED))
    except OSError:
        return IgnoreRules(folder, "")


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


class IgnoreRules:
    """The first plain lines of one `.gitignore`; what begins with `!` is shown in any case."""

    def __init__(self, folder: str, text: str) -> None:
        self._folder = folder
        self._rules: list[tuple[re.Pattern[str], bool, bool]] = []
        for line in text[:_MOST_IGNORED].splitlines():
            rule = line.strip()
            if not rule or rule.startswith("#"):
                continue
            shown = rule.startswith("!")
            body = rule.lstrip("!")
            only_folders = body.endswith("/")
            body = body.rstrip("/")
            anchored = "/" in body
            pattern = fnmatch.translate(body.lstrip("/").replace("**/", "*"))
            whole = pattern if anchored else f"(?:.*/)?{pattern}"
            self._rules.append((re.compile(whole), only_folders, shown))
            if len(self._rules) >= _MOST_RULES:
                return

    def hides(self, path: str, is_folder: bool, deadline: float) -> bool:
        name = path[len(self._folder) + 1 :]
        hidden = False
        for pattern, only_folders, shown in self._rules:
            if time.monotonic() > deadline:
                return True
            if (is_folder or not only_folders) and pattern.match(name):
                hidden = not shown
        return hidden
