"""Settings of the caches that services keep of prompts."""

from __future__ import annotations

from hermes.domain.settings.declaring import Section, setting


class PromptCaching(Section, frozen=True, kw_only=True):
    """How prompts are cached where a service lets one choose."""

    cache_ttl: str = setting(
        "5m",
        "How long Anthropic's models keep a prompt that nobody uses; `1h` costs more to write.",
        choices=("5m", "1h"),
    )
