"""What is known of models, what the settings say of them, and who asks for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hermes.agent.models.catalogue import PACKAGED, ModelCatalogue, trim
from hermes.agent.models.facts import model_facts, stated_limit
from hermes.agent.models.images import ImageAttachingProvider
from hermes.domain.models.model_facts import ModelFacts
from hermes.domain.settings.settings import ModelFactSettings, ModelSettings
from hermes.state.settings.loader import load_settings
from hermes.testing.api import ApiWorld
from hermes.testing.model import ScriptedModel, say
from tests.agent.test_pictures import Shelf, image, looking_at

CATALOGUE = ModelCatalogue()


def facts_of(name: str, provider: str = "", **more: Any) -> ModelFacts:
    own = more.pop("own", ModelSettings())
    return model_facts(name, own, more.pop("said", {}), catalogue=CATALOGUE, provider=provider, **more)


@pytest.mark.parametrize(
    ("provider", "name", "window", "price_in", "floor"),
    [
        ("openai", "gpt-4.1", 1_047_576, 2, 1024),
        ("", "openai/GPT-4.1-mini-2025-04-14", 1_047_576, 0.4, 1024),
        ("", "gpt-4.1-nano:free", 1_047_576, 0.1, 1024),
        ("anthropic", "claude-haiku-4-5-20251001", 200_000, 1, 4096),
        ("openrouter", "anthropic/claude-haiku-4.5", 200_000, 1, 4096),
        ("openrouter", "openai/gpt-4.1-nano:free", 1_047_576, 0, 1024),
        ("custom:house", "claude-opus-4.5", 200_000, 5, 4096),
        ("gemini", "gemini-2.5-flash", 1_048_576, 0.3, None),
        ("openai-codex", "gpt-5.2", 400_000, 0, 1024),
    ],
)
def test_a_name_is_found_as_its_provider_or_its_vendor_calls_it(
    provider: str, name: str, window: int, price_in: float, floor: int | None
) -> None:
    facts = facts_of(name, provider)
    assert (facts.window, facts.price_in, facts.cache_floor) == (window, price_in, floor)
    assert facts.images and facts.tools


@pytest.mark.parametrize("name", ["", "gpt-4.12", "my-gpt-4.1", "llama3.2", "demo", "a\tb", "gpt-4.1\n"])
def test_nothing_is_guessed(name: str) -> None:
    facts = facts_of(name)
    assert facts == ModelFacts() or name == "gpt-4.1\n"


def test_a_long_prompt_has_prices_of_its_own_where_they_are_published() -> None:
    facts = facts_of("gemini-2.5-pro", "gemini")
    assert (facts.long_after, facts.price_long_in, facts.price_long_out) == (200_000, 2.5, 15)
    assert facts_of("gemini-2.5-flash", "gemini").long_after is None
    assert facts_of("gemini-2.5-pro", "gemini", local=True).long_after is None


def test_the_settings_count_first_then_what_the_endpoint_said() -> None:
    own = ModelSettings(default="gpt-4.1", context_length=50_000)
    assert facts_of("gpt-4.1", own=own, window=40_000).window == 50_000
    assert facts_of("gpt-4.1", window=40_000).window == 40_000
    assert facts_of("gpt-4.1-mini", own=own).window == 1_047_576, "it was said of the other model"
    said = {"gpt-4.1": ModelFactSettings(context_length=9, images=False, price_in=0.0)}
    facts = facts_of("gpt-4.1", own=own, said=said)
    assert (facts.window, facts.images, facts.price_in, facts.price_out) == (9, False, 0.0, 8.0)


@pytest.mark.parametrize(
    ("words", "limit"),
    [
        ("This model's maximum context length is 8192 tokens. However, you requested 9000 tokens", 8192),
        ("prompt is too long: 210000 tokens > 200000 maximum", 200_000),
        (
            "The input token count (1050000) exceeds the maximum number of tokens allowed (1048576).",
            1_048_576,
        ),
        ("the request exceeds the available context size (4096 tokens), try increasing it", 4096),
        ("maximum context length is 131,072 tokens", 131_072),
        # Anthropic; xAI: github.com/cline/cline/issues/3120; Kimi: github.com/MoonshotAI/kimi-cli/issues/2011
        ("input length and `max_tokens` exceed context limit: 148240 + 64000 > 200000, decrease", 200_000),
        ("This model's maximum prompt length is 131072 but the request contains 136973 tokens", 131_072),
        ("Your request exceeded model token limit: 262144 (requested: 269030)", 262_144),
        ("Request too large on tokens per minute (TPM): Limit 8000, context size 9000", None),
        ("the conversation is too long", None),
        ("maximum context length is 100 tokens", None),
    ],
)
def test_a_limit_that_an_error_states_is_read(words: str, limit: int | None) -> None:
    assert stated_limit(words) == limit


def test_the_file_is_small_and_a_look_up_keeps_little() -> None:
    assert PACKAGED.stat().st_size < 150_000
    catalogue = ModelCatalogue()
    for number in range(1000):
        catalogue.facts("", f"unknown-{number}")
    assert len(catalogue._cached) <= 256
    names = [model.name for model in catalogue.models("anthropic")]
    assert "claude-opus-4-5" in names and "gpt-4.1" not in names and catalogue.models("") == []


def test_a_newer_file_of_the_home_counts_and_a_broken_one_does_not(tmp_path: Path) -> None:
    catalogue = ModelCatalogue(tmp_path)
    many = {f"m{number}": {"limit": {"context": 1000 + number}} for number in range(250)}
    catalogue.write(trim({"openai": {"models": {**many, "odd": {"limit": "x"}, "a\tb": {}}}}, "2999-01-01"))
    assert catalogue.facts("openai", "m5").window == 1005 and catalogue.day == "2999-01-01"
    (tmp_path / "models.tsv").write_bytes(b"\xff\xfe")
    catalogue.forget()
    assert catalogue.facts("openai", "gpt-4.1").window == 1_047_576
    (tmp_path / "models.tsv").write_text("# models.dev 2999-01-01\nopenai\tgpt-4.1\tmany\n")
    catalogue.forget()
    assert catalogue.facts("openai", "gpt-4.1").window is None
    for wrong in ({}, {"openai": []}, {"openai": {"models": {"m": {}}}}):
        with pytest.raises(ValueError, match="models"):
            trim(wrong, "2999-01-01")


def test_what_a_server_here_reads_depends_on_how_it_was_started() -> None:
    facts = facts_of("gpt-4o", local=True)
    assert facts.window is None and facts.images is True
    assert facts.price_in == facts.price_out == 0, "nobody bills it"
    assert facts_of("x", own=ModelSettings(default="x", context_length=8), local=True).window == 8
    assert facts_of("x", local=True, window=4096).window == 4096, "the server was asked"


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
