"""A turn that shows no sign of life is given up, and says so; one that waits for a person is not silent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes.agent.run.dispatch import SILENT
from hermes.control import workers as silence
from hermes.control.outbound.answers import REPEAT_MARK
from hermes.control.workers import IdleTimer
from hermes.domain.settings.settings import AgentSettings, Settings
from hermes.domain.tools.tool import Effect, Tool, ToolContext, ToolResult
from hermes.domain.turns.event import Failed, ToolFinished
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import Say, call, say
from tests.journeys.cut import cut_everywhere

GIVEN_UP = "No sign of life for 0.5 s, so it was given up (agent.gateway_timeout)."


def impatient() -> Settings:
    return open_settings(agent=AgentSettings(gateway_timeout=0.5))


async def ends(chat: Journey) -> list[object]:
    sessions = await chat.database.read(lambda tx: tx.sessions.find(""))
    entries = await chat.database.read(lambda tx: tx.journal.read(sessions[0].id))
    return [entry.record for entry in entries if isinstance(entry.record, Failed | ToolFinished)]


async def test_a_tool_that_never_returns_is_ended_and_its_turn_goes_on(tmp_path: Path) -> None:
    async def hang(context: ToolContext, arguments: object) -> ToolResult:
        await asyncio.Event().wait()
        raise AssertionError

    tool = Tool(name="transfer", description="", parameters={}, run=hang, effect=Effect.ONCE)
    script = [call("transfer"), say("it did not work")]
    async with Journey(folder=tmp_path, script=script, tools=[tool], settings=impatient()) as chat:
        chat.world.write("pay")
        await chat.until_seen("it did not work")
        await chat.until_idle()
        (result,) = await ends(chat)
        assert isinstance(result, ToolFinished) and result.unknown
        assert result.text == SILENT.format(name="transfer", seconds=0.5)


async def test_a_tool_that_prints_now_and_then_is_alive(tmp_path: Path) -> None:
    async def work(context: ToolContext, arguments: object) -> ToolResult:
        for _ in range(6):
            await asyncio.sleep(0.15)
            context.output(".")
        return ToolResult(text="built")

    tool = Tool(name="build", description="", parameters={}, run=work)
    async with Journey(
        folder=tmp_path, script=[call("build"), say("done")], tools=[tool], settings=impatient()
    ) as chat:
        chat.world.write("build it")
        await chat.until_seen("done")
        (result,) = await ends(chat)
        assert isinstance(result, ToolFinished) and result.text == "built" and not result.failed


async def test_a_model_that_falls_silent_fails_the_turn(tmp_path: Path) -> None:
    script = [Say(text="Let me", hold=asyncio.Event())]
    async with Journey(folder=tmp_path, script=script, settings=impatient()) as chat:
        chat.world.write("hello")
        await chat.until_seen(GIVEN_UP)


async def test_a_question_to_a_person_is_no_silence(tmp_path: Path) -> None:
    script = [call("danger", '{"token": "x"}'), say("it is done")]
    async with Journey(folder=tmp_path, script=script, kind="plain", settings=impatient()) as chat:
        chat.world.write("do it")
        await chat.until_seen("May I do x?")
        await chat.until(lambda: len(chat.gateway.feeds) == 0)
        await asyncio.sleep(0.7)
        chat.world.write("yes")
        await chat.until_seen("it is done")
        assert not [one for one in await ends(chat) if isinstance(one, Failed)]


class Loop:
    """A loop whose time a test moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, look: Callable[[], None]) -> Loop:
        self.timers.append((self.now + seconds, look))
        return self

    def cancel(self) -> None:
        self.timers.clear()

    def pass_by(self, seconds: float) -> None:
        self.now += seconds
        due = [timer for timer in self.timers if timer[0] <= self.now]
        self.timers = [timer for timer in self.timers if timer not in due]
        for _, look in due:
            look()


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    made = Loop()
    monkeypatch.setattr(silence.asyncio, "get_running_loop", lambda: made)
    return made


def test_each_sign_of_life_begins_anew(loop: Loop) -> None:
    given_up: list[bool] = []
    quiet = IdleTimer(10, lambda: given_up.append(True))
    with quiet.watch():
        for _ in range(5):
            quiet.waiting()
            loop.pass_by(6)
            quiet.heard()
        loop.pass_by(1000)  # a commit takes its time
        assert not given_up and len(loop.timers) == 1
        quiet.waiting()
        loop.pass_by(9)
        assert not quiet.expired
        loop.pass_by(10)
        assert given_up == [True] and quiet.expired and not loop.timers


def test_no_seconds_are_no_limit(loop: Loop) -> None:
    with IdleTimer(0, lambda: pytest.fail("it never ends")).watch():
        assert not loop.timers


@pytest.mark.parametrize("after", [False, True])
async def test_a_silent_turn_is_given_up_once_wherever_the_gateway_is_killed(
    tmp_path: Path, full: bool, after: bool
) -> None:
    def make(place: Path) -> Journey:
        chat = Journey(folder=place, script=lambda request: Say(hold=asyncio.Event()), settings=impatient())
        chat.world.write("hello")
        return chat

    async def story(chat: Journey) -> None:
        await chat.until_seen(GIVEN_UP)
        await chat.until_idle()
        (end,) = await ends(chat)
        assert isinstance(end, Failed) and end.reason == GIVEN_UP
        shown = [text for text in chat.world.seen() if GIVEN_UP in text]
        assert [text for text in shown if REPEAT_MARK not in text] == shown[:1] and len(shown) <= 2

    await cut_everywhere(tmp_path, make, story, after=after, full=full)
