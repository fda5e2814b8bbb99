"""The agent for Python programs: `from hermes import AIAgent`."""

from hermes.script.agent import AIAgent as AIAgent

__all__ = ["AIAgent"]
