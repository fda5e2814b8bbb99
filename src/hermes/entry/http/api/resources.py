"""The resources of the HTTP door. Each registers its routes when it is imported."""

from __future__ import annotations

from importlib import import_module

RESOURCES = [
    "chat",
    "responses",
    "runs",
    "sessions",
    "session_chat",
    "questions",
    "jobs",
    "models",
    "health",
    "capabilities",
    "webhooks.resource",
    "metrics",
    "openapi",
    "docs",
    "control",
]


def load_resources() -> None:
    for name in RESOURCES:
        import_module(f"hermes.entry.http.{name}")
