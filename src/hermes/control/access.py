"""Access: may this person speak here. One pure decision, with its reason. Empty denies."""

from __future__ import annotations

from dataclasses import dataclass

from hermes.domain.address import LOCAL_DOOR, Source
from hermes.domain.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    allowed: bool
    reason: str


def decide(source: Source, settings: Settings) -> Decision:
    """The terminal → allow-all of the platform → its list → the global list → global allow-all → deny."""
    if source.address.platform == LOCAL_DOOR:
        return Decision(allowed=True, reason="it is this machine's terminal")
    platform = settings.platforms.get(source.address.platform)
    names = {name for name in (source.user, source.user_alt) if name}
    if source.is_bot:
        return Decision(allowed=False, reason="bots are not answered")
    if platform is not None and platform.allow_all_users:
        return Decision(allowed=True, reason=f"{source.address.platform} allows everybody")
    if not names:
        return Decision(allowed=False, reason="the platform gave no user id")
    if platform is not None and names & set(platform.allowed_users):
        return Decision(allowed=True, reason=f"on the list of {source.address.platform}")
    if names & set(settings.allowed_users):
        return Decision(allowed=True, reason="on the list of all platforms")
    if settings.allow_all_users:
        return Decision(allowed=True, reason="everybody is allowed on all platforms")
    return Decision(allowed=False, reason="on no list")
