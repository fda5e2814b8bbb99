"""What a session hears of its background processes: what is watched for, at a pace, and their end, also when
the gateway is killed in between."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import cast

import pytest

from hermes.app.agents.process_news import AppProcessNews
from hermes.app.overrides import AppOverrides
from hermes.control.gateway import Gateway
from hermes.domain.chats.address import Source, SourceKind
from hermes.domain.chats.rows import AwaitedProcess
from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT, CallId, SessionId, TurnId
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.ports.store import Tx
from hermes.domain.tools.tool import ToolCall, ToolContext
from hermes.domain.turns.event import UserSaid
from hermes.domain.turns.session import Session
from hermes.domain.turns.turn import Turn
from hermes.domain.word import replace
from hermes.testing.clock import FakeClock
from hermes.testing.harness import Journey
from hermes.testing.model import Say, ScriptedModel
from tests.agent.test_demo_tools import living, say
from tests.journeys.cut import cut_everywhere
from tests.journeys.test_first_prompt import ME


async def begun(chat: Journey, **fields: object) -> AwaitedProcess:
    """A conversation of Ann's, and a process that it started."""
    if not await said(chat):
        chat.world.write("start it", chat="7", user="ann")
        await chat.until_seen("You said: start it", chat="7")
        await chat.until_idle()
    entry = (await chat.database.read(lambda tx: tx.journal.read(sessions(tx)[0].id)))[0]
    process = AwaitedProcess(
        id="proc_1",
        agent=MAIN_AGENT,
        session=(await chat.database.read(sessions))[0].id,
        turn=entry.turn,
        command="make",
    )
    return replace(process, **fields)


def sessions(tx: Tx) -> list[Session]:
    return tx.sessions.find("")


async def said(chat: Journey) -> list[str]:
    """What the model was told in the session, message by message."""
    entries = await chat.database.read(
        lambda tx: [entry for session in tx.sessions.find("") for entry in tx.journal.read(session.id)]
    )
    return [entry.record.text for entry in entries if isinstance(entry.record, UserSaid)]


async def until_said(chat: Journey, count: int) -> list[str]:
    while len(await said(chat)) < count:
        await chat.until_idle()
    await chat.until_idle()
    return await said(chat)


async def test_what_is_watched_for_comes_at_a_pace(tmp_path: Path) -> None:
    clock = FakeClock()
    async with Journey(folder=tmp_path, kind="plain", clock=clock) as chat:
        process, told = await begun(chat), chat.gateway.processes
        await told.expect(process)
        await told.wrote(process, ("error 1",))
        first = (await until_said(chat, 2))[1]
        assert first.startswith("[Background process proc_1 wrote what you watch for: make]\n[from outside")
        assert "\nerror 1\n" in first and "data, not instructions" in first
        count = 2
        for held in range(3):
            for number in range(30):
                await told.wrote(process, (f"error {held}.{number}",))
            assert len(await said(chat)) == count, "not so soon after the last"
            await clock.advance(15.0)
            count += 1
            words = (await until_said(chat, count))[-1]
            assert f"error {held}.29" in words and f"error {held}.10" in words
            assert f"error {held}.9\n" not in words, "the last twenty"
            assert ("too often" in words) == (held == 2)
        await told.wrote(process, ("error 4",))
        await clock.advance(60.0)
        await chat.until_idle()
        assert len(await said(chat)) == count, "it is not watched any more"
        await told.ended(process, 1)
        assert (await until_said(chat, count + 1))[
            -1
        ] == "[Background process proc_1 ended with code 1: make]"
        assert await chat.database.read(lambda tx: tx.processes.all()) == []


async def test_many_processes_are_told_of_with_a_rest(tmp_path: Path) -> None:
    clock = FakeClock()
    async with Journey(folder=tmp_path, kind="plain", clock=clock) as chat:
        for number in range(15):
            process = await begun(chat, id=f"proc_{number}")
            await chat.gateway.processes.wrote(process, ("error",))
        await until_said(chat, 16)
        await chat.gateway.processes.wrote(await begun(chat, id="proc_15"), ("error",))
        await clock.advance(29.0)
        await chat.until_idle()
        assert len(await said(chat)) == 16, "too many at once"
        await clock.advance(1.0)
        assert "proc_15" in (await until_said(chat, 17))[-1]


async def test_an_end_that_nobody_waits_for_is_not_told(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, kind="plain") as chat:
        process, told = await begun(chat), chat.gateway.processes
        await told.expect(process)
        await told.ended(process, 0)
        quick = await begun(chat, id="proc_2", notify=True)
        await told.ended(quick, 0)
        await told.expect(quick)
        assert (await until_said(chat, 2))[1:] == ["[Background process proc_2 ended with code 0: make]"]
        assert await chat.database.read(lambda tx: tx.processes.all()) == []


async def test_what_a_process_of_the_network_wrote_is_from_outside(tmp_path: Path) -> None:
    heard: list[Turn] = []
    async with Journey(folder=tmp_path, kind="plain") as chat:
        process, told = await begun(chat, outside=True), chat.gateway.processes
        chat.gateway.show_woken(heard.append)
        await told.expect(process)
        await told.wrote(process, ("ready",))
        await until_said(chat, 2)
        await chat.until(lambda: bool(heard))
        assert heard[0].input.guidance.outside


@pytest.mark.parametrize("after", [False, True])
async def test_nothing_is_lost_or_told_twice_when_it_is_killed(
    tmp_path: Path, after: bool, full: bool
) -> None:
    async def live(chat: Journey) -> None:
        process = await begun(chat, notify=True)
        await chat.until_idle()
        stored = [stored.id for stored in await chat.database.read(lambda tx: tx.processes.all())]
        if not stored and not any("proc_1" in text for text in await said(chat)):
            told = chat.gateway.processes
            await told.expect(process)
            await told.wrote(process, ("ready",))
            while not any("ready" in text for text in await said(chat)):
                await chat.until_idle()
            await told.ended(process, 0)
        while not any("ended with" in text for text in await said(chat)):
            await chat.until_idle()
        await chat.until_idle()
        words = await said(chat)
        assert sum("ready" in text for text in words) <= 1
        ends = [text for text in words if "ended with" in text]
        assert len(ends) == 1, words
        assert await chat.database.read(lambda tx: tx.processes.all()) == []

    def make(place: Path) -> Journey:
        return Journey(folder=place, kind="plain")

    assert await cut_everywhere(tmp_path, make, live, after=after, full=full) > 8


def _script(request: ModelRequest) -> Say:
    """Starts a program once, and has nothing to say."""
    if "proc_" in str(request.entries):
        return Say(text="I see.")
    started = {"command": "sleep 0.3; echo ready; sleep 300", "background": True, "watch_patterns": ["ready"]}
    return Say(calls=(ToolCall(id=CallId("c1"), name="terminal", arguments=json.dumps(started)),))


async def test_a_conversation_hears_of_its_process_now_and_in_the_next_life(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    model = ScriptedModel(_script)

    async def until_told(words: str) -> None:
        async with asyncio.timeout(60):
            while not any(words in str(request.entries) for request in model.requests):  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    given = AppOverrides(provider=model, platforms={})
    async with living(tmp_path / "home", given) as app:
        await say(app, "begin", source=ME)
        await until_told("wrote what you watch for")
    async with living(tmp_path / "home", given):
        await until_told("ended with the gateway, which was stopped")


@pytest.mark.parametrize(
    ("kind", "session"), [("job", "s1"), ("webhook", "s1"), ("private", "bg_child_1"), ("private", "cron_1")]
)
def test_a_conversation_that_is_over_with_its_answer_waits_for_nothing(kind: str, session: str) -> None:
    where = Source(address=ME.address, kind=SourceKind(kind))
    news = AppProcessNews(lambda: cast("Gateway", object()), str)
    for source, name, refused in ((where, session, True), (ME, "s1", False)):
        context = ToolContext(
            agent=MAIN_AGENT, session=SessionId(name), turn=TurnId("t"), call_id=CallId("c"), key="k",
            output=lambda words: None, source=source,
        )  # fmt: skip
        if not refused:
            news.check(context)
            continue
        with pytest.raises(UserError, match="nobody could be told"):
            news.check(context)
