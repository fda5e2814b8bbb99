"""What this life of the gateway has done so far, counted as it happens: for metrics, never for decisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hermes.domain.event import Entry, Failed, Finished, Record, Stopped

_ENDS: dict[type[Record], str] = {Finished: "finished", Failed: "failed", Stopped: "stopped"}


class GatewayCounters:
    def __init__(self) -> None:
        self.ended: Counter[str] = Counter(dict.fromkeys(_ENDS.values(), 0))
        self.undeliverable = 0

    def see(self, entries: Sequence[Entry]) -> None:
        """Records were stored."""
        for entry in entries:
            end = _ENDS.get(type(entry.record))
            if end is not None:
                self.ended[end] += 1
