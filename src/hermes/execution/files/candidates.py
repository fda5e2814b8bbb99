"""Which files a search has to open: ripgrep, where it is installed, names those that may match, much faster
than they can be read here. What it says is only a choice: each is left out or looked at as without it."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from functools import cache

from hermes.domain.ports.world import FileSearch
from hermes.domain.text import crosses_lines, plain_braces
from hermes.execution.files.ignoring import IGNORE_FILE, SKIPPED, IgnoreRules, is_hidden, read_ignored

# In every file, whatever it is or is called.
_OPTIONS = (
    "--no-config", "--no-messages", "--text", "--no-ignore", "--hidden", "--files-with-matches", "--null",
    "--max-filesize=4M",
)  # fmt: skip


def find_candidates(
    root: str, ignored: tuple[IgnoreRules, ...], search: FileSearch, deadline: float
) -> Iterator[str] | None:
    """Paths in the order of a walk; None where ripgrep is not there, or does not know the expression."""
    program = _ripgrep()
    if program is None:
        return None
    skipped = [f"--glob=!**/{name}/**" for name in SKIPPED]
    across = ["--multiline"] if crosses_lines(search.pattern) else []
    command = [program, *_OPTIONS, *across, *skipped, "-e", plain_braces(search.pattern), "--", root]
    try:
        found = subprocess.run(
            command,
            capture_output=True,
            timeout=max(deadline - time.monotonic(), 0.1),
            stdin=subprocess.DEVNULL,
            check=False,
            env={},
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    if found.returncode not in (0, 1):
        return None
    paths = [os.fsdecode(path) for path in found.stdout.split(b"\0") if path]
    paths.sort(key=lambda path: path.split(os.sep))
    return _left(root, ignored, paths, search, deadline)


@cache
def _ripgrep() -> str | None:
    return shutil.which("rg")


def _left(
    root: str, ignored: tuple[IgnoreRules, ...], paths: list[str], search: FileSearch, deadline: float
) -> Iterator[str]:
    """Those that a walk would come to."""
    rules: dict[str, tuple[IgnoreRules, ...] | None] = {}

    def inside(folder: str) -> tuple[IgnoreRules, ...] | None:
        """The rules that count in a folder; None if it is left out."""
        if folder not in rules:
            above = ignored if folder == root else inside(os.path.dirname(folder))
            own = folder != root and (os.path.basename(folder) in SKIPPED or folder in search.closed)
            if above is None or own or (folder != root and is_hidden(above, folder, True, deadline)):
                rules[folder] = None
            else:
                has_file = not search.unhidden and os.path.lexists(os.path.join(folder, IGNORE_FILE))
                rules[folder] = (*above, read_ignored(folder)) if has_file else above
        return rules[folder]

    for path in paths:
        around = inside(os.path.dirname(path))
        if around is not None and not is_hidden(around, path, False, deadline):
            yield path
