"""Jobs made and looked after in a chat: the four forms, silence, the wrapping, repeats, catching up once, a
script alone, what another job said, talking about what one said. Over HTTP: tests/entry/http/test_jobs.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.control.jobs.editing import JobSpec
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.chats.channels import Channel
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.settings.settings import CronSettings
from hermes.domain.turns.job import RunState
from hermes.domain.word import replace
from hermes.testing.clock import FakeClock, settle
from hermes.testing.harness import Journey, open_settings
from hermes.testing.jobs import FakeJobWorld
from hermes.testing.model import Say, last_words, say
from tests.acceptance.telling import KINDS, seen_once, write
from tests.journeys.cut import cut_everywhere
from tests.journeys.test_cron import DAY, HOUR, SCRIPTS, make, pass_time, rest, runs, told


def works(request: object) -> Say:
    task = last_words(request).rpartition("\n")[2]  # type: ignore[arg-type]
    return say("[SILENT]" if task == "be quiet" else f"done: {task}")


def journey(folder: Path, kind: str = "edits", *, wrap: bool = True) -> Journey:
    settings = open_settings(timezone="UTC", cron=CronSettings(wrap_response=wrap))
    jobs = FakeJobWorld(scripts=dict(SCRIPTS))
    return Journey(folder=folder, kind=kind, script=works, settings=settings, clock=FakeClock(), jobs=jobs)


def clock(chat: Journey) -> FakeClock:
    assert isinstance(chat.clock, FakeClock)
    return chat.clock


async def talk(chat: Journey) -> None:
    write(chat.world, "/cron add 10m | water the plants")
    await chat.until_seen("Made: ")
    await chat.until_taken()
    await clock(chat).leap(660)
    await settle()
    [run] = await rest(chat)
    assert run.state is RunState.OVER
    await chat.until_seen("done: water the plants")
    await chat.until_idle()
    seen_once(chat.world, "Made: ", "done: water the plants")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_job_is_made_in_the_chat_and_tells_there(tmp_path: Path, kind: str) -> None:
    async with journey(tmp_path, kind) as chat:
        await talk(chat)
        [_, told_there] = chat.world.seen()
        assert told_there.startswith("⏰"), "it says what it is"
        assert "/cron" not in told_there, "it runs once: nothing is left to stop"


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
async def test_stopped_at_each_write(tmp_path: Path, full: bool, after: bool) -> None:
    await cut_everywhere(tmp_path, journey, talk, after=after, full=full)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_day_of_jobs(tmp_path: Path, kind: str) -> None:
    async with journey(tmp_path, kind, wrap=False) as chat:
        for schedule, task in (
            ("30m", "one delay"),
            ("every 4h", "be quiet"),
            ("0 15 * * MON", "a calendar"),
            ("2026-01-05T16:00", "a moment"),
        ):
            chat.world.write(f"/cron add {schedule} | {task}")
            await chat.until(lambda: len(chat.world.seen()) == len(chat.world.updates))
        made = len(chat.world.seen())
        await make(chat, "every 70m", "twice", times=2)
        await make(chat, "every 5h", script="mail.sh", prompt="", no_agent=True, times=1)
        await make(chat, "6h", "sum up", context_from=["a moment"])
        await pass_time(chat, clock(chat), 8 * HOUR)
        heard = chat.world.seen()[made:]
        assert heard == [
            "done: one delay",
            "done: twice",
            "done: twice",
            "done: a calendar",
            "done: a moment",
            "3 new mails",
            "done: sum up",
        ]
        words = [last_words(request) for request in chat.model.requests]
        assert any("What the job “a moment” said last" in text for text in words)


async def test_a_week_of_downtime_is_caught_up_once(tmp_path: Path) -> None:
    chat = journey(tmp_path, wrap=False)
    async with chat:
        await make(chat, "0 8 * * *")
        await chat.abandon()
    await clock(chat).leap(7 * DAY)
    async with replace(chat) as chat:
        await rest(chat)
        assert told(await runs(chat)) == ["01-12 08:00 ok"]
        assert chat.world.seen() == ["done: look"]


@pytest.mark.parametrize("all_jobs", [True, False], ids=["all jobs", "one job"])
async def test_what_a_job_said_can_be_answered_to(tmp_path: Path, all_jobs: bool) -> None:
    chat = journey(tmp_path, wrap=False)
    chat.settings = open_settings(
        timezone="UTC", cron=CronSettings(wrap_response=False, mirror_delivery=all_jobs)
    )
    async with chat:
        await _answered(chat, "read the meter", attach=None if all_jobs else True)
        assert _known(chat, "done: read the meter")


async def test_a_job_that_tells_the_topic_of_its_chat_by_name_can_be_answered_to(tmp_path: Path) -> None:
    topic = Address(platform="fake", chat="1", thread="5")
    named = Channel(address=topic, name="News", kind=SourceKind.PRIVATE)
    async with journey(tmp_path, wrap=False) as chat:
        chat.world.write("hello", thread="5")
        await chat.until_seen("done: hello")
        await chat.database.write(lambda tx: tx.directory.note(named))
        wish = JobSpec(schedule="10m", prompt="read the meter", deliver="fake:1:News", attach_to_session=True)
        await chat.gateway.jobs(MAIN_AGENT).create(
            wish, Source(address=topic, kind=SourceKind.PRIVATE, user="u1")
        )
        await pass_time(chat, clock(chat), HOUR)
        await chat.until_seen("done: read the meter")
        chat.world.write("and now?", thread="5")
        await chat.until_seen("done: and now?")
        assert _known(chat, "hello") and _known(chat, "done: read the meter")


async def test_what_other_jobs_said_stays_out_of_the_conversation(tmp_path: Path) -> None:
    async with journey(tmp_path, wrap=False) as chat:
        await _answered(chat, "read the meter", attach=None)
        assert not _known(chat, "done: read the meter")


async def _answered(chat: Journey, task: str, *, attach: bool | None) -> None:
    write(chat.world, "hello")
    await chat.until_seen("done: hello")
    await make(chat, "10m", task, attach_to_session=attach)
    await pass_time(chat, clock(chat), HOUR)
    await chat.until_seen(f"done: {task}")
    chat.world.write("and now?")
    await chat.until_seen("done: and now?")


def _known(chat: Journey, words: str) -> bool:
    return words in str(chat.model.requests[-1])
