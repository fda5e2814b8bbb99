"""Where the answers of a job go: what its `deliver` says, looked up like any target. `origin` is the chat in
which the job was made; a job that was made elsewhere goes to the first home channel, or else stays local."""

from __future__ import annotations

from collections.abc import Callable, Collection

from hermes.control.outbound.targets import LOCAL, ORIGIN, Aliases, known_targets, resolve_targets
from hermes.domain.address import Address, Source
from hermes.domain.ports.store import Tx
from hermes.domain.settings.settings import Settings

ResolveTargets = Callable[[Tx, str, Source | None, Settings], tuple[Address, ...]]
"""The addresses that `deliver` means, for who made the job; a `UserError` says what is wrong with it."""


def named_targets(names: Callable[[], Aliases], accounts: Collection[str] = ()) -> ResolveTargets:
    """Knows also the chat names of a file, and the accounts that only have a token. It is called in the
    store's own thread, where reading a file may wait."""

    def look_up(tx: Tx, deliver: str, origin: Source | None, settings: Settings) -> tuple[Address, ...]:
        chat = origin.address if origin is not None and origin.is_chat else None
        known = known_targets(tx, settings, {*settings.platforms, *accounts}, names(), chat)
        words = [word.strip() for word in deliver.split(",") if word.strip()]
        homes: tuple[Address, ...] = ()
        if chat is None and any(word.lower() == ORIGIN for word in words):
            words = [word for word in words if word.lower() != ORIGIN] or [LOCAL]
            homes = tuple(known.homes.values())[:1]
        return tuple(dict.fromkeys((*homes, *resolve_targets(",".join(words), known))))

    return look_up


default_targets = named_targets(dict)
"""Knows only the names that chats have by themselves."""
