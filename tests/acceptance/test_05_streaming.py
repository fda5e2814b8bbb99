"""An answer as it comes: a draft with its cursor and its pace, floods, long answers in parts that fit with
their code whole; one message where nothing can be edited."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from hermes.domain.errors import HermesError, Unreachable
from hermes.domain.settings.settings import StreamingSettings
from hermes.testing.clock import FakeClock
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import Say
from hermes.testing.platform import KINDS as PLATFORMS
from hermes.testing.world import Deed, World
from tests.acceptance.telling import KINDS, counted, seen_once, write
from tests.journeys.cut import cut_everywhere

CODE = "```python\n" + "\n".join(f"line_{number} = {number} * 'x'  # 🎈" for number in range(400)) + "\n```"
LONG = f"Here it is:\n\n{CODE}\n\nThat was it."


def tell(_: object) -> Say:
    return Say(text=LONG, pieces=4)


async def talk(chat: Journey) -> None:
    write(chat.world, "tell me")
    await chat.until_seen("That was it.")
    await chat.until_idle()
    fits = PLATFORMS[chat.kind].max_text
    parts = chat.world.seen()
    assert len(parts) > 2 and all(len(part) <= fits for part in parts)
    if chat.kind == "edits":
        assert all(part.count("```") % 2 == 0 for part in parts), "a fence is closed where its part ends"
    for number in (0, 199, 399):
        seen_once(chat.world, f"line_{number} = ")
    order = [part for part in parts if counted(chat.world, part) == 1]
    assert order == sorted(order, key=parts.index)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_long_answer_in_parts_with_its_code_whole(tmp_path: Path, kind: str) -> None:
    async with Journey(folder=tmp_path, kind=kind, script=tell) as chat:
        await talk(chat)
        if kind != "edits":
            assert not chat.world.did(Deed.EDITED), "where nothing can be edited each part comes once, ready"
            assert len(chat.world.did(Deed.SENT)) == len(chat.world.seen())


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
async def test_stopped_at_each_write(tmp_path: Path, full: bool, after: bool) -> None:
    await cut_everywhere(
        tmp_path, lambda folder: Journey(folder=folder, script=tell), talk, after=after, full=full
    )


class Watched:
    """When, by the clock, the platform was asked to edit; the first `floods` times it refuses."""

    def __init__(self, clock: FakeClock, floods: int = 0) -> None:
        self.at: list[float] = []
        self._clock, self._floods = clock, floods

    def __call__(self, what: str, chat: str) -> HermesError | None:
        if what != "edit":
            return None
        self.at.append(self._clock.monotonic())
        return Unreachable("too fast") if len(self.at) <= self._floods else None


async def slowly(folder: Path, clock: FakeClock, watched: Watched) -> Journey:
    """Forty words, one a second, in a chat that is edited every two seconds at most."""
    chat = Journey(
        folder=folder,
        clock=clock,
        world=World(trouble=watched),
        settings=open_settings(streaming=StreamingSettings(edit_interval=2.0, buffer_threshold=1)),
        script=[Say(text="word " * 40, pieces=40, beat=lambda: clock.sleep(1.0))],
    )
    async with chat:
        chat.world.write("talk")
        await chat.until_seen("▉")
        for _ in range(60):
            await clock.advance(1.0)
        await chat.until_idle()
    assert chat.world.seen() == [("word " * 40).strip()]
    assert len(chat.world.did(Deed.SENT)) == 1
    return chat


async def test_a_draft_with_its_cursor_and_its_pace(tmp_path: Path) -> None:
    clock = FakeClock()
    watched = Watched(clock)
    chat = await slowly(tmp_path, clock, watched)
    drafts = [entry.text for entry in chat.world.did(Deed.EDITED)][:-1]
    assert len(drafts) >= 5 and all(text.endswith("▉") for text in drafts)
    pauses = [later - sooner for sooner, later in pairwise(watched.at[:-1])]
    assert min(pauses) >= 2.0, "never faster than the interval"


async def test_three_floods_end_the_draft_and_the_whole_answer_comes(tmp_path: Path) -> None:
    clock = FakeClock()
    watched = Watched(clock, floods=3)
    await slowly(tmp_path, clock, watched)
    pauses = [later - sooner for sooner, later in pairwise(watched.at)]
    assert len(watched.at) == 4, "three floods, nothing more while it speaks, and the whole answer"
    assert pauses[1] > pauses[0] >= 2.0, "each flood makes the pauses longer"
