"""From what somebody types to a model: at the agent's own provider or at another one, by the list that the
provider gives, else by what is published. Used by `/model` in a gateway and by `hermes model` without one."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from hermes.agent.models.choose import DEMO, ModelAccess, ModelChoice, first_usable, unknown_provider_hint
from hermes.agent.models.servers import ModelListing, list_models
from hermes.app.agents.model_places import ModelPlaces
from hermes.app.agents.models import AgentModels
from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.models.providers import CUSTOM, PROVIDERS, find_provider, split_model
from hermes.domain.ports.models import ModelOption, pick_model
from hermes.domain.settings.settings import ModelSettings
from hermes.domain.text import one_line
from hermes.domain.word import replace
from hermes.state.home.findings import SettingsFindings
from hermes.state.home.textfile import read_text
from hermes.state.settings.loader import CONFIG_FILE, LoadedSettings, check_text

_VERSION = re.compile(r"[-.@v]*\d+|-latest")
_LIST_SECONDS = 5.0
_UNCHECKED = "Its provider gave no list of models, so the name could not be checked."
_NO_TOOLS = "⚠️ It calls no tools, so the agent can only talk with it."


class ModelSearch(Struct, frozen=True, kw_only=True):
    """For one agent: the settings of its model, what was chosen by them, the names of API clients, and what
    its provider offers, if it was asked."""

    places: ModelPlaces
    loaded: LoadedSettings
    base: ModelSettings
    own: ModelChoice | None = None
    agent: AgentId = MAIN_AGENT
    aliases: Mapping[str, str] = field(default_factory=dict)
    offered: Sequence[str] = ()
    keyed: Callable[[ModelChoice], ModelChoice] = lambda choice: choice
    """A choice with a stored credential, if it has no key of its own."""

    async def find(self, text: str, provider: str = "", refresh: bool = False) -> ModelOption:
        """The model that is meant; a `UserError` says why there is none, or several."""
        alias = next((name for name in self.aliases if name.casefold() == text.casefold()), "")
        if alias and not provider:
            return self.describe(alias)
        where, bare = split_model(text, self.loaded.settings.providers)
        if provider:
            where, bare = self.provider(provider), bare if where == self.provider(provider) else text
        if not where and self.own is not None and self.own.way is ModelAccess.DEMO and bare.lower() != DEMO:
            where = next(iter(self.usable()), "")
            if not where:
                hint = "hermes setup asks for a provider and its key; or start a model server here first."
                raise UserError("No model but the demo model can answer: no key is set.", hint=hint)
        choice = self.choice(where, bare)
        if choice.way is ModelAccess.NONE:
            raise UserError(f"No model answers there: {choice.why}.", hint=choice.hint)
        names = await self._names(choice, refresh or bool(where))
        here = where in ("", self.base.provider)
        known = [*self.aliases, *filter(None, (self.base.default,)), *names] if here else names
        name = self._pick(bare, choice, known, checked=bool(names))
        answering = self._choice_of(name if here else f"{where}:{name}")
        if answering is not None and answering.way is ModelAccess.NONE:
            raise UserError(f"No model answers then: {answering.why}.", hint=answering.hint)
        made = self.describe(name if here else f"{where}:{name}")
        unchecked = "" if names or name in (*known, *self._published(choice)) else _UNCHECKED
        return replace(made, note="\n".join(filter(None, (made.note, unchecked))))

    def _choice_of(self, name: str) -> ModelChoice | None:
        """Who answers for a name under which a model is kept."""
        model = self.aliases.get(name, name)
        return self.own if model in ("", self.base.default) else self._reached(model)[0]

    def _reached(self, model: str) -> tuple[ModelChoice, ModelSettings]:
        return self.places.find(model, self.base, self.own, self.agent)

    def describe(self, name: str) -> ModelOption:
        """A model by the name under which it is kept."""
        model = self.aliases.get(name, name)
        if model in ("", self.base.default):
            choice, settings = self.own, self.base
        else:
            choice, settings = self._reached(model)
        facts = self.places.facts(choice, settings)
        title = "" if choice is None else choice.title or choice.provider
        note = _NO_TOOLS if facts.tools is False else ""
        return ModelOption(name=name or self.base.default, title=title, facts=facts, note=note)

    def provider(self, name: str) -> str:
        """The provider by its id, also if it is called otherwise; a `UserError` if there is none."""
        own = self.loaded.settings.providers
        wanted, inner = name.strip().lower(), name.strip().lower().removeprefix(f"{CUSTOM}:")
        spec = find_provider(wanted)
        if spec is not None:
            return spec.id
        if inner in own:
            return f"{CUSTOM}:{inner}"
        raise UserError(
            f"The provider “{one_line(name, 40)}” is not known.",
            hint=unknown_provider_hint(wanted, [f"{CUSTOM}:{one}" for one in own]),
        )

    def usable(self) -> list[str]:
        """The other providers that can be used: a key or a login is there."""
        every = [name for name, spec in PROVIDERS.items() if name != CUSTOM and not spec.is_local]
        every += [
            f"{CUSTOM}:{name}" for name in self.loaded.settings.providers if find_provider(name) is None
        ]
        return [
            name
            for name in every
            if name != self.base.provider
            and (self.own is None or name != self.own.provider)
            and self.choice(name, "").way is ModelAccess.HTTP
        ]

    def state(self, provider: str) -> str:
        """How it stands with a provider: empty if it can be used, else what is missing."""
        choice = self.choice(provider, "")
        return "" if choice.way is not ModelAccess.NONE else choice.hint or choice.why

    def choice(self, where: str, model: str = "") -> ModelChoice:
        """Who answers at a provider, or at the agent's own."""
        if where in ("", self.base.provider) and self.own is not None:
            return self.own
        # A name stands in where none is given: without one, the provider's usual model is asked for.
        choice, _ = self._reached(f"{where}:{model or '-'}")
        return choice

    async def _names(self, choice: ModelChoice, ask: bool) -> Sequence[str]:
        if choice.way is not ModelAccess.HTTP:
            return self.offered
        if self.offered and choice is self.own and not ask:
            return self.offered
        return await self.live_names(choice)

    async def live_names(self, choice: ModelChoice) -> Sequence[str]:
        """What a provider says it has; nothing if it does not say."""
        return (await self.listing(choice)).names if choice.way is ModelAccess.HTTP else ()

    async def listing(self, choice: ModelChoice) -> ModelListing:
        listing = await list_models(self.keyed(choice), _LIST_SECONDS)
        await self.places.tell_listing(choice, listing)
        return listing

    def _published(self, choice: ModelChoice) -> list[str]:
        spec = find_provider(choice.provider)
        return [model.name for model in self.places.catalogue.models(spec.facts if spec else "")]

    def _pick(self, text: str, choice: ModelChoice, listed: Sequence[str], *, checked: bool) -> str:
        if not text:
            spec = find_provider(choice.provider)
            usual = spec.model if spec is not None else ""
            usual = usual if usual in listed or not checked else ""
            name = usual or next(iter(choice.options.models), "") or first_usable(listed)
            if not name:
                raise UserError("No model is named.", hint="Write its name.")
            return name
        published = self._published(choice)
        if newest := _newest_of_family(text, [name for name in published if not checked or name in listed]):
            return newest
        if checked:
            return pick_model(text, listed, hint="`hermes model list` names those there are.")
        # Nobody gave a list: what is published helps to complete a name, but is not the last word.
        try:
            return pick_model(text, [*listed, *published])
        except UserError as error:
            if "fits" in error.message:
                raise
            return text


def _newest_of_family(text: str, published: Sequence[str]) -> str:
    """The newest model whose name holds the text, if all that do differ only in their version; else nothing.
    `published` has the newest first."""
    if text in published:
        return text
    fitting = [name for name in published if text.lower() in name.lower()]
    families = {_VERSION.sub("", name.lower()) for name in fitting}
    return fitting[0] if len(families) == 1 else ""


class GatewayModels:
    """The directory of models that a gateway's commands see. `models` and `loaded` are those of now."""

    def __init__(
        self,
        home: Path,
        models: Callable[[], AgentModels],
        loaded: Callable[[], LoadedSettings],
        apply: Callable[[], Awaitable[object]],
    ) -> None:
        self._home = home
        self._apply = apply
        self._models = models
        self._loaded = loaded

    def _search(self, agent: AgentId) -> ModelSearch:
        return ModelSearch(**self._models().search_parts(agent))

    def names(self, agent: AgentId) -> Sequence[str]:
        search = self._search(agent)
        own = sorted({*search.aliases, *filter(None, (self._loaded().settings.model.default,))})
        return [*own, *sorted({*search.offered} - {*own})]

    def providers(self, agent: AgentId) -> Sequence[str]:
        return self._search(agent).usable()

    def describe(self, agent: AgentId, name: str) -> ModelOption:
        return self._search(agent).describe(name)

    async def find(self, agent: AgentId, text: str, provider: str, refresh: bool) -> ModelOption:
        if refresh:
            await self._models().refresh()
        if not (text or provider):
            return self.describe(agent, "")
        return await self._search(agent).find(text, provider, refresh)

    async def adopt(self, option: ModelOption) -> str:
        adopted = await asyncio.to_thread(adopt_model, self._home, self._loaded(), option.name)
        try:
            await self._apply()
        except UserError as error:
            return f"{adopted} The gateway does not use it yet: {error}"
        return adopted


def adopt_model(home: Path, loaded: LoadedSettings, name: str) -> str:
    """Write a model down as the default. What the environment says would beat it, so that is refused."""
    for variable in ("HERMES_MODEL", "HERMES_INFERENCE_MODEL"):
        if loaded.variable(variable):
            hint = f"Remove it from .env or the environment, or set it to {name}."
            raise UserError(f"{variable} is set, and counts before config.yaml.", hint=hint)
    from hermes.state.settings.by_key import set_setting  # rarely needed, and large

    in_file, _ = check_text(read_text(home / CONFIG_FILE, SettingsFindings(CONFIG_FILE)).text)
    own = loaded.settings.providers
    provider, _ = split_model(in_file.model.default, own)
    if provider and not split_model(name, own)[0]:
        # The name in the file says the provider, so a bare one would go to whichever has a key.
        name = f"{provider}:{name}"
    written = set_setting(home, "model.default", name)
    return f"The default model is now {name} ({written.file})."
