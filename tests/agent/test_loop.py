"""The loop's rules, one by one, with a scripted model."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest

from hermes.agent.context.prompt import RUNS_ON
from hermes.agent.run.guards import REPEATS
from hermes.agent.run.loop import (
    CLOSING,
    SAY_SOMETHING,
    SAY_THOUGHTS,
    AgentLoop,
    LoopLimits,
)
from hermes.agent.run.speech import OverlapFilter, RetryBackoff
from hermes.domain.clock import SystemClock
from hermes.domain.errors import FaultKind, ModelFault, NeedsLogin, Unreachable, UserError
from hermes.domain.ids import CallId
from hermes.domain.models.model_facts import ModelFacts
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.settings.tool_limits import LoopGuard
from hermes.domain.tools.tool import Clarification, Effect, Tool, ToolCall, ToolContext, ToolResult
from hermes.domain.tools.toolbox import Toolbox
from hermes.domain.turns.event import (
    Asked,
    Ending,
    Failed,
    Finished,
    ModelSaid,
    Notice,
    Retrying,
    TextDelta,
    ThoughtDelta,
    ToolFinished,
    ToolStarted,
    UserSaid,
)
from hermes.domain.turns.turn import Guidance
from hermes.domain.word import replace
from hermes.testing.model import Say, ScriptedModel, say
from tests.agent.driving import SESSION, Driver, loop_of, quick, tool

READ = tool("read_file", parallel=True)
_COUNTS = count(1)


def calls(*names: str, arguments: str = "{}") -> Say:
    return Say(
        calls=tuple(
            ToolCall(id=CallId(f"c{place}"), name=name, arguments=arguments)
            for place, name in enumerate(names)
        )
    )


def driver(script: object, *tools: Tool, limits: LoopLimits | None = None) -> tuple[Driver, ScriptedModel]:
    model = ScriptedModel(script)
    return Driver(loop_of(model, *(tools or (READ,)), limits=limits)), model


def kinds(records: list[object]) -> list[str]:
    return [type(record).__name__ for record in records]


# --- ends --------------------------------------------------------------------------------------------


async def test_a_plain_answer_is_one_commit() -> None:
    chat, _ = driver([say("hello")])
    records = await chat.say("hi")
    assert kinds(records) == ["UserSaid", "ModelSaid", "Finished"]


async def test_the_budget_ends_with_one_request_without_tools() -> None:
    def script(request: ModelRequest) -> Say:
        return (
            calls("read_file", arguments=f'{{"n": {len(request.entries)}}}')
            if request.tools
            else say("summary")
        )

    chat, model = driver(script, limits=quick(iterations=4))
    records = await chat.say("go")
    assert isinstance(records[-1], Finished) and records[-2].text == "summary"
    assert len(model.requests) == 5
    assert model.requests[-1].tools == () and model.requests[-1].note == CLOSING
    assert all(request.tools and not request.note for request in model.requests[:-1])


async def test_calls_in_the_closing_reply_are_not_run() -> None:
    both = Say(text="I wanted to", calls=calls("read_file").calls)
    chat, model = driver([calls("read_file"), both], limits=quick(iterations=1))
    records = await chat.say("go")
    assert kinds(records).count("ToolStarted") == 1
    assert records[-2].text == "I wanted to" and not records[-2].calls
    assert len(model.requests) == 2


async def test_an_empty_answer_is_asked_for_again_and_then_explained() -> None:
    chat, model = driver([say(""), say("<thought>hm</thought>"), say("<think>hm"), say("four")])
    assert isinstance((await chat.say("2+2"))[-1], Finished)
    assert [request.note for request in model.requests] == ["", SAY_SOMETHING, SAY_THOUGHTS, SAY_THOUGHTS]
    chat, model = driver(lambda request: say(""))
    records = await chat.say("2+2")
    assert isinstance(records[-1], Failed) and "empty answer 4 times" in records[-1].reason
    assert len(model.requests) == 4


async def test_length_is_continued_four_times_at_most() -> None:
    cut = [Say(text=f"{n} ", ending=Ending.LENGTH) for n in range(9)]
    chat, model = driver(cut)
    records = await chat.say("count")
    assert len(model.requests) == 5
    assert isinstance(records[-1], Finished) and "length limit" in records[-1].note
    chat, model = driver([cut[0], say("end")])
    records = await chat.say("count")
    assert kinds(records) == ["UserSaid", "ModelSaid", "ModelSaid", "Finished"] and not records[-1].note


async def test_the_sessions_own_prompt_and_model_are_used() -> None:
    chat, model = driver([say("ok"), say("ok")])
    chat.session = replace(SESSION, system_prompt="stored", model="other")
    await chat.say("hi")
    assert (model.requests[0].system, model.requests[0].model) == ("stored", "other")
    chat.session = replace(SESSION, owner=None)
    await chat.say("hi")
    assert model.requests[1].system == "Be brief." and model.requests[1].shared


# --- calls -------------------------------------------------------------------------------------------


async def test_parallel_calls_run_together_and_others_are_barriers() -> None:
    running: list[str] = []
    most: list[tuple[str, ...]] = []

    def watched(name: str, parallel: bool) -> Tool:
        async def run(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
            running.append(name)
            await asyncio.sleep(0.02)
            most.append(tuple(running))
            running.remove(name)
            return ToolResult(text=context.call_id)

        return Tool(name=name, description="", parameters={}, run=run, parallel=parallel, effect=Effect.READ)

    chat, _ = driver(
        [calls("read", "read", "write", "read", "read"), say("done")],
        watched("read", True),
        watched("write", False),
    )
    records = await chat.say("go")
    assert ("write",) in most and ("read", "read") in most
    assert not any("write" in together and len(together) > 1 for together in most)
    started = [record.call for record in records if isinstance(record, ToolStarted)]
    assert started == ["c0", "c1", "c2", "c3", "c4"]


async def test_a_wrong_name_is_mended_and_an_unknown_one_is_told() -> None:
    chat, _ = driver([calls("ReadFile", "fly"), say("ok")])
    records = await chat.say("go")
    results = {record.call: record for record in records if isinstance(record, ToolFinished)}
    assert not results["c0"].failed
    assert results["c1"].failed and "There are: read_file." in results["c1"].text
    said = next(record for record in records if isinstance(record, ModelSaid))
    assert said.calls[0].name == "read_file"


async def test_bad_arguments_are_mended_or_told() -> None:
    script = [
        calls("read_file", arguments="{'a': True,}"),
        calls("read_file", arguments='{"a": "hal'),
        say("ok"),
    ]
    chat, _ = driver(script)
    results = [record for record in await chat.say("go") if isinstance(record, ToolFinished)]
    assert results[0].text == "read_file: {'a': True}"
    assert results[1].failed and "break off" in results[1].text


async def test_three_rounds_of_unusable_calls_end_the_turn() -> None:
    chat, model = driver(lambda request: calls("fly"))
    records = await chat.say("go")
    assert len(model.requests) == 3
    assert isinstance(records[-1], Failed) and "3 times in a row" in records[-1].reason
    script = [calls("fly"), calls("fly"), calls("read_file"), calls("fly"), calls("fly"), say("ok")]
    chat, model = driver(script)
    assert isinstance((await chat.say("go"))[-1], Finished)


async def test_ids_that_come_again_are_made_unique_within_the_turn() -> None:
    chat, _ = driver([calls("read_file"), calls("read_file"), say("ok")])
    keys = [record.key for record in await chat.say("go") if isinstance(record, ToolStarted)]
    assert len(set(keys)) == 2


async def test_a_tool_that_will_not_ask_is_told() -> None:
    def asks(arguments: Mapping[str, object]) -> Clarification:
        raise UserError("A question is missing.")

    broken = replace(READ, name="clarify", asks=asks)
    chat, _ = driver([calls("clarify"), say("ok")], broken)
    results = [record for record in await chat.say("go") if isinstance(record, ToolFinished)]
    assert results[0].failed and results[0].text == "A question is missing."


async def test_a_question_ends_the_run() -> None:
    asking = replace(READ, name="clarify", asks=lambda arguments: Clarification(text="Which?"))
    chat, _ = driver([calls("fly", "clarify")], asking)
    records = await chat.say("go")
    assert kinds(records) == ["UserSaid", "ModelSaid", "ToolFinished", "Asked"]
    assert isinstance(records[-1], Asked)
    assert await chat.go() == records


# --- loops -------------------------------------------------------------------------------------------


async def test_a_model_that_runs_in_circles_is_told_and_then_stopped() -> None:
    def script(request: ModelRequest) -> Say:
        return calls("poll") if request.tools else say("it never came")

    chat, model = driver(script, tool("poll", text="nothing yet"))
    records = await chat.say("wait for it")
    assert kinds(records).count("ToolStarted") == 5
    notes = [request.note for request in model.requests]
    assert notes[:2] == [""] * 2
    for times, note in enumerate(notes[2:], 2):
        assert note.startswith(f"[{REPEATS.format(tool='poll', times=times)}. ")
    assert "wait longer in one call" in notes[4] and "Do not call tools any more." in notes[5]
    assert records[-2].text == "it never came"


@pytest.mark.parametrize("words", ["1 failed in {}.25s", "nothing yet [success; 0.{} s]", "12:00:{}: no"])
async def test_the_same_result_at_another_time_is_no_new_one(words: str) -> None:
    async def run(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        return ToolResult(text=words.format(10 + next(_COUNTS) % 50))

    chat, model = driver(
        lambda request: calls("poll") if request.tools else say("it never came"),
        replace(tool("poll", effect=Effect.ONCE), run=run),
    )
    await chat.say("wait for it")
    assert len(model.requests) == 6 and REPEATS.format(tool="poll", times=5) in model.requests[5].note


async def test_what_is_counted_goes_on_where_it_changes() -> None:
    async def run(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        return ToolResult(text=f"{next(_COUNTS)} of 9000 done")

    turn = iter(range(20))
    notes = await notes_of(
        lambda request: say("done") if next(turn, None) is None else calls("poll"),
        replace(tool("poll"), run=run),
    )
    assert not any(notes)


def failing(name: str, *, ended_badly: bool = False) -> Tool:
    """Fails each time with other words; or its program does."""

    async def run(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        text = f"failure number {next(_COUNTS)}"
        return ToolResult(text=text, failed=not ended_badly, ended_badly=ended_badly)

    return replace(tool(name, effect=Effect.ONCE if ended_badly else Effect.READ), run=run)


async def notes_of(script: Callable[[ModelRequest], Say], *tools: Tool, **guard: object) -> list[str]:
    limits = quick(guard=LoopGuard(**guard))  # type: ignore[arg-type]
    chat, model = driver(script, *tools, limits=limits)
    await chat.say("go")
    return [request.note for request in model.requests]


@pytest.mark.parametrize("ended_badly", [False, True], ids=["the tool", "its program"])
async def test_a_call_that_fails_again_and_again_is_warned_then_stopped_whatever_it_says(
    ended_badly: bool,
) -> None:
    script = lambda request: calls("fly") if request.tools else say("I cannot")  # noqa: E731
    notes = await notes_of(script, failing("fly", ended_badly=ended_badly))
    assert notes[:2] == ["", ""] and len(notes) == 6
    assert notes[2] == (
        "[fly failed 2 times with the same arguments. The same call fails again: read why, and change "
        "something first.]"
    )
    assert notes[5].startswith("[fly failed 5 times with the same arguments. Do not call tools any more.")


async def test_a_tool_that_fails_with_every_argument_is_warned_then_stopped() -> None:
    turn = iter(range(1_000))

    def script(request: ModelRequest) -> Say:
        return calls("fly", arguments=f'{{"to": {next(turn)}}}') if request.tools else say("I cannot")

    notes = await notes_of(script, failing("fly"))
    assert notes[:3] == [""] * 3 and len(notes) == 9
    assert notes[3].startswith("[fly failed 3 times in a row. Find out why")
    assert notes[8].startswith("[fly failed 8 times in a row. Do not call tools any more.")


async def test_programs_that_end_badly_each_in_their_own_way_are_no_circle() -> None:
    """`grep` says with its exit code that there is nothing."""
    turn = iter(range(20))

    def script(request: ModelRequest) -> Say:
        step = next(turn, None)
        return say("done") if step is None else calls("grep", arguments=f'{{"for": {step}}}')

    assert not any(await notes_of(script, failing("grep", ended_badly=True)))


async def test_what_was_done_before_with_the_same_result_is_no_reason_to_try_again() -> None:
    turn = iter(range(1_000))

    def script(request: ModelRequest) -> Say:
        return calls("look" if next(turn) % 2 else "patch") if request.tools else say("I cannot")

    notes = await notes_of(script, failing("patch"), tool("look", text="as it was", effect=Effect.ONCE))
    assert len(notes) == 12 and "patch failed 5 times" in notes[-1]


@pytest.mark.parametrize("effect", [Effect.READ, Effect.ONCE])
async def test_a_failure_counts_anew_once_something_was_done(effect: Effect) -> None:
    """Tests that are run after each edit fail many times, and that is work; reading changes nothing."""
    turn = iter(range(40))

    def script(request: ModelRequest) -> Say:
        step = next(turn, None)
        if step is None or not request.tools:
            return say("done")
        return calls("test") if step % 2 else calls("edit", arguments=f'{{"n": {step}}}')

    notes = await notes_of(script, failing("test"), tool("edit", effect=effect))
    assert any(notes) == (effect is Effect.READ)


@pytest.mark.parametrize("guard", [{"warnings_enabled": False}, {"hard_stop_enabled": False}])
async def test_warnings_and_stops_can_be_switched_off(guard: dict[str, bool]) -> None:
    notes = await notes_of(
        lambda request: calls("fly") if request.tools else say("I cannot"), failing("fly"), **guard
    )
    warned, stopped = any("read why" in note for note in notes), any("any more" in note for note in notes)
    assert (warned, stopped) == (guard.get("warnings_enabled", True), guard.get("hard_stop_enabled", True))


async def test_calls_beyond_the_most_in_one_reply_are_not_run() -> None:
    limits = quick(calls=3)
    chat, _ = driver([calls(*["read_file"] * 5), say("ok")], READ, limits=limits)
    records = await chat.say("go")
    assert kinds(records).count("ToolStarted") == 3
    assert sum("3 calls are the most in one reply" in getattr(one, "text", "") for one in records) == 2


async def test_circles_of_several_calls_are_seen_and_work_is_not() -> None:
    turn = iter(range(1_000))

    def circle(request: ModelRequest) -> Say:
        return calls("look" if next(turn) % 2 else "poll") if request.tools else say("stopped")

    chat, model = driver(circle, tool("poll", text="no"), tool("look", text="no"))
    await chat.say("go")
    assert len(model.requests) < 20

    def work(request: ModelRequest) -> Say:
        step = next(turn)
        if len(model.requests) > 30:
            return say("done")
        return calls("poll") if step % 2 else calls("edit", arguments=f'{{"n": {step}}}')

    chat, model = driver(work, tool("poll", text="tests fail"), tool("edit"))
    await chat.say("mend it")
    assert all(not request.note for request in model.requests)


# --- retries -----------------------------------------------------------------------------------------


async def test_a_call_is_made_again_and_the_wait_is_told() -> None:
    busy = Say(error=Unreachable("busy", after=0.001))
    chat, _ = driver([busy, busy, say("at last")])
    records = await chat.say("go")
    assert records[-2].text == "at last"
    assert [event.after for event in chat.live if isinstance(event, Retrying)] == [0.001, 0.001]


async def test_what_was_thought_before_a_call_broke_is_kept_as_it_was_shown() -> None:
    broken = Say(thought="Hm. ", text="at last", breaks_after=2, error=Unreachable("busy", after=0.001))
    chat, _ = driver([broken, Say(thought="So.", text="at last")])
    records = await chat.say("go")
    shown = "".join(event.text for event in chat.live if isinstance(event, ThoughtDelta))
    assert (records[-2].text, records[-2].thought) == ("at last", shown) == ("at last", "Hm. So.")


async def test_what_no_retry_can_mend_is_not_retried() -> None:
    chat, model = driver([Say(error=NeedsLogin("no key"))])
    records = await chat.say("go")
    assert isinstance(records[-1], Failed) and "credentials: no key" in records[-1].reason
    assert len(model.requests) == 1


async def test_who_is_told_to_wait_longer_than_one_waits_is_not_asked_again() -> None:
    """A service that limits says for how long: to ask before helps nobody, and the client can wait itself."""
    until = datetime.now(UTC) + timedelta(seconds=90)
    limited = ModelFault("slow down", kind=FaultKind.LIMITED_UNTIL, after=90.0, until=until)
    chat, model = driver([Say(error=limited)])
    records = await chat.say("go")
    assert isinstance(records[-1], Failed) and records[-1].cause is not None
    assert records[-1].cause.retry_at == until and len(model.requests) == 1


def test_waiting_is_jittered_bounded_and_obedient() -> None:
    patience = RetryBackoff(first=2.0, longest=60.0)
    waits = [patience.delay(3, None) for _ in range(200)]
    assert 0 <= min(waits) < 2 and 6 < max(waits) <= 8
    assert patience.delay(1, 5.0) == 5.0 and patience.bears(60.0) and not patience.bears(90.0)
    assert max(patience.delay(20, None) for _ in range(50)) <= 60.0


@pytest.mark.parametrize(
    ("pieces", "new"),
    [
        ([" four"], " four"),
        (["One two three four"], " four"),
        (["One ", "two ", "three", " four"], " four"),
        (["One way or ", "another"], "One way or another"),
        (["One "], "One "),
        ([], ""),
    ],
)
def test_a_model_that_starts_over_is_not_heard_twice(pieces: list[str], new: str) -> None:
    seam = OverlapFilter("One two three")
    assert "".join([*map(seam.join, pieces), seam.close()]) == new


async def test_words_before_a_break_are_shown_once() -> None:
    broken = Say(text="some words here", breaks_after=11, error=Unreachable("gone"))
    chat, model = driver([broken, say("some words here and there")])
    records = await chat.say("go")
    assert records[-2].text == "some words here and there"
    assert model.requests[1].spoken == "some words "
    assert "".join(live.text for live in chat.live if isinstance(live, TextDelta)) == records[-2].text


# --- resuming ----------------------------------------------------------------------------------------


def every_trouble(request: ModelRequest) -> Say:
    """A model that gets everything wrong first; what it says depends on the transcript and the request."""
    said = [entry.record for entry in request.entries if isinstance(entry.record, ModelSaid)]
    steps = [
        calls("fly"),
        say(""),
        calls("poll"),
        calls("read_file", arguments="{'a': 1}"),
        calls("poll", "fly"),
    ]
    if not request.tools:
        return say("that is all")
    return steps[len(said)] if len(said) < len(steps) else calls("poll")


async def test_a_run_that_stops_after_any_record_goes_on_as_if_it_had_not() -> None:
    tools = (READ, tool("poll", text="no"))
    whole, model = driver(every_trouble, *tools)
    await whole.say("go")
    expected = [(entry.seq, type(entry.record)) for entry in whole.entries]
    notes = [request.note for request in model.requests]
    for commits in range(1, 14):
        chat, again = driver(every_trouble, *tools)
        chat.turns += 1
        chat.add(UserSaid(text="go"))
        for _ in range(40):
            await chat.go(commits)
            chat.memory.clear()
        assert [(entry.seq, type(entry.record)) for entry in chat.entries] == expected
        assert [request.note for request in again.requests] == notes


def test_the_loop_loads_no_client_library() -> None:
    source = Path(__file__).parents[2] / "src"
    code = "import sys, hermes.agent.run.loop; print([m for m in ('aiohttp', 'apsw') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(source)},
    )
    assert done.stdout.strip() == "[]"


async def test_a_model_without_tools_gets_none_and_that_is_said_once() -> None:
    model = ScriptedModel([say("a"), say("b")])
    loop = AgentLoop(
        provider=model,
        toolbox=Toolbox([tool("t")]),
        model="own",
        system=f"Today. {RUNS_ON.format(model='own')}",
        clock=SystemClock(),
        facts=lambda name: ModelFacts(tools=False if name == "plain" else None),
    )
    chat = Driver(loop, guidance=Guidance(model="plain"))
    await chat.say("hi")
    await chat.say("ho")
    assert [request.tools for request in model.requests] == [(), ()]
    assert [one.text for one in chat.live if isinstance(one, Notice)] == [
        "plain calls no tools, so it can only talk."
    ]
    assert model.requests[0].system == "Today. You run on the model plain."
