"""Signs that somebody works on an answer: typing every few seconds, not while it waits for a person, and a
reaction on the message that is answered; never in the way."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from datetime import UTC, datetime

import pytest

from hermes.control.feed import Feed
from hermes.control.outbound.delivery import ActivityIndicator
from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Receipt
from hermes.domain.errors import Refused, Unreachable
from hermes.domain.ids import MAIN_AGENT, QuestionId, SessionId, TurnId
from hermes.domain.settings.live import LiveSettings
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.settings import Settings
from hermes.domain.turns.event import Asked, Entry, Failed, Finished, QuestionKind, Record, Stopped
from hermes.domain.turns.turn import Cause, ReplyPlace, Turn, TurnInput
from hermes.domain.word import replace
from hermes.testing.clock import FakeClock, settle
from hermes.testing.platform import PLAIN, PlainFake
from hermes.testing.world import World

HERE = Address(platform="fake", chat="1")
TURN = Turn(
    id=TurnId("turn_1"),
    session=SessionId("s_1"),
    agent=MAIN_AGENT,
    cause=Cause.MESSAGE,
    input=TurnInput(text="hi"),
    created_at=datetime(2026, 11, 16, tzinfo=UTC),
    reply=ReplyPlace(to=HERE, ref="m7"),
)


class Signer(PlainFake):
    def __init__(self) -> None:
        super().__init__(World())
        self.shown: list[Address] = []
        self.refuses = False

    async def typing(self, to: Address) -> None:
        self.shown.append(to)
        if self.refuses:
            raise Refused("no")


async def begun(platform: PlainFake, **extra: str) -> tuple[FakeClock, Feed, ActivityIndicator]:
    clock, feed = FakeClock(), Feed(TurnId("turn_1"))
    settings = Settings(platforms={"fake": PlatformSettings(extra=extra)})
    signs = ActivityIndicator(clock, LiveSettings(settings), lambda account: platform)
    signs.begin(TURN, feed)
    await settle()
    return clock, feed, signs


async def test_it_is_shown_while_the_turn_works() -> None:
    platform = Signer()
    clock, feed, signs = await begun(platform)
    await clock.advance(9)
    assert platform.shown == [HERE] * 3
    feed.end()
    await clock.advance(9)
    assert platform.shown == [HERE] * 3
    await signs.close()


async def test_it_stops_while_somebody_is_asked() -> None:
    platform = Signer()
    clock, feed, signs = await begun(platform)
    asked = Asked(question=QuestionId("q_1"), kind=QuestionKind.CLARIFY, text="Which?")
    feed.publish(Entry(seq=1, turn=TurnId("turn_1"), at=clock.now(), record=asked))
    await clock.advance(20)
    assert platform.shown == [HERE]
    await signs.close()


async def test_a_platform_that_refuses_is_left_alone_and_an_operator_may_not_want_it() -> None:
    platform = Signer()
    platform.refuses = True
    clock, _, signs = await begun(platform)
    await clock.advance(20)
    assert platform.shown == [HERE]
    await signs.close()
    other = Signer()
    _, _, signs = await begun(other, typing_indicator="false")
    assert other.shown == []
    await signs.close()
    _, _, signs = await begun(PlainFake(World()))
    await signs.close()


# --- reactions ---


class Reactor(PlainFake):
    """Keeps the reactions on each message, and what was done with them."""

    def __init__(self) -> None:
        super().__init__(World(), replace(PLAIN, reactions=True, marks_work=True))
        self.there: dict[str, set[str]] = defaultdict(set)
        self.history: list[str] = []
        self.refuses = False
        self.too_fast = 0

    async def react(self, receipt: Receipt, emoji: str, *, instead: str = "") -> None:
        self.history.append(emoji or f"-{instead}")
        if self.refuses:
            raise Refused("no")
        if self.too_fast:
            self.too_fast -= 1
            raise Unreachable("slower", after=7.0)
        self.there[receipt.ref] = (self.there[receipt.ref] | {emoji}) - {"", instead}


def entry(record: Record) -> Entry:
    return Entry(seq=1, turn=TURN.id, at=TURN.created_at, record=record)


@pytest.mark.parametrize(
    ("end", "left"),
    [
        (Finished(), {"✅"}),
        (Failed(reason="the model is gone"), {"❌"}),
        (Stopped(reason="somebody said so"), set()),
    ],
)
async def test_the_message_bears_how_far_it_is(end: Record, left: set[str]) -> None:
    platform = Reactor()
    _, feed, signs = await begun(platform)
    assert platform.there == {"m7": {"👀"}}
    feed.publish(entry(end))
    feed.end()
    await settle()
    assert platform.there == {"m7": left}
    await signs.close()


async def test_a_turn_that_asks_keeps_its_mark_and_nothing_waits_for_it() -> None:
    platform = Reactor()
    _, feed, signs = await begun(platform)
    asked = Asked(question=QuestionId("q_1"), kind=QuestionKind.CLARIFY, text="Which?")
    feed.publish(entry(asked))
    await settle()
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("mark")]
    signs.begin(TURN, feed)  # it was answered, perhaps after a restart
    await settle()
    feed.publish(entry(Finished()))
    feed.end()
    await settle()
    assert platform.there == {"m7": {"✅"}}
    await signs.close()


async def test_a_turn_that_asked_is_marked_as_done_in_a_session_that_goes_on() -> None:
    """Records are numbered through the session, not the turn."""
    platform = Reactor()
    asked = Asked(question=QuestionId("q_1"), kind=QuestionKind.CLARIFY, text="Which?")
    clock, feed = FakeClock(), Feed(TURN.id)
    signs = ActivityIndicator(
        clock, LiveSettings(Settings(platforms={"fake": PlatformSettings()})), lambda account: platform
    )
    feed.preload([replace(entry(asked), seq=41)])
    signs.begin(TURN, feed)
    await settle()
    assert platform.there == {"m7": {"👀"}}
    feed.publish(replace(entry(Finished()), seq=42))
    feed.end()
    await settle()
    assert platform.there == {"m7": {"✅"}}
    await signs.close()


async def test_a_question_that_comes_while_the_mark_is_made_is_seen() -> None:
    platform = Reactor()
    clock, feed = FakeClock(), Feed(TURN.id)
    signs = ActivityIndicator(
        clock, LiveSettings(Settings(platforms={"fake": PlatformSettings()})), lambda account: platform
    )
    signs.begin(TURN, feed)
    asked = Asked(question=QuestionId("q_1"), kind=QuestionKind.CLARIFY, text="Which?")
    feed.publish(replace(entry(asked), seq=41))
    await settle()
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("mark")]
    await signs.close()


async def test_a_quick_answer_is_sign_enough_where_few_events_are_taken() -> None:
    for seconds, shown in ((2.0, []), (4.0, ["👀", "✅"])):
        platform = Reactor()
        platform._capabilities = replace(platform.capabilities, marks_after=3.0)
        clock, feed, signs = await begun(platform)
        await clock.advance(seconds)
        feed.publish(entry(Finished()))
        feed.end()
        await clock.advance(5)
        assert platform.history == shown
        await signs.close()


async def test_a_mark_that_could_not_be_taken_back_is_taken_back_later() -> None:
    platform = Reactor()
    clock, feed, signs = await begun(platform)
    platform.too_fast = 2
    feed.publish(entry(Stopped(reason="somebody said so")))
    feed.end()
    await settle()
    assert platform.there == {"m7": {"👀"}}
    await clock.advance(7)
    assert platform.there == {"m7": {"👀"}}
    await clock.advance(7)
    assert platform.there == {"m7": set()} and platform.history == ["👀", "-👀", "-👀", "-👀"]
    await signs.close()


async def test_who_may_not_react_is_left_alone_and_an_operator_decides() -> None:
    platform = Reactor()
    platform.refuses = True
    _, feed, signs = await begun(platform)
    feed.publish(entry(Finished()))
    feed.end()
    await settle()
    assert platform.history == ["👀"]
    await signs.close()
    for wanted, able, shown in ((False, True, []), (None, False, []), (True, False, ["👀"])):
        platform = Reactor()
        platform._capabilities = replace(platform.capabilities, marks_work=able)
        settings = Settings(platforms={"fake": PlatformSettings(reactions=wanted)})
        signs = ActivityIndicator(FakeClock(), LiveSettings(settings), lambda account: platform)  # noqa: B023
        signs.begin(TURN, Feed(TURN.id))
        await settle()
        assert platform.history == shown
        await signs.close()
