"""The answer was written over its draft, the gateway died before it could note that, and meanwhile somebody
deleted the message: it is said again, and whoever saw it before is told that it may be a repeat."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

from hermes.control.outbound.answers import REPEAT_MARK
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.word import replace
from hermes.testing.harness import Journey
from hermes.testing.model import Say
from hermes.testing.world import Deed, World
from tests.journeys.cut import MOST_WRITES, one_life

ANSWER = "You said: hello"


def _when_shown(world: World, request: ModelRequest) -> Say:
    """It ends when its beginning is shown."""

    async def shown() -> None:
        while not world.messages:  # noqa: ASYNC110
            await asyncio.sleep(0.001)

    return Say(text=ANSWER, pieces=2, beat=shown)


async def test_what_stood_in_a_deleted_draft_is_marked(tmp_path: Path) -> None:
    met = 0
    for number in range(1, MOST_WRITES):
        folder = tmp_path / str(number)
        folder.mkdir()
        world = World()

        chat = Journey(folder=folder, world=world, script=partial(_when_shown, world))

        async def live(chat: Journey) -> None:
            if not chat.world.updates:
                chat.world.write("hello")
            await chat.until_seen(ANSWER)
            await chat.until_idle()

        if not await one_life(chat, live, stop_at=number, after=False):
            break
        # An edit that was the final, as against one of the draft on its way.
        before = [one for one in world.did(Deed.EDITED) if one.text == ANSWER]
        sent = len(world.did(Deed.SENT))
        for ref in list(world.messages):
            await world.delete(ref)
        if not before:
            continue
        await one_life(replace(chat, wrap_store=lambda store: store), Journey.until_idle)
        again = world.did(Deed.SENT)[sent:]
        met += bool(again)
        assert all(REPEAT_MARK in one.text for one in again), f"stopped before write {number}: {again}"
    assert met, "it never came to that"
