"""A restart that is stopped before and after each of its writes: whatever was cut off, the next life says
what is true, once, and the unfinished answer goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hermes.control.outbound.answers import REPEAT_MARK
from hermes.control.outbound.notices import BACK, ONLINE, RESTARTED
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.settings import DisplaySettings
from hermes.domain.turns.turn import BusyMode
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import Say, last_words
from hermes.testing.world import World
from tests.journeys.cut import one_life

MOST_WRITES = 40
ASKING = "I will tell you here when I am back"


class Restart:
    """Somebody's long answer is under way, and somebody restarts the gateway."""

    def __init__(self, folder: Path, world: World, kind: str) -> None:
        self.folder, self.world, self.kind = folder, world, kind
        self.lives = 0
        self.asked = asyncio.Event()

    def script(self, request: ModelRequest) -> Say:
        hold = asyncio.Event() if self.lives == 1 else None
        return Say(text=f"answer to {last_words(request)!r}", pieces=2, hold=hold)

    def life(self) -> Journey:
        self.lives += 1
        owner = PlatformSettings(allowed_users=("u1",), home_channel="home")
        queue = DisplaySettings(busy_input_mode=BusyMode.QUEUE)
        return Journey(
            folder=self.folder,
            world=self.world,
            kind=self.kind,
            script=self.script,
            settings=open_settings(platforms={"fake": owner}, display=queue),
            restart=self.asked.set,
        )

    async def first(self, stop_at: int, *, after: bool) -> bool:
        """Until it has come to rest or is cut off at a write; whether it was."""
        chat = self.life()
        cut = await one_life(chat, self._whole, stop_at=stop_at, after=after)
        for words in ("long", "/restart")[len(self.world.updates) :]:
            self.world.write(words)
        return cut

    async def _whole(self, chat: Journey) -> None:
        self.world.write("long")
        await chat.until(lambda: bool(chat.model.requests))
        self.world.write("/restart")
        await self.asked.wait()
        await chat.gateway.stop(0.02, restarts=True)

    async def further(self) -> None:
        """Lives until nothing asks for another."""
        for _ in range(2):
            self.asked.clear()
            async with self.life() as chat:
                await chat.until_seen("answer to 'long'", ASKING)
                await chat.until_idle()
                await chat.gateway.stop(1.0, restarts=self.asked.is_set())
            if not self.asked.is_set() and BACK in map(_bare, self.world.seen()):
                return


def _bare(text: str) -> str:
    return text.replace(REPEAT_MARK, "").strip()


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
@pytest.mark.parametrize("kind", ["edits", "plain"])
async def test_stopped_at_each_write(tmp_path: Path, full: bool, kind: str, after: bool) -> None:
    cut_lives = 0
    for number in range(1, MOST_WRITES) if full else range(2, MOST_WRITES, 4):
        folder = tmp_path / str(number)
        folder.mkdir()
        world = World()
        story = Restart(folder, world, kind)
        cut = await story.first(number, after=after)
        await story.further()
        cut_lives += cut
        # A message whose sending was cut off may be there twice on a platform that cannot tell; it is marked.
        seen = [text for text in world.seen() if REPEAT_MARK not in text]
        told = f"{kind}, stopped {'after' if after else 'before'} write {number}: {world.seen()}"
        assert seen.count(BACK) + sum(BACK in text for text in world.seen() if text not in seen) >= 1, told
        assert seen.count(BACK) <= 1 and seen.count(RESTARTED) <= 1 and seen.count(ONLINE) <= 1, told
        assert sum("answer to 'long'" in text for text in seen) == 1, told
        if not cut:
            # The stop gives its messages no time: on a slow machine one is cut off, and marked for that.
            assert RESTARTED in map(_bare, world.seen()) and world.seen("home") == [ONLINE], told
            assert cut_lives > 0
            return
    raise AssertionError("it never came to its end")
