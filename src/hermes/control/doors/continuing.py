"""Continuing a turn that waits: with the results of the caller's own tools, or with words that answer its
question, in one transaction after which the gateway wakes it.

Every continuation is a request of its own for another part of the same turn. Repeated under the same key it
is the same request and watches the same part."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from hermes.control.sessions import submission
from hermes.control.sessions.submission import NewRequest, NotFound, SubmittedTurn
from hermes.control.turn.questions import answer, as_answer
from hermes.domain.address import Source
from hermes.domain.errors import UserError
from hermes.domain.event import Asked, QuestionKind, Verdict
from hermes.domain.ids import AgentId, QuestionId, SessionId, client_call_id
from hermes.domain.ports.store import Tx
from hermes.domain.session import session_key
from hermes.domain.text import storable
from hermes.domain.turn import Answer, Question, Request, Turn
from hermes.stream.faces.responses import parts_before

ToolResults = Mapping[QuestionId, str]
"""What a client's tools returned, by the question that asked for each."""


class AnswerExpected(UserError):
    """The session waits for an answer, and these words are none."""

    def __init__(self, question: Question) -> None:
        super().__init__(
            f"The session waits for an answer to {question.id} ({question.kind.value}).",
            hint=f"Answer it at /v1/questions/{question.id}, or stop its run.",
        )


def part_name(prefix: str, turn: Turn, part: int) -> str:
    """The name of a part of a turn at a door: the turn's, and from the second on its number."""
    return submission.id_for(prefix, turn.id) + _suffix(part)


def _suffix(part: int) -> str:
    return "" if part == 1 else f"_{part}"


def calls_open(tx: Tx, turn: Turn) -> list[Question]:
    """The calls of its own tools that a turn waits for its client to make."""
    return [question for question in _open_questions(tx, turn) if question.kind is QuestionKind.CLIENT_TOOL]


def _open_questions(tx: Tx, turn: Turn) -> list[Question]:
    return [question for question in tx.questions.of_turn(turn.id) if question.open]


def _answer_all(tx: Tx, turn: Turn, answers: Iterable[Answer], now: datetime) -> bool:
    """Answer in the name of whoever the turn belongs to; whether every answer was accepted."""
    person = None if turn.source is None else turn.source.person
    accepted = [answer(tx, replace(given, by=person), now).closed for given in answers]
    return all(accepted)


def _as_answers(questions: Iterable[Question], results: ToolResults) -> list[Answer]:
    return [
        Answer(question=question.id, verdict=Verdict.REPLY, text=storable(results[question.id]))
        for question in questions
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeToolResults:
    """Take all results that a response waits for, or none of them. The same results once more are the same
    request; other ones for a call that has its result are refused."""

    results: ToolResults
    now: datetime
    request: NewRequest | None = None

    def unit(self, tx: Tx) -> SubmittedTurn:
        repeated = submission.asked_before(tx, self.request)
        if repeated is not None:
            return repeated
        questions = self._questions(tx)
        turn = tx.turns.get(questions[0].turn)
        if turn is None:
            raise NotFound("The turn that asked for these results no longer exists.")
        for question in calls_open(tx, turn):
            if question.id not in self.results:
                raise UserError(f"There is no result for the call {client_call_id(question.id)}.")
        fresh = [question for question in questions if question.open]
        _answer_all(tx, turn, _as_answers(fresh, self.results), self.now)
        part = 1 + parts_before(tx.journal.of_turn(turn.id), questions[0].id)
        return SubmittedTurn(turn=turn, request=self._request(tx, turn, part), fresh=bool(fresh), part=part)

    def _questions(self, tx: Tx) -> list[Question]:
        questions: list[Question] = []
        for ident, text in self.results.items():
            question = tx.questions.get(ident)
            if question is None or question.kind is not QuestionKind.CLIENT_TOOL:
                raise NotFound(f"No call {client_call_id(ident)} was made here.")
            if not question.open and (question.verdict, question.answer) != (Verdict.REPLY, storable(text)):
                raise submission.TurnUnfinished(
                    f"The call {client_call_id(ident)} waits for no result any more."
                )
            questions.append(question)
        if len({question.turn for question in questions}) > 1:
            raise UserError("These results belong to calls of different responses.")
        return questions

    def _request(self, tx: Tx, turn: Turn, part: int) -> Request | None:
        if self.request is None:
            return None
        kept = tx.requests.get(part_name(self.request.prefix, turn, part))
        return kept or submission.add_request(tx, self.request, turn, self.now, part=_suffix(part))


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinuedTurn:
    """The turn that continues, and the record up to which its client has seen it."""

    turn: Turn
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinueTurn:
    """Continue whatever turn waits for what a request brings; `mine` says whose turns its client may
    continue."""

    agent: AgentId
    source: Source
    mine: Callable[[Source | None], bool]
    now: datetime
    request: NewRequest | None = None

    def with_results(self, tx: Tx, results: ToolResults) -> ContinuedTurn | None:
        """Give the results of a client's own tools; None if nothing waits for any of them."""
        repeated = submission.asked_before(tx, self.request)
        if repeated is not None:
            return _same_part(repeated)
        waiting = [question for question in map(tx.questions.get, results) if question and question.open]
        turn = self._my_turn(tx, waiting[0]) if waiting else None
        if turn is None:
            return None
        questions = _open_questions(tx, turn)
        missing = [
            f"call_{question.id}"
            for question in questions
            if question.id not in results or question.kind is not QuestionKind.CLIENT_TOOL
        ]
        if missing:
            raise UserError(
                f"The turn waits for further results: {', '.join(missing)}.", hint="Send all of them at once."
            )
        return self._continue(tx, turn, _as_answers(questions, results))

    def with_words(self, tx: Tx, session: SessionId | None, text: str) -> ContinuedTurn | None:
        """Take words as the answer to what their session waits for; None if it waits for nothing. Without an
        id the session is the one that the source is bound to."""
        repeated = submission.asked_before(tx, self.request)
        if repeated is not None:
            return _same_part(repeated)
        wanted = session or tx.bindings.get(session_key(self.source, self.agent))
        waiting = [] if wanted is None else tx.questions.open_of(wanted)
        if not waiting:
            return None
        mine = {question.id: turn for question in waiting if (turn := self._my_turn(tx, question))}
        questions = [question for question in waiting if question.id in mine]
        given = as_answer(storable(text), questions, self.source.person, replies_to_us=False)
        if given is None:
            raise AnswerExpected(waiting[0])
        return self._continue(tx, mine[given.question], [given])

    def _my_turn(self, tx: Tx, question: Question) -> Turn | None:
        turn = tx.turns.get(question.turn)
        return turn if turn is not None and self.mine(turn.source) else None

    def _continue(self, tx: Tx, turn: Turn, answers: Sequence[Answer]) -> ContinuedTurn | None:
        if not _answer_all(tx, turn, answers, self.now):
            return None
        asked = [entry.seq for entry in tx.journal.of_turn(turn.id) if isinstance(entry.record, Asked)]
        after = max(asked, default=0)
        if self.request is not None:
            named = replace(self.request, facts=json.dumps({"after": after}))
            submission.add_request(tx, named, turn, self.now, part=f"-{after}")
        return ContinuedTurn(turn=turn, after=after)


def _same_part(repeated: SubmittedTurn) -> ContinuedTurn | None:
    """What the same request was given before; None if it continued nothing and began a turn."""
    after = None if repeated.request is None else json.loads(repeated.request.facts).get("after")
    return ContinuedTurn(turn=repeated.turn, after=after) if isinstance(after, int) else None


# --- following a turn --------------------------------------------------------------------------------
