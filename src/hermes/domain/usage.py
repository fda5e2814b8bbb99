"""What calls of models take, in tokens."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct


class Usage(Struct, frozen=True, kw_only=True):
    prompt: int = 0
    completion: int = 0
    cached: int = 0
    reasoning: int = 0

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
    )
