"""Topics of a private chat by their names: made when they are needed, kept over restarts, made anew once they
are gone, and whatever happens in between no message is lost or comes twice without a word."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path

import pytest

from hermes.control.outbound.answers import REPEAT_MARK
from hermes.control.outbound.sending import OutboundMessage
from hermes.control.outbound.targets import NamedTopics, find_topic
from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Body
from hermes.domain.chats.rows import OutState
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.ports.platform import Platform
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.word import replace
from hermes.testing.harness import Journey
from hermes.testing.model import echo
from hermes.testing.platform_suite import Shown, until
from tests.journeys.cut import cut_everywhere
from tests.journeys.test_handoff import Terminal
from tests.platforms.telegram.bed import TelegramBed
from tests.platforms.telegram.test_journeys import SETTINGS

NEWS = Address(platform="telegram", chat="501", thread="Daily news")


@dataclass(slots=True, kw_only=True)
class TopicJourney(Journey):
    """Each life keeps the names in its own store."""

    bed: TelegramBed

    def _made(self) -> Platform:
        self.bed.topics = NamedTopics(store=self.store, clock=self.clock)
        return self.bed.connect()


def journey(bed: TelegramBed, folder: Path) -> Journey:
    return TopicJourney(
        bed=bed,
        folder=folder,
        account="telegram",
        connect_platform=bed.connect,
        settings=SETTINGS,
        script=echo,
    )


async def send(chat: Journey, bed: TelegramBed, text: str, to: Address = NEWS) -> Shown:
    """Post a letter, once however often it is called, and wait for it."""
    letter = OutboundMessage(key=text, target=str(to), body=Body(text=text))
    await chat.gateway.courier.post(MAIN_AGENT, letter)
    await chat.until_idle()
    await until(lambda: bool(seen(bed, text, to)), lambda: f"people see {bed.shown()}")
    return seen(bed, text, to)[-1]


def seen(bed: TelegramBed, text: str, to: Address = NEWS) -> list[Shown]:
    return [one for one in bed.shown() if one.chat == to.chat and one.text.endswith(text)]


async def said_in(bed: TelegramBed, thread: str | None, text: str) -> Shown:
    """A person writes in a topic; the whole answer."""
    bed.server.say(501, text, message_thread_id=int(thread or 0), is_topic_message=True)

    def answers() -> list[Shown]:
        return [one for one in bed.shown() if one.text.startswith("You said") and text in one.text]

    await until(lambda: bool(answers()), lambda: f"people see {bed.shown()}")
    return answers()[0]


def told(chat: Journey) -> list[str]:
    return [str(getattr(entry.record, "text", "")) for entry in chat.model.requests[-1].entries]


async def test_a_topic_is_made_by_its_name_and_is_a_conversation(tmp_path: Path) -> None:
    async with TelegramBed() as bed:
        async with journey(bed, tmp_path) as chat:
            first = await send(chat, bed, "one")
            assert bed.server.topics == {int(first.thread or 0): "Daily news"}
            assert (await said_in(bed, first.thread, "what is it?")).thread == first.thread
            assert (await send(chat, bed, "two")).thread == first.thread
            await said_in(bed, first.thread, "and now?")
            assert "two" in told(chat) and "what is it?" in told(chat), "it knows what was sent there"
        async with journey(bed, tmp_path) as again:
            assert (await send(again, bed, "three")).thread == first.thread, "forgotten with the process"
            assert len(bed.server.topics) == 1
            names = {
                one.address: one.name for one in (await again.gateway.courier.known(MAIN_AGENT)).channels
            }
            assert names[Address(platform="telegram", chat="501", thread=first.thread)] == "Daily news"


async def test_a_topic_that_is_gone_is_made_anew_and_the_conversation_goes_on(tmp_path: Path) -> None:
    async with TelegramBed() as bed, journey(bed, tmp_path) as chat:
        first = await send(chat, bed, "one")
        await said_in(bed, first.thread, "remember the cat")
        bed.server.closed.add(int(first.thread or 0))
        second, third = await send(chat, bed, "two"), await send(chat, bed, "three")
        assert first.thread != second.thread == third.thread
        assert list(bed.server.topics.values()) == ["Daily news"] * 2
        await said_in(bed, second.thread, "what did I say?")
        assert "remember the cat" in told(chat) and "three" in told(chat)
        # Its number still means the topic that took its place.
        assert (await send(chat, bed, "four", replace(NEWS, thread=first.thread))).thread == second.thread
        assert len(bed.shown()) == 6 and not any(REPEAT_MARK in one.text for one in bed.shown())


async def test_the_name_and_the_number_of_a_topic_are_one_lane(tmp_path: Path) -> None:
    async with TelegramBed() as bed, journey(bed, tmp_path) as chat:
        first = await send(chat, bed, "one")
        numbered = replace(NEWS, thread=first.thread)
        await chat.disconnect()
        for text, to in (("two", numbered), ("three", NEWS), ("four", numbered), ("five", NEWS)):
            letter = OutboundMessage(key=text, target=str(to), body=Body(text=text))
            posted = await chat.gateway.courier.post(MAIN_AGENT, letter)
            assert posted.to == (numbered,)
        both = OutboundMessage(key="six", target=f"{NEWS},{numbered}", body=Body(text="six"))
        assert (await chat.gateway.courier.post(MAIN_AGENT, both)).to == (numbered,), "it is one place"
        chat.connect()
        await chat.until_idle()
        assert [one.text for one in bed.shown()] == ["one", "two", "three", "four", "five", "six"]
        assert {one.thread for one in bed.shown()} == {first.thread}


async def test_behind_the_first_messages_to_a_name_others_wait_by_name(tmp_path: Path) -> None:
    """While they are on their way the topic may be there already."""
    async with TelegramBed() as bed, journey(bed, tmp_path) as chat:
        await chat.disconnect()

        async def post(text: str) -> Address:
            letter = OutboundMessage(key=text, target=str(NEWS), body=Body(text=text))
            return (await chat.gateway.courier.post(MAIN_AGENT, letter)).to[0]

        assert await post("one") == NEWS
        opened = await chat.platform.open_thread(replace(NEWS, thread=None), "Daily news")  # type: ignore[attr-defined]
        await bed.topics.keep(NEWS, opened)
        assert await post("two") == NEWS
        chat.connect()
        await chat.until_idle()
        assert await post("three") == opened
        await chat.until_idle()
        assert [(one.text, one.thread) for one in bed.shown()] == [
            (text, opened.thread) for text in ("one", "two", "three")
        ]


async def test_a_conversation_is_handed_over_where_a_topic_is_the_home(tmp_path: Path) -> None:
    block = PlatformSettings(allow_all_users=True, home_channel="501", home_thread="Daily news")
    settings = replace(SETTINGS, platforms={"telegram": block})
    async with TelegramBed() as bed, replace(journey(bed, tmp_path), settings=settings) as chat:
        home = await send(chat, bed, "one", NEWS)
        await chat.gateway.courier.post(
            MAIN_AGENT, OutboundMessage(key="2", target="telegram", body=Body(text="two"))
        )
        await until(lambda: bool(seen(bed, "two")), "the home channel is not reached")
        assert seen(bed, "two")[0].thread == home.thread
        terminal = Terminal(chat)
        await terminal.say("plan the garden")
        assert "goes on in telegram:501:" in (await terminal.command("/handoff telegram")).text
        (number,) = [thread for thread, name in bed.server.topics.items() if name == "plan the garden"]
        await said_in(bed, str(number), "and the roses?")
        assert "plan the garden" in told(chat), "what is written there is another conversation"


async def test_names_are_of_one_chat_and_groups_have_none(tmp_path: Path) -> None:
    async with TelegramBed() as bed, journey(bed, tmp_path) as chat:
        other = Address(platform="telegram", chat="502", thread="Daily news")
        bed.server.chat(502)
        assert (await send(chat, bed, "one")).thread != (await send(chat, bed, "two", other)).thread
        bed.server.has_topics = False
        for target, why in (("telegram:501:More", "BotFather"), ("telegram:-1001234567890:More", "number")):
            letter = OutboundMessage(key=target, target=target, body=Body(text="x"))
            await chat.gateway.courier.post(MAIN_AGENT, letter)
            await chat.until_idle()
            (row,) = await chat.database.read(lambda tx, key=letter.prefix: tx.outbox.begun(key))
            assert row.state is OutState.DEAD and why in row.error


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
async def test_no_message_to_a_topic_is_lost_however_it_is_stopped(
    tmp_path: Path, full: bool, after: bool
) -> None:
    numbers = itertools.count(3000)
    async with TelegramBed() as bed:
        places: dict[Path, Address] = {}

        def make(folder: Path) -> Journey:
            number = next(numbers)
            bed.server.chat(number)
            places[folder] = Address(platform="telegram", chat=str(number), thread="Daily news")
            return journey(bed, folder)

        async def live(chat: Journey) -> None:
            to = places[chat.folder]
            first = await send(chat, bed, "one", to)
            if not seen(bed, "two", to):
                bed.server.closed.add(int(first.thread or 0))
            second = await send(chat, bed, "two", to)
            assert await chat.database.read(lambda tx: find_topic(tx, to)) == Address(
                platform="telegram", chat=to.chat, thread=second.thread
            )
            for text in ("one", "two"):
                plain = [one for one in seen(bed, text, to) if REPEAT_MARK not in one.text]
                assert len(plain) <= 1, f"{text} came twice without a word"

        await cut_everywhere(tmp_path, make, live, after=after, full=full)
