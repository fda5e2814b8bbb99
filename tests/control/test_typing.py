"""The sign that somebody works on an answer: every few seconds, not while it waits for a person, and never in
the way."""

from __future__ import annotations

from hermes.control.feed import Feed
from hermes.control.typing_signs import TypingSigns
from hermes.domain.address import Address
from hermes.domain.errors import Refused
from hermes.domain.event import Asked, Entry, QuestionKind
from hermes.domain.ids import QuestionId, TurnId
from hermes.domain.settings import PlatformSettings, Settings
from hermes.testing.clock import FakeClock, settle
from hermes.testing.platform import PlainFake
from hermes.testing.world import World

HERE = Address(platform="fake", chat="1")


class Signer(PlainFake):
    def __init__(self) -> None:
        super().__init__(World())
        self.shown: list[Address] = []
        self.refuses = False

    async def typing(self, to: Address) -> None:
        self.shown.append(to)
        if self.refuses:
            raise Refused("no")


async def begun(platform: PlainFake, **extra: str) -> tuple[FakeClock, Feed, TypingSigns]:
    clock, feed = FakeClock(), Feed(TurnId("turn_1"))
    settings = Settings(platforms={"fake": PlatformSettings(extra=extra)})
    signs = TypingSigns(clock, settings, lambda account: platform)
    signs.begin(HERE, feed)
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
