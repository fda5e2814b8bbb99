"""Settings of what answers when a model or a key does not: the fallback chain, and how keys are chosen."""

from __future__ import annotations

from hermes.domain.models.credential import PoolStrategy
from hermes.domain.settings.declaring import Secret, Section, setting


class FallbackEntry(Section, frozen=True, kw_only=True):
    """A model that answers when the agent's own cannot. With a mistake in it, it does not count."""

    provider: str = setting("", "Who serves it.")
    model: str = setting("", "Its name.")
    base_url: str = setting("", "Address of an API; empty = the provider's own.", form="url")
    api_key: Secret = setting(Secret(""), "Its key; a named provider has one by its variable or login.")
    key_env: str = setting("", "A variable that holds its key.")


class PoolSettings(Section, frozen=True, kw_only=True):
    """How one of several credentials of a provider is chosen."""

    strategy: PoolStrategy = setting(
        PoolStrategy.FILL_FIRST,
        "The first that works, each in turn, any, or the one that was used least.",
    )
