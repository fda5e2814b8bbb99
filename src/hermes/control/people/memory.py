"""Whose an entry of memory is, and what changes entries: units of work, deciding on what they read.

An agent's own notes are told in every session. What is noted of a person is told only where they take part,
and so is all that was noted in a chat that people share, or for who is neither owner nor admin: nobody puts
words into the sessions of others."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from hermes.control.people.standing import OWNERS_KEYS, admin_list, is_owner, is_trusted
from hermes.domain.chats.address import Source, SourceKind
from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId, SessionId, TurnId
from hermes.domain.knowledge.memory import (
    AGENT_SHELF,
    BY_HAND,
    EVERYBODY,
    OWNER,
    MemoryEntry,
    MemoryShelf,
    MemoryTarget,
    parse_entries,
    print_entries,
    size_of,
    told_entries,
)
from hermes.domain.ports.store import Tx
from hermes.domain.settings.settings import Settings
from hermes.domain.text import one_line
from hermes.domain.turns.session import SHARED_KINDS, owner_of
from hermes.domain.word import replace

MOST_ENTRIES = 5000
"""Of one person, archive included: somebody who talks for ever must not fill the disk."""
LONGEST_ENTRY = 4000
_NEARLY_FULL, _ROOMY = 0.8, 0.6
_SHOWN = 80
FULL = (
    "💾 {what} is {percent} % full ({used:,} of {limit:,} characters). When it is full, the entries that "
    "were used longest ago are told no more; a search still finds them. `hermes memory list` shows them."
)
STILL_HELD = (
    "Conversations, logs and backups may still hold what was said: `/new` and deleting old sessions "
    "(`hermes sessions delete`) remove it from conversations, backups go with their age."
)


def person_of(source: Source | None, settings: Settings) -> str | None:
    """A person as entries name them; None where nobody is known. At the machine, in a job made there,
    and where the operator let in a single person by id, it is the owner."""
    if source is None or source.kind is SourceKind.WEBHOOK:
        return None
    if is_owner(source) or source.kind is SourceKind.JOB:
        return OWNER
    if source.kind is SourceKind.API:
        # Who names nobody speaks as the key itself.
        own = source.address.account in OWNERS_KEYS and (source.user or "owner") in OWNERS_KEYS
        return OWNER if own else owner_of(source)
    if is_trusted(source, settings) and admin_list(source, settings).alone:
        return OWNER
    return owner_of(source)


def shelf_of(target: MemoryTarget, source: Source | None, settings: Settings) -> MemoryShelf:
    """Where something goes that is noted in a conversation with somebody; a `UserError` if it may not."""
    person, kept = person_of(source, settings), settings.memory
    if not (kept.memory_enabled if target is MemoryTarget.MEMORY else kept.user_profile_enabled):
        raise UserError(f"Notes of this kind ({target}) are turned off here.")
    if source is None or person is None:
        raise UserError("Nobody is known here of whom something could be noted.")
    whole = is_trusted(source, settings) and (source.kind is not SourceKind.API or person == OWNER)
    if target is MemoryTarget.MEMORY and source.kind not in SHARED_KINDS and whole:
        return AGENT_SHELF
    return MemoryShelf(target=target, person=person)


def limit_of(shelf: MemoryShelf, settings: Settings) -> int:
    memory = settings.memory
    return memory.memory_char_limit if shelf.target is MemoryTarget.MEMORY else memory.user_char_limit


class MemoryAction(StrEnum):
    ADD = "add"
    REPLACE = "replace"
    REMOVE = "remove"


class MemoryOutcome(Struct, frozen=True, kw_only=True):
    """What came of a change, in words for who asked; `note` is for the person alone."""

    text: str
    note: str = ""
    changed: bool = True


class EditMemory(Struct, frozen=True, kw_only=True):
    """Add, replace or remove one entry of a shelf. `old` is a part of the entry that is meant, found in no
    other."""

    agent: AgentId
    action: MemoryAction
    shelf: MemoryShelf
    limit: int
    now: datetime
    text: str = ""
    old: str = ""
    author: str = ""
    turn: TurnId | None = None
    session: SessionId | None = None
    key: str = ""
    """By which a change that a session makes again after a crash is known."""

    def unit(self, tx: Tx) -> MemoryOutcome:
        if self.session is not None and tx.notes.repeats(self.session, self.key):
            return MemoryOutcome(text="That was done.", changed=False)
        entries = tx.memory.list(self.shelf)
        match self.action:
            case MemoryAction.ADD:
                if any(entry.text == self.text for entry in entries):
                    return MemoryOutcome(text="That is noted already.", changed=False)
                if len(entries) >= MOST_ENTRIES:
                    raise UserError(f"There are {len(entries)} entries. Remove some first.")
                tx.memory.add(self._entry())
            case MemoryAction.REPLACE:
                before = self._meant(entries)
                after = replace(before, text=self.text, used_at=self.now)
                tx.memory.change(before, after)
            case MemoryAction.REMOVE:
                tx.memory.remove(self._meant(entries))
        left = fit_shelf(tx, self.shelf, self.limit)
        return MemoryOutcome(text=self._words(left), note=self._warning(tx, left))

    def _entry(self) -> MemoryEntry:
        return MemoryEntry(
            target=self.shelf.target,
            person=self.shelf.person,
            text=self.text,
            author=self.author,
            turn=self.turn,
            at=self.now,
            used_at=self.now,
        )

    def _meant(self, entries: Sequence[MemoryEntry]) -> MemoryEntry:
        fitting = [entry for entry in entries if self.old and self.old in entry.text]
        if len(fitting) == 1 or len({entry.text for entry in fitting}) == 1:
            return fitting[0]
        shown = "\n".join(f"- {one_line(entry.text, _SHOWN)}" for entry in (fitting or entries)[:10])
        if not fitting:
            raise UserError(f"No entry holds “{one_line(self.old, 60)}”. There are:\n{shown or '(none)'}")
        raise UserError(
            f"{len(fitting)} entries hold “{one_line(self.old, 60)}”. Name a longer part of one:\n{shown}"
        )

    def _words(self, left: Sequence[MemoryEntry]) -> str:
        used = size_of(entry.text for entry in left if entry.in_prompt)
        done = {"add": "Noted", "replace": "Replaced", "remove": "Removed"}[self.action]
        archive = sum(not entry.in_prompt for entry in left)
        more = f"; {archive} older entries are found by search only" if archive else ""
        return f"{done}. {used:,} of {self.limit:,} characters are in use{more}. New sessions are told of it."

    def _warning(self, tx: Tx, left: Sequence[MemoryEntry]) -> str:
        """Told once, until there is room again."""
        used = size_of(entry.text for entry in left if entry.in_prompt)
        mark = f"memory.full:{self.agent}:{self.shelf.target}:{self.shelf.person}"
        warned = bool(tx.facts.get(mark))
        if warned and used < _ROOMY * self.limit:
            tx.facts.put(mark, "")
        if warned or used < _NEARLY_FULL * self.limit:
            return ""
        tx.facts.put(mark, "1")
        whose = "The agent's memory" if self.shelf.person == EVERYBODY else "What is noted about you"
        return FULL.format(
            what=whose, percent=min(100, 100 * used // self.limit), used=used, limit=self.limit
        )


def fit_shelf(tx: Tx, shelf: MemoryShelf, limit: int) -> list[MemoryEntry]:
    """Decide anew which entries are told; all of the shelf as they are then."""
    entries = tx.memory.list(shelf)
    told = told_entries(entries, limit)
    fitted = [replace(entry, in_prompt=entry.id in told) for entry in entries]
    for before, after in zip(entries, fitted, strict=True):
        if before.in_prompt != after.in_prompt:
            tx.memory.change(before, after)
    return fitted


# --- people ------------------------------------------------------------------------------------------


def entries_about(tx: Tx, person: str) -> list[MemoryEntry]:
    """All that is noted of a person, and in chats with them."""
    shelves = (MemoryShelf(target=target, person=person) for target in MemoryTarget)
    return sorted((entry for shelf in shelves for entry in tx.memory.list(shelf)), key=lambda entry: entry.id)


def forget_person(tx: Tx, person: str) -> int:
    """Remove all of it, the archive included; how many there were."""
    entries = entries_about(tx, person)
    for entry in entries:
        tx.memory.remove(entry)
    return len(entries)


def change_entry(
    tx: Tx, number: int, text: str | None, shared: bool | None, settings: Settings, now: datetime
) -> MemoryEntry:
    """Change one entry by hand."""
    before = next((entry for entry in tx.memory.list() if entry.id == number), None)
    if before is None:
        raise UserError(f"There is no entry {number}.", hint="`hermes memory list` shows them.")
    words = before.text if text is None else text.strip()
    if not words or len(words) > LONGEST_ENTRY:
        raise UserError(f"An entry has 1 to {LONGEST_ENTRY:,} characters.")
    after = replace(before, text=words, used_at=now, shared=before.shared if shared is None else shared)
    tx.memory.change(before, after)
    shelf = MemoryShelf(target=after.target, person=after.person)
    return next(entry for entry in fit_shelf(tx, shelf, limit_of(shelf, settings)) if entry.id == number)


def search_memory(
    tx: Tx, words: str, person: str | None, now: datetime, limit: int = 20
) -> list[MemoryEntry]:
    """What the agent noted for everybody and for this person; without words, the newest. What is found counts
    as used."""
    persons = [EVERYBODY, *([] if person is None else [person])]
    if words.strip():
        hits = tx.memory.find(words, persons, limit)
    else:
        seen = [entry for each in persons for entry in entries_about(tx, each)]
        hits = sorted(seen, key=lambda entry: entry.id, reverse=True)[:limit]
    if words.strip():
        for entry in hits:
            tx.memory.change(entry, replace(entry, used_at=now))
    return hits


# --- files ---------------------------------------------------------------------------------------------


class FileReport(Struct, frozen=True, kw_only=True):
    """What a file should say, and what happened when somebody's edit was read back."""

    text: str
    added: int = 0
    removed: int = 0
    conflicts: tuple[str, ...] = ()


class ReadBackFile(Struct, frozen=True, kw_only=True):
    """Take over what somebody changed in the file of a shelf since it was last written. What was changed
    there and here is kept as both say, and told of."""

    shelf: MemoryShelf
    limit: int
    now: datetime
    edited: str
    """What the file says now, without what may not be noted."""

    def unit(self, tx: Tx) -> FileReport:
        base = tx.notes.printed(self.shelf.printed) or ""
        before, after = parse_entries(base), parse_entries(self.edited)
        removed = [text for text in before if text not in after]
        added = [text for text in after if text not in before]
        rows = {entry.text: entry for entry in tx.memory.list(self.shelf)}
        conflicts = [text for text in removed if text not in rows]
        for text in removed:
            if text in rows:
                tx.memory.remove(rows[text])
        new = [text for text in added if text not in rows]
        for text in new:
            tx.memory.add(
                MemoryEntry(
                    target=self.shelf.target,
                    person=self.shelf.person,
                    text=text,
                    author=BY_HAND,
                    at=self.now,
                    used_at=self.now,
                )
            )
        told = [entry for entry in fit_shelf(tx, self.shelf, self.limit) if entry.in_prompt]
        text = print_entries(told)
        tx.notes.print(self.shelf.printed, text)
        return FileReport(
            text=text, added=len(new), removed=len(removed) - len(conflicts), conflicts=tuple(conflicts)
        )
