"""`/v1/responses`: an agent behind the Responses API. A response is a turn, or a part of one: a turn that
asks its client (for results, an approval, an answer) ends one response there, and the answer begins the next.

What is stored is only how it was asked for; the answer is read off the turn's records each time. A stored
response goes on without its client and can be joined again; one that is not stored ends with its client."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from datetime import datetime
from hashlib import sha256
from typing import Annotated, Literal

import msgspec
from aiohttp import web

from hermes.domain.ids import AgentId
from hermes.domain.turns.event import Entry, FeedItem
from hermes.domain.word import replace
from hermes.entry.http.api.responses import inputs
from hermes.entry.http.api.responses.answers import Continuation
from hermes.entry.http.api.responses.request import (
    ReasoningWishes,
    ResponseRequest,
    TextForm,
    check_request,
    conversation_name,
    read_options,
)
from hermes.entry.http.api.responses.stored import (
    PREFIX,
    ResponseTerms,
    StoredResponse,
    as_stored,
    find_response,
    forget_response,
    input_items,
    read_now,
    read_terms,
    resolve_items,
    restarted_after,
)
from hermes.entry.http.ask import turns
from hermes.entry.http.ask.addressee import AgentChoice, find_addressee, pick_agent
from hermes.entry.http.ask.failures import failure_error
from hermes.entry.http.ask.messages import read_offers
from hermes.entry.http.ask.options import read_choice
from hermes.entry.http.ask.questions import read_entries
from hermes.entry.http.site.endpoint import HttpCall, as_json, route
from hermes.entry.http.site.errors import ApiError, bad_request
from hermes.entry.http.site.headers import IDEMPOTENCY
from hermes.stream.faces.responses.fold import ResponseFold
from hermes.stream.faces.responses.numbers import ResponseEvents
from hermes.stream.faces.responses.shape import ReasoningOptions, ResponseObject, TextOptions
from hermes.stream.fold.failures import is_lost

CANCELLED = "cancelled by the client"
_ONE = "/v1/responses/{response_id:resp_[^/]+}"
_CANCEL_SECONDS = 10.0


class InputItemList(msgspec.Struct, kw_only=True):
    """Items of an input."""

    object: str = "list"
    data: list[inputs.KeptItem]
    first_id: str | None
    last_id: str | None
    has_more: bool


class ResponseDeleted(msgspec.Struct, kw_only=True):
    """What is gone."""

    id: str
    object: str = "response.deleted"
    deleted: bool = True


# --- asking ----------------------------------------------------------------------------------------


@route(
    "POST",
    "/v1/responses",
    "Say something to an agent, and get a response that can be gone on from.",
    headers=turns.ASKING,
    returns=turns.TURN_HEADERS,
    refuses=turns.REFUSES,
    example={"model": "hermes-agent", "input": "What can you do?"},
)
async def respond(call: HttpCall, body: ResponseRequest) -> ResponseObject | web.StreamResponse:
    check_request(body)
    before = (
        None if body.previous_response_id is None else await find_response(call, body.previous_response_id)
    )
    items = await resolve_items(call, body.input)
    chain = conversation_name(body)
    given = inputs.read_input(
        items,
        body.conversation_history or (),
        cut=body.truncation == "auto",
        chained=before is not None or chain is not None,
    )
    choice = await _pick(call, body, before, given)
    if choice.task and (chain is not None or before is not None):
        named = "conversation" if before is None else "previous_response_id"
        why = f"{choice.name} goes on from nothing: leave out {named}, or name the agent itself."
        raise bad_request(why, param=named)
    terms = await _terms(call, body, choice, chain, before)
    chosen = read_choice(body.tool_choice, read_offers(terms.tools))
    conversation = replace(
        given.conversation.instructed(terms.instructions),
        tools=chosen.tools,
        options=read_options(body, chosen.must_call),
    )
    given = replace(given, conversation=conversation)
    continuing = Continuation(
        call=call, agent=choice.agent, given=given, terms=terms, before=before, chain=chain
    )
    options = turns.TurnOptions(
        prefix=PREFIX,
        lasting=terms.store,
        named=terms.store,
        after=None if before is None else before.turn.id,
        session=None if chain is None else _session_of(call, choice.agent, chain),
        conversation=chain if terms.store else None,
        facts=msgspec.json.encode(terms).decode(),
        keep=call.gateway.keeps if terms.store else turns.FORGET_AFTER,
        retried=True,
        raises=not terms.background,
        said_in="input",
    )
    submitted = None if choice.task else await continuing.bring()
    continued = submitted is not None
    if submitted is None:
        submitted = await turns.ask(call, choice, conversation, options)
    stored = as_stored(submitted, terms)
    hangs = not terms.store and call.name_header(IDEMPOTENCY) is None
    async with turns.while_connected(call, replace(stored.turn, ephemeral=hangs)):
        if body.stream:
            return await _stream(call, stored, None)
        if terms.background:
            response = await read_now(call, stored)
            return as_json(response, headers=turns.turn_headers(call, stored.turn))
        fold = await _whole(call, stored)
        if not continued and is_lost(fold.end):
            # What continued a turn is known again by the answer that it brought.
            await turns.keep_failure(call, submitted, options)
        return _as_answer(call, stored, fold, submitted.failed_at)


async def _pick(
    call: HttpCall,
    body: ResponseRequest,
    before: StoredResponse | None,
    given: inputs.ReadInput,
) -> AgentChoice:
    if before is None:
        chain = conversation_name(body)

        def session(agent: AgentId) -> str | None:
            return None if chain is None else _session_of(call, agent, chain)

        return await find_addressee(
            call,
            body.model,
            given.conversation.text,
            session=session,
            results=(*given.asked, *given.approvals, *filter(None, (given.conversation.answers,))),
        )
    choice = pick_agent(call, before.terms.model if body.model is None else body.model)
    if choice.named and body.model is not None and choice.agent != before.turn.agent:
        raise bad_request("The previous response is another agent's.", param="model")
    return replace(choice, agent=before.turn.agent)


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
        "tools": inputs.read_functions(body.tools or ()),
        "conversation": chain,
        "text": None if body.text is None else _as_text_options(body.text),
        "reasoning": None if body.reasoning is None else _as_reasoning(body.reasoning),
    }
    return ResponseTerms(**{name: value for name, value in given.items() if value is not None})


def _as_text_options(asked: TextForm) -> TextOptions:
    return TextOptions(format=asked.format or {"type": "text"}, verbosity=asked.verbosity)


def _as_reasoning(asked: ReasoningWishes) -> ReasoningOptions:
    return ReasoningOptions(effort=asked.effort, summary=asked.summary)


# --- telling ---------------------------------------------------------------------------------------


async def _stream(call: HttpCall, stored: StoredResponse, after: int | None) -> web.StreamResponse:
    events = ResponseEvents(stored.fold(call), after=after)
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


async def _whole(call: HttpCall, stored: StoredResponse) -> ResponseFold:
    """The response when it has come to its end."""
    fold = stored.fold(call)

    def is_settled(entries: list[Entry]) -> bool:
        fold.see(entries[-1])
        return fold.done

    await read_entries(call.watch(stored.turn, live=False), is_settled)
    return fold


def _as_answer(
    call: HttpCall, stored: StoredResponse, fold: ResponseFold, failed_at: datetime | None
) -> web.Response:
    """A turn that failed is an error, as for every other client: one that is told in an answer looks like an
    empty answer to many. The response itself stays, if it is stored."""
    headers = turns.turn_headers(call, stored.turn)
    if not is_lost(fold.end):
        return as_json(fold.response(), headers=headers)
    error = failure_error(call, fold.end, failed_at)
    error.headers |= headers
    error.more = {"response_id": stored.name} if stored.terms.store else None
    raise error


async def _stop(call: HttpCall, stored: StoredResponse) -> bool:
    """Stop the turn, if it is this response that it works on now."""
    now = await read_now(call, stored)
    if now.status not in ("queued", "in_progress") and now.hermes is msgspec.UNSET:
        return False
    return await turns.finish_shielded(call.gateway.stop_turn(stored.turn.agent, stored.turn.id, CANCELLED))


# --- coming back -----------------------------------------------------------------------------------


@route(
    "GET",
    _ONE,
    "A stored response as it is now, or its events from any of them on.",
)
async def read_response(
    call: HttpCall, stream: bool = False, starting_after: Annotated[int, msgspec.Meta(ge=0)] | None = None
) -> ResponseObject | web.StreamResponse:
    """`starting_after` is the number of the last event that the client has."""
    stored = await find_response(call, call.part("response_id"))
    if stream:
        return await _stream(call, stored, starting_after)
    return await read_now(call, stored)


@route("DELETE", _ONE, "Forget a response, and stop it if it still runs.")
async def delete_response(call: HttpCall) -> ResponseDeleted:
    stored = await find_response(call, call.part("response_id"))
    await _stop(call, stored)
    await call.gateway.write(stored.turn.agent, lambda tx: forget_response(tx, stored))
    return ResponseDeleted(id=stored.name)


@route(
    "POST",
    _ONE + "/cancel",
    "Stop a response; one that has ended is only shown.",
)
async def cancel_response(call: HttpCall) -> ResponseObject:
    stored = await find_response(call, call.part("response_id"))
    if await _stop(call, stored):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CANCEL_SECONDS):
                await read_entries(call.watch(stored.turn, live=False))
    return await read_now(call, stored)


@route(
    "GET",
    _ONE + "/input_items",
    "What a response was asked with, item by item.",
)
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
