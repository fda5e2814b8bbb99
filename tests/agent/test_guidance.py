"""What a client brings along for one turn: words, messages, a model, and tools of its own."""

from __future__ import annotations

from hermes.agent.run.calls import NO_RESULT
from hermes.domain.ids import CallId
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.event import (
    Answered,
    Asked,
    Finished,
    ModelSaid,
    QuestionKind,
    ToolFinished,
    ToolStarted,
    UserSaid,
    Verdict,
)
from hermes.domain.turns.turn import ClientTool, EarlierMessage, Guidance, Speaker
from hermes.domain.word import replace
from hermes.testing.model import Say, ScriptedModel, say
from tests.agent.driving import SESSION, Driver, loop_of, quick, tool

WEATHER = ClientTool(
    name="weather", description="The weather.", parameters='{"type": "object", "properties": {}}'
)
READ = tool("read_file", parallel=True)


def calls(*names: str, arguments: str = "{}") -> Say:
    return Say(
        calls=tuple(
            ToolCall(id=CallId(f"c{place}"), name=name, arguments=arguments)
            for place, name in enumerate(names)
        )
    )


def driver(script: list[Say], guidance: Guidance) -> tuple[Driver, ScriptedModel]:
    model = ScriptedModel(script)
    return Driver(loop_of(model, READ, tool("write_file")), guidance=guidance), model


async def test_a_clients_words_count_for_its_turn_alone() -> None:
    history = (EarlierMessage(by=Speaker.USER, text="hi"), EarlierMessage(by=Speaker.AGENT, text="hello"))
    guidance = Guidance(instructions="Answer in rhymes.", history=history, model="their-model")
    chat, model = driver([calls("read_file"), say("one"), say("two")], guidance)
    chat.session = replace(SESSION, system_prompt="You are kept.", model="our-model")
    await chat.say("first")
    chat.guidance = Guidance()
    await chat.say("second")
    first, again, second = model.requests
    assert first.system == again.system == "You are kept.\n\nAnswer in rhymes."
    assert first.history == again.history == history
    assert (first.model, again.model) == ("their-model", "their-model")
    assert (second.system, second.history, second.model) == ("You are kept.", (), "our-model")
    assert chat.session.system_prompt == "You are kept."


async def test_a_clients_tool_is_offered_beside_our_own_and_asked_of_the_client() -> None:
    chat, model = driver(
        [calls("weather", arguments='{"city": "Bonn"}'), say("Rain.")], Guidance(tools=(WEATHER,))
    )
    records = await chat.say("how is it?")
    assert [one.name for one in model.requests[0].tools] == ["read_file", "write_file", "weather"]
    offered = model.requests[0].tools[-1]
    assert (offered.description, dict(offered.parameters)["type"]) == ("The weather.", "object")
    asked = records[-1]
    assert isinstance(asked, Asked) and asked.kind is QuestionKind.CLIENT_TOOL
    assert (asked.call, asked.text) == ("c0", 'weather {"city": "Bonn"}')
    assert not any(isinstance(record, ToolStarted) for record in records)
    chat.add(Answered(question=asked.question, verdict=Verdict.REPLY, text="rain", by="me"))
    records = await chat.go()
    assert ToolFinished(call=CallId("c0"), text="rain") in records
    assert isinstance(records[-1], Finished)


async def test_a_clients_calls_are_asked_together_once_our_own_are_settled() -> None:
    script = [calls("weather", "read_file", "weather", "write_file", "nothing"), say("done")]
    chat, _ = driver(script, Guidance(tools=(WEATHER,)))
    records = await chat.say("all of it")
    kinds = [type(record).__name__ for record in records]
    assert kinds[-2:] == ["Asked", "Asked"] and "Asked" not in kinds[:-2]
    finished = [record.call for record in records if isinstance(record, ToolFinished)]
    assert sorted(finished) == ["c1", "c3", "c4"]
    first, second = records[-2:]
    assert isinstance(first, Asked) and isinstance(second, Asked)
    assert (first.call, second.call) == ("c0", "c2")
    # The client answers in another order; the results stand in the order of the calls.
    chat.add(
        Answered(question=second.question, verdict=Verdict.REPLY, text="second"),
        Answered(question=first.question, verdict=Verdict.REPLY, text="first"),
    )
    records = await chat.go()
    told = [record.text for record in records if isinstance(record, ToolFinished)][3:]
    assert told == ["first", "second"]
    assert isinstance(records[-1], Finished)


async def test_a_clients_tool_takes_the_place_of_our_own_with_its_name() -> None:
    theirs = ClientTool(name="read_file", description="Theirs.")
    chat, model = driver([calls("read_file"), calls("read_file"), say("x")], Guidance(tools=(theirs,)))
    records = await chat.say("read")
    assert [one.description for one in model.requests[0].tools] == ["Theirs.", "write_file"]
    assert isinstance(records[-1], Asked)
    chat.add(Answered(question=records[-1].question, verdict=Verdict.WITHDRAWN))
    records = await chat.go()
    assert ToolFinished(call=CallId("c0"), text=NO_RESULT, failed=True) in records


async def test_a_clients_call_with_unreadable_arguments_goes_back_to_the_model() -> None:
    chat, _ = driver([calls("weather", arguments='{"city": "Bo'), say("sorry")], Guidance(tools=(WEATHER,)))
    records = await chat.say("how is it?")
    assert not any(isinstance(record, Asked) for record in records)
    failed = next(record for record in records if isinstance(record, ToolFinished))
    assert failed.failed and "break off" in failed.text


async def test_no_tools_of_the_client_when_the_steps_are_used_up() -> None:
    model = ScriptedModel([say("that was all")])
    chat = Driver(loop_of(model, READ, limits=quick(iterations=0)), guidance=Guidance(tools=(WEATHER,)))
    await chat.say("go")
    assert model.requests[0].tools == ()


async def test_a_clients_schema_that_is_none_does_not_stop_the_turn() -> None:
    chat, model = driver([say("ok")], Guidance(tools=(ClientTool(name="odd", parameters="[1"),)))
    records = await chat.say("go")
    assert isinstance(records[0], UserSaid) and isinstance(records[-1], Finished)
    assert isinstance(records[1], ModelSaid) and dict(model.requests[0].tools[-1].parameters) == {}
