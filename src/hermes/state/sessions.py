"""Sessions, and the chats that are bound to them by their keys."""

from __future__ import annotations

from datetime import datetime

from hermes.domain.address import Kind, Source
from hermes.domain.errors import Lost, UserError
from hermes.domain.ids import AgentId, SessionId
from hermes.domain.session import BRANCHED, EVERY_SESSION, Among, Session, SessionKey
from hermes.domain.text import storable
from hermes.state.codec import decode, encode, stamp, stamp_or_none, unstamp, unstamp_or_none
from hermes.state.db import Db, Row

_COLUMNS = (
    "id, agent, owner, place, title, parent, model, busy_mode, system_prompt, ended, created_at, updated_at,"
    " expires_at, yolo"
)


class SessionsTable:
    def __init__(self, db: Db, agent: AgentId) -> None:
        self._db = db
        self._agent = agent

    def add(self, session: Session) -> None:
        if session.agent != self._agent:
            raise Lost(f"a session of agent {session.agent} in the store of {self._agent}")
        self._check_title(session)
        self._db.run(
            f"INSERT INTO sessions ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            session.id,
            self._agent,
            session.owner,
            session.place,
            session.title,
            session.parent,
            session.model,
            session.busy_mode,
            session.system_prompt,
            session.ended,
            stamp(session.created_at),
            stamp(session.updated_at),
            stamp_or_none(session.expires_at),
            int(session.yolo),
        )

    def get(self, session: SessionId) -> Session | None:
        row = self._db.one(
            f"SELECT {_COLUMNS} FROM sessions WHERE id = ? AND agent = ?", session, self._agent
        )
        return None if row is None else _session(row)

    def save(self, session: Session) -> None:
        self._check_title(session)
        self._db.run(
            "UPDATE sessions SET title = ?, parent = ?, model = ?, busy_mode = ?, system_prompt = ?,"
            " ended = ?, updated_at = ?, expires_at = ?, yolo = ? WHERE id = ? AND agent = ?",
            session.title,
            session.parent,
            session.model,
            session.busy_mode,
            session.system_prompt,
            session.ended,
            stamp(session.updated_at),
            stamp_or_none(session.expires_at),
            int(session.yolo),
            session.id,
            self._agent,
        )

    def _check_title(self, session: Session) -> None:
        taken = session.title is not None and self._db.one(
            "SELECT 1 FROM sessions WHERE agent = ? AND title = ? AND id != ?",
            self._agent,
            session.title,
            session.id,
        )
        if taken:
            raise UserError(f"Another session is called “{session.title}”.", hint="Choose another title.")

    def find(self, text: str, limit: int = 20, among: Among = EVERY_SESSION) -> list[Session]:
        text = storable(text)
        meant, values = meant_sessions(among)
        if not text:
            rows = self._db.all(
                f"SELECT {_COLUMNS} FROM sessions s WHERE agent = ?{meant}"
                " ORDER BY updated_at DESC, id DESC LIMIT ?",
                self._agent,
                *values,
                limit,
            )
            return [_session(row) for row in rows]
        exact = self._db.all(
            f"SELECT {_COLUMNS} FROM sessions s WHERE agent = ? AND (id = ? OR title = ?){meant}",
            self._agent,
            *(text, text),
            *values,
        )
        rows = exact or self._db.all(
            f"SELECT {_COLUMNS} FROM sessions s WHERE agent = ?"
            f" AND (substr(id, 1, length(?)) = ? OR lower(title) = lower(?)){meant}"
            " ORDER BY updated_at DESC LIMIT ?",
            self._agent,
            *(text, text, text),
            *values,
            limit,
        )
        return [_session(row) for row in rows]

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


def meant_sessions(among: Among) -> tuple[str, tuple[str, ...]]:
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


def _session(row: Row) -> Session:
    (
        ident, agent, owner, place, title, parent, model, busy_mode, system_prompt, ended, created_at,
        updated_at, expires_at, yolo,
    ) = row  # fmt: skip
    return Session(
        id=SessionId(ident),
        agent=AgentId(agent),
        owner=owner,
        place=place,
        title=title,
        parent=None if parent is None else SessionId(parent),
        model=model,
        busy_mode=busy_mode,
        system_prompt=system_prompt,
        ended=ended,
        created_at=unstamp(created_at),
        updated_at=unstamp(updated_at),
        expires_at=unstamp_or_none(expires_at),
        yolo=bool(yolo),
    )


class BindingsTable:
    def __init__(self, db: Db, agent: AgentId) -> None:
        self._db = db
        self._agent = agent

    def get(self, key: SessionKey) -> SessionId | None:
        row = self._db.one(
            "SELECT session FROM bindings WHERE agent = ? AND platform = ? AND account = ? AND kind = ?"
            " AND chat = ? AND thread = ? AND user = ?",
            *self._identity(key),
        )
        return None if row is None else SessionId(row[0])

    def bind(self, key: SessionKey, session: SessionId, source: Source, at: datetime) -> None:
        self._db.run(
            "INSERT OR REPLACE INTO bindings VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            *self._identity(key),
            session,
            encode(source),
            stamp(at),
        )

    def of(self, session: SessionId) -> list[tuple[SessionKey, Source]]:
        rows = self._db.all(
            "SELECT platform, account, kind, chat, thread, user, source FROM bindings"
            " WHERE session = ? AND agent = ? ORDER BY at DESC",
            session,
            self._agent,
        )
        return [(self._key(row), decode(Source, row[6])) for row in rows]

    def unused(self, since: datetime, limit: int) -> list[tuple[Session, Source]]:
        """Sessions that chats are bound to, not ended and not used since then, in no order that matters."""
        columns = ", ".join(f"s.{name.strip()}" for name in _COLUMNS.split(","))
        rows = self._db.all(
            f"SELECT b.source, {columns} FROM sessions s JOIN bindings b ON b.session = s.id"
            " WHERE s.agent = ? AND s.updated_at < ? AND s.ended IS NULL ORDER BY s.updated_at DESC LIMIT ?",
            self._agent,
            stamp(since),
            limit,
        )
        return [(_session(row[1:]), decode(Source, row[0])) for row in rows]

    def _identity(self, key: SessionKey) -> Row:
        # "" stands for "none": SQL would hold two NULLs apart.
        return (
            self._agent,
            key.platform,
            key.account,
            key.kind.value,
            key.chat,
            key.thread or "",
            key.user or "",
        )

    def _key(self, row: Row) -> SessionKey:
        platform, account, kind, chat, thread, user = row[:6]
        return SessionKey(
            agent=self._agent,
            platform=platform,
            account=account,
            kind=Kind(kind),
            chat=chat,
            thread=thread or None,
            user=user or None,
        )
