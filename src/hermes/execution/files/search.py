"""Looking through a tree of files, for contents or for names, leaving out what nobody means.

Skipped: version control, installed packages, caches, binary files, files over 4 MB, and what the
`.gitignore` files on the way name. Runs in a thread; both matches and time are bounded. Contents are searched
as ripgrep searches them: as characters, and line by line unless the expression itself crosses lines."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from hermes.domain.errors import UserError
from hermes.domain.ports.world import FileMatches, FileSearch, Match
from hermes.domain.safety.late_pattern import late_pattern
from hermes.domain.safety.pattern_size import why_too_large
from hermes.domain.text import crosses_lines, one_line, plain_braces
from hermes.execution.files.candidates import find_candidates
from hermes.execution.files.globs import PathGlob
from hermes.execution.files.ignoring import (
    IGNORE_FILE,
    SKIPPED,
    IgnoreRules,
    is_hidden,
    read_ignored,
    rules_above,
)
from hermes.execution.files.work import read_file

if TYPE_CHECKING:
    import regex

LARGEST = 4 << 20
_LONGEST_LINE = 300
_SECONDS = 15.0
_FILE_SECONDS = 5.0
"""What an expression may take in one file; one that needs more may never end."""
_WINDOW = 32 << 10
_CHUNK = 4 << 10
"""Characters of whole lines that are looked through together."""
_LOOKS_AROUND = late_pattern(r"\(\?(?:<?[=!]|>)|[*+?}]\+|\\[AZGK]")
"""What may match a line alone, but not the same line among others."""


def search_tree(
    root: str, search: FileSearch, is_given_up: Callable[[], bool] = lambda: False
) -> FileMatches:
    """Matches under a folder (or in one file), in the order of the paths. Asked before each file, who
    searches may have given up meanwhile."""
    gathering = Gathering(root, search)
    deadline = gathering.deadline
    above = () if search.unhidden else rules_above(root)
    candidates = None
    if not search.names and not os.path.isfile(root):
        candidates = find_candidates(root, above, search, deadline)
    walked = _walk(root, above, search, deadline) if candidates is None else candidates
    for path in [root] if os.path.isfile(root) else walked:
        if not gathering.goes_on or is_given_up():
            break
        if gathering.wants(path):
            gathering.add(path, None if search.names else _read(path))
    return gathering.result()


class Gathering:
    """What is found in one search, file by file, wherever their contents come from."""

    def __init__(self, root: str, search: FileSearch) -> None:
        self._root = root
        self._search = search
        self._pattern = None if search.names else _compile(search.pattern)
        globs = (search.pattern, search.glob) if search.names else (search.glob,)
        self._globs = [PathGlob(glob, root) for glob in globs if glob]
        self._matches: list[Match] = []
        self._files = 0
        self._full = False
        self.deadline = time.monotonic() + _SECONDS

    @property
    def goes_on(self) -> bool:
        return not self._full and time.monotonic() <= self.deadline

    def wants(self, path: str) -> bool:
        self._files += 1
        return all(glob.matches(path) for glob in self._globs)

    def add(self, path: str, data: bytes | None) -> None:
        """A file and what is in it; nothing if only its name counts."""
        try:
            for match in self._look(path, data):
                if len(self._matches) >= self._search.limit:
                    self._full = True
                    return
                self._matches.append(match)
        except TimeoutError:
            if time.monotonic() > self.deadline:
                return
            shown = os.path.basename(path) if path == self._root else os.path.relpath(path, self._root)
            raise UserError(
                f"“{one_line(self._search.pattern, 100)}” takes too long in {shown} and was given up.",
                hint="Repeats within repeats, like (a|aa)+, may never end. Search for something simpler.",
            ) from None

    def _look(self, path: str, data: bytes | None) -> Iterator[Match]:
        if self._pattern is None:
            yield Match(path=path)
        elif data is not None:
            found = _matching_lines(path, data, self._pattern, self.deadline, self._search.context)
            if self._search.counted:
                yield from [Match(path=path, count=lines)] if (lines := sum(1 for _ in found)) else ()
            elif self._search.files:
                yield from (Match(path=path) for _ in islice(found, 1))
            else:
                yield from found

    def result(self) -> FileMatches:
        more = self._full or time.monotonic() > self.deadline
        return FileMatches(matches=tuple(self._matches), more=more, files=self._files)


def _compile(expression: str) -> regex.Pattern[str]:
    """Expressions are those of `re`; `regex` looks for them, since it stops when told to and lets everybody
    else run meanwhile."""
    import regex

    if why := why_too_large(expression):
        raise UserError(
            f"“{one_line(expression, 100)}” cannot be searched for: {why}.",
            hint="Search for something simpler.",
        )
    try:
        return regex.compile(plain_braces(expression), regex.MULTILINE)
    except (regex.error, RecursionError, OverflowError) as error:
        raise UserError(
            f"“{one_line(expression, 100)}” is not a regular expression ({error}).",
            hint="Escape the characters that are meant literally.",
        ) from None


def _read(path: str) -> bytes | None:
    """Of the file that was walked to, never of one that a link leads to by now."""
    try:
        if os.path.getsize(path) > LARGEST:
            return None
        return read_file(path, 0, LARGEST, follow=False)
    except OSError:
        return None


def _matching_lines(
    path: str, data: bytes, pattern: regex.Pattern[str], deadline: float, context: int
) -> Iterator[Match]:
    if b"\0" in data[:8192]:
        return
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    until = min(time.monotonic() + _FILE_SECONDS, deadline)
    begins = _begins_across if crosses_lines(pattern.pattern) else _begins
    line, seen = 1, 0
    for begin in begins(text, pattern, until):
        line += text.count("\n", seen, begin)
        seen = begin
        shown, end = _line_at(text, begin)
        before, after = _lines_before(text, begin, context), _lines_after(text, end, context)
        yield Match(path=path, line=line, text=shown, before=before, after=after)


def _end_of_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return end if end >= 0 else len(text)


def _line_at(text: str, begin: int) -> tuple[str, int]:
    """A line as it is shown, and where the next one begins."""
    end = _end_of_line(text, begin)
    return text[begin : min(end, begin + _LONGEST_LINE)].rstrip("\r"), end + 1


def _lines_before(text: str, begin: int, count: int) -> tuple[str, ...]:
    lines: list[str] = []
    while begin > 0 and len(lines) < count:
        begin = text.rfind("\n", 0, begin - 1) + 1
        lines.append(_line_at(text, begin)[0])
    return tuple(reversed(lines))


def _lines_after(text: str, begin: int, count: int) -> tuple[str, ...]:
    lines: list[str] = []
    while begin < len(text) and len(lines) < count:
        line, begin = _line_at(text, begin)
        lines.append(line)
    return tuple(lines)


def _begins(text: str, pattern: regex.Pattern[str], until: float) -> Iterator[int]:
    """Where lines begin that match, each for itself. Many together are looked through much faster; where
    something is found that goes over several, these are looked at one by one."""
    alone = _LOOKS_AROUND.search(pattern.pattern) is not None
    at = 0
    while at < len(text):
        end = _end_of_line(text, at)
        if not alone:
            end = max(end, text.rfind("\n", at, at + _CHUNK))
        match = next(_found(text[at:end], pattern, until), None)
        if match is None:
            at = end + 1
            continue
        begin = text.rfind("\n", at, at + match.start()) + 1 or at
        last = at + match.end()
        while begin <= last and begin < len(text):
            end = _end_of_line(text, begin)
            if "\n" not in match[0] or any(_found(text[begin:end], pattern, until)):
                yield begin
            begin = end + 1
        at = begin


def _begins_across(text: str, pattern: regex.Pattern[str], until: float) -> Iterator[int]:
    """Where the lines begin in which matches do."""
    last = -1
    for match in _found(text, pattern, until):
        begin = text.rfind("\n", 0, match.start()) + 1
        if last < begin < len(text):
            last = begin
            yield begin


def _found(text: str, pattern: regex.Pattern[str], until: float) -> Iterator[regex.Match[str]]:
    """Window by window: `regex` looks at its clock after so many steps, and each step may go as far as the
    text does, so it would hold its thread for hours. Longer matches than half a window may be missed."""
    begin = 0
    while True:
        end = begin + _WINDOW
        if end >= len(text):
            following = end = len(text)
        else:
            following = text.rfind("\n", begin, begin + _WINDOW // 2) + 1 or begin + _WINDOW // 2
            end = text.rfind("\n", following, end) + 1 or end
        if (seconds := until - time.monotonic()) <= 0:
            raise TimeoutError
        for match in pattern.finditer(text, begin, end, concurrent=True, timeout=seconds):
            if match.start() >= following and end < len(text):
                break
            yield match
            following = max(following, match.end())
        if following >= len(text):
            return
        begin = following


def _walk(
    folder: str, ignored: tuple[IgnoreRules, ...], search: FileSearch, deadline: float
) -> Iterator[str]:
    """Ends early at the deadline: what is hidden takes time, too."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    if not search.unhidden and any(entry.name == IGNORE_FILE for entry in entries):
        ignored = (*ignored, read_ignored(folder))
    for entry in entries:
        if time.monotonic() > deadline:
            return
        is_folder = entry.is_dir(follow_symlinks=False)
        if is_hidden(ignored, entry.path, is_folder, deadline):
            continue
        if not is_folder:
            if entry.is_file(follow_symlinks=False) or search.names:
                yield entry.path
        elif entry.name not in SKIPPED and entry.path not in search.closed:
            if search.names:
                yield entry.path
            yield from _walk(entry.path, ignored, search, deadline)
