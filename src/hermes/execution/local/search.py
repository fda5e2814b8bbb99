"""Looking through a tree of files, for contents or for names, leaving out what nobody means.

Skipped: version control, installed packages, caches, binary files, files over 4 MB, and what the
`.gitignore` files on the way name. Runs in a thread; both matches and time are bounded."""

from __future__ import annotations

import fnmatch
import os
import re
import time
from collections.abc import Iterator

from hermes.domain.errors import UserError
from hermes.domain.pattern_size import why_too_large
from hermes.domain.ports.world import FileMatches, FileSearch, Match
from hermes.domain.text import one_line, plain_braces

SKIPPED = frozenset(
    {
        ".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".nox", ".mypy_cache",
        ".pytest_cache", ".ruff_cache", ".cache", ".idea", "site-packages",
    }
)  # fmt: skip
_LARGEST = 4 << 20
_LONGEST_LINE = 300
_PER_FILE = 100
_SECONDS = 15.0
_FILE_SECONDS = 5.0
"""What an expression may take in one file; one that needs more may never end."""
_MOST_RULES = 1000
"""Of one `.gitignore`."""


def search_tree(root: str, search: FileSearch) -> FileMatches:
    """Matches under a folder (or in one file), in the order of the paths."""
    look = _names(search) if search.names else _contents(search)
    deadline = time.monotonic() + _SECONDS
    found: list[Match] = []
    files = 0
    for path in _walk(root, search, deadline):
        files += 1
        if time.monotonic() > deadline:
            return FileMatches(matches=tuple(found), more=True, files=files)
        try:
            for match in look(path, root, deadline):
                if len(found) >= search.limit:
                    return FileMatches(matches=tuple(found), more=True, files=files)
                found.append(match)
        except TimeoutError:
            if time.monotonic() > deadline:
                return FileMatches(matches=tuple(found), more=True, files=files)
            shown = os.path.basename(path) if path == root else os.path.relpath(path, root)
            raise UserError(
                f"“{one_line(search.pattern, 100)}” takes too long in {shown} and was given up.",
                hint="Repeats within repeats, like (a|aa)+, may never end. Search for something simpler.",
            ) from None
    return FileMatches(matches=tuple(found), more=time.monotonic() > deadline, files=files)


class _names:  # noqa: N801
    """Looks at names: a glob without a slash is matched by the last part, one with it by the whole."""

    def __init__(self, search: FileSearch) -> None:
        self._glob = search.pattern
        self._whole = "/" in search.pattern

    def __call__(self, path: str, root: str, deadline: float) -> Iterator[Match]:
        shown = os.path.relpath(path, root) if self._whole else os.path.basename(path)
        if fnmatch.fnmatchcase(shown, self._glob):
            yield Match(path=path)


class _contents:  # noqa: N801
    """Looks into files, line by line where the expression matches at all. Expressions are those of `re`;
    `regex` looks for them, since it stops when told to and lets everybody else run meanwhile."""

    def __init__(self, search: FileSearch) -> None:
        import regex

        if why := why_too_large(search.pattern):
            raise UserError(
                f"“{one_line(search.pattern, 100)}” cannot be searched for: {why}.",
                hint="Search for something simpler.",
            )
        try:
            self._pattern = regex.compile(plain_braces(search.pattern).encode(), regex.MULTILINE)
        except (regex.error, RecursionError, OverflowError) as error:
            raise UserError(
                f"“{one_line(search.pattern, 100)}” is not a regular expression ({error}).",
                hint="Escape the characters that are meant literally.",
            ) from None
        self._glob = search.glob

    def __call__(self, path: str, root: str, deadline: float) -> Iterator[Match]:
        name = os.path.relpath(path, root) if "/" in self._glob else os.path.basename(path)
        if self._glob and not fnmatch.fnmatchcase(name, self._glob):
            return
        try:
            if os.path.getsize(path) > _LARGEST:
                return
            with open(path, "rb") as file:
                data = file.read()
        except OSError:
            return
        if b"\0" in data[:8192]:
            return
        seconds = min(_FILE_SECONDS, max(deadline - time.monotonic(), 0.001))
        yield from self._lines(path, data, seconds)

    def _lines(self, path: str, data: bytes, seconds: float) -> Iterator[Match]:
        line, seen, last, count = 1, 0, -1, 0
        for match in self._pattern.finditer(data, concurrent=True, timeout=seconds):
            line += data.count(b"\n", seen, match.start())
            seen = match.start()
            if line == last:
                continue
            last = line
            begin = data.rfind(b"\n", 0, seen) + 1
            end = data.find(b"\n", seen)
            text = data[begin : end if end >= 0 else len(data)].decode("utf-8", "replace")
            yield Match(path=path, line=line, text=text[:_LONGEST_LINE].rstrip("\r"))
            count += 1
            if count >= _PER_FILE:
                return


def _walk(root: str, search: FileSearch, deadline: float) -> Iterator[str]:
    """Ends early at the deadline: what is hidden takes time, too."""
    if os.path.isfile(root):
        yield root
        return
    yield from _enter(root, (), search, deadline)


def _enter(
    folder: str, ignored: tuple[_IgnoreFile, ...], search: FileSearch, deadline: float
) -> Iterator[str]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    if any(entry.name == ".gitignore" for entry in entries):
        ignored = (*ignored, _IgnoreFile(folder))
    for entry in entries:
        if time.monotonic() > deadline:
            return
        is_folder = entry.is_dir(follow_symlinks=False)
        if any(rule.hides(entry.path, is_folder, deadline) for rule in ignored):
            continue
        if not is_folder:
            if entry.is_file(follow_symlinks=False) or search.names:
                yield entry.path
        elif entry.name not in SKIPPED and entry.path not in search.closed:
            if search.names:
                yield entry.path
            yield from _enter(entry.path, ignored, search, deadline)


class _IgnoreFile:
    """The first plain lines of one `.gitignore`; what begins with `!` is shown in any case."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._rules: list[tuple[re.Pattern[str], bool, bool]] = []
        try:
            with open(os.path.join(folder, ".gitignore"), encoding="utf-8", errors="replace") as file:
                lines = file.read(65_536).splitlines()
        except OSError:
            return
        for line in lines:
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
