"""What happens while an agent runs: interrupt, queue, steer, stop, and nothing dropped."""

from __future__ import annotations

import asyncio
from pathlib import Path

from hermes.domain.ports.agent import ModelRequest
from hermes.domain.settings.settings import DisplaySettings
from hermes.domain.tools.tool import Effect, Tool, ToolContext, ToolResult
from hermes.domain.turns.event import ModelSaid, Stopped, ToolFinished, UserSaid
from hermes.domain.turns.turn import BusyMode
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import Say, call, echo, last_words, say


def busy(mode: BusyMode) -> object:
    return open_settings(display=DisplaySettings(busy_input_mode=mode))


class Held:
    """A script that holds back its answer to the first message until it is let go."""

    def __init__(self, first: str) -> None:
        self.go = asyncio.Event()
        self._first = first

    def __call__(self, request: ModelRequest) -> Say:
        if last_words(request) == self._first:
            return Say(text=f"a long answer to {self._first}", pieces=4, hold=self.go)
        return echo(request)


async def transcript(chat: Journey) -> list[object]:
    sessions = await chat.database.read(lambda tx: tx.sessions.find(""))
    entries = await chat.database.read(lambda tx: tx.journal.read(sessions[0].id))
    return [entry.record for entry in entries]


async def test_a_message_interrupts_the_running_turn_and_is_answered(tmp_path: Path) -> None:
    script = Held("first")
    async with Journey(folder=tmp_path, script=script) as chat:
        chat.world.write("first")
        await chat.until_seen("a long answer")
        chat.world.write("second")
        await chat.until_seen("You said: second")
        await chat.until_idle()
        seen = chat.world.seen()
        assert len(seen) == 2
        assert seen[0].startswith("a long answer to first") and "stopped here" in seen[0]
        records = await transcript(chat)
        assert any(isinstance(record, ModelSaid) and record.partial for record in records)
        assert any(isinstance(record, Stopped) and record.reason == "interrupted" for record in records)


async def test_queued_messages_wait_their_turn_and_keep_their_order(tmp_path: Path) -> None:
    script = Held("first")
    async with Journey(folder=tmp_path, script=script, settings=busy(BusyMode.QUEUE)) as chat:
        chat.world.write("first")
        await chat.until_seen("a long answer")
        for word in ("second", "third", "fourth"):
            chat.world.write(word)
        await chat.until_taken()
        assert len(chat.world.seen()) == 1
        script.go.set()
        await chat.until_seen("You said: fourth")
        await chat.until_idle()
        assert [text.split()[-1] for text in chat.world.seen()] == ["first", "second", "third", "fourth"]


async def test_what_was_queued_is_answered_though_a_later_message_interrupts(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, script=Held("first")) as chat:
        chat.world.write("first")
        await chat.until_seen("a long answer")
        chat.world.write("/queue second")
        chat.world.write("/steer third")
        await chat.until_taken()
        chat.world.write("fourth")
        await chat.until_seen("You said: fourth")
        await chat.until_idle()
        answers = [text for text in chat.world.seen() if text.startswith("You said")]
        assert answers == ["You said: second", "You said: third", "You said: fourth"]
        stops = [record for record in await transcript(chat) if isinstance(record, Stopped)]
        assert len(stops) == 1


async def test_steering_words_are_heard_after_the_running_tool(tmp_path: Path) -> None:
    go = asyncio.Event()
    started = asyncio.Event()

    async def wait(context: ToolContext, arguments: object) -> ToolResult:
        started.set()
        await go.wait()
        return ToolResult(text="waited")

    tool = Tool(name="wait", description="", parameters={}, run=wait, effect=Effect.READ)

    def script(request: ModelRequest) -> Say:
        if any(isinstance(entry.record, ToolFinished) for entry in request.entries):
            return echo(request)
        return call("wait")

    settings = busy(BusyMode.STEER)
    async with Journey(folder=tmp_path, script=script, settings=settings, tools=[tool]) as chat:
        chat.world.write("begin")
        await asyncio.wait_for(started.wait(), 40)
        chat.world.write("and hurry")
        await chat.until_taken()
        go.set()
        await chat.until_seen("You said: and hurry")
        await chat.until_idle()
        assert chat.world.seen() == ["You said: and hurry"]
        steering = [record for record in await transcript(chat) if isinstance(record, UserSaid)]
        assert [(record.text, record.steering) for record in steering] == [
            ("begin", False),
            ("and hurry", True),
        ]


async def test_steering_words_that_come_too_late_are_a_turn_of_their_own(tmp_path: Path) -> None:
    script = Held("first")
    async with Journey(folder=tmp_path, script=script, settings=busy(BusyMode.STEER)) as chat:
        chat.world.write("first")
        await chat.until_seen("a long answer")
        chat.world.write("late")
        await chat.until_taken()
        script.go.set()
        await chat.until_seen("You said: late")
        await chat.until_idle()
        assert len(chat.world.seen()) == 2


async def test_stop_ends_the_turn_and_says_what_is_unknown(tmp_path: Path) -> None:
    started = asyncio.Event()

    async def hang(context: ToolContext, arguments: object) -> ToolResult:
        started.set()
        await asyncio.Event().wait()
        raise AssertionError

    tool = Tool(name="transfer", description="", parameters={}, run=hang, effect=Effect.ONCE)
    async with Journey(folder=tmp_path, script=[call("transfer")], tools=[tool]) as chat:
        chat.world.write("pay")
        await asyncio.wait_for(started.wait(), 40)
        chat.world.write("/stop")
        await chat.until_seen("Stopped.", "may or may not have happened: transfer")
        await chat.until_idle()
        records = await transcript(chat)
        assert any(isinstance(record, ToolFinished) and record.unknown for record in records)


async def test_stop_without_a_turn_says_so(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path) as chat:
        chat.world.write("/stop")
        await chat.until_seen("Nothing is running.")


async def test_new_stops_the_old_session_and_begins_another(tmp_path: Path) -> None:
    script = Held("first")
    async with Journey(folder=tmp_path, script=script) as chat:
        chat.world.write("first")
        await chat.until_seen("a long answer")
        chat.world.write("/new")
        await chat.until_seen("New session")
        chat.world.write("fresh")
        await chat.until_seen("You said: fresh")
        await chat.until_idle()
        last = chat.model.requests[-1]
        assert [entry.record.text for entry in last.entries if isinstance(entry.record, UserSaid)] == [
            "fresh"
        ]


async def test_many_messages_at_once_are_all_answered_in_queue_mode(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, kind="plain", settings=busy(BusyMode.QUEUE)) as chat:
        for number in range(40):
            chat.world.write(f"number {number}", chat=str(number % 4), user=f"u{number % 4}")
        await chat.until(lambda: len(chat.world.seen()) == 40)
        for room in range(4):
            numbers = [int(text.split()[-1]) for text in chat.world.seen(str(room))]
            assert numbers == sorted(numbers)


async def test_a_queued_text_by_command_runs_after_the_current_turn(tmp_path: Path) -> None:
    script = Held("first")
    async with Journey(folder=tmp_path, script=script) as chat:
        chat.world.write("first")
        await chat.until_seen("a long answer")
        chat.world.write("/queue then this")
        await chat.until_seen("Queued behind 1.")
        script.go.set()
        await chat.until_seen("You said: then this")
        await chat.until_idle()
        assert any(text == "a long answer to first" for text in chat.world.seen())


async def test_a_broken_tool_is_told_to_the_model_not_to_the_gateway(tmp_path: Path) -> None:
    async def explode(context: ToolContext, arguments: object) -> ToolResult:
        raise ValueError("boom")

    tool = Tool(name="bomb", description="", parameters={}, run=explode, effect=Effect.READ)
    async with Journey(folder=tmp_path, script=[call("bomb"), say("it broke")], tools=[tool]) as chat:
        chat.world.write("go")
        await chat.until_seen("it broke")
        results = [record for record in await transcript(chat) if isinstance(record, ToolFinished)]
        assert results[0].failed and "ValueError: boom" in results[0].text
