"""The database under a gateway that starts on a full disk: it waits for room and says so, or is stopped."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hermes.app import store
from hermes.app.store import StoreKeeper
from hermes.control.workers import Supervisor
from hermes.domain.clock import Clock
from hermes.entry.host import HostState
from hermes.state.db import NoRoom
from hermes.state.engine import StoreOptions
from hermes.state.repair import Opened, open_checked
from hermes.state.sqlite import SqliteStore
from hermes.testing.clock import FakeClock
from hermes.testing.powercut import SmallDisk


class _Watch:
    def __init__(self) -> None:
        self.waits: list[str] = []

    def tell(self, state: str, **facts: Any) -> None:
        self.waits.append(facts["waits"])

    def tell_platform(self, account: str, state: HostState, why: str) -> None:
        raise AssertionError("there are none yet")


def _keeper(path: Path, watch: _Watch) -> StoreKeeper:
    return StoreKeeper(
        path=path,
        clock=FakeClock(),
        options=StoreOptions(reserve_bytes=0),
        watch=watch,
        stopping=asyncio.Event(),
        hurrying=asyncio.Event(),
        restart=lambda: None,
        loops=Supervisor(FakeClock()),
    )


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the disk is full, as long as this says so."""
    state = [True]

    async def opening(path: Path, clock: Clock, options: StoreOptions) -> Opened:
        if state[0]:
            raise NoRoom("gateway.db cannot be written: the disk is full.", hint="Free some space.")
        return await open_checked(path, clock, options)

    monkeypatch.setattr(store, "open_checked", opening)
    monkeypatch.setattr(store, "_ROOM_SECONDS", 0.01)
    return state


async def test_it_waits_for_room(tmp_path: Path, full: list[bool]) -> None:
    watch = _Watch()
    keeper = _keeper(tmp_path / "gateway.db", watch)
    opening = asyncio.create_task(keeper.open())
    while len(watch.waits) < 3:
        assert not opening.done()
        await asyncio.sleep(0.01)
    assert "the disk is full" in watch.waits[0]
    full[0] = False
    assert isinstance(await opening, SqliteStore)
    assert watch.waits[-1] == "", "it waits no more"
    await keeper.close()


async def test_it_can_be_stopped_while_it_waits(tmp_path: Path, full: list[bool]) -> None:
    keeper = _keeper(tmp_path / "gateway.db", _Watch())
    opening = asyncio.create_task(keeper.open())
    await asyncio.sleep(0)
    keeper.stopping.set()
    assert await opening is None


async def test_the_engine_s_word_for_a_full_disk_is_understood(tmp_path: Path) -> None:
    disk = SmallDisk(0)
    with pytest.raises(NoRoom, match="the disk is full"):
        await open_checked(tmp_path / "gateway.db", FakeClock(), StoreOptions(vfs=disk.name, reserve_bytes=0))
    disk.unregister()
