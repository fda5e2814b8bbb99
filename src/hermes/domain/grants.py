"""Grants: actions that somebody allowed for good. Bound to a person, to the digest of the exact action, and
to who allowed it; listed and revoked by their id."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

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


class Grants(Protocol):
    """The grants of one agent."""

    def add(self, grant: Grant) -> None:
        """Keep a grant; one for the same person and action is there already, and stays as it is."""

    def list(self, person: str | None = None) -> list[Grant]:
        """Everybody's, or a person's; the oldest first."""

    def revoke(self, grant: str) -> bool:
        """False if there is none with this id."""


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
