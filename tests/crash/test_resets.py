"""A session that is over, stopped before and after each write of the message that finds it so."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.domain.settings.settings import ResetMode, ResetSettings
from hermes.domain.turns.event import UserSaid
from hermes.testing.clock import FakeClock
from hermes.testing.harness import Journey, open_settings
from hermes.testing.world import World
from tests.journeys.cut import one_life, stops

SETTINGS = open_settings(session_reset=ResetSettings(mode=ResetMode.IDLE, idle_minutes=60))
MOST_WRITES = 60


def journey(folder: Path, world: World, clock: FakeClock) -> Journey:
    return Journey(folder=folder, world=world, clock=clock, settings=SETTINGS)


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
async def test_one_new_session_begins_whatever_happens(tmp_path: Path, full: bool, after: bool) -> None:
    for number in stops(full, MOST_WRITES, f"{after}"):
        folder = tmp_path / str(number)
        folder.mkdir()
        world, clock = World(), FakeClock()
        async with journey(folder, world, clock) as chat:
            world.write("one")
            await chat.until_seen("You said: one")
            await chat.until_idle()
        clock.jump(7200)
        crashed = await one_life(journey(folder, world, clock), talk, stop_at=number, after=after)
        async with journey(folder, world, clock) as chat:
            await talk(chat)
            sessions = await chat.database.read(lambda tx: tx.sessions.find(""))
            assert sorted(str(one.ended) for one in sessions) == ["None", "idle"]
            fresh = next(one.id for one in sessions if one.ended is None)
            entries = await chat.database.read(lambda tx, fresh=fresh: tx.journal.read(fresh))
            said = [entry.record.text for entry in entries if isinstance(entry.record, UserSaid)]
            assert said == ["two"], f"stopped at write {number}"
        assert sum("A new session began" in text for text in world.seen()) == 1
        if not crashed:
            return
    pytest.fail("the story never came to its end")


async def talk(chat: Journey) -> None:
    if len(chat.world.updates) == 1:
        chat.world.write("two")
    await chat.until_seen("You said: two", "A new session began")
    await chat.until_idle()
