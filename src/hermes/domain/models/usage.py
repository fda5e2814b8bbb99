"""What calls of models take: tokens and dollars, of one call and in sums."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from hermes.domain.ids import SessionId, TurnId
from hermes.domain.models.model_facts import MediaRole, ModelFacts, ModelRole
from hermes.domain.word import field_names, replace

_KEPT_FACTOR = 2
"""What an hour's cache costs to write (platform.claude.com/docs/en/build-with-claude/prompt-caching)."""
TOKENS = ("prompt", "completion", "cached", "reasoning", "cache_written")


class Usage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`cached` and `cache_written` are the parts of `prompt` that were read from a cache and written to one,
    `cache_kept` the part of the latter that is kept for an hour, which costs more;
    `reasoning` is a part of `completion`. `cost` is in dollars: 0 where nobody bills it (a server on this
    machine), None where the price is not known. `model` and `role` say who was asked, where the record around
    it does not."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0
    reasoning: int = 0
    cache_written: int = 0
    cache_kept: int = 0
    cost: float | None = None
    model: str = ""
    role: str = ""

    @property
    def total(self) -> int:
        return self.prompt + self.completion


class CacheMiss(StrEnum):
    """Why a call found little or nothing of its prompt in a service's cache, most likely."""

    BELOW_FLOOR = "below_floor"
    """The prompt is shorter than what the model caches."""
    FIRST_CALL = "first_call"
    EXPIRED = "expired"
    """It was cached longer ago than the service keeps it."""
    MODEL_CHANGED = "model_changed"
    TOOLS_CHANGED = "tools_changed"
    PREFIX_CHANGED = "prefix_changed"
    """Something that was sent before is different now: a summary, an undo, a note that was forgotten."""
    UNEXPLAINED = "unexplained"


def sum_usage(used: Iterable[Usage]) -> Usage:
    """All together; of who was asked, the first is named."""
    every = list(used)
    costs = [usage.cost for usage in every if usage.cost is not None]
    return Usage(
        prompt=sum(usage.prompt for usage in every),
        completion=sum(usage.completion for usage in every),
        cached=sum(usage.cached for usage in every),
        reasoning=sum(usage.reasoning for usage in every),
        cache_written=sum(usage.cache_written for usage in every),
        cache_kept=sum(usage.cache_kept for usage in every),
        cost=sum(costs) if costs else None,
        model=next((usage.model for usage in every if usage.model), ""),
        role=next((usage.role for usage in every if usage.role), ""),
    )


def priced(usage: Usage, facts: ModelFacts) -> Usage:
    """With its cost by the model's prices, unless its service told the cost itself, or a price is missing."""
    cost_in, cost_out = facts.price_in, facts.price_out
    billed = cost_in == cost_out == 0 or usage.total
    if usage.cost is not None or cost_in is None or cost_out is None or not billed:
        return usage
    read = cost_in if facts.price_cache_read is None else facts.price_cache_read
    write = cost_in if facts.price_cache_write is None else facts.price_cache_write
    plain = max(usage.prompt - usage.cached - usage.cache_written, 0)
    dollars = plain * cost_in + usage.cached * read + usage.cache_written * write
    dollars += usage.cache_kept * max(_KEPT_FACTOR * cost_in - write, 0)
    if facts.long_after is not None and usage.prompt > facts.long_after:
        # Published for reading and writing alone; what concerns caches rises with what is read.
        dollars *= (facts.price_long_in or cost_in) / cost_in if cost_in else 1
        cost_out = facts.price_long_out or cost_out
    return replace(usage, cost=round((dollars + usage.completion * cost_out) / 1e6, 9))


class AuxiliaryCall(Struct, frozen=True, kw_only=True):
    """A call of a model beside a conversation, such as for a title or a summary. No record tells of it. It
    counts for who speaks in `turn`, or else for the owner of the session."""

    session: SessionId
    role: ModelRole | MediaRole
    model: str
    usage: Usage
    at: datetime
    turn: TurnId | None = None


class CostStatus(StrEnum):
    ESTIMATED = "estimated"
    INCLUDED = "included"
    UNKNOWN = "unknown"


class UsageSum(Struct, frozen=True, kw_only=True):
    """What calls took together. `unpriced` is how many of them have no known price: the cost is without
    them."""

    calls: int = 0
    prompt: int = 0
    completion: int = 0
    cached: int = 0
    reasoning: int = 0
    cache_written: int = 0
    cost: float = 0.0
    unpriced: int = 0

    @property
    def total(self) -> int:
        return self.prompt + self.completion

    @property
    def status(self) -> CostStatus:
        if self.calls and self.unpriced == self.calls:
            return CostStatus.UNKNOWN
        return CostStatus.ESTIMATED if self.cost or self.unpriced else CostStatus.INCLUDED

    @property
    def hit_ratio(self) -> float | None:
        """Which part of what was read came from a cache; None if nothing was read."""
        return self.cached / self.prompt if self.prompt else None


class UsageGroup(Struct, frozen=True, kw_only=True):
    """A sum, and what it is of: a value for each of the names that were asked for."""

    key: tuple[str, ...]
    used: UsageSum


def total_of(groups: Iterable[UsageGroup]) -> UsageSum:
    every = [group.used for group in groups]
    return UsageSum(**{name: sum(getattr(used, name) for used in every) for name in field_names(UsageSum)})


def merged(groups: Iterable[UsageGroup], place: int) -> dict[str, UsageSum]:
    """The sums by one part of their keys."""
    parts: dict[str, list[UsageGroup]] = {}
    for group in groups:
        parts.setdefault(group.key[place], []).append(group)
    return {name: total_of(same) for name, same in parts.items()}
