"""Sessions, the chats that are bound to them by their keys, and hand-offs of a session to another chat. Every
step of a hand-off is conditional on the one before, so of two carriers one is too late."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from hermes.domain.chats.address import Source
from hermes.domain.chats.handoff import Handoff
from hermes.domain.errors import Lost, UserError
from hermes.domain.ids import AgentId, SessionId
from hermes.domain.text import storable
from hermes.domain.turns.session import BATCHED, BRANCHED, EVERY_SESSION, Session, SessionFilter, SessionKey
from hermes.domain.word import replace
from hermes.state.store.codec import decode, encode, hash_text, stamp
from hermes.state.store.table import BodyColumn, Columns, Db, Row, ScopedTable, readable
from hermes.state.store.tables.usage import count_session

_HASHED = {"system_prompt": "prompt", "context_prompt": "context", "tool_list": "tools"}
"""Fields that are kept in `prompts`, once for all sessions that have the same; the columns name them."""
_SESSION = Columns(Session, "sessions", **_HASHED)
_CHANGED = (
    "title", "parent", "model", "busy_mode", "system_prompt", "context_prompt", "place_prompt", "tool_list",
    "manner", "ended", "updated_at", "expires_at", "yolo", "archived",
)  # fmt: skip
_MOST_TEXTS = 256
_CHANGES = _SESSION.assignments(*_CHANGED)
_SELECT = f"SELECT {_SESSION.names} FROM sessions"
_KEY = Columns(SessionKey, "bindings")
_HANDOFFS = BodyColumn(Handoff, "handoffs")
_OPEN = "state IN ('pending', 'running')"
_HANGING = (
    "guidance", "questions", "bindings", "requests", "told", "handoffs", "session_grants", "auxiliary_calls",
    "compressions",
    "named_notes", "memory_keys", "session_traces", "flushes", "checkpoints",
    "awaited_processes",
)  # fmt: skip


class FrozenTexts:
    """What sessions keep by hash. A text is read once per connection, so sessions in memory share it."""

    def __init__(self, db: Db) -> None:
        self._db = db
        self._texts: dict[str, str] = {}

    def keep(self, session: Session) -> dict[str, Any]:
        """Store the texts of a session that are not stored yet; their hashes by field."""
        hashes: dict[str, Any] = {}
        for name in _HASHED:
            text = getattr(session, name)
            hashes[name] = None if text is None else hash_text(text)
            if text is not None:
                sql = "INSERT INTO prompts VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
                self._db.run(sql, hashes[name], storable(text), stamp(session.updated_at))
        return hashes

    def read(self, row: Row) -> Session:
        session = _SESSION.read(row)
        if session.system_prompt is None and session.tool_list is None:
            return session
        return replace(
            session,
            system_prompt=self._text(session.system_prompt),
            context_prompt=self._text(session.context_prompt),
            tool_list=self._text(session.tool_list),
        )

    def _text(self, key: str | None) -> str | None:
        if key is None:
            return None
        text = self._texts.get(key)
        if text is None:
            text = self._db.value("SELECT body FROM prompts WHERE hash = ?", key)
            if text is not None:
                if len(self._texts) >= _MOST_TEXTS:
                    self._texts.clear()
                self._texts[key] = text
        return text


class SessionsTable(ScopedTable):
    def __init__(self, db: Db, agent: AgentId) -> None:
        super().__init__(db, agent)
        self._texts = FrozenTexts(db)

    def add(self, session: Session) -> None:
        if session.agent != self._agent:
            raise Lost(f"a session of agent {session.agent} in the store of {self._agent}")
        self._check_title(session)
        _SESSION.insert(self._db, session, **self._texts.keep(session))

    def get(self, session: SessionId) -> Session | None:
        row = self._db.one(f"{_SELECT} s WHERE id = ? AND agent = ?", session, self._agent)
        return None if row is None else self._texts.read(row)

    def save(self, session: Session) -> None:
        self._check_title(session)
        sql = f"UPDATE sessions SET {_CHANGES} WHERE id = ? AND agent = ?"
        values = _SESSION.values(session, *_CHANGED, **self._texts.keep(session))
        self._db.run(sql, *values, session.id, self._agent)

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
            return self._all(rest, *values, limit)
        exact = f"s WHERE agent = ? AND (id = ? OR title = ?){meant}"
        near = f"""s WHERE agent = ? AND (substr(id, 1, length(?)) = ? OR lower(title) = lower(?)){meant}
            ORDER BY updated_at DESC LIMIT ?"""
        return self._all(exact, text, text, *values) or self._all(near, text, text, text, *values, limit)

    def _all(self, rest: str, *values: Any) -> list[Session]:
        return [self._texts.read(row) for row in self._db.all(f"{_SELECT} {rest}", self._agent, *values)]

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
        count_session(self._db, session)
        # A turn has records in the journal, or is found by the index of those that have none.
        self._db.run("DELETE FROM turns WHERE id IN (SELECT turn FROM journal WHERE session = ?)", session)
        self._db.run(
            "DELETE FROM turns INDEXED BY turns_without_records WHERE session = ? AND since IS NULL", session
        )
        self._db.run("DELETE FROM journal WHERE session = ?", session)
        for table in _HANGING:
            self._db.run(f"DELETE FROM {table} WHERE session = ? AND agent = ?", session, self._agent)
        self._db.run("DELETE FROM sessions WHERE id = ?", session)


def session_condition(among: SessionFilter) -> tuple[str, tuple[str | float, ...]]:
    """A condition on the sessions `s`, and its values."""
    conditions: list[str] = []
    values: list[str | float] = []
    if among.owner is not None:
        conditions.append("substr(s.owner, 1, length(?)) = ?")
        values += [f"{among.owner}:"] * 2
    if among.platform is not None:
        begins = "substr(s.place, 1, length(?)) = ?"
        conditions.append(f"({begins} OR {begins} OR s.tag = ?)")
        values += [f"{among.platform}:"] * 2 + [f"{among.platform}@"] * 2 + [among.platform]
    if among.archived is not None:
        conditions.append("s.archived = ?")
        values.append(int(among.archived))
    if among.under:
        conditions.append("substr(s.id, 1, length(?)) = ?")
        values += [among.under] * 2
    if not among.batched:
        conditions.append("substr(s.id, 1, length(?)) != ?")
        values += [BATCHED] * 2
    if among.untitled:
        conditions.append("s.title IS NULL AND s.expires_at IS NULL")
    if among.unused_since is not None:
        conditions.append(
            "s.updated_at < ? AND NOT EXISTS (SELECT 1 FROM turns WHERE session = s.id"
            " AND state IN ('accepted', 'running', 'waiting'))"
        )
        values.append(stamp(among.unused_since))
    if not among.children:
        conditions.append(
            "NOT EXISTS (SELECT 1 FROM sessions parent WHERE parent.id = s.parent AND parent.ended IS NOT ?)"
        )
        values.append(BRANCHED)
    return "".join(f" AND {condition}" for condition in conditions), tuple(values)


class BindingsTable(ScopedTable):
    def __init__(self, db: Db, agent: AgentId) -> None:
        super().__init__(db, agent)
        self._texts = FrozenTexts(db)

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
        last = ("", 0.0, "") if after is None else (after.agent, stamp(after.updated_at), after.id)
        sql = f"""SELECT b.source, {columns}
            FROM (SELECT * FROM sessions WHERE agent = ?1 AND updated_at < ?2 AND ended IS NULL
            AND (agent, updated_at, id) > (?3, ?4, ?5)
            AND EXISTS (SELECT 1 FROM bindings b WHERE b.session = sessions.id AND b.agent = sessions.agent)
            ORDER BY agent, updated_at, id LIMIT ?6) s
            JOIN bindings b ON b.session = s.id AND b.agent = s.agent
            ORDER BY s.agent, s.updated_at, s.id"""
        rows = self._db.all(sql, self._agent, stamp(since), *last, limit)
        end = 1 + len(session)
        return [(self._texts.read(row[1:end]), _key(row[end:]), decode(Source, row[0])) for row in rows]

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
        sql = f"""SELECT id, CAST(body AS BLOB) FROM handoffs WHERE agent = ? AND {_OPEN}
            ORDER BY created_at, id"""
        return [handoff for _, handoff in readable(Handoff, self._db.all(sql, self._agent))]

    def latest(self, session: SessionId | None, limit: int) -> list[Handoff]:
        rest = "WHERE agent = ?1 AND (?2 IS NULL OR session = ?2) ORDER BY created_at DESC, id DESC LIMIT ?3"
        return _HANDOFFS.all(self._db, rest, self._agent, session, limit)
