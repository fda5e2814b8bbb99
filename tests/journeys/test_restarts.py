"""Stops and restarts, as people in chats see them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes.control.outbound.notices import BACK, ONLINE, RESTARTED, STOPPED
from hermes.domain.errors import UserError
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.settings import DisplaySettings, Settings
from hermes.domain.turns.turn import BusyMode
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import Say, call, last_words, say
from hermes.testing.world import World

OWNER = PlatformSettings(allowed_users=("u1",), home_channel="home")


def slow_at_first(lives: list[int]) -> Callable[[ModelRequest], Say]:
    """A model that never ends in the first life."""

    def script(request: ModelRequest) -> Say:
        hold = asyncio.Event() if len(lives) == 1 else None
        return Say(text=f"answer to {last_words(request)!r}", pieces=2, hold=hold)

    return script


def settings(account: str = "fake", **changes: object) -> Settings:
    queue = DisplaySettings(busy_input_mode=BusyMode.QUEUE)
    return open_settings(platforms={account: OWNER}, display=queue, **changes)


@pytest.mark.parametrize(("kind", "account"), [("edits", "fake"), ("plain", "fake"), ("plain", "fake@work")])
async def test_a_restart_from_a_chat(tmp_path: Path, kind: str, account: str) -> None:
    world, lives, asked = World(), [1], asyncio.Event()

    def life() -> Journey:
        script = slow_at_first(lives)
        return Journey(
            folder=tmp_path,
            world=world,
            kind=kind,
            account=account,
            script=script,
            settings=settings(account),
            restart=asked.set,
        )

    async with life() as chat:
        world.write("think hard")
        await chat.until(lambda: bool(chat.model.requests))
        world.write("/restart")
        await asked.wait()
        await chat.until_seen("I will tell you here when I am back")
        await chat.gateway.stop(0.05, restarts=True)
        assert world.seen("1").count(RESTARTED) == 1 and BACK not in world.seen()
    lives.append(2)
    world.write("meanwhile")
    async with life() as chat:
        await chat.until_seen(BACK, "answer to 'think hard'", "answer to 'meanwhile'")
        await chat.until_idle()
        assert world.seen("home") == [ONLINE]
        assert world.seen("1").count(BACK) == 1 and world.seen("1").count(RESTARTED) == 1
    async with life() as chat:
        await chat.until_idle()
        assert world.seen().count(BACK) == 1 and world.seen("home") == [ONLINE]


async def test_a_stop_tells_only_chats_whose_answer_is_unfinished(tmp_path: Path) -> None:
    world, lives = World(), [1]

    def script(request: ModelRequest) -> Say:
        if last_words(request) == "use danger":
            return call("danger", '{"token": "t"}', id="d")
        if last_words(request) == "quick":
            return say("done")
        return slow_at_first(lives)(request)

    async with Journey(folder=tmp_path, world=world, script=script, settings=open_settings()) as chat:
        world.write("quick", chat="1", user="u1")
        world.write("use danger", chat="2", user="u2")
        await chat.until_seen("done", "May I do t?")
        world.write("long", chat="3", user="u3")
        world.write("longer", chat="3", user="u3")
        await chat.until(lambda: any(last_words(asked).startswith("long") for asked in chat.model.requests))
        await chat.gateway.stop(0.05)
    assert [place for place in "123" if STOPPED in world.seen(place)] == ["3"]
    assert world.seen("3").count(STOPPED) == 1
    lives.append(2)
    async with Journey(folder=tmp_path, world=world, script=script, settings=open_settings()) as chat:
        await chat.until_seen("answer to 'longer'")
        await chat.until_idle()
        assert world.seen().count(STOPPED) == 1 and ONLINE not in world.seen() and BACK not in world.seen()


async def test_a_platform_can_be_left_in_peace(tmp_path: Path) -> None:
    world, lives = World(), [1]
    quiet = PlatformSettings(allow_all_users=True, home_channel="home", gateway_restart_notification=False)
    peace = open_settings(platforms={"fake": quiet})
    async with Journey(folder=tmp_path, world=world, script=slow_at_first(lives), settings=peace) as chat:
        world.write("long")
        await chat.until(lambda: bool(chat.model.requests))
        await chat.gateway.stop(0.05, restarts=True)
    lives.append(2)
    async with Journey(folder=tmp_path, world=world, script=slow_at_first(lives), settings=peace) as chat:
        await chat.until_seen("answer to 'long'")
        await chat.until_idle()
    assert world.seen() == ["answer to 'long'"]


async def test_a_restart_that_would_fail_is_refused_in_the_chat(tmp_path: Path) -> None:
    world, asked, problems = World(), asyncio.Event(), ["config.yaml:1: “terminal.backend” is wrong."]

    async def check() -> None:
        if problems:
            raise UserError(problems.pop())

    own = settings("fake")
    async with Journey(
        folder=tmp_path, world=world, settings=own, restart=asked.set, check_start=check
    ) as chat:
        world.write("/restart")
        await chat.until_seen("“terminal.backend” is wrong.")
        assert not asked.is_set()
        world.write("/restart")
        await asked.wait()


async def test_who_may_not_restart_changes_nothing(tmp_path: Path) -> None:
    world, asked = World(), asyncio.Event()
    tiers = PlatformSettings(allow_all_users=True, allow_admin_from=("boss",))
    own = open_settings(platforms={"fake": tiers})
    async with Journey(folder=tmp_path, world=world, settings=own, restart=asked.set) as chat:
        world.write("/restart", user="u1")
        await chat.until_seen("You may not use /restart here.")
        assert not asked.is_set()
    async with Journey(folder=tmp_path, world=world, settings=own) as chat:
        world.write("/restart", chat="9", user="boss")
        await chat.until_seen("This gateway belongs to a chat in a terminal.")
        await chat.until_idle()
    assert BACK not in world.seen()


async def test_an_update_restarts_and_one_that_fails_changes_nothing(tmp_path: Path) -> None:
    world, asked, news = World(), asyncio.Event(), ["", "no such package", "1 change to come:\n- Hear better"]

    async def update() -> str:
        told = news.pop(0)
        if told.startswith("no "):
            raise UserError(f"The new version could not be prepared, so the old one stays: {told}")
        return told

    tiers = PlatformSettings(allow_all_users=True, allow_admin_from=("boss",))
    own = open_settings(platforms={"fake": tiers})
    async with Journey(folder=tmp_path, world=world, settings=own, restart=asked.set, update=update) as chat:
        world.write("/update", user="u1")
        await chat.until_seen("You may not use /update here.")
        world.write("/update", user="boss")
        await chat.until_seen("Hermes is up to date.")
        world.write("/update", user="boss")
        await chat.until_seen("the old one stays: no such package")
        assert not asked.is_set()
        world.write("/update", user="boss")
        await chat.until_seen("Updated. Restarting now")
        await asyncio.wait_for(asked.wait(), 10)
