"""The frame of the kill matrix: six messages in three chats, a kill at a named point, a second life, and what
must be true then. Whose model answers is the tests' choice."""

from __future__ import annotations

import signal
from collections.abc import Collection
from pathlib import Path

import pytest

from hermes.testing.crash import DRAFT_POINTS, POINTS
from hermes.testing.history import check_history
from tests.crash.lives import Lives
from tests.sampling import sampled

MESSAGES = (
    ("m1 read", "1"),
    ("m2 once", "1"),
    ("m3 keyed", "2"),
    ("m4 once read", "2"),
    ("m5", "3"),
    ("m6 read keyed once", "3"),
)
Case = tuple[str, str, int]
"""A point, a platform's kind, and at which passing."""
CASES: list[Case] = [
    (point, kind, occurrence)
    for kind in ("edits", "plain")
    for point in POINTS + (DRAFT_POINTS if kind == "edits" else ())
    for occurrence in (1, 2)
]


def each_case(chosen: Collection[Case]) -> pytest.MarkDecorator:
    """The matrix as parameters of a test; what was not chosen is left to the full run."""
    return pytest.mark.parametrize(("point", "kind", "occurrence"), sampled(CASES, chosen), ids=str)


async def survives(folder: Path, case: Case, *, model: str = "") -> None:
    """Somebody writes, the plug is pulled there, and after the next start the history is whole. `model` is
    the address of the server that is asked, if the model does not live in the process."""
    point, kind, occurrence = case
    async with Lives(folder=folder, kind=kind, model=model) as lives:
        await _killed_and_whole(lives, point, occurrence)


async def _killed_and_whole(lives: Lives, point: str, occurrence: int) -> None:
    world = lives.world
    first = world.write(MESSAGES[0][0], chat=MESSAGES[0][1], user="u1")
    for text, chat in MESSAGES[1:]:
        world.write(text, chat=chat, user=f"u{chat}")
    await lives.begin(kill=f"{point}:{occurrence}")
    if point.startswith(("poll", "accept", "ack")) and occurrence > 1:
        await lives.until(lambda: world.all_acked)
        world.write("m7 late", chat="1", user="u1")
    assert await lives.died() == -signal.SIGKILL, "the point was never passed"
    written = len(world.updates)
    world.repeat(first)
    await lives.begin()
    await lives.until_answered(written)
    assert await lives.end() == 0
    assert check_history(world) == []
    assert await lives.leftovers() == []
