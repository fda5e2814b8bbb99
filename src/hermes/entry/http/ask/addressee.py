"""Which agent a request goes to: the one it names, the one that has what it continues, or else the one that
the routes, the `select_agent` hook and the default give it, as for a chat. A key never reaches an agent that
it may not see: what is routed there is refused."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

import msgspec

from hermes.control.sessions.submission import find_request
from hermes.domain.address import Source
from hermes.domain.ids import AgentId, QuestionId, SessionId, TurnId
from hermes.domain.ports.store import Tx
from hermes.entry.http.site.call import HttpCall, Site, session_name
from hermes.entry.http.site.errors import ApiError
from hermes.entry.http.site.headers import IDEMPOTENCY, SESSION_ID

OWN_NAME = "hermes-agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentChoice:
    """Who answers: the agent, the name the client used for it, and another model if it asked for one. Unless
    the agent was `named`, it is the default one as long as nothing else decides."""

    agent: AgentId
    name: str
    model: str = ""
    named: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingHints:
    """What is known of a request before its agent is: its words, and what it may continue, by which an agent
    is found again. `session` is the session it names, which may have another name with each agent."""

    text: str
    session: Callable[[AgentId], str | None] = lambda agent: None
    after: TurnId | None = None
    results: Collection[QuestionId] = ()


async def find_addressee(call: HttpCall, model: str | None, hints: RoutingHints) -> AgentChoice:
    """Who answers a request with this `model`."""
    choice = pick_agent(call, model)
    if choice.named:
        return choice
    agent = choice.agent
    if len(call.site.agents) > 1 and call.profile is None:
        header = call.name_header(SESSION_ID)
        source = call.source(hints.session(agent) or header or "-")
        agent = await _continued_agent(call, hints, header) or await route_call(call, source, hints.text)
    if not call.principal.sees(agent):
        raise no_such_model(call, choice.name)
    return replace(choice, agent=agent)


def pick_agent(call: HttpCall, model: str | None) -> AgentChoice:
    """What a request's `model` means: an agent, or a model, which names no agent."""
    site, name = call.site, model or ""
    if name in {"", default_name(site), OWN_NAME, site.agents[call.default].model}:
        return AgentChoice(agent=call.default, name=name or default_name(site), named=False)
    if name in site.aliases:
        return AgentChoice(agent=call.default, name=name, model=name, named=False)
    agent = AgentId(name)
    if agent in site.agents and call.principal.sees(agent):
        return AgentChoice(agent=agent, name=name)
    raise no_such_model(call, name)


def default_name(site: Site) -> str:
    return site.options.model_name or OWN_NAME


def agent_name(call: HttpCall, agent: AgentId) -> str:
    """The `model` by which clients call an agent."""
    return default_name(call.site) if agent == call.default else agent


class Model(msgspec.Struct, kw_only=True):
    """Something that answers: an agent, or another name for the default agent's model."""

    id: str
    object: str = "model"
    created: int
    owned_by: str = "hermes"
    root: str
    parent: str | None = None


def offered_models(call: HttpCall) -> list[Model]:
    """What a request's `model` may name: the default agent first, with the aliases, then the others that the
    key may see."""
    site, default = call.site, default_name(call.site)
    created = int(site.facts().get("started_at", 0))
    offered: list[Model] = []
    for agent in call.agents:
        model = site.agents[agent].model
        if agent == call.default:
            aliases = site.aliases.items()
            offered[:0] = [
                Model(id=default, created=created, root=model or default),
                *(Model(id=alias, created=created, root=root, parent=default) for alias, root in aliases),
            ]
        if agent != default:
            offered.append(Model(id=agent, created=created, root=model or agent))
    return offered


def no_such_model(call: HttpCall, name: str) -> ApiError:
    names = ", ".join(model.id for model in offered_models(call))
    why = f"There is no model “{name[:80]}” here. There are: {names}."
    return ApiError(404, "model_not_found", why, param="model")


async def route_call(call: HttpCall, source: Source, text: str, maker: Source | None = None) -> AgentId:
    """The agent that this is routed to."""
    if call.profile is not None:
        return call.profile
    agent = await call.gateway.route(source, text, maker)
    if agent != call.default and not call.principal.sees(agent):
        raise ApiError(403, "agent_not_allowed", "This is routed to an agent that the key may not use.")
    return agent


async def _continued_agent(call: HttpCall, hints: RoutingHints, header: str | None) -> AgentId | None:
    """The agent that has what the request repeats or continues."""
    key, owner = call.name_header(IDEMPOTENCY), call.principal.name
    for agent in call.agents:
        named = hints.session(agent) or header
        session = None if named is None else session_name(named)
        if not (key or session or hints.after or hints.results):
            return None

        def knows(tx: Tx, session: SessionId | None = session) -> bool:
            return (
                (key is not None and find_request(tx, owner, (key,)) is not None)
                or (session is not None and tx.sessions.get(session) is not None)
                or (hints.after is not None and tx.turns.get(hints.after) is not None)
                or any(tx.questions.get(question) for question in hints.results)
            )

        if await call.gateway.read(agent, knows):
            return agent
    return None
