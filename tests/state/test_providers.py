"""Providers in the settings: endpoints of one's own, the key and the options that each gets, and `auto`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hermes.agent.models.choose import ModelAccess, choose, wire_format
from hermes.domain.ids import AgentId
from hermes.domain.models.providers import (
    CHAT_COMPLETIONS,
    CODEX_RESPONSES,
    PROVIDERS,
    ProviderAuth,
    find_provider,
    provider_at,
    split_model,
)
from hermes.domain.settings.settings import ModelSettings
from hermes.state.settings.loader import LoadedSettings, load_settings
from hermes.state.settings.model_access import auxiliary_model, fact_settings, model_at, model_of

CONFIG = """
model: {default: main-model, base_url: "http://main.example/v1"}
providers:
  House:
    baseUrl: "http://house.example/v1"
    key_env: HOUSE_KEY
    api_mode: chat_completions
    models:
      big: {context_length: 40000, supports_vision: true, timeout_seconds: 900}
      small: {}
    extra_body: {top_k: 5, nested: {a: [1, two]}}
    extra_headers: {X-Team: blue, Authorization: "Basic cGFzc3dvcmQ6MTIz"}
    max_output_tokens: 321
    request_timeout_seconds: 77
    stale_timeout_seconds: 33
    ssl_verify: false
    discover_models: false
  off: {base_url: "http://off.example/v1", enabled: false}
  groq: {request_timeout_seconds: 5}
custom_providers:
  - {name: Old One, base_url: "https://api.mistral.ai/v1", model: old-model}
  - {base_url: "http://nameless.example/v1"}
provider_routing: {only: [anthropic, google], sort: price, data_collection: deny}
auxiliary:
  vision: {provider: openrouter, extra_body: {seed: 1}, timeout: 12, reasoning_effort: low}
  compression: {provider: anthropic}
agents: {bee: {model: "custom:house:big"}}
"""
ENVIRONMENT = {
    "OPENAI_API_KEY": "sk-gateways-own",
    "HOUSE_KEY": "key-of-the-house",
    "GROQ_API_KEY": "gsk-of-groq",
    "OPENROUTER_API_KEY": "sk-or-v1-routed",
    "MISTRAL_API_KEY": "key-of-mistral",
}


def load(home: Path, config: str = CONFIG, **environ: str) -> LoadedSettings:
    (home / "config.yaml").write_text(config)
    return load_settings(home, environ or ENVIRONMENT)


def test_ids_aliases_and_variables_are_unique_and_whole() -> None:
    names = [name for spec in PROVIDERS.values() for name in (spec.id, *spec.aliases)]
    assert len(names) == len(set(names)) and all(name == name.lower() for name in names)
    for spec in PROVIDERS.values():
        assert spec.base_url or spec.id == "custom"
        assert spec.keys or spec.auth is not ProviderAuth.API_KEY, "there is a way to show who one is"
        assert spec.is_local or spec.id == "custom" or (spec.model and spec.aux_model)
    assert find_provider(" Grok ") is PROVIDERS["xai"] and find_provider("nosuch") is None


@pytest.mark.parametrize(
    ("url", "provider"),
    [
        ("https://api.groq.com/openai/v1", "groq"),
        ("https://eu.openrouter.ai/api/v1", "openrouter"),
        ("https://openrouter.ai.evil.net/v1", None),
        ("http://127.0.0.1:11434/v1", None),
        ("http://[", None),
    ],
)
def test_an_address_names_its_provider(url: str, provider: str | None) -> None:
    spec = provider_at(url)
    assert (None if spec is None else spec.id) == provider


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("claude:opus", ("anthropic", "opus")),
        ("anthropic:", ("", "anthropic:")),
        ("qwen3:8b", ("", "qwen3:8b")),
        ("mistral:7b-instruct-q4", ("", "mistral:7b-instruct-q4")),
        ("mistral:latest", ("", "mistral:latest")),
        ("mistral:mistral-large-latest", ("mistral", "mistral-large-latest")),
        ("openai:o1", ("openai", "o1")),
        ("vendor/model:free", ("", "vendor/model:free")),
        ("custom:house:big:latest", ("custom:house", "big:latest")),
        ("custom:big", ("custom", "big")),
        ("plain", ("", "plain")),
    ],
)
def test_a_name_may_begin_with_its_provider(name: str, split: tuple[str, str]) -> None:
    assert split_model(name) == split


def test_the_settings_are_read_whole(tmp_path: Path) -> None:
    loaded = load(tmp_path)
    assert [error.message for error in loaded.problems] == ["A custom provider has no name."]
    assert [note.message for note in loaded.notes if "read as" in note.message] == [
        "providers.House.baseUrl is read as base_url."
    ]
    assert "cGFzc3dvcmQ6MTIz" not in loaded.secrets.redact("it says Basic cGFzc3dvcmQ6MTIz")
    assert "cGFzc3dvcmQ6MTIz" not in repr(model_at("custom:house:big", loaded.settings.model, loaded))


def test_an_endpoint_of_ones_own_is_reached_as_it_is_declared(tmp_path: Path) -> None:
    loaded = load(tmp_path)
    big = model_of(AgentId("bee"), loaded)
    choice = choose(big)
    assert (choice.way, choice.provider, choice.model) == (ModelAccess.HTTP, "custom:house", "big")
    assert (choice.base_url, choice.key.reveal()) == ("http://house.example/v1", "key-of-the-house")
    options = choice.options
    assert json.loads(options.extra_body) == {"top_k": 5, "nested": {"a": [1, "two"]}}
    assert next((name, text.reveal()) for name, text in options.headers) == ("X-Team", "blue")
    assert (big.max_tokens, options.request_timeout, options.stale_timeout) == (321, 900.0, 33.0)
    assert (options.ssl_verify, options.discover, options.models) == (False, False, ("big", "small"))
    assert model_at("custom:house:small", big, loaded).options.request_timeout == 77.0
    facts = fact_settings("custom:house", loaded.settings)["big"]
    assert (facts.context_length, facts.images) == (40_000, True)


@pytest.mark.parametrize(
    ("name", "provider", "url", "key"),
    [
        ("main-model", "custom", "http://main.example/v1", "sk-gateways-own"),
        ("other", "custom", "http://main.example/v1", "sk-gateways-own"),
        ("groq:llama", "groq", "https://api.groq.com/openai/v1", "gsk-of-groq"),
        ("custom:old-one:old-model", "custom:old-one", "https://api.mistral.ai/v1", "key-of-mistral"),
        ("or:vendor/m", "openrouter", "https://openrouter.ai/api/v1", "sk-or-v1-routed"),
    ],
)
def test_a_key_goes_where_it_belongs(tmp_path: Path, name: str, provider: str, url: str, key: str) -> None:
    loaded = load(tmp_path)
    choice = choose(model_at(name, loaded.settings.model, loaded))
    assert (choice.provider, choice.base_url, choice.key.reveal()) == (provider, url, key)


@pytest.mark.parametrize(
    ("name", "why", "hint"),
    [
        ("custom:huose:x", "no provider is called “huose” in the settings", "Did you mean custom:house?"),
        ("custom:off:x", "custom:off is switched off", "Set its `enabled` to true."),
        ("xai:grok", "XAI_API_KEY is not set", "hermes config set XAI_API_KEY …"),
        (
            "nous:hermes",
            "nobody is logged in there",
            "hermes auth login nous, or hermes config set NOUS_API_KEY …",
        ),
        ("vertex:google/gemini", "VERTEX_PROJECT_ID is not set", "hermes config set VERTEX_PROJECT_ID …"),
    ],
)
def test_what_cannot_be_reached_is_said_with_its_remedy(
    tmp_path: Path, name: str, why: str, hint: str
) -> None:
    loaded = load(tmp_path)
    choice = choose(model_at(name, loaded.settings.model, loaded))
    assert choice.way is ModelAccess.NONE and why in choice.why and choice.hint == hint


def test_openrouter_is_told_whom_it_may_use(tmp_path: Path) -> None:
    loaded = load(tmp_path)
    body = json.loads(model_at("openrouter:a/b", loaded.settings.model, loaded).options.extra_body)
    assert body == {"provider": {"only": ["anthropic", "google"], "sort": "price", "data_collection": "deny"}}
    seeing = auxiliary_model("vision", AgentId("main"), loaded)
    assert seeing is not None and json.loads(seeing.options.extra_body) == {**body, "seed": 1}


def test_a_role_at_another_provider_has_its_small_model(tmp_path: Path) -> None:
    loaded = load(tmp_path)
    role = auxiliary_model("summary", AgentId("main"), loaded)
    assert role is not None and role.default == PROVIDERS["anthropic"].aux_model
    given = loaded.settings.auxiliary["vision"]
    assert (given.timeout, given.reasoning_effort) == (12.0, "low")


def test_a_place_in_an_address_comes_from_a_variable(tmp_path: Path) -> None:
    loaded = load(tmp_path, "", AWS_BEARER_TOKEN_BEDROCK="bedrock-key-1", AWS_REGION="eu-west-1")
    choice = choose(loaded.settings.model)
    assert choice.provider == "bedrock" and "bedrock-runtime.eu-west-1." in choice.base_url
    vertex = load(
        tmp_path, "", VERTEX_ACCESS_TOKEN="ya29.token", VERTEX_PROJECT_ID="mine", VERTEX_REGION="us-east5"
    )
    assert choose(vertex.settings.model).base_url == (
        "https://us-east5-aiplatform.googleapis.com/v1/projects/mine/locations/us-east5/endpoints/openapi"
    )
    plain = load(tmp_path, "", AWS_BEARER_TOKEN_BEDROCK="bedrock-key-1")
    assert "bedrock-runtime.us-east-1." in choose(plain.settings.model).base_url


@pytest.mark.parametrize(
    ("environ", "provider"),
    [
        ({"ANTHROPIC_TOKEN": "a-token", "XAI_API_KEY": "x"}, "anthropic"),
        ({"XAI_API_KEY": "x", "OPENAI_API_KEY": "sk-1"}, "auto"),
        ({"XAI_API_KEY": "x", "OPENROUTER_API_KEY": "sk-or-1"}, "openrouter"),
        ({"XAI_API_KEY": "x", "HERMES_INFERENCE_PROVIDER": "zai"}, "zai"),
        ({"OLLAMA_API_KEY": "x"}, "auto"),
    ],
)
def test_auto_follows_the_keys(tmp_path: Path, environ: dict[str, str], provider: str) -> None:
    assert load(tmp_path, "", **environ).settings.model.provider == provider


@pytest.mark.parametrize(
    ("provider", "own"),
    [
        ("ollama", "OLLAMA_API_KEY"),
        ("lmstudio", "LM_API_KEY"),
        ("llamacpp", "LLAMA_API_KEY"),
        ("vllm", "VLLM_API_KEY"),
        ("custom", "CUSTOM_API_KEY"),
    ],
)
def test_a_server_of_ones_own_takes_the_key_of_openai_last(tmp_path: Path, provider: str, own: str) -> None:
    model = f"model: {{default: m, provider: {provider}, base_url: 'http://server.example/v1'}}\n"
    agents = f"agents: {{bee: {{provider: {provider}, model: n}}}}\n"

    def keys(text: str = model + agents, **environ: str) -> set[str]:
        loaded = load(tmp_path, text, OPENAI_API_KEY="sk-of-openai-0123", **environ)
        return {model_of(AgentId(agent), loaded).api_key.reveal() for agent in ("main", "bee")}

    assert keys() == {"sk-of-openai-0123"}
    assert keys(**{own: "key-of-its-own-0123"}) == {"key-of-its-own-0123"}
    assert keys(**{own: "none"}) == {""}
    role = (
        f"auxiliary: {{compression: {{provider: {provider}, base_url: 'http://other.example/v1', model: m}}}}"
    )
    loaded = load(tmp_path, role, OPENAI_API_KEY="sk-of-openai-0123")
    beside = auxiliary_model("summary", AgentId("main"), loaded)
    assert beside is not None and not beside.api_key, "beside the gateway's model it is not lent"


def test_a_stored_credential_counts_after_keys() -> None:
    assert choose(ModelSettings(), stored=("nous",)).provider == "nous"
    assert choose(ModelSettings(provider="openai-codex"), stored=("openai-codex",)).provider == "openai-codex"


@pytest.mark.parametrize(
    ("provider", "url", "model", "format"),
    [
        ("openai", "https://api.openai.com/v1", "gpt-4.1", CHAT_COMPLETIONS),
        ("openai", "https://api.openai.com/v1", "gpt-5.2", CODEX_RESPONSES),
        ("custom", "http://x/v1", "gpt-5.2", CHAT_COMPLETIONS),
        ("custom", "http://x/anthropic", "m", "anthropic_messages"),
        ("custom", "http://x/anthropic/v1/", "m", "anthropic_messages"),
        ("minimax", "https://api.minimax.io/anthropic", "m", "anthropic_messages"),
        ("groq", "http://x/anthropic", "m", CHAT_COMPLETIONS),
    ],
)
def test_the_wire_format_follows_provider_address_and_model(
    monkeypatch: pytest.MonkeyPatch, provider: str, url: str, model: str, format: str
) -> None:
    monkeypatch.setattr("hermes.agent.models.choose.FORMATS", {format: "", CODEX_RESPONSES: ""})
    assert wire_format(PROVIDERS[provider], url, model) == format


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("providers: {x: {base_url: nowhere}}", "providers.x.base_url must be an address"),
        ("providers: {x: {model: m}}", "providers.x has no address."),
        ("providers: {x: {base_url: 'http://x/v1', extra_body: word}}", "providers.x.extra_body must be"),
        ("providers: {x: {base_url: 'http://x/v1', rate: 3}}", "“providers.x.rate” is not a known setting."),
        ("provider_routing: {data_collection: perhaps}", "provider_routing.data_collection must be one of"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, problem: str) -> None:
    loaded = load(tmp_path, text)
    assert [error.message for error in loaded.problems if problem in error.message], loaded.problems
    assert not loaded.settings.providers
    assert loaded.settings.provider_routing.data_collection in ("", "deny")


def test_a_model_that_is_named_is_told_though_its_key_is_missing() -> None:
    choice = choose(ModelSettings(default="foo", provider="openrouter"))
    assert (choice.way, choice.model, choice.provider) == (ModelAccess.NONE, "foo", "openrouter")
    assert "OPENROUTER_API_KEY is not set" in choice.why
