"""The database under a gateway that starts on a full disk: it waits for room and says so, or is stopped.
A stop closes it, whatever has happened to its files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from hermes.app import store
from hermes.app.store import StoreLifecycle
from hermes.control.workers import Supervisor
from hermes.domain.clock import Clock
from hermes.domain.errors import Unreachable
from hermes.domain.ids import SessionId
from hermes.state.store.care.backup import Upkeep, backups_of
from hermes.state.store.care.repair import OpenedStore, open_checked
from hermes.state.store.sqlite import DiskFull, StoreOptions
from hermes.state.store.writer import SqliteStore
from hermes.testing.clock import FakeClock
from hermes.testing.powercut import SmallDisk
from hermes.testing.store_suite.samples import add_talk


class _Watch:
    def __init__(self) -> None:
        self.waits: list[str] = []

    def tell(self, state: str, **facts: Any) -> None:
        self.waits.append(facts["waits"])


def _keeper(path: Path, watch: _Watch) -> StoreLifecycle:
    return StoreLifecycle(
        path=path,
        clock=FakeClock(),
        options=StoreOptions(reserve_bytes=0),
        tell=watch.tell,
        stopping=asyncio.Event(),
        hurrying=asyncio.Event(),
        restart=lambda: None,
        loops=Supervisor(FakeClock()),
    )


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the disk is full, as long as this says so."""
    state = [True]

    async def opening(path: Path, clock: Clock, options: StoreOptions) -> OpenedStore:
        if state[0]:
            raise DiskFull("gateway.db cannot be written: the disk is full.", hint="Free some space.")
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


def _remove(path: Path) -> None:
    for one in path.parent.glob(f"{path.name}*"):
        one.unlink()


def _replace(path: Path) -> None:
    other = apsw.Connection(str(path.with_name("other")))
    other.execute("CREATE TABLE inbox (n)")
    other.close()
    path.with_name("other").replace(path)


def _block_backups(path: Path) -> None:
    (path.parent / "backups").write_text("no folder")


@pytest.mark.parametrize("harm", [_remove, _replace, _block_backups])
async def test_a_stop_loses_nothing_whatever_happened_to_the_files(
    harm: Callable[[Path], None], tmp_path: Path
) -> None:
    path = tmp_path / "gateway.db"
    keeper = _keeper(path, _Watch())
    opened = await keeper.open()
    assert opened is not None
    await opened.write(add_talk)
    harm(path)
    await keeper.close()
    assert backups_of(path) == []
    async with SqliteStore(path) as again:
        assert await again.read(lambda tx: tx.sessions.get(SessionId("s1"))) is not None


async def test_a_stop_closes_the_store_whatever_the_backup_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stop(*_: object, **__: object) -> None:
        raise RuntimeError("nobody foresaw this")

    monkeypatch.setattr(Upkeep, "stop", stop)
    keeper = _keeper(tmp_path / "gateway.db", _Watch())
    opened = await keeper.open()
    assert opened is not None
    with pytest.raises(RuntimeError):
        await keeper.close()
    with pytest.raises(Unreachable, match="closed"):
        await opened.write(add_talk)


async def test_the_engine_s_word_for_a_full_disk_is_understood(tmp_path: Path) -> None:
    disk = SmallDisk(0)
    with pytest.raises(DiskFull, match="the disk is full"):
        await open_checked(tmp_path / "gateway.db", FakeClock(), StoreOptions(vfs=disk.name, reserve_bytes=0))
    disk.unregister()
