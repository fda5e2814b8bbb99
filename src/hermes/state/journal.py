"""The journal: the records of every session, numbered by its actor, never rewritten."""

from __future__ import annotations

from collections.abc import Iterable

from hermes.domain.errors import Lost
from hermes.domain.event import Entry
from hermes.domain.ids import SessionId, TurnId
from hermes.state.codec import decode_record, encode_record, stamp, unstamp
from hermes.state.db import Row, ScopedTable

_OURS = "EXISTS (SELECT 1 FROM sessions WHERE id = journal.session AND agent = ?)"


class JournalTable(ScopedTable):
    def append(self, session: SessionId, entries: Iterable[Entry]) -> None:
        """Add the entries; `Lost` if the session is gone or somebody else has taken one of their numbers."""
        if not self._db.one("SELECT 1 FROM sessions WHERE id = ? AND agent = ?", session, self._agent):
            raise Lost(f"session {session} is gone")
        for entry in entries:
            kind, body = encode_record(entry.record)
            added = self._db.run(
                "INSERT INTO journal (session, seq, turn, at, kind, body) VALUES (?, ?, ?, ?, ?, ?)"
                " ON CONFLICT DO NOTHING",
                session,
                entry.seq,
                entry.turn,
                stamp(entry.at),
                kind,
                body.decode(),
            )
            if not added:
                raise Lost(f"record {entry.seq} of session {session} was written by somebody else")

    def read(self, session: SessionId, after: int = 0, most: int = -1) -> list[Entry]:
        rows = self._db.all(
            "SELECT seq, turn, at, kind, body FROM journal"
            f" WHERE session = ? AND seq > ? AND {_OURS} ORDER BY seq LIMIT ?",
            session,
            after,
            self._agent,
            most,
        )
        return [_entry(row) for row in rows]

    def of_turn(self, turn: TurnId) -> list[Entry]:
        rows = self._db.all(
            f"SELECT seq, turn, at, kind, body FROM journal WHERE turn = ? AND {_OURS} ORDER BY seq",
            turn,
            self._agent,
        )
        return [_entry(row) for row in rows]


def _entry(row: Row) -> Entry:
    seq, turn, at, kind, body = row
    return Entry(seq=seq, turn=TurnId(turn), at=unstamp(at), record=decode_record(kind, body))
