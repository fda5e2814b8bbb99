"""`/v1/models`: one entry per agent that the key may see, and the aliases. `model` in a request names one."""

from __future__ import annotations

import msgspec

from hermes.entry.http.ask.addressee import no_such_model, offered_models, pick_agent
from hermes.entry.http.site.call import HttpCall
from hermes.entry.http.site.routing import route


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


@route("GET", "/v1/models", "The agents and models a request may name.")
async def list_models(call: HttpCall) -> ModelList:
    return ModelList(data=_models(call))


@route("GET", "/v1/models/{model}", "One of them.")
async def read_model(call: HttpCall) -> Model:
    name = call.part("model")
    if not call.principal.sees(pick_agent(call, name).agent):
        raise no_such_model(call, name)
    models = _models(call)
    return {model.id: model for model in models}.get(name) or models[0]


def _models(call: HttpCall) -> list[Model]:
    created = int(call.site.facts().get("started_at", 0))
    return [
        Model(id=offered.name, created=created, root=offered.root, parent=offered.parent)
        for offered in offered_models(call)
    ]
