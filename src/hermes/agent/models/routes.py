"""Names for models: a request for such a name goes to the model behind it, wherever that is served."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace

from hermes.domain.ports.agent import ModelPiece, ModelRequest, Provider


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRoute:
    """Who serves a name, and what the model is called there."""

    provider: Provider
    model: str


class RoutedProvider:
    """The provider of one agent; a model that is none of the names is its own."""

    def __init__(self, provider: Provider, routes: Mapping[str, ModelRoute]) -> None:
        self._provider = provider
        self._routes = routes

    def call(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        route = self._routes.get(request.model)
        if route is None:
            return self._provider.call(request)
        return route.provider.call(replace(request, model=route.model))
