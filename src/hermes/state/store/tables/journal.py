"""The journal: the records of every session, numbered by its actor, never rewritten."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterable
from functools import cache
from typing import NoReturn

from hermes.domain.chats.rows import JournalRow
from hermes.domain.errors import Lost, Refused
from hermes.domain.ids import AgentId, SessionId, TurnId
from hermes.domain.turns.event import Entry, Summarised, Undone
from hermes.state.store.codec import decode_record, encode_record, stamp, unstamp
from hermes.state.store.table import Row, ScopedTable, TableFamily

_AT_ONCE = 16
"""Records of one statement."""
_COPY = """INSERT INTO journal (n, session, seq, turn, at, kind, body)
WITH fresh (old, turn) AS MATERIALIZED (
  SELECT turn, 'turn_' || lower(hex(randomblob(10)))
  FROM (SELECT DISTINCT turn FROM journal WHERE session = ?1))
SELECT ?6 + seq, ?2, seq, fresh.turn, at, kind, body FROM journal JOIN fresh ON journal.turn = fresh.old
WHERE session = ?1 AND seq <= ?3 AND old NOT IN (SELECT value FROM json_each(?4))
  AND 2 = (SELECT count(*) FROM sessions WHERE id IN (?1, ?2) AND agent = ?5)
ORDER BY seq"""
_COPY_GRANTS = """INSERT OR IGNORE INTO session_grants
SELECT ?2, agent, person, digest, seq FROM session_grants g WHERE session = ?1 AND agent = ?3
  AND EXISTS (SELECT 1 FROM journal WHERE session = ?2 AND seq = g.seq)"""
_TAIL = """SELECT n, agent, session, expires_at, seq, turn, at, kind, iif(expires_at IS NULL, body, '')
FROM journal LEFT JOIN sessions ON sessions.id = journal.session WHERE n > ? ORDER BY n LIMIT ?"""
_OURS = "EXISTS (SELECT 1 FROM sessions WHERE id = journal.session AND agent = ?)"
# From its first record on, if its row names that, else in all of its session.
_OF_TURN = """session = (SELECT session FROM turns WHERE id = ?1 AND agent = ?2)
  AND seq >= (SELECT coalesce(since, 0) FROM turns WHERE id = ?1) AND turn = ?1"""


class JournalTable(ScopedTable):
    def append(self, session: SessionId, entries: Iterable[Entry]) -> None:
        """Add the entries; `Lost` if the session is gone or somebody else has taken one of their numbers."""
        new = list(entries)
        for first in range(0, len(new), _AT_ONCE):
            some = new[first : first + _AT_ONCE]
            values: list[object] = [session, self._agent]
            for n, entry in enumerate(some, self._db.reserve("journal", len(some))):
                kind, body = encode_record(entry.record)
                values += (n, entry.seq, entry.turn, stamp(entry.at), kind, body.decode())
            if self._db.run(_adding(len(some)), *values) != len(some):
                self._say_lost(session, some[0].seq)
        if any(isinstance(entry.record, Summarised | Undone) for entry in new):
            # What was named about people may be hidden by now, so it is named again.
            self._db.run("DELETE FROM named_notes WHERE session = ?", session)

    def _say_lost(self, session: SessionId, seq: int) -> NoReturn:
        if not self._db.one("SELECT 1 FROM sessions WHERE id = ? AND agent = ?", session, self._agent):
            raise Lost(f"session {session} is gone")
        raise Lost(f"record {seq} of session {session} was written by somebody else")

    def read(
        self, session: SessionId, after: int = 0, most: int = -1, *, newest: bool = False
    ) -> list[Entry]:
        sql = f"""SELECT seq, turn, at, kind, body FROM journal
            WHERE session = ? AND seq > ? AND {_OURS} ORDER BY seq {"DESC" if newest else "ASC"} LIMIT ?"""
        rows = self._db.all(sql, session, after, self._agent, most)
        return [_entry(row) for row in (reversed(rows) if newest else rows)]

    def of_turn(self, turn: TurnId) -> list[Entry]:
        sql = f"SELECT seq, turn, at, kind, body FROM journal WHERE {_OF_TURN} ORDER BY seq"
        return [_entry(row) for row in self._db.all(sql, turn, self._agent)]

    def marks(self, session: SessionId) -> list[Entry]:
        sql = f"""SELECT seq, turn, at, kind, body FROM journal INDEXED BY journal_marks
            WHERE session = ? AND kind IN ('summarised', 'undone', 'restored') AND {_OURS} ORDER BY seq"""
        return [_entry(row) for row in self._db.all(sql, session, self._agent)]

    def span(self, turn: TurnId) -> tuple[int, int]:
        sql = f"SELECT coalesce(min(seq), 0), coalesce(max(seq), 0) FROM journal WHERE {_OF_TURN}"
        row = self._db.one(sql, turn, self._agent)
        assert row is not None
        return row[0], row[1]

    def copy(self, session: SessionId, into: SessionId, upto: int, without: Collection[TurnId]) -> None:
        before = self._db.reserve("journal", max(upto, 1)) - 1
        self._db.run(_COPY, session, into, upto, json.dumps(list(without)), self._agent, before)
        # What was allowed for the session goes along with the record of the answer.
        self._db.run(_COPY_GRANTS, session, into, self._agent)


class JournalTailTable(TableFamily):
    """The journal in the order in which it was written, whosever sessions they are."""

    def after(self, cursor: int, limit: int) -> tuple[list[JournalRow], int]:
        rows = self._db.all(_TAIL, cursor, limit)
        stay: list[JournalRow] = []
        for _, agent, session, expires_at, *entry in rows:
            if agent is not None and expires_at is None:
                with contextlib.suppress(Refused):  # what cannot be read must not stand in the way
                    row = _entry(tuple(entry))
                    stay.append(JournalRow(agent=AgentId(agent), session=SessionId(session), entry=row))
        return stay, rows[-1][0] if rows else cursor

    def end(self) -> int:
        return int(self._db.value("SELECT coalesce(max(n), 0) FROM journal"))


@cache
def _adding(count: int) -> str:
    """The statement that adds so many records, if their session is there and nobody has their numbers."""
    marks = [f"?{place}" for place in range(3, 3 + 6 * count)]
    rows = ", ".join(f"({', '.join(marks[first : first + 6])})" for first in range(0, len(marks), 6))
    return f"""INSERT INTO journal (session, n, seq, turn, at, kind, body)
        SELECT ?1, * FROM (VALUES {rows}) WHERE EXISTS (SELECT 1 FROM sessions WHERE id = ?1 AND agent = ?2)
        ON CONFLICT DO NOTHING"""


def _entry(row: Row) -> Entry:
    seq, turn, at, kind, body = row
    return Entry(seq=seq, turn=TurnId(turn), at=unstamp(at), record=decode_record(kind, body))
