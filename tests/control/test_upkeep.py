"""The chores of a gateway: at their times, by hand, and when they fail."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

from hermes.control.chores import Chore, Chores, forgetting
from hermes.control.workers import Supervisor
from hermes.domain.errors import Unreachable
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.ports.store import Tx
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.word import replace
from hermes.state.store.writer import SqliteStore
from hermes.testing.clock import FakeClock, settle
from hermes.testing.harness import Journey, open_settings
from hermes.testing.platform import to_inbound
from hermes.testing.world import Update


def telling(*outcomes: str | Exception) -> Callable[[], Awaitable[str]]:
    left = list(outcomes)

    async def run() -> str:
        outcome = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return run


async def test_a_chore_is_done_at_its_times_and_says_how_it_went() -> None:
    clock = FakeClock()
    faulty = telling("fine", Unreachable("no room"), ValueError("a fault of ours"), "fine again")
    chores = Chores(
        clock,
        [
            Chore(name="first", every=60.0, run=faulty),
            Chore(name="second", every=3600.0, run=telling("done"), first=300.0),
        ],
    )
    tasks = chores.begin(Supervisor(clock))
    await settle()
    first, second = chores.states["first"], chores.states["second"]
    assert (first.outcome, first.ok, first.last_at, second.last_at) == ("fine", True, clock.now(), None)
    await clock.advance(60)
    assert (first.outcome, first.ok, first.runs) == ("no room", False, 2)
    await clock.advance(60)
    assert (first.outcome, first.ok) == ("a fault of ours", False)
    await clock.advance(180)
    assert (first.outcome, first.ok, first.runs) == ("fine again", True, 6)
    assert (second.outcome, second.runs) == ("done", 1)
    assert (await chores.run("second")).runs == 2
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def test_the_operator_is_told_once_a_day_of_what_keeps_failing(tmp_path: Path) -> None:
    clock = FakeClock()
    failing = Chore(name="home backup", every=60.0, run=telling(Unreachable("no room")), reported=True)
    other = Chore(name="usage", every=60.0, run=telling(Unreachable("a trifle")))
    owned = PlatformSettings(allow_all_users=True, allowed_users=("ann",))
    settings = open_settings(platforms={"fake": owned})
    async with Journey(folder=tmp_path, clock=clock, settings=settings) as chat:
        chat.world.write("/sethome", chat="9", user="ann")
        await chat.until_seen("home channel", chat="9")
        chores = chat.gateway._wire_chores(replace(chat.gateway._parts, chores=(failing, other)))
        for _ in range(2):
            await chores.run("usage")
            await chores.run("home backup")
        await chat.until_seen("⚠️ home backup failed: no room", chat="9")
        await clock.leap(86_400)
        await chores.run("home backup")
        await chat.until(lambda: sum("home backup failed" in text for text in chat.world.seen("9")) == 2)
        assert "trifle" not in str(chat.world.seen("9"))


async def test_settled_deliveries_are_forgotten_by_age(tmp_path: Path) -> None:
    clock = FakeClock()
    async with SqliteStore(tmp_path / "state.db") as store:

        def accept(number: int) -> Callable[[Tx], int]:
            update = Update(seq=number, delivery=f"d{number}", chat="1", user="u", text="hi")
            return lambda tx: tx.inbox.add("fake", [to_inbound(update)], None, clock.now())

        await store.write(accept(1))
        await store.write(accept(2))
        await store.write(lambda tx: tx.inbox.finish(1, "turn"))
        chores = Chores(clock, [forgetting(store, clock, timedelta(days=30))])
        assert (await chores.run("retention")).outcome == "0 rows forgotten"
        assert await store.write(accept(1)) == 0  # it counts once
        await clock.advance(31 * 86_400)
        assert (await chores.run("retention")).outcome == "1 rows forgotten"
        assert [row.n for row in await store.read(lambda tx: tx.inbox.pending(0, 10))] == [2]


async def test_the_files_of_a_deleted_session_are_removed_a_day_later(tmp_path: Path) -> None:
    clock = FakeClock()
    async with Journey(folder=tmp_path, clock=clock) as chat:
        assert {"retention", "session expiry", "media clean-up"} <= chat.gateway.chores.states.keys()
        file = await chat.gateway.keep_media(MAIN_AGENT, b"picture", "image/png")
        assert file.sha256 is not None
        path = tmp_path / "media" / file.sha256[:2] / file.sha256
        assert (await chat.gateway.chores.run("media clean-up")).outcome == "0 files removed"
        await clock.leap(2 * 86_400)
        await chat.until(lambda: chat.gateway.chores.states["media clean-up"].runs == 2)
        assert not path.exists()
