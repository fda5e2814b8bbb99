"""Files in which a project tells agents how to work in it: found, read as the session's commands would read
them, and made fit for a prompt. One kind counts, the first that is there."""

from __future__ import annotations

import asyncio
import logging
import posixpath
import re
from collections.abc import Sequence

from msgspec import Struct

from hermes.domain.errors import UserError
from hermes.domain.ports.world import Files
from hermes.domain.safety.injection import Scan, all_findings
from hermes.domain.text import one_line

log = logging.getLogger("hermes.prompt")
LEAST_CHARS, MOST_CHARS = 20_000, 500_000
_SHARE = 0.06 * 4
"""Of the model's window, at four characters a token."""
_HEAD, _TAIL = 0.7, 0.2
_BYTES = 4 * MOST_CHARS
UPWARD = (".hermes.md", "HERMES.md", "hermes.md")
_KINDS: tuple[tuple[str, ...], ...] = (
    ("AGENTS.md", "agents.md"),
    ("CLAUDE.md", "claude.md"),
    (".cursorrules",),
)
PROJECT_NAMES = tuple(name for kind in _KINDS for name in kind)
RULES = ".cursor/rules"
_MOST_RULES, _MOST_ABOVE = 50, 32
_FRONT_MATTER = re.compile(r"\A\ufeff?---[ \t]*\r?\n.*?^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
BLOCKED = "[BLOCKED: {name} is left out, for it {why}.]"


class ProjectFile(Struct, frozen=True, kw_only=True):
    """A file by its path in the workspace, and its text as the model is told it."""

    name: str
    text: str
    blocked: bool = False


def most_chars(wanted: int | None, window: int | None) -> int:
    """How much of one file is taken in."""
    return wanted or min(max(LEAST_CHARS, int((window or 0) * _SHARE)), MOST_CHARS)


async def find_project_files(files: Files, workspace: str, most: int) -> list[ProjectFile]:
    """Those of the workspace; each is scanned and cut. What cannot be read is not there."""
    for folder in await _up_to_root(files, workspace):
        found = await _first(files, folder, UPWARD, most)
        if found is not None:
            return [found]
    for names in _KINDS:
        found = await _first(files, workspace, names, most)
        rules = await _cursor_rules(files, workspace, most) if names == _KINDS[-1] else []
        if found is not None or rules:
            return [*([found] if found is not None else []), *rules]
    return []


async def read_folder_notes(files: Files, session: str, folder: str, most: int) -> ProjectFile | None:
    """What a folder inside a project says of itself."""
    for names in _KINDS:
        found = await _first(files, folder, names, most, session)
        if found is not None:
            return found
    return None


async def _first(
    files: Files, folder: str, names: Sequence[str], most: int, session: str = ""
) -> ProjectFile | None:
    for name in names:
        found = await _read(files, session, folder, name, most)
        if found is not None:
            return found
    return None


async def _up_to_root(files: Files, workspace: str) -> list[str]:
    """The workspace and the folders above it up to the root of its repository; it alone if it is in none."""
    above, folder = [workspace], workspace
    while not await _is_there(files, posixpath.join(folder, ".git")):
        folder = posixpath.dirname(folder)
        if folder == above[-1] or len(above) > _MOST_ABOVE:
            return [workspace]
        above.append(folder)
    return above


async def _is_there(files: Files, path: str) -> bool:
    try:
        return await files.stat("", path) is not None
    except UserError:
        return False


async def _cursor_rules(files: Files, workspace: str, most: int) -> list[ProjectFile]:
    if not await _is_there(files, posixpath.join(workspace, RULES)):
        return []
    try:
        views = await files.list("", posixpath.join(workspace, RULES))
    except UserError:
        return []
    names = sorted(view.path for view in views if not view.folder and view.path.endswith(".mdc"))
    paths = [posixpath.join(RULES, posixpath.basename(name)) for name in names[:_MOST_RULES]]
    read = await asyncio.gather(*(_read(files, "", workspace, path, most) for path in paths))
    return [found for found in read if found is not None]


async def _read(files: Files, session: str, folder: str, name: str, most: int) -> ProjectFile | None:
    path = posixpath.join(folder, name)
    try:
        view = await files.stat(session, path)
        if view is None or view.folder:
            return None
        # What a link leads to is not the project's own.
        data = await files.read(session, path, limit=_BYTES, follow=False)
    except UserError as error:
        log.info("prompt.no_file file=%s why=%s", one_line(path, 200), error)
        return None
    return clean(name, data.decode("utf-8", "replace"), most)


def clean(name: str, text: str, most: int) -> ProjectFile | None:
    """A file's text as it may stand in a prompt; nothing if it says nothing."""
    text = _FRONT_MATTER.sub("", text, count=1).strip()
    if not text:
        return None
    shown = one_line(name, 80)
    hits = all_findings(text, Scan.CONTEXT)
    if hits:
        log.warning("prompt.blocked file=%s why=%s", shown, "; it ".join(hits))
        return ProjectFile(name=shown, text=BLOCKED.format(name=shown, why=", ".join(hits)), blocked=True)
    return ProjectFile(name=shown, text=cut(text, most, shown))


def cut(text: str, most: int, name: str) -> str:
    """The beginning and the end, and between them what is missing of which file."""
    if len(text) <= most:
        return text
    head, tail = int(most * _HEAD), int(most * _TAIL)
    note = f"[… {len(text) - head - tail} characters of {name} are left out; read the file for them …]"
    return f"{text[:head].rstrip()}\n{note}\n{text[-tail:].lstrip()}"
