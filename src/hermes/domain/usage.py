"""What calls of models take, in tokens."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct


class Usage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`cached` and `cache_written` are the parts of `prompt` that were read from a cache and written to one;
    `reasoning` is a part of `completion`."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0
    reasoning: int = 0
    cache_written: int = 0

    @property
    def total(self) -> int:
        return self.prompt + self.completion


def sum_usage(used: Iterable[Usage]) -> Usage:
    every = list(used)
    return Usage(
        prompt=sum(usage.prompt for usage in every),
        completion=sum(usage.completion for usage in every),
        cached=sum(usage.cached for usage in every),
        reasoning=sum(usage.reasoning for usage in every),
        cache_written=sum(usage.cache_written for usage in every),
    )
