"""The registry as a platform's menu: what stands in it, and that it is handed over only when it changed."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

from hermes.control.commands.menu import menu_entries
from hermes.control.commands.registry import COMMANDS
from hermes.domain.chats.capabilities import MenuLimits
from hermes.domain.errors import Unreachable
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.settings import QuickCommand, Settings
from hermes.plugins import load_commands
from hermes.testing.clock import settle
from hermes.testing.harness import PATIENCE, Journey, open_settings
from hermes.testing.world import World

TELEGRAM = MenuLimits(most=100, name=32, summary=256, dash="_")


def names(**settings: Any) -> dict[str, bool]:
    load_commands()
    found = menu_entries("telegram", Settings(**settings), TELEGRAM)
    return {entry.name: entry.admin for entry in found}


def test_a_menu_has_what_chats_may_use() -> None:
    menu = names()
    assert {"help", "stop", "new", "sethome", "pair"} <= menu.keys()
    assert not {"start", "handoff"} & menu.keys(), "nothing that no person writes here"
    assert menu["pair"] and menu["sethome"] and not menu["help"]
    assert list(menu) == sorted(menu) and all(re.fullmatch("[a-z0-9_]{1,32}", name) for name in menu)


def test_where_admins_are_named_the_rest_is_theirs() -> None:
    block = PlatformSettings(allow_admin_from=("1",), user_allowed_commands=("status",))
    menu = names(platforms={"telegram": block})
    assert sorted(name for name, admin in menu.items() if not admin) == ["help", "status", "whoami"]


def test_limits_are_kept_and_ours_come_first() -> None:
    quick = {name: QuickCommand(type="exec", command="date") for name in ("a-quick-one", "x" * 33, "zzz")}
    menu = names(quick_commands=quick)
    assert "a_quick_one" in menu and "zzz" in menu and "x" * 33 not in menu
    ours = len([one for one in COMMANDS.values() if not one.terminal and not one.gate]) - 1
    few = menu_entries("telegram", Settings(quick_commands=quick), MenuLimits(most=ours, summary=10))
    assert len(few) == ours and all(len(entry.summary) <= 10 for entry in few)
    assert not any(entry.name in quick for entry in few)
    assert {entry.name: entry.takes_text for entry in few}["queue"]


async def test_it_is_handed_over_when_it_changed(tmp_path: Path) -> None:
    world = World()
    async with Journey(folder=tmp_path, world=world) as chat:
        await chat.until(lambda: len(world.menus) == 1)
        assert "help" in world.menus[0]
        async with asyncio.timeout(PATIENCE):
            while await chat.database.read(lambda tx: tx.facts.get("menu:fake")) is None:
                await settle()
        await chat.disconnect()
        chat.connect()
        world.write("hello")
        await chat.until_idle()
        assert len(world.menus) == 1, "it is the same"
    settings = open_settings(quick_commands={"now": QuickCommand(type="exec", command="date")})
    world.trouble = lambda what, chat: Unreachable("later") if what == "menu" else None
    async with Journey(folder=tmp_path, world=world, settings=settings) as chat:
        world.write("again")
        await chat.until_idle()
        assert len(world.menus) == 1, "it was not taken"
        world.trouble = None
        await chat.disconnect()
        chat.connect()
        await chat.until(lambda: len(world.menus) == 2)
        assert "now" in world.menus[1]
