"""Where messages go: home channels, chats by name, and what is said of a chat that cannot be reached."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from hermes.control.outbound.answers import REPEAT_MARK
from hermes.control.outbound.outbox_admin import drop_messages, retry_messages
from hermes.control.outbound.targets import known_targets, resolve_targets
from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Body
from hermes.domain.chats.rows import OutboxRow, OutState
from hermes.domain.errors import Refused, UserError
from hermes.domain.ports.store import Tx
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.word import replace
from hermes.testing.harness import Journey, open_settings
from hermes.testing.world import World
from tests.journeys.cut import one_life, stops

MOST_WRITES = 40


def with_home(home: str = "home") -> PlatformSettings:
    """The operator let `u1` in by name: such a person may choose the home channel."""
    return PlatformSettings(allow_all_users=True, allowed_users=("u1",), home_channel=home)


HOMELESS = open_settings(platforms={"fake": with_home("")})


async def find(chat: Journey, text: str) -> list[str]:
    found = await chat.database.read(
        lambda tx: resolve_targets(text, known_targets(tx, chat.settings, ["fake"], {}))
    )
    return [str(address) for address in found]


async def test_a_chat_becomes_the_home_channel_and_stays_it(tmp_path: Path) -> None:
    world = World()
    settings = open_settings(platforms={"fake": with_home()})
    async with Journey(folder=tmp_path, world=world, settings=settings) as chat:
        assert await find(chat, "fake") == ["fake:home"]
        world.write("/sethome", chat="9")
        await chat.until_seen("This chat is now the home channel of fake", chat="9")
        world.write("/sethome now", chat="9")
        await chat.until_seen("/sethome takes no “now”.", chat="9")
    async with Journey(folder=tmp_path, world=world, settings=settings) as chat:
        assert await find(chat, "fake") == ["fake:9"]
        world.write("/set-home off", chat="9")
        await chat.until_seen("no longer the home channel of fake; it is fake:home again", chat="9")
        assert await find(chat, "fake") == ["fake:home"]
        world.write("/sethome off", chat="9")
        await chat.until_seen("No home channel was chosen for fake.", chat="9")


async def test_only_an_admin_chooses_the_home_channel(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, settings=HOMELESS) as chat:
        chat.world.write("/sethome", chat="9", user="guest")
        [told] = await chat.until_seen("You may not use /sethome here.", chat="9")
        assert "the operator names them in fake.allow_admin_from" in told
        assert await chat.database.read(lambda tx: tx.directory.homes()) == {}
        chat.world.write("/help", chat="9", user="guest")
        await chat.until_seen("/whoami", chat="9")
        assert not any("/sethome [off]" in seen for seen in chat.world.seen("9"))


async def test_a_topic_can_be_the_home_channel(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, settings=HOMELESS) as chat:
        chat.world.write("/sethome", chat="9", thread="7", kind="thread")
        await chat.until_seen("now the home channel")
        assert await find(chat, "fake") == ["fake:9:7"]


async def test_chats_are_known_by_the_names_they_have(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path) as chat:
        chat.world.write("hello", chat="5", user="u5", chat_name="Ops", kind="group", guild="Acme")
        chat.world.write("hello", chat="6", user="Ann")
        await chat.until_idle()
        assert await find(chat, "fake:#ops, fake:acme/ops, fake:ann") == ["fake:5", "fake:6"]
        chat.world.write("we have a new name", chat="5", user="u5", chat_name="Operators", kind="group")
        await chat.until_idle()
        assert await find(chat, "fake:operators") == ["fake:5"]


async def test_who_may_not_speak_is_not_in_the_directory(tmp_path: Path) -> None:
    settings = open_settings(platforms={"fake": PlatformSettings(allowed_users=("ann",))})
    async with Journey(folder=tmp_path, settings=settings) as chat:
        chat.world.write("hello", chat="5", user="stranger", chat_name="Spam")
        await chat.until_idle()
        assert await chat.database.read(lambda tx: tx.directory.channels()) == []


def refusing(*chats: str) -> World:
    return World(trouble=lambda what, chat: Refused("blocked") if what == "send" and chat in chats else None)


async def test_a_dead_target_is_reported_where_home_was_set_and_tried_again_by_the_next_message(
    tmp_path: Path,
) -> None:
    world = refusing("gone")
    async with Journey(folder=tmp_path, world=world, kind="plain", settings=HOMELESS) as chat:
        world.write("/sethome", chat="9")
        await chat.until_seen("now the home channel", chat="9")
        world.write("hello", chat="gone", user="a")
        seen = await chat.until_seen("A message to fake:gone could not be delivered (blocked)", chat="9")
        assert len(seen) == 2
        world.trouble = None
        world.write("again", chat="gone", user="a")
        await chat.until_seen("You said: again", chat="gone")
        await chat.until_idle()
        assert len(world.seen("9")) == 2


async def test_a_home_that_is_dead_itself_is_reported_nowhere(tmp_path: Path) -> None:
    world = refusing("home", "gone")
    settings = open_settings(platforms={"fake": with_home()})
    async with Journey(folder=tmp_path, world=world, kind="plain", settings=settings) as chat:
        world.write("hello", chat="gone", user="a")
        world.write("hello", chat="home", user="b")
        await chat.until_taken()
        await chat.until_idle()
        dead = await chat.database.read(lambda tx: tx.outbox.find((OutState.DEAD,)))
        assert sorted((str(row.to), row.key.startswith("report:")) for row in dead) == [
            ("fake:gone", False),
            ("fake:home", False),
            ("fake:home", True),
        ]


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
async def test_a_report_is_made_once_whenever_the_gateway_is_stopped(
    tmp_path: Path, full: bool, after: bool
) -> None:
    for number in stops(full, MOST_WRITES, f"{after}"):
        folder = tmp_path / str(number)
        folder.mkdir()
        world = refusing("gone")
        world.write("/sethome", chat="9")
        life = partial(Journey, folder=folder, world=world, kind="plain", settings=HOMELESS)
        crashed = await one_life(life(), _read_report, stop_at=number, after=after)
        if crashed:
            await one_life(life(), _read_report)
        seen = world.seen("9")
        where = f"stopped {'after' if after else 'before'} write {number}: {seen}"
        for told in ("A message to fake:gone could not be delivered", "This chat is now the home channel"):
            heard = [REPEAT_MARK in text for text in seen if told in text]
            assert heard and heard.count(False) <= 1, where
        if not crashed:
            return
    raise AssertionError("it never came to the end of its writes")


async def _read_report(chat: Journey) -> None:
    await chat.until_seen("now the home channel", chat="9")
    if not any(update.chat == "gone" for update in chat.world.updates):
        chat.world.write("hello", chat="gone", user="a")
    await chat.until_seen("A message to fake:gone could not be delivered", chat="9")
    await chat.until_idle()
    assert await find(chat, "fake") == [str(Address.parse("fake:9"))]


async def test_an_attempt_that_nobody_makes_any_more_can_be_dropped_or_made_again(tmp_path: Path) -> None:
    """A crash leaves a row as being attempted; while its account is up a lane looks after it by itself."""
    row = OutboxRow(
        key="k1", to=Address.parse("fake:9"), body=Body(text="hello"), created_at=datetime.now(UTC)
    )

    def cut_off(tx: Tx) -> None:
        tx.outbox.add(row)
        tx.outbox.save(replace(row, state=OutState.ATTEMPTING, attempts=1))

    async with Journey(folder=tmp_path, kind="plain") as chat:
        await chat.disconnect()
        await chat.database.write(cut_off)
        sends = chat.gateway.delivery.sends
        with pytest.raises(UserError, match="being sent at this moment"):
            await chat.database.write(lambda tx: drop_messages(tx, ["k1"], lambda to: True))
        now = chat.clock.now()
        await chat.database.write(lambda tx: retry_messages(tx, ["k1"], now, sends))
        chat.connect()
        [seen] = await chat.until_seen("hello", chat="9")
        assert seen.startswith(REPEAT_MARK)
        await chat.until_idle()
        await chat.disconnect()
        await chat.database.write(lambda tx: tx.outbox.save(replace(row, state=OutState.ATTEMPTING)))
        await chat.database.write(lambda tx: drop_messages(tx, ["k1"], sends))
        chat.connect()
        await chat.until_idle()
        assert chat.world.seen("9") == [seen]
