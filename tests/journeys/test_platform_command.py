"""`/platform`: who looks after the accounts, and what stays over a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.domain.settings.platforms import PlatformSettings
from hermes.entry.terminal.served_door import ServedDoor, local_caller
from hermes.testing.harness import Journey, open_settings

OWNED = open_settings(platforms={"fake": PlatformSettings(allow_all_users=True, allowed_users=("ann",))})


async def said(chat: Journey, line: str) -> str:
    return (await ServedDoor(chat.gateway, local_caller()).command(line)).text


async def test_an_account_rests_over_a_restart(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, settings=OWNED) as chat:
        assert await said(chat, "/platform") == "- fake: connected"
        await chat.disconnect()
        assert await said(chat, "/platform list") == "- fake: not connected"
        assert "fake is paused until /platform resume fake" in await said(chat, "/platform pause Fake")
        assert await chat.gateway.resting("fake")
    async with Journey(folder=tmp_path, settings=OWNED) as chat:
        assert await said(chat, "/platform") == "- fake: paused by terminal:local"
        assert "fake is resumed" in await said(chat, "/platform resume fake")
        assert not await chat.gateway.resting("fake")
        assert await said(chat, "/platform resume fake") == "fake is not paused."


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("/platform pause", "/platform does not know “pause”. Write /platform list"),
        ("/platform dance fake", "/platform does not know “dance fake”."),
        ("/platform pause moon", "There is no platform “moon” here. There is: fake."),
    ],
)
async def test_what_is_wrong_is_said(tmp_path: Path, line: str, told: str) -> None:
    async with Journey(folder=tmp_path, settings=OWNED) as chat:
        assert told in await said(chat, line)
        assert not await chat.gateway.resting("fake")


async def test_it_is_for_admins_and_not_for_the_branch_one_sits_on(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, settings=OWNED) as chat:
        chat.world.write("/platform pause fake", chat="5", user="guest")
        await chat.until_seen("You may not use /platform here.", chat="5")
        chat.world.write("/platform pause fake", chat="6", user="ann")
        await chat.until_seen("nobody could resume it from here", chat="6")
        assert not await chat.gateway.resting("fake")
