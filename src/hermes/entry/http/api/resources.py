"""The resources of the HTTP door. Each registers its routes when it is imported."""

from __future__ import annotations

from importlib import import_module

RESOURCES = [
    "api.completions",
    "api.responses",
    "api.runs",
    "api.sessions",
    "api.session_chat",
    "api.questions",
    "api.jobs",
    "api.models",
    "api.health",
    "api.capabilities",
    "webhooks.receive",
    "api.metrics",
    "api.openapi",
    "api.docs_page",
    "owner",
]


def load_resources() -> None:
    for name in RESOURCES:
        import_module(f"hermes.entry.http.{name}")
