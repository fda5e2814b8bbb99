"""Results of a client's own functions: they answer what a parked turn asked for, all together or not at all,
and the turn goes on. What it says then is a request of its own to the client: another part of the same turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from hermes.control.sessions.submission import (
    NewRequest,
    NotFound,
    SubmittedTurn,
    TurnUnfinished,
    add_request,
    asked_before,
    id_for,
)
from hermes.control.turn.questions import answer
from hermes.domain.errors import UserError
from hermes.domain.event import QuestionKind, Verdict
from hermes.domain.ids import QuestionId, client_call_id
from hermes.domain.ports.store import Tx
from hermes.domain.text import storable
from hermes.domain.turn import Answer, Question, Request, Turn
from hermes.stream.faces.responses import parts_before


def part_name(prefix: str, turn: Turn, part: int) -> str:
    """The name of a part of a turn at a door: the turn's, and from the second on its number."""
    return id_for(prefix, turn.id) + _suffix(part)


def _suffix(part: int) -> str:
    return "" if part == 1 else f"_{part}"


def calls_open(tx: Tx, turn: Turn) -> list[Question]:
    """What a turn waits for its client to do."""
    asked = tx.questions.of_turn(turn.id)
    return [question for question in asked if question.open and question.kind is QuestionKind.CLIENT_TOOL]


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeToolResults:
    """The unit that takes results, by the questions they answer. The same results once more are the same
    request; others for a call that has its result are refused."""

    results: Mapping[QuestionId, str]
    now: datetime
    request: NewRequest | None = None

    def unit(self, tx: Tx) -> SubmittedTurn:
        known = asked_before(tx, self.request)
        if known is not None:
            return known
        asked = self._questions(tx)
        turn = tx.turns.get(asked[0].turn)
        if turn is None:
            raise NotFound("The turn that asked for these results no longer exists.")
        self._check_all_there(tx, turn)
        fresh = [question for question in asked if question.open]
        person = None if turn.source is None else turn.source.person
        for question in fresh:
            text = storable(self.results[question.id])
            given = Answer(question=question.id, verdict=Verdict.REPLY, text=text, by=person)
            answer(tx, given, self.now)
        part = 1 + parts_before(tx.journal.of_turn(turn.id), asked[0].id)
        return SubmittedTurn(turn=turn, request=self._request(tx, turn, part), fresh=bool(fresh), part=part)

    def _questions(self, tx: Tx) -> list[Question]:
        found: list[Question] = []
        for ident, text in self.results.items():
            question = tx.questions.get(ident)
            if question is None or question.kind is not QuestionKind.CLIENT_TOOL:
                raise NotFound(f"No call {client_call_id(ident)} was made here.")
            if not question.open and (question.verdict, question.answer) != (Verdict.REPLY, storable(text)):
                raise TurnUnfinished(f"The call {client_call_id(ident)} waits for no result any more.")
            found.append(question)
        if len({question.turn for question in found}) > 1:
            raise UserError("These results belong to calls of different responses.")
        return found

    def _check_all_there(self, tx: Tx, turn: Turn) -> None:
        missing = [one for one in calls_open(tx, turn) if one.id not in self.results]
        if missing:
            raise UserError(f"There is no result for the call {client_call_id(missing[0].id)}.")

    def _request(self, tx: Tx, turn: Turn, part: int) -> Request | None:
        named = self.request
        if named is None:
            return None
        known = tx.requests.get(part_name(named.prefix, turn, part))
        return known or add_request(tx, named, turn, self.now, part=_suffix(part))
