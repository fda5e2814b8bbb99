"""Kills at random moments under load: the history stays whole."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from hermes.control.turn.claim import GIVEN_UP
from hermes.testing.history import check_history
from tests.crash.lives import Lives

WORDS = ("", " read", " once", " keyed", " read once", " once keyed read")


@pytest.mark.parametrize(("kind", "kills"), [("edits", 30), ("plain", 60)])
async def test_killed_at_random_under_load(tmp_path: Path, full: bool, kind: str, kills: int) -> None:
    chance = random.Random(f"kills {kind}")
    kills = kills if full else 3
    async with Lives(folder=tmp_path, kind=kind) as lives:
        count = 0
        for _ in range(kills):
            await lives.begin()
            moment = asyncio.get_running_loop().time() + chance.uniform(0.35, 1.0)
            while asyncio.get_running_loop().time() < moment:
                count += 1
                room = str(chance.randrange(8))
                update = lives.world.write(f"m{count}{chance.choice(WORDS)}", chat=room, user=f"u{room}")
                if chance.random() < 0.2:
                    lives.world.repeat(update)
                await asyncio.sleep(chance.uniform(0.002, 0.02))
            await lives.kill()
        await lives.begin()
        await lives.until_answered(count)
        assert await lives.end() == 0
        assert check_history(lives.world) == []
        assert not any(GIVEN_UP in text for text in lives.world.seen())
        assert await lives.leftovers() == []


async def test_asked_to_stop_while_busy_it_exits_cleanly_and_goes_on_later(
    tmp_path: Path, full: bool
) -> None:
    chance = random.Random("stops")
    async with Lives(folder=tmp_path, kind="plain") as lives:
        count = 0
        for _ in range(50 if full else 4):
            await lives.begin()
            for _ in range(chance.randrange(1, 6)):
                count += 1
                room = str(chance.randrange(5))
                lives.world.write(f"m{count}{chance.choice(WORDS)}", chat=room, user=f"u{room}")
            await asyncio.sleep(chance.uniform(0.3, 0.6))
            assert await lives.end() == 0
        await lives.begin()
        await lives.until_answered(count)
        assert await lives.end() == 0
        assert check_history(lives.world) == []
