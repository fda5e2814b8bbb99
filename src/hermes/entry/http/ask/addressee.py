"""Which agent a request goes to: the one it names, the one that has what it continues, or else the one that
the routes, the `select_agent` hook and the default give it, as for a chat. A key never reaches an agent that
it may not see: what is routed there is refused."""

from __future__ import annotations

from collections.abc import Callable, Collection

import msgspec
from msgspec import Struct

from hermes.control.sessions.repeats import find_requests
from hermes.domain.chats.address import Source
from hermes.domain.ids import AgentId, QuestionId, TurnId
from hermes.domain.models.model_facts import TASK_MODEL
from hermes.domain.ports.store import Tx
from hermes.domain.word import replace
from hermes.entry.http.site.endpoint import HttpCall, Site, session_name
from hermes.entry.http.site.errors import ApiError
from hermes.entry.http.site.headers import IDEMPOTENCY, SESSION_ID

OWN_NAME = "hermes-agent"


class AgentChoice(Struct, frozen=True, kw_only=True):
    """Who answers: the agent, the name the client used for it, and another model if it asked for one. Unless
    the agent was `named`, it is the default one as long as nothing else decides. A `task` is something small
    beside a conversation: it has no tools, and a session of its own."""

    agent: AgentId
    name: str
    model: str = ""
    named: bool = True
    task: bool = False


async def find_addressee(
    call: HttpCall,
    model: str | None,
    text: str,
    *,
    session: Callable[[AgentId], str | None] = lambda agent: None,
    after: TurnId | None = None,
    results: Collection[QuestionId] = (),
) -> AgentChoice:
    """Who answers a request with this `model` and these words. What it repeats or continues belongs to an
    agent already: its key, the session it names (which may have another name with each agent), a turn that it
    comes `after`, the questions whose `results` it brings."""
    choice = pick_agent(call, model)
    if choice.named:
        return choice
    agent = choice.agent
    if len(call.site.agents) > 1 and call.profile is None:
        header, key, owner = call.name_header(SESSION_ID), call.name_header(IDEMPOTENCY), call.principal.name
        source = call.source(session(agent) or header or "-")
        names = dict.fromkeys(filter(None, (session(each) or header for each in call.agents)))

        def look(tx: Tx) -> list[AgentId]:
            """Whose is what is repeated or continued."""
            requests = [] if key is None else find_requests(tx, owner, (key,))
            turns = [] if after is None else [tx.turns.get(after)]
            asked = [tx.questions.get(question) for question in results]
            turns += [tx.turns.get(question.turn) for question in asked if question is not None]
            sessions = [tx.sessions.get(session_name(name)) for name in names]
            owners = (each.agent for each in (*requests, *sessions, *turns) if each is not None)
            return [each for each in owners if each is not None and call.principal.sees(each)]

        known = await call.collect(look) if key or names or after or results else []
        agent = known[0] if known else await route_call(call, source, text)
    if not call.principal.sees(agent):
        raise no_such_model(call, choice.name)
    return replace(choice, agent=agent)


def pick_agent(call: HttpCall, model: str | None) -> AgentChoice:
    """What a request's `model` means: an agent, or a model, which names no agent."""
    site, name = call.site, model or ""
    if name.endswith(TASK_MODEL) and name not in site.aliases:
        bare = name.removesuffix(TASK_MODEL)
        whole = None if not bare or bare.endswith(TASK_MODEL) else pick_agent(call, bare)
        if whole is None or not call.principal.sees(whole.agent):
            raise no_such_model(call, name)
        return replace(whole, name=name, model=whole.model or TASK_MODEL, named=True, task=True)
    if not name and not call.principal.sees(call.default) and len(call.agents) == 1:
        return AgentChoice(agent=call.agents[0], name=call.agents[0])
    if name in {"", default_name(site), OWN_NAME, site.model(call.default)}:
        return AgentChoice(agent=call.default, name=name or default_name(site), named=False)
    if name in site.aliases:
        return AgentChoice(agent=call.default, name=name, model=name, named=False)
    agent = AgentId(name)
    if site.gateway.hosts(agent) and call.principal.sees(agent):
        return AgentChoice(agent=agent, name=name)
    raise no_such_model(call, name)


def default_name(site: Site) -> str:
    return site.options.model_name or OWN_NAME


def agent_name(call: HttpCall, agent: AgentId) -> str:
    """The `model` by which clients call an agent."""
    return default_name(call.site) if agent == call.default else agent


class Model(msgspec.Struct, kw_only=True):
    """Something that answers: an agent, another name for the default agent's model, or an agent for small
    tasks, without tools (`:task`). `context_length` is how many tokens the model reads and writes together,
    where that is known, and so is whether it takes pictures (`architecture`, as OpenRouter has it); `name` is
    for people."""

    id: str
    name: str
    object: str = "model"
    created: int
    owned_by: str = "hermes"
    root: str
    parent: str | None = None
    context_length: int | msgspec.UnsetType = msgspec.UNSET
    architecture: Modalities | msgspec.UnsetType = msgspec.UNSET


class Modalities(msgspec.Struct, kw_only=True):
    """What an agent takes, and what it gives."""

    input_modalities: list[str]
    output_modalities: list[str] = msgspec.field(default_factory=lambda: ["text"])


def offered_models(call: HttpCall) -> list[Model]:
    """What a request's `model` may name: the default agent first, with the aliases, then the others that the
    key may see."""
    site, default = call.site, default_name(call.site)
    created = int(site.facts().get("started_at", 0))
    offered: list[Model] = []

    def model_of(agent: AgentId, id: str, root: str, parent: str | None = None) -> Model:
        facts = site.model_facts(agent, root)
        name = f"{id} ({root})" if root and root != id else id
        model = Model(id=id, name=name, created=created, root=root or id, parent=parent)
        model.context_length = facts.window or msgspec.UNSET
        if facts.images is not None:
            model.architecture = Modalities(input_modalities=["text", "image"] if facts.images else ["text"])
        return model

    agents = [agent for agent in call.agents if site.gateway.hosts(agent)]
    for agent in agents:
        model = site.model(agent)
        if agent == call.default:
            aliases = site.aliases.items()
            offered[:0] = [
                model_of(agent, default, model),
                *(model_of(agent, alias, root, default) for alias, root in aliases),
            ]
        if agent != default:
            offered.append(model_of(agent, agent, model))
    for agent in agents:
        name = default if agent == call.default else agent
        offered.append(model_of(agent, name + TASK_MODEL, site.task_model(agent), name))
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
