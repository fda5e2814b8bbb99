"""How a request becomes a turn: in which session it goes on, whether it outlives its client, and what makes a
repeat of it harmless. The same for chat completions, responses, runs and sessions."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import timedelta
from hashlib import sha256

from hermes.control.doors.continuing import ContinueTurn
from hermes.control.sessions.submission import (
    KeyConflict,
    NewRequest,
    SessionTarget,
    Submission,
    SubmittedTurn,
    find_request,
    id_for,
)
from hermes.domain.errors import Unreachable
from hermes.domain.ids import AgentId, TurnId
from hermes.domain.turn import CLIENT_GONE, Guidance, Turn, TurnInput
from hermes.entry.http.api.models import AgentChoice
from hermes.entry.http.ask.images import keep_pictures
from hermes.entry.http.ask.messages import ConversationInput
from hermes.entry.http.ask.questions import RUN_PREFIX, finish_shielded
from hermes.entry.http.site.call import HttpCall, RouteDetails, session_name
from hermes.entry.http.site.errors import ApiError, bad_request
from hermes.entry.http.site.headers import (
    CHAT_ID,
    IDEMPOTENCY,
    RUN_ID,
    SESSION_ID,
    SESSION_KEY,
    TELLING,
    THREAD_ID,
    USER_ID,
)

FORGET_AFTER = timedelta(days=1)
ASKS = RouteDetails(
    headers=(IDEMPOTENCY, *TELLING), returns=(SESSION_ID, SESSION_KEY, RUN_ID), refuses=(404, 409, 422, 502)
)
"""An endpoint that makes a turn with `ask` and answers with `turn_headers`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnOptions:
    """What a resource wants of a turn. `lasting` ones go on without their client; `named` ones can be asked
    for again by their id with this prefix; `after` goes on from an earlier turn; `facts` are kept with it. A
    session of its own is forgotten after `keep`."""

    prefix: str
    lasting: bool = False
    named: bool = False
    after: TurnId | None = None
    session: str | None = None
    conversation: str | None = None
    facts: str = "{}"
    keep: timedelta = FORGET_AFTER


async def ask(
    call: HttpCall, picked: AgentChoice, said: ConversationInput, wish: TurnOptions
) -> SubmittedTurn:
    """Make the turn, or find the one that the same request made before."""
    if len(call.door.gateway.feeds) >= call.door.options.max_open:
        raise ApiError(
            429, "rate_limit_exceeded", "Too much is running at once.", headers={"Retry-After": "1"}
        )
    for name in TELLING:
        call.name_header(name)  # one that is not used here must be fit as well: it counts for the fingerprint
    place = _place(call, wish)
    own = place.own
    request = await idempotent_request(call, wish)
    await _check_other_agents(call, picked, request)
    said = await keep_pictures(call, picked.agent, said if own else replace(said, history=()))
    guidance = Guidance(
        instructions=said.instructions, history=said.history, tools=said.tools, model=picked.model
    )
    alone = own or wish.after is not None
    hangs = alone and call.name_header(IDEMPOTENCY) is None and not wish.lasting
    words = Submission(
        agent=picked.agent,
        source=call.source(place.session or "-"),
        input=TurnInput(text=said.text, attachments=said.images, guidance=guidance),
        place=place,
        ephemeral=hangs,
        request=request,
    )
    # What was committed must be known to somebody, also when the client leaves in this moment.
    return await finish_shielded(
        call.door.gateway.ask(words), left=lambda made: abandon_turn(call, words.agent, made.turn)
    )


async def idempotent_request(call: HttpCall, wish: TurnOptions) -> NewRequest | None:
    """By what a request can be asked for again, if it can."""
    key = call.name_header(IDEMPOTENCY)
    if key is None and not wish.named:
        return None
    return NewRequest(
        prefix=wish.prefix,
        owner=call.principal.name,
        key=key,
        fingerprint=await fingerprint(call),
        conversation=wish.conversation,
        facts=wish.facts,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweringTurn:
    """The turn that answers a request; what it recorded up to `after` was told by an earlier one."""

    turn: Turn
    after: int = 0


async def continue_turn(
    call: HttpCall, picked: AgentChoice, said: ConversationInput, wish: TurnOptions
) -> AnsweringTurn | None:
    """Go on with a turn that waits for what this request brings: the results of the client's tools, or words
    that answer its question. None if nothing waits for it."""
    place = _place(call, wish)
    own = place.own
    results = said.asked
    if own and not results:
        return None
    request = await idempotent_request(call, wish)
    going = ContinueTurn(
        agent=picked.agent,
        source=call.source(place.session or "-"),
        mine=call.owns,
        now=call.door.clock.now(),
        request=request,
    )
    gateway = call.door.gateway
    if said.results:
        found = await finish_shielded(gateway.go_on(picked.agent, lambda tx: going.with_results(tx, results)))
        if found is None and not own:
            raise ApiError(409, "tool_call_not_pending", "Nothing in this session waits for these results.")
    else:
        found = await finish_shielded(
            gateway.go_on(picked.agent, lambda tx: going.with_words(tx, place.session, said.text))
        )
    if found is None:
        return None
    return AnsweringTurn(turn=replace(found.turn, ephemeral=own and request is None), after=found.after)


async def _check_other_agents(call: HttpCall, picked: AgentChoice, request: NewRequest | None) -> None:
    """Each agent keeps its own requests; a key that was used with another one is used all the same."""
    if request is None or request.key is None:
        return
    owner, keys = request.owner, request.keys
    for agent in call.door.agents:
        if agent == picked.agent:
            continue
        if await call.door.gateway.read(agent, lambda tx: find_request(tx, owner, keys)) is not None:
            raise KeyConflict("This key was used for a request to another agent.")


def _place(call: HttpCall, wish: TurnOptions) -> SessionTarget:
    forget = call.door.clock.now() + wish.keep
    if wish.after is not None:
        return SessionTarget(after=wish.after, until=forget, owner=call.owner)
    named = wish.session or call.name_header(SESSION_ID)
    if named is not None:
        return SessionTarget(session=session_name(named), begin=True, owner=call.owner)
    if call.name_header(CHAT_ID) or call.name_header(USER_ID):
        return SessionTarget(owner=call.owner)
    if call.name_header(THREAD_ID):
        raise bad_request(f"{THREAD_ID} needs {CHAT_ID} beside it.", param=THREAD_ID)
    return SessionTarget(until=forget)


async def fingerprint(call: HttpCall) -> str:
    """What is asked, where, and by whom: the same under one key, or it is another request."""
    told = [call.principal.name, call.request.method, call.request.path]
    told += [f"{name}={call.request.headers.get(name, '')}" for name in TELLING]
    digest = sha256("\n".join(told).encode("utf-8", "surrogateescape"))
    digest.update(await call.request.read())
    return digest.hexdigest()


def turn_headers(call: HttpCall, turn: Turn) -> dict[str, str]:
    """What every answer that has a turn behind it tells in its headers."""
    headers = {SESSION_ID: turn.session, RUN_ID: id_for(RUN_PREFIX, turn.id)}
    key = call.name_header(SESSION_KEY)
    return headers if key is None else {**headers, SESSION_KEY: key}


@contextlib.asynccontextmanager
async def while_connected(call: HttpCall, agent: AgentId, turn: Turn) -> AsyncIterator[None]:
    """A turn that hangs on its client is stopped when the client goes away."""
    try:
        yield
    except (asyncio.CancelledError, ConnectionError):
        await abandon_turn(call, agent, turn)
        raise


async def abandon_turn(call: HttpCall, agent: AgentId, turn: Turn) -> None:
    """The client is gone: so is what it began and cannot come back to."""
    if turn.ephemeral and not call.door.options.finish_when_gone:
        with contextlib.suppress(Unreachable):
            await asyncio.shield(call.door.gateway.stop_turn(agent, turn.id, CLIENT_GONE))
