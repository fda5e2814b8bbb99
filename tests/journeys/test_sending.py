"""The agent writes to another chat: once, whatever happens, and that chat's session knows of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from hermes.control.outbound.answers import REPEAT_MARK
from hermes.control.outbound.sending import OutboundMessage
from hermes.domain.chats.address import Address
from hermes.domain.chats.channels import KnownChannels, MessagingPort
from hermes.domain.chats.message import Body
from hermes.domain.ids import MAIN_AGENT, AgentId, TurnId
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.tools.tool import ToolContext
from hermes.domain.turns.event import Entry, Finished, ModelSaid, ToolFinished, UserSaid
from hermes.testing.backends import NoBackend, fixed_scope
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import Say, call, last_words, say
from hermes.testing.tools import tool_services, tools_of
from hermes.testing.world import World
from tests.journeys.cut import one_life, stops

MOST_WRITES = 60
HOME = PlatformSettings(allow_all_users=True, allow_admin_from=("*",), home_channel="home")
ADMINS = PlatformSettings(allow_all_users=True, allow_admin_from=("*",))


def by_words(request: ModelRequest) -> Say:
    """“tell <target>: <text>” is sent, “list” is looked up, everything else is answered."""
    words = last_words(request)
    place = max(n for n, entry in enumerate(request.entries) if isinstance(entry.record, UserSaid))
    results = [entry.record for entry in request.entries[place:] if isinstance(entry.record, ToolFinished)]
    if results:
        return say(f"done: {results[-1].text}")
    if words.startswith("tell "):
        target, _, text = words.removeprefix("tell ").partition("; ")
        return call("send_message", json.dumps({"target": target, "message": text}), id="c1")
    if words == "list":
        return call("send_message", '{"action": "list"}', id="c1")
    return say(f"answer to {words!r}")


def journey(folder: Path, world: World, **more: Any) -> Journey:
    """A gateway whose agent has `send_message`, for admins."""
    more.setdefault("settings", open_settings(platforms={"fake": ADMINS}))
    chat = Journey(folder=folder, world=world, script=by_words, **more)

    async def send(context: ToolContext, target: str, text: str) -> Sequence[Address]:
        letter = OutboundMessage(key=context.key, target=target, body=Body(text=text), turn=context.turn)
        return (await chat.gateway.courier.post(context.agent, letter)).to

    async def places(context: ToolContext) -> KnownChannels:
        known = await chat.gateway.courier.known(context.agent, context.turn)
        return KnownChannels(homes=known.homes, channels=known.channels)

    async def spelled(agent: AgentId, turn: TurnId, target: str) -> Sequence[Sequence[str]]:
        return await chat.gateway.courier.spelled(agent, turn, target)

    bench = tool_services(
        backend=cast(Any, NoBackend()),
        recall=cast(Any, None),
        scope_in=fixed_scope(),
        post=MessagingPort(send=send, places=places, spelled=spelled),
    )
    chat.tools = tools_of(bench, "messaging")
    return chat


async def transcript(chat: Journey, address: str) -> list[Entry]:
    [session] = await chat.database.scoped(MAIN_AGENT).read(
        lambda tx: tx.directory.bound(Address.parse(address))
    )
    return await chat.database.scoped(MAIN_AGENT).read(lambda tx: tx.journal.read(session))


async def test_the_agent_writes_to_another_chat_and_knows_it_there(tmp_path: Path) -> None:
    async with journey(tmp_path, World(), kind="plain") as chat:
        chat.world.write("hello", chat="5", user="Ann")
        await chat.until_seen("answer to 'hello'", chat="5")
        chat.world.write("tell fake:ann; dinner at eight", chat="1", user="Bob")
        await chat.until_seen("done: On its way to fake:5.", chat="1")
        await chat.until_seen("dinner at eight", chat="5")
        await chat.until_idle()
        assert chat.world.seen("5") == ["answer to 'hello'", "dinner at eight"]
        records = [entry.record for entry in await transcript(chat, "fake:5")]
        assert records[-2:] == [ModelSaid(text="dinner at eight"), Finished()]
        chat.world.write("with pleasure", chat="5", user="Ann")
        await chat.until_seen("answer to 'with pleasure'", chat="5")
        told = [getattr(entry.record, "text", "") for entry in chat.model.requests[-1].entries]
        assert "dinner at eight" in told


@pytest.mark.parametrize("target", ["fake:5", "fake:ann", "fake", "fake:1, fake:5", "all", "fake:5:7"])
async def test_a_stranger_writes_to_no_other_chat(tmp_path: Path, target: str) -> None:
    """Also if the chat was named: a stranger names what a stranger likes."""
    fake = PlatformSettings(allow_all_users=True, allow_admin_from=("Ann",), home_channel="5")
    settings = open_settings(platforms={"fake": fake})
    async with journey(tmp_path, World(), kind="plain", settings=settings) as chat:
        chat.world.write("hello", chat="5", user="Ann")
        await chat.until_seen("answer to 'hello'", chat="5")
        chat.world.write(f"tell {target}; send me your password", chat="1", user="Bob")
        why = (
            "no chat called" if target == "fake:ann" else "only the owner and admins have words sent to other"
        )
        await chat.until_seen(why, chat="1")
        chat.world.write("list", chat="1", user="Bob")
        await chat.until_seen("done: Bob (fake:1)", chat="1")
        chat.world.write("tell origin; dinner", chat="1", user="Bob")
        await chat.until_seen("done: On its way to fake:1.", chat="1")
        chat.world.write("tell fake:1; the oven is hot", chat="5", user="Ann")
        await chat.until_seen("done: On its way to fake:1.", chat="5")
        await chat.until_idle()
        assert "password" not in "\n".join(chat.world.seen("5"))
        assert not any("Ann" in text for text in chat.world.seen("1"))
        assert "the oven is hot" in chat.world.seen("1") and "dinner" in chat.world.seen("1")


async def test_a_word_that_begins_a_name_does_not_name_the_chat(tmp_path: Path) -> None:
    async with journey(tmp_path, World(), kind="plain") as chat:
        chat.world.write("hello", chat="5", user="Ann")
        await chat.until_seen("answer to 'hello'", chat="5")
        chat.world.write("tell fake:an; is there an annual report?", chat="1", user="Bob")
        await chat.until_seen("Send a message to fake:an", chat="1")
        assert chat.world.seen("5") == ["answer to 'hello'"]


async def test_targets_that_are_not_there_are_told_to_the_agent_and_nothing_is_sent(tmp_path: Path) -> None:
    async with journey(tmp_path, World(), kind="plain") as chat:
        for target, told in (
            ("fake:#nowhere", "fake has no chat called “#nowhere”"),
            ("fax:1", "There is no platform “fax”"),
            ("fake", "fake has no home channel"),
            ("local", "“local” is no chat"),
        ):
            chat.world.write(f"tell {target}; words")
            await chat.until_seen(told)
        chat.world.write("tell fake:5; ")
        await chat.until_seen("There is nothing to send.")
        await chat.until_idle()
        assert {message.chat for message in chat.world.messages.values()} == {"1"}


async def test_home_channels_lists_and_origin(tmp_path: Path) -> None:
    settings = open_settings(platforms={"fake": HOME})
    async with journey(tmp_path, World(), kind="plain", settings=settings) as chat:
        chat.world.write("tell fake, fake:77, origin; news", chat="1", user="Bob")
        await chat.until_seen("done: On its way to fake:home, fake:77, fake:1.")
        await chat.until_idle()
        assert [chat.world.seen(where).count("news") for where in ("home", "77", "1")] == [1, 1, 1]
        chat.world.write("list", chat="1", user="Bob")
        await chat.until_seen("fake (its home channel, fake:home)", "Bob (fake:1)")


async def test_a_chat_of_several_people_is_written_to_and_nobodys_session_told(tmp_path: Path) -> None:
    async with journey(tmp_path, World(), kind="plain") as chat:
        for user in ("Ann", "Cem"):
            chat.world.write("hello", chat="5", user=user, kind="group")
        await chat.until_idle()
        chat.world.write("tell fake:5; dinner", chat="1", user="Bob")
        await chat.until_seen("dinner", chat="5")
        await chat.until_idle()

        def said(tx: Any) -> list[object]:
            sessions = tx.directory.bound(Address.parse("fake:5"))
            return [entry.record for session in sessions for entry in tx.journal.read(session)]

        records = await chat.database.scoped(MAIN_AGENT).read(said)
        assert not any(isinstance(record, ModelSaid) and record.text == "dinner" for record in records)


async def test_a_letter_with_the_same_key_is_the_same_letter(tmp_path: Path) -> None:
    async with journey(tmp_path, World(), kind="plain") as chat:
        first = await chat.gateway.courier.post(
            MAIN_AGENT, OutboundMessage(key="k", target="fake:5", body=Body(text="once"))
        )
        again = await chat.gateway.courier.post(
            MAIN_AGENT, OutboundMessage(key="k", target="fake:6", body=Body(text="once more"))
        )
        assert (first.fresh, again.fresh, again.to) == (True, False, first.to)
        await chat.until_idle()
        assert chat.world.seen() == ["once"]


async def test_a_long_letter_comes_whole_in_parts_that_fit(tmp_path: Path) -> None:
    text = "\n\n".join(f"Paragraph {number}: " + "lorem ipsum " * 40 for number in range(40))
    async with journey(tmp_path, World(), kind="plain") as chat:
        await chat.gateway.courier.post(
            MAIN_AGENT, OutboundMessage(key="k", target="fake:5", body=Body(text=text))
        )
        await chat.until_seen("Paragraph 39")
        seen = chat.world.seen("5")
        assert len(seen) > 3 and all(len(part) <= 4096 for part in seen)


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
async def test_stopped_at_each_write_it_is_sent_once(tmp_path: Path, full: bool, after: bool) -> None:
    for number in stops(full, MOST_WRITES, f"{after}"):
        folder = tmp_path / str(number)
        folder.mkdir()
        world = World()
        world.write("hello", chat="5", user="Ann")
        crashed = await one_life(journey(folder, world, kind="plain"), _tell_ann, stop_at=number, after=after)
        if crashed:
            await one_life(journey(folder, world, kind="plain"), _tell_ann)
        where = f"stopped {'after' if after else 'before'} write {number}: {world.seen()}"
        dinners = [REPEAT_MARK in text for text in world.seen("5") if "dinner" in text]
        assert dinners and dinners.count(False) <= 1, where
        if not crashed:
            return
    raise AssertionError("it never came to the end of its writes")


async def _tell_ann(chat: Journey) -> None:
    await chat.until_seen("answer to 'hello'", chat="5")
    if not any(update.chat == "1" for update in chat.world.updates):
        chat.world.write("tell fake:ann; dinner", chat="1", user="Bob")
    await chat.until_seen("done: On its way to fake:5.", chat="1")
    await chat.until_seen("dinner", chat="5")
    await chat.until_idle()
    records = [entry.record for entry in await transcript(chat, "fake:5")]
    assert records.count(ModelSaid(text="dinner")) == 1
