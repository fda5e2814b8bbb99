"""Routes send two chats to two agents at the same time: sessions, keys, jobs and what is remembered of one
never reach the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.control.jobs.editing import JobSpec
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.ids import AgentId
from hermes.domain.settings.settings import Route, RouteMatch
from hermes.domain.turns.event import UserSaid
from hermes.testing.clock import FakeClock
from hermes.testing.harness import Journey, open_settings
from tests.acceptance.telling import KINDS, seen_once, write
from tests.journeys.cut import cut_everywhere
from tests.journeys.test_cron import HOUR, pass_time, runs
from tests.journeys.test_cron import journey as with_jobs

MAIN, CODER = AgentId("main"), AgentId("coder")
SETTINGS = open_settings(
    routes=(Route(match=RouteMatch(platform="fake", chat_id="dev"), agent=CODER),), timezone="UTC"
)
WORDS = 5


def journey(folder: Path, kind: str = "edits") -> Journey:
    return Journey(folder=folder, kind=kind, settings=SETTINGS, agents=("main", "coder"))


async def heard(chat: Journey, agent: AgentId) -> list[str]:
    store = chat.database.scoped(agent)
    found = await store.read(lambda tx: tx.sessions.find(""))
    journals = [await store.read(lambda tx, one=one: tx.journal.read(one.id)) for one in found]  # type: ignore[misc]
    return [entry.record.text for one in journals for entry in one if isinstance(entry.record, UserSaid)]


async def bound(chat: Journey, agent: AgentId) -> list[str]:
    store = chat.database.scoped(agent)
    found = await store.read(lambda tx: tx.sessions.find(""))
    keys = [await store.read(lambda tx, one=one: tx.bindings.of(one.id)) for one in found]  # type: ignore[misc]
    return [str(key) for one in keys for key, _ in one]


async def talk(chat: Journey) -> None:
    """Both chats speak at once, again and again."""
    for number in range(WORDS if chat.kind == "plain" else 1):
        write(chat.world, f"home {number}", chat="home", user="ann")
        write(chat.world, f"code {number}", chat="dev", user="ann")
        await chat.until_seen(f"You said: home {number}", chat="home")
        await chat.until_seen(f"You said: code {number}", chat="dev")
    await chat.until_idle()
    said = [update.text for update in chat.world.updates]
    assert await heard(chat, MAIN) == [text for text in said if text.startswith("home")]
    assert await heard(chat, CODER) == [text for text in said if text.startswith("code")]
    assert await bound(chat, MAIN) == ["agent:main:fake:private:home"]
    assert await bound(chat, CODER) == ["agent:coder:fake:private:dev"]
    seen_once(chat.world, *(f"You said: {text}" for text in said))


@pytest.mark.parametrize("kind", KINDS)
async def test_two_chats_and_two_agents(tmp_path: Path, kind: str) -> None:
    async with journey(tmp_path, kind) as chat:
        await talk(chat)


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
async def test_stopped_at_each_write(tmp_path: Path, full: bool, after: bool) -> None:
    await cut_everywhere(tmp_path, journey, talk, after=after, full=full)


async def test_jobs_of_each_agent_are_its_own_and_all_are_ticked(tmp_path: Path) -> None:
    clock = FakeClock()
    async with with_jobs(tmp_path, clock, settings=SETTINGS, agents=("main", "coder")) as chat:
        for agent in (MAIN, CODER):
            source = Source(address=Address(platform="fake", chat=agent), kind=SourceKind.PRIVATE, user="u1")
            wish = JobSpec(schedule="30m", prompt=f"for {agent}")
            await chat.gateway.jobs(agent).create(wish, source)
        await pass_time(chat, clock, HOUR)
        assert [job.prompt for job in await chat.gateway.jobs(CODER).all()] == ["for coder"]
        assert len(await runs(chat)) == 1
        await chat.until_seen("done: for main", chat="main")
        await chat.until_seen("done: for coder", chat="coder")
