"""Each named point × platform kind × occurrence: a real SIGKILL there, and the history stays whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.lives import Lives
from tests.crash.matrix import CASES, killed_and_whole

# `take.before` at its first passing on plain, and so on: a seeded spread over points, kinds and occurrences.
SAMPLE = set(CASES[3::11])


@pytest.mark.parametrize(("point", "kind", "occurrence"), CASES, ids=lambda value: str(value))
async def test_killed_there_nothing_is_lost_and_nothing_happens_twice(
    tmp_path: Path, full: bool, point: str, kind: str, occurrence: int
) -> None:
    if not full and (point, kind, occurrence) not in SAMPLE:
        pytest.skip("in the full run")
    async with Lives(folder=tmp_path, kind=kind) as lives:
        await killed_and_whole(lives, point, occurrence)
