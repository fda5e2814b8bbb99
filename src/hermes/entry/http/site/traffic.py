"""Counts the requests of the HTTP door as they are answered: by their route, never by what they say."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass, field

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0)
"""Upper ends of the histogram's buckets, in seconds."""
UNMATCHED = "unmatched"
GONE = "gone"
"""Stands for the status of a request whose client did not wait for it."""


@dataclass(slots=True)
class Durations:
    """A histogram: how many requests ended within each bound, beyond all of them, and their sum."""

    buckets: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        self.buckets[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds


class Traffic:
    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, str]] = Counter()
        self.durations: defaultdict[tuple[str, str], Durations] = defaultdict(Durations)

    def count(self, method: str, route: str, status: int | None, seconds: float) -> None:
        """A request was answered, or, without a status, given up by its client."""
        self.requests[method, route, GONE if status is None else f"{status // 100}xx"] += 1
        self.durations[method, route].add(seconds)
