"""The facts of a model as it is reached. What counts, from first to last: the settings; what the endpoint
said, in its list of models or in the words with which it refused a prompt; what is published.

What a server on this machine reads depends on how it was started, so nothing published is believed of it
there. And limits that errors state: `stated_limit` reads them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hermes.agent.models.catalogue import ModelCatalogue
from hermes.domain.models.model_facts import ModelFacts
from hermes.domain.models.providers import CUSTOM, find_provider
from hermes.domain.safety.late_pattern import late_pattern
from hermes.domain.settings.settings import ModelFactSettings, ModelSettings
from hermes.domain.word import field_names, replace

_PRICES = ("price_in", "price_out", "price_cache_read", "price_cache_write")
_LEAST_LIMIT = 512
# The words of OpenAI and vLLM ("maximum context length is 8192 tokens"), Anthropic ("210000 tokens > 200000
# maximum"), Gemini ("maximum number of tokens allowed (1048576)"), llama.cpp ("context size (4096 tokens)").
_LIMITS = tuple(
    late_pattern(pattern, re.IGNORECASE)
    for pattern in (
        r"maximum context length (?:is|of) (\d{3,8})",
        r"> (\d{3,8})",
        r"maximum prompt length is (\d{3,8})",
        r"token limit: (\d{3,8})",
        r"tokens allowed \((\d{3,8})\)",
        r"context (?:size|window|length|limit)(?: is| of)? ?\(?(\d{3,8})",
    )
)


def model_facts(
    name: str,
    own: ModelSettings,
    overrides: Mapping[str, ModelFactSettings],
    *,
    catalogue: ModelCatalogue,
    provider: str = "",
    local: bool = False,
    window: int | None = None,
) -> ModelFacts:
    """The facts of a model that is reached as `own` says at a `provider`; `local` is a server on this
    machine, `window` what the endpoint said."""
    spec = find_provider(provider)
    facts = catalogue.facts(provider.removeprefix(f"{CUSTOM}:") if spec is None else spec.facts, name)
    if local:
        facts = replace(facts, window=None, max_output=None, cache_floor=None)
    # openrouter.ai/docs/faq: the variant `:free` of a model costs nothing.
    is_free = provider == "openrouter" and name.endswith(":free")
    if local or is_free or (spec is not None and spec.included):
        free: Mapping[str, Any] = {**dict.fromkeys(_PRICES, 0.0), "long_after": None}
        facts = replace(facts, **free)
    if window is not None:
        facts = replace(facts, window=window)
    if own.context_length is not None and name in ("", own.default):
        facts = replace(facts, window=own.context_length)
    given = overrides.get(name)
    if given is None:
        return facts
    fields = {name: getattr(given, name) for name in field_names(ModelFacts) if name != "window"}
    fields["window"] = given.context_length
    return replace(facts, **{name: value for name, value in fields.items() if value is not None})


def stated_limit(words: str) -> int | None:
    """How many tokens a model reads, if the words with which it refused a prompt say so."""
    for pattern in _LIMITS if "per minute" not in words else ():
        found = pattern.search(words.replace(",", "")[:2000])
        if found and int(found[1]) >= _LEAST_LIMIT:
            return int(found[1])
    return None
