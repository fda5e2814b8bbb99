"""Models in roles: which one a role has, and a tool of a whole gateway that asks one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from hermes.agent.models.roles import ChosenModel
from hermes.app.app import App
from hermes.app.overrides import AppOverrides
from hermes.control.sessions.submission import Submission
from hermes.domain.clock import SystemClock
from hermes.domain.errors import FaultKind, ModelFault, Refused, Unreachable, UserError
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.models.model_facts import ModelFacts, ModelRole
from hermes.domain.models.usage import Usage
from hermes.domain.ports.agent import ModelEnd
from hermes.domain.settings.settings import AuxiliaryModel
from hermes.domain.tools.tool import Effect, Tool, ToolContext, ToolResult
from hermes.domain.turns.event import Entry, ModelSaid, ToolFinished
from hermes.domain.turns.turn import TurnInput
from hermes.domain.word import replace
from hermes.state.settings.loader import load_settings
from hermes.state.settings.model_access import auxiliary_model
from hermes.testing.model import Say, ScriptedModel, say
from hermes.testing.model_script import Call, Reply, failure
from hermes.testing.model_server import FakeModelServer
from tests.agent.test_routes import CLIENT

CONFIG = """
model: {default: main-model, base_url: "http://main.example/v1", max_tokens: 77, context_length: 9000}
agents: {bee: {model: bee-model}}
auxiliary:
  vision: {model: sees, provider: openrouter}
  compression: {model: cheap, timeout: 30}
  title_generation: {base_url: "http://titles.example/v1", api_key: titles-own}
  approval: {provider: auto}
  web_extract: {model: later}
"""
ENVIRONMENT = {"OPENAI_API_KEY": "sk-gateways-own", "OPENROUTER_API_KEY": "sk-or-v1-routed"}


@pytest.mark.parametrize(
    ("role", "agent", "model", "address", "key"),
    [
        ("vision", "main", "sees", "", "sk-or-v1-routed"),
        ("summary", "main", "cheap", "http://main.example/v1", "sk-gateways-own"),
        ("summary", "bee", "cheap", "http://main.example/v1", "sk-gateways-own"),
        ("title", "main", "main-model", "http://titles.example/v1", "titles-own"),
        ("title", "bee", "bee-model", "http://titles.example/v1", "titles-own"),
        ("approval", "main", "main-model", "http://main.example/v1", "sk-gateways-own"),
    ],
)
def test_a_role_has_its_own_model_place_and_key(
    tmp_path: Path, role: str, agent: str, model: str, address: str, key: str
) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG)
    loaded = load_settings(tmp_path, ENVIRONMENT)
    assert not loaded.problems and not loaded.stops
    found = auxiliary_model(role, AgentId(agent), loaded)
    assert found is not None
    assert (found.default, found.base_url, found.api_key.reveal()) == (model, address, key)
    assert found.context_length is None, "that was said of the main model"


def test_a_role_without_settings_is_the_main_models(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("auxiliary: {vision: {}}\n")
    loaded = load_settings(tmp_path, {})
    assert auxiliary_model("vision", MAIN_AGENT, loaded) is None
    assert auxiliary_model("title", MAIN_AGENT, loaded) is None


def test_a_mistake_leaves_the_role_to_the_main_model(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "auxiliary:\n  vision: {model: v, base_url: nonsense}\n  visoin: {model: v}\n  approval: {model: a}\n"
    )
    loaded = load_settings(tmp_path, {})
    assert [problem.line for problem in loaded.problems] == [2, 3]
    assert "Did you mean “auxiliary.vision”?" in loaded.problems[1].hint
    assert loaded.settings.auxiliary == {"approval": AuxiliaryModel(model="a")}


# --- asking ---


async def ask(*script: Say) -> tuple[str, Usage, list[float]]:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    chosen = ChosenModel(provider=ScriptedModel(script), model="m", facts=ModelFacts())
    text, usage = await chosen.ask("what?", sleep=sleep)
    return text, usage, slept


async def test_an_answer_without_its_thoughts_and_what_it_took() -> None:
    text, usage, slept = await ask(say("<think>hm</think>\n\nA cat."))
    assert text == "A cat." and usage.completion == 3 and not slept


async def test_an_answer_of_a_fallback_is_booked_to_who_gave_it() -> None:
    class Other:
        async def call(self, request: object) -> AsyncIterator[ModelEnd]:
            yield ModelEnd(usage=Usage(prompt=9, completion=1), model="other", via="spare")

    facts = ModelFacts(price_in=1.0, price_out=1.0)
    chosen = ChosenModel(provider=Other(), model="failed", facts=facts)
    _, usage = await chosen.ask("what?", sleep=asyncio.sleep)
    assert usage.model == "other" and usage.cost is None


async def test_an_answer_is_booked_to_the_name_that_the_provider_gives_its_model() -> None:
    class Own:
        async def call(self, request: object) -> AsyncIterator[ModelEnd]:
            yield ModelEnd(usage=Usage(prompt=1_000_000), model="zzz")

    facts = ModelFacts(price_in=1.0, price_out=1.0)
    chosen = ChosenModel(provider=Own(), model="custom:one:zzz", facts=facts)
    _, usage = await chosen.ask("what?", sleep=asyncio.sleep)
    assert usage.model == "zzz" and usage.cost is not None


async def test_a_fault_that_passes_is_tried_again_and_no_other() -> None:
    broken = Say(text="half of it", breaks_after=4, error=Unreachable("gone"))
    text, _, slept = await ask(Say(error=Unreachable("busy", after=7.0)), broken, say("whole"))
    assert text == "whole" and slept == [7.0, 4.0]
    for error in (Refused("no"), ModelFault("in a day", kind=FaultKind.LIMITED_UNTIL, after=86_400.0)):
        with pytest.raises(ModelFault):
            await ask(Say(error=error), say("never"))
    with pytest.raises(ModelFault):
        await ask(*[Say(error=Unreachable("busy", after=0.0))] * 3, say("never"))


async def test_an_answer_that_takes_too_long_is_given_up() -> None:
    async def no_sleep(seconds: float) -> None:
        return None

    never = Say(text="words", halt=asyncio.Event())
    chosen = ChosenModel(provider=ScriptedModel([never] * 3), model="m", facts=ModelFacts(), timeout=0.01)
    with pytest.raises(ModelFault, match="m gave no answer in"):
        await chosen.ask("what?", sleep=no_sleep)


# --- a whole gateway ---


async def look(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
    return ToolResult(text=await context.ask_model("vision", "What is it?"))


LOOK = Tool(name="look", description="Look.", parameters={}, run=look, effect=Effect.READ)


def talk(request: object) -> Reply:
    told = request.messages[-1]  # type: ignore[attr-defined]
    return (
        Reply(text=f"It is {told['content']}.")
        if told["role"] == "tool"
        else Reply(calls=(Call(name="look"),))
    )


async def test_a_tool_asks_the_model_of_a_role_and_it_is_counted(tmp_path: Path) -> None:
    used = Usage(prompt=100, completion=20)
    async with FakeModelServer(talk) as main, FakeModelServer([Reply(text="a cat", usage=used)]) as eyes:
        (tmp_path / "config.yaml").write_text(
            f"model: {{default: main-model, base_url: '{main.base_url}'}}\n"
            f"auxiliary: {{vision: {{model: sees, base_url: '{eyes.base_url}', timeout: 30, "
            "reasoning_effort: low, extra_body: {top_k: 5}}}\n"
        )
        app = App(tmp_path, {"HERMES_NO_PROBE": "1"}, AppOverrides(platforms={}, tools=(LOOK,)))
        async with asyncio.timeout(60), app.running():
            submission = Submission(agent=MAIN_AGENT, source=CLIENT, input=TurnInput(text="look"))
            turn = await app.gateway.submit(submission)
            entries = [seen async for seen in app.gateway.watch(MAIN_AGENT, turn.id)]
            models = app._agents.models
            seeing = await models.of(MAIN_AGENT, ModelRole.VISION)
            assert (seeing.model, seeing.timeout) == ("sees", 30.0)
            (asked,) = (request for request in eyes.requests if request.method == "POST")
            assert (asked.body["reasoning_effort"], asked.body["top_k"]) == ("low", 5)
            assert (await models.of(MAIN_AGENT, "summary")).model == "main-model"
            with pytest.raises(UserError, match="There are: main, title, summary, vision, approval"):
                await models.of(MAIN_AGENT, "poet")
    records = [entry.record for entry in entries if isinstance(entry, Entry)]
    (seen,) = (record for record in records if isinstance(record, ToolFinished))
    assert seen.text == "a cat"
    assert seen.usage == replace(used, cost=0.0, model="sees", role="vision")
    assert [record.text for record in records if isinstance(record, ModelSaid)][-1] == "It is a cat."


async def test_an_answer_of_a_free_fallback_is_free(tmp_path: Path) -> None:
    used = Usage(prompt=100, completion=20)
    async with (
        FakeModelServer([failure(401, "no")]) as main,
        FakeModelServer([Reply(text="a cat", usage=used)]) as spare,
    ):
        (tmp_path / "config.yaml").write_text(
            f"model: {{default: main-model, base_url: '{main.base_url}'}}\n"
            f"fallback_providers: [{{provider: custom, model: spare, base_url: '{spare.base_url}'}}]\n"
        )
        app = App(tmp_path, {"HERMES_NO_PROBE": "1"}, AppOverrides(platforms={}))
        async with asyncio.timeout(60), app.running():
            await app.gateway.agents.get(MAIN_AGENT)
            ask = app._agents.models.asker(MAIN_AGENT, SystemClock())
            text, seen = await ask("title", "what?", ())
    assert text == "a cat" and (seen.model, seen.cost) == ("spare", 0.0)
