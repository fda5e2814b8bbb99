"""Responses as they are stored: how each was asked for, and the turn behind it, or the part of the turn. The
answer is read off the turn's records each time, and so are its items, which a later input may name by their
ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from hermes.control.doors.continuing import part_name
from hermes.control.sessions.repeats import SubmittedTurn, id_for
from hermes.control.sessions.submission import NotFound
from hermes.domain.errors import UserError
from hermes.domain.ids import CallId, client_call_id
from hermes.domain.ports.store import Tx
from hermes.domain.turns.event import Entry, QuestionKind, Verdict
from hermes.domain.turns.turn import EarlierMessage, Request, Speaker, Turn, TurnState
from hermes.domain.word import replace
from hermes.entry.http.api.responses import inputs
from hermes.entry.http.ask import turns
from hermes.entry.http.ask.questions import find_question
from hermes.entry.http.site.admission import KeyScope
from hermes.entry.http.site.endpoint import HttpCall
from hermes.entry.http.site.errors import ApiError, not_found
from hermes.stream.faces.responses.fold import ResponseFold, parts_asked, parts_before
from hermes.stream.faces.responses.shape import (
    APPROVAL_PREFIX,
    ConversationName,
    FunctionTool,
    OutputItem,
    ReasoningOptions,
    ResponseObject,
    TextOptions,
)

PREFIX = "resp_"
_LONGEST_PART = 7


class ResponseTerms(msgspec.Struct, kw_only=True):
    """How a response was asked for: what is kept of the request beside the turn itself, under the names that
    the response has for it."""

    model: str
    instructions: str | None = None
    metadata: dict[str, str] = {}
    tools: list[FunctionTool] = []
    tool_choice: str | dict[str, Any] = "auto"
    parallel_tool_calls: bool = True
    previous_response_id: str | None = None
    conversation: str | None = None
    background: bool = False
    store: bool = True
    truncation: str = "disabled"
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    text: TextOptions = msgspec.field(default_factory=TextOptions)
    reasoning: ReasoningOptions = msgspec.field(default_factory=ReasoningOptions)
    max_output_tokens: int | None = None
    temperature: float = 1.0
    top_p: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0


class StoredResponse(Struct, frozen=True, kw_only=True):
    """A response that a client may see: whose it is, how it was asked for, and the turn behind it."""

    turn: Turn
    terms: ResponseTerms
    name: str
    created_at: int
    part: int = 1

    def fold(self, call: HttpCall) -> ResponseFold:
        terms = self.terms
        before = part_name(PREFIX, self.turn, self.part - 1) if self.part > 1 else None
        named = terms.conversation
        facts = {name: getattr(terms, name) for name in ResponseTerms.__struct_fields__}
        facts["previous_response_id"] = before or terms.previous_response_id
        facts["conversation"] = None if named is None else ConversationName(id=named)
        blank = ResponseObject(id=self.name, created_at=self.created_at, **facts)
        return ResponseFold(
            blank,
            run=turns.run_name(self.turn),
            session=self.turn.session,
            part=self.part,
            detailed=call.principal.may(KeyScope.ADMIN),
            approval_items=call.site.options.approval_items,
        )


async def find_response(call: HttpCall, name: str) -> StoredResponse:
    """A stored response that this client may see."""

    def look(tx: Tx) -> tuple[Request, Turn] | None:
        request = _find_request(tx, name)
        turn = None if request is None else tx.turns.get(request.turn)
        if request is None or turn is None or not read_terms(request).store:
            return None
        mine = request.owner == call.principal.name or call.principal.may(KeyScope.SESSIONS)
        return (request, turn) if mine else None

    request, turn = await call.find(look, not_found("response", name, "response_not_found"))
    return as_stored(SubmittedTurn(turn=turn, request=request), read_terms(request))


def _find_request(tx: Tx, name: str) -> Request | None:
    """The request for a response. One that waited for a person goes on when somebody else answers, too:
    then nobody has asked for what follows, and it belongs to the request for what came before."""
    request = tx.requests.get(name) if name.startswith(PREFIX) else None
    before, _, part = name.rpartition("_")
    if request is not None or not (part.isascii() and part.isdigit() and len(part) < _LONGEST_PART):
        return request
    asked = tx.requests.get(before) if before.startswith(PREFIX) else None
    if asked is None or parts_asked(tx.journal.of_turn(asked.turn)) < int(part) - 1:
        return None
    return replace(asked, id=name) if int(part) > 1 else None


def forget_response(tx: Tx, stored: StoredResponse) -> None:
    if tx.requests.get(stored.name) is None:
        before = part_name(PREFIX, stored.turn, stored.part - 1)
        raise UserError(f"{stored.name} only goes on from {before}.", hint="Delete that one.")
    tx.requests.remove(stored.name)


def as_stored(submitted: SubmittedTurn, terms: ResponseTerms) -> StoredResponse:
    turn, request = submitted.turn, submitted.request
    name = part_name(PREFIX, turn, submitted.part) if request is None else request.id
    made = turn.created_at if request is None else request.created_at
    number = name.removeprefix(id_for(PREFIX, turn.id)).removeprefix("_")
    return StoredResponse(
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

    return await call.gateway.read(stored.turn.agent, look)


async def read_now(call: HttpCall, stored: StoredResponse) -> ResponseObject:
    """The response as far as it has come."""

    def look(tx: Tx) -> tuple[Turn | None, list[Entry]]:
        return tx.turns.get(stored.turn.id), tx.journal.of_turn(stored.turn.id)

    turn, entries = await call.gateway.read(stored.turn.agent, look)
    fold = stored.fold(call)
    for entry in entries:
        fold.see(entry)
    response = fold.response()
    if turn is not None and turn.state is TurnState.ACCEPTED:
        response.status = "queued"
    return response


def input_items(tx: Tx, stored: StoredResponse) -> list[inputs.KeptItem]:
    """What a response was asked with: words, or the results of the client's functions."""
    name = stored.name.removeprefix(PREFIX)
    if stored.part == 1:
        given = stored.turn.input
        now = EarlierMessage(by=Speaker.USER, text=given.text, attachments=given.attachments)
        return inputs.as_items([*given.guidance.history, now], name)
    entries = tx.journal.of_turn(stored.turn.id)
    results = [
        EarlierMessage(by=Speaker.TOOL, text=question.answer, call=CallId(client_call_id(question.id)))
        for question in tx.questions.of_turn(stored.turn.id)
        if question.kind is QuestionKind.CLIENT_TOOL
        and question.verdict is Verdict.REPLY
        and parts_before(entries, question.id) == stored.part - 1
    ]
    return inputs.as_items(results, name)


# --- items by their ids ---


async def resolve_items(
    call: HttpCall, given: str | Sequence[inputs.InputItem]
) -> str | list[inputs.InputItem]:
    """The input with what its references mean."""
    if isinstance(given, str):
        return given
    shelves: dict[str, dict[str, OutputItem | inputs.KeptItem]] = {}
    items: list[inputs.InputItem] = []
    for place, item in enumerate(given):
        if item.kind != "item_reference":
            items.append(item)
            continue
        ident = item.id or ""
        missing = ApiError(
            404,
            "item_not_found",
            f"There is no item “{ident[:80]}” here. Send the item itself.",
            param=f"input[{place}].id",
        )
        if ident.startswith(APPROVAL_PREFIX):
            try:
                await find_question(call, ident.removeprefix(APPROVAL_PREFIX))
            except NotFound:
                raise missing from None
            items.append(inputs.InputItem(id=ident, type="mcp_approval_request"))
            continue
        shelf = ident.partition("_")[2].rpartition("_")[0]
        if shelf not in shelves:
            shelves[shelf] = await _items_of(call, PREFIX + shelf, missing)
        if ident not in shelves[shelf]:
            raise missing
        stored = msgspec.to_builtins(shelves[shelf][ident])
        items.append(msgspec.convert(stored, inputs.InputItem))
    return items


async def _items_of(call: HttpCall, name: str, missing: ApiError) -> dict[str, OutputItem | inputs.KeptItem]:
    """The items of a response by their ids: what it was asked with, and what it gave."""
    try:
        stored = await find_response(call, name)
    except ApiError:
        raise missing from None
    given = await call.gateway.read(stored.turn.agent, lambda tx: input_items(tx, stored))
    made = (await read_now(call, stored)).output
    return {item.id: item for item in (*given, *made)}
