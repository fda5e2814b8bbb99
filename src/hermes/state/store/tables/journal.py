"""The journal: the records of every session, numbered by its actor, never rewritten."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import fields

from hermes.domain.errors import Lost
from hermes.domain.event import Entry, Usage
from hermes.domain.ids import SessionId, TurnId
from hermes.state.store.codec import decode_record, encode_record, stamp, unstamp
from hermes.state.store.table import Row, ScopedTable

_ADD = """INSERT INTO journal (session, seq, turn, at, kind, body) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING"""
_COPY = """INSERT INTO journal (session, seq, turn, at, kind, body)
WITH fresh (old, turn) AS MATERIALIZED (
  SELECT turn, 'turn_' || lower(hex(randomblob(10)))
  FROM (SELECT DISTINCT turn FROM journal WHERE session = ?1))
SELECT ?2, seq, fresh.turn, at, kind, body FROM journal JOIN fresh ON journal.turn = fresh.old
WHERE session = ?1 AND seq <= ?3 AND old NOT IN (SELECT value FROM json_each(?4))
  AND 2 = (SELECT count(*) FROM sessions WHERE id IN (?1, ?2) AND agent = ?5)
ORDER BY seq"""
_OURS = "EXISTS (SELECT 1 FROM sessions WHERE id = journal.session AND agent = ?)"


class JournalTable(ScopedTable):
    def append(self, session: SessionId, entries: Iterable[Entry]) -> None:
        """Add the entries; `Lost` if the session is gone or somebody else has taken one of their numbers."""
        if not self._db.one("SELECT 1 FROM sessions WHERE id = ? AND agent = ?", session, self._agent):
            raise Lost(f"session {session} is gone")
        for entry in entries:
            kind, body = encode_record(entry.record)
            added = self._db.run(_ADD, session, entry.seq, entry.turn, stamp(entry.at), kind, body.decode())
            if not added:
                raise Lost(f"record {entry.seq} of session {session} was written by somebody else")

    def read(
        self, session: SessionId, after: int = 0, most: int = -1, *, newest: bool = False
    ) -> list[Entry]:
        sql = f"""SELECT seq, turn, at, kind, body FROM journal
            WHERE session = ? AND seq > ? AND {_OURS} ORDER BY seq {"DESC" if newest else "ASC"} LIMIT ?"""
        rows = self._db.all(sql, session, after, self._agent, most)
        return [_entry(row) for row in (reversed(rows) if newest else rows)]

    def of_turn(self, turn: TurnId) -> list[Entry]:
        sql = f"SELECT seq, turn, at, kind, body FROM journal WHERE turn = ? AND {_OURS} ORDER BY seq"
        return [_entry(row) for row in self._db.all(sql, turn, self._agent)]

    def usage(self, session: SessionId) -> tuple[int, Usage]:
        parts = [field.name for field in fields(Usage)]
        sums = ", ".join(f"coalesce(sum(json_extract(body, '$.usage.{part}')), 0)" for part in parts)
        sql = f"SELECT count(*), {sums} FROM journal WHERE session = ? AND kind = 'model_said' AND {_OURS}"
        row = self._db.one(sql, session, self._agent)
        assert row is not None
        return row[0], Usage(**dict(zip(parts, row[1:], strict=True)))

    def copy(self, session: SessionId, into: SessionId, upto: int, without: Collection[TurnId]) -> None:
        self._db.run(_COPY, session, into, upto, json.dumps(list(without)), self._agent)


def _entry(row: Row) -> Entry:
    seq, turn, at, kind, body = row
    return Entry(seq=seq, turn=TurnId(turn), at=unstamp(at), record=decode_record(kind, body))
