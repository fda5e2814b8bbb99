"""Where the answers of a job go: from what its `deliver` says to addresses. Names of channels, and home
channels that a command has set, are the business of whoever is given in its place."""

from __future__ import annotations

from collections.abc import Callable

from hermes.domain.address import LOCAL_DOOR, Address, Kind, Source
from hermes.domain.errors import UserError
from hermes.domain.settings import Settings
from hermes.domain.text import one_line

LOCAL, ORIGIN = "local", "origin"
_CHATS = (Kind.PRIVATE, Kind.GROUP, Kind.CHANNEL, Kind.THREAD)
ResolveTargets = Callable[[str, Source | None, Settings], tuple[Address, ...]]
"""The addresses that `deliver` means, for who made the job; a `UserError` says what is wrong with it."""


def resolve_targets(deliver: str, origin: Source | None, settings: Settings) -> tuple[Address, ...]:
    found: dict[Address, None] = {}
    for word in filter(None, (part.strip() for part in deliver.split(","))):
        found.update(dict.fromkeys(_targets(word, origin, settings)))
    return tuple(found)


def _targets(word: str, origin: Source | None, settings: Settings) -> list[Address]:
    match word.lower():
        case "local":
            return []
        case "origin":
            if origin is not None and origin.kind in _CHATS and origin.address.platform != LOCAL_DOOR:
                return [origin.address]
            return _homes(settings)[:1]
        case "all":
            return _homes(settings)
        case name if ":" not in name:
            return [_home(name, settings)]
        case _:
            return [_address(word)]


def _address(word: str) -> Address:
    platform, _, rest = word.partition(":")
    if rest.startswith("#"):
        raise UserError(
            f"The channel “{one_line(rest, 60)}” is not known here.", hint=f"Give its id: {platform}:<id>."
        )
    return Address.parse(word)


def _homes(settings: Settings) -> list[Address]:
    return [_home(name, settings) for name in settings.platforms if _has_home(name, settings)]


def _has_home(name: str, settings: Settings) -> bool:
    known = settings.platforms.get(name)
    return known is not None and bool(known.home_channel)


def _home(name: str, settings: Settings) -> Address:
    if not _has_home(name, settings):
        raise UserError(
            f"“{one_line(name, 60)}” has no home channel to deliver to.",
            hint="Write platform:chat, origin or local, or set its home_channel.",
        )
    known = settings.platforms[name]
    if ":" in known.home_channel:
        return Address.parse(known.home_channel)
    return Address(platform=name, chat=known.home_channel, thread=known.home_thread or None)
