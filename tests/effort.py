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


def grows_evenly(work: Callable[[str], object], short: str, long: str) -> bool:
    """True if the work grows as the text does: not half as much more for each character of a long one."""
    cheap, dear = (effort(lambda: work(text)) / len(text) for text in (short, long))  # noqa: B023
    return dear < 1.5 * cheap + 0.1
