"""Each named point × platform kind × occurrence: a real SIGKILL there, and the history stays whole."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from hermes.testing.crash import DRAFT_POINTS, POINTS
from hermes.testing.history import check_history
from tests.crash.lives import Lives

MESSAGES = (
    ("m1 read", "1"),
    ("m2 once", "1"),
    ("m3 keyed", "2"),
    ("m4 once read", "2"),
    ("m5", "3"),
    ("m6 read keyed once", "3"),
)
CASES = [
    (point, kind, occurrence)
    for kind in ("edits", "plain")
    for point in POINTS + (DRAFT_POINTS if kind == "edits" else ())
    for occurrence in (1, 2)
]
# `take.before` at its first passing on plain, and so on: a seeded spread over points, kinds and occurrences.
SAMPLE = set(CASES[3::11])


@pytest.mark.parametrize(("point", "kind", "occurrence"), CASES, ids=lambda value: str(value))
async def test_killed_there_nothing_is_lost_and_nothing_happens_twice(
    tmp_path: Path, full: bool, point: str, kind: str, occurrence: int
) -> None:
    if not full and (point, kind, occurrence) not in SAMPLE:
        pytest.skip("in the full run")
    async with Lives(folder=tmp_path, kind=kind) as lives:
        first = lives.world.write(MESSAGES[0][0], chat=MESSAGES[0][1], user="u1")
        for text, chat in MESSAGES[1:]:
            lives.world.write(text, chat=chat, user=f"u{chat}")
        await lives.begin(kill=f"{point}:{occurrence}")
        if point.startswith(("poll", "accept", "ack")) and occurrence > 1:
            await lives.until(lambda: lives.world.all_acked)
            lives.world.write("m7 late", chat="1", user="u1")
        assert await lives.died() == -signal.SIGKILL, "the point was never passed"
        lives.world.repeat(first)
        await lives.begin()
        await lives.until_answered(7 if len(lives.world.updates) > len(MESSAGES) + 1 else 6)
        assert await lives.end() == 0
        assert check_history(lives.world) == []
        assert await lives.leftovers() == []
