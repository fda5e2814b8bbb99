"""Regular expressions that are too large to compile. Compiling writes repetitions out, as often as they occur
at least, and no time limit covers it: a few characters can stand for millions."""

from __future__ import annotations

import math
import re

from hermes.domain.safety.late_pattern import late_pattern

LONGEST_PATTERN = 1000
DEEPEST_PATTERN = 50
LARGEST_PATTERN = 10_000
_TOKEN = late_pattern(
    r"\\.|\[\^?+\]?+(?:\\.|[^\]\\])*+\]"
    r"|(?P<flags>\(\?[a-zA-Z0-9-]+\)|[?*+])"
    r"|(?P<open>\()|(?P<close>\))"
    r"|\{(?:(?P<least>[0-9]+)(?:,[0-9]*)?|,[0-9]*)\}"
    r"|.",
    re.DOTALL,
)
_READ_OTHERWISE = late_pattern(r"\(\?[a-zA-Z0-9-]*[xV]|\(\?#|\[:")
"""Free spacing, sets within sets and comments: there, what looks like a bracket may be none."""
_CALLS = late_pattern(r"\(\?(?:R|[+-]?[0-9]|&|P>)")
"""A group within itself, or another one: matching may take a gigabyte before `regex` gives up."""


def why_too_large(pattern: str) -> str:
    """Completes "… cannot be used: "; empty if it may be compiled."""
    if len(pattern) > LONGEST_PATTERN:
        return f"it is longer than {LONGEST_PATTERN:,} characters"
    size, depth = _measure(pattern)
    if depth > DEEPEST_PATTERN:
        return f"its groups are nested more than {DEEPEST_PATTERN} deep"
    if _READ_OTHERWISE.search(pattern):
        # Whatever repeats what: it cannot be more than all of it, repeated by everything.
        least = (max(int(token["least"] or 1), 1) for token in _TOKEN.finditer(pattern))
        size = len(pattern) * math.prod(least)
    if _CALLS.search(pattern):
        return "it calls its groups anew"
    if size > LARGEST_PATTERN:
        return f"its repetitions, written out, come to more than {LARGEST_PATTERN:,} characters"
    return ""


def _measure(pattern: str) -> tuple[int, int]:
    """How many things it looks for with its repetitions written out, and how deep its groups are nested."""
    totals, last, depth = [0], 0, 0
    for token in _TOKEN.finditer(pattern):
        if token["flags"]:
            continue  # What is repeated stands before them.
        if token["open"]:
            totals.append(0)
            depth, last = max(depth, len(totals) - 1), 0
            continue
        if token["least"]:
            added = max(last, 1) * (max(int(token["least"]), 1) - 1)
            totals[-1] += added
            last += added
            continue
        last = totals.pop() + 1 if token["close"] and len(totals) > 1 else 1
        totals[-1] += last
    return sum(totals), depth
