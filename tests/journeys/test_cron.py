"""Jobs over a fake clock: every form fires when it should, once, and people get what they should get."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest

from hermes.app.agents.tools import TurnLimits
from hermes.control.jobs.editing import JobSpec
from hermes.control.jobs.ticker import LEASE, LONGEST_SLEEP
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT, AgentId, SessionId
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.settings import CronSettings, PlatformToolsets
from hermes.domain.tools.tool import Tool, ToolContext, ToolResult
from hermes.domain.turns.event import UserSaid
from hermes.domain.turns.job import Job, JobRun, JobState, RunState, RunStatus, ScriptReport
from hermes.domain.turns.turn import Cause
from hermes.domain.word import replace
from hermes.state.store.tables import jobs
from hermes.state.store.writer import SqliteStore
from hermes.testing.clock import FakeClock, settle
from hermes.testing.harness import PATIENCE, Journey, open_settings
from hermes.testing.jobs import FakeJobWorld
from hermes.testing.model import Say, call, last_words, say
from hermes.testing.platform import PLAIN, PlainFake
from hermes.testing.store_suite.samples import job as sample_job
from hermes.testing.world import World

ANN = Source(address=Address(platform="fake", chat="1"), kind=SourceKind.PRIVATE, user="u1")
OF_ANN = {"fake": PlatformSettings(allow_all_users=True, allowed_users=("u1",))}
START = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
HOUR, DAY = 3600.0, 86400.0


def report(request: ModelRequest) -> Say:
    """A model that says what its task was."""
    return say(f"done: {last_words(request).rpartition(chr(10))[2]}")


def journey(folder: Path, clock: FakeClock, **more: object) -> Journey:
    chosen: dict[str, object] = {
        "settings": open_settings(timezone="UTC", cron=CronSettings(wrap_response=False)),
        "script": report,
        "kind": "plain",
        "jobs": FakeJobWorld(),
        **more,
    }
    return Journey(folder=folder, clock=clock, **chosen)  # type: ignore[arg-type]


async def make(chat: Journey, schedule: str, prompt: str = "look", **more: object) -> Job:
    wish = JobSpec(schedule=schedule, prompt=prompt, **more)  # type: ignore[arg-type]
    job = await chat.gateway.jobs(MAIN_AGENT).create(wish, ANN)
    await settle()
    return job


async def runs(chat: Journey) -> list[JobRun]:
    return list(reversed(await chat.gateway.jobs(MAIN_AGENT).runs("", 1000)))


async def rest(chat: Journey) -> list[JobRun]:
    """Wait until nothing is due and every run is over."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        await settle(3)
        due = await chat.database.read(lambda tx: tx.jobs.due(chat.clock.now()))
        found = await runs(chat)
        if not due.jobs and all(run.state is RunState.OVER for run in found) and await chat.idle():
            return found
    raise AssertionError(f"never came to rest: {found}")


async def pass_time(chat: Journey, clock: FakeClock, seconds: float, step: float = 600.0) -> None:
    """Let time pass in steps, with all that happens in each."""
    while seconds > 0:
        await clock.leap(min(step, seconds))
        await rest(chat)
        seconds -= step


def told(found: list[JobRun]) -> list[str]:
    return [f"{run.due:%m-%d %H:%M} {run.status.value}" for run in found]


@pytest.mark.parametrize(
    ("schedule", "passing", "expected"),
    [
        ("30m", 2 * HOUR, ["01-05 12:30 ok"]),
        ("every 2h", 5 * HOUR, ["01-05 14:00 ok", "01-05 16:00 ok"]),
        ("0 13,15 * * MON", 8 * HOUR, ["01-05 13:00 ok", "01-05 15:00 ok"]),
        ("2026-01-05T14:15", 5 * HOUR, ["01-05 14:15 ok"]),
    ],
)
async def test_every_form_fires(tmp_path: Path, schedule: str, passing: float, expected: list[str]) -> None:
    clock = FakeClock()
    async with journey(tmp_path, clock) as chat:
        await make(chat, schedule)
        await pass_time(chat, clock, passing)
        assert told(await runs(chat)) == expected
        assert chat.world.seen("1") == ["done: look"] * len(expected)


async def test_a_run_is_a_turn_in_a_session_of_its_own(tmp_path: Path) -> None:
    clock = FakeClock()
    async with journey(tmp_path, clock) as chat:
        with pytest.raises(UserError, match="Only the owner and admins choose the model"):
            await make(chat, "30m", "water the plants", model="small/one")
        spec = JobSpec(schedule="30m", prompt="water the plants", model="small/one")
        job = await chat.gateway.jobs(MAIN_AGENT).create(spec, None)
        await pass_time(chat, clock, HOUR)
        (run,) = await runs(chat)
        assert run.session == f"cron_{job.id}_20260105_123000"
        turn = await chat.database.read(lambda tx: tx.turns.get(run.turn or ""))  # type: ignore[arg-type]
        assert turn is not None and turn.cause is Cause.JOB and turn.source is not None
        assert turn.source.kind is SourceKind.JOB
        request = chat.model.requests[0]
        words = last_words(request)
        assert "[SILENT]" in words and words.endswith("[The task]\nwater the plants")
        assert request.model == "small/one"
        # The chat's own session knows nothing of it.
        chat.world.write("hello")
        await chat.until_seen("done: hello")
        said = [one.record for one in chat.model.requests[-1].entries if isinstance(one.record, UserSaid)]
        assert [one.text for one in said] == ["hello"]


async def test_a_one_shot_keeps_its_record(tmp_path: Path) -> None:
    clock = FakeClock()
    async with journey(tmp_path, clock) as chat:
        await make(chat, "10m", name="kettle")
        await pass_time(chat, clock, HOUR)
        job = await chat.gateway.jobs(MAIN_AGENT).find("kettle")
        assert (job.state, job.completed, job.last_status) == (JobState.COMPLETED, 1, "ok")
        assert job.last_output == "done: look" and job.next_due is None


async def test_intervals_do_not_drift(tmp_path: Path) -> None:
    clock = FakeClock()
    hold = asyncio.Event()

    def slow(request: ModelRequest) -> Say:
        return Say(text="done at last", hold=hold)

    async with journey(tmp_path, clock, script=slow) as chat:
        await make(chat, "every 1h")
        await clock.leap(HOUR + 7 * 60)
        chat.gateway.cron.ring()
        hold.set()
        await rest(chat)
        await pass_time(chat, clock, 2 * HOUR)
        assert [f"{run.due:%H:%M}" for run in await runs(chat)] == ["13:00", "14:00", "15:00"]


async def test_a_slot_that_comes_during_a_run_waits_for_its_end(tmp_path: Path) -> None:
    clock, hold = FakeClock(), asyncio.Event()
    settings = open_settings(timezone="UTC", cron=CronSettings(wrap_response=False, timeout=0.0))
    held = Say(text="slow", hold=hold)
    async with journey(tmp_path, clock, script=lambda request: held, settings=settings) as chat:
        await make(chat, "every 10m")
        await clock.leap(600)
        chat.gateway.cron.ring()
        await chat.until(lambda: bool(chat.model.requests))
        await clock.leap(25 * 60)
        assert len(await runs(chat)) == 1
        hold.set()
        await rest(chat)
        assert told(await runs(chat)) == ["01-05 12:10 ok", "01-05 12:30 ok"]


@pytest.mark.parametrize(
    ("catch_up", "expected"),
    [
        ("once", ["01-12 08:00 ok"]),
        ("skip", ["01-12 08:00 missed"]),
        ("all", [f"01-{day:02} 08:00 ok" for day in range(6, 13)]),
    ],
)
async def test_a_week_of_downtime(tmp_path: Path, catch_up: str, expected: list[str]) -> None:
    clock, world = FakeClock(), World()
    async with journey(tmp_path, clock, world=world) as chat:
        await make(chat, "0 8 * * *", catch_up=catch_up)
    await clock.leap(7 * DAY)
    async with journey(tmp_path, clock, world=world) as chat:
        assert told(await rest(chat)) == expected
        assert len(world.seen("1")) == (0 if catch_up == "skip" else len(expected))
        await pass_time(chat, clock, DAY, HOUR)
        assert told(await runs(chat)) == [*expected, "01-13 08:00 ok"]


async def test_a_slot_that_is_a_little_late_is_no_missed_one(tmp_path: Path) -> None:
    clock = FakeClock()
    async with journey(tmp_path, clock) as chat:
        await make(chat, "0 8 * * *", catch_up="skip")
    await clock.leap(20 * HOUR + 90 * 60)
    async with journey(tmp_path, clock) as chat:
        assert told(await rest(chat)) == ["01-06 08:00 ok"]


async def test_the_clock_is_set_back_and_no_slot_comes_twice(tmp_path: Path) -> None:
    clock = FakeClock()
    async with journey(tmp_path, clock) as chat:
        await make(chat, "0 * * * *")
        await pass_time(chat, clock, HOUR + 60, 60)
        assert told(await runs(chat)) == ["01-05 13:00 ok"]
        clock.jump(-HOUR)
        await pass_time(chat, clock, 2 * HOUR, 60)
        assert told(await runs(chat)) == ["01-05 13:00 ok", "01-05 14:00 ok"]


@pytest.mark.parametrize("schedule", ["* * * * *", "every 1m"])
@pytest.mark.parametrize("back", [HOUR, DAY])
async def test_the_clock_is_set_back_and_the_first_slot_on_it_is_not_lost(
    tmp_path: Path, schedule: str, back: float
) -> None:
    """The ticker wakes when the slot it waited for has come by the old clock; so has one by the new clock."""
    # An interval counts from when its job was made: that is to be before any slot of interest.
    clock = FakeClock(START - timedelta(days=2))
    async with journey(tmp_path, clock) as chat:
        await make(chat, schedule, catch_up="skip")
        await clock.leap(2 * DAY)
        await pass_time(chat, clock, 90, 30)
        ran = told(await runs(chat))
        clock.jump(-back)
        await pass_time(chat, clock, 150, 30)
        at = START - timedelta(seconds=back)
        fresh = [f"{at + timedelta(minutes=minute):%m-%d %H:%M} ok" for minute in (2, 3, 4)]
        assert sorted(set(told(await runs(chat))) - set(ran)) == fresh
        assert len(await runs(chat)) == len(ran) + len(fresh)


async def test_a_clock_that_was_years_ahead_does_not_silence_a_job(tmp_path: Path) -> None:
    clock = FakeClock()
    async with journey(tmp_path, clock) as chat:
        await make(chat, "0 * * * *")
        clock.jump(400 * DAY)
        await pass_time(chat, clock, 120, 60)
        assert len(await runs(chat)) == 1
        clock.jump(-400 * DAY)
        await pass_time(chat, clock, HOUR, 60)
        assert "01-05 13:00 ok" in told(await runs(chat))


@pytest.mark.parametrize("jump", [3 * HOUR, 3 * DAY])
async def test_a_machine_that_slept_catches_up_once(tmp_path: Path, jump: float) -> None:
    """The wall clock is ahead and no time has passed: that is what a suspended machine wakes up to."""
    clock = FakeClock()
    async with journey(tmp_path, clock) as chat:
        await make(chat, "0 * * * *")
        clock.jump(jump)
        await clock.leap(LONGEST_SLEEP)
        (run,) = await rest(chat)
        assert run.due == START + timedelta(seconds=jump)


async def test_pause_resume_run_and_remove_over_chat(tmp_path: Path) -> None:
    clock = FakeClock()
    async with journey(tmp_path, clock) as chat:
        chat.world.write("/cron add every 1h | check the oven")
        await chat.until_seen("Made: ")
        chat.world.write("/cron pause check")
        await chat.until_seen("Paused: “check the oven”.")
        await pass_time(chat, clock, 3 * HOUR)
        assert await runs(chat) == []
        chat.world.write("/cron run check")
        await chat.until_seen("runs now", "done: check the oven")
        chat.world.write("/cron resume check")
        await chat.until_seen("next 2026-01-05 16:00")
        await pass_time(chat, clock, HOUR)
        assert [run.manual for run in await runs(chat)] == [True, False]
        chat.world.write("/cron remove check")
        await chat.until_seen("Removed: ")
        chat.world.write("/cron")
        await chat.until_seen("There are no jobs yet.")
        chat.world.write("/cron fix it")
        await chat.until_seen("/cron does not know “fix”")
        chat.world.write("/cron add 0 25 * * * | x")
        await chat.until_seen("the hour “25”")


async def test_repeat_limits(tmp_path: Path) -> None:
    clock = FakeClock()
    async with journey(tmp_path, clock) as chat:
        job = await make(chat, "every 1h", times=2)
        await pass_time(chat, clock, 6 * HOUR)
        assert len(await runs(chat)) == 2
        job = await chat.gateway.jobs(MAIN_AGENT).find(job.id)
        assert (job.state, job.completed, job.times) == (JobState.COMPLETED, 2, 2)


@pytest.mark.parametrize(
    ("answer", "silent"),
    [
        ("[SILENT]", True),
        ("NO_REPLY", True),
        ("Nothing new today.\n[SILENT]", True),
        ("[SILENT] nothing to tell", True),
        ("The word [SILENT] stands in the middle of this.", False),
    ],
)
async def test_silence(tmp_path: Path, answer: str, silent: bool) -> None:
    clock = FakeClock()
    async with journey(tmp_path, clock, script=lambda request: say(answer)) as chat:
        await make(chat, "30m")
        await pass_time(chat, clock, HOUR)
        assert chat.world.seen("1") == ([] if silent else [answer])
        (run,) = await runs(chat)
        assert run.status is (RunStatus.SILENT if silent else RunStatus.OK)


async def test_wrapped_delivery_and_the_output_file(tmp_path: Path) -> None:
    clock, jobs = FakeClock(), FakeJobWorld()
    settings = open_settings(timezone="Europe/Berlin")
    async with journey(tmp_path, clock, jobs=jobs, settings=settings) as chat:
        job = await make(chat, "30m", name="Kettle")
        await pass_time(chat, clock, HOUR)
        (seen,) = chat.world.seen("1")
        assert seen.startswith("⏰") and "Kettle" in seen and job.id in seen and "done: look" in seen
        assert "/cron" not in seen, "it ran once: there is nothing to stop"
        text = jobs.outputs[job.id, "2026-01-05_13-30-00.md"]
        assert "done: look" in text and "Status: ok" in text


@pytest.mark.parametrize("prefix", ["/", "!"])
async def test_how_to_stop_a_job_is_said_as_its_chat_writes_commands(tmp_path: Path, prefix: str) -> None:
    clock, world, able = FakeClock(), World(), replace(PLAIN, command_prefix=prefix)
    more = {"world": world, "settings": open_settings(), "connect_platform": lambda: PlainFake(world, able)}
    async with journey(tmp_path, clock, **more) as chat:
        job = await make(chat, "every 40m", name="Kettle")
        await pass_time(chat, clock, HOUR)
        (seen,) = chat.world.seen("1")
        assert seen.endswith(f"Stop it with {prefix}cron pause {job.id}, or {prefix}cron remove {job.id}.")


async def test_a_failure_is_told_in_short(tmp_path: Path) -> None:
    clock = FakeClock()
    async with journey(tmp_path, clock, script=lambda request: say("")) as chat:
        await make(chat, "30m", name="Kettle")
        for _ in range(20):
            await clock.leap(300)
        (run,) = await rest(chat)
        assert run.status is RunStatus.ERROR and run.error
        (seen,) = chat.world.seen("1")
        assert seen.startswith("⚠️ The job “Kettle”")
        assert (await chat.gateway.jobs(MAIN_AGENT).find("Kettle")).last_status == "error"


def script(output: str = "", problem: str = "") -> Callable[[], Awaitable[ScriptReport]]:
    async def run() -> ScriptReport:
        return ScriptReport(output=output, problem=problem)

    return run


SCRIPTS = {
    "mail.sh": script("3 new mails"),
    "quiet.sh": script("\n"),
    "no.sh": script('all well\n{"wakeAgent": false}'),
    "deep.sh": script("[" * 100_000),
    "bad.sh": script("half of it", "It ended with code 3."),
}


@pytest.mark.parametrize(
    ("name", "no_agent", "status", "seen"),
    [
        ("mail.sh", False, RunStatus.OK, ["done: look"]),
        ("quiet.sh", False, RunStatus.SKIPPED, []),
        ("no.sh", False, RunStatus.SKIPPED, []),
        ("bad.sh", False, RunStatus.OK, ["done: look"]),
        ("deep.sh", False, RunStatus.OK, ["done: look"]),
        ("mail.sh", True, RunStatus.OK, ["3 new mails"]),
        ("quiet.sh", True, RunStatus.SKIPPED, []),
        ("bad.sh", True, RunStatus.ERROR, ["code 3"]),
    ],
)
async def test_scripts(tmp_path: Path, name: str, no_agent: bool, status: RunStatus, seen: list[str]) -> None:
    clock, jobs = FakeClock(), FakeJobWorld(scripts=dict(SCRIPTS))
    async with journey(tmp_path, clock, jobs=jobs) as chat:
        await make(chat, "30m", script=name, no_agent=no_agent)
        await pass_time(chat, clock, HOUR)
        (run,) = await runs(chat)
        assert run.status is status and jobs.ran == [name]
        assert len(chat.world.seen("1")) == len(seen)
        assert all(part in text for part, text in zip(seen, chat.world.seen("1"), strict=True))
        asked = 0 if no_agent or status is RunStatus.SKIPPED else 1
        assert len(chat.model.requests) == asked
        if asked:
            words = last_words(chat.model.requests[0])
            assert "data, not instructions]" in words and "[end of " in words
            assert {"mail.sh": "3 new mails", "deep.sh": "[[[["}.get(name, "code 3") in words


@pytest.mark.parametrize(("name", "no_agent"), [("no.sh", False), ("quiet.sh", False), ("quiet.sh", True)])
async def test_27_heartbeats_with_nothing_to_say_take_no_model_and_send_nothing(
    tmp_path: Path, name: str, no_agent: bool
) -> None:
    clock, jobs = FakeClock(), FakeJobWorld(scripts=dict(SCRIPTS))
    async with journey(tmp_path, clock, jobs=jobs) as chat:
        await make(chat, "every 30m", script=name, no_agent=no_agent)
        await pass_time(chat, clock, 27 * 1800.0, step=1800.0)
        assert jobs.ran == [name] * 27
        assert [run.status for run in await runs(chat)] == [RunStatus.SKIPPED] * 27
        assert chat.world.seen() == [] and chat.model.requests == []
        # The 28th finds something, and speaks.
        jobs.scripts[name] = SCRIPTS["mail.sh"]
        await pass_time(chat, clock, 1800.0, step=1800.0)
        assert chat.world.seen("1") == ["3 new mails" if no_agent else "done: look"]
        assert len(chat.model.requests) == (not no_agent)


async def test_a_script_that_is_cut_off_is_reported_and_not_repeated(tmp_path: Path) -> None:
    clock, world = FakeClock(), World()

    async def forever() -> ScriptReport:
        await asyncio.Event().wait()
        raise AssertionError

    jobs = FakeJobWorld(scripts={"long.sh": forever})
    async with journey(tmp_path, clock, jobs=jobs, world=world) as chat:
        await make(chat, "30m", script="long.sh")
        await clock.leap(HOUR)
        chat.gateway.cron.ring()
        await chat.until(lambda: jobs.ran == ["long.sh"])
        await chat.abandon()
    async with journey(tmp_path, clock, jobs=jobs, world=world) as chat:
        (run,) = await rest(chat)
        assert run.status is RunStatus.ERROR and "unknown" in run.error
        await chat.until_seen("whether the script took effect is unknown")
        assert jobs.ran == ["long.sh"]


async def test_a_look_at_the_clock_leaves_a_running_script_alone(tmp_path: Path) -> None:
    """Another job comes due, and somebody rings, while the script is at work."""
    clock, go_on = FakeClock(), asyncio.Event()

    async def slow() -> ScriptReport:
        await go_on.wait()
        return ScriptReport(output="3 new mails")

    jobs = FakeJobWorld(scripts={"slow.sh": slow})
    async with journey(tmp_path, clock, jobs=jobs) as chat:
        await make(chat, "30m", script="slow.sh", no_agent=True, name="Slow")
        await make(chat, "31m", "quick", name="Quick")
        await clock.leap(30 * 60)
        await chat.until(lambda: jobs.ran == ["slow.sh"])
        await clock.leap(60)
        chat.gateway.cron.ring()
        await settle()
        slow_run = next(run for run in await runs(chat) if run.name == "Slow")
        assert (slow_run.state, slow_run.error) == (RunState.SCRIPT, "")
        go_on.set()
        await rest(chat)
        assert [(run.name, run.status) for run in await runs(chat)] == [
            ("Slow", RunStatus.OK),
            ("Quick", RunStatus.OK),
        ]
        assert jobs.ran == ["slow.sh"]


async def test_a_job_without_a_script_that_is_cut_off_before_its_turn_goes_on(tmp_path: Path) -> None:
    """Only a script may have done something: a folder can be entered again."""
    clock, world = FakeClock(), World()
    entering = asyncio.Event()

    class SlowFolders(FakeJobWorld):
        async def enter(self, session: SessionId, workdir: str, maker: Source | None) -> str:
            entering.set()
            await asyncio.Event().wait()
            return ""

    async with journey(tmp_path, clock, jobs=SlowFolders(folders={"/srv/app"}), world=world) as chat:
        await make(chat, "30m", workdir="/srv/app")
        await clock.leap(30 * 60)
        await chat.until(entering.is_set)
        await chat.abandon()
    jobs = FakeJobWorld(folders={"/srv/app"})
    async with journey(tmp_path, clock, jobs=jobs, world=world) as chat:
        (run,) = await rest(chat)
        assert (run.status, run.error) == (RunStatus.OK, "")
        assert list(jobs.entered.values()) == ["/srv/app"]


async def test_a_folder_that_a_sandbox_is_given_is_the_runs_own(tmp_path: Path) -> None:
    class Given(FakeJobWorld):
        async def enter(self, session: SessionId, workdir: str, maker: Source | None) -> str:
            return workdir

    clock = FakeClock()
    async with journey(tmp_path, clock, jobs=Given(folders={"/srv/app"}), world=World()) as chat:
        await make(chat, "30m", workdir="/srv/app")
        await clock.leap(30 * 60)
        (run,) = await rest(chat)
        assert run.session is not None
        session = await chat.database.read(lambda tx: tx.sessions.get(run.session))
        assert session is not None and session.workspace == "/srv/app"


async def test_a_script_where_no_scripts_can_be_run_says_so(tmp_path: Path) -> None:
    clock, world = FakeClock(), World()
    async with journey(tmp_path, clock, jobs=FakeJobWorld(scripts=dict(SCRIPTS)), world=world) as chat:
        await make(chat, "30m", script="mail.sh")
    await clock.leap(30 * 60)
    async with journey(tmp_path, clock, jobs=None, world=world) as chat:
        (run,) = await rest(chat)
        assert run.status is RunStatus.ERROR
        assert run.error == "Jobs with scripts or folders cannot be run here."


async def test_a_script_or_folder_that_is_not_there(tmp_path: Path) -> None:
    clock, jobs = FakeClock(), FakeJobWorld(scripts=dict(SCRIPTS), folders={"/srv/app"})
    async with journey(tmp_path, clock, jobs=jobs) as chat:
        with pytest.raises(UserError, match="no script"):
            await make(chat, "30m", script="none.sh")
        with pytest.raises(UserError, match="no folder"):
            await make(chat, "30m", workdir="/nowhere")
        assert await chat.gateway.jobs(MAIN_AGENT).all() == []
        job = await make(chat, "every 30m", workdir="/srv/app")
        await pass_time(chat, clock, 40 * 60)
        assert jobs.entered == {f"cron_{job.id}_20260105_123000": "/srv/app"}
        jobs.folders.clear()
        await pass_time(chat, clock, 30 * 60)
        assert "no folder" in chat.world.seen("1")[-1]


async def test_context_from_another_job(tmp_path: Path) -> None:
    clock = FakeClock()
    async with journey(tmp_path, clock) as chat:
        await make(chat, "10m", "collect", name="collector")
        await make(chat, "20m", "sum it up", name="writer", context_from=["collector"])
        await pass_time(chat, clock, HOUR)
        words = last_words(chat.model.requests[-1])
        assert "What the job “collector” said last" in words and "done: collect" in words


async def test_withheld_tools_and_approvals_without_anybody(tmp_path: Path) -> None:
    def use(request: ModelRequest) -> Say:
        if len(request.entries) == 1:
            return call("danger", '{"token": "t"}')
        return say("tried")

    clock = FakeClock()
    async with journey(tmp_path, clock, script=use) as chat:
        await make(chat, "30m")
        await pass_time(chat, clock, HOUR)
        offered = {tool.name for tool in chat.model.requests[0].tools}
        assert "danger" in offered and "clarify" not in offered and "cronjob" not in offered
        assert "nobody is there" in repr(chat.model.requests[1].entries[-1].record)
        assert not [entry for entry in chat.world.log if entry.chat == "danger"]
        assert chat.world.seen("1") == ["tried"]


async def test_delivery_to_several_places_and_to_none(tmp_path: Path) -> None:
    clock = FakeClock()
    platforms = {"fake": PlatformSettings(allow_all_users=True, allowed_users=("u1",), home_channel="home")}
    settings = open_settings(timezone="UTC", platforms=platforms, cron=CronSettings(wrap_response=False))
    async with journey(tmp_path, clock, settings=settings) as chat:
        await make(chat, "10m", "both", deliver="fake:7, origin, fake")
        await make(chat, "10m", "none", deliver="local")
        await make(chat, "10m", "home", deliver="all")
        with pytest.raises(UserError, match="no platform"):
            await make(chat, "10m", deliver="telegram")
        await pass_time(chat, clock, HOUR)
        assert chat.world.seen("7") == chat.world.seen("1") == ["done: both"]
        assert sorted(chat.world.seen("home")) == ["done: both", "done: home"]


async def test_bad_wishes_change_nothing(tmp_path: Path) -> None:
    clock = FakeClock()
    async with journey(tmp_path, clock) as chat:
        desk = chat.gateway.jobs(MAIN_AGENT)
        job = await make(chat, "every 1h", name="one")
        for wish in (
            JobSpec(schedule="2020-01-01T00:00"),
            JobSpec(schedule="nonsense"),
            JobSpec(prompt="x" * 5001),
            JobSpec(name=" "),
            JobSpec(times=-1),
            JobSpec(catch_up="maybe"),
            JobSpec(no_agent=True),
            JobSpec(context_from=["nobody"]),
            JobSpec(prompt=""),
        ):
            with pytest.raises(UserError) as caught:
                await desk.update("one", wish)
            assert str(caught.value)
        with pytest.raises(UserError, match="Another job is called"):
            await make(chat, "1h", name="One")
        assert await desk.all() == [job]


async def test_two_tickers_and_no_slot_twice(tmp_path: Path) -> None:
    clock, world = FakeClock(), World()
    async with journey(tmp_path, clock, world=world) as first:
        other = journey(tmp_path, clock, world=World())
        async with other:
            await make(first, "every 10m")
            await make(first, "*/7 * * * *", "often")
            for _ in range(40):
                await clock.leap(60)
                await rest(first)
            found = await runs(first)
            assert len({run.slot for run in found}) == len(found)
            assert [run.due.minute for run in found if run.name == "look"] == [10, 20, 30, 40]
            assert len(world.seen("1")) + len(other.world.seen("1")) == len(found)


async def test_without_the_lease_nothing_is_ticked(tmp_path: Path) -> None:
    clock = FakeClock()
    async with journey(tmp_path, clock) as chat:
        await chat.database.write(lambda tx: tx.leases.take(LEASE, "somebody else", clock.now(), 2 * HOUR))
        await make(chat, "30m")
        for _ in range(10):
            await clock.leap(600)
        assert await runs(chat) == []
        await clock.leap(2 * HOUR)
        assert len(await rest(chat)) == 1


async def test_delivery_to_the_chosen_home_and_to_a_chat_by_name(tmp_path: Path) -> None:
    clock = FakeClock()
    owned = PlatformSettings(allow_all_users=True, allowed_users=("u1", "u9"))
    settings = open_settings(
        timezone="UTC", cron=CronSettings(wrap_response=False), platforms={"fake": owned}
    )
    async with journey(tmp_path, clock, settings=settings) as chat:
        chat.world.write("/sethome", chat="9", user="u9", chat_name="Ops")
        await chat.until_seen("now the home channel", chat="9")
        with pytest.raises(UserError, match="no chat called “#nowhere”"):
            await make(chat, "10m", deliver="fake:#nowhere")
        await make(chat, "10m", "home", deliver="fake")
        await make(chat, "10m", "named", deliver="fake:#ops")
        await pass_time(chat, clock, 700)
        await rest(chat)
        assert sorted(chat.world.seen("9")[1:]) == ["done: home", "done: named"]


async def test_delivery_to_a_chat_that_only_a_file_names(tmp_path: Path) -> None:
    clock = FakeClock()
    names: dict[str, dict[str, str]] = {"fake": {"-77": "Lab"}}
    more = {
        "settings": open_settings(timezone="UTC", cron=CronSettings(wrap_response=False), platforms=OF_ANN)
    }
    async with journey(tmp_path, clock, channel_names=lambda: names, **more) as chat:
        job = await make(chat, "10m", "look", deliver="fake:#lab")
        names["fake"] = {"-78": "Lab"}
        await pass_time(chat, clock, 700)
        await rest(chat)
        assert chat.world.seen("-78") == ["done: look"]
        chat.world.write("/cron add 10m | later", chat="1")
        names["fake"] = {"-79": "Lab"}
        chat.world.write(f"/cron run {job.id}", chat="1")
        await chat.until_seen("done: look", chat="-79")


async def test_a_run_in_which_nothing_happens_is_stopped(tmp_path: Path) -> None:
    clock, begun = FakeClock(), asyncio.Event()

    async def hang(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError("it never ends")

    tool = Tool(name="hang", description="Never ends.", parameters={"type": "object"}, run=hang)
    settings = open_settings(timezone="UTC", cron=CronSettings(wrap_response=False, timeout=300))
    more = {"settings": settings, "tools": [tool], "script": lambda request: call("hang")}
    async with journey(tmp_path, clock, **more) as chat:
        await make(chat, "10m")
        await clock.leap(660)
        await asyncio.wait_for(begun.wait(), 40)
        await clock.advance(240)
        assert [run.state for run in await runs(chat)] == [RunState.TURN]
        await clock.advance(180)
        [run] = await rest(chat)
        assert run.status is RunStatus.STOPPED and "nothing happened for 300 seconds" in run.error


async def test_it_tells_when_it_last_looked(tmp_path: Path) -> None:
    clock = FakeClock()
    chat = journey(tmp_path, clock)
    async with chat:
        await settle()
        assert chat.gateway.cron.ticked_at == START
        await clock.leap(LONGEST_SLEEP)
        assert chat.gateway.cron.ticked_at == START + timedelta(seconds=LONGEST_SLEEP)


async def test_a_job_has_no_tools_that_its_chat_has_not(tmp_path: Path) -> None:
    clock = FakeClock()
    settings = open_settings(platform_toolsets={"fake": PlatformToolsets(toolsets=("read",))})
    limits = TurnLimits(settings=lambda: settings, agent=MAIN_AGENT)
    async with journey(tmp_path, clock, settings=settings, limits_of=limits) as chat:
        await make(chat, "30m")
        await pass_time(chat, clock, 1800)
        assert [tool.name for tool in chat.model.requests[0].tools] == ["read"]


async def _add_job(store: SqliteStore, name: str, agent: str, body: bytes | None = None) -> None:
    due = START - timedelta(minutes=5)
    job = sample_job(name, AgentId(agent), due)
    await store.scoped(job.agent).write(lambda tx: tx.jobs.save(job))
    if body is not None:
        with closing(apsw.Connection(str(store.path))) as file:
            file.set_busy_timeout(10_000)
            file.execute("UPDATE jobs SET body = CAST(? AS TEXT) WHERE id = ?", (body, name))


@pytest.mark.parametrize("body", [b'{"state": "of a newer kind"}', b"\xff\xfe"], ids=["newer", "no text"])
async def test_a_job_that_cannot_be_read_keeps_no_other_from_its_time(
    tmp_path: Path, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    clock = FakeClock()
    async with SqliteStore(tmp_path / "state.db") as store:
        await _add_job(store, "bad", "bee", body)
        await _add_job(store, "good", "main")
    async with journey(tmp_path, clock, agents=("main", "bee")) as chat:
        await chat.until(lambda: len(chat.model.requests) == 1)
    assert "store.set_aside" in caplog.text and "bad" in caplog.text


async def test_jobs_of_an_agent_that_is_gone_hide_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "_MOST_DUE", 2)
    clock = FakeClock()
    async with SqliteStore(tmp_path / "state.db") as store:
        for number in range(3):
            await _add_job(store, f"a{number}", "gone")
        await _add_job(store, "b", "main")
    async with journey(tmp_path, clock) as chat:
        await chat.until(lambda: len(chat.model.requests) == 1)
