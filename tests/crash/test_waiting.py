"""A turn that waits for a person, a child and a client at once, stopped before and after each write: every
question is asked once, the child works once, and the turn ends with all answers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hermes.control.turn.children import child_turn
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.turns.event import Asked, Entry, Finished, ModelSaid, QuestionKind, Verdict
from hermes.domain.turns.turn import Answer, Turn
from hermes.testing.crash import StoppingStore
from hermes.testing.harness import Journey
from tests.journeys.cut import stops
from tests.journeys.test_waiting import GO, NAMES, journey

MOST_WRITES = 40


async def live(chat: Journey) -> Turn:
    """A client that sends its request if it is not known, and answers what is asked of it."""
    known = [one for one in await chat.store.read(lambda tx: tx.sessions.find("")) if one.parent is None]
    said = await chat.store.read(lambda tx: tx.journal.read(known[0].id)) if known else []
    turns = await chat.store.read(lambda tx: tx.turns.open_of(known[0].id)) if known else []
    if said:
        turns = [turn for turn in [await chat.store.read(lambda tx: tx.turns.get(said[0].turn))] if turn]
    turn = turns[0] if turns else await chat.gateway.submit(GO)
    async with asyncio.timeout(40):
        async for seen in chat.gateway.watch(MAIN_AGENT, turn.id):
            asked = seen.record if isinstance(seen, Entry) else None
            if isinstance(asked, Asked) and asked.kind is not QuestionKind.CHILD:
                text = f"word of {asked.call}"
                given = Answer(question=asked.question, verdict=Verdict.REPLY, text=text, by="ann")
                await chat.gateway.answer(MAIN_AGENT, given)
    return turn


async def first_life(folder: Path, number: int, *, after: bool) -> bool:
    chat = journey(folder, *NAMES)
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


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
async def test_stopped_at_each_write(tmp_path: Path, full: bool, after: bool) -> None:
    for number in stops(full, MOST_WRITES, f"waiting {after}", first=2):
        folder = tmp_path / str(number)
        folder.mkdir()
        crashed = await first_life(folder, number, after=after)
        async with journey(folder, *NAMES) as chat:
            turn = await live(chat)
            await judge(chat, turn, f"stopped {'after' if after else 'before'} write {number}")
        if not crashed:
            assert number > 6, "the story is too short to have parked anything"
            return
    raise AssertionError("the story never came to its end")


async def judge(chat: Journey, turn: Turn, where: str) -> None:
    records = [entry.record for entry in await chat.database.read(lambda tx: tx.journal.of_turn(turn.id))]
    assert isinstance(records[-1], Finished), f"{where}: {records[-1]}"
    asked = [record for record in records if isinstance(record, Asked)]
    assert sorted(str(record.call) for record in asked) == sorted(NAMES), f"{where}: {asked}"
    said = [record.text for record in records if isinstance(record, ModelSaid) and record.text]
    wanted = ["clarify=word of clarify; delegate=one two three; weather=word of weather"]
    assert [sorted(text.split("; ")) for text in said] == [sorted(text.split("; ")) for text in wanted], where
    child = child_turn(next(one.question for one in asked if one.kind is QuestionKind.CHILD))
    own = [entry.record for entry in await chat.database.read(lambda tx: tx.journal.of_turn(child))]
    assert [type(record).__name__ for record in own] == ["UserSaid", "ModelSaid", "Finished"], where
