"""Each named point × platform kind × occurrence: a real SIGKILL there, and the history stays whole."""

from __future__ import annotations

from pathlib import Path

from tests.crash.matrix import CASES, each_case, survives
from tests.sampling import one_of_each


@each_case(one_of_each(CASES, lambda case: case[0], "kill matrix"))
async def test_killed_there_nothing_is_lost_and_nothing_happens_twice(
    tmp_path: Path, point: str, kind: str, occurrence: int
) -> None:
    await survives(tmp_path, (point, kind, occurrence))
