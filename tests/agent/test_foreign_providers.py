"""Providers of plugins that are not as they should be: one sentence each, and the rest goes on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from hermes.agent.models import foreign
from hermes.agent.models.builtin import BUILT_IN
from hermes.agent.models.demo import DemoProvider
from hermes.agent.models.registry import Models
from hermes.domain.errors import FaultKind, ModelFault, Refused
from hermes.domain.models.usage import Usage
from hermes.domain.ports.agent import ModelEnd, ModelRequest, Provider
from hermes.domain.settings.settings import ModelSettings
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.event import Ending, Failed, Finished, Kept, ModelSaid, Notice, TextDelta
from hermes.state.store.codec import decode_record, encode_record
from hermes.testing.model import ScriptedModel
from hermes.testing.provider_suite import PORT_CHECKS, ask, hear
from tests.agent.driving import Driver, loop_of, quick

MINE = ModelSettings(provider="mine")


class Yielding:
    """A provider that yields what it is given; an exception is raised, None hangs."""

    def __init__(self, *pieces: Any) -> None:
        self.pieces = pieces

    async def call(self, request: ModelRequest) -> AsyncIterator[Any]:
        for piece in self.pieces:
            if piece is None:
                await asyncio.Event().wait()
            if isinstance(piece, Exception):
                raise piece
            yield piece


class NoIterator:
    def call(self, request: ModelRequest) -> Any:
        return 7


def raising(settings: ModelSettings) -> Provider:
    raise RuntimeError("no\nlicence")


def dawdling(settings: ModelSettings) -> Provider:
    time.sleep(1.0)
    return DemoProvider()


async def provider_of(make: Callable[[ModelSettings], Any]) -> Provider:
    models = Models({"mine": make}, probe=False)
    return models.provider(await models.choose(MINE), MINE)


NONSENSE = [
    (raising, "the provider mine failed (RuntimeError: no licence)"),
    (dawdling, "the provider mine failed (it was not ready after 0.5 seconds)"),
    (lambda settings: None, "The provider mine failed (a NoneType is no provider)."),
    (lambda settings: NoIterator(), "the provider mine failed (TypeError: "),
    (lambda settings: Yielding(ValueError("bad day")), "the provider mine failed (ValueError: bad day)"),
    (lambda settings: Yielding("words"), "the provider mine failed (a str is no piece of an answer)"),
    (lambda settings: Yielding(TextDelta(text=5)), "the provider mine failed (a TextDelta is no piece"),  # type: ignore[arg-type]
    (lambda settings: Yielding(ModelEnd(calls=["x"])), "the provider mine failed (a ModelEnd is no piece"),  # type: ignore[arg-type]
    (lambda settings: Yielding(TextDelta(text="a")), "the provider mine failed (its answer broke off)"),
    (lambda settings: Yielding(None), "the provider mine failed (it said nothing for 0.05 seconds)"),
]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "MAKING_SECONDS", 0.5)
    monkeypatch.setattr(foreign, "SILENT_SECONDS", 0.05)
    monkeypatch.setattr(foreign, "CLOSING_SECONDS", 0.05)


@pytest.mark.parametrize(("make", "words"), NONSENSE)
async def test_nonsense_is_one_sentence_and_the_turn_fails_politely(make: Any, words: str) -> None:
    provider = await provider_of(make)
    error = (await hear(provider, ask("go"))).error
    assert isinstance(error, ModelFault) and str(error).startswith(words), error
    driver = Driver(loop_of(provider, limits=quick(retries=1)))
    await driver.say("go")
    end = driver.records()[-1]
    assert isinstance(end, Failed) and words.split("(")[1][:20] in end.reason and "\n" not in end.reason


@pytest.mark.parametrize(
    "error",
    [ValueError("no entry with k-123456"), Refused("k-123456 is wrong"),
     ModelFault("gone", kind=FaultKind.BROKEN, hint="use k-123456")],
)  # fmt: skip
@pytest.mark.parametrize("late", [True, False])
async def test_what_a_provider_raises_holds_no_secret(error: Exception, late: bool) -> None:
    def make(settings: ModelSettings) -> Any:
        if not late:
            raise error
        return Yielding(error)

    models = Models({"mine": make}, probe=False, redact=lambda text: text.replace("k-123456", "***"))
    provider = models.provider(await models.choose(MINE), MINE)
    told = (await hear(provider, ask("go"))).error
    assert isinstance(told, ModelFault) and "***" in str(told) and "k-123456" not in str(told)


LIES: list[dict[str, Any]] = [
    {"kept": {"signature": "x"}},
    {"kept": "signature"},
    {"kept": Kept(format="f", model="m", text=None)},  # type: ignore[arg-type]
    {"ending": "end_turn"},
    {"model": None},
    {"usage": Usage(prompt=12.5)},  # type: ignore[arg-type]
    {"usage": None},
    {"calls": (ToolCall(id="c", name="n", arguments={"path": "x"}),)},  # type: ignore[arg-type]
    {"calls": 3},
]


@pytest.mark.parametrize("lie", LIES)
async def test_an_end_that_could_not_be_read_again_is_a_fault_and_not_on_record(lie: dict[str, Any]) -> None:
    provider = await provider_of(lambda settings: Yielding(TextDelta(text="hi"), ModelEnd(**lie)))
    error = (await hear(provider, ask("go"))).error
    assert isinstance(error, ModelFault) and error.kind is FaultKind.BROKEN
    assert "a ModelEnd is no piece of an answer: " in str(error)
    driver = Driver(loop_of(provider, limits=quick(retries=0)))
    await driver.say("go")
    assert isinstance(driver.records()[-1], Failed)
    for record in driver.records():
        assert decode_record(*encode_record(record)) == record


async def test_an_end_in_other_containers_is_as_good() -> None:
    kept = Kept(format="f", model="m", text="t")
    end = ModelEnd(ending="length", kept=kept, calls=[])  # type: ignore[arg-type]
    provider = await provider_of(lambda settings: Yielding(TextDelta(text="hi"), end))
    driver = Driver(loop_of(provider, limits=quick(continuations=0)))
    await driver.say("go")
    said = next(record for record in driver.records() if isinstance(record, ModelSaid))
    assert said.ending is Ending.LENGTH and said.kept == kept and said.calls == ()


class Closing(Yielding):
    """A provider that notes that it was closed, then does so as it is told to."""

    def __init__(self, end: Callable[[], Any]) -> None:
        super().__init__(ModelEnd())
        self.end = end
        self.closed = 0

    def close(self) -> Any:
        self.closed += 1
        return self.end()


async def nothing() -> None:
    return None


async def hang() -> None:
    await asyncio.Event().wait()


def fail() -> None:
    raise RuntimeError("stuck")


@pytest.mark.parametrize("end", [nothing, hang, fail, lambda: None])
async def test_a_provider_is_closed_and_one_that_cannot_be_holds_nothing_up(end: Callable[[], Any]) -> None:
    made = Closing(end)
    models = Models({"mine": lambda settings: made}, probe=False)
    provider = models.provider(await models.choose(MINE), MINE)
    await hear(provider, ask("go"))
    async with asyncio.timeout(30):
        await models.close()
    assert made.closed == 1


async def test_a_provider_that_was_never_used_is_not_made_to_be_closed() -> None:
    made: list[ModelSettings] = []

    def make(settings: ModelSettings) -> Provider:
        made.append(settings)
        return ScriptedModel()

    models = Models({"mine": make}, probe=False)
    models.provider(await models.choose(MINE), MINE)
    await models.close()
    assert made == []


async def test_its_own_faults_stay_what_they_are() -> None:
    for error in (ModelFault("full", kind=FaultKind.TOO_LONG), Refused("no")):
        heard = await hear(await provider_of(lambda settings: Yielding(error)), ask("go"))  # noqa: B023
        assert heard.error is error


async def test_a_provider_that_could_not_be_made_is_made_with_the_next_call() -> None:
    licences = iter([RuntimeError("not yet")])

    def make(settings: ModelSettings) -> Provider:
        for error in licences:
            raise error
        return ScriptedModel()

    provider = await provider_of(make)
    assert (await hear(provider, ask("a"))).error is not None
    assert (await hear(provider, ask("b"))).text == "You said: b"


async def test_a_wrapper_can_say_who_answers_now() -> None:
    pieces = (Notice(text="now by b"), TextDelta(text="hello"), ModelEnd(model="b"))
    driver = Driver(loop_of(await provider_of(lambda settings: Yielding(*pieces))))
    await driver.say("go")
    assert Notice(text="now by b") in driver.live
    assert isinstance(driver.records()[-1], Finished)


@pytest.mark.parametrize("check", PORT_CHECKS, ids=lambda check: check.__name__)
async def test_behind_the_border_it_is_a_provider_still(check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "MAKING_SECONDS", 30.0)
    monkeypatch.setattr(foreign, "SILENT_SECONDS", 30.0)
    await check(await provider_of(lambda settings: DemoProvider(delay=0.0)))


async def test_agents_that_reach_a_service_in_the_same_way_share_its_provider() -> None:
    models = Models(probe=False)
    made = []
    for name, url in (("a", "http://x/v1"), ("b", "http://x/v1"), ("a", "http://y/v1")):
        settings = ModelSettings(default=name, base_url=url)
        made.append(models.provider(await models.choose(settings), settings))
    assert made[0] is made[1] and made[0] is not made[2]
    await models.close()


async def test_an_unknown_wire_format_is_told_with_those_there_are() -> None:
    settings = ModelSettings(default="a", base_url="http://x/v1", api_mode="telepathy")
    choice = await Models(probe=False).choose(settings)
    assert choice.line == "none: the wire format “telepathy” of model.api_mode is not known"
    assert choice.hint == "Known: chat_completions, codex_responses, responses, anthropic_messages."


def test_ours_are_made_like_a_plugins() -> None:
    from importlib.metadata import entry_points

    offered = {entry.name: entry.load() for entry in entry_points(group="hermes.providers")}
    assert offered.items() >= BUILT_IN.items()
