"""Names for models, from settings to what is asked where, and with which key."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.domain.settings.settings import ModelSettings
from hermes.state.settings.loader import load_settings
from hermes.state.settings.model_access import model_routes

CONFIG = """
model:
  default: main-model
  base_url: http://main.example/v1
  max_tokens: 77
platforms:
  api_server:
    model_routes:
      fast: {model: small-model}
      gpt-4.1: {model: real, provider: groq, base_url: "http://groq.example/v1"}
      keyed: {model: theirs, base_url: "http://other.example/v1", api_key: their-own-secret}
      bare: {model: theirs, base_url: "http://other.example/v1"}
      sneaky: {model: theirs, provider: custom, base_url: "http://other.example/v1"}
      named: {model: some/model, provider: openrouter}
      my-key: {model: odd}
      empty: {provider: openrouter}
"""
ENVIRONMENT = {
    "OPENAI_API_KEY": "sk-gateways-own",
    "GROQ_API_KEY": "gsk-of-groq",
    "OPENROUTER_API_KEY": "sk-or-v1-routed",
}


@pytest.fixture
def routes(tmp_path: Path) -> dict[str, ModelSettings]:
    (tmp_path / "config.yaml").write_text(CONFIG)
    loaded = load_settings(tmp_path, ENVIRONMENT)
    assert [problem.message for problem in loaded.problems] == [
        "platforms.api_server.model_routes.empty names no model."
    ]
    return model_routes(loaded)


@pytest.mark.parametrize(
    ("alias", "model", "address", "key"),
    [
        ("fast", "small-model", "http://main.example/v1", "sk-gateways-own"),
        ("gpt-4.1", "real", "http://groq.example/v1", "gsk-of-groq"),
        ("keyed", "theirs", "http://other.example/v1", "their-own-secret"),
        ("bare", "theirs", "http://other.example/v1", ""),
        ("sneaky", "theirs", "http://other.example/v1", ""),
        ("named", "some/model", "", "sk-or-v1-routed"),
        ("my-key", "odd", "http://main.example/v1", "sk-gateways-own"),
    ],
)
def test_a_route_has_its_own_place_and_key(
    routes: dict[str, ModelSettings], alias: str, model: str, address: str, key: str
) -> None:
    route = routes[alias]
    assert (route.default, route.base_url, route.api_key.reveal()) == (model, address, key)
    assert route.max_tokens == 77


def test_a_name_without_a_model_leads_nowhere(routes: dict[str, ModelSettings]) -> None:
    assert "empty" not in routes and len(routes) == 7


def test_no_routes_no_names(tmp_path: Path) -> None:
    assert model_routes(load_settings(tmp_path, {})) == {}


def test_a_name_without_a_model_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "platforms:\n  api_server:\n    model_routes:\n      fast: {model: tiny}\n      slow: {provider: x}\n"
        "      none:\n"
    )
    found = load_settings(tmp_path, {}).problems
    assert [(problem.line, problem.message) for problem in found] == [
        (5, "platforms.api_server.model_routes.slow names no model."),
        (6, "platforms.api_server.model_routes.none names no model."),
    ]
