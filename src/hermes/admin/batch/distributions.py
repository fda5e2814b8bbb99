"""Which toolsets an item of a batch run gets: each toolset of a distribution by its own chance. The choice
follows from the run's name and the item's number alone, so a run that is taken up again chooses the same."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping

from hermes.domain.errors import UserError
from hermes.domain.text import one_line

Distribution = Mapping[str, float]
"""Chances in percent, by toolset."""
EVERYTHING = "default"
PRESETS: Mapping[str, Distribution] = {
    EVERYTHING: {},
    "balanced": {"web": 50, "vision": 50, "image_gen": 50, "terminal": 50, "file": 50, "browser": 50},
    "research": {"web": 90, "browser": 70, "vision": 50, "terminal": 10, "file": 20},
    "science": {"web": 94, "terminal": 94, "file": 94, "vision": 65, "browser": 50, "code_execution": 50},
    "development": {"terminal": 80, "file": 80, "web": 30, "vision": 10, "code_execution": 60},
    "safe": {"web": 80, "browser": 70, "vision": 60, "todo": 60},
    "minimal": {"web": 100},
    "terminal_only": {"terminal": 100, "file": 100},
    "terminal_web": {"terminal": 100, "file": 100, "web": 100},
    "terminal_tasks": {"terminal": 97, "file": 97, "web": 97, "browser": 75, "vision": 50, "image_gen": 10},
    "creative": {"image_gen": 90, "vision": 90, "web": 30},
    "image_gen": {"image_gen": 90, "vision": 90, "web": 55, "terminal": 45},
    "reasoning": {"web": 30, "terminal": 20, "todo": 60},
    "browser_use": {"browser": 100, "web": 80, "vision": 70},
    "browser_only": {"browser": 100},
    "browser_tasks": {"browser": 97, "vision": 12, "terminal": 15},
    "mixed_tasks": {"browser": 92, "terminal": 92, "file": 92, "web": 35, "vision": 15, "image_gen": 15},
}


def read_distribution(text: str) -> Distribution:
    """A preset by its name, or chances as `file=100,terminal=50`."""
    if text in PRESETS:
        return PRESETS[text]
    chances: dict[str, float] = {}
    for part in text.split(","):
        name, sign, percent = (word.strip() for word in part.partition("="))
        number = float(percent) if percent.replace(".", "", 1).isdecimal() else -1.0
        if not name or not sign or not 0 <= number <= 100:
            presets = ", ".join(PRESETS)
            raise UserError(
                f"“{one_line(text, 60)}” is not a distribution of toolsets.",
                hint=f"Use one of {presets}; or chances in percent, like file=100,terminal=50",
            )
        chances[name] = number
    return chances


def spell_distribution(distribution: Distribution) -> str:
    """As `read_distribution` takes it."""
    return ",".join(f"{name}={chance:g}" for name, chance in distribution.items()) or EVERYTHING


def limit_to(distribution: Distribution, there: Collection[str]) -> tuple[Distribution, list[str]]:
    """The part of a distribution that an agent has, and the toolsets that it lacks."""
    missing = [name for name in distribution if name not in there]
    return {name: chance for name, chance in distribution.items() if name in there}, missing


def choose_toolsets(distribution: Distribution, run: str, index: int) -> tuple[str, ...]:
    """Empty means all. Where chance takes none, the likeliest is taken."""
    if not distribution:
        return ()
    chance = random.Random(f"{run}/{index}")
    chosen = tuple(name for name, percent in distribution.items() if chance.uniform(0, 100) < percent)
    return chosen or (max(distribution, key=lambda name: distribution[name]),)
