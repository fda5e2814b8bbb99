"""Calls that are answered from outside: a person, a child turn and a client are asked together, each kind has
its own time, and the turn goes on with the last answer, in whatever order they come."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from hermes.control.doors.continuing import ContinueTurn
from hermes.control.sessions.submission import Submission
from hermes.control.turn.children import child_turn
from hermes.control.turn.stopping import give_up_turns
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.ids import MAIN_AGENT, CallId
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.settings.settings import AgentSettings, ApprovalSettings
from hermes.domain.tools.tool import ChildTask, Effect, Tool, ToolCall, ToolContext, ToolResult
from hermes.domain.turns.event import Asked, Entry, ModelSaid, QuestionKind, ToolFinished, Verdict
from hermes.domain.turns.turn import Answer, ClientTool, Guidance, Question, Turn, TurnInput, TurnState
from hermes.domain.word import replace
from hermes.state.store.writer import SqliteStore
from hermes.testing.clock import FakeClock, settle
from hermes.testing.harness import PATIENCE, Journey, open_settings
from hermes.testing.model import Say, say
from hermes.testing.store_suite.samples import NOW
from hermes.testing.tools import CLARIFY, DELEGATE, world_tools
from hermes.testing.world import Deed

CLIENT = Source(address=Address(platform="api", chat="s1"), kind=SourceKind.API, user="ann")
GO = Submission(
    agent=MAIN_AGENT,
    source=CLIENT,
    input=TurnInput(text="go", guidance=Guidance(tools=(ClientTool(name="weather"),))),
)
NAMES = ("clarify", "delegate", "weather")
SETS = {"read": "file", "run": "shell"}


_FACTS = re.compile(r"\[(?:not finished|done) · [^\n]*\]\n(?:\[tools: [^\n]*\]\n)?")


def words_of(result: ToolFinished) -> str:
    """What a call brought, without the facts that stand above a child's answer."""
    return _FACTS.sub("", result.text)


def calls(*names: str) -> Say:
    arguments = {"delegate": '{"task": "Count to three."}', "danger": '{"token": "x"}'}
    return Say(
        calls=tuple(
            ToolCall(id=CallId(name), name=name, arguments=arguments.get(name, "{}")) for name in names
        )
    )


def asking(*names: str, child: Say | None = None):
    """A parent that calls these, and tells the results; a child that counts."""

    def script(request: ModelRequest) -> Say:
        first = request.entries[0].record
        if getattr(first, "text", "") == "Count to three.":
            return child or say("one two three")
        results = [entry.record for entry in request.entries if isinstance(entry.record, ToolFinished)]
        return say("; ".join(f"{one.call}={words_of(one)}" for one in results)) if results else calls(*names)

    return script


def journey(folder: Path, *names: str, child: Say | None = None, **more: object) -> Journey:
    chat = Journey(folder=folder, script=asking(*names, child=child), **more)  # type: ignore[arg-type]
    chat.tools = [*world_tools(chat.world.effect), DELEGATE]
    return chat


async def open_questions(chat: Journey, turn: Turn, count: int) -> dict[QuestionKind, Question]:
    async with asyncio.timeout(PATIENCE):
        while True:
            found = await chat.database.read(lambda tx: tx.questions.of_turn(turn.id))
            if len(found) == count:
                return {one.kind: one for one in found}
            await asyncio.sleep(0.003)


async def ended(chat: Journey, turn: Turn) -> list[Entry]:
    async with asyncio.timeout(PATIENCE):
        return [seen async for seen in chat.gateway.watch(MAIN_AGENT, turn.id) if isinstance(seen, Entry)]


async def answer(chat: Journey, question: Question, text: str) -> bool:
    given = Answer(question=question.id, verdict=Verdict.REPLY, text=text, by="ann")
    return (await chat.gateway.answer(MAIN_AGENT, given)).closed


def last_words(entries: list[Entry]) -> str:
    return [entry.record.text for entry in entries if isinstance(entry.record, ModelSaid)][-1]


async def test_three_kinds_are_asked_in_one_commit_and_answered_in_any_order(tmp_path: Path) -> None:
    async with journey(tmp_path, *NAMES) as chat:
        turn = await chat.gateway.submit(GO)
        found = await open_questions(chat, turn, 3)
        assert set(found) == {QuestionKind.CLARIFY, QuestionKind.CHILD, QuestionKind.CLIENT_TOOL}
        assert found[QuestionKind.CHILD].may_answer == () and found[QuestionKind.CHILD].expires_at is None
        assert not await answer(chat, found[QuestionKind.CHILD], "I am the child"), "somebody spoke for it"
        assert await answer(chat, found[QuestionKind.CLIENT_TOOL], "rain")
        await settle()
        assert await answer(chat, found[QuestionKind.CLARIFY], "blue")
        seen = await ended(chat, turn)
        assert last_words(seen) == "clarify=blue; delegate=one two three; weather=rain"
        asked = [entry for entry in seen if isinstance(entry.record, Asked)]
        assert len(asked) == 3 and len({entry.at for entry in asked}) == 1


async def test_each_kind_expires_by_its_own_clock_and_the_turn_goes_on_with_the_last(tmp_path: Path) -> None:
    clock = FakeClock()
    settings = open_settings(
        agent=AgentSettings(clarify_timeout=10.0, client_tool_timeout=100.0),
        approvals=ApprovalSettings(timeout=5.0),
    )
    slow = say("one two three", pieces=3)
    async with journey(tmp_path, *NAMES, child=slow, clock=clock, settings=settings) as chat:
        turn = await chat.gateway.submit(GO)
        found = await open_questions(chat, turn, 3)
        until = {kind: one.expires_at for kind, one in found.items()}
        assert until[QuestionKind.CHILD] is None
        assert until[QuestionKind.CLARIFY] < until[QuestionKind.CLIENT_TOOL]  # type: ignore[operator]
        await clock.advance(20)
        now = await chat.database.read(lambda tx: tx.questions.of_turn(turn.id))
        assert {one.kind: one.verdict for one in now}[QuestionKind.CLARIFY] is Verdict.EXPIRED
        row = await chat.database.read(lambda tx: tx.turns.get(turn.id))
        assert row is not None and row.state is TurnState.WAITING, "one of them is still to come"
        assert await answer(chat, found[QuestionKind.CLIENT_TOOL], "rain")
        told = last_words(await ended(chat, turn))
        assert told.startswith("clarify=Nobody answered.")
        assert told.endswith("delegate=one two three; weather=rain")


async def test_an_approval_is_asked_together_with_what_waits_beside_it(tmp_path: Path) -> None:
    async with journey(tmp_path, "clarify", "danger", "delegate", kind="edits") as chat:
        chat.world.write("go")
        await chat.until_seen("Which one?", "May I do x?")
        assert not chat.world.did(Deed.EFFECT)
        yes = next(
            value
            for message in chat.world.messages.values()
            for value in message.buttons
            if value.endswith(":once")
        )
        chat.world.write("", button=yes)
        await settle()
        chat.world.write("the blue one")
        await chat.until_seen("danger=danger did x; clarify=the blue one; delegate=one two three")
        assert len(chat.world.did(Deed.EFFECT)) == 1


async def test_answers_survive_a_kill_between_them(tmp_path: Path) -> None:
    async with journey(tmp_path, *NAMES) as chat:
        turn = await chat.gateway.submit(GO)
        found = await open_questions(chat, turn, 3)
        assert await answer(chat, found[QuestionKind.CLARIFY], "blue")
        await chat.abandon()
    async with journey(tmp_path, *NAMES) as chat:
        await asyncio.sleep(0.05)
        assert await answer(chat, found[QuestionKind.CLIENT_TOOL], "rain")
        assert last_words(await ended(chat, turn)) == "clarify=blue; delegate=one two three; weather=rain"
        assert sum(isinstance(entry.record, Asked) for entry in await ended(chat, turn)) == 3


async def test_a_child_that_fails_is_told_and_its_parent_goes_on(tmp_path: Path) -> None:
    async with journey(tmp_path, "delegate", child=say("")) as chat:
        turn = await chat.gateway.submit(GO)
        told = last_words(await ended(chat, turn))
        assert told.startswith("delegate=The task was not finished.") and "empty answer" in told


async def test_a_stopped_parent_stops_its_child(tmp_path: Path) -> None:
    working = asyncio.Event()

    async def hold(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        working.set()
        await asyncio.Event().wait()
        raise AssertionError

    chat = journey(tmp_path, "delegate", child=calls("hold"))
    holding = Tool(name="hold", description="", parameters={}, run=hold, effect=Effect.READ)
    chat.tools = [*(chat.tools or ()), holding]
    async with chat:
        turn = await chat.gateway.submit(GO)
        question = (await open_questions(chat, turn, 1))[QuestionKind.CHILD].id
        async with asyncio.timeout(PATIENCE):
            await working.wait()
        await chat.gateway.stop_turn(MAIN_AGENT, turn.id, "enough")
        await ended(chat, turn)
        async with asyncio.timeout(PATIENCE):
            child = await chat.database.read(lambda tx: tx.turns.get(child_turn(question)))
            while child is not None and child.state.open:
                await asyncio.sleep(0.003)
                child = await chat.database.read(lambda tx: tx.turns.get(child_turn(question)))
        assert child is not None and child.state is TurnState.STOPPED


async def test_a_child_has_no_children(tmp_path: Path) -> None:
    seen: list[set[str]] = []

    def script(request: ModelRequest) -> Say:
        first = getattr(request.entries[0].record, "text", "")
        results = [entry.record for entry in request.entries if isinstance(entry.record, ToolFinished)]
        if first == "Count to three.":
            seen.append({tool.name for tool in request.tools})
            return say(results[0].text) if results else calls("delegate")
        return say(results[0].text) if results else calls("delegate")

    async with Journey(folder=tmp_path, script=script) as chat:
        runtime = await chat.gateway.agents.get(MAIN_AGENT)
        runtime.toolbox.offer("family", [DELEGATE])
        turn = await chat.gateway.submit(GO)
        told = last_words(await ended(chat, turn))
        assert "delegate" not in seen[0] and "read" in seen[0]
        assert "There is no tool" in told
        session = await chat.database.read(
            lambda tx: [one for one in tx.sessions.find("") if one.id.startswith("bg_child_")]
        )
        assert session and session[0].parent == turn.session


async def test_a_child_runs_where_its_parent_does_and_within_its_limits(tmp_path: Path) -> None:
    origin = Source(address=Address(platform="fake", chat="1"), kind=SourceKind.GROUP, user="ann")
    bounds = Guidance(backend="box", unattended="deny", withheld=("terminal",), origin=origin)
    async with journey(tmp_path, "delegate") as chat:
        here = replace(CLIENT, folder="/srv/project")
        words = replace(GO, source=here, input=TurnInput(text="go", guidance=bounds))
        turn = await chat.gateway.submit(words)
        await ended(chat, turn)
        [question] = await chat.database.read(lambda tx: tx.questions.of_turn(turn.id))
        child = await chat.database.read(lambda tx: tx.turns.get(child_turn(question.id)))
        assert child is not None
        session = await chat.database.read(lambda tx: tx.sessions.get(child.session))
        assert session is not None and session.workspace == "/srv/project"
        given = child.input.guidance
        assert replace(given, toolsets=(), parent=None, instructions="") == bounds
        assert {"=read", "=keyed"} <= set(given.toolsets) and "=delegate" not in given.toolsets


async def test_words_wait_while_a_child_runs(tmp_path: Path) -> None:
    hold = asyncio.Event()
    async with journey(tmp_path, "delegate", child=Say(text="one two three", hold=hold)) as chat:
        turn = await chat.gateway.submit(GO)
        await open_questions(chat, turn, 1)
        going_on = ContinueTurn(source=CLIENT, mine=lambda source: True, now=chat.clock.now())
        more = replace(GO, input=TurnInput(text="more"), answer=going_on.with_words)
        behind = await chat.gateway.submit(more)
        assert behind.id != turn.id
        hold.set()
        assert last_words(await ended(chat, turn)) == "delegate=one two three"
        assert await ended(chat, behind)


@pytest.mark.parametrize("beside", ["delegate", "clarify"])
async def test_a_client_brings_the_results_of_its_own_calls_alone(tmp_path: Path, beside: str) -> None:
    hold = asyncio.Event()
    child = Say(text="one two three", hold=hold)
    async with journey(tmp_path, beside, "weather", child=child) as chat:
        turn = await chat.gateway.submit(GO)
        found = await open_questions(chat, turn, 2)
        going_on = ContinueTurn(source=CLIENT, mine=lambda source: True, now=chat.clock.now())
        results = {found[QuestionKind.CLIENT_TOOL].id: "rain"}
        taken = await chat.gateway.go_on(MAIN_AGENT, lambda tx: going_on.with_results(tx, results))
        assert taken is not None and taken.turn.id == turn.id
        hold.set()
        if beside == "clarify":
            assert await answer(chat, found[QuestionKind.CLARIFY], "one two three")
        assert last_words(await ended(chat, turn)) == f"{beside}=one two three; weather=rain"


async def test_a_question_for_people_is_no_call_of_a_client(tmp_path: Path) -> None:
    async with journey(tmp_path, "clarify") as chat:
        turn = await chat.gateway.submit(GO)
        found = await open_questions(chat, turn, 1)
        going_on = ContinueTurn(source=CLIENT, mine=lambda source: True, now=chat.clock.now())
        results = {found[QuestionKind.CLARIFY].id: "blue"}
        assert await chat.gateway.go_on(MAIN_AGENT, lambda tx: going_on.with_results(tx, results)) is None
        assert await answer(chat, found[QuestionKind.CLARIFY], "red")
        assert last_words(await ended(chat, turn)) == "clarify=red"


async def test_a_turn_that_waited_while_its_records_were_not_counted_keeps_them(tmp_path: Path) -> None:
    """As one that a file of an older schema, or a restored one, has: its row names no first record."""
    async with journey(tmp_path, "clarify") as chat:
        turn = await chat.gateway.submit(GO)
        found = await open_questions(chat, turn, 1)
    with closing(apsw.Connection(str(tmp_path / "state.db"))) as file:
        file.execute("UPDATE turns SET since = NULL")
    async with journey(tmp_path, "clarify") as chat:
        before = await chat.database.read(lambda tx: tx.journal.of_turn(turn.id))
        assert await answer(chat, found[QuestionKind.CLARIFY], "blue")
        seen = await ended(chat, turn)
        stored = await chat.database.read(lambda tx: tx.journal.of_turn(turn.id))
        assert before and seen == stored and stored[: len(before)] == before
        span = await chat.database.read(lambda tx: tx.journal.span(turn.id))
        assert span == (before[0].seq, stored[-1].seq)


async def test_a_turn_that_is_given_up_keeps_its_records(tmp_path: Path) -> None:
    async with journey(tmp_path, "clarify") as chat:
        turn = await chat.gateway.submit(GO)
        await open_questions(chat, turn, 1)
        before = await chat.database.read(lambda tx: tx.journal.of_turn(turn.id))
    with closing(apsw.Connection(str(tmp_path / "state.db"))) as file:
        file.execute("UPDATE turns SET since = NULL")
    async with SqliteStore(tmp_path / "state.db") as store:
        unit = give_up_turns(turn.session, "it broke", NOW, lambda tx, failed, entries: None)
        [(_, new)] = await store.scoped(MAIN_AGENT).write(unit)
        stored = await store.scoped(MAIN_AGENT).read(lambda tx: tx.journal.of_turn(turn.id))
        assert before and stored == [*before, *new]


@pytest.mark.parametrize("name", ["delegate", "clarify"])
async def test_an_answer_counts_though_the_source_of_its_tool_went_away(tmp_path: Path, name: str) -> None:
    asked = {"delegate": DELEGATE, "clarify": CLARIFY}[name]
    hold = asyncio.Event()
    chat = Journey(folder=tmp_path, script=asking(name, child=Say(text="one two three", hold=hold)), tools=[])
    async with chat:
        box = (await chat.gateway.agents.get(MAIN_AGENT)).toolbox
        box.offer("family", [asked])
        turn = await chat.gateway.submit(GO)
        found = await open_questions(chat, turn, 1)
        box.withdraw("family", "away for a moment")
        hold.set()
        if name == "clarify":
            assert await answer(chat, found[QuestionKind.CLARIFY], "one two three")
        assert last_words(await ended(chat, turn)) == f"{name}=one two three"


@pytest.mark.parametrize("outside", [True, False])
async def test_what_a_child_says_after_it_read_outside_words_is_marked(tmp_path: Path, outside: bool) -> None:
    async def fetch(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        return ToolResult(text="one two three", outside=outside)

    def script(request: ModelRequest) -> Say:
        first = getattr(request.entries[0].record, "text", "")
        results = [entry.record for entry in request.entries if isinstance(entry.record, ToolFinished)]
        return say(results[0].text) if results else calls("fetch" if first != "go" else "delegate")

    page = Tool(name="fetch", description="", parameters={}, run=fetch, effect=Effect.READ)
    async with Journey(folder=tmp_path, script=script, tools=[DELEGATE, page]) as chat:
        turn = await chat.gateway.submit(GO)
        results = [one.record for one in await ended(chat, turn) if isinstance(one.record, ToolFinished)]
        assert [(words_of(one), one.outside) for one in results] == [("one two three", outside)]


@pytest.mark.parametrize(
    ("own", "wanted", "left"),
    [
        (("all",), ("file",), {"read"}),
        (("file", "all"), ("shell",), {"run"}),
        (("file",), ("all",), {"read"}),
        (("file",), ("shell",), None),
        ((), ("shell",), {"run"}),
        (("all",), (), {"read", "run"}),
        (("all",), ("none",), set()),
    ],
)
async def test_a_child_has_what_it_is_to_have_of_its_parents_toolsets(
    tmp_path: Path, own: tuple[str, ...], wanted: tuple[str, ...], left: set[str] | None
) -> None:
    seen: list[set[str]] = []

    def script(request: ModelRequest) -> Say:
        if getattr(request.entries[0].record, "text", "") == "Count to three.":
            seen.append({tool.name for tool in request.tools})
            return say("one two three")
        done = any(isinstance(entry.record, ToolFinished) for entry in request.entries)
        return say("done") if done else calls("delegate")

    delegate = replace(
        DELEGATE,
        toolset="file",
        asks=lambda arguments: ChildTask(text="Count to three.", toolsets=wanted),
    )
    tools = [delegate, *(replace(DELEGATE, name=n, toolset=t, asks=None) for n, t in SETS.items())]
    async with Journey(folder=tmp_path, script=script, tools=tools) as chat:
        limited = TurnInput(text="go", guidance=Guidance(toolsets=own))
        turn = await chat.gateway.submit(replace(GO, input=limited))
        await ended(chat, turn)
    assert seen == ([] if left is None else [left]), "a toolset that the parent has not is said to it"
