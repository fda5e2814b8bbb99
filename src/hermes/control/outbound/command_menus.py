"""Command menus on platforms that have them: sent when an account comes up, unless the platform already has
this menu. Which menu it has is kept in the store, so a restart sends nothing."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Sequence

from hermes.control.workers import report_death
from hermes.domain.capabilities import MenuEntry, MenuLimits
from hermes.domain.errors import HermesError
from hermes.domain.ports.platform import Menu, Platform
from hermes.domain.ports.store import Store

log = logging.getLogger("hermes.menus")
_SECONDS = 60.0


MenuEntries = Callable[[str, MenuLimits], Sequence[MenuEntry]]
"""The commands that chats of a platform may use, as its menu can show them."""


class Menus:
    def __init__(self, store: Store, entries: MenuEntries) -> None:
        self._store = store
        self._entries = entries
        self._tasks: set[asyncio.Task[None]] = set()

    def offer(self, account: str, platform: Platform) -> None:
        """The account is up."""
        if platform.capabilities.menu is None or not isinstance(platform, Menu):
            return
        task = asyncio.create_task(self._show(account, platform), name=f"menu {account}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(report_death)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _show(self, account: str, platform: Platform) -> None:
        limits = platform.capabilities.menu
        assert limits is not None and isinstance(platform, Menu)
        entries = self._entries(account.partition("@")[0], limits)
        digest, fact = hashlib.sha256(repr(entries).encode()).hexdigest(), f"menu:{account}"
        if await self._store.read(lambda tx: tx.facts.get(fact)) == digest:
            return
        try:
            async with asyncio.timeout(_SECONDS):
                await platform.show_menu(entries)
        except (HermesError, TimeoutError) as error:
            # Commands work without it; the next time the account comes up it is offered again.
            log.warning("menu.not_taken account=%s why=%s", account, str(error) or "no answer")
            return
        await self._store.write(lambda tx: tx.facts.put(fact, digest))
        log.info("menu.taken account=%s commands=%d", account, len(entries))
