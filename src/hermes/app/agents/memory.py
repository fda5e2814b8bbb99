"""The memory of one agent: its entries in the store, and the files of its home that print them.

MEMORY.md and USER.md are written after each change and read back before each use: what somebody edited by
hand is taken over first. A crash between the two leaves a file that is read back like an edit, and changes
nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path

from hermes.app.agents.memory_provider import ProviderMemory
from hermes.control.people.memory import (
    LONGEST_ENTRY,
    STILL_HELD,
    EditMemory,
    MemoryAction,
    ReadBackFile,
    forget_person,
    limit_of,
    person_of,
    search_memory,
    shelf_of,
)
from hermes.domain.chats.address import Source
from hermes.domain.clock import Clock
from hermes.domain.errors import HermesError, UserError
from hermes.domain.knowledge.memory import (
    AGENT_SHELF,
    PRINTED_SHELVES,
    SEPARATOR,
    MemoryEntry,
    MemoryShelf,
    MemoryTarget,
    parse_entries,
    print_entries,
    size_of,
)
from hermes.domain.ports.store import Store, Tx
from hermes.domain.safety.injection import Scan, findings
from hermes.domain.settings.settings import Profile, Settings
from hermes.domain.text import one_line
from hermes.domain.tools.tool import ToolContext, ToolResult
from hermes.domain.turns.session import owner_of
from hermes.state.memory.files import read_printed, set_aside, write_printed

log = logging.getLogger("hermes.memory")
_FOUND = 20


class AgentMemory:
    def __init__(
        self,
        profile: Profile,
        store: Store,
        clock: Clock,
        settings: Callable[[], Settings],
        redact: Callable[[str], str] = str,
    ) -> None:
        self._agent = profile.agent
        self._home: Path = profile.home
        self._store = store
        self._clock = clock
        self._settings = settings
        self._redact = redact
        self.changed: Callable[[], None] = lambda: None
        """Told that new sessions are to hear something else."""
        self.provider: ProviderMemory | None = None
        self._files: dict[str, str] = {}
        self._alone = asyncio.Lock()

    # --- what sessions are told ---

    async def notes(self) -> Mapping[str, str]:
        """The agent's own notes, for the prompt of every new session."""
        if not self._settings().memory.memory_enabled:
            return {}
        await self.read_back()
        entries = await self._store.read(lambda tx: tx.memory.list(AGENT_SHELF))
        told = [entry for entry in entries if entry.in_prompt and not _hits(entry.text)]
        if not told:
            return {}
        used, limit = size_of(entry.text for entry in told), limit_of(AGENT_SHELF, self._settings())
        return {f"What you have noted ({100 * used // limit} % of {limit:,} characters)": print_entries(told)}

    async def person_notes(self, ids: Collection[int]) -> Mapping[int, str]:
        """Entries about people by their numbers, as they are now; one that gives orders is left out."""
        texts = await self._store.read(lambda tx: tx.notes.texts(ids))
        return {number: text for number, text in texts.items() if not _hits(text)}

    # --- the tool ---

    def asks(self) -> bool:
        return self._settings().memory.write_approval

    async def search(self, context: ToolContext, words: str) -> ToolResult:
        person, now = person_of(_who(context), self._settings()), self._clock.now()
        await self.read_back()
        hits = await self._store.write(lambda tx: search_memory(tx, words, person, now, _FOUND))
        lines = [f"- ({entry.target}, {entry.at:%Y-%m-%d}) {entry.text}" for entry in hits]
        return ToolResult(text="\n".join(lines) or "Nothing is noted about that.", outside=True)

    async def edit(self, context: ToolContext, action: str, target: str, text: str, old: str) -> ToolResult:
        settings = self._settings()
        if action == "forget_user":
            return await self._forget(context)
        source = _who(context)
        shelf = shelf_of(MemoryTarget(target), source, settings)
        self._check(text)
        await self.read_back()
        change = EditMemory(
            agent=self._agent,
            action=MemoryAction(action),
            shelf=shelf,
            limit=limit_of(shelf, settings),
            now=self._clock.now(),
            text=text,
            old=old,
            author="" if source is None else owner_of(source) or "",
            turn=context.turn,
            session=context.session,
            key=context.key,
        )
        outcome = await self._store.write(change.unit)
        await self.print_files()
        return ToolResult(text=outcome.text, note=outcome.note)

    async def _forget(self, context: ToolContext) -> ToolResult:
        person = person_of(_who(context), self._settings())
        if person is None:
            raise UserError("Nobody is known here who could be forgotten.")
        count = await self.forget(person)
        return ToolResult(text=f"Forgotten: {count} notes about this person. {STILL_HELD}")

    async def forget(self, person: str) -> int:
        await self.read_back()
        count = await self._store.write(lambda tx: forget_person(tx, person))
        await self.print_files()
        if self.provider is not None and not await self.provider.forget(person):
            log.warning("memory.not_forgotten memory=%s: delete the person there, too", self.provider.name)
        return count

    def _check(self, text: str) -> None:
        """What may be noted at all; it would be told to models again and again."""
        if len(text) > LONGEST_ENTRY:
            raise UserError(f"A note has at most {LONGEST_ENTRY:,} characters.", hint="Say it more briefly.")
        if hits := _hits(text):
            raise UserError(f"This was not noted, for it {', '.join(hits)}.", hint="Say the fact alone.")
        if self._redact(text) != text:
            raise UserError("This was not noted, for it holds a secret.", hint="Leave the secret out.")

    # --- files ---

    async def read_back(self) -> None:
        """Take over what somebody wrote into the files. What cannot be read costs no turn."""
        async with self._alone:
            for shelf in PRINTED_SHELVES:
                try:
                    await self._read_back(shelf)
                except (HermesError, OSError) as error:
                    log.warning("memory.file_trouble file=%s why=%s", shelf.printed, error)

    async def print_files(self) -> None:
        """Show in the files what is in the store by now."""
        async with self._alone:
            for shelf in PRINTED_SHELVES:
                entries = await self._store.read(partial(_shelf, shelf))
                text = print_entries(entry for entry in entries if entry.in_prompt)
                if text != self._files.get(shelf.printed):
                    await self._write(shelf, text)
        self.changed()

    async def _read_back(self, shelf: MemoryShelf) -> None:
        known = self._files.get(shelf.printed)
        text = await asyncio.to_thread(read_printed, self._home, shelf.printed)
        if text == known:
            return
        if known is None and not text:
            entries = await self._store.read(partial(_shelf, shelf))
            if not entries:
                self._files[shelf.printed] = ""
                return
        kept, refused = self._sorted(text)
        if refused:
            copy = await asyncio.to_thread(set_aside, self._home, shelf.printed, text, self._clock.now())
            log.warning("memory.refused file=%s entries=%d copy=%s", shelf.printed, len(refused), copy.name)
        limit, now = limit_of(shelf, self._settings()), self._clock.now()
        unit = ReadBackFile(shelf=shelf, limit=limit, now=now, edited=SEPARATOR.join(kept))
        report = await self._store.write(unit.unit)
        if report.added or report.removed:
            log.info("memory.edited file=%s added=%d removed=%d", shelf.printed, report.added, report.removed)
        for conflict in report.conflicts:
            log.warning("memory.conflict file=%s entry=%s", shelf.printed, one_line(conflict, 60))
        await self._write(shelf, report.text, before=text)

    def _sorted(self, text: str) -> tuple[list[str], list[str]]:
        """The entries of a file that may be noted, and the others."""
        kept, refused = list[str](), list[str]()
        for entry in parse_entries(text):
            try:
                self._check(entry)
                kept.append(entry)
            except UserError:
                refused.append(entry)
        return kept, refused

    async def _write(self, shelf: MemoryShelf, text: str, before: str | None = None) -> None:
        if text != before:
            await asyncio.to_thread(write_printed, self._home, shelf.printed, text)
        await self._store.write(lambda tx: tx.notes.print(shelf.printed, text))
        self._files[shelf.printed] = text


def _who(context: ToolContext) -> Source | None:
    """Whose doing a call is: a job's is that of who had it made."""
    return context.maker or context.source


def _shelf(shelf: MemoryShelf, tx: Tx) -> list[MemoryEntry]:
    return tx.memory.list(shelf)


def _hits(text: str) -> tuple[str, ...]:
    return findings(text, Scan.CONTEXT)
