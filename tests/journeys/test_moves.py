"""A chat that gets another id takes its conversations along."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.domain.chats.address import Address
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.turns.event import UserSaid
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import Say, say
from tests.journeys.cut import cut_everywhere


def recalling(request: ModelRequest) -> Say:
    """A model that says back everything it was told."""
    said = [entry.record.text for entry in request.entries if isinstance(entry.record, UserSaid)]
    return say(" then ".join(said))


def journey(folder: Path, **listed: object) -> Journey:
    block = PlatformSettings(allow_all_users=True, **listed)  # type: ignore[arg-type]
    return Journey(folder=folder, script=recalling, settings=open_settings(platforms={"fake": block}))


async def story(chat: Journey) -> None:
    for text, more in (
        ("one", {"chat": "1", "user": "ann"}),
        ("two", {"chat": "1", "user": "bob"}),
        ("9", {"chat": "1", "user": "ann", "moves": True}),
        ("three", {"chat": "9", "user": "ann"}),
        ("four", {"chat": "9", "user": "bob"}),
    ):
        if all(update.text != text for update in chat.world.updates):
            chat.world.write(text, kind="group", **more)  # type: ignore[arg-type]
        await chat.until_taken()
        await chat.until_idle()
    assert sorted(chat.world.seen("9")) == ["one then three", "two then four"]
    assert sorted(chat.world.seen("1")) == ["one", "two"]


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
async def test_conversations_go_along_however_it_is_stopped(tmp_path: Path, full: bool, after: bool) -> None:
    await cut_everywhere(tmp_path, journey, story, after=after, full=full)


async def test_a_home_goes_along_and_a_chat_beside_it_stays(tmp_path: Path) -> None:
    async with journey(tmp_path) as chat:
        old, other = (Address(platform="fake", chat=name) for name in ("1", "2"))
        await chat.database.write(lambda tx: tx.directory.set_home("fake", old, chat.clock.now()))
        await chat.database.write(lambda tx: tx.directory.set_home("fake@work", other, chat.clock.now()))
        chat.world.write("9", kind="group", moves=True)
        await chat.until_taken()
        homes = await chat.database.read(lambda tx: tx.directory.homes())
        assert homes == {"fake": Address(platform="fake", chat="9"), "fake@work": other}
        assert chat.world.seen() == [], "nobody listed it, so nobody has to change anything"


async def test_lists_that_name_the_old_id_are_told(tmp_path: Path) -> None:
    async with journey(tmp_path, allowed_chats=("1", "2"), free_response_channels=("1", "9")) as chat:
        chat.world.write("9", kind="group", moves=True)
        await chat.until_seen("the settings still say 1 in allowed_chats.")
