"""Jobs stopped before and after each write: each slot has exactly one run, and its answer is seen once."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import pytest

from hermes.control.jobs.editing import JobSpec
from hermes.control.jobs.wording import INTERRUPTED
from hermes.control.outbound.answers import REPEAT_MARK
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.settings.settings import CronSettings
from hermes.domain.turns.job import JobRun, RunState, ScriptReport
from hermes.testing.clock import FakeClock, settle
from hermes.testing.harness import PATIENCE, Journey, open_settings
from hermes.testing.jobs import FakeJobWorld
from hermes.testing.model import say
from hermes.testing.world import World
from tests.journeys.cut import one_life, stops

ANN = Source(address=Address(platform="fake", chat="1"), kind=SourceKind.PRIVATE, user="u1")
MOST_WRITES = 60
STORIES = {
    "plain": JobSpec(schedule="every 10m", prompt="look"),
    "all": JobSpec(schedule="every 10m", prompt="look", catch_up="all"),
    "script": JobSpec(schedule="every 10m", prompt="look", script="ten.sh"),
    "no agent": JobSpec(schedule="every 10m", script="ten.sh", no_agent=True),
    "once": JobSpec(schedule="10m", prompt="look"),
}


def journey(folder: Path, world: World, clock: FakeClock, jobs: FakeJobWorld) -> Journey:
    return Journey(
        folder=folder,
        world=world,
        clock=clock,
        jobs=jobs,
        kind="plain",
        script=lambda request: say("looked"),
        settings=open_settings(timezone="UTC", cron=CronSettings(wrap_response=False)),
    )


def machine() -> FakeJobWorld:
    async def ten() -> ScriptReport:
        return ScriptReport(output="looked")

    return FakeJobWorld(scripts={"ten.sh": ten})


async def runs(chat: Journey) -> list[JobRun]:
    return await chat.database.read(lambda tx: tx.job_runs.of(None, 100))


async def live(chat: Journey, clock: FakeClock) -> None:
    """Two slots come and go."""
    for _ in range(2):
        await settle()
        await clock.leap(600)
        await rest(chat)


async def rest(chat: Journey) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        await settle(3)
        due = await chat.database.read(lambda tx: tx.jobs.due(chat.clock.now()).jobs)
        if not due and all(run.state is RunState.OVER for run in await runs(chat)) and await chat.idle():
            return
    raise AssertionError(f"never came to rest: {await runs(chat)}")


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
@pytest.mark.parametrize("name", STORIES)
async def test_stopped_at_each_write(tmp_path: Path, full: bool, name: str, after: bool) -> None:
    for number in stops(full, MOST_WRITES, f"{name} {after}"):
        folder = tmp_path / str(number)
        folder.mkdir()
        world, clock, jobs = World(), FakeClock(), machine()
        async with journey(folder, world, clock, jobs) as chat:
            await chat.gateway.jobs(MAIN_AGENT).create(STORIES[name], ANN)
        crashed = await one_life(
            journey(folder, world, clock, jobs), partial(live, clock=clock), stop_at=number, after=after
        )
        async with journey(folder, world, clock, jobs) as chat:
            await rest(chat)
            await live(chat, clock)
            found = await runs(chat)
        judge(found, world, jobs, f"{name}, stopped {'after' if after else 'before'} write {number}")
        if not crashed:
            return
    pytest.fail("the story never came to its end")


def judge(found: list[JobRun], world: World, jobs: FakeJobWorld, where: str) -> None:
    assert len({run.slot for run in found}) == len(found), f"{where}: a slot has two runs"
    assert len({run.turn for run in found}) == len(found), f"{where}: two runs share a turn"
    assert all(run.state is RunState.OVER for run in found), f"{where}: {found}"
    seen = [text for text in world.seen("1") if REPEAT_MARK not in text]
    interrupted = sum(run.error == INTERRUPTED for run in found)
    assert len(seen) <= len(found), f"{where}: {len(found)} runs, but people see {seen}"
    assert len(world.seen("1")) >= len(found), f"{where}: {len(found)} runs, but people see {seen}"
    assert len(jobs.outputs) == len(found), f"{where}: {len(jobs.outputs)} files for {len(found)} runs"
    if jobs.ran:
        assert len(jobs.ran) <= len(found), (
            f"{where}: a script ran {len(jobs.ran)} times in {len(found)} runs"
        )
        assert interrupted <= 1, where
