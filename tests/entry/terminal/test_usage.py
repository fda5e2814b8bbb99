"""When a gateway that a terminal started leaves, and when it stays after all."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from hermes.app.app import App
from hermes.app.overrides import AppOverrides
from hermes.domain.chats.address import Address
from hermes.domain.chats.rows import OpenWork
from hermes.domain.ids import MAIN_AGENT, SessionId
from hermes.domain.turns.gateway_event import HandoffCompleted
from hermes.entry.terminal.usage import LINGER_SECONDS, GatewayUse
from hermes.testing.clock import FakeClock
from hermes.testing.model import ScriptedModel


def work(
    turns: dict[str, int] | None = None, outbox: dict[str, int] | None = None, inbox: int = 0
) -> OpenWork:
    return OpenWork(turns=turns or {}, outbox=outbox or {}, inbox=inbox, questions=0)


class Watched:
    """A gateway's use on a clock of the test's; `open` is what is left to do."""

    def __init__(self) -> None:
        self.clock, self.use, self.open = FakeClock(), GatewayUse(stays=False), work()
        self.over = asyncio.create_task(self.use.over(self._work, self.clock))

    async def _work(self) -> OpenWork:
        return self.open

    async def wait(self, seconds: float) -> bool:
        """Whether it is over after so long."""
        for _ in range(int(seconds * 2)):
            await self.clock.advance(0.5)
        await asyncio.sleep(0)
        return self.over.done()


async def test_it_leaves_a_while_after_the_last_terminal() -> None:
    watched = Watched()
    with watched.use.terminal():
        assert not await watched.wait(60.0)
        with watched.use.terminal():
            assert not await watched.wait(60.0)
        assert not await watched.wait(60.0)
    assert not await watched.wait(LINGER_SECONDS - 1.0)
    assert await watched.wait(3.0) and watched.over.result() is True


@pytest.mark.parametrize(
    "busy", [work(turns={"running": 1}), work(turns={"accepted": 1}), work(outbox={"due": 1}), work(inbox=1)]
)
async def test_it_finishes_what_it_has_to_do(busy: OpenWork) -> None:
    watched = Watched()
    watched.open = busy
    assert not await watched.wait(60.0)
    watched.open = work(turns={"waiting": 1})
    assert await watched.wait(2 * LINGER_SECONDS) and watched.over.result() is True


async def test_it_stays_if_it_is_told_to() -> None:
    watched, told = Watched(), list[str]()
    watched.use.told_to_stay = lambda: told.append("stay")
    assert watched.use.stay() and not watched.use.stay() and told == ["stay"]
    assert await watched.wait(60.0) and watched.over.result() is False
    assert not await watched.use.make_way(watched._work, watched.clock)


async def test_it_stays_where_a_conversation_went_to_a_chat(tmp_path: Path) -> None:
    states: list[dict[str, object]] = []
    ready = asyncio.Event()

    def hear(facts: Mapping[str, object]) -> None:
        states.append(dict(facts))
        if facts["gateway_state"] == "running":
            ready.set()

    given = AppOverrides(provider=ScriptedModel(), tools=(), platforms={}, stay=False)
    app = App(tmp_path, {"HERMES_NO_PROBE": "1", "HERMES_RESERVE_MB": "0"}, given)
    living = asyncio.create_task(app.live(hear))
    await asyncio.wait_for(ready.wait(), 60.0)
    assert states[-1]["temporary"] is True
    gone = HandoffCompleted(agent=MAIN_AGENT, session=SessionId("s"), to=Address(platform="fake", chat="9"))
    app.gateway.events.emit(gone)
    assert states[-1]["temporary"] is False
    app.stop()
    await living
