"""Questions that turns wait for. The first answer closes one, by a conditional update."""

from __future__ import annotations

from dataclasses import replace

from hermes.domain.errors import Lost
from hermes.domain.event import Verdict
from hermes.domain.ids import QuestionId, SessionId, TurnId
from hermes.domain.turn import Answer, Question
from hermes.state.store.codec import decode, encode, stamp_or_none
from hermes.state.store.db import Row, ScopedTable

_COLUMNS = "body, verdict, answer, answered_by"


class QuestionsTable(ScopedTable):
    def add(self, question: Question) -> None:
        sql = (
            "INSERT INTO questions SELECT ?1, ?2, ?3, ?4, ?5, ?6, NULL, '', NULL"
            " WHERE EXISTS (SELECT 1 FROM turns WHERE id = ?4 AND session = ?3 AND agent = ?2)"
        )
        values = (question.id, self._agent, question.session, question.turn, encode(question))
        if not self._db.run(sql, *values, stamp_or_none(question.expires_at)):
            raise Lost(f"{question.turn} is gone")

    def get(self, question: QuestionId) -> Question | None:
        row = self._db.one(
            f"SELECT {_COLUMNS} FROM questions WHERE id = ? AND agent = ?", question, self._agent
        )
        return None if row is None else question_of(row)

    def of_turn(self, turn: TurnId) -> list[Question]:
        return self._all("turn = ?", turn)

    def open_of(self, session: SessionId | None) -> list[Question]:
        if session is None:
            return self._all("verdict IS NULL", index="INDEXED BY questions_expiry")
        return self._all("session = ? AND verdict IS NULL", session)

    def close(self, answer: Answer) -> bool:
        sql = (
            "UPDATE questions SET verdict = ?, answer = ?, answered_by = ?"
            " WHERE id = ? AND agent = ? AND verdict IS NULL"
        )
        verdict = answer.verdict.value
        return self._db.run(sql, verdict, answer.text, answer.by, answer.question, self._agent) > 0

    def _all(self, where: str, *values: str, index: str = "") -> list[Question]:
        sql = f"SELECT {_COLUMNS} FROM questions {index} WHERE {where} AND agent = ? ORDER BY rowid"
        rows = self._db.all(sql, *values, self._agent)
        return [question_of(row) for row in rows]


def question_of(row: Row) -> Question:
    body, verdict, answer, answered_by = row
    asked = decode(Question, body)
    if verdict is None:
        return asked
    return replace(asked, verdict=Verdict(verdict), answer=answer, answered_by=answered_by)
