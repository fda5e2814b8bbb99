"""Slash commands: one registry, one function per command; help, completion, menus and docs follow from it."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules


def load() -> None:
    """Fill the registry. Commands register themselves when their module is imported."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
