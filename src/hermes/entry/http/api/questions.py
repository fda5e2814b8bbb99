"""`/v1/questions`: what turns wait for, and the way to answer. Approvals and clarifications alike; the first
valid answer counts, whoever comes later is told what became of the question."""

from __future__ import annotations

from typing import Annotated

import msgspec

from hermes.domain.ids import SessionId
from hermes.domain.ports.store import Tx
from hermes.entry.http.ask import questions
from hermes.entry.http.site.endpoint import HttpCall, route

MOST = 200


class QuestionList(msgspec.Struct, kw_only=True):
    """Open questions, the oldest first."""

    object: str = "list"
    data: list[questions.QuestionState]
    has_more: bool


@route("GET", "/v1/questions", "The open questions that wait for an answer.")
async def list_questions(
    call: HttpCall, limit: Annotated[int, msgspec.Meta(ge=1, le=MOST)] = 50, session_id: str | None = None
) -> QuestionList:
    wanted = None if session_id is None else SessionId(session_id)
    waiting: list[questions.TurnQuestion] = []

    def look(tx: Tx) -> list[questions.TurnQuestion]:
        """The open questions of one agent that a client may see, at most one more than wanted."""
        shown: list[questions.TurnQuestion] = []
        for question in tx.questions.open_of(wanted):
            turn = tx.turns.get(question.turn)
            if turn is not None and call.may_see(turn.source):
                entries = tx.journal.of_turn(turn.id)
                shown.append(questions.TurnQuestion(question=question, turn=turn, entries=entries))
            if len(shown) > limit:
                break
        return shown

    waiting = await call.collect(look)
    return QuestionList(data=[each.state for each in waiting[:limit]], has_more=len(waiting) > limit)


@route("GET", "/v1/questions/{question}", "One question, open or not, and what became of it.")
async def read_question(call: HttpCall) -> questions.QuestionState:
    return (await questions.find_question(call, call.part("question"))).state


@route("POST", "/v1/questions/{question}", "Answer a question.", refuses=(409,), example={"choice": "once"})
async def give_answer(call: HttpCall, body: questions.QuestionAnswer) -> questions.QuestionState:
    return await questions.answer_question(
        call, await questions.find_question(call, call.part("question")), body
    )
