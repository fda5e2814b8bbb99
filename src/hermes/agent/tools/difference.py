"""What a change of a text changed, as a short unified diff."""

from __future__ import annotations

import re

_LONGEST_DIFF = 4000
_DIFF_LINES = 2000
_LINE_NUMBERS = re.compile(r"([-+])(\d+)")


def difference_of(before: str, after: str) -> str:
    """What changed, as a unified diff; empty if nothing did."""
    from difflib import unified_diff

    old, new = before.splitlines(), after.splitlines()
    above, below = max(_alike(old, new) - 2, 0), max(_alike(old[::-1], new[::-1]) - 2, 0)
    below = min(below, len(old) - above, len(new) - above)
    old, new = old[above : len(old) - below], new[above : len(new) - below]
    if max(len(old), len(new)) > _DIFF_LINES:
        return "[… too many lines for a diff]"
    lines = list(unified_diff(old, new, lineterm="", n=2))[2:]
    text = "\n".join(_moved(line, above) if line.startswith("@@") else line for line in lines)
    return text if len(text) <= _LONGEST_DIFF else f"{text[:_LONGEST_DIFF]}\n[… diff cut]"


def _alike(old: list[str], new: list[str]) -> int:
    """How many lines are the same from the beginning."""
    pairs = zip(old, new, strict=False)
    return next((i for i, (one, other) in enumerate(pairs) if one != other), min(len(old), len(new)))


def _moved(header: str, by: int) -> str:
    return _LINE_NUMBERS.sub(lambda number: f"{number[1]}{int(number[2]) + by}", header)
