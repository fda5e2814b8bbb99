"""A session that is over, stopped before and after each write of the message that finds it so."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hermes.domain.event import UserSaid
from hermes.domain.settings import ResetMode, ResetSettings
from hermes.testing.clock import FakeClock
from hermes.testing.crash import StoppingStore
from hermes.testing.harness import Journey, open_settings
from hermes.testing.world import World

SETTINGS = open_settings(session_reset=ResetSettings(mode=ResetMode.IDLE, idle_minutes=60))
MOST_WRITES = 30


def journey(folder: Path, world: World, clock: FakeClock) -> Journey:
    return Journey(folder=folder, world=world, clock=clock, settings=SETTINGS)


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
async def test_one_new_session_begins_whatever_happens(tmp_path: Path, full: bool, after: bool) -> None:
    for number in range(1, MOST_WRITES, 1 if full else 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        world, clock = World(), FakeClock()
        async with journey(folder, world, clock) as chat:
            world.write("one")
            await chat.until_seen("You said: one")
            await chat.until_idle()
        clock.jump(7200)
        crashed = await cut_off(journey(folder, world, clock), number, after=after)
        async with journey(folder, world, clock) as chat:
            if crashed and len(world.updates) == 1:
                world.write("two")
            await chat.until_seen("You said: two", "A new session began")
            await chat.until_idle()
            sessions = await chat.database.read(lambda tx: tx.sessions.find(""))
            assert sorted(str(one.ended) for one in sessions) == ["None", "idle"]
            fresh = next(one.id for one in sessions if one.ended is None)
            entries = await chat.database.read(lambda tx, fresh=fresh: tx.journal.read(fresh))
            said = [entry.record.text for entry in entries if isinstance(entry.record, UserSaid)]
            assert said == ["two"], f"stopped at write {number}"
        assert sum("A new session began" in text for text in world.seen()) == 1
        if not crashed:
            return


async def cut_off(chat: Journey, number: int, *, after: bool) -> bool:
    """A life that ends at its n-th write; False if it came to its end before."""
    chat.wrap_store = lambda store: StoppingStore(store, number, after=after)
    try:
        await asyncio.wait_for(chat.__aenter__(), 0.5)
    except TimeoutError:
        await chat.abandon()
        return True
    assert isinstance(chat.store, StoppingStore)
    chat.world.write("two")
    talking = asyncio.create_task(talk(chat))
    stopped = asyncio.create_task(chat.store.stopped.wait())
    await asyncio.wait((talking, stopped), return_when=asyncio.FIRST_COMPLETED)
    crashed = not talking.done()
    for task in (talking, stopped):
        task.cancel()
    if crashed:
        await chat.abandon()
    else:
        await talking
    return crashed


async def talk(chat: Journey) -> None:
    await chat.until_seen("You said: two")
    await chat.until_idle()
    await chat.__aexit__()
