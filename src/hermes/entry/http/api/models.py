"""`/v1/models`: one entry per agent that the key may see, and the aliases. `model` in a request names one."""

from __future__ import annotations

import msgspec

from hermes.entry.http.ask.addressee import Model, no_such_model, offered_models, pick_agent
from hermes.entry.http.site.endpoint import HttpCall, route


class ModelList(msgspec.Struct, kw_only=True):
    object: str = "list"
    data: list[Model]


@route("GET", "/v1/models", "The agents and models a request may name.")
async def list_models(call: HttpCall) -> ModelList:
    return ModelList(data=offered_models(call))


@route("GET", "/v1/models/{model}", "One of them.")
async def read_model(call: HttpCall) -> Model:
    name = call.part("model")
    if not call.principal.sees(pick_agent(call, name).agent):
        raise no_such_model(call, name)
    models = offered_models(call)
    return {model.id: model for model in models}.get(name) or models[0]
