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
        added = self._db.run(
            "INSERT INTO questions SELECT ?1, ?2, ?3, ?4, ?5, ?6, NULL, '', NULL"
            " WHERE EXISTS (SELECT 1 FROM turns WHERE id = ?4 AND session = ?3 AND agent = ?2)",
            question.id,
            self._agent,
            question.session,
            question.turn,
            encode(question),
            stamp_or_none(question.expires_at),
        )
        if not added:
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
        changed = self._db.run(
            "UPDATE questions SET verdict = ?, answer = ?, answered_by = ?"
            " WHERE id = ? AND agent = ? AND verdict IS NULL",
            answer.verdict.value,
            answer.text,
            answer.by,
            answer.question,
            self._agent,
        )
        return bool(changed)

    def _all(self, where: str, *values: str, index: str = "") -> list[Question]:
        rows = self._db.all(
            f"SELECT {_COLUMNS} FROM questions {index} WHERE {where} AND agent = ? ORDER BY rowid",
            *values,
            self._agent,
        )
        return [question_of(row) for row in rows]


def question_of(row: Row) -> Question:
    body, verdict, answer, answered_by = row
    asked = decode(Question, body)
    if verdict is None:
        return asked
    return replace(asked, verdict=Verdict(verdict), answer=answer, answered_by=answered_by)
