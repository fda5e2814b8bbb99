"""The kill matrix through the terminal: the real command in a pty with the real provider, a real SIGKILL at
each border that a story passes, and the command run again."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import hermes
from tests.crash.stories import KILLED, STORIES, WAITING, Telling, obliging, whole
from tests.crash.terminal import serving
from tests.sampling import sampled

# Until its first model call, and when its last turn is done, every story is as the plain one.
_OPENING = (
    "boot",
    "submit.before:1",
    "submit.after:1",
    "model.before:1",
)


def _is_as_plain(point: str) -> bool:
    return point.startswith((*_OPENING, "close"))


CASES = [
    (name, point)
    for name, story in STORIES.items()
    for point in story.points
    if name == "plain" or not _is_as_plain(point)
] + [("approval", WAITING)]
SAMPLE = {*random.Random("terminal").sample(CASES, 3), ("approval", WAITING), ("approval", "answer.after:1")}


def _tries(folder: Path) -> Iterator[Path]:
    """On a busy machine a story may go by another way: an answer that comes before the actor has left is
    looked up, not claimed. So it is told up to six times."""
    for number in range(6):
        place = folder / str(number)
        place.mkdir()
        yield place


@pytest.mark.parametrize(("name", "point"), sampled(CASES, SAMPLE), ids=str)
async def test_killed_there_the_next_start_goes_on(tmp_path: Path, name: str, point: str) -> None:
    for folder in _tries(tmp_path):
        with serving(obliging) as server:
            telling = Telling(story=STORIES[name], folder=folder, server=server)
            if telling.live_until(point) == KILLED:
                telling.live_on()
                assert await telling.problems() == [], "\n--- and then:\n".join(telling.screens)
                return
    pytest.fail(f"the point was never passed: {telling.passed}")


@pytest.mark.parametrize("name", sampled([(name,) for name in STORIES], {("steer",)}))
def test_no_border_is_missing(tmp_path: Path, name: str) -> None:
    """What a story passes when nobody kills it is what it is killed at."""
    for folder in _tries(tmp_path):
        with serving(obliging) as server:
            telling = Telling(story=STORIES[name], folder=folder, server=server)
            assert telling.live_until("") == 0
        words = {point for point in telling.passed if point.startswith("model.middle")}
        passed, wanted = set(telling.passed), {*STORIES[name].points, *words}
        if passed == wanted:
            return
    assert passed == wanted


def test_a_question_that_was_answered_is_not_asked_again_by_a_one_shot(tmp_path: Path) -> None:
    with serving(obliging) as server:
        telling = Telling(story=STORIES["approval"], folder=tmp_path, server=server)
        assert telling.live_until("answer.after:1") == KILLED
        said = hermes(telling.home, "--continue", "-q", "m2")
        assert said.code == 0 and whole("m1") in said.out and whole("m2") in said.out
        assert "asked" not in said.err
