"""`/v1/models`: one entry per agent that the key may see, and the aliases. `model` in a request names one."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from hermes.domain.ids import AgentId
from hermes.entry.http.site.call import HttpCall, Site, route
from hermes.entry.http.site.errors import ApiError

OWN_NAME = "hermes-agent"


class Model(msgspec.Struct, kw_only=True):
    """Something that answers: an agent, or another name for the default agent's model."""

    id: str
    object: str = "model"
    created: int
    owned_by: str = "hermes"
    root: str
    parent: str | None = None


class ModelList(msgspec.Struct, kw_only=True):
    object: str = "list"
    data: list[Model]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentChoice:
    """Who answers: the agent, the name the client used for it, and another model if it asked for one. Unless
    the agent was `named`, it is the default one as long as nothing else decides."""

    agent: AgentId
    name: str
    model: str = ""
    named: bool = True


def default_name(door: Site) -> str:
    return door.options.model_name or OWN_NAME


def pick_agent(call: HttpCall, wanted: str | None) -> AgentChoice:
    """What a request's `model` means: an agent, or a model, which names no agent."""
    door, name = call.door, wanted or ""
    if name in {"", default_name(door), OWN_NAME, door.agents[door.default].model}:
        return AgentChoice(agent=door.default, name=name or default_name(door), named=False)
    if name in door.aliases:
        return AgentChoice(agent=door.default, name=name, model=name, named=False)
    agent = AgentId(name)
    if agent in door.agents and call.principal.sees(agent):
        return AgentChoice(agent=agent, name=name)
    raise no_such_model(call, name)


def no_such_model(call: HttpCall, name: str) -> ApiError:
    known = ", ".join(model.id for model in _models(call))
    told = f"There is no model “{name[:80]}” here. There are: {known}."
    return ApiError(404, "model_not_found", told, param="model")


def _models(call: HttpCall) -> list[Model]:
    door = call.door
    created = int(door.facts().get("started_at", 0))
    shown: list[Model] = []
    for agent in call.agents:
        facts = door.agents[agent]
        if agent == door.default:
            name = default_name(door)
            shown.insert(0, Model(id=name, created=created, root=facts.model or name))
            shown[1:1] = [
                Model(id=alias, created=created, root=root, parent=name)
                for alias, root in door.aliases.items()
            ]
        if agent != default_name(door):
            shown.append(Model(id=agent, created=created, root=facts.model or agent))
    return shown


@route("GET", "/v1/models", "The agents and models a request may name.")
async def list_models(call: HttpCall) -> ModelList:
    return ModelList(data=_models(call))


@route("GET", "/v1/models/{model}", "One of them.")
async def read_model(call: HttpCall) -> Model:
    name = call.part("model")
    if not call.principal.sees(pick_agent(call, name).agent):
        raise no_such_model(call, name)
    known = {model.id: model for model in _models(call)}
    return known.get(name) or next(iter(known.values()))
