"""Jobs that stay silent: people get what is said through `notify` and nothing else, nothing happens in quiet
hours, and a job spends no more in a day than it may."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from hermes.agent.tools import make_tools
from hermes.app.agents.tools import TurnLimits
from hermes.control.jobs.editing import JobSpec
from hermes.control.outbound.answers import REPEAT_MARK
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.models.model_facts import ModelFacts
from hermes.domain.models.usage import Usage
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.settings.settings import CronSettings, Settings
from hermes.domain.tools.services import ToolServices
from hermes.domain.turns.event import ToolFinished, UserSaid
from hermes.domain.turns.job import JobRun, RunStatus, quiet_until
from hermes.testing.clock import FakeClock
from hermes.testing.harness import Journey, open_settings
from hermes.testing.jobs import FakeJobWorld
from hermes.testing.model import Say, call, say
from tests.journeys.cut import cut_everywhere
from tests.journeys.test_cron import ANN, HOUR, START, make, pass_time, rest, runs

NOTHING_UP = "I looked at everything, and all is well. Nothing to report, but I am glad to help!"


def journey(folder: Path, clock: FakeClock, script: object, **more: object) -> Journey:
    settings = open_settings(timezone="UTC", cron=CronSettings(wrap_response=False))
    chosen = {"settings": settings, "kind": "plain", "jobs": FakeJobWorld(), **more}
    tools = make_tools(ToolServices({}))
    return Journey(folder=folder, clock=clock, script=script, tools=tools, **chosen)  # type: ignore[arg-type]


def heartbeat(loud: int = 0):
    """A model that always has a lot to say, and something worth telling only in the run of this number."""
    count = iter(range(1, 10_000))

    def script(request: ModelRequest) -> Say:
        if any(isinstance(entry.record, ToolFinished) for entry in request.entries):
            return say(NOTHING_UP)
        return call("notify", '{"text": "The oven is on."}') if next(count) == loud else say(NOTHING_UP)

    return script


async def test_27_heartbeats_with_nothing_to_say_make_0_messages_and_the_next_one_1(tmp_path: Path) -> None:
    clock = FakeClock(START)
    async with journey(tmp_path, clock, heartbeat(loud=28)) as chat:
        await make(chat, "every 1h", "Is everything all right?", deliver="fake:1", notify_only=True)
        for _ in range(27):
            await clock.leap(HOUR)
            await rest(chat)
        found = await rest(chat)
        assert [run.status for run in found] == [RunStatus.SILENT] * 27
        assert chat.world.seen() == []
        await clock.leap(HOUR)
        await rest(chat)
        assert chat.world.seen() == ["The oven is on."]


async def test_notify_is_there_for_such_jobs_alone_and_the_model_is_told(tmp_path: Path) -> None:
    clock = FakeClock(START)
    async with journey(tmp_path, clock, heartbeat()) as chat:
        await make(chat, "1h", "plain")
        await make(chat, "1h", "quiet", notify_only=True)
        await make(chat, "1h", "few", notify_only=True, toolsets=["todo"])
        await clock.leap(HOUR)
        await rest(chat)
        offered, told = {}, {}
        for request in chat.model.requests:
            first = request.entries[0].record
            assert isinstance(first, UserSaid)
            name = first.text.rpartition("\n")[2]
            offered[name], told[name] = {tool.name for tool in request.tools}, first.text
        assert "notify" not in offered["plain"] and "[SILENT]" in told["plain"]
        assert "notify" in offered["quiet"] and "through notify and nothing else" in told["quiet"]
        assert offered["few"] == {"todo", "notify"}


def test_nobody_else_has_notify() -> None:
    limits = TurnLimits(settings=Settings, agent=MAIN_AGENT)
    [tool] = [tool for tool in make_tools(ToolServices({})) if tool.name == "notify"]
    job = Source(address=Address(platform="cron", chat="j"), kind=SourceKind.JOB)
    assert all(limit.allows(tool) for limit in limits(None, job))
    for source in (None, ANN):
        assert not all(limit.allows(tool) for limit in limits(None, source))


async def test_a_failure_that_stays_the_same_is_told_once(tmp_path: Path) -> None:
    clock = FakeClock(START)
    async with journey(tmp_path, clock, lambda request: say("")) as chat:
        await make(chat, "every 1h", deliver="fake:1", notify_only=True)
        for _ in range(3):
            await clock.leap(HOUR)
            await rest(chat)
        assert len(chat.world.seen()) == 1 and "failed" in chat.world.seen()[0]


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
async def test_what_is_notified_arrives_wherever_the_gateway_is_killed(
    tmp_path: Path, full: bool, after: bool
) -> None:
    def make_chat(folder: Path) -> Journey:
        return journey(folder, FakeClock(START), heartbeat(loud=1))

    async def story(chat: Journey) -> None:
        known = await chat.gateway.jobs(MAIN_AGENT).all()
        if not known:
            wish = JobSpec(schedule="every 1h", prompt="look", deliver="fake:1", notify_only=True)
            await chat.gateway.jobs(MAIN_AGENT).create(wish, ANN)
        if not await runs(chat):
            assert isinstance(chat.clock, FakeClock)
            await chat.clock.leap(HOUR)
        await rest(chat)
        told = [text for text in chat.world.seen() if "The oven is on." in text]
        found = await runs(chat)
        # A crash while it is sent may send it again, and then it says so.
        unmarked = [text for text in told if REPEAT_MARK not in text]
        done = sum(run.status is RunStatus.OK for run in found)
        assert len(unmarked) <= done <= len(told), chat.world.seen()
        assert not any(NOTHING_UP in text for text in chat.world.seen())

    await cut_everywhere(tmp_path, make_chat, story, after=after, full=full)


# --- quiet hours ---


@pytest.mark.parametrize(
    ("hours", "now", "until"),
    [
        ("22:00-07:00", "23:15", "07:00 next"),
        ("22:00-07:00", "06:59", "07:00"),
        ("22:00-07:00", "07:00", ""),
        ("22-7", "22:00", "07:00 next"),
        ("12:30 - 13:30", "12:45", "13:30"),
        ("12:30-13:30", "13:30", ""),
        ("none", "03:00", ""),
        ("", "03:00", ""),
    ],
)
def test_when_quiet_hours_end(hours: str, now: str, until: str) -> None:
    here = datetime.fromisoformat(f"2026-01-05T{now}:00+00:00")
    end = quiet_until(hours, here)
    expected = "" if end is None else f"{end:%H:%M}{' next' if end.day == 6 else ''}"
    assert expected == until


@pytest.mark.parametrize("minute", range(0, 240, 5))
def test_quiet_hours_end_later_when_the_clock_is_set_back(minute: int) -> None:
    """An end that has passed would have the job planned for it again and again."""
    at = datetime(2026, 11, 1, 4, tzinfo=UTC) + timedelta(minutes=minute)
    end = quiet_until("22:00-01:30", at.astimezone(ZoneInfo("America/New_York")))
    assert end is None or end.astimezone(UTC) > at


@pytest.mark.parametrize(
    "wrong", ["night", "25:00-07:00", "22:61-07:00", "22:00", "7-7", "22:00-07:00-08:00"]
)
async def test_what_are_no_quiet_hours_is_said(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(ValueError):
        quiet_until(wrong, START)
    async with journey(tmp_path, FakeClock(START), heartbeat()) as chat:
        with pytest.raises(UserError, match="are no quiet hours"):
            await make(chat, "every 1h", quiet_hours=wrong)


@pytest.mark.parametrize(("catch_up", "at_seven"), [("once", 1), ("skip", 0)])
async def test_a_job_rests_in_quiet_hours_and_catches_up_as_it_is_told(
    tmp_path: Path, catch_up: str, at_seven: int
) -> None:
    clock = FakeClock(START + timedelta(hours=9, minutes=30))  # 21:30
    settings = open_settings(
        timezone="UTC", cron=CronSettings(wrap_response=False, quiet_hours="22:00-07:00")
    )
    async with journey(tmp_path, clock, heartbeat(), settings=settings) as chat:
        await make(chat, "15 * * * *", catch_up=catch_up)
        await make(chat, "15 * * * *", "always", quiet_hours="none")
        await make(chat, "2h", "the reminder")
        await pass_time(chat, clock, 9.4 * HOUR, HOUR / 10)  # 06:54
        found = await rest(chat)
        names = [run.name for run in found]
        assert names.count("always") == 9 and names.count("the reminder") == 1 and names.count("look") == 0
        await clock.leap(0.2 * HOUR)  # 07:06
        assert [run.name for run in await rest(chat)].count("look") == at_seven
        await clock.leap(0.2 * HOUR)  # 07:18
        assert [run.name for run in await rest(chat)].count("look") == at_seven + 1


# --- its own budget ---


async def spending(chat: Journey, clock: FakeClock, hours: int) -> list[JobRun]:
    for _ in range(hours):
        await clock.leap(HOUR)
        await rest(chat)
    return await rest(chat)


@pytest.mark.parametrize("budget", ["0.02", "$0.02", "2k tokens"])
async def test_a_job_spends_no_more_in_a_day_than_its_budget(tmp_path: Path, budget: str) -> None:
    clock = FakeClock(START)
    facts = ModelFacts(price_in=10.0, price_out=10.0)
    model = lambda request: Say(text="news", usage=Usage(prompt=999, completion=1))  # noqa: E731
    async with journey(tmp_path, clock, model, facts=facts) as chat:
        job = await make(chat, "every 1h", deliver="fake:1", budget=budget)
        other = await make(chat, "every 1h", "free", deliver="local")
        found = await spending(chat, clock, 5)
        assert [run.status for run in found if run.job == job.id] == [RunStatus.OK] * 2 + [
            RunStatus.ERROR
        ] * 3
        assert {run.status for run in found if run.job == other.id} == {RunStatus.OK}
        told = [text for text in chat.world.seen() if "is spent" in text]
        assert len(told) == 1 and f"hermes cron edit {job.id} --budget" in told[0]
        found = await spending(chat, clock, 20)
        days = {run.due.date() for run in found if run.job == job.id and run.status is RunStatus.OK}
        assert days == {START.date(), START.date() + timedelta(days=1)}


@pytest.mark.parametrize("wrong", ["lots", "-1", "5 euros", "1e9 tokens"])
async def test_what_is_no_budget_is_said(tmp_path: Path, wrong: str) -> None:
    async with journey(tmp_path, FakeClock(START), heartbeat()) as chat:
        with pytest.raises(UserError, match="is no budget"):
            await make(chat, "every 1h", budget=wrong)


async def test_a_job_without_the_agent_cannot_notify(tmp_path: Path) -> None:
    async with journey(tmp_path, FakeClock(START), heartbeat(), jobs=None) as chat:
        with pytest.raises(UserError, match="cannot speak through notify"):
            await make(chat, "every 1h", "", script="x.sh", no_agent=True, notify_only=True)
