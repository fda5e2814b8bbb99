"""Pairing stopped before and after each of its writes, both ways: in the end the person is in, once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from hermes.control.outbound.answers import REPEAT_MARK
from hermes.domain.settings.platforms import PlatformSettings
from hermes.testing.harness import Journey, open_settings
from hermes.testing.world import World
from tests.journeys.cut import one_life, stops
from tests.journeys.test_pairing import CODE, code_in, owner_approves

MOST_WRITES = 60
ADMIN = open_settings(platforms={"fake": PlatformSettings(allowed_users=("boss",))})


async def is_in(chat: Journey) -> bool:
    return any(one.user == "ann" for one in await chat.database.read(lambda tx: tx.pairings.list()))


def write_once(world: World, text: str, chat: str, user: str) -> None:
    if not any(update.text == text for update in world.updates):
        world.write(text, chat=chat, user=user)


async def stranger(chat: Journey) -> None:
    write_once(chat.world, "hello?", "2", "ann")
    await chat.until_seen("pairing code")
    while not await is_in(chat):
        await owner_approves(chat, code_in(chat.world.seen("2")))
    await welcomed(chat)


async def invitation(chat: Journey) -> None:
    write_once(chat.world, "/pair", "1", "boss")
    await chat.until_seen("Pairing code for fake")
    write_once(chat.world, code_in(chat.world.seen("1")), "2", "ann")
    await welcomed(chat)


async def welcomed(chat: Journey) -> None:
    await chat.until_seen("Paired!", chat="2")
    write_once(chat.world, "now?", "2", "ann")
    await chat.until_seen("You said: now?", chat="2")
    await chat.until_idle()


STORIES: dict[str, tuple[Callable[[Journey], Awaitable[None]], object]] = {
    "stranger": (stranger, open_settings(platforms={})),
    "invitation": (invitation, ADMIN),
}


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
@pytest.mark.parametrize("kind", ["edits", "plain"])
@pytest.mark.parametrize("name", STORIES)
async def test_stopped_at_each_write(tmp_path: Path, full: bool, name: str, kind: str, after: bool) -> None:
    for number in stops(full, MOST_WRITES, f"{name} {kind} {after}"):
        folder = tmp_path / str(number)
        folder.mkdir()
        world = World()
        story = STORIES[name][0]
        crashed = await one_life(_journey(folder, world, name, kind), story, stop_at=number, after=after)
        if crashed:
            await one_life(_journey(folder, world, name, kind), story)
        await _judge(folder, world, name, kind)
        if not crashed:
            return
    pytest.fail("the story never came to its end")


def _journey(folder: Path, world: World, name: str, kind: str) -> Journey:
    return Journey(folder=folder, world=world, kind=kind, settings=STORIES[name][1])  # type: ignore[arg-type]


async def _judge(folder: Path, world: World, name: str, kind: str) -> None:
    async with _journey(folder, world, name, kind) as chat:
        people = await chat.database.read(lambda tx: tx.pairings.list())
        assert [one.user for one in people] == ["ann"]
        assert await chat.database.read(lambda tx: tx.pairing_codes.list()) == []
        codes = {code for text in world.seen() for code in CODE.findall(text)}
        assert len(codes) == 1, f"one code was told, not {len(codes)}"
        answers = [text for text in world.seen("2") if "You said: now?" in text]
        assert answers and sum(REPEAT_MARK not in text for text in answers) <= 1
