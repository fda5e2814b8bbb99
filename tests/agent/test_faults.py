"""Every way a model goes wrong, through loop and provider: an answer or one clear error, in time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable

import pytest

from hermes.agent.models.client import Deadlines
from hermes.agent.models.endpoint import HttpProvider, ModelEndpoint
from hermes.agent.models.formats.chat_completions.provider import ChatCompletions
from hermes.domain.ports.agent import ModelPiece, ModelRequest
from hermes.domain.settings.declaring import Secret
from hermes.domain.turns.event import (
    Failed,
    Finished,
    ModelSaid,
    Retrying,
    TextDelta,
    ToolFinished,
    ToolStarted,
)
from hermes.domain.word import replace
from hermes.testing.model_script import FAULTS, VISIBLE, WORDS, Cut, Fault, Pace, Reply, Then
from hermes.testing.model_server import FakeModelServer
from hermes.testing.provider_suite import KEY, LONG, QUICK, patience
from tests.agent.driving import Driver, loop_of, quick, tool
from tests.agent.test_openai_provider import deadlines

TOOLS = [tool("write_file"), tool("echo", parallel=True)]


PATIENT = deadlines(LONG)


def limits_of(fault: Fault) -> Deadlines:
    """Quick where nothing else ends it, and long where something comes, however slow the machine is."""
    endless = isinstance(fault.reply, Reply) and fault.reply.endless is not None
    return replace(PATIENT, total=4 * QUICK) if endless else deadlines(patience(fault))


class Limited(HttpProvider):
    """A provider whose calls each have deadlines of their own."""

    limits: Callable[[], Deadlines]

    def call(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        self._endpoint = replace(self._endpoint, deadlines=self.limits())
        return super().call(request)


async def turn(server: FakeModelServer, limits: Callable[[], Deadlines] = lambda: PATIENT) -> Driver:
    provider = Limited(ModelEndpoint(base_url=server.base_url, key=Secret(KEY)), ChatCompletions())
    provider.limits = limits
    driver = Driver(loop_of(provider, *TOOLS, limits=quick(retries=2)))
    try:
        async with asyncio.timeout(100):
            await driver.say("go")
    finally:
        await provider.close()
    return driver


def check_whole(driver: Driver, name: str) -> None:
    """The turn is a whole: one end, one answer or one reason, a result for each call."""
    records = driver.records()
    ends = [record for record in records if isinstance(record, Finished | Failed)]
    assert len(ends) == 1 and records[-1] is ends[0], name
    calls = [call.id for record in records if isinstance(record, ModelSaid) for call in record.calls]
    results = [record.call for record in records if isinstance(record, ToolFinished)]
    assert sorted(calls) == sorted(results) and len(set(calls)) == len(calls), name
    if isinstance(ends[0], Failed):
        assert ends[0].reason and "\n" not in ends[0].reason and "Traceback" not in ends[0].reason, name
        assert KEY not in ends[0].reason
    else:
        finals = [one for one in records if isinstance(one, ModelSaid) and not one.calls and one.text]
        assert finals, name


@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_that_passes(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """The first call goes wrong, the next ones are well."""
    fault = FAULTS[name]
    first = [fault.reply]

    def script(request: object) -> object:
        return first.pop() if first else Reply(text=WORDS)

    with caplog.at_level(logging.ERROR):
        async with FakeModelServer(script) as server:
            driver = await turn(server, lambda: limits_of(fault) if first else PATIENT)
    check_whole(driver, name)
    assert not caplog.records, caplog.text
    end = driver.records()[-1]
    if fault.ends == "answer" or fault.retry:
        bounded = name.startswith("endless") or name == "rate_limited_for_a_day"
        assert isinstance(end, Failed if bounded else Finished), f"{name}: {end}"
    else:
        assert isinstance(end, Failed), f"{name}: {end}"
    if isinstance(end, Finished) and name not in ("finish_length",):
        final = next(one for one in reversed(driver.records()) if isinstance(one, ModelSaid))
        shown = "".join(live.text for live in driver.live if isinstance(live, TextDelta))
        assert final.text in shown
        assert final.text.endswith((WORDS, "😀")), f"{name}: {final.text!r}"
        assert final.text.count(WORDS) < 2, f"{name} was said twice"


@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_that_stays(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever is asked, it goes wrong in the same way."""
    with caplog.at_level(logging.ERROR):
        async with FakeModelServer(lambda request: FAULTS[name].reply) as server:
            driver = await turn(server, lambda: limits_of(FAULTS[name]))
            assert len(server.requests) < 70
    check_whole(driver, name)
    assert not caplog.records, caplog.text
    if FAULTS[name].ends == "error":
        assert isinstance(driver.records()[-1], Failed), name


async def test_a_stream_that_breaks_after_words_is_continued() -> None:
    broken = Reply(text=WORDS, pace=Pace(sizes=(4,)), cut=Cut(after=VISIBLE, then=Then.CLOSE))
    async with FakeModelServer([broken, Reply(text="four five")]) as server:
        driver = await turn(server)
        assert server.requests[1].messages[-2]["role"] == "assistant"
    said = [record for record in driver.records() if isinstance(record, ModelSaid)]
    heard = server.requests[1].messages[-2]["content"]
    assert [record.text for record in said] == [heard + "four five"]
    assert any(isinstance(event, Retrying) for event in driver.live)


async def test_words_stay_when_every_try_fails() -> None:
    cut = Cut(after=VISIBLE, then=Then.CLOSE)
    async with FakeModelServer(lambda request: Reply(text=WORDS, pace=Pace(sizes=(4,)), cut=cut)) as server:
        driver = await turn(server)
    *_, said, failed = driver.records()
    assert isinstance(said, ModelSaid) and said.partial and said.text.startswith("One two")
    assert said.text.count("One") == 1
    assert isinstance(failed, Failed)


async def test_five_hundred_calls_are_capped_and_all_have_a_result() -> None:
    replies = [FAULTS["many_calls"].reply, Reply(text="done")]
    async with FakeModelServer(replies) as server:
        driver = await turn(server)
    started = [one for one in driver.records() if isinstance(one, ToolStarted)]
    finished = [one for one in driver.records() if isinstance(one, ToolFinished)]
    assert len(started) == 64 and len(finished) == 128
    results = [one for one in server.requests[1].messages if one["role"] == "tool"]
    assert [one["tool_call_id"] for one in results] == [f"call_{n}" for n in range(128)]
