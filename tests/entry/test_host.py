"""The adapter host: it keeps an adapter alive, from where it left off, and says how it is."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from hermes.domain.chats.capabilities import Capabilities
from hermes.domain.chats.message import Inbound
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable, UserError
from hermes.domain.ports.platform import Accept
from hermes.entry.host import (
    LONGEST_DELAY,
    LONGEST_OFFLINE,
    AdapterHost,
    HostState,
    PlatformAccount,
    back_off,
)
from hermes.testing.clock import FakeClock, settle
from hermes.testing.platform import to_inbound
from hermes.testing.world import Update


class Rest:
    """Whether an account is to rest."""

    def __init__(self, now: bool = False) -> None:
        self._now = now
        self._bell = asyncio.Condition()

    async def set(self, now: bool) -> None:
        async with self._bell:
            self._now = now
            self._bell.notify_all()

    async def __call__(self, account: str) -> bool:
        return self._now

    async def until(self, account: str, *, resting: bool) -> None:
        async with self._bell:
            await self._bell.wait_for(lambda: self._now is resting)


@dataclass
class Gateway:
    """What a host sees of the gateway."""

    stored: str | None = None
    accepted: list[Inbound] = field(default_factory=list)
    attached: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    resting: Rest = field(default_factory=lambda: Rest())

    async def cursor(self, account: str) -> str | None:
        return self.stored

    async def accept(self, account: str, items: Sequence[Inbound], cursor: str | None) -> None:
        self.accepted += items
        self.stored = cursor

    def attach(self, account: str, platform: object) -> None:
        self.attached.append(account)
        self.log.append("attach")

    def detach(self, account: str) -> None:
        self.attached.remove(account)
        self.log.append("detach")


@dataclass
class Lease:
    free: bool = True
    held: bool = False
    taken: int = 0

    async def take(self, seconds: float) -> bool:
        self.taken += self.free
        self.held = self.free
        return self.free

    async def release(self) -> None:
        self.held = False

    def holder(self) -> str:
        return "another gateway uses this account"


@dataclass
class Signs:
    """A line that gives so many signs of life, and is deaf afterwards."""

    clock: FakeClock
    count: int
    every: float


@dataclass
class Adapter:
    """Each run does the next thing of the script, then stays connected."""

    script: list[object]
    cursors: list[str | None] = field(default_factory=list)
    capabilities: Capabilities = field(default_factory=Capabilities)

    async def run(self, accept: Accept, cursor: str | None) -> None:
        self.cursors.append(cursor)
        step = self.script.pop(0) if self.script else None
        if isinstance(step, Exception):
            raise step
        if isinstance(step, str):
            update = Update(seq=1, delivery=step, chat="1", user="u", text="hi")
            await accept([to_inbound(update)], step)
            raise Unreachable("the line went dead")
        if step == 0:
            return
        if isinstance(step, Signs):
            for _ in range(step.count):
                await step.clock.sleep(step.every)
                await accept((), None)
        await asyncio.Event().wait()


@dataclass
class Stage:
    adapter: Adapter
    lease: Lease = field(default_factory=Lease)
    gateway: Gateway = field(default_factory=Gateway)
    clock: FakeClock = field(default_factory=FakeClock)
    states: list[tuple[HostState, str]] = field(default_factory=list)
    make_error: HermesError | None = None
    host: AdapterHost = field(init=False)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Task[None]]:
        async def make() -> Adapter:
            if self.make_error is not None:
                raise self.make_error
            return self.adapter

        account = PlatformAccount(name="fake", make=make, lease=self.lease)  # type: ignore[arg-type]
        self.host = AdapterHost(account, self.gateway, self.clock, self._told)  # type: ignore[arg-type]
        task = asyncio.create_task(self.host.live())
        await settle()
        yield task
        task.cancel()
        await asyncio.wait([task])

    def _told(self, account: str, state: HostState, why: str) -> None:
        self.states.append((state, why))

    @property
    def state(self) -> HostState:
        return self.states[-1][0]


async def test_it_connects_and_stops() -> None:
    stage = Stage(Adapter([]))
    async with stage.running():
        assert stage.state is HostState.CONNECTING and stage.gateway.attached == ["fake"] and stage.lease.held
        await stage.clock.advance(5)
        assert stage.state is HostState.CONNECTED
    assert stage.state is HostState.STOPPED and stage.gateway.attached == [] and not stage.lease.held


@dataclass
class Uneasy(Adapter):
    """Connected, and with something to say about it."""

    told: str = ""

    def notice(self) -> str:
        return self.told


async def test_what_a_connected_adapter_has_to_say_is_told_once() -> None:
    clock = FakeClock()
    adapter = Uneasy([Signs(clock, 4, 5.0)])
    stage = Stage(adapter, clock=clock)
    async with stage.running():
        await clock.advance(6)
        adapter.told = "1 mail was left out"
        await clock.advance(10)
        assert stage.states[-2:] == [(HostState.CONNECTED, ""), (HostState.CONNECTED, "1 mail was left out")]


async def test_a_reconnect_goes_on_from_the_stored_cursor() -> None:
    stage = Stage(Adapter(["7", "9"]), gateway=Gateway(stored="3"))
    async with stage.running():
        await stage.clock.advance(2)
        await stage.clock.advance(3)
        assert stage.adapter.cursors == ["3", "7", "9"]
        assert [item.delivery for item in stage.gateway.accepted] == ["7", "9"]
        assert stage.gateway.log == ["attach", "detach", "attach", "detach", "attach"]
        assert HostState.CONNECTED in [state for state, _ in stage.states]


async def test_it_backs_off_longer_each_time() -> None:
    troubles: list[object] = [ConnectionError("boom") for _ in range(4)]
    stage = Stage(Adapter(troubles))
    async with stage.running():
        waits = []
        for _ in range(4):
            assert stage.state is HostState.RETRYING
            before = stage.clock.monotonic()
            while stage.state is HostState.RETRYING and stage.clock.monotonic() < before + 20:
                tries = len(stage.adapter.cursors)
                await stage.clock.advance(0.25)
                if len(stage.adapter.cursors) > tries:
                    break
            waits.append(stage.clock.monotonic() - before)
        assert all(0.75 * 2**n <= wait <= 1.25 * 2**n + 0.25 for n, wait in enumerate(waits)), waits
    assert "ConnectionError" in stage.states[1][1]


async def test_after_a_minute_of_health_the_first_wait_is_short_again() -> None:
    stage = Stage(Adapter([Unreachable("a"), Unreachable("b"), Unreachable("c")]))
    async with stage.running() as task:
        await stage.clock.advance(20)
        assert stage.state is HostState.CONNECTED
        await stage.clock.advance(61)
        stage.lease.free = False  # the next renewal takes the adapter away
        await stage.clock.advance(20)
        waits = [why for state, why in stage.states if state is HostState.RETRYING]
        assert waits[-1].endswith("in 1 s") and not task.done()


async def test_the_platform_may_say_how_long() -> None:
    stage = Stage(Adapter([Unreachable("slow down", after=42.0)]))
    async with stage.running():
        at = stage.clock.now() + timedelta(seconds=42)
        assert stage.states[-1][1] == f"slow down; trying again in 42 s (at {at:%H:%M:%S} UTC)"
        await stage.clock.advance(41)
        assert stage.state is HostState.RETRYING and len(stage.adapter.cursors) == 1
        await stage.clock.advance(2)
        assert len(stage.adapter.cursors) == 2


async def test_it_returns_soon_once_somebody_can_be_reached_again() -> None:
    """However long nobody answered: a try costs nothing, and people wait."""
    stage = Stage(Adapter([Unreachable("connection refused", offline=True) for _ in range(12)]))
    async with stage.running():
        for _ in range(200):
            await stage.clock.advance(1)
        assert len(stage.adapter.cursors) > 12 and stage.state is HostState.CONNECTED
    assert all(back_off(failures, LONGEST_OFFLINE) <= LONGEST_OFFLINE for failures in range(1, 100))


async def test_connected_is_who_was_let_in() -> None:
    """An adapter that gives signs of life gives the first when it has logged in, however long that takes."""
    clock = FakeClock()
    able = Capabilities(silence_seconds=60.0)
    stage = Stage(Adapter([Signs(clock, 1, 10.0)], capabilities=able), clock=clock)
    async with stage.running():
        await clock.advance(9)
        assert stage.state is HostState.CONNECTING
        await clock.advance(2)
        assert stage.state is HostState.CONNECTED


async def test_an_adapter_that_returns_is_started_again() -> None:
    stage = Stage(Adapter([0]))
    async with stage.running():
        assert stage.state is HostState.RETRYING and "closed the connection" in stage.states[-1][1]
        await stage.clock.advance(2)
        assert len(stage.adapter.cursors) == 2


@pytest.mark.parametrize(
    "error", [NeedsLogin("the token was revoked"), Refused("the bot is banned"), UserError("No package.")]
)
async def test_what_only_an_operator_can_mend_parks_it(error: HermesError) -> None:
    stage = Stage(Adapter([error]))
    async with stage.running() as task:
        assert task.done() and stage.states[-1] == (HostState.PARKED, str(error))
        assert stage.gateway.attached == [] and not stage.lease.held


async def test_an_adapter_that_cannot_be_made_parks_it() -> None:
    stage = Stage(Adapter([]), make_error=UserError("Fake needs FAKE_TOKEN.", hint="Set it."))
    async with stage.running():
        assert stage.states[-1] == (HostState.PARKED, "Fake needs FAKE_TOKEN. Set it.")


async def test_it_waits_for_the_lease() -> None:
    stage = Stage(Adapter([]), lease=Lease(free=False))
    async with stage.running():
        await stage.clock.advance(60)
        assert stage.states == [(HostState.WAITING, "another gateway uses this account")]
        assert stage.adapter.cursors == []
        stage.lease.free = True
        await stage.clock.advance(5)
        assert stage.state in (HostState.CONNECTING, HostState.CONNECTED) and stage.gateway.attached


async def test_a_lost_lease_takes_the_adapter_down() -> None:
    stage = Stage(Adapter([]))
    async with stage.running():
        await stage.clock.advance(30)
        assert stage.lease.taken == 2
        stage.lease.free = False
        await stage.clock.advance(25)
        assert stage.gateway.attached == [] and stage.state is HostState.WAITING


def test_the_longest_wait() -> None:
    assert all(back_off(failures) <= LONGEST_DELAY for failures in range(1, 100))
    assert back_off(50) >= 0.7 * LONGEST_DELAY


async def test_a_deaf_adapter_is_rebuilt() -> None:
    clock = FakeClock()
    stage = Stage(
        Adapter([Signs(clock, 3, 20.0)], capabilities=Capabilities(silence_seconds=30.0)), clock=clock
    )
    async with stage.running():
        await clock.advance(89)  # three signs, the last after 60 s
        assert stage.state is HostState.CONNECTED and len(stage.adapter.cursors) == 1
        assert stage.gateway.accepted == [] and stage.gateway.stored is None
        assert stage.host.heard_at == clock.now() - timedelta(seconds=29)
        await clock.advance(1.5)
        told = [why for state, why in stage.states if state is HostState.RETRYING]
        assert told and told[0].startswith("it was connected and heard nothing for 30 s; trying again in")
        await clock.advance(1.5)
        assert len(stage.adapter.cursors) == 2 and stage.gateway.attached == ["fake"]
        assert stage.gateway.log == ["attach", "detach", "attach"]


async def test_a_line_that_may_be_silent_is_left_alone() -> None:
    stage = Stage(Adapter([]))
    async with stage.running():
        await stage.clock.advance(2_000)
        assert len(stage.adapter.cursors) == 1 and stage.state is HostState.CONNECTED


async def test_an_adapter_that_stays_deaf_is_rebuilt_ever_more_rarely() -> None:
    clock = FakeClock()
    stage = Stage(Adapter([], capabilities=Capabilities(silence_seconds=10.0)), clock=clock)
    async with stage.running():
        await clock.advance(600)
        told = [why for state, why in stage.states if state is HostState.RETRYING]
        waits = [float(why.partition("again in ")[2].split()[0]) for why in told]
        # The longest ones differ by chance only.
        growing = [wait for wait in waits if wait < 0.75 * LONGEST_DELAY]
        assert len(growing) >= 4 and growing == sorted(growing) and waits[-1] > 50
        assert waits[: len(growing)] == growing, "and none is short again"


async def test_an_account_rests_and_is_woken() -> None:
    stage = Stage(Adapter([]), gateway=Gateway(resting=Rest(True)))
    async with stage.running():
        assert stage.states == [(HostState.PARKED, "it rests; /platform resume fake wakes it")]
        assert stage.gateway.attached == [] and not stage.lease.held
        await stage.gateway.resting.set(False)
        await settle()
        await stage.clock.advance(6)
        assert stage.gateway.attached == ["fake"] and stage.lease.held
        await stage.gateway.resting.set(True)
        await settle()
        await stage.clock.advance(6)
        assert stage.gateway.attached == [] and not stage.lease.held
        await stage.gateway.resting.set(False)
        await settle()
        await stage.clock.advance(12)
        assert stage.gateway.attached == ["fake"]
        told = [state.value for state, _ in stage.states]
        assert told == [
            *("parked", "connecting", "connected", "retrying"),
            *("parked", "connecting", "connected"),
        ]
