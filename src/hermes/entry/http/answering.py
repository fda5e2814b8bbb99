"""Answers to what a turn asks, from the client that began it. The first valid answer counts; whoever comes
later is told the true state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hermes.control.questions import WORDS
from hermes.domain.event import QuestionKind, Verdict
from hermes.domain.ids import AgentId
from hermes.domain.turn import Answer, Question, Turn
from hermes.entry.http.door import Call
from hermes.entry.http.errors import ApiError, bad_request
from hermes.entry.http.keys import Scope

DECIDED = (QuestionKind.APPROVAL, QuestionKind.CONFIRM)
WORDED = (QuestionKind.CLARIFY,)
_CHOICES = {**WORDS, "allow": Verdict.ONCE, "approved": Verdict.ONCE, "denied": Verdict.DENY}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer to questions of some kinds: to the one with this id, to the oldest, or to `all` of them."""

    verdict: Verdict
    kinds: tuple[QuestionKind, ...] = DECIDED
    text: str = ""
    question: str | None = None
    all: bool = False


def read_choice(word: str) -> Verdict:
    """`once`, `session`, `always`, `deny`, or a word that means the same."""
    verdict = _CHOICES.get(word.strip().casefold())
    if verdict is None:
        raise bad_request(
            f"“{word[:40]}” is not a choice. There are: once, session, always, deny.", param="choice"
        )
    return verdict


async def answer_turn(call: Call, agent: AgentId, turn: Turn, reply: Reply) -> int:
    """How many questions the reply closed; an error that tells the true state if it closed none."""
    person = None if turn.source is None else turn.source.person
    if not owns(call, turn):
        raise ApiError(403, "not_allowed", "Only the key that began this run can answer its questions.")
    asked = await call.door.gateway.read(agent, lambda tx: tx.questions.of_turn(turn.id))
    closed, told = 0, ""
    for question in _meant(turn, asked, reply):
        given = Answer(question=question.id, verdict=reply.verdict, text=reply.text, by=person)
        outcome = await call.door.gateway.answer(agent, given)
        closed += outcome.closed
        told = told or outcome.text
    if not closed:
        raise ApiError(409, "approval_not_pending", told)
    return closed


def owns(call: Call, turn: Turn) -> bool:
    """Whether the client began the turn, or runs the place."""
    mine = turn.source is not None and turn.source.address.credential == call.credential
    return mine or call.principal.may(Scope.ADMIN)


def _meant(turn: Turn, asked: Sequence[Question], reply: Reply) -> list[Question]:
    if reply.question is not None:
        known = next((question for question in asked if question.id == reply.question), None)
        if known is None:
            raise ApiError(409, "approval_not_pending", "This run has asked no such question.")
        if known.kind not in reply.kinds:
            how = "…/clarify" if known.kind in WORDED else "…/approval"
            raise bad_request(f"This question is answered with POST {how}.", param="question_id")
        return [known]
    fitting = [question for question in asked if question.open and question.kind in reply.kinds]
    if not fitting and not turn.state.open:
        raise ApiError(409, "approval_not_active", "The run is over; nothing waits for an answer.")
    if not fitting:
        raise ApiError(409, "approval_not_pending", "The run waits for no answer of this kind now.")
    return fitting if reply.all else fitting[:1]
