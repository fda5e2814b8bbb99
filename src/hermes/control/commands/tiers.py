"""Tiers: who may use which slash commands, apart for private chats and all else. Pure; it is applied
in one place, `commands.registry.perform`, so it counts for every command, idle or running."""

from __future__ import annotations

from dataclasses import dataclass

from hermes.control.people.access import ids_of, is_listed
from hermes.domain.address import LOCAL_DOOR, Source, SourceKind
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.settings import Settings

ALWAYS = ("help", "whoami")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """`commands` are those that one may use, as the operator wrote them; None is all. An `owner` may also do
    what lets other people in."""

    name: str
    reason: str
    commands: tuple[str, ...] | None = None
    owner: bool = False


def tier_of(source: Source, settings: Settings) -> Tier:
    if source.address.platform == LOCAL_DOOR:
        return Tier(name="admin", reason="it is this machine's terminal", owner=True)
    account, block = source.address.credential, settings.block(source.address)
    private = source.kind is SourceKind.PRIVATE
    lists = [(name, getattr(block, name)) for name in ("allow_admin_from", "group_allow_admin_from")]
    own, other = lists if private else lists[::-1]
    # Whoever names admins for one sort of chats means that nobody else is one in the other.
    key, admins = own if own[1] or not other[1] else other
    if not admins:
        owner = bool(ids_of(source) & _named(block, settings))
        why = "; the operator named you" if owner else ""
        return Tier(name="everybody", reason=f"{account}.{key} names no admins{why}", owner=owner)
    if is_listed(source, admins):
        return Tier(name="admin", reason=f"{account}.{key} names you", owner=True)
    listed = block.group_user_allowed_commands
    if private and block.user_allowed_commands:
        listed = block.user_allowed_commands
    named = tuple(word.strip().lstrip("/").lower().replace("_", "-") for word in listed)
    return Tier(name="user", reason=f"{account}.{key} does not name you", commands=(*ALWAYS, *named))


def _named(block: PlatformSettings, settings: Settings) -> set[str]:
    """People whom the operator let in by id; `*` names nobody."""
    return {one.strip() for one in (*block.allowed_users, *settings.allowed_users)} - {"*", ""}
