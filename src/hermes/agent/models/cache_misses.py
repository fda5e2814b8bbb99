"""Why a prompt was not found in a service's cache, as far as one can tell from outside: what the call before
this one was is kept in the session's memory, and the two are compared."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from msgspec import Struct

from hermes.domain.models.usage import CacheMiss, Usage
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.tools.tool import Tool
from hermes.domain.turns.event import Entry, ModelSaid

_MEMORY = "cache trace"
_HIT = 0.5
"""Which part of what was sent before has to be found again; floors and blocks leave a rest."""


class _CacheTrace(Struct, frozen=True, kw_only=True):
    place: str
    model: str
    system: str
    tools: Sequence[Tool]
    notes: Mapping[int, str]
    first: Entry | None
    last: Entry | None
    count: int
    at: float
    tokens: int

    def miss(self, now: _CacheTrace, entries: Sequence[Entry], lifetime: float) -> CacheMiss:
        if (self.place, self.model) != (now.place, now.model):
            return CacheMiss.MODEL_CHANGED
        if tuple(self.tools) != tuple(now.tools):
            return CacheMiss.TOOLS_CHANGED
        begins = self.count <= now.count and (
            not self.count or (entries[0] is self.first and entries[self.count - 1] is self.last)
        )
        if not begins or (self.system, self.notes) != (now.system, now.notes):
            return CacheMiss.PREFIX_CHANGED
        return CacheMiss.EXPIRED if now.at - self.at > lifetime else CacheMiss.UNEXPLAINED


def cache_miss(
    request: ModelRequest, usage: Usage, *, place: str, floor: int, lifetime: float
) -> CacheMiss | None:
    """Why this call found less in the cache than it could; None if it did not, or nobody can tell. `place` is
    where it went, `floor` the tokens below which nothing is cached, `lifetime` for how many seconds it is."""
    entries = request.entries
    now = _CacheTrace(
        place=place,
        model=request.model,
        system=request.system,
        tools=request.tools,
        notes=request.notes,
        first=entries[0] if entries else None,
        last=entries[-1] if entries else None,
        count=len(entries),
        at=time.monotonic(),
        tokens=usage.prompt,
    )
    kept = request.memory.get(_MEMORY)
    before = kept if isinstance(kept, _CacheTrace) else None
    request.memory[_MEMORY] = now
    expected = min(usage.prompt, before.tokens) if before else 1
    if not usage.prompt or usage.cached >= _HIT * expected:
        return None
    if usage.prompt < floor or (before and before.tokens < floor):
        return CacheMiss.BELOW_FLOOR
    return before.miss(now, entries, lifetime) if before else _without_trace(entries, lifetime)


def _without_trace(entries: Sequence[Entry], lifetime: float) -> CacheMiss | None:
    """After a restart only the transcript tells of the call before."""
    said = [entry for entry in entries if isinstance(entry.record, ModelSaid)]
    if not said:
        return CacheMiss.FIRST_CALL
    age = (entries[-1].at - said[-1].at).total_seconds()
    return CacheMiss.EXPIRED if age > lifetime else None
