"""What is known of models, what the settings say of them, and who asks for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.agent.models.facts import FAMILIES, family_facts, model_facts
from hermes.agent.models.images import ImageAttachingProvider
from hermes.domain.model_facts import ModelFacts
from hermes.domain.settings.settings import ModelFactSettings, ModelSettings
from hermes.state.settings.loader import load_settings
from hermes.testing.api import ApiWorld
from hermes.testing.model import ScriptedModel, say
from tests.agent.test_pictures import Shelf, image, looking_at


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("gpt-4.1", "gpt-4.1"),
        ("gpt-4.1-mini", "gpt-4.1-mini"),
        ("openai/GPT-4.1-mini-2025-04-14", "gpt-4.1-mini"),
        ("gpt-4.1-2025-04-14", "gpt-4.1"),
        ("google/gemini-2.5-pro:free", "gemini-2.5-pro"),
    ],
)
def test_a_name_belongs_to_the_longest_family(name: str, family: str) -> None:
    assert family_facts(name) == FAMILIES[family]


@pytest.mark.parametrize("name", ["", "gpt-4", "gpt-4.12", "my-gpt-4.1", "llama3.2", "demo"])
def test_nothing_is_guessed(name: str) -> None:
    assert family_facts(name) == ModelFacts()


def test_the_settings_count_first() -> None:
    own = ModelSettings(default="gpt-4.1", context_length=50_000)
    assert model_facts("gpt-4.1", own, {}).window == 50_000
    assert model_facts("gpt-4.1-mini", own, {}).window == 1_047_576, "it was said of the other model"
    said = {"gpt-4.1": ModelFactSettings(context_length=9, images=False, price_in=0.0)}
    facts = model_facts("gpt-4.1", own, said)
    assert (facts.window, facts.images, facts.price_in, facts.price_out) == (9, False, 0.0, 8.0)


def test_what_a_server_here_reads_depends_on_how_it_was_started() -> None:
    facts = model_facts("gpt-4o", ModelSettings(), {}, local=True)
    assert facts.window is None and facts.images is True
    assert facts.price_in == facts.price_out == 0, "nobody bills it"
    assert model_facts("x", ModelSettings(default="x", context_length=8), {}, local=True).window == 8


async def test_a_model_that_is_known_to_take_no_pictures_is_not_shown_any() -> None:
    model, shelf = ScriptedModel([say("ok"), say("ok")]), Shelf(a=b"1")
    for blind in (True, False):
        facts = ModelFacts(images=not blind)
        provider = ImageAttachingProvider(model, shelf, lambda name: facts)  # noqa: B023
        async for _ in provider.call(looking_at(image("a"))):
            pass
    assert [request.images is None for request in model.requests] == [True, False]
    assert shelf.read == ["a"], "what is not shown is not read"


NONSENSE = """model: {default: m, context_length: many}
models:
  m:
    context_length: 8000
    images: perhaps
  n: {price_in: -1}
  o: 7
  p: {contxt_length: 8}
  q: {context_length: 8000, tools: no}
"""


def test_nonsense_about_a_model_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(NONSENSE)
    loaded = load_settings(tmp_path, {})
    assert [(problem.line, problem.message) for problem in loaded.problems] == [
        (1, "model.context_length must be a whole number of at least 1, not “many”."),
        (5, "models.m.images must be true or false, not “perhaps”."),
        (6, "models.n.price_in must be a number of at least 0, not “-1”."),
        (7, "Below models.o must stand `name: value` lines, not a single value."),
        (8, "“models.p.contxt_length” is not a known setting."),
    ]
    assert loaded.settings.models == {"q": ModelFactSettings(context_length=8000, tools=False)}
    assert loaded.settings.model.context_length is None


async def test_clients_are_told_how_much_the_model_reads(tmp_path: Path) -> None:
    config = """model: {default: known-model, context_length: 64000}
models: {small-model: {context_length: 4096}}
platforms: {api_server: {model_routes: {small: {model: small-model}, other: {model: unheard-of}}}}
"""
    async with ApiWorld(home=tmp_path, config=config, provider=ScriptedModel()) as api:
        told = (await api.get("/v1/models")).json["data"]
        windows = {model["id"]: model.get("context_length") for model in told}
        agents = {"hermes-agent": 64000, "main": 64000, "hermes-agent:task": 64000}
        assert windows == {**agents, "small": 4096, "other": None}
        assert (await api.get("/v1/capabilities")).json["context_length"] == 64000
