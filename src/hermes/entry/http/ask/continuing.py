"""How a turn goes on while clients come and leave: a request may bring what a waiting turn needs, a change is
finished although its client left, and a turn that only its client could come back to is stopped with it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from hermes.control.doors import ContinuedTurn, ContinueTurn
from hermes.control.sessions.submission import id_for
from hermes.domain.errors import Unreachable
from hermes.domain.ids import AgentId
from hermes.domain.ports.store import Tx
from hermes.domain.turn import CLIENT_GONE, Turn
from hermes.entry.http.ask.addressee import AgentChoice
from hermes.entry.http.ask.messages import ConversationInput
from hermes.entry.http.ask.options import TurnOptions, idempotent_request, session_target
from hermes.entry.http.site.call import HttpCall
from hermes.entry.http.site.errors import ApiError
from hermes.entry.http.site.headers import RUN_ID, SESSION_ID, SESSION_KEY

RUN_PREFIX = "run_"
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweringTurn:
    """The turn that answers a request; what it recorded up to `after` was told by an earlier one."""

    turn: Turn
    after: int = 0


async def continue_turn(
    call: HttpCall, choice: AgentChoice, conversation: ConversationInput, options: TurnOptions
) -> AnsweringTurn | None:
    """Go on with a turn that waits for what this request brings: the results of the client's tools, or words
    that answer its question. None if nothing waits for it."""
    place = session_target(call, options)
    results = conversation.asked
    if place.own and not results:
        return None
    request = await idempotent_request(call, options)
    bringing = ContinueTurn(
        agent=choice.agent,
        source=call.source(place.session or "-"),
        mine=call.owns,
        now=call.site.clock.now(),
        request=request,
    )

    def bring(tx: Tx) -> ContinuedTurn | None:
        if conversation.results:
            return bringing.with_results(tx, results)
        return bringing.with_words(tx, place.session, conversation.text)

    continued = await finish_shielded(call.gateway.go_on(choice.agent, bring))
    if continued is None:
        if conversation.results and not place.own:
            raise ApiError(409, "tool_call_not_pending", "Nothing in this session waits for these results.")
        return None
    turn = replace(continued.turn, ephemeral=place.own and request is None)
    return AnsweringTurn(turn=turn, after=continued.after)


def run_name(turn: Turn) -> str:
    """The turn's name under `/v1/runs`."""
    return id_for(RUN_PREFIX, turn.id)


def turn_headers(call: HttpCall, turn: Turn) -> dict[str, str]:
    """What every answer that has a turn behind it tells in its headers."""
    headers = {SESSION_ID: turn.session, RUN_ID: run_name(turn)}
    key = call.name_header(SESSION_KEY)
    return headers if key is None else {**headers, SESSION_KEY: key}


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
async def while_connected(call: HttpCall, agent: AgentId, turn: Turn) -> AsyncIterator[None]:
    """A turn that hangs on its client is stopped when the client goes away."""
    try:
        yield
    except (asyncio.CancelledError, ConnectionError):
        await abandon_turn(call, agent, turn)
        raise


async def abandon_turn(call: HttpCall, agent: AgentId, turn: Turn) -> None:
    """The client is gone: so is what it began and cannot come back to."""
    if turn.ephemeral and not call.site.options.finish_when_gone:
        with contextlib.suppress(Unreachable):
            await asyncio.shield(call.gateway.stop_turn(agent, turn.id, CLIENT_GONE))
