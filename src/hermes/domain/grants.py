"""Grants: actions that somebody allowed for good. Bound to a person, to the digest of the exact action, and
to who allowed it; listed and revoked by their id."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from hermes.domain.ids import AgentId


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """`person` is whose action is allowed, `by` who allowed it, both told as in `owner_of`."""

    id: str
    agent: AgentId
    person: str
    digest: str
    text: str
    by: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingGrants:
    """What a turn may do without asking: everything, or the actions with these digests."""

    everything: bool = False
    digests: frozenset[str] = frozenset()

    def allows(self, digest: str) -> bool:
        return self.everything or digest in self.digests


NO_STANDING = StandingGrants()


async def no_standing() -> StandingGrants:
    """Stands where nobody keeps grants."""
    return NO_STANDING
