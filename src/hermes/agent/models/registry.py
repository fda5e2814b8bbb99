"""The models of one process: chosen by the rules of `choose`, made into providers by whoever offers them.

What a choice does not need is not loaded: the HTTP client comes with the first provider that uses it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from functools import partial

from msgspec import Struct

from hermes.agent.models import choose as choosing
from hermes.agent.models import servers
from hermes.agent.models.builtin import BUILT_IN, DEMO, OPENAI_COMPATIBLE, make_openai_compatible
from hermes.agent.models.choose import LocalServer, ModelAccess, ModelChoice
from hermes.agent.models.foreign import ForeignProvider
from hermes.agent.models.watched import TellOutcome, WatchedProvider
from hermes.domain.errors import FaultKind, ModelFault, Unreachable
from hermes.domain.ids import AgentId
from hermes.domain.models.model_facts import ModelFacts
from hermes.domain.ports.agent import ModelPiece, ModelRequest, Provider
from hermes.domain.settings.settings import ModelSettings
from hermes.domain.text import one_line
from hermes.domain.word import replace


class ModelRoute(Struct, frozen=True, kw_only=True):
    """Who serves a name, and what the model is called there."""

    provider: Provider
    model: str


class RoutedProvider:
    """The provider of one agent. A model that is none of the names and not the agent's `own` is looked up by
    `find`, which knows the other providers."""

    def __init__(
        self,
        provider: Provider,
        routes: Mapping[str, ModelRoute],
        own: str = "",
        find: Callable[[str], ModelRoute | None] = lambda model: None,
    ) -> None:
        self._provider = provider
        self._routes = routes
        self._own = own
        self._find = find

    def call(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        route = self._routes.get(request.model)
        if route is None and request.model not in ("", self._own):
            route = self._find(request.model)
        if route is None:
            return self._provider.call(request)
        return route.provider.call(replace(request, model=route.model))


_LIST_SECONDS = 10.0
MakeProvider = Callable[[ModelSettings], Provider]
KnownFacts = Callable[[ModelChoice, ModelSettings, str], ModelFacts]
"""What is known of a model that is reached like the one of a choice."""


class UnavailableProvider:
    """Stands where the settings name a model that cannot be used: says so to whoever asks."""

    def __init__(self, choice: ModelChoice) -> None:
        self._choice = choice

    def call(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        words = f"No model answers: {self._choice.why}."
        raise ModelFault(words, kind=FaultKind.NO_MODEL, hint=self._choice.hint)


class DemoOnlyProvider:
    """The demo model under its own name: it never stands in for a model that somebody asked for by name."""

    def __init__(self, demo: Provider, choice: ModelChoice) -> None:
        self._demo = demo
        self._choice = choice

    def call(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        if request.model in ("", DEMO):
            return self._demo.call(request)
        words = f"No model answers: {one_line(request.model, 60)} was asked for, but {self._choice.why}."
        hint = "Set OPENAI_API_KEY, OPENROUTER_API_KEY or model.base_url; the model `demo` needs none."
        raise ModelFault(words, kind=FaultKind.NO_MODEL, hint=hint)


class Models:
    """`makers` make providers by name, our own and those of plugins; `probe` allows looking for servers on
    this machine, once; `redact` takes secrets out of what a plugin's provider says; `stored` names the
    providers with a stored credential; `tell` hears how calls end; `facts` knows what the settings and newer
    lists say of a model there."""

    def __init__(
        self,
        makers: Mapping[str, MakeProvider] | None = None,
        *,
        probe: bool = True,
        redact: Callable[[str], str] = str,
        stored: Callable[[], Collection[str]] = tuple,
        tell: TellOutcome | None = None,
        facts: KnownFacts | None = None,
    ) -> None:
        self._tell = tell
        self._facts = facts
        self._redact = redact
        self._stored = stored
        self._makers: dict[str, MakeProvider] = {**BUILT_IN, **(makers or {})}
        self._plugins = self._makers.keys() - BUILT_IN.keys()
        self._probe = probe
        self._servers: list[LocalServer] | None = None
        self._made: dict[tuple[str, str, ModelSettings], Provider] = {}
        self.offered: dict[AgentId, tuple[str, ...]] = {}
        """What the services say they have, as of the last time they were asked."""

    async def choose(self, settings: ModelSettings, stored: Collection[str] | None = None) -> ModelChoice:
        """`stored` are an agent's own providers with a stored credential."""
        stored = self._stored() if stored is None else stored
        looked = self._probe and not choosing.is_settled(settings, self._plugins, stored)
        if looked and self._servers is None:
            self._servers = await servers.find_servers()
        choice = choosing.choose(
            settings,
            servers=self._servers or (),
            plugins=self._plugins,
            stored=stored,
            looked=looked,
        )
        if not choosing.is_unnamed(choice):
            return choice
        name = choosing.first_usable((await servers.list_models(choice)).names)
        told = "this is its first" if name else "it told none"
        return replace(choice, model=name or choice.model, why=f"{choice.why}; no model is named, and {told}")

    def choose_named(self, settings: ModelSettings) -> ModelChoice:
        """Choose by what the settings name, without looking around."""
        return choosing.choose(settings, plugins=self._plugins, stored=self._stored(), looked=False)

    def problem(self, settings: ModelSettings) -> ModelChoice | None:
        """The choice, if it names something that does not exist."""
        choice = self.choose_named(settings)
        return choice if choice.wrong else None

    def provider(self, choice: ModelChoice, settings: ModelSettings, *, shared: bool = True) -> Provider:
        """What is not `shared` is somebody's own, who closes it."""
        match choice.way:
            case ModelAccess.DEMO:
                return self._provider(DEMO, settings)
            case ModelAccess.NONE | ModelAccess.GIVEN:
                return UnavailableProvider(choice)
            case ModelAccess.PLUGIN | ModelAccess.FILE:
                return self._provider(choice.provider, settings)
            case ModelAccess.HTTP:
                reached = replace(
                    settings,
                    base_url=choice.base_url,
                    api_key=choice.key,
                    api_mode=choice.format,
                    options=choice.options,
                )
                facts = None if self._facts is None else partial(self._facts, choice, settings)
                return self._provider(
                    OPENAI_COMPATIBLE, reached, shared=shared, facts=facts, spec=choice.provider
                )

    def _provider(
        self,
        name: str,
        settings: ModelSettings,
        *,
        shared: bool = True,
        facts: Callable[[str], ModelFacts] | None = None,
        spec: str = "",
    ) -> Provider:
        """Agents that reach a service in the same way share its provider, and with it the connections."""
        if name not in self._plugins:
            # The model is named in each request, and what is known of it is none of a provider's business.
            window = settings.context_length if settings.path else None
            settings = replace(settings, default="", provider=name, context_length=window)
        key = (name, spec, settings)
        if shared and key in self._made:
            return self._made[key]
        make = self._makers[name]
        foreign = name in self._plugins
        made: Provider
        if foreign:
            made = ForeignProvider(name, make, settings, self._redact)
        elif make is make_openai_compatible:
            made = make_openai_compatible(settings, facts)
        else:
            made = make(settings)
        place = settings.base_url or settings.path
        if self._tell is not None and place:
            made = WatchedProvider(made, place, self._tell)
        if shared:
            self._made[key] = made
        return made

    async def refresh(
        self,
        choices: Mapping[AgentId, ModelChoice],
        tell: Callable[[ModelChoice, servers.ModelListing], Awaitable[None]] | None = None,
    ) -> str:
        """Ask the services behind these choices anew what they offer; one that does not answer keeps what it
        said before. `tell` hears what each said."""
        count, silent = 0, []
        for agent, choice in choices.items():
            if choice.way is not ModelAccess.HTTP:
                continue
            listing = await servers.list_models(choice, _LIST_SECONDS)
            if tell is not None:
                await tell(choice, listing)
            if listing.models:
                self.offered[agent] = listing.names
            elif listing.fault:
                silent.append(choosing.shown_url(choice.base_url))
            count += len(listing.models)
        if silent:
            raise Unreachable(f"no list of models from {', '.join(sorted(set(silent)))}")
        return f"{count} models offered"

    async def close(self) -> None:
        made, self._made = self._made, {}
        closing = (getattr(provider, "close", None) for provider in made.values())
        await asyncio.gather(*(close() for close in closing if close is not None))
