"""Which agent a request goes to: the one it names, the one that has what it goes on with, or else the one
that routes, the `select_agent` hook and the default give it, as for a chat. A key never reaches an agent that
it may not see: what is routed there is refused."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from hermes.control.sessions.submission import find_request
from hermes.domain.address import Source
from hermes.domain.ids import AgentId, QuestionId, SessionId, TurnId
from hermes.domain.ports.store import Tx
from hermes.entry.http.api.models import AgentChoice, no_such_model, pick_agent
from hermes.entry.http.site.call import HttpCall, session_name
from hermes.entry.http.site.errors import ApiError
from hermes.entry.http.site.headers import IDEMPOTENCY, SESSION_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingHints:
    """What is known of a request before its agent is: its words, and what it may go on with, by which an
    agent is found again. `session` is the session it names, which may have another name with each agent."""

    text: str
    session: Callable[[AgentId], str | None] = lambda agent: None
    after: TurnId | None = None
    results: Collection[QuestionId] = ()


async def find_addressee(call: HttpCall, wanted: str | None, asking: RoutingHints) -> AgentChoice:
    """Who answers a request with this `model`."""
    picked = pick_agent(call, wanted)
    if picked.named:
        return picked
    agent = picked.agent
    if len(call.door.agents) > 1 and not call.door.named:
        header = call.name_header(SESSION_ID)
        source = call.source(asking.session(agent) or header or "-")
        agent = await _known_to(call, asking, header) or await route_call(call, source, asking.text)
    if not call.principal.sees(agent):
        raise no_such_model(call, picked.name)
    return replace(picked, agent=agent)


async def route_call(call: HttpCall, source: Source, text: str, maker: Source | None = None) -> AgentId:
    """The agent that this is routed to."""
    if call.door.named:
        return call.door.default
    agent = await call.door.gateway.route(source, text, maker)
    if agent != call.door.default and not call.principal.sees(agent):
        raise ApiError(403, "agent_not_allowed", "This is routed to an agent that the key may not use.")
    return agent


async def _known_to(call: HttpCall, asking: RoutingHints, header: str | None) -> AgentId | None:
    """The agent that has what the request repeats or goes on with."""
    key, owner = call.name_header(IDEMPOTENCY), call.principal.name
    for agent in call.agents:
        named = asking.session(agent) or header
        session = None if named is None else session_name(named)
        if not (key or session or asking.after or asking.results):
            return None

        def knows(tx: Tx, session: SessionId | None = session) -> bool:
            return (
                (key is not None and find_request(tx, owner, (key,)) is not None)
                or (session is not None and tx.sessions.get(session) is not None)
                or (asking.after is not None and tx.turns.get(asking.after) is not None)
                or any(tx.questions.get(question) for question in asking.results)
            )

        if await call.door.gateway.read(agent, knows):
            return agent
    return None
