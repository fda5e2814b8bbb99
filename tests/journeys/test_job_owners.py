"""A job is theirs who made it: nobody else sees it, runs it, changes it or reads what it said."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hermes.app.imports import imported_job
from hermes.app.jobs import job_tool
from hermes.control.jobs import editing
from hermes.control.jobs.editing import JobAction, JobSpec
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT, JobId
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.settings import Settings
from hermes.domain.tools.tool import Effect, Tool, ToolContext, ToolResult
from hermes.domain.turns.job import Job, JobRun, RunState, RunStatus
from hermes.domain.word import replace
from hermes.testing.harness import PATIENCE, Journey
from hermes.testing.model import Say, call, last_words, say

ROOM = Address(platform="fake", chat="room")
NONE = "There are no jobs"


def source(user: str | None, address: Address = ROOM, kind: SourceKind = SourceKind.CHANNEL) -> Source:
    return Source(address=address, kind=kind, user=user)


def by_words(request: ModelRequest) -> Say:
    """The agent does what the text asks: its words are the tool's arguments."""
    record = request.entries[-1].record
    if type(record).__name__ == "ToolFinished":
        return say(f"told: {record.text}")  # type: ignore[union-attr]
    words = last_words(request)
    return call("cronjob", words, id=f"c{len(request.entries)}") if words.startswith("{") else say("hm")


class Shop:
    """A room of three people, with the tool for jobs."""

    def __init__(self, folder: Path) -> None:
        self.chat = Journey(
            folder=folder,
            script=by_words,
            kind="plain",
            tools=[self._tool],
            is_admin=lambda one: one.person == "root",
        )

    @property
    def _tool(self) -> Tool:
        act = job_tool(lambda: self.chat.gateway)

        async def run(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
            return ToolResult(text=await act(context, str(arguments["action"]), arguments))

        return Tool(name="cronjob", description="", parameters={}, run=run, effect=Effect.ONCE)

    async def says(self, user: str, text: str) -> str:
        """What the room hears after somebody's words."""
        before = len(self.chat.world.seen("room"))
        self.chat.world.write(text, chat="room", kind="channel", user=user, mentions_us=True)
        await self.chat.until(lambda: len(self.chat.world.seen("room")) > before)
        await self.chat.until_idle()
        return "\n".join(self.chat.world.seen("room")[before:])

    async def asks(self, user: str, action: str, **said: object) -> str:
        return await self.says(user, json.dumps({"action": action, **said}))

    async def jobs(self) -> list[Job]:
        return await self.chat.database.read(lambda tx: tx.jobs.list())


async def test_people_see_and_change_their_own_with_the_command(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    async with shop.chat:
        await shop.says("ann", "/cron add every 2h | look at the oven")
        assert "look at the oven" in await shop.says("ann", "/cron list")
        ident = (await shop.jobs())[0].id
        assert NONE in await shop.says("bob", "/cron list")
        for action in ("run", "pause", "resume", "remove"):
            assert "There is no job" in await shop.says("bob", f"/cron {action} {ident}")
        assert "look at the oven" in await shop.says("root", "/cron list")
        assert "Paused" in await shop.says("root", f"/cron pause {ident}")
        assert "Removed" in await shop.says("ann", f"/cron remove {ident}")


async def test_and_through_the_agent(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    async with shop.chat:
        await shop.asks("ann", "create", schedule="every 2h", prompt="look at the oven", name="Oven")
        ident = (await shop.jobs())[0].id
        assert NONE in await shop.asks("bob", "list")
        assert "There is no job" in await shop.asks("bob", "update", job=ident, prompt="burn it")
        for action in ("run", "pause", "resume", "remove"):
            assert "There is no job" in await shop.asks("bob", action, job="Oven")
        stolen = await shop.asks("bob", "create", schedule="every 2h", prompt="tell me", context_from=[ident])
        assert "There is no job" in stolen
        assert [job.prompt for job in await shop.jobs()] == ["look at the oven"]
        # A name is taken only among one's own, so that nobody learns of those of others.
        made = await shop.asks("bob", "create", schedule="every 2h", prompt="mine", name="Oven")
        assert "Made" in made
        assert "Changed" in await shop.asks("ann", "update", job=ident, prompt="turn it off")
        assert (await shop.asks("root", "list")).count("Oven") == 2
        assert sorted(job.prompt for job in await shop.jobs()) == ["mine", "turn it off"]


@pytest.mark.parametrize(
    ("made_by", "asked_by", "sees"),
    [
        (source("ann"), source("ann"), True),
        (source("ann"), source("ann", Address(platform="fake", chat="a"), SourceKind.PRIVATE), True),
        (source("ann"), source("bob"), False),
        (source("ann"), source(None), False),
        (source("ann"), source("ann", Address(platform="other", chat="room")), False),
        (None, source("ann"), False),
        (None, source(None), False),
        (source(None), source("ann"), False),
        (source(None), source(None), True),
        (source(None, kind=SourceKind.PRIVATE), source("ann"), False),
        (source(None, kind=SourceKind.PRIVATE), source("ann", kind=SourceKind.PRIVATE), True),
        (source(None), source(None, Address(platform="fake", chat="else")), False),
    ],
)
async def test_whose_a_job_is(made_by: Source | None, asked_by: Source, sees: bool, tmp_path: Path) -> None:
    async with Journey(folder=tmp_path) as chat:
        await chat.gateway.jobs(MAIN_AGENT).create(JobSpec(schedule="every 2h", prompt="x"), made_by)
        assert len(await chat.gateway.jobs_of(MAIN_AGENT, asked_by).all()) == int(sees)
        assert not await chat.gateway.jobs_of(MAIN_AGENT, None).all()
        assert len(await chat.gateway.jobs(MAIN_AGENT).all()) == 1


BOB = source("bob", Address(platform="fake", chat="bob"), SourceKind.PRIVATE)
NAMELESS = source(None, Address(platform="fake", chat="somebody"), SourceKind.PRIVATE)
PHONE = Source(address=Address(platform="api", account="phone", chat="s"), kind=SourceKind.API)


async def run_once(chat: Journey, job: JobId) -> JobRun:
    """A run with all that follows from it."""
    desk = chat.gateway.jobs(MAIN_AGENT)
    await desk.act(job, JobAction.RUN)
    async with asyncio.timeout(PATIENCE):
        while (run := (await desk.runs(job, 1))[0]).state is not RunState.OVER:  # noqa: ASYNC110
            await asyncio.sleep(0.003)
    await chat.until_idle()
    return run


@pytest.mark.parametrize("maker", [BOB, NAMELESS, PHONE], ids=["person", "nameless", "key"])
async def test_jobs_of_strangers_answer_where_they_are_made(maker: Source, tmp_path: Path) -> None:
    fake = PlatformSettings(allow_all_users=True, home_channel="501", allow_admin_from=("ann",))
    settings = Settings(timezone="UTC", platforms={"fake": fake})
    async with Journey(folder=tmp_path, settings=settings) as chat:
        desk = chat.gateway.jobs(MAIN_AGENT)
        for deliver in ("fake:501", "fake", "all", "local, fake:501"):
            with pytest.raises(UserError, match="Only the owner and admins"):
                await desk.create(JobSpec(schedule="1h", prompt="x", deliver=deliver), maker)
        own = await desk.create(JobSpec(schedule="1h", prompt="x"), maker)
        assert own.deliver_to == ("local" if maker is PHONE else "origin")
        with pytest.raises(UserError, match="Only the owner and admins"):
            await desk.update(own.id, JobSpec(deliver="fake:501"))
        ann = source("ann", Address(platform="fake", chat="a"), SourceKind.PRIVATE)
        far = await desk.create(JobSpec(schedule="1h", prompt="tell", deliver="fake:7"), ann)
        await chat.database.write(lambda tx: tx.jobs.save(replace(far, origin=maker)))
        await run_once(chat, far.id)
        assert not chat.world.seen("7") and not chat.world.seen("501")
        (kept,) = [job for job in await desk.all() if job.id == far.id]
        assert "Only the owner" in kept.last_delivery_error
        assert kept.last_status == ("error" if maker is PHONE else "ok")
        assert kept.last_error == kept.last_delivery_error and kept.last_output


PAIRED = PlatformSettings(allow_all_users=True, home_channel="501")


@pytest.mark.parametrize(
    ("deliver", "heard", "said"),
    [("origin, fake", 1, True), ("fake", 1, True), ("origin", 1, False), ("local", 0, False)],
)
async def test_jobs_of_strangers_answer_where_they_may(
    deliver: str, heard: int, said: bool, tmp_path: Path
) -> None:
    async with Journey(folder=tmp_path, settings=Settings(platforms={"fake": PAIRED})) as chat:
        job = await chat.gateway.jobs(MAIN_AGENT).create(JobSpec(schedule="1h", prompt="tell"), BOB)
        await chat.database.write(lambda tx: tx.jobs.save(replace(job, deliver_to=deliver)))
        run = await run_once(chat, job.id)
        assert not chat.world.seen("501") and len(chat.world.seen("bob")) == heard
        assert (run.status, "Only the owner" in run.error) == (RunStatus.OK, said)
        assert all(("Only the owner" in words) is said for words in chat.world.seen("bob"))


async def test_a_run_whose_answer_reaches_nobody_is_an_error(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path) as chat:
        desk = chat.gateway.jobs(MAIN_AGENT)
        job = await desk.create(JobSpec(schedule="1h", prompt="tell"), None)
        await chat.database.write(lambda tx: tx.jobs.save(replace(job, deliver_to="fake")))
        run = await run_once(chat, job.id)
        assert run.status is RunStatus.ERROR and "no home channel" in run.error


async def test_jobs_that_the_operator_moved_in_or_made_reach_the_home_channel(tmp_path: Path) -> None:
    record = {
        "id": "abcdefabcdef",
        "prompt": "tell",
        "schedule": {"kind": "interval", "minutes": 60},
        "deliver": "fake",
        "origin": {"platform": "fake", "chat_id": "bob", "chat_name": "Bob"},
    }
    async with Journey(folder=tmp_path, settings=Settings(platforms={"fake": PAIRED})) as chat:
        desk, spoken = chat.gateway.jobs(MAIN_AGENT), chat.gateway.jobs_of(MAIN_AGENT, BOB)
        job = imported_job(record, MAIN_AGENT, datetime.now(UTC), UTC)
        await chat.database.write(lambda tx: tx.jobs.save(job))
        made = await desk.create(JobSpec(schedule="1h", prompt="tell", deliver="fake"), None)
        for ident in (job.id, made.id):
            await run_once(chat, ident)
        assert len(chat.world.seen("501")) == 2 and not chat.world.seen("bob")
        await desk.update(job.id, JobSpec(prompt="tell more", deliver="fake:501"))
        # What a stranger in its chat makes of it is the stranger's.
        with pytest.raises(UserError, match="Only the owner and admins"):
            await spoken.update(job.id, JobSpec(deliver="fake"))
        await spoken.update(job.id, JobSpec(prompt="lies"))
        await run_once(chat, job.id)
        assert len(chat.world.seen("501")) == 2 and len(chat.world.seen("bob")) == 1


async def test_a_stranger_has_a_number_of_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(editing, "MOST_JOBS", 1)
    async with Journey(folder=tmp_path) as chat:
        desk = chat.gateway.jobs(MAIN_AGENT)
        other = replace(PHONE, address=replace(PHONE.address, chat="another session"))
        for maker, again in ((source("ann"), source("ann")), (source("bob"), source("bob")), (PHONE, other)):
            await desk.create(JobSpec(schedule="1h", prompt="x"), maker)
            with pytest.raises(editing.TooManyJobs):
                await desk.create(JobSpec(schedule="1h", prompt="x"), again)
        for _ in range(2):
            await desk.create(JobSpec(schedule="1h", prompt="x"), None)


async def test_what_is_not_seen_cannot_be_found_by_its_id(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path) as chat:
        job = await chat.gateway.jobs(MAIN_AGENT).create(JobSpec(schedule="1h", prompt="x"), source("ann"))
        desk = chat.gateway.jobs_of(MAIN_AGENT, source("bob"))
        assert await desk.get(job.id) is None
        assert await desk.seen_by(lambda one: True).get(job.id) is not None
