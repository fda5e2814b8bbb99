"""A stranger gets a code, the owner approves it, and the next message is answered. Six wrong codes lock."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.testing.clock import FakeClock
from hermes.testing.harness import Journey, open_settings
from tests.acceptance.telling import KINDS, seen_once, write
from tests.journeys.cut import cut_everywhere
from tests.journeys.test_pairing import CODE, code_in, owner_approves

CLOSED = open_settings(platforms={})


async def talk(chat: Journey) -> None:
    write(chat.world, "hello?", user="ann")
    await chat.until_seen("I do not know you yet.")
    while not await chat.database.read(lambda tx: tx.pairings.list()):
        await owner_approves(chat, code_in(chat.world.seen()))
    await chat.until_seen("Paired! You can talk to me now.")
    write(chat.world, "and now?", user="ann")
    await chat.until_seen("You said: and now?")
    await chat.until_idle()
    assert len({code for text in chat.world.seen() for code in CODE.findall(text)}) == 1
    assert [one.user for one in await chat.database.read(lambda tx: tx.pairings.list())] == ["ann"]
    seen_once(chat.world, "Paired!", "You said: and now?")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_stranger_is_let_in(tmp_path: Path, kind: str) -> None:
    async with Journey(folder=tmp_path, kind=kind, settings=CLOSED) as chat:
        await talk(chat)


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
async def test_stopped_at_each_write(tmp_path: Path, full: bool, after: bool) -> None:
    def make(folder: Path) -> Journey:
        return Journey(folder=folder, kind="plain", settings=CLOSED)

    await cut_everywhere(tmp_path, make, talk, after=after, full=full)


async def test_six_wrong_codes_lock_the_platform_also_over_a_crash(tmp_path: Path) -> None:
    clock = FakeClock()
    chat = Journey(folder=tmp_path, settings=CLOSED, clock=clock)
    async with chat:
        chat.world.write("hello?", user="ann")
        code = code_in(await chat.until_seen("pairing code"))
        for wrong in ("AAAAAAAA", "BBBBBBBB", "CCCCCCCC"):
            assert (await owner_approves(chat, wrong)).paired is None
        await chat.abandon()
    async with Journey(folder=tmp_path, settings=CLOSED, clock=clock, world=chat.world) as chat:
        for wrong in ("DDDDDDDD", "EEEEEEEE", "FFFFFFFF"):
            locked = await owner_approves(chat, wrong)
        assert "locked" in locked.text
        assert (await owner_approves(chat, code)).paired is None, "even the right code is not heard now"
        clock.jump(3601)
        chat.world.write("hello again?", user="ann")
        await chat.until(lambda: sum("pairing code" in text for text in chat.world.seen()) == 2)
        assert (await owner_approves(chat, code_in(chat.world.seen()))).paired is not None
