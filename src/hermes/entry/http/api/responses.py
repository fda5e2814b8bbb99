"""`/v1/responses`: an agent behind the Responses API. A response is a turn, or a part of one: a turn that
calls functions of the client ends one response where it asks, and the results begin the next.

What is stored is only how it was asked for; the answer is read off the turn's records each time. A stored
response goes on without its client and can be joined again; one that is not stored ends with its client."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from hashlib import sha256
from typing import Annotated, Any, Literal

import msgspec
from aiohttp import web
from msgspec import Struct

from hermes.control.doors.continuing import TakeToolResults, calls_open, part_name
from hermes.control.sessions.submission import SubmittedTurn, TurnUnfinished, id_for
from hermes.domain.event import Entry, FeedItem, QuestionKind, Verdict
from hermes.domain.ids import AgentId, CallId, QuestionId, client_call_id, question_of_call
from hermes.domain.ports.store import Tx
from hermes.domain.turn import EarlierMessage, Request, Speaker, Turn, TurnState
from hermes.domain.word import replace
from hermes.entry.http.api import response_inputs
from hermes.entry.http.ask import turns
from hermes.entry.http.ask.addressee import AgentChoice, find_addressee, pick_agent
from hermes.entry.http.ask.messages import ChatMessage, ConversationInput, check_choice, read_offers
from hermes.entry.http.ask.questions import read_entries
from hermes.entry.http.site.admission import KeyScope
from hermes.entry.http.site.endpoint import LONGEST_NAME, HttpCall, as_json, route
from hermes.entry.http.site.errors import ApiError, bad_request, not_found
from hermes.entry.http.site.headers import IDEMPOTENCY
from hermes.stream.faces.response_shape import ConversationName, FunctionTool, ResponseObject
from hermes.stream.faces.responses import ResponseEvents, ResponseFold, parts_before

PREFIX = "resp_"
CANCELLED = "cancelled by the client"
_CANCEL_SECONDS = 10.0
_MOST_METADATA, _LONGEST_KEY, _LONGEST_VALUE = 16, 64, 512


class ResponseRequest(msgspec.Struct, kw_only=True):
    """What is said, what it goes on from, and how the answer is wanted. Sampling options, `text.format`,
    `reasoning` and `include` are the agent's own business and ignored."""

    input: str | list[response_inputs.InputItem]
    model: str | None = None
    instructions: str | None = None
    previous_response_id: str | None = None
    conversation: str | ConversationName | None = None
    conversation_history: list[ChatMessage] | None = None
    store: bool | None = None
    stream: bool | None = None
    background: bool | None = None
    truncation: Literal["auto", "disabled"] | None = None
    metadata: dict[str, str] | None = None
    tools: list[response_inputs.ClientToolSpec] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    user: str | None = None


class InputItemList(msgspec.Struct, kw_only=True):
    """Items of an input."""

    object: str = "list"
    data: list[response_inputs.KeptItem]
    first_id: str | None
    last_id: str | None
    has_more: bool


class ResponseDeleted(msgspec.Struct, kw_only=True):
    """What is gone."""

    id: str
    object: str = "response.deleted"
    deleted: bool = True


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


class StoredResponse(Struct, frozen=True, kw_only=True):
    """A response that a client may see: whose it is, how it was asked for, and the turn behind it."""

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
        return ResponseFold(blank, run=turns.run_name(self.turn), session=self.turn.session, part=self.part)


# --- asking ----------------------------------------------------------------------------------------


@route(
    "POST",
    "/v1/responses",
    "Say something to an agent, and get a response that can be gone on from.",
    headers=turns.ASKING,
    returns=turns.TURN_HEADERS,
    refuses=(404, 409, 422),
    example={"model": "hermes-agent", "input": "What can you do?"},
)
async def respond(call: HttpCall, body: ResponseRequest) -> ResponseObject | web.StreamResponse:
    _check(body)
    before = (
        None if body.previous_response_id is None else await find_response(call, body.previous_response_id)
    )
    conversation = response_inputs.read_input(
        body.input, body.conversation_history or (), cut=body.truncation == "auto"
    )
    chain = _conversation_name(body)
    choice = await _pick(call, body, before, conversation)
    terms = await _terms(call, body, choice, chain, before)
    tools = read_offers(terms.tools)
    conversation = replace(
        conversation.instructed(terms.instructions), tools=() if terms.tool_choice == "none" else tools
    )
    submitted = (
        await _bring(call, choice.agent, conversation, terms, before) if conversation.results else None
    )
    if submitted is None:
        await _check_nothing_is_owed(call, choice.agent, chain, before)
        options = turns.TurnOptions(
            prefix=PREFIX,
            lasting=terms.store,
            named=terms.store,
            after=None if before is None else before.turn.id,
            session=None if chain is None else _session_of(call, choice.agent, chain),
            conversation=chain if terms.store else None,
            facts=msgspec.json.encode(terms).decode(),
            keep=call.gateway.keeps if terms.store else turns.FORGET_AFTER,
        )
        submitted = await turns.ask(call, choice, conversation, options)
    stored = as_stored(submitted, terms)
    hangs = not terms.store and call.name_header(IDEMPOTENCY) is None
    async with turns.while_connected(call, replace(stored.turn, ephemeral=hangs)):
        if body.stream:
            return await _stream(call, stored, None)
        response = await (read_now if terms.background else _whole)(call, stored)
        return as_json(response, headers=turns.turn_headers(call, stored.turn))


def _check(body: ResponseRequest) -> None:
    if body.previous_response_id is not None and body.conversation is not None:
        raise bad_request(
            "Give previous_response_id or conversation, not both.", param="previous_response_id"
        )
    chained = body.previous_response_id is not None or body.conversation is not None
    if body.conversation_history and chained:
        raise bad_request(
            "conversation_history is for a conversation that is not stored here: leave it out, or"
            " previous_response_id and conversation.",
            param="conversation_history",
        )
    if body.background and body.store is False:
        raise bad_request("A response in the background must be stored.", param="background")
    check_choice(body.tool_choice)
    metadata = body.metadata or {}
    if len(metadata) > _MOST_METADATA or any(
        len(key) > _LONGEST_KEY or len(value) > _LONGEST_VALUE for key, value in metadata.items()
    ):
        raise bad_request(
            f"metadata has at most {_MOST_METADATA} entries, keys of {_LONGEST_KEY} and values of"
            f" {_LONGEST_VALUE} characters.",
            param="metadata",
        )


async def _pick(
    call: HttpCall, body: ResponseRequest, before: StoredResponse | None, conversation: ConversationInput
) -> AgentChoice:
    if before is None:
        chain = _conversation_name(body)

        def session(agent: AgentId) -> str | None:
            return None if chain is None else _session_of(call, agent, chain)

        return await find_addressee(
            call, body.model, conversation.text, session=session, results=conversation.asked
        )
    choice = pick_agent(call, before.terms.model if body.model is None else body.model)
    if choice.named and body.model is not None and choice.agent != before.turn.agent:
        raise bad_request("The previous response is another agent's.", param="model")
    return replace(choice, agent=before.turn.agent)


def _conversation_name(body: ResponseRequest) -> str | None:
    given = body.conversation
    name = given.id if isinstance(given, ConversationName) else given
    if name is not None and not (name.strip() and len(name) <= LONGEST_NAME):
        raise bad_request(f"A conversation's id is 1 to {LONGEST_NAME} characters.", param="conversation")
    return name


def _session_of(call: HttpCall, agent: AgentId, conversation: str) -> str:
    """A conversation is a session that its name leads to, for each key its own."""
    parts = "\n".join((call.principal.name, agent, conversation))
    return f"conv_{sha256(parts.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"


async def _terms(
    call: HttpCall,
    body: ResponseRequest,
    choice: AgentChoice,
    chain: str | None,
    before: StoredResponse | None,
) -> ResponseTerms:
    instructions = body.instructions
    if instructions is None and before is not None:
        instructions = before.terms.instructions
    elif instructions is None and chain is not None:
        owner = call.principal.name
        latest = await call.gateway.read(choice.agent, lambda tx: tx.requests.latest(owner, chain))
        instructions = None if latest is None else read_terms(latest).instructions
    given = {name: getattr(body, name) for name in ResponseTerms.__struct_fields__}
    given |= {
        "model": choice.name,
        "instructions": instructions,
        "tools": response_inputs.read_functions(body.tools or ()),
        "conversation": chain,
    }
    return ResponseTerms(**{name: value for name, value in given.items() if value is not None})


# --- results of the client's functions -------------------------------------------------------------


async def _bring(
    call: HttpCall,
    agent: AgentId,
    conversation: ConversationInput,
    terms: ResponseTerms,
    before: StoredResponse | None,
) -> SubmittedTurn | None:
    """Go on with the turn that asked for these results; None if it was another program's model that did."""

    def look(tx: Tx) -> dict[QuestionId, str]:
        mine: dict[QuestionId, str] = {}
        for ident, text in conversation.asked.items():
            question = tx.questions.get(ident)
            turn = None if question is None else tx.turns.get(question.turn)
            if turn is not None and call.owns(turn.source):
                mine[ident] = text
        return mine

    results = await call.gateway.read(agent, look)
    for result in conversation.results if before is not None else ():
        if question_of_call(result.call or "") not in results:
            raise bad_request(f"No call {(result.call or '')[:80]} was made there.", param="input")
    if not results:
        return None
    options = turns.TurnOptions(
        prefix=PREFIX,
        named=terms.store,
        conversation=terms.conversation,
        facts=msgspec.json.encode(terms).decode(),
    )
    bringing = TakeToolResults(
        results=results, now=call.site.clock.now(), request=await turns.idempotent_request(call, options)
    )
    try:
        return await turns.finish_shielded(call.gateway.go_on(agent, bringing.unit))
    except TurnUnfinished:
        if before is not None or terms.conversation is not None:
            raise
        # It came too late, but with all that was said before: that can be told to the model anew.
        return None


async def _check_nothing_is_owed(
    call: HttpCall, agent: AgentId, chain: str | None, before: StoredResponse | None
) -> None:
    """Whoever was asked for results gives them first."""
    owner = call.principal.name

    def look(tx: Tx) -> str | None:
        turn = None if before is None else tx.turns.get(before.turn.id)
        if chain is not None:
            latest = tx.requests.latest(owner, chain)
            turn = None if latest is None else tx.turns.get(latest.turn)
        owed = [] if turn is None else calls_open(tx, turn)
        return client_call_id(owed[0].id) if owed else None

    owed = await call.gateway.read(agent, look) if chain or before else None
    if owed is not None:
        raise bad_request(f"There is no result for the call {owed}. Send it first.", param="input")


# --- telling ---------------------------------------------------------------------------------------


async def _stream(call: HttpCall, stored: StoredResponse, after: int | None) -> web.StreamResponse:
    events = ResponseEvents(stored.fold(), after=after)
    feed = call.watch(stored.turn) if after is None else _resumed(call, stored, events)
    stream = await turns.stream_turn(
        call, stored.turn, feed, events.see, first=events.start(), ended=lambda: events.ended
    )
    return stream.response


async def _resumed(
    call: HttpCall, stored: StoredResponse, events: ResponseEvents
) -> AsyncGenerator[FeedItem]:
    """For a client that comes back: what may have been lost is looked up once something is seen, for right
    after a crash the turn has yet to be started again."""
    looked_up = False
    async with contextlib.aclosing(call.watch(stored.turn)) as feed:
        async for item in feed:
            if not looked_up:
                events.since, looked_up = await restarted_after(call, stored), True
            yield item


async def _whole(call: HttpCall, stored: StoredResponse) -> ResponseObject:
    """The response when it has come to its end, or waits for somebody."""
    fold = stored.fold()

    def is_settled(entries: list[Entry]) -> bool:
        fold.see(entries[-1])
        return fold.done or fold.waits

    await read_entries(call.watch(stored.turn, live=False), is_settled)
    return fold.response()


async def _stop(call: HttpCall, stored: StoredResponse) -> bool:
    """Stop the turn, if it is this response that it works on now."""
    now = await read_now(call, stored)
    if now.status not in ("queued", "in_progress") and now.hermes is msgspec.UNSET:
        return False
    return await turns.finish_shielded(call.gateway.stop_turn(stored.turn.agent, stored.turn.id, CANCELLED))


# --- coming back -----------------------------------------------------------------------------------


@route(
    "GET", "/v1/responses/{response_id}", "A stored response as it is now, or its events from any of them on."
)
async def read_response(
    call: HttpCall, stream: bool = False, starting_after: Annotated[int, msgspec.Meta(ge=0)] | None = None
) -> ResponseObject | web.StreamResponse:
    """`starting_after` is the number of the last event that the client has."""
    stored = await find_response(call, call.part("response_id"))
    if stream:
        return await _stream(call, stored, starting_after)
    return await read_now(call, stored)


@route("DELETE", "/v1/responses/{response_id}", "Forget a response, and stop it if it still runs.")
async def delete_response(call: HttpCall) -> ResponseDeleted:
    stored = await find_response(call, call.part("response_id"))
    await _stop(call, stored)
    await call.gateway.write(stored.turn.agent, lambda tx: tx.requests.remove(stored.name))
    return ResponseDeleted(id=stored.name)


@route("POST", "/v1/responses/{response_id}/cancel", "Stop a response; one that has ended is only shown.")
async def cancel_response(call: HttpCall) -> ResponseObject:
    stored = await find_response(call, call.part("response_id"))
    if await _stop(call, stored):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CANCEL_SECONDS):
                await read_entries(call.watch(stored.turn, live=False))
    return await read_now(call, stored)


@route("GET", "/v1/responses/{response_id}/input_items", "What a response was asked with, item by item.")
async def list_input_items(
    call: HttpCall,
    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = 20,
    after: str | None = None,
    order: Literal["asc", "desc"] = "desc",
) -> InputItemList:
    stored = await find_response(call, call.part("response_id"))
    items = await call.gateway.read(stored.turn.agent, lambda tx: input_items(tx, stored))
    if order == "desc":
        items.reverse()
    if after is not None:
        places = [place for place, item in enumerate(items, 1) if item.id == after]
        if not places:
            raise ApiError(400, "invalid_request", f"There is no item “{after[:80]}”.", param="after")
        items = items[places[0] :]
    shown = items[:limit]
    return InputItemList(
        data=shown,
        first_id=shown[0].id if shown else None,
        last_id=shown[-1].id if shown else None,
        has_more=len(items) > len(shown),
    )


# --- as it is stored ---


async def find_response(call: HttpCall, name: str) -> StoredResponse:
    """A stored response that this client may see."""

    def look(tx: Tx) -> tuple[Request, Turn] | None:
        request = tx.requests.get(name) if name.startswith(PREFIX) else None
        turn = None if request is None else tx.turns.get(request.turn)
        if request is None or turn is None or not read_terms(request).store:
            return None
        mine = request.owner == call.principal.name or call.principal.may(KeyScope.SESSIONS)
        return (request, turn) if mine else None

    request, turn = await call.find(look, not_found("response", name, "response_not_found"))
    return as_stored(SubmittedTurn(turn=turn, request=request), read_terms(request))


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
    fold = stored.fold()
    for entry in entries:
        fold.see(entry)
    response = fold.response()
    if turn is not None and turn.state is TurnState.ACCEPTED:
        response.status = "queued"
    return response


def input_items(tx: Tx, stored: StoredResponse) -> list[response_inputs.KeptItem]:
    """What a response was asked with: words, or the results of the client's functions."""
    name = stored.name.removeprefix(PREFIX)
    if stored.part == 1:
        given = stored.turn.input
        now = EarlierMessage(by=Speaker.USER, text=given.text, attachments=given.attachments)
        return response_inputs.as_items([*given.guidance.history, now], name)
    entries = tx.journal.of_turn(stored.turn.id)
    results = [
        EarlierMessage(by=Speaker.TOOL, text=question.answer, call=CallId(client_call_id(question.id)))
        for question in tx.questions.of_turn(stored.turn.id)
        if question.kind is QuestionKind.CLIENT_TOOL
        and question.verdict is Verdict.REPLY
        and parts_before(entries, question.id) == stored.part - 1
    ]
    return response_inputs.as_items(results, name)
