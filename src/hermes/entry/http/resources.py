"""The resources of the HTTP door. Each registers its routes when it is imported."""

from __future__ import annotations

from importlib import import_module

_RESOURCES = ["chat", "models", "health", "control"]


def load_resources() -> None:
    for name in _RESOURCES:
        import_module(f"hermes.entry.http.{name}")
