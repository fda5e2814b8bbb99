"""What agents remember: entries as rows, found by their words, and which of them each session was told."""

from __future__ import annotations

from collections.abc import Collection

from hermes.domain.ids import SessionId
from hermes.domain.knowledge.memory import MemoryEntry, MemoryShelf
from hermes.domain.text import storable
from hermes.domain.word import replace
from hermes.state.store.table import Columns, ScopedTable
from hermes.state.store.tables.search import COMMON, search_phrase

_ENTRY = Columns(MemoryEntry, "memory", id="n")
_SHELF = "agent = ? AND target = ? AND person = ?"


class MemoryTable(ScopedTable):
    def add(self, entry: MemoryEntry) -> MemoryEntry:
        stored = replace(entry, id=self._db.reserve("memory", 1), text=storable(entry.text))
        _ENTRY.insert(self._db, stored, agent=self._agent)
        self._db.run("INSERT INTO memory_words (rowid, text) VALUES (?, ?)", stored.id, stored.text)
        return stored

    def change(self, before: MemoryEntry, after: MemoryEntry) -> None:
        """Write an entry anew, under its number."""
        if before.text != after.text:
            self._drop_words(before)
            text = storable(after.text)
            self._db.run("INSERT INTO memory_words (rowid, text) VALUES (?, ?)", before.id, text)
        self._db.run(
            "UPDATE memory SET text = ?, used_at = ?, in_prompt = ?, shared = ? WHERE n = ? AND agent = ?",
            storable(after.text), after.used_at.timestamp(), after.in_prompt, after.shared, before.id,
            self._agent,
        )  # fmt: skip

    def remove(self, entry: MemoryEntry) -> None:
        if self._db.run("DELETE FROM memory WHERE n = ? AND agent = ?", entry.id, self._agent):
            self._drop_words(entry)
            self._db.run("DELETE FROM named_notes WHERE note = ?", entry.id)

    def find(self, words: str, persons: Collection[str], limit: int) -> list[MemoryEntry]:
        """Those that hold the words, of these people or shared; the best first."""
        phrase = search_phrase(words)
        if not phrase:
            return []
        marks = ", ".join("?" * len(persons))
        # As in the search of what was said: ranking a word that most entries hold takes too long.
        sql = "SELECT count(*) FROM (SELECT 1 FROM memory_words WHERE memory_words MATCH ? LIMIT ?)"
        order = "memory_words.rowid DESC" if self._db.value(sql, phrase, COMMON) >= COMMON else "rank"
        return _ENTRY.all(
            self._db,
            f"""WHERE n IN (SELECT m.n FROM memory_words JOIN memory m ON m.n = memory_words.rowid
            WHERE memory_words MATCH ? AND m.agent = ? AND (m.shared OR m.person IN ({marks}))
            ORDER BY {order} LIMIT ?) ORDER BY used_at DESC, n DESC""",
            phrase, self._agent, *persons, limit,
        )  # fmt: skip

    def list(self, shelf: MemoryShelf | None = None) -> list[MemoryEntry]:
        """Those of a shelf, or of all; the oldest first."""
        if shelf is None:
            return _ENTRY.all(self._db, "WHERE agent = ? ORDER BY n", self._agent)
        return _ENTRY.all(self._db, f"WHERE {_SHELF} ORDER BY n", self._agent, shelf.target, shelf.person)

    def _drop_words(self, entry: MemoryEntry) -> None:
        sql = "INSERT INTO memory_words (memory_words, rowid, text) VALUES ('delete', ?, ?)"
        self._db.run(sql, entry.id, entry.text)


class PersonNotesTable(ScopedTable):
    def name(self, session: SessionId, person: str) -> tuple[int, ...]:
        """The entries of a person that their words in this session are to name: those told to the model that
        the session does not name yet. They count as named from now on."""
        rows = self._db.all(
            """SELECT n FROM memory WHERE n IN (SELECT n FROM memory WHERE agent = ?1 AND person = ?2
                UNION SELECT n FROM memory INDEXED BY memory_shared WHERE agent = ?1 AND shared)
            AND in_prompt AND NOT EXISTS (SELECT 1 FROM named_notes WHERE session = ?3 AND note = n)
            ORDER BY n""",
            self._agent, person, session,
        )  # fmt: skip
        for (number,) in rows:
            self._db.run("INSERT INTO named_notes VALUES (?, ?, ?)", session, number, self._agent)
        return tuple(number for (number,) in rows)

    def texts(self, notes: Collection[int]) -> dict[int, str]:
        """Entries by their numbers, as they are now; what was forgotten is missing."""
        marks = ", ".join("?" * len(notes))
        sql = f"SELECT n, text FROM memory WHERE agent = ? AND n IN ({marks})"
        return dict(self._db.all(sql, self._agent, *notes))

    def repeats(self, session: SessionId, key: str) -> bool:
        sql = "SELECT key FROM memory_keys WHERE session = ? AND agent = ?"
        if self._db.value(sql, session, self._agent) == key:
            return True
        self._db.run("INSERT OR REPLACE INTO memory_keys VALUES (?, ?, ?)", session, key, self._agent)
        return False

    def printed(self, name: str) -> str | None:
        sql = "SELECT text FROM memory_files WHERE agent = ? AND name = ?"
        text: str | None = self._db.value(sql, self._agent, name)
        return text

    def print(self, name: str, text: str) -> None:
        self._db.run(
            "INSERT OR REPLACE INTO memory_files VALUES (?, ?, ?)", self._agent, name, storable(text)
        )
