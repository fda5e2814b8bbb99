"""Makes the turn of a request, or finds the one that the same request made before."""

from __future__ import annotations

from dataclasses import replace

from hermes.control.sessions.submission import (
    KeyConflict,
    NewRequest,
    Submission,
    SubmittedTurn,
    find_request,
)
from hermes.domain.turn import Guidance, TurnInput
from hermes.entry.http.ask.addressee import AgentChoice
from hermes.entry.http.ask.continuing import abandon_turn, finish_shielded
from hermes.entry.http.ask.images import keep_pictures
from hermes.entry.http.ask.messages import ConversationInput
from hermes.entry.http.ask.options import TurnOptions, idempotent_request, session_target
from hermes.entry.http.site.call import HttpCall
from hermes.entry.http.site.errors import ApiError
from hermes.entry.http.site.headers import IDEMPOTENCY, TELLING


async def ask(
    call: HttpCall, choice: AgentChoice, conversation: ConversationInput, options: TurnOptions
) -> SubmittedTurn:
    """Make the turn, or find the one that the same request made before."""
    if len(call.gateway.feeds) >= call.site.options.max_open:
        raise ApiError(
            429, "rate_limit_exceeded", "Too much is running at once.", headers={"Retry-After": "1"}
        )
    for name in TELLING:
        call.name_header(name)  # one that is not used here must be fit as well: it counts for the fingerprint
    place = session_target(call, options)
    own = place.own
    request = await idempotent_request(call, options)
    await _check_other_agents(call, choice, request)
    conversation = await keep_pictures(
        call, choice.agent, conversation if own else replace(conversation, history=())
    )
    guidance = Guidance(
        instructions=conversation.instructions,
        history=conversation.history,
        tools=conversation.tools,
        model=choice.model,
    )
    alone = own or options.after is not None
    hangs = alone and call.name_header(IDEMPOTENCY) is None and not options.lasting
    words = Submission(
        agent=choice.agent,
        source=call.source(place.session or "-"),
        input=TurnInput(text=conversation.text, attachments=conversation.images, guidance=guidance),
        place=place,
        ephemeral=hangs,
        request=request,
    )
    # What was committed must be known to somebody, also when the client leaves in this moment.
    return await finish_shielded(
        call.gateway.ask(words), left=lambda made: abandon_turn(call, words.agent, made.turn)
    )


async def _check_other_agents(call: HttpCall, choice: AgentChoice, request: NewRequest | None) -> None:
    """Each agent keeps its own requests; a key that was used with another one is used all the same."""
    if request is None or request.key is None:
        return
    owner, keys = request.owner, request.keys
    for agent in call.site.agents:
        if agent == choice.agent:
            continue
        if await call.gateway.read(agent, lambda tx: find_request(tx, owner, keys)) is not None:
            raise KeyConflict("This key was used for a request to another agent.")
