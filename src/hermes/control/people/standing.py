"""Standing: who is the owner or an admin, and who is a stranger. Whose commands run where, and who may let
other people in, follows from it; whatever is empty, missing or malformed makes a stranger."""

from __future__ import annotations

from msgspec import Struct

from hermes.control.people.access import ids_of, is_listed
from hermes.domain.chats.address import DEFAULT_ACCOUNT, LOCAL_DOOR, REMOTE, Source, SourceKind
from hermes.domain.ids import AgentId
from hermes.domain.settings.settings import SCRIPT_DOOR, Settings

OWNERS_KEYS = frozenset({DEFAULT_ACCOUNT, "owner"})
"""Whose requests are the owner's: the gateway's own key, and whoever connects to the owner's socket. No other
key can be called so."""
_ADMIN_SCOPE, _CHATS_SCOPE = "admin", "sessions"


class AdminList(Struct, frozen=True, kw_only=True):
    """The list of admins that counts in a place, by its key, and whether it is `named`, that is, names
    anybody; `holds` says whether who asks is an admin or, where none are named, let in by id, and `alone`
    whether nobody else is."""

    key: str
    named: bool
    holds: bool
    alone: bool


def admin_list(source: Source, settings: Settings) -> AdminList:
    block = settings.block(source.address)
    lists = [(name, getattr(block, name)) for name in ("allow_admin_from", "group_allow_admin_from")]
    own, other = lists if source.kind is SourceKind.PRIVATE else lists[::-1]
    # Whoever names admins for one sort of chats means that nobody else is one in the other.
    key, admins = own if own[1] or not other[1] else other
    if admins:
        alone = len({ident.strip() for ident in admins} - {""}) == 1 and "*" not in admins
        return AdminList(key=key, named=True, holds=is_listed(source, admins), alone=alone)
    # People whom the operator let in by id; `*` names nobody.
    named = {ident.strip() for ident in (*block.allowed_users, *settings.allowed_users)} - {"*", ""}
    holds = not ids_of(source).isdisjoint(named)
    return AdminList(key=key, named=False, holds=holds, alone=len(named) == 1)


def is_owner(source: Source) -> bool:
    """Whether it comes from a terminal, or from a Python program of the owner's."""
    return source.address.platform in (LOCAL_DOOR, SCRIPT_DOOR)


def at_machine(source: Source) -> bool:
    """Whether it is the owner at this machine, whose commands run on it as their own would."""
    return is_owner(source) and source.address.chat != REMOTE


def is_trusted(source: Source | None, settings: Settings) -> bool:
    """Whether this is the owner or an admin. Nobody is the operator's own doing: a job made by hand, the
    agent itself. An API key is an admin if it has the scope; whoever writes to a webhook is a stranger."""
    if source is None or is_owner(source) or source.kind is SourceKind.JOB:
        return True
    if source.kind is SourceKind.WEBHOOK:
        return False
    if source.kind is SourceKind.API:
        name = source.address.account
        key = settings.block(source.address).keys.get(name)
        return name in OWNERS_KEYS or (key is not None and _ADMIN_SCOPE in key.scopes)
    return not source.is_bot and admin_list(source, settings).holds


def may_deliver(source: Source, settings: Settings) -> bool:
    """Whether somebody's jobs may answer in any chat. An API key's may with the scope for chats."""
    key = None
    if source.kind is SourceKind.API:
        key = settings.block(source.address).keys.get(source.address.account)
    return is_trusted(source, settings) or (key is not None and _CHATS_SCOPE in key.scopes)


def may_task(source: Source | None, agent: AgentId, settings: Settings) -> bool:
    """Whether somebody's work may be given to another agent than the one they speak with. One that people do
    not reach works for everybody; what others have told one that they do reach is not for strangers."""
    if not settings.speaks(agent):
        return True
    if source is not None and source.kind is SourceKind.API:
        key = settings.block(source.address).keys.get(source.address.account)
        if key is not None:
            return key.agents is None or agent in key.agents
    return is_trusted(source, settings)
