"""The models to choose from, as commands see them: found by name, described, and made the default."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Protocol

from msgspec import Struct

from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId
from hermes.domain.models.model_facts import ModelFacts
from hermes.domain.text import closest, list_some, one_line

_PARTS = re.compile(r"[^\W\d_]+|\d+")
_MOST_NAMED = 5


class ModelOption(Struct, frozen=True, kw_only=True):
    """A model that may be chosen. `name` is how it is kept, with its provider where that is another than the
    agent's own; `note` is what one should know."""

    name: str
    title: str = ""
    facts: ModelFacts = ModelFacts()
    note: str = ""


class ModelDirectory(Protocol):
    def names(self, agent: AgentId) -> Sequence[str]:
        """What may be chosen without naming a provider, as far as it is known."""

    def providers(self, agent: AgentId) -> Sequence[str]:
        """The other providers that can be used."""

    def describe(self, agent: AgentId, name: str) -> ModelOption:
        """A model by the name under which it is kept; the agent's own if that is empty."""

    async def find(self, agent: AgentId, text: str, provider: str, refresh: bool) -> ModelOption:
        """The model that somebody means; a `UserError` says why there is none, or several."""

    async def adopt(self, option: ModelOption) -> str:
        """Make it the model of every session that has none of its own; the sentence says what is written."""


def pick_model(text: str, names: Iterable[str], hint: str = "") -> str:
    """The one name that is meant: the same, but for capitals, or the only one that has all parts of the text.
    `hint` is what helps if nothing resembles it."""
    wanted, known = text.casefold(), list(dict.fromkeys(names))
    for name in known:
        if wanted == name.casefold():
            return name
    parts = set(_PARTS.findall(wanted))
    fitting = [name for name in known if parts and parts <= set(_PARTS.findall(name.casefold()))]
    begin = [name for name in fitting if name.rpartition("/")[2].casefold().startswith(wanted)]
    fitting = begin if len(begin) == 1 else fitting
    if len(fitting) == 1:
        return fitting[0]
    shown = one_line(text, 60)
    if fitting:
        some = list_some(sorted(fitting, key=len), _MOST_NAMED)
        raise UserError(f"“{shown}” fits {len(fitting)} models: {some}.", hint="Write more of the name.")
    near = closest(text, known)
    raise UserError(f"There is no model “{shown}” here.", hint=f"Did you mean {near}?" if near else hint)


def describe_facts(facts: ModelFacts) -> str:
    """What is known of a model, for a line: its window, its prices, what it cannot do."""
    parts = [f"{facts.window:,} tokens"] if facts.window else []
    if facts.price_in is not None and facts.price_out is not None:
        free = not facts.price_in and not facts.price_out
        parts.append(
            "nothing to pay" if free else f"${facts.price_in:g} in, ${facts.price_out:g} out per million"
        )
    parts += [
        words for known, words in ((facts.tools, "no tools"), (facts.images, "no pictures")) if known is False
    ]
    return ", ".join(parts)
