"""Responses as they are stored: the terms they were asked on, and the turn whose records are the answer."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from hermes.control.doors import part_name
from hermes.control.sessions.submission import SubmittedTurn, id_for
from hermes.domain.event import Entry, QuestionKind, Verdict
from hermes.domain.ids import AgentId, CallId, client_call_id
from hermes.domain.ports.store import Tx
from hermes.domain.turn import EarlierMessage, Request, Speaker, Turn, TurnState
from hermes.entry.http.api.response_inputs import KeptItem, as_items
from hermes.entry.http.ask.continuing import run_name
from hermes.entry.http.site.call import HttpCall
from hermes.entry.http.site.errors import not_found
from hermes.entry.http.site.keys import KeyScope
from hermes.stream.faces.response_shape import ConversationName, FunctionTool, ResponseObject
from hermes.stream.faces.responses import ResponseFold, parts_before

PREFIX = "resp_"


class ResponseTerms(msgspec.Struct, kw_only=True):
    """How a response was asked for: what is kept of the request beside the turn itself."""

    model: str
    instructions: str | None = None
    metadata: dict[str, str] = {}
    tools: list[FunctionTool] = []
    tool_choice: str = "auto"
    parallel_tool_calls: bool = True
    previous_response_id: str | None = None
    conversation: str | None = None
    background: bool = False
    store: bool = True
    truncation: str = "disabled"
    user: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResponse:
    """A response that a client may see: whose it is, how it was asked for, and the turn behind it."""

    agent: AgentId
    turn: Turn
    terms: ResponseTerms
    name: str
    created_at: int
    part: int = 1

    def fold(self) -> ResponseFold:
        terms = self.terms
        before = part_name(PREFIX, self.turn, self.part - 1) if self.part > 1 else None
        named = terms.conversation
        facts = {name: getattr(terms, name) for name in ResponseTerms.__struct_fields__}
        facts["previous_response_id"] = terms.previous_response_id or before
        facts["conversation"] = None if named is None else ConversationName(id=named)
        blank = ResponseObject(id=self.name, created_at=self.created_at, **facts)
        return ResponseFold(blank, run=run_name(self.turn), session=self.turn.session, part=self.part)


async def find_response(call: HttpCall, name: str) -> StoredResponse:
    """A stored response that this client may see."""

    def look(tx: Tx) -> tuple[Request, Turn] | None:
        request = tx.requests.get(name) if name.startswith(PREFIX) else None
        turn = None if request is None else tx.turns.get(request.turn)
        if request is None or turn is None or not read_terms(request).store:
            return None
        mine = request.owner == call.principal.name or call.principal.may(KeyScope.SESSIONS)
        return (request, turn) if mine else None

    agent, (request, turn) = await call.find(look, not_found("response", name, "response_not_found"))
    return as_stored(agent, SubmittedTurn(turn=turn, request=request), read_terms(request))


def as_stored(agent: AgentId, submitted: SubmittedTurn, terms: ResponseTerms) -> StoredResponse:
    turn, request = submitted.turn, submitted.request
    name = part_name(PREFIX, turn, submitted.part) if request is None else request.id
    made = turn.created_at if request is None else request.created_at
    number = name.removeprefix(id_for(PREFIX, turn.id)).removeprefix("_")
    return StoredResponse(
        agent=agent,
        turn=turn,
        terms=terms if request is None else read_terms(request),
        name=name,
        created_at=int(made.timestamp()),
        part=int(number or 1),
    )


def read_terms(request: Request) -> ResponseTerms:
    return msgspec.json.decode(request.facts, type=ResponseTerms)


async def restarted_after(call: HttpCall, stored: StoredResponse) -> int:
    """The last record from before the turn was started again."""

    def look(tx: Tx) -> int:
        turn = tx.turns.get(stored.turn.id)
        entries = tx.journal.of_turn(stored.turn.id)
        return entries[-1].seq - turn.progress if turn is not None and turn.attempt > 1 and entries else 0

    return await call.gateway.read(stored.agent, look)


async def read_now(call: HttpCall, stored: StoredResponse) -> ResponseObject:
    """The response as far as it has come."""

    def look(tx: Tx) -> tuple[Turn | None, list[Entry]]:
        return tx.turns.get(stored.turn.id), tx.journal.of_turn(stored.turn.id)

    turn, entries = await call.gateway.read(stored.agent, look)
    fold = stored.fold()
    for entry in entries:
        fold.see(entry)
    response = fold.response()
    if turn is not None and turn.state is TurnState.ACCEPTED:
        response.status = "queued"
    return response


def input_items(tx: Tx, stored: StoredResponse) -> list[KeptItem]:
    """What a response was asked with: words, or the results of the client's functions."""
    name = stored.name.removeprefix(PREFIX)
    if stored.part == 1:
        given = stored.turn.input
        now = EarlierMessage(by=Speaker.USER, text=given.text, attachments=given.attachments)
        return as_items([*given.guidance.history, now], name)
    entries = tx.journal.of_turn(stored.turn.id)
    results = [
        EarlierMessage(by=Speaker.TOOL, text=question.answer, call=CallId(client_call_id(question.id)))
        for question in tx.questions.of_turn(stored.turn.id)
        if question.kind is QuestionKind.CLIENT_TOOL
        and question.verdict is Verdict.REPLY
        and parts_before(entries, question.id) == stored.part - 1
    ]
    return as_items(results, name)
