"""Which hooks are told and asked, in which order, what their answers mean, and when one is left alone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from hermes.control.hooks.context import about_chat, about_source
from hermes.control.hooks.dispatch import MOST_WAITING, OPEN_SECONDS, Decision, Hooks
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.errors import Unreachable
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.system.hooks import Hook, HookAnswer
from hermes.testing.clock import FakeClock, settle


@dataclass
class Scripted:
    """Answers by the hook's name; an exception is raised."""

    answers: dict[str, object] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)
    hold: asyncio.Event | None = None
    closed: bool = False

    async def call(self, hook: Hook, event: str, context: Mapping[str, object]) -> HookAnswer:
        self.calls.append((hook.name, event))
        if self.hold is not None:
            await self.hold.wait()
        answer = self.answers.get(hook.name)
        if isinstance(answer, Exception):
            raise answer
        return HookAnswer(answer=answer)

    async def close(self) -> None:
        self.closed = True


def made(runner: Scripted, clock: FakeClock | None = None, **events: str) -> Hooks:
    hooks = [Hook(name=name, folder=name, events=tuple(told.split())) for name, told in events.items()]
    return Hooks([(hooks, runner)], clock or FakeClock())


async def told(hooks: Hooks, *events: str) -> None:
    for event in events:
        hooks.tell(event, {})
    await settle()


async def test_everybody_is_told_in_order() -> None:
    runner = Scripted()
    hooks = made(runner, a="agent:*", b="agent:end session:start")
    await told(hooks, "agent:start", "agent:end", "session:start", "session:end")
    assert [event for name, event in runner.calls if name == "a"] == ["agent:start", "agent:end"]
    assert [event for name, event in runner.calls if name == "b"] == ["agent:end", "session:start"]
    await hooks.close()
    assert runner.closed


async def test_telling_waits_for_nobody_and_forgets_what_is_too_much(
    caplog: pytest.LogCaptureFixture,
) -> None:
    runner = Scripted(hold=asyncio.Event())
    hooks = made(runner, a="agent:end")
    with caplog.at_level(logging.WARNING):
        await told(hooks, "agent:end")
        await told(hooks, *["agent:end"] * (MOST_WAITING + 5))
    assert len(runner.calls) == 1 and "hook.behind hook=a" in caplog.text
    assert runner.hold is not None
    runner.hold.set()
    await settle(10 * MOST_WAITING)
    assert len(runner.calls) == MOST_WAITING + 1
    await hooks.close()


async def test_the_first_that_does_not_allow_decides() -> None:
    runner = Scripted({"a": None, "b": {"decision": "deny", "message": "No."}, "c": {"decision": "handled"}})
    hooks = made(runner, a="command:*", b="command:new", c="command:*")
    ruling = await hooks.ask("command:new", {})
    assert (ruling.decision, ruling.message, ruling.by) == (Decision.DENY, "No.", "b")
    assert [name for name, _ in runner.calls] == ["a", "b"]
    assert (await hooks.ask("command:stop", {})).decision is Decision.HANDLED
    assert (await hooks.ask("gate:tool", {})).decision is Decision.ALLOW


@pytest.mark.parametrize(
    "answer",
    [
        Unreachable("late"),
        "deny",
        7,
        [],
        {"decision": "perhaps"},
        {"decision": None},
        {"decision": []},
        {"message": 3},
    ],
)
async def test_no_proper_answer_denies(answer: object) -> None:
    hooks = made(Scripted({"a": answer}), a="gate:*")
    ruling = await hooks.ask("gate:turn", {})
    assert ruling.decision is Decision.DENY and "The hook “a” gave no proper answer" in ruling.message


@pytest.mark.parametrize("answer", [None, {}, {"decision": "allow"}])
async def test_nothing_said_is_consent(answer: object) -> None:
    ruling = await made(Scripted({"a": answer}), a="gate:*").ask("gate:turn", {})
    assert ruling.decision is not Decision.DENY


async def test_the_breaker_opens_and_closes(caplog: pytest.LogCaptureFixture) -> None:
    clock, runner = FakeClock(), Scripted({"a": Unreachable("it broke")})
    changes: list[bool] = []
    hook = Hook(name="a", folder="a", events=("gate:*", "agent:end"))
    hooks = Hooks([([hook], runner)], clock, lambda: changes.append(hooks.facts()[0].open))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert not hooks.facts()[0].open
            assert (await hooks.ask("gate:turn", {})).decision is Decision.DENY
    assert changes == [True] and "hook.open hook=a failures=3" in caplog.text
    assert hooks.facts()[0].why == "it broke"
    assert (await hooks.ask("gate:turn", {})).decision is Decision.DENY  # at once, without being called
    await told(hooks, "agent:end")
    assert len(runner.calls) == 3
    await clock.advance(OPEN_SECONDS)
    assert (
        await hooks.ask("gate:turn", {})
    ).decision is Decision.DENY  # the trial fails, and it is left alone again
    assert len(runner.calls) == 4 and hooks.facts()[0].open
    await clock.advance(OPEN_SECONDS)
    runner.answers.clear()
    assert (await hooks.ask("gate:turn", {})).decision is not Decision.DENY
    assert changes == [True, True, False] and not hooks.facts()[0].open
    runner.answers["a"] = Unreachable("once")
    await told(hooks, "agent:end")
    assert not hooks.facts()[0].open  # it counts from the beginning again


async def test_failures_count_only_in_a_row() -> None:
    runner = Scripted()
    hooks = made(runner, a="gate:turn")
    for answer in (Unreachable("x"), Unreachable("x"), None, Unreachable("x"), Unreachable("x")):
        runner.answers["a"] = answer
        await hooks.ask("gate:turn", {})
    assert not hooks.facts()[0].open


@pytest.mark.parametrize(
    ("first", "second", "chosen"),
    [
        ({"agent": "work"}, {"agent": "other"}, "work"),
        (None, {"agent": "other"}, "other"),
        (Unreachable("late"), "other", "other"),
        ({"agent": 7}, {"agent": " "}, None),
        (["x"], {}, None),
    ],
)
async def test_the_choice_of_an_agent(first: object, second: object, chosen: str | None) -> None:
    hooks = made(Scripted({"a": first, "b": second}), a="select_agent", b="select_agent")
    assert await hooks.choose({}) == chosen


def test_a_hook_is_told_by_which_account_somebody_wrote() -> None:
    address = Address(platform="telegram", account="work", chat="1")
    source = Source(address=address, kind=SourceKind.PRIVATE, user="7")
    told = about_chat(source, MAIN_AGENT)
    assert (told["platform"], told["account"], told["chat_type"]) == ("telegram", "work", "dm")
    assert about_source(None, MAIN_AGENT)["account"] == ""
