"""How models are reached, as far as settings and variables say: the address, the key and the options of each
provider, for the gateway's model, for agents, roles, names of API clients and sessions.

One rule runs through all of it: a key goes only to the provider that it was made for."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId
from hermes.domain.models.providers import (
    CUSTOM,
    NO_KEY,
    PROVIDERS,
    ProviderSpec,
    find_provider,
    provider_at,
    split_model,
)
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.providers import (
    EndpointOptions,
    ProviderModel,
    ProviderRouting,
    ProviderSettings,
)
from hermes.domain.settings.settings import AUTO, AuxiliaryModel, ModelFactSettings, ModelSettings, Settings
from hermes.domain.text import closest, one_line
from hermes.domain.word import replace
from hermes.state.settings.platform_reader import API_SERVER

if TYPE_CHECKING:
    from hermes.state.settings.loader import LoadedSettings

log = logging.getLogger("hermes.settings")
T = TypeVar("T")
Variable = Callable[..., str]
"""What the first of these variables says that is set; empty if none is."""
_ROUTES = "model_routes."
_NONE = ProviderSettings()
_DEMO = "demo"
_PLACE = re.compile(r"\{([A-Z_]+)(?::([^}]*))?\}")


def key_variables(provider: str) -> tuple[str, ...]:
    """The variables that may hold a provider's key, the usual one first."""
    name = provider.strip().lower()
    spec = find_provider("openai" if name in ("", AUTO) or name.startswith(f"{CUSTOM}:") else name)
    if spec is not None:
        return spec.keys
    return ("".join(char if char.isalnum() else "_" for char in name.upper()) + "_API_KEY",)


def key_variable(provider: str) -> str:
    return next(iter(key_variables(provider)), "")


def complete_model(settings: Settings, variable: Variable) -> ModelSettings:
    """The gateway's model with its provider's key and options. `auto` becomes the one whose key is set; a
    model that is named with its provider is there, whatever else is said."""
    model = settings.model
    provider, name = split_model(model.default, settings.providers)
    if provider:
        here = provider == getattr(find_provider(model.provider), "id", model.provider.strip().lower())
        kept = model if here or provider == CUSTOM else ModelSettings()
        model = replace(kept, default=name, provider=provider, max_tokens=model.max_tokens)
    if model.provider.strip().lower() not in ("", AUTO):
        return _reached(model, settings, variable)
    if model.base_url:
        spec = provider_at(model.base_url)
        return _reached(model if spec is None else replace(model, provider=spec.id), settings, variable)
    if model.default.strip().lower() == _DEMO:
        return replace(model, provider=_DEMO)  # whatever keys are set
    for spec in PROVIDERS.values():
        if spec.is_local or spec.id == CUSTOM or not variable(*spec.keys):
            continue
        if model.api_key and spec.id != "openrouter" and not variable("OPENAI_API_KEY"):
            break
        # A key of OpenRouter may be called OPENAI_API_KEY; `choose` sees what it is.
        provider = model.provider if spec.id == "openai" else spec.id
        return _reached(replace(model, provider=provider), settings, variable)
    return _reached(model, settings, variable)


def model_at(name: str, base: ModelSettings, loaded: LoadedSettings) -> ModelSettings:
    """How a model is reached that is called `name` or `provider:name`; without a provider it is at the same
    place as `base`."""
    provider, model = split_model(name, loaded.settings.providers)
    if provider and provider != base.provider:
        return provider_model(provider, model, loaded)
    if model == base.default:
        return base
    own = _own(base.provider, loaded.settings)
    options = base.options if own is _NONE else replace(base.options, request_timeout=_limit(own, model))
    return replace(base, default=model, context_length=None, options=options)


def provider_model(provider: str, model: str, loaded: LoadedSettings) -> ModelSettings:
    """How a model is reached at a provider, or the provider's usual one."""
    return _reached(ModelSettings(default=model, provider=provider), loaded.settings, loaded.variable)


def with_routing(model: ModelSettings, routing: ProviderRouting) -> ModelSettings:
    """The same model by way of these vendors, which OpenRouter alone lets one choose."""
    spec = find_provider(model.provider) or provider_at(model.base_url)
    if spec is None or spec.id != "openrouter":
        raise UserError("Only OpenRouter lets one choose vendors.", hint="Name the provider openrouter.")
    return replace(model, options=_plus_body(model.options, json.dumps({"provider": _routed(routing)})))


def model_of(agent: AgentId, loaded: LoadedSettings) -> ModelSettings:
    """An agent's model. One with a provider of its own gets that provider's key, never the gateway's; what
    stands in the agent's `.env` comes first."""
    loaded = loaded.of(agent)
    shared = loaded.settings.model
    hosted = loaded.settings.agents.get(agent)
    if hosted is None:
        return shared
    if loaded.own:
        shared = complete_model(loaded.settings, loaded.variable)
    if hosted.provider in ("", shared.provider):
        return model_at(hosted.model or shared.default, shared, loaded)
    return provider_model(hosted.provider, hosted.model, loaded)


def model_routes(loaded: LoadedSettings) -> dict[str, ModelSettings]:
    """`platforms.api_server.model_routes` by alias. A name without a model leads nowhere and is left out."""
    block = loaded.settings.platforms.get(API_SERVER, PlatformSettings())
    values = {name: Secret(text) for name, text in block.extra.items()} | block.secrets
    routes: dict[str, dict[str, Secret]] = {}
    for name, value in values.items():
        # The alias may have dots of its own; what is said of it has none.
        alias, dot, key = name.removeprefix(_ROUTES).rpartition(".")
        if name.startswith(_ROUTES) and dot:
            routes.setdefault(alias, {})[key] = value
    by_alias: dict[str, ModelSettings] = {}
    for alias, route in routes.items():
        if route.get("model"):
            wanted = AuxiliaryModel(
                model=route["model"].reveal(),
                provider=route.get("provider", Secret("")).reveal(),
                base_url=route.get("base_url", Secret("")).reveal(),
                api_key=route.get("api_key", Secret("")),
            )
            by_alias[alias] = _beside(loaded.settings.model, wanted, loaded)
        else:
            log.warning("model_route.left_out alias=%s why=no model", one_line(alias, 60))
    return by_alias


def auxiliary_model(role: str, agent: AgentId, loaded: LoadedSettings) -> ModelSettings | None:
    """The model that an agent has for a role; None if that is its main one."""
    wanted = loaded.settings.auxiliary.get(role)
    if wanted is None or replace(wanted, enabled=True) == AuxiliaryModel():
        return None
    return service_model(wanted, agent, loaded)


def service_model(wanted: AuxiliaryModel, agent: AgentId, loaded: LoadedSettings) -> ModelSettings:
    """A model beside an agent's main one; what is empty is as for that."""
    main, loaded = model_of(agent, loaded), loaded.of(agent)
    provider = "" if wanted.provider == AUTO else wanted.provider
    spec = find_provider(provider)
    usual = spec.aux_model if spec is not None and provider != main.provider else main.default
    made = _beside(main, replace(wanted, provider=provider, model=wanted.model or usual), loaded)
    return replace(made, options=_plus_body(made.options, wanted.extra_body))


def fallback_models(agent: AgentId, loaded: LoadedSettings) -> list[ModelSettings]:
    """The models that answer when the agent's own cannot, in their order."""
    main, loaded, made = model_of(agent, loaded), loaded.of(agent), []
    for entry in loaded.settings.fallback_providers:
        key = entry.api_key or Secret(loaded.variable(entry.key_env) if entry.key_env else "")
        wanted = AuxiliaryModel(
            model=entry.model, provider=entry.provider, base_url=entry.base_url, api_key=key
        )
        made.append(_beside(main, wanted, loaded))
    return made


def fact_settings(provider: str, settings: Settings) -> Mapping[str, ModelFactSettings]:
    """What the settings know of models: of all, and before that of those at one provider."""
    facts = dict(settings.models)
    for name, model in _own(provider, settings).models.items():
        before = facts.get(name, ModelFactSettings())
        facts[name] = replace(
            before,
            context_length=_first(model.context_length, before.context_length),
            images=_first(model.supports_vision, before.images),
            max_output=_first(model.max_output_tokens, before.max_output),
        )
    return facts


def _first(value: T | None, other: T | None) -> T | None:
    return other if value is None else value


def _beside(shared: ModelSettings, wanted: AuxiliaryModel, loaded: LoadedSettings) -> ModelSettings:
    """A model beside another one. Where it is served elsewhere it never gets the other's key."""
    provider, base_url = wanted.provider, wanted.base_url
    if provider in ("", shared.provider) and base_url in ("", shared.base_url):
        key = wanted.api_key or shared.api_key
        return replace(shared, default=wanted.model, api_key=key, context_length=None)
    # The key without a name was made for the gateway's own address.
    unnamed = not provider or (
        base_url and (provider == CUSTOM or key_variable(provider) == key_variable(""))
    )
    bare = ModelSettings(
        default=wanted.model,
        provider=provider or AUTO,
        base_url=base_url,
        api_key=wanted.api_key,
        max_tokens=shared.max_tokens,
    )
    if unnamed:
        return bare
    own = find_provider(provider)
    keys = own.keys[:1] if own is not None and own.is_local else None
    made = _reached(bare, loaded.settings, loaded.variable, keys)
    return replace(made, api_key=wanted.api_key or made.api_key)


# --- one provider


def _own(provider: str, settings: Settings) -> ProviderSettings:
    """What `providers` says of it."""
    name = provider.strip().lower().removeprefix(f"{CUSTOM}:")
    spec = find_provider(name)
    return settings.providers.get(name) or settings.providers.get(spec.id if spec else "") or _NONE


def _reached(
    model: ModelSettings, settings: Settings, variable: Variable, keys: tuple[str, ...] | None = None
) -> ModelSettings:
    """The model with the address, key and options of its provider. What it says itself counts first. Only
    the variables `keys` hold its key, if they are given."""
    provider = model.provider.strip().lower()
    own, spec = _own(provider, settings), find_provider(provider)
    options = _options(spec, own, model, settings.provider_routing, variable)
    if provider.startswith(f"{CUSTOM}:") and own is _NONE and not model.base_url:
        options = _unknown(provider, settings, options)
    elif not own.enabled:
        options = replace(options, problem=f"{provider} is switched off", hint="Set its `enabled` to true.")
    at_host = provider_at(own.base_url) if own.base_url and spec is None else spec
    if own is _NONE or spec is not None:
        names = key_variables(provider) if keys is None else keys
    else:
        names = at_host.keys if at_host is not None else ()
    stored = own.api_key or Secret(variable(own.key_env, *names)) or model.api_key
    by_env = variable(spec.url_variable) if spec is not None and spec.url_variable else ""
    return replace(
        model,
        default=model.default or own.model or next(iter(own.models), ""),
        base_url=model.base_url or own.base_url or by_env,
        api_key=Secret("") if stored.reveal() == NO_KEY else stored,
        api_mode=model.api_mode or own.api_mode,
        max_tokens=_first(model.max_tokens, own.max_output_tokens),
        options=options,
    )


def _limit(own: ProviderSettings, model: str) -> float | None:
    return _first(own.models.get(model, ProviderModel()).timeout_seconds, own.request_timeout_seconds)


def _options(
    spec: ProviderSpec | None,
    own: ProviderSettings,
    model: ModelSettings,
    routing: ProviderRouting,
    variable: Variable,
) -> EndpointOptions:
    headers = json.loads(own.extra_headers or "{}")
    options = EndpointOptions(
        headers=tuple((name, Secret(str(text))) for name, text in headers.items()),
        extra_body=own.extra_body,
        request_timeout=_limit(own, model.default),
        stale_timeout=own.stale_timeout_seconds,
        ssl_verify=own.ssl_verify,
        ssl_ca_cert=own.ssl_ca_cert,
        models=tuple(dict.fromkeys(filter(None, (own.model, *own.models)))),
        discover=own.discover_models,
    )
    if spec is None:
        return options
    if spec.id == "openrouter" and routing != ProviderRouting():
        options = _plus_body(options, json.dumps({"provider": _routed(routing)}))
    url = _PLACE.sub(lambda place: variable(place[1]) or place[2] or place[0], spec.base_url)
    url = url.replace("//global-", "//")  # Google's hosts begin with their region, but for this one
    if missing := _PLACE.search(url):
        why, hint = f"{missing[1]} is not set", f"hermes config set {missing[1]} …"
        return replace(options, problem=why, hint=hint)
    return replace(options, usual_url=url if url != spec.base_url else "")


def _routed(routing: ProviderRouting) -> dict[str, object]:
    """openrouter.ai/docs/features/provider-routing"""
    fields = ("only", "ignore", "order", "sort", "require_parameters", "data_collection")
    return {name: value for name in fields if (value := getattr(routing, name))}


def _plus_body(options: EndpointOptions, body: str) -> EndpointOptions:
    if not body:
        return options
    return replace(options, extra_body=json.dumps(json.loads(options.extra_body or "{}") | json.loads(body)))


def _unknown(provider: str, settings: Settings, options: EndpointOptions) -> EndpointOptions:
    name = provider.removeprefix(f"{CUSTOM}:")
    near = closest(name, settings.providers)
    hint = f"Did you mean {CUSTOM}:{near}?" if near else "Declare it under `providers:` in config.yaml."
    return replace(
        options, problem=f"no provider is called “{one_line(name, 40)}” in the settings", hint=hint
    )
