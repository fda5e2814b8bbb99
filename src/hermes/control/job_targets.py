"""Where the answers of a job go: from what its `deliver` says to addresses. As everywhere, except that a job
without a chat of its own answers in the first home channel, and that an address is taken as it is written."""

from __future__ import annotations

from collections.abc import Callable

from hermes.control.targets import ALL, LOCAL, ORIGIN, Known, home_channels
from hermes.control.targets import resolve_targets as resolve_words
from hermes.domain.address import LOCAL_DOOR, Address, Kind, Source, read_platform, spell_platform
from hermes.domain.errors import UserError
from hermes.domain.ports import Tx
from hermes.domain.settings import Settings
from hermes.domain.text import one_line

__all__ = ["LOCAL", "ORIGIN", "ResolveTargets", "resolve_targets"]
_CHATS = (Kind.PRIVATE, Kind.GROUP, Kind.CHANNEL, Kind.THREAD)
ResolveTargets = Callable[[Tx, str, Source | None, Settings], tuple[Address, ...]]
"""The addresses that `deliver` means, for who made the job; a `UserError` says what is wrong with it."""


def resolve_targets(tx: Tx, deliver: str, origin: Source | None, settings: Settings) -> tuple[Address, ...]:
    known = Known(homes=home_channels(tx, settings), channels=tx.directory.channels(), origin=_chat(origin))
    found: dict[Address, None] = {}
    for word in filter(None, (part.strip() for part in deliver.split(","))):
        found.update(dict.fromkeys(_targets(word, known)))
    return tuple(found)


def _chat(origin: Source | None) -> Address | None:
    if origin is None or origin.kind not in _CHATS or origin.address.platform == LOCAL_DOOR:
        return None
    return origin.address


def _targets(word: str, known: Known) -> list[Address]:
    homes = list(known.homes.values())
    name = word.lower()
    if name == LOCAL:
        return []
    if name == ORIGIN:
        return homes[:1] if known.origin is None else [known.origin]
    if name == ALL:
        return homes
    if ":" in word:
        return [_address(word, known)]
    if name not in known.homes:
        raise UserError(
            f"“{one_line(name, 60)}” has no home channel to deliver to.",
            hint="Write platform:chat, origin or local, or /sethome in a chat of it.",
        )
    return [known.homes[name]]


def _address(word: str, known: Known) -> Address:
    platform, _, rest = word.partition(":")
    account = spell_platform(*read_platform(platform))
    try:
        [found] = resolve_words(word, Known(accounts=(account,), channels=known.channels))
        return found
    except UserError:
        if rest.startswith("#"):
            raise
        return Address.parse(word)
