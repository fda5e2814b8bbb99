"""A call that asks for something in its middle, stopped before and after each write: it is asked once, gets
its answer, and is carried out once or said to be unknown."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from hermes.control.sessions.submission import Submission
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.ids import MAIN_AGENT, CallId
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.tools.tool import Clarification, Tool, ToolCall, ToolContext, ToolResult
from hermes.domain.turns.event import Asked, Entry, Finished, ToolFinished, ToolStarted, Verdict
from hermes.domain.turns.turn import Answer, Turn, TurnInput
from hermes.testing.harness import Journey
from hermes.testing.model import Say, say
from hermes.testing.world import World
from tests.crash.test_client_tools import turns_of
from tests.journeys.cut import one_life, stops

ME = Source(address=Address(platform="api", chat="s1"), kind=SourceKind.API, user="ann")
GO = Submission(agent=MAIN_AGENT, source=ME, input=TurnInput(text="go"))


def booking(deeds: list[str]) -> Tool:
    """Books a table, once somebody said for how many."""

    async def run(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        if context.answer is None:
            return ToolResult(text="", wants=Clarification(text="For how many?"), kept="state 1")
        kept, words = context.answer
        assert kept == "state 1"
        deeds.append(words)
        return ToolResult(text=f"booked for {words}")

    return Tool(name="book", description="Book a table.", parameters={"type": "object"}, run=run)


def script(request: ModelRequest) -> Say:
    results = [entry.record for entry in request.entries if isinstance(entry.record, ToolFinished)]
    return say(results[0].text) if results else Say(calls=(ToolCall(id=CallId("book"), name="book"),))


async def live(chat: Journey) -> Turn:
    known = await chat.store.read(lambda tx: tx.sessions.find(""))
    turns = [one for session in known for one in await turns_of(chat, session.id)]
    turn = turns[0] if turns else await chat.gateway.submit(GO)
    async with asyncio.timeout(40):
        async for seen in chat.gateway.watch(MAIN_AGENT, turn.id):
            if isinstance(seen, Entry) and isinstance(seen.record, Asked):
                given = Answer(question=seen.record.question, verdict=Verdict.REPLY, text="four", by="ann")
                await chat.gateway.answer(MAIN_AGENT, given)
    return turn


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
async def test_stopped_at_each_write(tmp_path: Path, full: bool, after: bool) -> None:
    for number in stops(full, 40, f"asking {after}", first=2):
        folder, deeds = tmp_path / str(number), list[str]()
        folder.mkdir()
        world = World()
        first = Journey(folder=folder, world=world, script=script, tools=[booking(deeds)])
        crashed = await one_life(first, _told, stop_at=number, after=after)
        async with Journey(folder=folder, world=world, script=script, tools=[booking(deeds)]) as chat:
            turn = await live(chat)
            entries = await chat.database.read(lambda tx, turn=turn: tx.journal.of_turn(turn.id))
        _judge([entry.record for entry in entries], deeds)
        if not crashed:
            assert number > 6
            return
    raise AssertionError("the story never came to its end")


async def _told(chat: Journey) -> None:
    await live(chat)


def _judge(records: list[object], deeds: list[str]) -> None:
    (finished,) = [one for one in records if isinstance(one, ToolFinished)]
    asked = [one for one in records if isinstance(one, Asked)]
    starts = [one for one in records if isinstance(one, ToolStarted)]
    assert isinstance(records[-1], Finished) and len(deeds) <= 1 and len(asked) <= 1 and len(starts) <= 2
    if finished.unknown:
        assert "outcome is unknown" in finished.text
    else:
        assert finished.text == "booked for four" and deeds == ["four"] and len(starts) == 2


async def test_nobody_is_asked_in_a_job_and_denial_ends_it(tmp_path: Path) -> None:
    deeds: list[str] = []
    async with Journey(folder=tmp_path, script=script, tools=[booking(deeds)]) as chat:
        turn = await chat.gateway.submit(GO)
        async for seen in chat.gateway.watch(MAIN_AGENT, turn.id):
            if isinstance(seen, Entry) and isinstance(seen.record, Asked):
                assert seen.record.text == "For how many?"
                given = Answer(question=seen.record.question, verdict=Verdict.DENY, text="", by="ann")
                await chat.gateway.answer(MAIN_AGENT, given)
        entries = await chat.database.read(lambda tx: tx.journal.of_turn(turn.id))
    finished = [entry.record for entry in entries if isinstance(entry.record, ToolFinished)]
    assert finished[0].failed and not deeds
