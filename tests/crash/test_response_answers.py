"""A client that approves a call and brings results, each with a few words more, stopped before and after each
write: it brings the same again, and everything is heard once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hermes.control.doors.continuing import TakeAnswer, TakeToolResults
from hermes.control.sessions.submission import Submission
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.ids import MAIN_AGENT, CallId, QuestionId, SessionId
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.event import Asked, Entry, Finished, QuestionKind, ToolFinished, UserSaid, Verdict
from hermes.domain.turns.turn import Answer, ClientTool, Guidance, Turn, TurnInput
from hermes.testing.harness import Journey
from hermes.testing.model import Say, call, say
from hermes.testing.world import Deed, World
from tests.journeys.cut import cut_everywhere

CLIENT = Source(address=Address(platform="api", chat="s1"), kind=SourceKind.API, user="ann")
WORDS = Submission(
    agent=MAIN_AGENT,
    source=CLIENT,
    input=TurnInput(text="go", guidance=Guidance(tools=(ClientTool(name="weather"),))),
)


def script(request: ModelRequest) -> Say:
    results = [entry.record for entry in request.entries if isinstance(entry.record, ToolFinished)]
    if not results:
        return call("danger", '{"token": "x"}')
    if len(results) == 1:
        return Say(calls=(ToolCall(id=CallId("weather"), name="weather"),))
    return say(results[-1].text, pieces=3)


async def bring(chat: Journey, asked: Asked) -> None:
    words, now = TurnInput(text=f"with {asked.kind.value}"), chat.clock.now()
    if asked.kind is QuestionKind.CLIENT_TOOL:
        results = {QuestionId(asked.question): "sun"}
        await chat.gateway.go_on(MAIN_AGENT, TakeToolResults(results=results, now=now, words=words).unit)
        return
    given = Answer(question=asked.question, verdict=Verdict.ONCE)
    await chat.gateway.go_on(MAIN_AGENT, TakeAnswer(given=[given], now=now, words=words).unit)


async def first_turn(chat: Journey) -> Turn | None:
    for session in await chat.store.read(lambda tx: tx.sessions.find("")):
        ident = SessionId(session.id)
        said = await chat.store.read(lambda tx, ident=ident: tx.journal.read(ident))
        waiting = await chat.store.read(lambda tx, ident=ident: tx.turns.open_of(ident))
        if said:
            return await chat.store.read(lambda tx, said=said: tx.turns.get(said[0].turn))
        if waiting:
            return waiting[0]
    return None


async def live(chat: Journey) -> None:
    turn = await first_turn(chat) or await chat.gateway.submit(WORDS)
    async with asyncio.timeout(40):
        async for seen in chat.gateway.watch(MAIN_AGENT, turn.id):
            if isinstance(seen, Entry) and isinstance(seen.record, Asked):
                await bring(chat, seen.record)
    records = [entry.record for entry in await chat.store.read(lambda tx: tx.journal.of_turn(turn.id))]
    assert isinstance(records[-1], Finished), records[-1]
    asked = [record.kind for record in records if isinstance(record, Asked)]
    assert asked == [QuestionKind.APPROVAL, QuestionKind.CLIENT_TOOL]
    told = [record.text for record in records if isinstance(record, UserSaid)]
    assert told == ["go", "with approval", "with client_tool"]
    session = turn.session
    assert not await chat.store.read(lambda tx: tx.turns.open_of(session)), "no words are left behind"
    assert len(chat.world.did(Deed.EFFECT)) <= 1, "what was approved happened twice"


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
async def test_answers_with_words_are_heard_once(tmp_path: Path, full: bool, after: bool) -> None:
    def make(folder: Path) -> Journey:
        return Journey(folder=folder, world=World(), script=script)

    assert await cut_everywhere(tmp_path, make, live, after=after, full=full) > 8
