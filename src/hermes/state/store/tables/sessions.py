"""Sessions, the chats that are bound to them by their keys, and hand-offs of a session to another chat. Every
step of a hand-off is conditional on the one before, so of two carriers one is too late."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from hermes.domain.address import Source
from hermes.domain.errors import Lost, UserError
from hermes.domain.handoff import Handoff
from hermes.domain.ids import SessionId
from hermes.domain.session import BRANCHED, EVERY_SESSION, Session, SessionFilter, SessionKey
from hermes.domain.text import storable
from hermes.state.store.codec import decode, encode, stamp
from hermes.state.store.table import BodyColumn, Columns, Row, ScopedTable

_SESSION = Columns(Session, "sessions")
_CHANGED = (
    "title", "parent", "model", "busy_mode", "system_prompt", "ended", "updated_at", "expires_at", "yolo",
)  # fmt: skip
_CHANGES = _SESSION.assignments(*_CHANGED)
_KEY = Columns(SessionKey, "bindings")
_HANDOFFS = BodyColumn(Handoff, "handoffs")
_OPEN = "state IN ('pending', 'running')"


class SessionsTable(ScopedTable):
    def add(self, session: Session) -> None:
        if session.agent != self._agent:
            raise Lost(f"a session of agent {session.agent} in the store of {self._agent}")
        self._check_title(session)
        _SESSION.insert(self._db, session)

    def get(self, session: SessionId) -> Session | None:
        return _SESSION.one(self._db, "WHERE id = ? AND agent = ?", session, self._agent)

    def save(self, session: Session) -> None:
        self._check_title(session)
        sql = f"UPDATE sessions SET {_CHANGES} WHERE id = ? AND agent = ?"
        self._db.run(sql, *_SESSION.values(session, *_CHANGED), session.id, self._agent)

    def _check_title(self, session: Session) -> None:
        sql = "SELECT 1 FROM sessions WHERE agent = ? AND title = ? AND id != ?"
        taken = session.title is not None and self._db.one(sql, self._agent, session.title, session.id)
        if taken:
            raise UserError(f"Another session is called “{session.title}”.", hint="Choose another title.")

    def find(self, text: str, limit: int = 20, among: SessionFilter = EVERY_SESSION) -> list[Session]:
        text = storable(text)
        meant, values = session_condition(among)
        if not text:
            rest = f"s WHERE agent = ?{meant} ORDER BY updated_at DESC, id DESC LIMIT ?"
            return _SESSION.all(self._db, rest, self._agent, *values, limit)
        exact = f"s WHERE agent = ? AND (id = ? OR title = ?){meant}"
        near = f"""s WHERE agent = ? AND (substr(id, 1, length(?)) = ? OR lower(title) = lower(?)){meant}
            ORDER BY updated_at DESC LIMIT ?"""
        return _SESSION.all(self._db, exact, self._agent, text, text, *values) or _SESSION.all(
            self._db, near, self._agent, text, text, text, *values, limit
        )

    def delete(self, session: SessionId) -> None:
        """The session with everything that hangs on it; the search index forgets it too."""
        if self.get(session) is None:
            return
        for index in ("words", "letters"):
            self._db.run(
                f"INSERT INTO {index} ({index}, rowid, text) SELECT 'delete', said.n, said.text FROM said"
                " JOIN journal USING (n) WHERE journal.session = ?"
                " AND said.n <= (SELECT value FROM facts WHERE name = 'indexed') + 0",
                session,
            )
        self._db.run("DELETE FROM journal WHERE session = ?", session)
        for table in ("turns", "guidance", "questions", "bindings", "requests", "told", "handoffs"):
            self._db.run(f"DELETE FROM {table} WHERE session = ? AND agent = ?", session, self._agent)
        self._db.run("DELETE FROM sessions WHERE id = ?", session)


def session_condition(among: SessionFilter) -> tuple[str, tuple[str, ...]]:
    """A condition on the sessions `s`, and its values."""
    conditions: list[str] = []
    values: list[str] = []
    if among.owner is not None:
        conditions.append("substr(s.owner, 1, length(?)) = ?")
        values += [f"{among.owner}:"] * 2
    if among.platform is not None:
        conditions.append("(substr(s.place, 1, length(?)) = ? OR substr(s.place, 1, length(?)) = ?)")
        values += [f"{among.platform}:"] * 2 + [f"{among.platform}@"] * 2
    if not among.children:
        conditions.append(
            "NOT EXISTS (SELECT 1 FROM sessions parent WHERE parent.id = s.parent AND parent.ended IS NOT ?)"
        )
        values.append(BRANCHED)
    return "".join(f" AND {condition}" for condition in conditions), tuple(values)


class BindingsTable(ScopedTable):
    def get(self, key: SessionKey) -> SessionId | None:
        session: SessionId | None = self._db.value(
            "SELECT session FROM bindings WHERE agent = ? AND platform = ? AND account = ? AND kind = ?"
            " AND chat = ? AND thread = ? AND user = ?",
            *self._identity(key),
        )
        return session

    def bind(self, key: SessionKey, session: SessionId, source: Source, at: datetime) -> None:
        sql = "INSERT OR REPLACE INTO bindings VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        self._db.run(sql, *self._identity(key), session, encode(source), stamp(at))

    def of(self, session: SessionId) -> list[tuple[SessionKey, Source]]:
        sql = f"SELECT source, {_KEY.names} FROM bindings WHERE session = ? AND agent = ? ORDER BY at DESC"
        rows = self._db.all(sql, session, self._agent)
        return [(_key(row[1:]), decode(Source, row[0])) for row in rows]

    def unused(
        self, since: datetime, limit: int, after: Session | None = None
    ) -> list[tuple[Session, SessionKey, Source]]:
        session, key = (table.names.split(", ") for table in (_SESSION, _KEY))
        columns = ", ".join([f"s.{name}" for name in session] + [f"b.{name}" for name in key])
        last = (0.0, "") if after is None else (stamp(after.updated_at), after.id)
        sql = f"""SELECT b.source, {columns}
            FROM (SELECT * FROM sessions WHERE agent = ?1 AND updated_at < ?2 AND ended IS NULL
            AND updated_at >= ?3 AND (updated_at, id) > (?3, ?4)
            AND EXISTS (SELECT 1 FROM bindings WHERE session = sessions.id AND agent = ?1)
            ORDER BY updated_at, id LIMIT ?5) s JOIN bindings b ON b.session = s.id AND b.agent = ?1
            ORDER BY s.updated_at, s.id"""
        rows = self._db.all(sql, self._agent, stamp(since), *last, limit)
        end = 1 + len(session)
        return [(_SESSION.read(row[1:end]), _key(row[end:]), decode(Source, row[0])) for row in rows]

    def _identity(self, key: SessionKey) -> Row:
        # "" stands for "none": SQL would hold two NULLs apart.
        return _KEY.values(key, agent=self._agent, thread=key.thread or "", user=key.user or "")


def _key(row: Row) -> SessionKey:
    key = _KEY.read(row)
    return replace(key, thread=key.thread or None, user=key.user or None)


class HandoffsTable(ScopedTable):
    def add(self, handoff: Handoff) -> bool:
        if handoff.agent != self._agent:
            raise Lost(f"a hand-off of agent {handoff.agent} in the store of {self._agent}")
        sql = f"""INSERT INTO handoffs (id, agent, session, state, attempts, created_at, body)
            SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7 WHERE NOT EXISTS
            (SELECT 1 FROM handoffs WHERE session = ?3 AND {_OPEN})"""
        values = (handoff.id, self._agent, handoff.session, handoff.state.value, handoff.attempts)
        return self._db.run(sql, *values, stamp(handoff.created_at), encode(handoff)) > 0

    def get(self, handoff: str) -> Handoff | None:
        return _HANDOFFS.one(self._db, "WHERE id = ? AND agent = ?", handoff, self._agent)

    def change(self, was: Handoff, now: Handoff) -> bool:
        # One that becomes open again may not come beside another of its session.
        sql = f"""UPDATE handoffs SET state = ?1, attempts = ?2, body = ?3
            WHERE id = ?4 AND agent = ?5 AND state = ?6 AND attempts = ?7 AND NOT EXISTS
            (SELECT 1 FROM handoffs h WHERE h.session = handoffs.session AND h.id != ?4 AND h.{_OPEN})"""
        before = (was.id, self._agent, was.state.value, was.attempts)
        return self._db.run(sql, now.state.value, now.attempts, encode(now), *before) > 0

    def open(self) -> list[Handoff]:
        rest = f"WHERE agent = ? AND {_OPEN} ORDER BY created_at, id"
        return _HANDOFFS.all(self._db, rest, self._agent)

    def latest(self, session: SessionId | None, limit: int) -> list[Handoff]:
        rest = "WHERE agent = ?1 AND (?2 IS NULL OR session = ?2) ORDER BY created_at DESC, id DESC LIMIT ?3"
        return _HANDOFFS.all(self._db, rest, self._agent, session, limit)
