"""Turns of API clients with tools of their own: parked, answered together, over restarts, or given up."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hermes.control.sessions.submission import SessionTarget, Submission
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.ids import MAIN_AGENT, CallId, client_call_id, question_of_call
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.settings.settings import AgentSettings, ApprovalSettings, DisplaySettings
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.event import Asked, Entry, Finished, ModelSaid, Stopped, ToolFinished, Verdict
from hermes.domain.turns.turn import (
    Answer,
    BusyMode,
    ClientTool,
    EarlierMessage,
    Guidance,
    Question,
    Speaker,
    Turn,
    TurnInput,
)
from hermes.testing.clock import FakeClock
from hermes.testing.harness import PATIENCE, Journey, open_settings
from hermes.testing.model import Say, call, say

CLIENT = Source(address=Address(platform="api", chat="s1"), kind=SourceKind.API, user="key:ann")
TOOLS = (ClientTool(name="weather"), ClientTool(name="stocks"))
GUIDANCE = Guidance(
    instructions="Be a client's.", history=(EarlierMessage(by=Speaker.USER, text="before"),), tools=TOOLS
)


def both(request: ModelRequest) -> Say:
    """Calls one of our tools and two of the client's, then says what they gave."""
    results = [entry.record for entry in request.entries if isinstance(entry.record, ToolFinished)]
    if not results:
        names = ("weather", "read", "stocks")
        return Say(calls=tuple(ToolCall(id=CallId(f"c_{name}"), name=name) for name in names))
    return say("; ".join(f"{one.call}={one.text}" for one in results) + f"; {request.system[-14:]}")


async def submit(chat: Journey, text: str = "go", guidance: Guidance = GUIDANCE) -> Turn:
    words = Submission(agent=MAIN_AGENT, source=CLIENT, input=TurnInput(text=text, guidance=guidance))
    return await chat.gateway.submit(words)


async def records(chat: Journey, turn: Turn) -> list[Entry]:
    return await chat.database.read(lambda tx: tx.journal.of_turn(turn.id))


async def questions(chat: Journey, turn: Turn) -> list[Question]:
    """The questions of a turn, once it is parked."""
    async with asyncio.timeout(PATIENCE):
        while not (found := await chat.database.read(lambda tx: tx.questions.of_turn(turn.id))):  # noqa: ASYNC110
            await asyncio.sleep(0.003)
    return found


async def ended(chat: Journey, turn: Turn) -> list[Entry]:
    async with asyncio.timeout(PATIENCE):
        return [seen async for seen in chat.gateway.watch(MAIN_AGENT, turn.id) if isinstance(seen, Entry)]


def reply(question: Question, text: str, by: str = "key:ann") -> Answer:
    return Answer(question=question.id, verdict=Verdict.REPLY, text=text, by=by)


async def test_the_turn_goes_on_when_every_call_has_its_result(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, script=both) as chat:
        turn = await submit(chat)
        weather, stocks = await questions(chat, turn)
        assert (weather.call, stocks.call) == ("c_weather", "c_stocks")
        assert weather.may_answer == ("key:ann",)
        assert not chat.world.seen()
        ids = [question_of_call(client_call_id(one.id)) for one in (stocks, weather)]
        assert ids == [stocks.id, weather.id]
        assert (await chat.gateway.answer(MAIN_AGENT, reply(stocks, "up"))).closed
        await asyncio.sleep(0.05)
        assert len(chat.model.requests) == 1, "it went on before all results were there"
        assert not (await chat.gateway.answer(MAIN_AGENT, reply(weather, "x", by="key:eve"))).closed
        assert (await chat.gateway.answer(MAIN_AGENT, reply(weather, "rain"))).closed
        said = (await ended(chat, turn))[-2].record
        assert isinstance(said, ModelSaid)
        assert said.text == "c_read=read did ; c_weather=rain; c_stocks=up; Be a client's."
        assert not (await chat.gateway.answer(MAIN_AGENT, reply(weather, "late"))).closed


async def test_parked_calls_outlive_a_restart_one_answered_and_one_not(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, script=both) as chat:
        turn = await submit(chat)
        weather, stocks = await questions(chat, turn)
        assert (await chat.gateway.answer(MAIN_AGENT, reply(weather, "rain"))).closed
        await chat.abandon()
    async with Journey(folder=tmp_path, script=both) as chat:
        await asyncio.sleep(0.05)
        assert not chat.model.requests, "it went on before all results were there"
        assert (await chat.gateway.answer(MAIN_AGENT, reply(stocks, "up"))).closed
        found = await ended(chat, turn)
        assert isinstance(found[-1].record, Finished)
        (request,) = chat.model.requests
        assert request.system.endswith("Be a client's.")
        assert [earlier.text for earlier in request.history] == ["before"]
        assert [tool.name for tool in request.tools][-2:] == ["weather", "stocks"]
        assert sum(isinstance(entry.record, Asked) for entry in found) == 2


@pytest.mark.parametrize("answered", [0, 1])
async def test_a_client_that_does_not_come_back_ends_the_turn_quietly(tmp_path: Path, answered: int) -> None:
    clock = FakeClock()
    settings = open_settings(agent=AgentSettings(client_tool_timeout=10.0))
    async with Journey(folder=tmp_path, script=both, clock=clock, settings=settings) as chat:
        turn = await submit(chat)
        asked = await questions(chat, turn)
        for question in asked[:answered]:
            assert (await chat.gateway.answer(MAIN_AGENT, reply(question, "rain"))).closed
        await clock.advance(20)
        found = await ended(chat, turn)
        assert found[-1].record == Stopped(reason="client gone")
        assert len(chat.model.requests) == 1, "the model was asked although nobody listens"
        open_calls = {one.id for one in both_calls(found)} - {
            entry.record.call for entry in found if isinstance(entry.record, ToolFinished)
        }
        assert not open_calls


def both_calls(entries: list[Entry]) -> tuple[ToolCall, ...]:
    return next(entry.record.calls for entry in entries if isinstance(entry.record, ModelSaid))


async def test_words_never_answer_what_a_client_is_asked_for(tmp_path: Path) -> None:
    """The person behind the key speaks to the same session in a chat: their “yes” is no weather report."""
    script = [call("weather"), say("it rains"), say("yes what?")]
    settings = open_settings(display=DisplaySettings(busy_input_mode=BusyMode.QUEUE))
    async with Journey(folder=tmp_path, script=script, kind="plain", settings=settings) as chat:
        chat.world.write("/status", user="key:ann")
        await chat.until_idle()
        (session,) = await chat.database.read(lambda tx: tx.sessions.find(""))
        given = TurnInput(text="go", guidance=Guidance(tools=TOOLS[:1]))
        turn = await chat.gateway.submit(
            Submission(agent=MAIN_AGENT, source=CLIENT, input=given, place=SessionTarget(session=session.id))
        )
        await questions(chat, turn)
        chat.world.write("/approve", user="key:ann")
        await chat.until_seen("Nothing waits for a decision.")
        chat.world.write("yes", user="key:ann")
        await chat.until_taken()
        (weather,) = await questions(chat, turn)
        assert weather.open
        assert (await chat.gateway.answer(MAIN_AGENT, reply(weather, "rain"))).closed
        await chat.until_seen("yes what?")
        assert ToolFinished(call=CallId("call_weather"), text="rain") in [
            entry.record for entry in await records(chat, turn)
        ]


@pytest.mark.parametrize(("tool", "seconds"), [("danger", 10.0), ("clarify", 20.0)])
async def test_what_an_api_client_is_asked_expires(tmp_path: Path, tool: str, seconds: float) -> None:
    clock = FakeClock()
    settings = open_settings(
        approvals=ApprovalSettings(timeout=10.0), agent=AgentSettings(clarify_timeout=20.0)
    )
    script = [call(tool, '{"token": "x"}'), say("went on")]
    async with Journey(folder=tmp_path, script=script, clock=clock, settings=settings) as chat:
        turn = await submit(chat, guidance=Guidance())
        (asked,) = await questions(chat, turn)
        assert asked.expires_at is not None
        assert (asked.expires_at - clock.now()).total_seconds() == seconds


async def test_what_the_terminal_is_asked_does_not_expire(tmp_path: Path) -> None:
    source = Source(address=Address(platform="terminal", chat="1"), kind=SourceKind.PRIVATE, user="local")
    async with Journey(folder=tmp_path, script=[call("danger", '{"token": "x"}')]) as chat:
        words = Submission(agent=MAIN_AGENT, source=source, input=TurnInput(text="go"))
        (asked,) = await questions(chat, await chat.gateway.submit(words))
        assert asked.expires_at is None


async def test_a_clients_history_is_written_once(tmp_path: Path) -> None:
    """A turn's row is written with each record; what the client told must not be written with it."""
    script = [call("read", '{"token": "x"}', id=f"c{place}") for place in range(5)]
    history = (EarlierMessage(by=Speaker.USER, text="x" * 1_000_000),)
    async with Journey(folder=tmp_path, script=[*script, say("done")]) as chat:
        turn = await submit(chat, guidance=Guidance(history=history))
        assert isinstance((await ended(chat, turn))[-1].record, Finished)
        assert all(request.history == history for request in chat.model.requests)
        assert (tmp_path / "state.db-wal").stat().st_size < 2_500_000


async def test_a_picture_that_a_door_stored_is_shown_again_after_a_restart(
    tmp_path: Path,
) -> None:
    async with Journey(folder=tmp_path) as chat:
        picture = await chat.gateway.keep_media(MAIN_AGENT, b"GIF89a", "image/gif")
        given = TurnInput(text="look", attachments=(picture,))
        turn = await chat.gateway.submit(Submission(agent=MAIN_AGENT, source=CLIENT, input=given))
        await ended(chat, turn)
    async with Journey(folder=tmp_path) as chat:
        words = Submission(
            agent=MAIN_AGENT,
            source=CLIENT,
            input=TurnInput(text="again"),
            place=SessionTarget(session=turn.session),
        )
        await ended(chat, await chat.gateway.submit(words))
        assert list(chat.model.requests[0].images.values()) == ["data:image/gif;base64,R0lGODlh"]
