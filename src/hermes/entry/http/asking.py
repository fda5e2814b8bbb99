"""How a request becomes a turn: in which session it goes on, whether it outlives its client, and what makes a
repeat of it harmless. The same for chat completions, responses, runs and sessions."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256

from hermes.control.submission import Named, Place, Submission, Submitted, id_for
from hermes.domain.ids import AgentId, TurnId
from hermes.domain.turn import Guidance, Turn, TurnInput
from hermes.entry.http.answering import RUN_PREFIX
from hermes.entry.http.door import Call, Wire, session_name
from hermes.entry.http.errors import ApiError
from hermes.entry.http.messages import Conversation
from hermes.entry.http.models import Picked

FORGET_AFTER = timedelta(days=1)
CLIENT_GONE = "client gone"
IDEMPOTENCY = "Idempotency-Key"
SESSION_ID, SESSION_KEY = "X-Hermes-Session-Id", "X-Hermes-Session-Key"
CHAT_ID, USER_ID, THREAD_ID = "X-Hermes-Chat-Id", "X-Hermes-User-Id", "X-Hermes-Thread-Id"
RUN_ID = "X-Hermes-Run-Id"
_TELLING = (SESSION_ID, SESSION_KEY, CHAT_ID, USER_ID, THREAD_ID)
ASKS = Wire(
    headers=(IDEMPOTENCY, *_TELLING), returns=(SESSION_ID, SESSION_KEY, RUN_ID), refuses=(404, 422, 502)
)
"""An endpoint that makes a turn with `ask` and answers with `turn_headers`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a resource wants of a turn. `lasting` ones go on without their client; `named` ones can be asked
    for again by their id with this prefix; `after` goes on from an earlier turn; `facts` are kept with it."""

    prefix: str
    lasting: bool = False
    named: bool = False
    after: TurnId | None = None
    session: str | None = None
    conversation: str | None = None
    facts: str = "{}"


async def ask(call: Call, picked: Picked, said: Conversation, wish: Wish) -> Submitted:
    """Make the turn, or find the one that the same request made before."""
    if len(call.door.gateway.feeds) >= call.door.options.max_open:
        raise ApiError(
            429, "rate_limit_exceeded", "Too much is running at once.", headers={"Retry-After": "1"}
        )
    place = _place(call, wish)
    own = place.until is not None and place.after is None
    key = call.name_header(IDEMPOTENCY)
    guidance = Guidance(
        instructions=said.instructions,
        history=said.history if own else (),
        tools=said.tools,
        model=picked.model,
    )
    request = None
    if key is not None or wish.named:
        request = Named(
            prefix=wish.prefix,
            owner=call.principal.name,
            key=key,
            fingerprint=await fingerprint(call),
            conversation=wish.conversation,
            facts=wish.facts,
        )
    words = Submission(
        agent=picked.agent,
        source=call.source(place.session or "-"),
        input=TurnInput(text=said.text, attachments=said.images, guidance=guidance),
        place=place,
        ephemeral=(own or wish.after is not None) and key is None and not wish.lasting,
        request=request,
    )
    return await call.door.gateway.ask(words)


def _place(call: Call, wish: Wish) -> Place:
    forget = call.door.clock.now() + (call.door.gateway.keeps if wish.named else FORGET_AFTER)
    if wish.after is not None:
        return Place(after=wish.after, until=forget, owner=call.owner)
    named = wish.session or call.name_header(SESSION_ID)
    if named is not None:
        return Place(session=session_name(named), begin=True, owner=call.owner)
    if call.name_header(CHAT_ID) or call.name_header(USER_ID):
        return Place(owner=call.owner)
    return Place(until=forget)


async def fingerprint(call: Call) -> str:
    """What is asked, where, and by whom: the same under one key, or it is another request."""
    told = [call.principal.name, call.request.method, call.request.path]
    told += [f"{name}={call.request.headers.get(name, '')}" for name in _TELLING]
    digest = sha256("\n".join(told).encode("utf-8", "surrogateescape"))
    digest.update(await call.request.read())
    return digest.hexdigest()


def turn_headers(call: Call, turn: Turn) -> dict[str, str]:
    """What every answer that has a turn behind it tells in its headers."""
    headers = {SESSION_ID: turn.session, RUN_ID: id_for(RUN_PREFIX, turn.id)}
    key = call.name_header(SESSION_KEY)
    return headers if key is None else {**headers, SESSION_KEY: key}


@contextlib.asynccontextmanager
async def while_connected(call: Call, agent: AgentId, turn: Turn) -> AsyncIterator[None]:
    """A turn that hangs on its client is stopped when the client goes away."""
    try:
        yield
    except (asyncio.CancelledError, ConnectionError):
        if turn.ephemeral and not call.door.options.finish_when_gone:
            await asyncio.shield(call.door.gateway.stop_turn(agent, turn.id, CLIENT_GONE))
        raise
