"""How much work a function is, counted in the calls it makes: the same on every machine, busy or idle."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType


def effort(work: Callable[[], object]) -> int:
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


def grows_evenly(work: Callable[[int], object], size: int) -> bool:
    """True if twice the size is about twice the work, and not four times."""
    return effort(lambda: work(2 * size)) < 3 * effort(lambda: work(size)) + 1000
