"""The registry as a platform's own menu of commands: what chats there may use, in the platform's spelling.

It is sent when an account comes up, unless the platform already has this menu. Which menu it has is kept in
the store, so a restart sends nothing."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re

from hermes.control.commands.registry import COMMANDS, known_commands, usable
from hermes.control.core import GatewayCore, Runtime
from hermes.control.people.routing import route
from hermes.domain.chats.address import Address, Source, SourceKind, read_platform
from hermes.domain.chats.capabilities import MenuEntry, MenuLimits
from hermes.domain.chats.message import Inbound
from hermes.domain.errors import HermesError, UserError
from hermes.domain.ids import DeliveryId
from hermes.domain.ports.platform import Menu, Platform
from hermes.domain.settings.settings import Settings
from hermes.domain.text import one_line

log = logging.getLogger("hermes.menus")
_SECONDS = 60.0
_HIDDEN = ("start",)
"""Sent by platforms themselves."""
_NAME = re.compile(r"[a-z0-9_-]+")


def menu_entries(
    platform: str, settings: Settings, limits: MenuLimits, runtime: Runtime | None = None
) -> tuple[MenuEntry, ...]:
    """The commands by name. One whose name does not fit is left out; it works all the same, as does what is
    more than the platform takes, and that is never one of ours before one of the settings."""
    for_all = {slash.name for slash in usable(anybody_at(platform), settings, runtime)}
    offered = [
        (slash, slash.name.replace("-", limits.dash))
        for slash in known_commands(settings, runtime)
        if not slash.terminal and slash.name not in _HIDDEN
    ]
    fitting = [pair for pair in offered if len(pair[1]) <= limits.name and _NAME.fullmatch(pair[1])]
    # The sort is stable: commands stay ordered by name, ours before those of the settings.
    kept = sorted(fitting, key=lambda pair: pair[0].name not in COMMANDS)[: limits.most]
    return tuple(
        MenuEntry(
            name=name,
            summary=one_line(slash.summary, limits.summary),
            takes_text=bool(slash.usage),
            admin=slash.name not in for_all,
        )
        for slash, name in sorted(kept, key=lambda pair: pair[0].name)
    )


def anybody_at(account: str) -> Source:
    """Somebody in a private chat there whom nothing tells from others."""
    platform, name = read_platform(account)
    return Source(address=Address(platform=platform, account=name, chat="-"), kind=SourceKind.PRIVATE)


async def show_menu(core: GatewayCore, account: str, platform: Platform) -> None:
    """The account is up: bring its menu up to date, if it has one. An account has one menu, so it shows the
    commands of the agent that answers whom no route or hook sends elsewhere."""
    limits = platform.capabilities.menu
    if limits is None or not isinstance(platform, Menu):
        return
    store, settings = core.store, core.live.now
    someone = Inbound(delivery=DeliveryId("-"), source=anybody_at(account), at=core.clock.now())
    try:
        runtime = await core.agents.get(await route(someone, settings, core.agents))
    except UserError:
        runtime = None
    entries = menu_entries(account.partition("@")[0], settings, limits, runtime)
    digest, fact = hashlib.sha256(repr(entries).encode()).hexdigest(), f"menu:{account}"
    if await store.read(lambda tx: tx.facts.get(fact)) == digest:
        return
    try:
        async with asyncio.timeout(_SECONDS):
            await platform.show_menu(entries)
    except (HermesError, TimeoutError) as error:
        # Commands work without it; the next time the account comes up it is offered again.
        log.warning("menu.not_taken account=%s why=%s", account, str(error) or "no answer")
        return
    await store.write(lambda tx: tx.facts.put(fact, digest))
    log.info("menu.taken account=%s commands=%d", account, len(entries))
