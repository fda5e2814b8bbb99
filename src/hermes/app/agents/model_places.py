"""Where the models of a gateway are: how each is reached by name or as `provider:model`, what is known of it
there, and how its provider is doing. What an endpoint said of a model's window, also in an error, is
remembered over a restart."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from hermes.agent.models.catalogue import ModelCatalogue
from hermes.agent.models.choose import ModelAccess, ModelChoice, is_local, shown_url, wire_format
from hermes.agent.models.facts import model_facts, stated_limit
from hermes.agent.models.registry import Models
from hermes.agent.models.servers import ModelListing
from hermes.domain.clock import Clock
from hermes.domain.errors import FaultKind, ModelFault
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.models.model_facts import ModelFacts
from hermes.domain.models.providers import PROVIDERS, find_provider, split_model
from hermes.domain.ports.store import Store, Tx
from hermes.domain.settings.providers import EndpointOptions
from hermes.domain.settings.settings import LOCAL_WINDOW, ModelSettings
from hermes.domain.text import one_line
from hermes.domain.word import replace
from hermes.state.settings.loader import LoadedSettings
from hermes.state.settings.model_access import fact_settings, model_at

_WINDOWS = "model.windows"
_MOST_WINDOWS = 200
_MOST_ROUTES = 256
CACHE_FOLDER = "cache"


class ProviderHealth(Struct, kw_only=True):
    """How a provider is: what it said when it was last asked for its models, and how the last call ended."""

    title: str
    models: int = 0
    fault: str = ""
    asked_at: str = ""
    call_fault: str = ""
    call_at: str = ""


class ModelPlaces:
    """For one generation of settings. `windows` are by model and address, with whether an error stated it."""

    def __init__(self, loaded: LoadedSettings, clock: Clock, home: Path | None) -> None:
        self._loaded = loaded
        self._clock = clock
        self.catalogue = ModelCatalogue(None if home is None else home / CACHE_FOLDER)
        self.models = Models()
        self._store: Store | None = None
        self._windows: dict[str, tuple[int, bool]] = {}
        self._listed: dict[str, int] = {}
        self._health: dict[str, ProviderHealth] = {}
        self._reached: dict[tuple[ModelSettings, str, AgentId], tuple[ModelChoice, ModelSettings]] = {}

    async def open(self, store: Store) -> None:
        """Read what was remembered."""
        if self._store is None:
            self._store = store
            text = await store.read(lambda tx: tx.facts.get(_WINDOWS))
            windows = json.loads(text or "{}")
            self._windows = {key: (int(size), bool(said)) for key, (size, said) in windows.items()}

    # --- by name

    def find(
        self, name: str, base: ModelSettings, own: ModelChoice | None, agent: AgentId = MAIN_AGENT
    ) -> tuple[ModelChoice, ModelSettings]:
        """How a model is reached that is called so beside the `own` one of an agent, whose settings are
        `base`."""
        key = (base, name, agent)  # agents have keys of their own
        if key not in self._reached:
            if len(self._reached) >= _MOST_ROUTES:
                self._reached.clear()
            self._reached[key] = self._look_up(name, base, own, agent)
        return self._reached[key]

    def _look_up(
        self, name: str, base: ModelSettings, own: ModelChoice | None, agent: AgentId
    ) -> tuple[ModelChoice, ModelSettings]:
        provider, bare = split_model(name, self._loaded.settings.providers)
        settings = model_at(name, base, self._loaded.of(agent))
        if provider or own is None:
            return self.models.choose_named(settings), settings
        if own.way is not ModelAccess.HTTP or name == own.model:
            return replace(own, model=bare), settings
        spec = find_provider(own.provider) or PROVIDERS["custom"]
        wire = settings.api_mode or wire_format(spec, own.base_url, bare)
        return replace(own, model=bare, format=wire, options=_with_limit(own, settings)), settings

    def facts(self, choice: ModelChoice | None, settings: ModelSettings) -> ModelFacts:
        """What is known of the model of a choice, or of what the settings name before anything is chosen."""
        model = settings.default if choice is None else choice.model or settings.default
        url, provider = ("", settings.provider) if choice is None else (choice.base_url, choice.provider)
        of_file = choice is not None and choice.way is ModelAccess.FILE
        usual = LOCAL_WINDOW if of_file else None
        return model_facts(
            model,
            replace(settings, default=model),
            fact_settings(provider, self._loaded.settings),
            catalogue=self.catalogue,
            provider=provider,
            local=is_local(url) or of_file,
            window=self._windows.get(f"{model}@{settings.path if of_file else url}", (usual, False))[0],
        )

    def facts_beside(self, choice: ModelChoice, settings: ModelSettings, model: str) -> ModelFacts:
        """What is known of a model that is reached like the one of a choice."""
        return self.facts(replace(choice, model=model or choice.model), settings)

    # --- what providers say

    async def tell_call(self, base_url: str, model: str, fault: ModelFault | None) -> None:
        """A call ended."""
        health = self._health.get(base_url)
        if fault is None:
            if health is not None and health.call_fault:
                health.call_fault, health.call_at = "", self._now()
            return
        if health is None:
            health = self._health[base_url] = ProviderHealth(title=shown_url(base_url))
        health.call_fault, health.call_at = one_line(fault.message, 200), self._now()
        limit = stated_limit(fault.quote) if fault.kind is FaultKind.TOO_LONG else None
        if limit is not None:
            await self._remember({f"{model}@{base_url}": (limit, True)})

    async def tell_listing(self, choice: ModelChoice, listing: ModelListing) -> None:
        """A provider was asked for its models."""
        health = self._health.setdefault(choice.base_url, ProviderHealth(title=choice.title))
        health.title, health.asked_at = choice.title, self._now()
        health.fault, health.models = listing.fault, len(listing.models) or health.models
        sizes = {model.name: model.window for model in listing.models if model.window is not None}
        key = f"{choice.model}@{choice.base_url}"
        listed = sizes.get(choice.model)
        if listed is None or (self._listed.get(key) == listed and not is_local(choice.base_url)):
            # What an error said since then stays; but a server here may have been started anew.
            return
        self._listed[key] = listed
        await self._remember({key: (listed, False)})

    def health(self) -> Sequence[Mapping[str, Any]]:
        """How the providers are that were asked or called since the start."""
        fields = ("title", "models", "fault", "asked_at", "call_fault", "call_at")
        return [
            {"url": shown_url(url), **{name: getattr(one, name) for name in fields}}
            for url, one in self._health.items()
        ]

    async def _remember(self, windows: Mapping[str, tuple[int, bool]]) -> None:
        if all(self._windows.get(key) == value for key, value in windows.items()):
            return
        self._windows = dict([*self._windows.items(), *windows.items()][-_MOST_WINDOWS:])
        text = json.dumps(self._windows)

        def write(tx: Tx) -> None:
            tx.facts.put(_WINDOWS, text)

        if self._store is not None:
            await self._store.write(write)

    def _now(self) -> str:
        return self._clock.now().isoformat()


def _with_limit(own: ModelChoice, settings: ModelSettings) -> EndpointOptions:
    return replace(own.options, request_timeout=settings.options.request_timeout)
