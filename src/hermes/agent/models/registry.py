"""The models of one process: chosen by the rules of `choose`, made into providers over one shared client.

What a choice does not need is not loaded: the HTTP client comes with the first provider that uses it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hermes.agent.models import choose as choosing
from hermes.agent.models.choose import LocalServer, ModelAccess, ModelChoice
from hermes.agent.models.demo import DemoProvider
from hermes.domain.errors import Unreachable, UserError
from hermes.domain.ids import AgentId
from hermes.domain.ports.agent import ModelPiece, ModelRequest, Provider
from hermes.domain.settings.settings import ModelSettings

if TYPE_CHECKING:
    from hermes.agent.models.client import ModelClient


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


_LIST_SECONDS = 10.0
MakeProvider = Callable[[ModelSettings], Provider]


class UnavailableProvider:
    """Stands where the settings name a model that cannot be used: says so to whoever asks."""

    def __init__(self, choice: ModelChoice) -> None:
        self._choice = choice

    def call(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        raise UserError(f"No model answers: {self._choice.why}.", hint=self._choice.hint)


class Models:
    """`plugins` make providers by name; `probe` allows looking for servers on this machine, once."""

    def __init__(self, plugins: Mapping[str, MakeProvider] | None = None, *, probe: bool = True) -> None:
        self._plugins = plugins or {}
        self._probe = probe
        self._servers: list[LocalServer] | None = None
        self._client: ModelClient | None = None
        self.offered: dict[AgentId, tuple[str, ...]] = {}
        """What the services say they have, as of the last time they were asked."""

    async def choose(self, settings: ModelSettings) -> ModelChoice:
        looked = self._probe and not choosing.is_settled(settings, self._plugins)
        if looked and self._servers is None:
            self._servers = await choosing.find_servers()
        choice = choosing.choose(settings, servers=self._servers or (), plugins=self._plugins, looked=looked)
        if not choosing.is_unnamed(choice):
            return choice
        name = choosing.first_usable(await choosing.ask_models(choice.base_url, choice.key))
        told = "this is its first" if name else "it told none"
        return replace(choice, model=name or choice.model, why=f"{choice.why}; no model is named, and {told}")

    async def routes(self, wanted: Mapping[str, ModelSettings]) -> dict[str, ModelRoute]:
        found: dict[str, ModelRoute] = {}
        for alias, settings in wanted.items():
            choice = await self.choose(settings)
            found[alias] = ModelRoute(provider=self.provider(choice, settings), model=choice.model)
        return found

    def provider(self, choice: ModelChoice, settings: ModelSettings) -> Provider:
        match choice.way:
            case ModelAccess.DEMO:
                return DemoProvider()
            case ModelAccess.NONE | ModelAccess.GIVEN:
                return UnavailableProvider(choice)
            case ModelAccess.PLUGIN:
                return self._plugins[choice.provider](settings)
            case ModelAccess.HTTP:
                return self._over_http(choice, settings)

    def _over_http(self, choice: ModelChoice, settings: ModelSettings) -> Provider:
        from hermes.agent.models.client import Deadlines, ModelClient
        from hermes.agent.models.formats.chat_completions.provider import ModelEndpoint, OpenAIProvider

        if self._client is None:
            self._client = ModelClient()
        here = choosing.is_local(choice.base_url)
        patient = Deadlines(first_byte=600.0, idle=300.0, total=1800.0)
        endpoint = ModelEndpoint(
            base_url=choice.base_url,
            key=choice.key,
            max_tokens=settings.max_tokens,
            deadlines=patient if here else Deadlines(),
            written_calls=here,
        )
        return OpenAIProvider(endpoint, self._client)

    async def refresh(self, choices: Mapping[AgentId, ModelChoice]) -> str:
        """Ask the services behind these choices anew what they offer; one that does not answer keeps what it
        said before."""
        count, silent = 0, []
        for agent, choice in choices.items():
            if choice.way is not ModelAccess.HTTP:
                continue
            names = await choosing.ask_models(choice.base_url, choice.key, _LIST_SECONDS)
            if names:
                self.offered[agent] = names
            else:
                silent.append(choice.base_url)
            count += len(names)
        if silent:
            raise Unreachable(f"no list of models from {', '.join(sorted(set(silent)))}")
        return f"{count} models offered"

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()
