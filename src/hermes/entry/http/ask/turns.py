"""From a request to its turn: the session it belongs to, by which key and fingerprint a repeat is known, a
turn that already waits for what the request brings, and else a new one. The same for chat completions,
responses, runs and sessions.

Clients come and leave meanwhile: a change is finished although its client left, and a turn that only its
client could come back to is stopped with it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from hermes.control.doors.continuing import ContinueTurn, messages_digest
from hermes.control.sessions.repeats import (
    EarlierTryStopping,
    KeyConflict,
    NewRequest,
    SubmittedTurn,
    add_request,
    asked_before,
    find_requests,
    id_for,
)
from hermes.control.sessions.submission import NoPlace, SessionTarget, Submission
from hermes.domain.errors import HermesError, Unreachable, UserError
from hermes.domain.ids import EVERY_AGENT, AgentId, TurnId
from hermes.domain.ports.store import Tx
from hermes.domain.tools.toolsets import NO_TOOLSET
from hermes.domain.turns.event import FeedItem
from hermes.domain.turns.turn import CLIENT_GONE, Guidance, Turn, TurnInput
from hermes.domain.word import replace
from hermes.entry.http.ask.addressee import AgentChoice, no_such_model
from hermes.entry.http.ask.messages import ConversationInput, keep_pictures
from hermes.entry.http.site import headers
from hermes.entry.http.site.endpoint import HttpCall, session_name
from hermes.entry.http.site.errors import ApiError, as_api_error, bad_request
from hermes.entry.http.site.streams import EventStream

FORGET_AFTER = timedelta(days=1)
_RETRIES_WITHIN = timedelta(minutes=15)
FAILURE_KEPT = timedelta(minutes=2)
"""Libraries that do not count their tries make two more, and wait a minute at most before each."""
RETRY_SECONDS = 5.0
"""Libraries that count their tries come back within two seconds after a connection broke."""
_SHOWING = ("stream", "stream_options")
RUN_PREFIX = "run_"
ASKING = (headers.IDEMPOTENCY, *headers.TELLING)
TURN_HEADERS = (headers.SESSION_ID, headers.SESSION_KEY, headers.RUN_ID)
REFUSES = (404, 409, 422, 502)
"""What an endpoint declares that makes a turn with `ask` and answers with `turn_headers`."""
T = TypeVar("T")
Continuation = TypeVar("Continuation", SubmittedTurn, SubmittedTurn | None)


class TurnOptions(Struct, frozen=True, kw_only=True):
    """What a resource wants of a turn. `lasting` ones go on without their client; `named` ones can be asked
    for again by their id with this prefix; `after` goes on from an earlier turn; `facts` are kept with it. A
    session of its own is forgotten after `keep`. With `answers`, words may answer what their session waits
    for. With `retried`, a request that its client's library repeats by itself is known by its body;
    if a turn that failed `raises` an error, that is also what comes after it without a count of tries."""

    prefix: str
    lasting: bool = False
    named: bool = False
    after: TurnId | None = None
    session: str | None = None
    conversation: str | None = None
    facts: str = "{}"
    keep: timedelta = FORGET_AFTER
    answers: bool = False
    retried: bool = False
    raises: bool = False
    said_in: str = "messages"
    """The parameter that has what is said."""


def session_target(call: HttpCall, options: TurnOptions) -> SessionTarget:
    forget = call.site.clock.now() + options.keep
    if options.after is not None:
        return SessionTarget(after=options.after, until=forget, owner=call.owner)
    named = options.session or call.name_header(headers.SESSION_ID)
    if named is not None:
        return SessionTarget(session=session_name(named), begin=True, owner=call.owner)
    if call.name_header(headers.CHAT_ID) or call.name_header(headers.USER_ID):
        return SessionTarget(owner=call.owner)
    if call.name_header(headers.THREAD_ID):
        raise bad_request(f"{headers.THREAD_ID} needs {headers.CHAT_ID} beside it.", param=headers.THREAD_ID)
    return SessionTarget(until=forget)


async def idempotent_request(call: HttpCall, options: TurnOptions) -> NewRequest | None:
    """By what a request can be asked for again, if it can."""
    key = call.name_header(headers.IDEMPOTENCY)
    counted = options.retried and key is None and headers.RETRY_COUNT in call.request.headers
    if key is None and not options.named:
        return _retried_request(call, options) if counted or (options.retried and options.raises) else None
    fingerprint = _fingerprint(call, _unshown(call.content))
    named = NewRequest(
        prefix=options.prefix,
        owner=call.principal.name,
        key=key,
        fingerprint=fingerprint,
        conversation=options.conversation,
        facts=options.facts,
    )
    if key is not None or not (counted or options.raises):
        return named
    # A chain of responses has a name already: a later try is the latest of it, if it asks the same.
    chain = options.conversation or _retry_name(fingerprint)
    return replace(
        named,
        conversation=chain,
        repeats_since=_repeats_since(call, _retry_name(fingerprint)),
        failed_since=_failed_since(call, options),
    )


def _failed_since(call: HttpCall, options: TurnOptions) -> datetime | None:
    return call.site.clock.now() - FAILURE_KEPT if options.raises else None


def _retry_name(fingerprint: str) -> str:
    return f"retry {fingerprint}"


def _repeats_since(call: HttpCall, named: str) -> datetime | None:
    """If this is a later try, since when the try before it can have been made. Where one was turned away,
    older turns with the same words were another request's."""
    tries = call.request.headers.get(headers.RETRY_COUNT, "")
    if not (tries.isdecimal() and int(tries) > 0):
        return None
    return max(call.site.clock.now() - _RETRIES_WITHIN, call.site.turned_away.at(named))


def _retried_request(call: HttpCall, options: TurnOptions) -> NewRequest:
    """A request that its client's library may repeat by itself: it must not do everything once more. Some
    libraries count their tries; a later try is what was asked a little while before. Others only repeat what
    failed."""
    named = _retry_name(_fingerprint(call, call.content))
    return NewRequest(
        prefix=options.prefix,
        owner=call.principal.name,
        conversation=named,
        facts=options.facts,
        repeats_since=_repeats_since(call, named),
        failed_since=_failed_since(call, options),
        late=not call.request.headers.get(headers.RETRY_COUNT),
    )


async def keep_failure(call: HttpCall, answering: SubmittedTurn, options: TurnOptions) -> None:
    """Before a client is told of a failure: keep by what it is known again. Some ask again by themselves."""
    request = None if answering.request is not None else await idempotent_request(call, options)
    if request is not None and request.late and answering.failed_at is None:
        kept, turn, now = request, answering.turn, call.site.clock.now()
        with contextlib.suppress(Unreachable):
            await call.gateway.write(turn.agent, lambda tx: add_request(tx, kept, turn, now))


def _fingerprint(call: HttpCall, body: bytes) -> str:
    """What is asked, where, and by whom: the same under one key, or it is another request."""
    parts = [call.principal.name, call.request.method, call.request.path]
    parts += [f"{name}={call.request.headers.get(name, '')}" for name in headers.TELLING]
    digest = sha256("\n".join(parts).encode("utf-8", "surrogateescape"))
    digest.update(body)
    return digest.hexdigest()


def _unshown(body: bytes) -> bytes:
    """A request's body without how the answer is shown: streamed or not, it is the same request."""
    asked = msgspec.json.decode(body)
    return msgspec.json.encode({name: value for name, value in asked.items() if name not in _SHOWING})


async def continue_turn(
    call: HttpCall, choice: AgentChoice, conversation: ConversationInput, options: TurnOptions
) -> SubmittedTurn | None:
    """Go on with a turn that waits for the results of the client's tools that this request brings. None if it
    brings none, or nothing waits for them."""
    place = session_target(call, options)
    results = conversation.asked
    if choice.task or not conversation.results or (place.own and not results):
        return None
    request = await idempotent_request(call, options)
    if place.own:
        conversation = await keep_pictures(call, choice.agent, conversation)
    bringing = _continuing(call, place, request, conversation)
    continued = await go_on(call, choice.agent, lambda tx: bringing.with_results(tx, results))
    if continued is None:
        if not place.own:
            raise ApiError(409, "tool_call_not_pending", "Nothing in this session waits for these results.")
        return None
    return _hanging(call, place, continued)


async def answer_turn(
    call: HttpCall, choice: AgentChoice, conversation: ConversationInput, options: TurnOptions
) -> SubmittedTurn | None:
    """Go on with a turn whose question these words answer, for a client that names no session and sends its
    whole conversation each time. None if they answer none, or the conversation is not the one it was asked
    in."""
    place = session_target(call, options)
    asked = conversation.answers
    if choice.task or asked is None or not place.own:
        return None
    request = await idempotent_request(call, options)
    conversation = await keep_pictures(call, choice.agent, conversation)
    before = messages_digest(conversation.before_question)
    printed = conversation.last_words
    bringing = _continuing(call, place, request, conversation)
    continued = await go_on(
        call, choice.agent, lambda tx: bringing.with_reply(tx, asked, printed, conversation.reply, before)
    )
    return None if continued is None else _hanging(call, place, continued)


async def go_on(call: HttpCall, agent: AgentId, unit: Callable[[Tx], Continuation]) -> Continuation:
    """Continue a turn within the limits that hold for new ones. Where there is no place nothing is written,
    so the client can bring the same again."""
    runs, client = call.site.runs, call.principal

    async def write() -> Continuation:
        refused = runs.refusal(client)
        with contextlib.nullcontext() if refused else runs.hold(client):
            continued = await call.gateway.go_on(agent, unit, refused)
            if continued is not None and continued.resumed:
                runs.note(client, continued.turn.id)
            return continued

    return await finish_shielded(write())


def _hanging(call: HttpCall, place: SessionTarget, continued: SubmittedTurn) -> SubmittedTurn:
    """A turn that was continued hangs on its client as one that was begun would."""
    alone = place.own and call.name_header(headers.IDEMPOTENCY) is None
    return replace(continued, turn=replace(continued.turn, ephemeral=alone))


def _continuing(
    call: HttpCall, place: SessionTarget, request: NewRequest | None, conversation: ConversationInput
) -> ContinueTurn:
    return ContinueTurn(
        source=call.source(place.session or "-"),
        mine=call.owns,
        now=call.site.clock.now(),
        request=request,
        options=conversation.options,
        heard=messages_digest(conversation.messages) if place.own else "",
        pictured=conversation.pictured,
        shown=conversation.shown,
    )


def run_name(turn: Turn) -> str:
    """The turn's name under `/v1/runs`."""
    return id_for(RUN_PREFIX, turn.id)


def turn_headers(call: HttpCall, turn: Turn) -> dict[str, str]:
    """What every answer that has a turn behind it tells in its headers."""
    facts = {headers.SESSION_ID: turn.session, headers.RUN_ID: run_name(turn)}
    key = call.name_header(headers.SESSION_KEY)
    return facts if key is None else {**facts, headers.SESSION_KEY: key}


async def stream_turn(
    call: HttpCall,
    turn: Turn,
    feed: AsyncGenerator[FeedItem],
    encode: Callable[[FeedItem], bytes],
    *,
    first: bytes = b"",
    ended: Callable[[], bool] = lambda: False,
    held: bool = False,
) -> EventStream:
    """Write what a turn shows in the words of a dialect; see `Streams.send`."""
    named = turn_headers(call, turn)
    return await call.site.streams.send(
        call.request, feed, encode, headers=named, first=first, ended=ended, held=held
    )


async def finish_shielded(
    work: Coroutine[Any, Any, T], left: Callable[[T], Awaitable[None]] | None = None
) -> T:
    """A change goes to its end even if the client goes away meanwhile: who must be woken by it is woken.
    What came of it is then given to `left`."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait((task,))
        if left is not None and task.exception() is None:
            await left(task.result())
        raise


@contextlib.asynccontextmanager
async def while_connected(call: HttpCall, turn: Turn) -> AsyncIterator[None]:
    """A turn that hangs on its client is stopped when the client goes away."""
    try:
        yield
    except (asyncio.CancelledError, ConnectionError):
        await abandon_turn(call, turn)
        raise


async def abandon_turn(call: HttpCall, turn: Turn) -> None:
    """The client is gone: so is what it began and cannot come back to. Another try of the same request may
    have joined it meanwhile: then it goes on for that one. A library that counts its tries is waited for: the
    next one may be on its way."""
    if not turn.ephemeral or call.site.options.finish_when_gone:
        return
    if headers.RETRY_COUNT in call.request.headers:
        await asyncio.sleep(RETRY_SECONDS)
    if not call.gateway.feeds.is_watched(turn.id):
        with contextlib.suppress(Unreachable):
            await asyncio.shield(call.gateway.stop_turn(turn.agent, turn.id, CLIENT_GONE))


async def ask(
    call: HttpCall, choice: AgentChoice, conversation: ConversationInput, options: TurnOptions
) -> SubmittedTurn:
    """Make the turn, or find the one that the same request made before."""
    for name in headers.TELLING:
        call.name_header(name)  # one that is not used here must be fit as well: it counts for the fingerprint
    place = session_target(call, options)
    if choice.task:
        place = SessionTarget(until=call.site.clock.now() + options.keep)
    stray = conversation.stray_result if place.own or conversation.results else None
    if stray is not None:
        raise bad_request(f"The result of {stray[:80]} belongs to no call before it.", param=options.said_in)
    request = await idempotent_request(call, options)
    refused = call.site.runs.refusal(call.principal)
    repeat = refused is not None and await _is_repeat(call, choice, request)
    try:
        if refused is not None and not repeat:
            raise refused
        return await _submit(call, choice, conversation, options, place, request, repeat)
    except EarlierTryStopping:
        raise
    except (ApiError, HermesError) as error:
        if request is not None and request.conversation and as_api_error(error).status in (429, 503):
            named = _retry_name(request.fingerprint) if request.fingerprint else request.conversation
            call.site.turned_away.note(named, call.site.clock.now())
        if isinstance(error, UserError) and not call.gateway.hosts(choice.agent):
            raise no_such_model(call, choice.name) from error  # it went just now
        raise


async def _is_repeat(call: HttpCall, choice: AgentChoice, request: NewRequest | None) -> bool:
    """Whether it was let in before, and so needs no other place."""
    return await call.gateway.read(choice.agent, lambda tx: asked_before(tx, request)) is not None


async def _submit(
    call: HttpCall,
    choice: AgentChoice,
    conversation: ConversationInput,
    options: TurnOptions,
    place: SessionTarget,
    request: NewRequest | None,
    repeat: bool,
) -> SubmittedTurn:
    await _check_other_agents(call, choice, request)
    if conversation.continues and not place.own:
        raise bad_request("In a session, the last message must be the user's.", param="messages")
    waits = options.answers and not place.own
    conversation = await keep_pictures(
        call, choice.agent, conversation if place.own else conversation.in_session
    )
    bringing, reply = _continuing(call, place, request, conversation), conversation.reply
    guidance = Guidance(
        instructions=conversation.instructions,
        history=conversation.history,
        tools=conversation.tools,
        model=choice.model,
        toolsets=(NO_TOOLSET,) if choice.task else (),
    )
    alone = place.own or options.after is not None
    hangs = alone and call.name_header(headers.IDEMPOTENCY) is None and not options.lasting
    words = Submission(
        agent=choice.agent,
        source=call.source(place.session or "-"),
        input=TurnInput(
            text=conversation.text,
            attachments=conversation.images,
            guidance=guidance,
            options=conversation.options,
        ),
        place=place,
        ephemeral=hangs,
        request=request,
        answer=(lambda tx, session, _: bringing.with_words(tx, session, reply)) if waits else None,
        at_once=not options.lasting,
    )

    async def submit() -> SubmittedTurn:
        with contextlib.nullcontext() if repeat else call.site.runs.hold(call.principal):
            made = await call.gateway.ask(words)
            call.site.runs.note(call.principal, made.turn.id)
            return made

    # What was committed must be known to somebody, also when the client leaves in this moment.
    asking = finish_shielded(submit(), left=lambda made: abandon_turn(call, made.turn))
    try:
        return await asking
    except NoPlace as error:
        raise call.site.runs.too_busy(str(error)) from error


async def _check_other_agents(call: HttpCall, choice: AgentChoice, request: NewRequest | None) -> None:
    """Each agent keeps its own requests; a key that was used with another one is used all the same."""
    if request is None or request.key is None or len(call.site.agents) == 1:
        return
    owner, keys = request.owner, request.keys
    used = await call.gateway.read(EVERY_AGENT, lambda tx: find_requests(tx, owner, keys))
    if any(known.agent != choice.agent for known in used):
        raise KeyConflict("This key was used for a request to another agent.")
