"""Hermes Gateway: one agent behind every door."""

from __future__ import annotations

__version__ = "0.1.0"
__all__ = ["AIAgent", "__version__"]

TYPE_CHECKING = False  # `typing` alone takes a third of the time that `hermes --help` may take
if TYPE_CHECKING:
    from hermes.script import AIAgent as AIAgent


def __getattr__(name: str) -> object:
    """Public names are loaded when somebody asks for them."""
    if name == "AIAgent":
        from hermes.script import AIAgent

        return AIAgent
    raise AttributeError(f"module 'hermes' has no attribute {name!r}")
