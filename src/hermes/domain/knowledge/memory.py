"""What an agent remembers: entries, each about the work or about a person, and how many of them every prompt
tells. Pure: where they are kept is the store's business, how files print them `state/memory`'s."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from hermes.domain.ids import TurnId

OWNER = "owner"
"""The person whose agent it is, as entries name them; all others are named as in `owner_of`."""
EVERYBODY = ""
"""Whose an entry is that belongs to the agent itself."""
SEPARATOR = "\n§\n"
BY_HAND = "by hand"
"""The author of what was written into a file."""


class MemoryTarget(StrEnum):
    """What an entry is about: the agent's work and surroundings, or the person who talks to it."""

    MEMORY = "memory"
    USER = "user"


class MemoryEntry(Struct, frozen=True, kw_only=True):
    """One thing that is remembered. If it is `in_prompt`, the model is told it; else only a search finds it.
    `person` is whose it is: only a conversation in which they take part hears of it, unless it is `shared`.
    `author` is who had it noted, in `turn`; `used_at` when somebody last looked it up."""

    id: int = 0
    target: MemoryTarget
    person: str
    text: str
    author: str = ""
    turn: TurnId | None = None
    at: datetime
    used_at: datetime
    in_prompt: bool = True
    shared: bool = False


class MemoryShelf(Struct, frozen=True, kw_only=True):
    """Entries that share a limit: those of one target and person."""

    target: MemoryTarget
    person: str = EVERYBODY

    @property
    def printed(self) -> str:
        """The file that shows it; empty if none does."""
        if self == AGENT_SHELF:
            return "MEMORY.md"
        return "USER.md" if self == OWNER_SHELF else ""


AGENT_SHELF = MemoryShelf(target=MemoryTarget.MEMORY)
OWNER_SHELF = MemoryShelf(target=MemoryTarget.USER, person=OWNER)
PRINTED_SHELVES = (AGENT_SHELF, OWNER_SHELF)


def size_of(texts: Iterable[str]) -> int:
    """How many characters texts take where they are printed."""
    sizes = [len(text) for text in texts]
    return sum(sizes) + len(SEPARATOR) * max(len(sizes) - 1, 0)


def told_entries(entries: Iterable[MemoryEntry], limit: int) -> set[int]:
    """The numbers of the entries that the prompt has room for: what was used last comes first, and what does
    not fit by itself never does."""
    told: dict[int, str] = {}
    for entry in sorted(entries, key=lambda entry: (entry.used_at, entry.id), reverse=True):
        if size_of([*told.values(), entry.text]) <= limit:
            told[entry.id] = entry.text
    return set(told)


def print_entries(entries: Iterable[MemoryEntry]) -> str:
    return SEPARATOR.join(entry.text for entry in entries)


def parse_entries(text: str) -> list[str]:
    """The entries of a file, each once."""
    parts = (part.strip() for part in f"\n{text}\n".replace("\r\n", "\n").split(SEPARATOR))
    return list(dict.fromkeys(part for part in parts if part))
