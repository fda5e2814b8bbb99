"""What Tab and the menu offer: commands and their arguments, models, sessions, skills, files after `@`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from hermes.entry.terminal.door import ChatMenu, ChatOption

_WORDS = re.compile(r"[a-z][\w-]*")
_REFERENCE = re.compile(r"(?:^|(?<=\s))@(\S*)\Z")
_KINDS = ("file:", "folder:", "diff", "staged", "git:", "url:")
_SESSIONS = ("resume", "sessions")
_MOST_FILES, _MOST_LOOKED_AT = 50, 5_000
_SKIPPED = {".git", "node_modules", "__pycache__", ".venv", "venv", ".mypy_cache", "dist", "build"}


class ChatCompleter(Completer):
    def __init__(self, own: Sequence[ChatOption]) -> None:
        self.menu = ChatMenu()
        self._own = own

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        before = document.text_before_cursor
        reference = _REFERENCE.search(before)
        if reference is not None:
            yield from _references(reference[1])
        elif before.startswith("/") and "\n" not in before:
            name, blank, argument = before[1:].partition(" ")
            yield from self._arguments(name, argument) if blank else self._commands(name)
        elif complete_event.completion_requested:
            yield from _paths(before.rpartition(" ")[2])

    def _commands(self, typed: str) -> Iterator[Completion]:
        entries = sorted([*self.menu.commands, *self._own], key=lambda entry: entry.name)
        begins = [entry for entry in entries if entry.name.startswith(typed)]
        holds = [entry for entry in entries if typed in entry.name and entry not in begins]
        for entry in begins + (holds if len(typed) > 1 else []):
            meta = f"{entry.about}  {entry.usage}".rstrip()
            yield Completion(
                f"{entry.name} " if entry.usage else entry.name,
                start_position=-len(typed),
                display=f"/{entry.name}",
                display_meta=meta,
            )

    def _arguments(self, command: str, typed: str) -> Iterator[Completion]:
        menu = self.menu
        if command == "model":
            entries = [ChatOption(name=name) for name in menu.models]
        elif command in _SESSIONS:
            entries = list(menu.sessions)
        elif command in ("skill", "skills"):
            entries = list(menu.skills)
        else:
            every = [*menu.commands, *self._own]
            usage = next((entry.usage for entry in every if entry.name == command), "")
            # Only what is spelled out in it: `<text>` stands for something else.
            spelled = re.sub(r"<[^>]*>", "", usage)
            entries = [ChatOption(name=word) for word in _WORDS.findall(spelled)] if "|" in spelled else []
        yield from _fitting(entries, typed)


def _fitting(entries: Iterable[ChatOption], typed: str) -> Iterator[Completion]:
    wanted = typed.casefold()
    for entry in entries:
        if wanted in entry.name.casefold() or (wanted and wanted in entry.about.casefold()):
            yield Completion(entry.name, start_position=-len(typed), display_meta=entry.about)


def _references(typed: str) -> Iterator[Completion]:
    """`@file:` and the other kinds, or the name of a file right away."""
    kind, colon, path = typed.partition(":")
    if colon and kind in ("file", "folder"):
        yield from _paths(path, only_folders=kind == "folder")
        return
    for known in _KINDS:
        if known.startswith(typed):
            yield Completion(known, start_position=-len(typed))
    if typed and not colon:
        for path in _project_files(typed):
            yield Completion(f"file:{path}", start_position=-len(typed), display=path)


def _project_files(typed: str) -> Iterator[str]:
    """Files under this folder in whose path the letters come in this order, the closest first."""
    pattern = re.compile(".*?".join(map(re.escape, typed)), re.IGNORECASE)
    fitting: list[tuple[int, int, str]] = []
    looked_at = 0
    for folder, folders, files in os.walk("."):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED and not name.startswith("."))
        for name in files:
            looked_at += 1
            path = os.path.join(folder, name).removeprefix("./")
            match = pattern.search(path)
            if match is not None:
                fitting.append((len(match[0]), len(path), path))
        if looked_at > _MOST_LOOKED_AT:
            break
    for _, _, path in sorted(fitting)[:_MOST_FILES]:
        yield path


def _paths(typed: str, only_folders: bool = False) -> Iterator[Completion]:
    folder, _, begin = typed.rpartition("/")
    place = Path(os.path.expanduser(folder or ("/" if typed.startswith("/") else ".")))
    try:
        entries = sorted(os.scandir(place), key=lambda entry: entry.name)[:_MOST_LOOKED_AT]
    except OSError:
        return
    for entry in entries:
        hidden = entry.name.startswith(".") and not begin.startswith(".")
        if not entry.name.startswith(begin) or hidden or (only_folders and not entry.is_dir()):
            continue
        name = f"{entry.name}/" if entry.is_dir() else entry.name
        yield Completion(name, start_position=-len(begin), display=name)
