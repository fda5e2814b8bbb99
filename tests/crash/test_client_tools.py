"""A client with tools of its own, stopped before and after each write: it comes back and gets its answer."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hermes.control.sessions.submission import Submission
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.ids import MAIN_AGENT, CallId
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.event import Asked, Entry, Finished, ModelSaid, ToolFinished, Verdict
from hermes.domain.turns.turn import Answer, ClientTool, Guidance, Turn, TurnInput
from hermes.testing.crash import StoppingStore
from hermes.testing.harness import Journey
from hermes.testing.model import Say, say
from hermes.testing.world import Deed, World
from tests.journeys.cut import stops

CLIENT = Source(address=Address(platform="api", chat="s1"), kind=SourceKind.API, user="ann")
WORDS = Submission(
    agent=MAIN_AGENT,
    source=CLIENT,
    input=TurnInput(
        text="go", guidance=Guidance(tools=(ClientTool(name="weather"), ClientTool(name="stocks")))
    ),
)
MOST_WRITES = 40


def script(request: ModelRequest) -> Say:
    results = [entry.record for entry in request.entries if isinstance(entry.record, ToolFinished)]
    if not results:
        names = ("weather", "once", "stocks")
        return Say(calls=tuple(ToolCall(id=CallId(name), name=name) for name in names))
    told = {one.call: one.text for one in results}
    return say(f"{told[CallId('weather')]} and {told[CallId('stocks')]}", pieces=3)


async def live(chat: Journey) -> Turn:
    """A client that sends its request if it is not known, and brings every result that is asked for."""
    known = await chat.store.read(lambda tx: tx.sessions.find(""))
    turns = [one for session in known for one in await turns_of(chat, session.id)]
    turn = turns[0] if turns else await chat.gateway.submit(WORDS)
    async with asyncio.timeout(40):
        async for seen in chat.gateway.watch(MAIN_AGENT, turn.id):
            if isinstance(seen, Entry) and isinstance(seen.record, Asked):
                asked = seen.record
                text = f"result of {asked.call}"
                given = Answer(question=asked.question, verdict=Verdict.REPLY, text=text, by="ann")
                await chat.gateway.answer(MAIN_AGENT, given)
    return turn


async def turns_of(chat: Journey, session: object) -> list[Turn]:
    found = await chat.store.read(lambda tx: tx.turns.open_of(session))  # type: ignore[arg-type]
    if found:
        return found
    said = await chat.store.read(lambda tx: tx.journal.read(session))  # type: ignore[arg-type]
    ended = [await chat.store.read(lambda tx: tx.turns.get(said[0].turn))] if said else []
    return [turn for turn in ended if turn is not None]


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
async def test_stopped_at_each_write(tmp_path: Path, full: bool, after: bool) -> None:
    for number in stops(full, MOST_WRITES, f"{after}", first=2):
        folder, world = tmp_path / str(number), World()
        folder.mkdir()
        crashed = await first_life(folder, world, number, after=after)
        async with Journey(folder=folder, world=world, script=script) as chat:
            turn = await live(chat)
            entries = await chat.database.read(lambda tx, turn=turn: tx.journal.of_turn(turn.id))
        judge(entries, world, f"stopped {'after' if after else 'before'} write {number}")
        if not crashed:
            assert number > 6, "the story is too short to have parked anything"
            return
    raise AssertionError("the story never came to its end")


async def first_life(folder: Path, world: World, number: int, *, after: bool) -> bool:
    chat = Journey(folder=folder, world=world, script=script)
    chat.wrap_store = lambda store: StoppingStore(store, number, after=after)
    await chat.__aenter__()
    assert isinstance(chat.store, StoppingStore)
    living = asyncio.create_task(live(chat))
    stopped = asyncio.create_task(chat.store.stopped.wait())
    await asyncio.wait((living, stopped), return_when=asyncio.FIRST_COMPLETED)
    crashed = not living.done()
    for task in (living, stopped):
        task.cancel()
    await chat.abandon()
    return crashed


def judge(entries: list[Entry], world: World, where: str) -> None:
    records = [entry.record for entry in entries]
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1)), where
    assert isinstance(records[-1], Finished), f"{where}: {records[-1]}"
    asked = [record.call for record in records if isinstance(record, Asked)]
    assert asked == ["weather", "stocks"], f"{where}: asked for {asked}"
    results = [record.call for record in records if isinstance(record, ToolFinished)]
    assert sorted(results) == ["once", "stocks", "weather"], where
    said = [record.text for record in records if isinstance(record, ModelSaid) and record.text]
    assert said == ["result of weather and result of stocks"], f"{where}: {said}"
    assert len(world.did(Deed.EFFECT)) <= 1, f"{where}: a once effect happened twice"
