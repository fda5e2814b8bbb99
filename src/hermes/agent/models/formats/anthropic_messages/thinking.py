"""How much a model thinks, in the words of the Messages API: newer models of Claude are given an effort and
decide themselves (platform.claude.com/docs/en/build-with-claude/adaptive-thinking), all others a number of
tokens (…/extended-thinking)."""

from __future__ import annotations

import re
from typing import Any

from hermes.agent.models.effort import nearest_effort

_CLAUDE = re.compile(r"claude-[a-z]+-(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")
_ADAPTIVE = (4, 6)
_ALL_LEVELS = (4, 7)
_LEVELS = ("low", "medium", "high", "max")
_BUDGETS = {"minimal": 1024, "low": 4096, "medium": 10_240, "high": 20_480, "xhigh": 32_768, "max": 63_999}
_LEAST_BUDGET = 1024


def encode_effort(effort: str, model: str, limit: int) -> dict[str, Any]:
    """The fields of a request; `limit` is how much the reply may have, thoughts included."""
    if effort == "none":
        return {"thinking": {"type": "disabled"}}
    match = _CLAUDE.search(model.lower())
    version = (int(match[1]), int(match[2] or 0)) if match else (0, 0)
    if version >= _ADAPTIVE:
        levels = (*_LEVELS, "xhigh") if version >= _ALL_LEVELS else _LEVELS
        # Some models tell nothing of their thoughts unless asked.
        thinking = {"type": "adaptive", "display": "summarized"}
        return {"thinking": thinking, "output_config": {"effort": nearest_effort(effort, levels)}}
    budget = min(_BUDGETS.get(nearest_effort(effort, _BUDGETS), _LEAST_BUDGET), limit - _LEAST_BUDGET)
    if budget < _LEAST_BUDGET:
        return {}
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}
