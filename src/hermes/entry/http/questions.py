"""`/v1/questions`: what turns wait for, and the way to answer. Approvals and clarifications alike; the first
valid answer counts, whoever comes later is told what became of the question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec

from hermes.domain.ids import AgentId, SessionId
from hermes.domain.ports import Tx
from hermes.entry.http.answering import (
    Found,
    QuestionAnswer,
    QuestionState,
    answer_question,
    find_question,
)
from hermes.entry.http.door import Call, Wire, route

MOST = 200


class QuestionQuery(msgspec.Struct, kw_only=True):
    """How many at most, and of which session."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST)] = 50
    session_id: str | None = None


class QuestionList(msgspec.Struct, kw_only=True):
    """Open questions, the oldest first."""

    object: str = "list"
    data: list[QuestionState]
    has_more: bool


@route("GET", "/v1/questions", "The open questions that wait for an answer.")
async def list_questions(call: Call, query: QuestionQuery) -> QuestionList:
    found: list[Found] = []
    for agent in call.agents:
        found += await call.door.gateway.read(agent, _Looking(call=call, agent=agent, query=query).look)
    shown = [one.state for one in found[: query.limit]]
    return QuestionList(data=shown, has_more=len(found) > query.limit)


@route("GET", "/v1/questions/{question}", "One question, open or not, and what became of it.")
async def read_question(call: Call) -> QuestionState:
    return (await find_question(call, call.part("question"))).state


@route(
    "POST",
    "/v1/questions/{question}",
    "Answer a question.",
    wire=Wire(refuses=(409,), example={"choice": "once"}),
)
async def give_answer(call: Call, body: QuestionAnswer) -> QuestionState:
    return await answer_question(call, await find_question(call, call.part("question")), body)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Looking:
    """The open questions of one agent that a client may see: one more than wanted, to know if there are."""

    call: Call
    agent: AgentId
    query: QuestionQuery

    def look(self, tx: Tx) -> list[Found]:
        found: list[Found] = []
        named = self.query.session_id
        wanted = None if named is None else SessionId(named)
        for question in tx.questions.open_of(wanted):
            turn = tx.turns.get(question.turn)
            if turn is None or not self.call.may_see(turn.source):
                continue
            entries = tx.journal.of_turn(turn.id)
            found.append(Found(agent=self.agent, question=question, turn=turn, entries=entries))
            if len(found) > self.query.limit:
                break
        return found
