"""References in what a person writes (`@file:notes.md:1-20`, `@folder:src`, `@git:3`, `@diff`, `@staged`,
`@url:https://…`): how they are read, and what came of them. They are looked up once, before their turn
begins, and stored with the message."""

from __future__ import annotations

import re
from enum import StrEnum

from msgspec import Struct

from hermes.domain.chats.address import CHAT_KINDS, Source
from hermes.domain.safety.late_pattern import late_pattern
from hermes.domain.turns.turn import Cause, TurnAction, TurnInput

MOST_REFERENCES = 20
MOST_COMMITS = 10
_MARK = late_pattern(
    r"""(?<![\w@/.:])@(?:
        (?P<kind>file|folder|git|url):(?:"(?P<quoted>[^"\n]{1,500})"|(?P<plain>[^\s"'`<>]{1,2000}))
        |(?P<alone>diff|staged)(?![:\w-])
    )""",
    re.VERBOSE,
)
_LINES = late_pattern(r"\A(?P<path>.+?):(?P<first>\d{1,7})(?:-(?P<last>\d{1,7}))?\Z")
_TRAILING = ".,;:!?)]}…"


class ReferenceKind(StrEnum):
    FILE = "file"
    FOLDER = "folder"
    GIT = "git"
    DIFF = "diff"
    STAGED = "staged"
    URL = "url"


class Reference(Struct, frozen=True, kw_only=True):
    """`value` is a path, an address or a number of commits; `first` and `last` are lines of a file."""

    kind: ReferenceKind
    value: str = ""
    first: int = 1
    last: int | None = None

    def __str__(self) -> str:
        lines = (
            "" if self.first == 1 and self.last is None else f":{self.first}-{self.last or ''}".rstrip("-")
        )
        return f"@{self.kind}:{self.value}{lines}" if self.value else f"@{self.kind}"


class Expansion(Struct, frozen=True, kw_only=True):
    """What references stand for, as the model is told it, and what the person is told of it."""

    context: str = ""
    notes: tuple[str, ...] = ()


def find_references(text: str) -> list[Reference]:
    """Those in a text, each once."""
    if "@" not in text:
        return []
    found = dict.fromkeys(map(_read, _MARK.finditer(text)))
    return [reference for reference in found if reference is not None]


def _read(mark: re.Match[str]) -> Reference | None:
    if mark["alone"]:
        return Reference(kind=ReferenceKind(mark["alone"]))
    kind, value = (
        ReferenceKind(mark["kind"]),
        mark["quoted"] or _trimmed(mark["plain"]),
    )
    lines = _LINES.match(value) if kind is ReferenceKind.FILE else None
    if lines is not None:
        first, last = max(int(lines["first"]), 1), int(lines["last"] or lines["first"])
        return Reference(kind=kind, value=lines["path"], first=first, last=max(first, last))
    if kind is ReferenceKind.GIT and not (value.isascii() and value.isdigit() and len(value) < 5):
        return None
    return Reference(kind=kind, value=value) if value else None


def _trimmed(value: str) -> str:
    """Without what ends a sentence behind it; dots alone are a path."""
    return value if not value.strip("./") else value.rstrip(_TRAILING)


def is_expandable(given: TurnInput, cause: Cause, source: Source | None) -> bool:
    """Whether references in the words of a turn still have to be looked up: words of a person in a chat or in
    the terminal. What API clients send is theirs to expand."""
    if given.expanded or "@" not in given.text or source is None or source.kind not in CHAT_KINDS:
        return False
    said = cause is Cause.MESSAGE and given.action is TurnAction.SAY
    return said and bool(find_references(given.text))
