"""Platform accounts: which there are, which are up now, which an admin has paused."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

from hermes.domain.chats.address import DEFAULT_ACCOUNT, Address, read_platform
from hermes.domain.chats.capabilities import NO_ABILITIES, Capabilities
from hermes.domain.ports.platform import Platform
from hermes.domain.ports.store import Store, Tx
from hermes.domain.turns.gateway_event import CommandRun

_PAUSED = "resting:"


class PlatformAccounts:
    """The accounts of a gateway. `declared` is what each platform can do according to its manifest;
    `configured` are the accounts of the settings, or one of each platform if nobody says."""

    def __init__(self, declared: Mapping[str, Capabilities], configured: Collection[str] | None) -> None:
        self._declared = declared
        self._configured = declared if configured is None else configured
        self.up: dict[str, Platform] = {}
        """The platforms of the accounts that are up now."""

    @property
    def names(self) -> Collection[str]:
        """All accounts, up or not."""
        return {*self._configured, *self.up}

    def knows(self, to: Address) -> bool:
        """Whether there is such a platform at all, and such an account of it."""
        named = to.account != DEFAULT_ACCOUNT
        return to.platform in self._declared and (not named or to.credential in self.names)

    @property
    def receiving(self) -> list[str]:
        """Those that people write from."""
        platforms = {name: read_platform(name)[0] for name in self.names}
        return [name for name, one in platforms.items() if self._declared.get(one, NO_ABILITIES).receives]

    def capabilities(self, to: Address) -> Capabilities:
        """What can be done there. An account that is up says so itself, because servers differ."""
        platform = self.up.get(to.credential)
        able = self._declared.get(to.platform) if platform is None else platform.capabilities
        return able or NO_ABILITIES


def paused_by(tx: Tx, account: str) -> str:
    """Who paused an account; empty if nobody did."""
    return tx.facts.get(_PAUSED + account) or ""


def pause_account(tx: Tx, account: str, by: str) -> None:
    """Pause an account; with an empty `by` it runs again."""
    tx.facts.put(_PAUSED + account, by)


class PausedAccounts:
    """Tells hosts whether their account is paused, and lets them wait for a change."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._bell = asyncio.Event()

    def heard(self, event: CommandRun) -> None:
        """A command ran, perhaps one that pauses or resumes."""
        self._bell.set()
        self._bell = asyncio.Event()

    async def __call__(self, account: str) -> bool:
        return bool(await self._store.read(lambda tx: paused_by(tx, account)))

    async def until(self, account: str, *, resting: bool) -> None:
        while True:
            bell = self._bell
            if await self(account) is resting:
                return
            await bell.wait()
