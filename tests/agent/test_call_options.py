"""How a client wants a turn answered: which call must be made, where a reply ends, and how long it may be."""

from __future__ import annotations

import pytest

from hermes.agent.run.speech import StopFilter
from hermes.domain.ids import CallId
from hermes.domain.models.call_options import CallOptions, JsonAnswer
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.event import (
    Answered,
    Asked,
    Ending,
    Finished,
    ModelSaid,
    TextDelta,
    ToolFinished,
    Verdict,
)
from hermes.domain.turns.turn import ClientTool, Guidance
from hermes.testing.model import Say, ScriptedModel, call, say
from tests.agent.driving import Driver, loop_of, tool

WEATHER = ClientTool(name="weather", strict=True)
STOCKS = ClientTool(name="stocks")


def driver(script: list[Say], options: CallOptions) -> tuple[Driver, ScriptedModel]:
    model = ScriptedModel(script)
    guidance = Guidance(tools=(WEATHER, STOCKS))
    return Driver(loop_of(model, tool("read_file")), guidance=guidance, options=options), model


def names(model: ScriptedModel) -> list[list[str]]:
    return [[one.name for one in request.tools] for request in model.requests]


async def test_a_call_must_be_made_in_the_first_call_after_the_client_spoke_and_in_no_other() -> None:
    options = CallOptions(must_call=("weather",), json=JsonAnswer())
    chat, model = driver([call("weather"), call("read_file"), call("weather", id="w2"), say("{}")], options)
    asked = (await chat.say("go"))[-1]
    assert isinstance(asked, Asked)
    chat.options = CallOptions(json=JsonAnswer())
    chat.add(Answered(question=asked.question, verdict=Verdict.REPLY, text="rain", by="me"))
    asked = (await chat.go())[-1]
    assert isinstance(asked, Asked)
    # A request that continues the turn may ask for a call again.
    chat.options = options
    chat.add(Answered(question=asked.question, verdict=Verdict.REPLY, text="sun", by="me"))
    await chat.go()
    everything = ["read_file", "weather", "stocks"]
    assert names(model) == [["weather"], everything, everything, ["weather"]]
    assert [request.options.must_call for request in model.requests] == [("weather",), (), (), ("weather",)]
    assert model.requests[0].tools[0].strict
    assert all(request.options.json == JsonAnswer() for request in model.requests)


async def test_a_reply_that_reaches_the_clients_limit_ends_the_answer() -> None:
    chat, model = driver([Say(text="one two", ending=Ending.LENGTH)], CallOptions(max_tokens=2))
    records = await chat.say("go")
    assert records[-1] == Finished() and len(model.requests) == 1
    assert isinstance(records[-2], ModelSaid) and records[-2].ending is Ending.LENGTH


@pytest.mark.parametrize("words", ["", "Let me"])
async def test_calls_that_the_limit_cut_off_are_not_made(words: str) -> None:
    cut = ToolCall(id=CallId("c"), name="read_file", arguments='{"path": "/e')
    chat, model = driver([Say(text=words, calls=(cut,), ending=Ending.LENGTH)], CallOptions(max_tokens=9))
    records = await chat.say("go")
    assert records[-2:] == [
        ModelSaid(text=words, model="scripted", ending=Ending.LENGTH, usage=records[-2].usage),  # type: ignore[union-attr]
        Finished(),
    ]
    assert len(model.requests) == 1


async def test_without_a_limit_of_the_client_a_cut_reply_is_continued() -> None:
    chat, model = driver([Say(text="one ", ending=Ending.LENGTH), say("two")], CallOptions(seed=1))
    await chat.say("go")
    assert len(model.requests) == 2


async def test_one_call_at_a_time() -> None:
    calls = tuple(ToolCall(id=CallId(f"c{n}"), name="read_file", arguments="{}") for n in range(2))
    chat, _ = driver([Say(calls=calls), say("done")], CallOptions(parallel=False))
    records = await chat.say("go")
    assert [record.call for record in records if isinstance(record, ToolFinished)] == ["c0"]
    both, _ = driver([Say(calls=calls), say("done")], CallOptions())
    assert sum(isinstance(record, ToolFinished) for record in await both.say("go")) == 2


async def test_words_end_before_a_stop_text_however_they_come() -> None:
    reply = Say(text="one two EN three END four", pieces=25, calls=call("read_file").calls)
    chat, model = driver([reply], CallOptions(stop=("END", "never")))
    records = await chat.say("go")
    text = "one two EN three "
    assert [record.text for record in records if isinstance(record, ModelSaid)] == [text]
    assert "".join(event.text for event in chat.live if isinstance(event, TextDelta)) == text
    assert isinstance(records[-1], Finished) and len(model.requests) == 1


@pytest.mark.parametrize("size", [1, 2, 5, 100])
@pytest.mark.parametrize(
    ("text", "shown"), [("abcabd", "abc"), ("xx", "xx"), ("aab", "aab"), ("ab", "ab"), ("abd", "")]
)
def test_what_may_begin_a_stop_text_is_held_back(text: str, shown: str, size: int) -> None:
    stops = StopFilter(("abd",))
    pieces = [stops.take(text[at : at + size]) for at in range(0, len(text), size)]
    assert "".join(pieces) + stops.take("", last=True) == shown
    assert stops.hit is (text != shown)
