"""How much a model may think, in no vendor's words, and the nearest of the levels that a vendor has."""

from __future__ import annotations

from collections.abc import Collection

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra")
"""How much a model may think, from nothing on; empty is as the service likes."""
OPENAI_EFFORTS = EFFORTS[: EFFORTS.index("ultra")]
"""The words of OpenAI; which of them a model takes is its service's to say."""


def nearest_effort(effort: str, levels: Collection[str]) -> str:
    """The highest of these levels that is not above the effort, else the lowest; none is only itself."""
    if effort in levels or effort not in EFFORTS:
        return effort
    below = [level for level in EFFORTS[1 : EFFORTS.index(effort)] if level in levels]
    above = [level for level in EFFORTS[1:] if level in levels]
    return "" if effort == "none" or not above else (below or above[:1])[-1]
