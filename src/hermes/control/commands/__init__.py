"""Slash commands: one registry, one function per command; help, completion, menus and docs follow from it.

The machinery is in `registry` (what a command is, and who may use it), `run` (from a line to its reply),
`menu` and `quick` (commands of the settings); the commands themselves are in all other modules."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules


def load() -> None:
    """Fill the registry. Commands register themselves when their module is imported."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
