"""Tasks for children: who does them, with which model and which tools, what their parent and its people see
of them, and what comes back. Each complaint about delegation of the field has a test that names it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from hermes.agent.tools import make_tools
from hermes.agent.tools.delegate import NOT_FOR_CHILDREN, Delegation
from hermes.control.sessions.submission import Submission
from hermes.control.turn.children import child_turn
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.ids import MAIN_AGENT, AgentId, CallId
from hermes.domain.models.model_facts import ModelFacts
from hermes.domain.models.usage import Usage
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.settings.budgets import Budget
from hermes.domain.settings.delegation import DelegationSettings
from hermes.domain.settings.settings import ApprovalSettings
from hermes.domain.tools.services import ToolServices
from hermes.domain.tools.tool import Effect, Tool, ToolCall, ToolContext, ToolResult
from hermes.domain.turns.event import Asked, Entry, ModelSaid, QuestionKind, ToolFinished, ToolOutput, Verdict
from hermes.domain.turns.turn import Answer, Guidance, Question, Turn, TurnInput, TurnState
from hermes.domain.word import replace
from hermes.stream.faces.run_events import RunEvents
from hermes.testing.clock import FakeClock
from hermes.testing.harness import PATIENCE, Journey, open_settings
from hermes.testing.model import Say, call, say
from hermes.testing.tools import world_tools
from hermes.testing.world import Deed

ANN = Source(address=Address(platform="api", chat="s1"), kind=SourceKind.API, user="ann")
GO = Submission(agent=MAIN_AGENT, source=ANN, input=TurnInput(text="go"))
HELPERS = {"researcher": "reads the web"}
Script = Callable[[str, list[ToolFinished], ModelRequest], Say]


def order(*goals: str, **more: object) -> Say:
    given = {"tasks": [{"goal": goal} for goal in goals]} if len(goals) > 1 else {"goal": goals[0]}
    return call("delegate_task", json.dumps({**given, **more}), id="d1")


def family(first: Say, child: Script) -> Callable[[ModelRequest], Say]:
    """A parent that delegates and tells what came of it, and what its children say by their goals."""

    def script(request: ModelRequest) -> Say:
        said = str(getattr(request.entries[0].record, "text", ""))
        results = [entry.record for entry in request.entries if isinstance(entry.record, ToolFinished)]
        if said.startswith("go"):
            return say(f"TOLD {results[-1].text}") if results else first
        return child(said.partition("\n")[0], results, request)

    return script


def answering(goal: str, results: list[ToolFinished], request: ModelRequest) -> Say:
    return say(f"answer to {goal}")


def journey(
    folder: Path, first: Say, child: Script = answering, *, tools: Sequence[Tool] = (), **more: object
) -> Journey:
    chosen = {"agents": ("main", *HELPERS), "settings": open_settings(), **more}
    chat = Journey(folder=folder, script=family(first, child), **chosen)  # type: ignore[arg-type]
    given = Delegation(settings=lambda: chat.settings.delegation, agents=lambda: HELPERS)
    chat.tools = [
        *make_tools(ToolServices({Delegation: given})),
        *world_tools(chat.world.effect)[:-1],
        *tools,
    ]
    return chat


def delegating(**settings: object) -> dict[str, object]:
    return {"settings": open_settings(delegation=DelegationSettings(**settings))}  # type: ignore[arg-type]


async def ended(chat: Journey, turn: Turn) -> list[Entry]:
    async with asyncio.timeout(PATIENCE):
        return [seen async for seen in chat.gateway.watch(MAIN_AGENT, turn.id) if isinstance(seen, Entry)]


def told(entries: list[Entry]) -> str:
    return [entry.record.text for entry in entries if isinstance(entry.record, ModelSaid)][-1]


async def children_of(chat: Journey, turn: Turn, agent: str = "main") -> list[Turn]:
    def read(asked: list[Question]) -> Callable[..., list[Turn]]:
        return lambda tx: [found for one in asked if (found := tx.turns.get(child_turn(one.id)))]

    asked = await chat.database.read(lambda tx: tx.questions.of_turn(turn.id))
    return await chat.database.scoped(AgentId(agent)).read(read(asked))


async def until(what: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            found = what()
            if await found if asyncio.iscoroutine(found) else found:
                return
            await asyncio.sleep(0.003)


# --- complaints of the field (1.6) ---


@pytest.mark.parametrize("parent", ["", "the-parents"])
async def test_hermes_11999_codex_31814_the_configured_model_of_a_child_is_asked(
    tmp_path: Path, parent: str
) -> None:
    def child(goal: str, results: list[ToolFinished], request: ModelRequest) -> Say:
        return Say(text="counted", model=f"really {request.model}")

    settings = delegating(model="small", provider="cheap", reasoning_effort="low")
    async with journey(tmp_path, order("count"), child, **settings) as chat:
        asking = replace(GO, input=TurnInput(text="go", guidance=Guidance(model=parent)))
        words = told(await ended(chat, await chat.gateway.submit(asking)))
        assert "model really cheap:small" in words, "the result does not say which model answered"
        asked = {request.model: request.options.effort for request in chat.model.requests}
        assert asked == {parent or "scripted": "", "cheap:small": "low"}


async def test_without_a_model_of_its_own_a_child_has_that_of_its_parent(tmp_path: Path) -> None:
    async with journey(tmp_path, order("count")) as chat:
        asking = replace(GO, input=TurnInput(text="go", guidance=Guidance(model="the-parents")))
        await ended(chat, await chat.gateway.submit(asking))
        assert {request.model for request in chat.model.requests} == {"the-parents"}


async def test_an_agent_that_takes_a_task_has_its_own_model(tmp_path: Path) -> None:
    async with journey(tmp_path, order("count", agent="researcher"), **delegating(model="small")) as chat:
        asking = replace(GO, input=TurnInput(text="go", guidance=Guidance(model="the-parents")))
        words = told(await ended(chat, await chat.gateway.submit(asking)))
        assert "agent researcher" in words
        assert [request.model for request in chat.model.requests] == [
            "the-parents",
            "scripted",
            "the-parents",
        ]


async def test_hermes_60342_a_child_is_a_row_before_anybody_is_told_of_it(tmp_path: Path) -> None:
    hold = asyncio.Event()
    held = lambda goal, results, request: Say(text="slow", hold=hold)  # noqa: E731
    async with journey(tmp_path, order("one", "two"), held) as chat:
        turn = await chat.gateway.submit(GO)
        async for seen in chat.gateway.watch(MAIN_AGENT, turn.id):
            if isinstance(seen, Entry) and isinstance(seen.record, Asked):
                assert len(await children_of(chat, turn)) == 2, "it was told of before it was there"
                break
        await chat.abandon()
    async with journey(tmp_path, order("one", "two")) as chat:
        words = told(await ended(chat, turn))
        assert "answer to one" in words and "answer to two" in words


@pytest.mark.parametrize("limits", [(), ("file",), ("-world",)])
async def test_hermes_21658_a_child_has_the_tools_of_its_parent_whoever_that_is(
    tmp_path: Path, limits: tuple[str, ...]
) -> None:
    seen: dict[str, set[str]] = {}

    def child(goal: str, results: list[ToolFinished], request: ModelRequest) -> Say:
        seen[goal] = {tool.name for tool in request.tools}
        return say("done")

    async def nothing(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        raise AssertionError

    more = [
        Tool(name=name, description="", parameters={}, run=nothing, toolset=toolset)
        for name, toolset in (("look", "file"), ("act", "world"), ("session_search", "file"))
    ]
    chat = journey(tmp_path, order("here", agent=""), child, tools=more)
    both = json.dumps({"tasks": [{"goal": "here"}, {"goal": "there", "agent": "researcher"}]})
    chat.script = family(call("delegate_task", both, id="d1"), child)
    async with chat:
        named = ("delegation", *limits) if limits and not limits[0].startswith("-") else limits
        asking = replace(GO, input=TurnInput(text="go", guidance=Guidance(toolsets=named)))
        await ended(chat, await chat.gateway.submit(asking))
        mine = {tool.name for tool in chat.model.requests[0].tools}
        assert (
            seen["here"] == mine - {"delegate_task", *NOT_FOR_CHILDREN} and "session_search" in seen["here"]
        )
        assert seen["there"] == seen["here"] - {"session_search"}, "it would read what others said"
        assert seen["here"] & {"look", "act"} == {(): {"look", "act"}, ("file",): {"look"}}.get(
            limits, {"look"}
        )


async def test_hermes_11431_a_child_is_given_as_few_tools_as_it_needs(tmp_path: Path) -> None:
    seen: list[set[str]] = []

    def child(goal: str, results: list[ToolFinished], request: ModelRequest) -> Say:
        seen.append({tool.name for tool in request.tools})
        return say("done")

    async with journey(tmp_path, order("count", toolsets=["todo"]), child) as chat:
        await ended(chat, await chat.gateway.submit(GO))
    assert seen == [{"todo"}]


async def test_a_child_has_no_tool_of_a_toolset_that_is_called_like_one_of_its_tools(tmp_path: Path) -> None:
    """`terminal` is both; `process` is in it, and was taken from the parent."""

    async def run(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        raise AssertionError("nobody may")

    def child(goal: str, results: list[ToolFinished], request: ModelRequest) -> Say:
        return say(f"it has {sorted(tool.name for tool in request.tools)}") if results else call("process")

    schema: dict[str, object] = {"type": "object", "properties": {}}
    tools = [
        Tool(name=name, description="x", parameters=schema, run=run, effect=Effect.READ, toolset="terminal")
        for name in ("terminal", "process")
    ]
    guidance = Guidance(toolsets=("delegation", "terminal", "-process"))
    async with journey(tmp_path, order("count"), child, tools=tools) as chat:
        turn = await chat.gateway.submit(replace(GO, input=TurnInput(text="go", guidance=guidance)))
        assert "it has ['terminal']" in told(await ended(chat, turn))


@pytest.mark.parametrize("wanted", [["todoo"], ["terminal"]])
async def test_a_toolset_that_the_parent_has_not_is_said_and_nothing_begins(
    tmp_path: Path, wanted: list[str]
) -> None:
    async with journey(tmp_path, order("count", toolsets=wanted)) as chat:
        turn = await chat.gateway.submit(GO)
        words = told(await ended(chat, turn))
        if wanted == ["todoo"]:
            assert "There is no toolset “todoo”. Did you mean todo?" in words
        else:
            assert "answer to count" in words and not chat.model.requests[1].tools


async def test_hermes_9459_a_named_agent_takes_tasks_as_itself(tmp_path: Path) -> None:
    async with journey(tmp_path, order("look it up", agent="researcher")) as chat:
        offered = next(tool for tool in chat.tools or () if tool.name == "delegate_task")
        assert "researcher: reads the web" in offered.description
        turn = await chat.gateway.submit(GO)
        assert "answer to look it up" in told(await ended(chat, turn))
        [child] = await children_of(chat, turn, "researcher")
        assert child.agent == "researcher" and not await children_of(chat, turn)


async def test_an_agent_that_takes_no_tasks_is_said_with_the_nearest(tmp_path: Path) -> None:
    async with journey(tmp_path, order("count", agent="reasearcher")) as chat:
        turn = await chat.gateway.submit(GO)
        words = told(await ended(chat, turn))
        assert "No agent “reasearcher” takes tasks. Did you mean researcher?" in words
        assert not await children_of(chat, turn)


# --- what comes back ---


async def test_a_result_tells_what_a_child_took_and_which_files_it_changed(tmp_path: Path) -> None:
    async def write(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        return ToolResult(text="written")

    writing = Tool(name="write_file", description="", parameters={}, run=write)

    def child(goal: str, results: list[ToolFinished], request: ModelRequest) -> Say:
        if len(results) == 2:
            return Say(text="all is written", usage=Usage(prompt=100, completion=10))
        path = f"/w/{len(results)}.txt"
        given = (
            ToolCall(id=CallId(f"w{len(results)}"), name="write_file", arguments=json.dumps({"path": path})),
        )
        return Say(calls=given, usage=Usage(prompt=1000, completion=20))

    facts = ModelFacts(price_in=1.0, price_out=10.0)
    async with journey(tmp_path, order("write"), child, tools=[writing], facts=facts) as chat:
        words = told(await ended(chat, await chat.gateway.submit(GO)))
    assert (
        "done · agent main · model scripted · 3 model calls, 2,100 tokens read, 50 written, $0.0026" in words
    )
    assert "[tools: write_file ×2]" in words
    assert "[files changed: /w/0.txt, /w/1.txt;" in words
    assert words.endswith("all is written")


async def test_a_result_counts_what_children_of_a_child_took_and_changed(tmp_path: Path) -> None:
    async def write(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        return ToolResult(text="written")

    def child(goal: str, results: list[ToolFinished], request: ModelRequest) -> Say:
        used = Usage(prompt=1000, completion=10)
        if results:
            return Say(text=f"{goal} is done", usage=used)
        arguments = {"goal": "below", "agent": "researcher"} if goal == "above" else {"path": "/w/x"}
        name = "delegate_task" if goal == "above" else "write_file"
        made = ToolCall(id=CallId("c1"), name=name, arguments=json.dumps(arguments))
        return Say(calls=(made,), usage=used)

    writing = Tool(name="write_file", description="", parameters={}, run=write)
    order_above = order("above", role="orchestrator")
    async with journey(
        tmp_path, order_above, child, tools=[writing], **delegating(max_spawn_depth=2)
    ) as chat:
        words = told(await ended(chat, await chat.gateway.submit(GO)))
    assert "4 model calls, 4,000 tokens read, 40 written" in words, words
    assert "[files changed: /w/x;" in words and "with the tasks that it gave" in words


async def test_many_children_run_a_few_at_a_time_and_are_told_in_their_order(tmp_path: Path) -> None:
    goals = [f"task{n}" for n in range(7)]
    running: set[str] = set()
    most: list[int] = []

    def child(goal: str, results: list[ToolFinished], request: ModelRequest) -> Say:
        if results:
            running.discard(goal)
            return say(f"answer to {goal}")
        running.add(goal)
        most.append(len(running))
        return call("todo", '{"items": []}')

    async with journey(tmp_path, order(*goals), child, **delegating(max_concurrent_children=2)) as chat:
        words = told(await ended(chat, await chat.gateway.submit(GO)))
    assert max(most) == 2
    places = [words.index(f"answer to {goal}") for goal in goals]
    assert places == sorted(places) and "[7/7] task6" in words


async def test_a_child_that_fails_leaves_the_others_answers(tmp_path: Path) -> None:
    def child(goal: str, results: list[ToolFinished], request: ModelRequest) -> Say:
        return say("") if goal == "bad" else say("well done")

    async with journey(tmp_path, order("fine", "bad"), child) as chat:
        turn = await chat.gateway.submit(GO)
        seen = await ended(chat, turn)
        [result] = [entry.record for entry in seen if isinstance(entry.record, ToolFinished)]
        assert (
            not result.failed and "well done" in result.text and "The task was not finished." in result.text
        )


async def test_what_takes_too_long_is_stopped_and_said(tmp_path: Path) -> None:
    clock, hold = FakeClock(), asyncio.Event()
    held = lambda goal, results, request: Say(text="slow", hold=hold)  # noqa: E731
    settings = delegating(child_timeout_seconds=60)
    async with journey(tmp_path, order("wait"), held, clock=clock, **settings) as chat:
        turn = await chat.gateway.submit(GO)
        await until(lambda: children_of(chat, turn))
        await until(lambda: len(chat.model.requests) == 2)
        await clock.advance(61)
        assert "longer than delegation.child_timeout_seconds allows" in told(await ended(chat, turn))
        await until(lambda: _states(chat, turn, {TurnState.STOPPED}))


async def _states(chat: Journey, turn: Turn, wanted: set[TurnState], agent: str = "main") -> bool:
    return {child.state for child in await children_of(chat, turn, agent)} == wanted


@pytest.mark.parametrize(
    ("depth", "role", "begins"), [(1, "orchestrator", 0), (2, "leaf", 0), (2, "orchestrator", 1)]
)
async def test_children_have_children_only_as_orchestrators_and_not_too_deep(
    tmp_path: Path, depth: int, role: str, begins: int
) -> None:
    below: list[str] = []

    def child(goal: str, results: list[ToolFinished], request: ModelRequest) -> Say:
        if goal == "below":
            below.append(goal)
            return say("from below")
        if results:
            return say(f"heard {results[-1].text}")
        return call("delegate_task", '{"goal": "below", "role": "orchestrator"}', id="d2")

    settings = delegating(max_spawn_depth=depth)
    async with journey(tmp_path, order("above", role=role), child, **settings) as chat:
        turn = await chat.gateway.submit(GO)
        words = told(await ended(chat, turn))
        [first] = await children_of(chat, turn)
        parents = [one.input.guidance.parent for one in (first, *await children_of(chat, first))]
        assert [one and one.agents for one in parents] == [("main",), ("main", "main")][: begins + 1]
    assert len(below) == begins and ("from below" in words) == bool(begins)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "needs a goal"),
        ({"goal": "  "}, "needs a goal"),
        ({"tasks": [{"context": "x"}]}, "needs “goal”"),
        ({"tasks": [{"goal": str(n)} for n in range(21)]}, "21 tasks are too many"),
        ({"goal": "x", "model": "gpt"}, "has no argument “model”"),
        ({"goal": "x", "role": "boss"}, "must be one of leaf, orchestrator"),
    ],
)
async def test_wrong_arguments_are_explained_and_nothing_begins(
    tmp_path: Path, arguments: dict[str, object], words: str
) -> None:
    async with journey(tmp_path, call("delegate_task", json.dumps(arguments), id="d1")) as chat:
        turn = await chat.gateway.submit(GO)
        assert words in told(await ended(chat, turn))
        assert not await children_of(chat, turn)


# --- limits and stops ---


async def test_a_budget_counts_for_children_too(tmp_path: Path) -> None:
    settings = open_settings(budgets={"ann": Budget(person="*", calls=2)})
    async with journey(tmp_path, order("one", "two"), settings=settings) as chat:
        turn = await chat.gateway.submit(GO)
        words = told(await ended(chat, turn))
        assert words.count("The budget “ann” is spent") == 2, words
        assert len(chat.model.requests) == 2, "a child spent what was not there"


async def test_a_stop_reaches_children_of_every_agent_and_their_children(tmp_path: Path) -> None:
    working: set[str] = set()

    async def hold(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        working.add(context.session)
        await asyncio.Event().wait()
        raise AssertionError

    def child(goal: str, results: list[ToolFinished], request: ModelRequest) -> Say:
        if goal == "above":
            return call("delegate_task", '{"goal": "below"}', id="d2")
        return call("hold")

    tasks = [{"goal": "above"}, {"goal": "there", "agent": "researcher"}]
    both = json.dumps({"tasks": tasks, "role": "orchestrator"})
    holding = Tool(name="hold", description="", parameters={}, run=hold, effect=Effect.READ)
    parts = delegating(max_spawn_depth=2)
    async with journey(
        tmp_path, call("delegate_task", both, id="d1"), child, tools=[holding], **parts
    ) as chat:
        turn = await chat.gateway.submit(GO)
        await until(lambda: len(working) == 2)
        await chat.gateway.stop_turn(MAIN_AGENT, turn.id, "enough")
        await ended(chat, turn)
        await until(lambda: _states(chat, turn, {TurnState.STOPPED}))
        await until(lambda: _states(chat, turn, {TurnState.STOPPED}, "researcher"))
        [above] = await children_of(chat, turn)
        await until(lambda: _states(chat, above, {TurnState.STOPPED}))


# --- approvals ---


@pytest.mark.parametrize("agent", ["", "researcher"])
@pytest.mark.parametrize("press", ["once", "deny"])
async def test_what_a_child_needs_allowed_is_asked_of_the_person_by_its_parent(
    tmp_path: Path, press: str, agent: str
) -> None:
    def child(goal: str, results: list[ToolFinished], request: ModelRequest) -> Say:
        return say(f"so: {results[-1].text}") if results else call("danger", '{"token": "x"}')

    async with journey(tmp_path, order("dare", agent=agent), child) as chat:
        chat.world.write("go")
        await chat.until_seen("May I do x?")
        prompt = next(one for one in chat.world.messages.values() if "May I do x?" in one.text)
        assert "orking on “dare" in prompt.text and (agent in prompt.text)
        assert not chat.world.did(Deed.EFFECT)
        chat.world.write("", button=next(value for value in prompt.buttons if value.endswith(f":{press}")))
        await chat.until_seen("so: danger did x" if press == "once" else "so: Denied by the user.")
        await chat.until_idle()
        assert len(chat.world.did(Deed.EFFECT)) == (press == "once")


async def test_words_of_a_person_answer_what_a_child_asks(tmp_path: Path) -> None:
    def child(goal: str, results: list[ToolFinished], request: ModelRequest) -> Say:
        return say(f"so: {results[-1].text}") if results else call("danger", '{"token": "x"}')

    async with journey(tmp_path, order("dare"), child, kind="plain") as chat:
        chat.world.write("go")
        await chat.until_seen("May I do x?")
        chat.world.write("/approve")
        await chat.until_seen("so: danger did x")
        assert not any("no such question" in seen for seen in chat.world.seen())


async def test_an_api_client_sees_and_answers_what_a_child_asks(tmp_path: Path) -> None:
    def child(goal: str, results: list[ToolFinished], request: ModelRequest) -> Say:
        return say(f"so: {results[-1].text}") if results else call("danger", json.dumps({"token": goal}))

    async with journey(tmp_path, order("one", "two"), child) as chat:
        turn = await chat.gateway.submit(GO)
        asked = 0
        async with asyncio.timeout(PATIENCE):
            async for seen in chat.gateway.watch(MAIN_AGENT, turn.id):
                record = seen.record if isinstance(seen, Entry) else None
                if isinstance(record, Asked) and record.kind is QuestionKind.APPROVAL:
                    asked += 1
                    given = Answer(question=record.question, verdict=Verdict.ONCE, by="ann")
                    assert (await chat.gateway.answer(MAIN_AGENT, given)).closed
        words = told(await ended(chat, turn))
        assert asked == 2 and "so: danger did one" in words and "so: danger did two" in words


async def test_nobody_answers_a_childs_question_in_the_parents_place(tmp_path: Path) -> None:
    def child(goal: str, results: list[ToolFinished], request: ModelRequest) -> Say:
        return say(f"so: {results[-1].text}") if results else call("danger", '{"token": "x"}')

    settings = {"settings": open_settings(approvals=ApprovalSettings(timeout=30.0))}
    clock = FakeClock()
    async with journey(tmp_path, order("dare"), child, clock=clock, **settings) as chat:
        turn = await chat.gateway.submit(GO)
        await until(lambda: _asks(chat, turn, 2))
        [below] = await children_of(chat, turn)
        [own] = await chat.database.read(lambda tx: tx.questions.of_turn(below.id))
        given = Answer(question=own.id, verdict=Verdict.ONCE, by="ann")
        assert not (await chat.gateway.answer(MAIN_AGENT, given)).closed
        assert own.expires_at is None
        await clock.advance(31)
        assert "so: Nobody answered." in told(await ended(chat, turn))


async def _asks(chat: Journey, turn: Turn, count: int) -> bool:
    return len(await chat.database.read(lambda tx: tx.questions.of_turn(turn.id))) == count


async def test_a_child_of_a_job_asks_nobody(tmp_path: Path) -> None:
    def child(goal: str, results: list[ToolFinished], request: ModelRequest) -> Say:
        return say(f"so: {results[-1].text}") if results else call("danger", '{"token": "x"}')

    async with journey(tmp_path, order("dare"), child) as chat:
        unattended = TurnInput(text="go", guidance=Guidance(unattended="deny"))
        turn = await chat.gateway.submit(replace(GO, input=unattended))
        assert "nobody is there to be asked" in told(await ended(chat, turn))
        assert not chat.world.did(Deed.EFFECT)


async def test_a_child_that_ends_takes_its_question_back(tmp_path: Path) -> None:
    def child(goal: str, results: list[ToolFinished], request: ModelRequest) -> Say:
        return call("danger", '{"token": "x"}')

    async with journey(tmp_path, order("dare"), child) as chat:
        turn = await chat.gateway.submit(GO)
        await until(lambda: _asks(chat, turn, 2))
        [below] = await children_of(chat, turn)
        await chat.gateway.stop_turn(MAIN_AGENT, below.id, "not any more")
        assert "The task was not finished." in told(await ended(chat, turn))
        asked = await chat.database.read(lambda tx: tx.questions.of_turn(turn.id))
        assert {one.verdict for one in asked} == {Verdict.WITHDRAWN}


# --- what people see ---


async def test_a_chat_sees_what_children_do_and_one_message_in_the_end(tmp_path: Path) -> None:
    go = asyncio.Event()

    def child(goal: str, results: list[ToolFinished], request: ModelRequest) -> Say:
        return (
            Say(text="done", hold=go) if results else call("read", json.dumps({"token": goal}), id=f"r{goal}")
        )

    async with journey(tmp_path, order("alpha", "beta"), child) as chat:
        chat.world.write("go")
        await chat.until_seen("[1/2] read alpha", "[2/2] read beta", "delegate_task")
        go.set()
        await chat.until_seen("TOLD")
        await chat.until_idle()
        assert len(chat.world.seen()) == 1, chat.world.seen()


async def test_whoever_watches_the_parent_sees_what_children_do(tmp_path: Path) -> None:
    go = asyncio.Event()

    def child(goal: str, results: list[ToolFinished], request: ModelRequest) -> Say:
        return say("done") if results else Say(calls=call("read", '{"token": "x"}').calls, hold=go)

    async with journey(tmp_path, order("alpha"), child) as chat:
        turn = await chat.gateway.submit(GO)
        face = RunEvents("run_1", now=lambda: 0.0)
        written, outputs = b"", []
        async with asyncio.timeout(PATIENCE):
            async for seen in chat.gateway.watch(MAIN_AGENT, turn.id):
                written += face.see(seen)
                outputs += [seen.text] if isinstance(seen, ToolOutput) else []
                if isinstance(seen, Entry) and isinstance(seen.record, Asked):
                    go.set()
        assert outputs == ["read x\n", "done\n"]
        assert b'"event":"subagent.progress"' in written and b'"tool":"delegate_task"' in written
