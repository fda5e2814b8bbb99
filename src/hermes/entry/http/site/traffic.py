"""How many requests were answered and how long they took; `/metrics` prints it."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict

from aiohttp import web

UNMATCHED = "unmatched"
_GONE = "gone"
"""Stands for the status of a request whose client did not wait for it."""
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0)
"""Upper ends of the histogram's buckets, in seconds."""


class Traffic:
    """Counts requests as they are answered, and how long they took: within each bound, and in all."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, str]] = Counter()
        self.buckets: defaultdict[tuple[str, str], list[int]] = defaultdict(lambda: [0] * (len(BOUNDS) + 1))
        self.seconds: defaultdict[tuple[str, str], float] = defaultdict(float)

    def count(self, method: str, route: str, status: int | None, seconds: float) -> None:
        """A request was answered, or, without a status, given up by its client."""
        self.requests[method, route, _GONE if status is None else f"{status // 100}xx"] += 1
        self.buckets[method, route][bisect_left(BOUNDS, seconds)] += 1
        self.seconds[method, route] += seconds


TRAFFIC = web.AppKey("traffic", Traffic)
"""Where the server keeps it for `/metrics`."""
