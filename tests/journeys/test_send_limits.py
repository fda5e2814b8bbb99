"""Limits of platforms that lanes obey: so many messages to a chat in so much time, free words only for a
while after a person wrote, and messages of which a platform says later that they never arrived."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from hermes.control.outbound.row_sender import WAITS
from hermes.control.outbound.send_pace import SendPace
from hermes.control.outbound.sending import OutboundMessage
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.chats.capabilities import Capabilities
from hermes.domain.chats.message import Body, Inbound, InboundKind, Receipt
from hermes.domain.chats.rows import OutboxRow, OutState
from hermes.domain.ids import AgentId, DeliveryId
from hermes.domain.ports.store import Tx
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.word import replace
from hermes.testing.clock import START, FakeClock
from hermes.testing.harness import Journey, open_settings
from hermes.testing.platform import PLAIN, PlainFake
from hermes.testing.world import World
from tests.journeys.cut import cut_everywhere

DAY = 86_400.0
TO = Address(platform="fake", chat="1")
HOMED = open_settings(platforms={"fake": PlatformSettings(allow_all_users=True, home_channel="home")})


class Windowed(PlainFake):
    """Free words for a day; later a template, if there is one."""

    template = False

    async def send_outside(self, to: Address, body: Body, *, key: str) -> Receipt | None:
        if not self.template:
            return None
        return await self.send(to, Body(text=f"[template] {body.text}"), key=key, reply_to=None)


def windowed(tmp_path: Path, *, template: bool = False, **more: object) -> Journey:
    world = World()

    def make() -> Windowed:
        platform = Windowed(world, replace(PLAIN, reply_window=DAY))
        platform.template = template
        return platform

    clock = FakeClock()
    return Journey(folder=tmp_path, world=world, clock=clock, connect_platform=make, settings=HOMED, **more)  # type: ignore[arg-type]


async def post(chat: Journey, key: str, text: str) -> None:
    message = OutboundMessage(key=key, target=str(TO), body=Body(text=text))
    await chat.gateway.courier.post(AgentId("main"), message)


async def row_of(chat: Journey, key: str) -> OutboxRow:
    def read(tx: Tx) -> OutboxRow:
        (row,) = tx.outbox.begun(f"send:{key}:")
        return row

    return await chat.database.read(read)


async def test_what_comes_too_late_waits_until_the_person_writes(tmp_path: Path) -> None:
    async with windowed(tmp_path) as chat:
        clock = chat.clock
        assert isinstance(clock, FakeClock)
        chat.world.write("hello")
        await chat.until_seen("hello")
        await clock.leap(DAY - 10)
        await post(chat, "in time", "in time")
        await chat.until_seen("in time")
        await clock.leap(10)
        await post(chat, "late", "too late")
        await clock.advance(5)
        assert (await row_of(chat, "late")).error == WAITS
        await clock.advance(1300)
        assert "too late" not in chat.world.seen(), "it is not tried again as if nothing were"
        chat.world.write("are you there?")
        await chat.until_seen("are you there?")
        await chat.until_idle()
        assert chat.world.seen("1")[-2:] == ["too late", "You said: are you there?"], "in order, and at once"


async def test_what_waits_for_too_long_is_reported(tmp_path: Path) -> None:
    async with windowed(tmp_path) as chat:
        clock = chat.clock
        assert isinstance(clock, FakeClock)
        chat.world.write("hello")
        await chat.until_seen("hello")
        await clock.leap(2 * DAY)
        await post(chat, "late", "too late")
        await clock.advance(5)
        for _ in range(26):
            await clock.leap(3600)
            await clock.advance(1)
        assert (await row_of(chat, "late")).state is OutState.DEAD
        (report,) = chat.world.seen("home")
        assert "too late" in report and WAITS in report


async def test_a_template_goes_where_there_is_one(tmp_path: Path) -> None:
    async with windowed(tmp_path, template=True) as chat:
        clock = chat.clock
        assert isinstance(clock, FakeClock)
        chat.world.write("hello")
        await chat.until_seen("hello")
        await clock.leap(2 * DAY)
        await post(chat, "late", "too late")
        await chat.until_seen("[template] too late")


async def test_a_chat_gets_so_many_messages_in_so_much_time(tmp_path: Path) -> None:
    world, clock = World(), FakeClock()
    able = replace(PLAIN, send_interval=6.0, send_burst=3)
    make = lambda: PlainFake(world, able)  # noqa: E731
    async with Journey(folder=tmp_path, world=world, clock=clock, connect_platform=make) as chat:
        for number in range(6):
            await post(chat, f"k{number}", f"number {number}")
        await clock.advance(0.1)
        assert len(world.seen()) == 3, "a burst goes at once"
        await clock.advance(5)
        assert len(world.seen()) == 3
        await clock.advance(1)
        assert len(world.seen()) == 4
        await clock.advance(12)
        assert world.seen() == [f"number {number}" for number in range(6)]


def test_some_platforms_count_all_chats_of_an_account() -> None:
    pace, able = SendPace(), Capabilities(send_interval=2.0, send_burst=2, paces_account=True)
    for number in range(3):
        pace.count(Address(platform="fake", chat=str(number)), able, now=0.0)
    assert pace.wait(Address(platform="fake", chat="another"), able, now=0.0) == 4.0
    assert pace.wait(Address(platform="fake", account="work", chat="0"), able, now=0.0) < 0.0


def test_the_pace_forgets_chats_that_are_even() -> None:
    pace, able = SendPace(), Capabilities(send_interval=2.0, send_burst=2)
    for number in range(20_000):
        pace.count(Address(platform="fake", chat=str(number)), able, now=float(number))
    assert len(pace._even) <= 10_000
    assert pace.wait(Address(platform="fake", chat="19999"), able, now=19_999.0) == 0.0
    pace.count(Address(platform="fake", chat="19999"), able, now=19_999.0)
    assert pace.wait(Address(platform="fake", chat="19999"), able, now=19_999.0) == 2.0


def failure(key: str, chat: str = "1") -> Inbound:
    source = Source(address=replace(TO, chat=chat), kind=SourceKind.PRIVATE)
    return Inbound(
        delivery=DeliveryId(f"failed:{key}:{chat}"),
        source=source,
        at=START + timedelta(seconds=9),
        what=InboundKind.UNDELIVERED,
        ref=f"send:{key}:0:0",
        text="the phone is off",
    )


@pytest.mark.parametrize("after", [False, True])
async def test_a_message_that_never_arrived_is_reported_once(tmp_path: Path, after: bool, full: bool) -> None:
    async def live(chat: Journey) -> None:
        await post(chat, "k", "are you well?")
        await chat.until_seen("are you well?")
        await chat.until_idle()
        for _ in range(2):
            await chat.gateway.accept(
                "fake", [failure("k"), failure("k", "another"), failure("nobody's")], None
            )
        await chat.until_idle()
        await chat.until_seen("could not be delivered")
        row = await row_of(chat, "k")
        assert (row.state, row.error) == (OutState.DEAD, "the phone is off")
        (report,) = chat.world.seen("home")
        assert "are you well?" in report and "the phone is off" in report

    make = lambda folder: Journey(folder=folder, world=World(keyed=True), kind="keyed", settings=HOMED)  # noqa: E731
    assert await cut_everywhere(tmp_path, make, live, after=after, full=full) > 3
