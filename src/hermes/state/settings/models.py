"""Which model settings an agent has, and those behind each name that clients may ask for.

A key is never sent to a place that it was not made for: whoever names another provider or address gets that
one's key or none."""

from __future__ import annotations

import logging
from dataclasses import replace

from hermes.domain.ids import AgentId
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.settings import ModelSettings
from hermes.domain.text import one_line
from hermes.state.settings.loader import LoadedSettings, key_variable

log = logging.getLogger("hermes.settings")
_BLOCK = "api_server"
_ROUTES = "model_routes."


def model_of(agent: AgentId, loaded: LoadedSettings) -> ModelSettings:
    """An agent's model. One with a provider of its own gets that provider's key, never the gateway's."""
    shared = loaded.settings.model
    hosted = loaded.settings.agents.get(agent)
    if hosted is None:
        return shared
    if hosted.provider in ("", shared.provider):
        return replace(shared, default=hosted.model or shared.default)
    return ModelSettings(
        default=hosted.model, provider=hosted.provider, api_key=_key(hosted.provider, loaded)
    )


def model_routes(loaded: LoadedSettings) -> dict[str, ModelSettings]:
    """`platforms.api_server.model_routes` by alias. A name without a model leads nowhere and is left out."""
    block = loaded.settings.platforms.get(_BLOCK, PlatformSettings())
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
            by_alias[alias] = _route(route, loaded)
        else:
            log.warning("model_route.left_out alias=%s why=no model", one_line(alias, 60))
    return by_alias


def _route(block: dict[str, Secret], loaded: LoadedSettings) -> ModelSettings:
    shared = loaded.settings.model
    provider, base_url = (block[key].reveal() if key in block else "" for key in ("provider", "base_url"))
    model, key = block["model"].reveal(), block.get("api_key")
    elsewhere = provider not in ("", shared.provider) or base_url not in ("", shared.base_url)
    if not elsewhere:
        return replace(shared, default=model, api_key=key or shared.api_key)
    # The key without a name was made for the gateway's own address.
    unnamed = not provider or (base_url and key_variable(provider) == key_variable(""))
    own = key or (Secret("") if unnamed else _key(provider, loaded))
    return ModelSettings(
        default=model,
        provider=provider or "auto",
        base_url=base_url,
        api_key=own,
        max_tokens=shared.max_tokens,
    )


def _key(provider: str, loaded: LoadedSettings) -> Secret:
    return loaded.secrets.get(key_variable(provider)) or Secret("")
