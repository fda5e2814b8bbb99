"""Turns, the questions that they wait for, and the requests of clients that began them.

Every write to a turn after its first start carries the attempt: a stale one is refused with `Lost`. What a
client brought along is a row of its own, written once: a turn's row is written anew with each record, and
megabytes of somebody's history must not be. The first answer closes a question, by a conditional update.
Clients may ask again or come back: requests are found by id, by their owner's key, by conversation."""

from __future__ import annotations

from datetime import datetime

from hermes.domain.chats.address import Source
from hermes.domain.chats.rows import SessionStanding, UnreadableTurn
from hermes.domain.errors import Lost
from hermes.domain.ids import QuestionId, SessionId, TurnId
from hermes.domain.turns.event import Verdict
from hermes.domain.turns.turn import (
    NO_GUIDANCE,
    Answer,
    Cause,
    Guidance,
    Question,
    ReplyPlace,
    Request,
    Turn,
    TurnInput,
    TurnState,
)
from hermes.domain.word import field_names, replace
from hermes.state.store.codec import decode, encode, stamp_or_none
from hermes.state.store.table import UNREADABLE, Columns, Row, ScopedTable

TURN = Columns(Turn, "turns")
_CHANGED = ("state", "input", "busy", "attempt", "progress", "crashes", "ready_at", "stop", "absorbed_by")
_CHANGES = TURN.assignments(*_CHANGED)
_READ = f"SELECT {TURN.names}, (SELECT body FROM guidance WHERE turn = turns.id) FROM turns"
_FIELDS = field_names(Turn)
_MENDED = tuple(name for name in _FIELDS if name not in ("id", "session", "agent", "state"))
_OPEN = "state IN ('accepted', 'running', 'waiting')"
_ANY_OPEN = f"SELECT 1 FROM turns INDEXED BY turns_open WHERE session = ?1 AND {_OPEN} AND agent = ?2"
_STANDING = f"""SELECT (SELECT max(seq) FROM journal WHERE session = ?1), EXISTS ({_ANY_OPEN}),
    EXISTS (SELECT 1 FROM questions WHERE session = ?1 AND verdict IS NULL AND agent = ?2)
    FROM sessions WHERE id = ?1 AND agent = ?2"""
_QUESTION = "body, verdict, answer, answered_by"
_REQUEST = Columns(Request, "requests")


class TurnsTable(ScopedTable):
    def add(self, turn: Turn, *, epoch: int = 0, since: int | None = None) -> None:
        if turn.agent != self._agent:
            raise Lost(f"a turn of agent {turn.agent} in the store of {self._agent}")
        there = "WHERE EXISTS (SELECT 1 FROM sessions WHERE id = ?2 AND agent = ?3)"
        n = self._db.reserve("turns", 1)
        if not TURN.insert(self._db, turn, there, n=n, input=_plain(turn.input), epoch=epoch, since=since):
            raise Lost(f"session {turn.session} is gone")
        if turn.input.guidance != NO_GUIDANCE:
            body = encode(turn.input.guidance)
            self._db.run("INSERT INTO guidance VALUES (?, ?, ?, ?)", turn.id, turn.agent, turn.session, body)

    def get(self, turn: TurnId) -> Turn | None:
        row = self._db.one(f"{_READ} WHERE id = ? AND agent = ?", turn, self._agent)
        return None if row is None else _turn(row)

    def open_of(self, session: SessionId, limit: int = 64) -> list[Turn]:
        query = (
            f"{_READ} INDEXED BY turns_open WHERE session = ? AND {_OPEN} AND agent = ? ORDER BY n LIMIT ?"
        )
        try:
            rows = self._db.all(query, session, self._agent, limit)
        except UnicodeDecodeError as error:
            why = f"a turn of {session} cannot be read: {error}"
            raise UnreadableTurn(why, agent=self._agent, session=session) from error
        return [_turn(row) for row in rows]

    def any_open(self, session: SessionId) -> bool:
        return self._db.one(f"{_ANY_OPEN} LIMIT 1", session, self._agent) is not None

    def standing(self, session: SessionId) -> SessionStanding:
        row = self._db.one(_STANDING, session, self._agent)
        if row is None:
            return SessionStanding()
        return SessionStanding(last=row[0] or 0, busy=bool(row[1]), asks=bool(row[2]))

    def mend(self, session: SessionId, now: datetime) -> list[TurnId]:
        rows = self._db.all(
            f"SELECT n, id FROM turns INDEXED BY turns_open WHERE session = ? AND {_OPEN} AND agent = ?"
            " ORDER BY n",
            session,
            self._agent,
        )
        return [TurnId(ident) for n, ident in rows if self._mend(n, ident, now)]

    def _mend(self, n: int, ident: str, now: datetime) -> bool:
        neutral = Turn(
            id=TurnId(ident),
            session=SessionId(""),
            agent=self._agent,
            cause=Cause.MESSAGE,
            input=TurnInput(),
            created_at=now,
        )
        bad = [name for name in _MENDED if not self._is_readable(n, name)]
        if "reply" in bad and "source" not in bad:
            neutral = replace(neutral, reply=self._reply_to_source(n))
        if bad:
            stored = dict(zip(_FIELDS, TURN.values(neutral), strict=True))
            values = [stored[name] for name in bad]
            self._db.run(f"UPDATE turns SET {TURN.assignments(*bad)} WHERE n = ?", *values, n)
        guidance = self._db.value("SELECT body FROM guidance WHERE turn = ?", ident)
        try:
            if guidance is not None:
                decode(Guidance, guidance)
        except UNREADABLE:
            self._db.run("DELETE FROM guidance WHERE turn = ?", ident)
            return True
        return bool(bad)

    def _is_readable(self, n: int, name: str) -> bool:
        try:
            row = self._db.one(f"SELECT {name} FROM turns WHERE n = ?", n)
        except UnicodeDecodeError:
            return False
        return row is not None and TURN.can_read(name, row[0])

    def _reply_to_source(self, n: int) -> ReplyPlace | None:
        source = self._db.value("SELECT source FROM turns WHERE n = ?", n)
        return None if source is None else ReplyPlace(to=decode(Source, source).address)

    def save(self, turn: Turn, *, attempt: int, epoch: int | None = None, since: int | None = None) -> None:
        sql = f"""UPDATE turns SET {_CHANGES}, epoch = coalesce(?, epoch), since = coalesce(since, ?)
            WHERE id = ? AND agent = ? AND attempt = ? AND {_OPEN}"""
        values = TURN.values(turn, *_CHANGED, input=_plain(turn.input))
        changed = self._db.run(sql, *values, epoch, since, turn.id, self._agent, attempt)
        _fenced(changed, turn.id)

    def advance(self, turn: TurnId, *, attempt: int, records: int, state: TurnState) -> None:
        # What waits for an answer waits for whoever brings it, so it no longer hangs on a client.
        sql = """UPDATE turns SET state = ?1, progress = progress + ?2, crashes = iif(?2, 0, crashes),
            ephemeral = ephemeral AND ?1 != 'waiting' WHERE id = ?3 AND agent = ?4
            AND attempt = ?5 AND state = 'running'"""
        changed = self._db.run(sql, state.value, records, turn, self._agent, attempt)
        _fenced(changed, turn)


def _plain(given: TurnInput) -> TurnInput:
    return given if given.guidance == NO_GUIDANCE else replace(given, guidance=NO_GUIDANCE)


def _fenced(changed: int, turn: TurnId) -> None:
    if not changed:
        raise Lost(f"{turn} has ended or was started again")


def _turn(row: Row) -> Turn:
    guidance = row[-1]
    try:
        turn = TURN.read(row[:-1])
        if guidance is None:
            return turn
        return replace(turn, input=replace(turn.input, guidance=decode(Guidance, guidance)))
    except UNREADABLE as error:
        raise UnreadableTurn(f"turn {row[0]}: {error}", agent=row[2], session=row[1]) from error


class QuestionsTable(ScopedTable):
    def add(self, question: Question) -> None:
        sql = """INSERT INTO questions SELECT ?1, ?2, ?3, ?4, ?5, ?6, NULL, '', NULL
            WHERE EXISTS (SELECT 1 FROM turns WHERE id = ?4 AND session = ?3 AND agent = ?2)"""
        values = (question.id, self._agent, question.session, question.turn, encode(question))
        if not self._db.run(sql, *values, stamp_or_none(question.expires_at)):
            raise Lost(f"{question.turn} is gone")

    def get(self, question: QuestionId) -> Question | None:
        row = self._db.one(
            f"SELECT {_QUESTION} FROM questions WHERE id = ? AND agent = ?", question, self._agent
        )
        return None if row is None else question_of(row)

    def of_turn(self, turn: TurnId) -> list[Question]:
        return self._all("turn = ?", turn)

    def open_of(self, session: SessionId | None) -> list[Question]:
        if session is None:
            return self._all("verdict IS NULL", index="INDEXED BY questions_expiry")
        return self._all("session = ? AND verdict IS NULL", session)

    def close(self, answer: Answer) -> bool:
        sql = """UPDATE questions SET verdict = ?, answer = ?, answered_by = ?
            WHERE id = ? AND agent = ? AND verdict IS NULL"""
        verdict = answer.verdict.value
        return self._db.run(sql, verdict, answer.text, answer.by, answer.question, self._agent) > 0

    def _all(self, where: str, *values: str, index: str = "") -> list[Question]:
        sql = f"SELECT {_QUESTION} FROM questions {index} WHERE {where} AND agent = ? ORDER BY rowid"
        rows = self._db.all(sql, *values, self._agent)
        return [question_of(row) for row in rows]


def question_of(row: Row) -> Question:
    body, verdict, answer, answered_by = row
    asked = decode(Question, body)
    if verdict is None:
        return asked
    return replace(asked, verdict=Verdict(verdict), answer=answer, answered_by=answered_by)


class RequestsTable(ScopedTable):
    def add(self, request: Request) -> None:
        there = "WHERE EXISTS (SELECT 1 FROM turns WHERE id = ?3 AND session = ?4 AND agent = ?10)"
        if not _REQUEST.insert(self._db, request, there, agent=self._agent):
            raise Lost(f"{request.turn} is gone")

    def get(self, request: str) -> Request | None:
        return self._one("id = ?", request)

    def find(self, owner: str, *, key: str | None = None, prefix: str = "", limit: int = 1) -> list[Request]:
        if key is not None:
            rest = "WHERE owner = ? AND key = ? AND agent = ?"
            requests = _REQUEST.all(self._db, rest, owner, key, self._agent)
            return [request for request in requests if request.id.startswith(prefix)]
        return _REQUEST.all(
            self._db,
            # By age: who asks for the latest of its requests has made some lately, so few rows are looked at.
            "INDEXED BY requests_age WHERE owner = ?1 AND agent = ?2 AND substr(id, 1, length(?3)) = ?3"
            " ORDER BY created_at DESC, rowid DESC LIMIT ?4",
            owner,
            self._agent,
            prefix,
            limit,
        )

    def latest(self, owner: str | None, conversation: str) -> Request | None:
        newest = "ORDER BY created_at DESC, rowid DESC"
        if owner is None:
            return self._one("conversation = ?", conversation, order=newest)
        return self._one("owner = ? AND conversation = ?", owner, conversation, order=newest)

    def remove(self, request: str) -> None:
        self._db.run("DELETE FROM requests WHERE id = ? AND agent = ?", request, self._agent)

    def _one(self, where: str, *values: str, order: str = "") -> Request | None:
        return _REQUEST.one(self._db, f"WHERE {where} AND agent = ? {order} LIMIT 1", *values, self._agent)
