"""Slash commands: one registry, one function per command; help, completion, menus and docs follow from it."""

from __future__ import annotations

from importlib import import_module

_MODULES = (
    "session",
    "background",
    "choices",
    "decisions",
    "information",
    "people",
    "jobs",
    "places",
    "process",
    "quick",
    "handing",
    "platforms",
)


def load() -> None:
    """Fill the registry. Commands register themselves when their module is imported."""
    for module in _MODULES:
        import_module(f"{__name__}.{module}")
