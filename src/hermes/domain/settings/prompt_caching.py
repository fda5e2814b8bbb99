"""Settings of the caches that services keep of prompts."""

from __future__ import annotations

from dataclasses import dataclass

from hermes.domain.settings.declaring import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptCaching:
    """How prompts are cached where a service lets one choose."""

    cache_ttl: str = setting(
        "5m",
        "How long Anthropic's models keep a prompt that nobody uses; `1h` costs more to write.",
        choices=("5m", "1h"),
    )
