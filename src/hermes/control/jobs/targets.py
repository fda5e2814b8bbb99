"""Where the answers of a job go: what its `deliver` says, looked up as any target is. A job without a chat of
its own that says `origin` goes to the first home channel there is, and else stays at home."""

from __future__ import annotations

from collections.abc import Callable, Collection

from hermes.control.outbound.targets import LOCAL, ORIGIN, Aliases, known_targets
from hermes.control.outbound.targets import resolve_targets as resolve
from hermes.domain.address import Address, Source
from hermes.domain.ports.store import Tx
from hermes.domain.settings.settings import Settings

__all__ = ["LOCAL", "ORIGIN", "ResolveTargets", "named_targets", "resolve_targets"]

ResolveTargets = Callable[[Tx, str, Source | None, Settings], tuple[Address, ...]]
"""The addresses that `deliver` means, for who made the job; a `UserError` says what is wrong with it."""


def named_targets(names: Callable[[], Aliases], accounts: Collection[str] = ()) -> ResolveTargets:
    """With the names of a file, too, and the accounts of which only a token was told. Jobs are looked at in
    the store's own thread, where that may wait."""

    def look_up(tx: Tx, deliver: str, origin: Source | None, settings: Settings) -> tuple[Address, ...]:
        chat = origin.address if origin is not None and origin.is_chat else None
        known = known_targets(tx, settings, {*settings.platforms, *accounts}, names(), chat)
        words = [word.strip() for word in deliver.split(",") if word.strip()]
        if chat is None and any(word.lower() == ORIGIN for word in words):
            words = [word for word in words if word.lower() != ORIGIN] or [LOCAL]
            homes = tuple(known.homes.values())[:1]
            return tuple(dict.fromkeys((*homes, *resolve(",".join(words), known))))
        return resolve(",".join(words), known)

    return look_up


resolve_targets = named_targets(dict)
"""With the names that chats have by themselves."""
