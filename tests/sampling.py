"""What of a matrix belongs to the sample run; the whole of it runs under ./test --all."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any

import pytest

Case = tuple[Any, ...]


def sampled(cases: Sequence[Case], chosen: Collection[Case]) -> list[Any]:
    """The cases as parameters; those that were not chosen are left to the full run."""
    return [pytest.param(*case, marks=() if case in chosen else pytest.mark.full) for case in cases]


def one_of_each(cases: Sequence[Case], kind: Callable[[Case], Hashable], seed: str) -> set[Case]:
    """One case of each kind; the seed decides which."""
    found: dict[Hashable, Case] = {}
    for case in random.Random(seed).sample(cases, len(cases)):
        found.setdefault(kind(case), case)
    return set(found.values())
