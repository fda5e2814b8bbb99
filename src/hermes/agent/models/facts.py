"""The facts of models: a small table of families, and what the settings say, which counts first.

The table has only what vendors publish for a name; a name that is not here has no facts. What a server on
this machine reads depends on how it was started, so no window is believed there but one that is set."""

from __future__ import annotations

from collections.abc import Mapping

from hermes.domain.model_facts import ModelFacts
from hermes.domain.settings.settings import ModelFactSettings, ModelSettings
from hermes.domain.word import field_names, replace

_GPT41 = ModelFacts(
    window=1_047_576, max_output=32_768, images=True, tools=True, thinking=False, cache_floor=1024
)
_GPT4O = ModelFacts(
    window=128_000, max_output=16_384, images=True, tools=True, thinking=False, cache_floor=1024
)
_GEMINI25 = ModelFacts(window=1_048_576, max_output=65_536, images=True, tools=True, thinking=True)

# platform.openai.com/docs/models, ai.google.dev/gemini-api/docs/models, docs.anthropic.com (models overview)
FAMILIES: Mapping[str, ModelFacts] = {
    "gpt-4.1": replace(_GPT41, price_in=2.0, price_out=8.0, price_cache_read=0.5),
    "gpt-4.1-mini": replace(_GPT41, price_in=0.4, price_out=1.6, price_cache_read=0.1),
    "gpt-4.1-nano": replace(_GPT41, price_in=0.1, price_out=0.4, price_cache_read=0.025),
    "gpt-4o": replace(_GPT4O, price_in=2.5, price_out=10.0, price_cache_read=1.25),
    "gpt-4o-mini": replace(_GPT4O, price_in=0.15, price_out=0.6, price_cache_read=0.075),
    "gemini-2.0-flash": ModelFacts(window=1_048_576, max_output=8_192, images=True, tools=True),
    "gemini-2.5-pro": _GEMINI25,
    "gemini-2.5-flash": _GEMINI25,
    "claude-3-5-sonnet": ModelFacts(window=200_000, max_output=8_192, images=True, tools=True),
    "claude-sonnet-4": ModelFacts(window=200_000, max_output=64_000, images=True, tools=True, thinking=True),
}
"""By the beginning of a name, without the vendor that some services write before it."""
_MARKS = ("-", ":", "@")


def family_facts(name: str) -> ModelFacts:
    """What the table knows: the facts of the longest family that the name belongs to."""
    bare = name.strip().lower().rpartition("/")[2]
    fitting = [family for family in FAMILIES if bare == family or bare.startswith(_after(family))]
    return FAMILIES[max(fitting, key=len)] if fitting else ModelFacts()


def model_facts(
    name: str,
    own: ModelSettings,
    overrides: Mapping[str, ModelFactSettings],
    *,
    local: bool = False,
) -> ModelFacts:
    """The facts of a model that is reached as `own` says; `local` is a server on this machine."""
    facts = family_facts(name)
    if local:
        facts = ModelFacts(
            images=facts.images, tools=facts.tools, thinking=facts.thinking, price_in=0.0, price_out=0.0
        )
    if own.context_length is not None and name in ("", own.default):
        facts = replace(facts, window=own.context_length)
    given = overrides.get(name)
    if given is None:
        return facts
    fields = {name: getattr(given, name) for name in field_names(ModelFacts) if name != "window"}
    fields["window"] = given.context_length
    return replace(facts, **{name: value for name, value in fields.items() if value is not None})


def _after(family: str) -> tuple[str, ...]:
    return tuple(family + mark for mark in _MARKS)
