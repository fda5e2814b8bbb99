"""Accounts that an admin lets rest: facts of the store, and a bell for the hosts that wait for a change."""

from __future__ import annotations

import asyncio

from hermes.domain.ports.store import Store, Tx

_RESTING = "resting:"


def paused_by(tx: Tx, account: str) -> str:
    """Who lets an account rest; nobody if it does not."""
    return tx.facts.get(_RESTING + account) or ""


def pause_account(tx: Tx, account: str, by: str) -> None:
    """By nobody wakes it."""
    tx.facts.put(_RESTING + account, by)


class PausedAccounts:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._bell = asyncio.Event()

    def changed(self) -> None:
        """A command ran: it may have been that one."""
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
