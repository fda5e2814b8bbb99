"""A disk that fills up, and a file that somebody else holds: accepts stop, nothing acknowledged is missing,
the writer lives, and all goes on by itself when the trouble is over."""

from __future__ import annotations

import asyncio
import errno
import shutil
import subprocess
import sys
from asyncio.subprocess import PIPE
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Protocol

import pytest

from hermes.domain.errors import Unreachable
from hermes.domain.ids import SessionId
from hermes.domain.ports.store import Tx
from hermes.state.store.care.reserve import DiskReserve
from hermes.state.store.sqlite import StoreOptions
from hermes.state.store.writer import SqliteStore
from hermes.testing.powercut import SmallDisk
from hermes.testing.store_suite.samples import NOW, add_talk, entry, inbound

S1 = SessionId("s1")


def _accept(name: str, tx: Tx) -> int:
    return tx.inbox.add("fake", [inbound(name, text="x" * 4000)], name, NOW)


def _append(seq: int, tx: Tx) -> int:
    tx.journal.append(S1, [entry(seq)])
    return seq


async def _fill_up(store: SqliteStore, take_rest: Callable[[], bool]) -> list[str]:
    """Deliver until nothing more is accepted, and have somebody else take the room that the last refused
    batch left: with it the reserve could be kept again a second later. What was acknowledged."""
    acknowledged: list[str] = []
    for round_ in range(100):
        acknowledged += await _deliver_until_refused(store, round_)
        if take_rest():
            return acknowledged
    raise AssertionError("the reserve was kept again each time")


async def _deliver_until_refused(store: SqliteStore, round_: int) -> list[str]:
    """Eight at once."""
    acknowledged: list[str] = []
    refused = 0

    async def deliver(name: str) -> None:
        nonlocal refused
        try:
            await store.write(partial(_accept, name), first=True)
            acknowledged.append(name)
        except Unreachable:
            refused += 1

    for number in range(10_000):
        await asyncio.gather(*(deliver(f"d{round_}-{number}-{part}") for part in range(8)))
        if refused:
            return acknowledged
    raise AssertionError("the disk never filled up")


async def _accepts_again(store: SqliteStore) -> str:
    """Deliver, as a platform does, until it is taken."""
    for attempt in range(400):
        try:
            await store.write(partial(_accept, f"again{attempt}"), first=True)
            return f"again{attempt}"
        except Unreachable:
            await asyncio.sleep(0.05)
    raise AssertionError("it never accepted again")


async def _stays_refused(store: SqliteStore) -> None:
    for number in range(5):
        with pytest.raises(Unreachable, match="nothing can be stored"):
            await store.write(partial(_accept, f"no{number}"), first=True)
    assert "full" in store.facts.trouble


def _is_there(file: Path) -> bool:
    return file.exists()


class _Disk(Protocol):
    """What a test does to the disk beside the store."""

    def take_rest(self) -> bool:
        """Leave less room than the reserve needs; False if the reserve lies there again by now."""

    def make_room(self) -> None: ...


async def _live_through_a_full_disk(store: SqliteStore, disk: _Disk, reserve: Path) -> None:
    await store.write(add_talk)
    assert _is_there(reserve)
    acknowledged = await _fill_up(store, disk.take_rest)
    assert not _is_there(reserve), "the reserve is given up for what is under way"
    await _stays_refused(store)
    # Work of running turns lives on the reserve, and waits when that is used up too.
    working = [asyncio.create_task(store.write(partial(_append, seq))) for seq in range(1, 2000)]
    await _stays_refused(store)
    disk.make_room()
    acknowledged.append(await _accepts_again(store))
    assert await asyncio.gather(*working) == list(range(1, 2000))
    assert _is_there(reserve), "the reserve is kept again"
    rows = await store.read(lambda tx: tx.inbox.pending(0, 100_000))
    stored = [row.inbound.delivery for row in rows]
    assert set(acknowledged) <= set(stored)
    assert len(await store.read(lambda tx: tx.journal.read(S1))) == 1999
    assert store.facts.trouble == ""
    assert await store.check_integrity() == []


_RESERVE = 200_000


class _MeasuredDisk(SmallDisk):
    def take_rest(self) -> bool:
        if self.reserved:
            return False
        self.limit = self.used + _RESERVE * 3 // 4
        return True

    def make_room(self) -> None:
        self.limit = 50_000_000


class _SmallReserve(DiskReserve):
    """A reserve that lies on the small disk."""

    def __init__(self, path: Path, disk: SmallDisk) -> None:
        super().__init__(path)
        self._disk = disk
        self._size = _RESERVE

    def _allocate(self, path: Path, size: int) -> None:
        if self._disk.used + size > self._disk.limit:
            raise OSError(errno.ENOSPC, "the small disk is full")
        super()._allocate(path, size)
        self._disk.reserved = size

    def give_up(self) -> None:
        super().give_up()
        self._disk.reserved = 0


async def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    disk = _MeasuredDisk(3_000_000)
    path = tmp_path / "state.db"
    options = StoreOptions(vfs=disk.name, reserve=_SmallReserve(tmp_path / "reserve.bin", disk))
    async with SqliteStore(path, options) as store:
        await _live_through_a_full_disk(store, disk, tmp_path / "reserve.bin")
    disk.unregister()


@contextmanager
def _tmpfs(folder: Path, size: str) -> Iterator[Path]:
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("this machine does not let us mount")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


class _Tmpfs:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def take_rest(self) -> bool:
        free = shutil.disk_usage(self._folder).free
        if _is_there(self._folder / "reserve.bin"):
            return False
        (self._folder / "somebody-else.bin").write_bytes(bytes(max(0, free - 32_768)))
        return True

    def make_room(self) -> None:
        subprocess.run(["mount", "-o", "remount,size=64m", str(self._folder)], check=True)


@pytest.mark.root
async def test_a_full_tmpfs_loses_nothing(tmp_path: Path) -> None:
    with _tmpfs(tmp_path / "small", "4m") as folder:
        async with SqliteStore(folder / "state.db") as store:
            await _live_through_a_full_disk(store, _Tmpfs(folder), folder / "reserve.bin")


async def test_a_store_closes_on_a_full_disk(tmp_path: Path) -> None:
    disk = _MeasuredDisk(2_000_000)
    options = StoreOptions(vfs=disk.name, reserve=_SmallReserve(tmp_path / "reserve.bin", disk))
    async with SqliteStore(tmp_path / "state.db", options) as store:
        await store.write(add_talk)
        await _fill_up(store, disk.take_rest)
        disk.limit = 0
        waiting = [asyncio.create_task(store.write(partial(_append, seq))) for seq in range(1, 500)]
        await asyncio.sleep(0.1)
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(result, Unreachable | int) for result in results)
    assert any(isinstance(result, Unreachable) for result in results)
    disk.unregister()


async def test_what_ends_something_lives_on_the_reserve_and_does_not_wait(tmp_path: Path) -> None:
    disk = _MeasuredDisk(2_000_000)
    options = StoreOptions(vfs=disk.name, reserve=_SmallReserve(tmp_path / "reserve.bin", disk))
    async with SqliteStore(tmp_path / "state.db", options) as store:
        await store.write(add_talk)
        await _fill_up(store, disk.take_rest)
        await _stays_refused(store)
        assert await store.write(partial(_append, 1), ends=True) == 1
        disk.limit = 0
        stored = 1
        with pytest.raises(Unreachable, match="nothing can be stored"):
            async with asyncio.timeout(60):
                for seq in range(2, 5000):  # the log that there is already takes a few more
                    stored = await store.write(partial(_append, seq), ends=True)
        disk.make_room()
        await _accepts_again(store)
        assert len(await store.read(lambda tx: tx.journal.read(S1))) == stored, (
            "what was refused never happens"
        )
    disk.unregister()


async def test_trouble_is_forgotten_without_anybody_asking(tmp_path: Path) -> None:
    disk = _MeasuredDisk(2_000_000)
    options = StoreOptions(vfs=disk.name, reserve=_SmallReserve(tmp_path / "reserve.bin", disk))
    async with SqliteStore(tmp_path / "state.db", options) as store:
        await _fill_up(store, disk.take_rest)
        assert "full" in store.facts.trouble
        disk.make_room()
        for _ in range(400):
            if not store.facts.trouble:
                break
            await asyncio.sleep(0.05)
        assert store.facts.trouble == ""
    disk.unregister()


# --- a file that another process holds ---

HOLD = """
import sys, apsw
connection = apsw.Connection(sys.argv[1])
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""


async def test_a_held_file_loses_nothing(tmp_path: Path, full: bool) -> None:
    path = tmp_path / "state.db"
    async with SqliteStore(path, StoreOptions(busy_ms=5000 if full else 200)) as store:
        await store.write(add_talk)
        holder = await asyncio.create_subprocess_exec(
            sys.executable, "-c", HOLD, str(path), stdin=PIPE, stdout=PIPE
        )
        assert holder.stdout is not None and holder.stdin is not None
        await holder.stdout.readline()
        accepting = [
            asyncio.create_task(store.write(partial(_accept, f"d{number}"), first=True))
            for number in range(20)
        ]
        working = [asyncio.create_task(store.write(partial(_append, seq))) for seq in range(1, 100)]
        assert await store.read(lambda tx: tx.inbox.pending(0, 10)) == [], "readers are not held up"
        accepted = await asyncio.gather(*accepting, return_exceptions=True)
        assert all(result == 1 or isinstance(result, Unreachable) for result in accepted)
        assert any(isinstance(result, Unreachable) for result in accepted)
        holder.stdin.close()
        assert await asyncio.gather(*working) == list(range(1, 100))
        assert await holder.wait() == 0
        await _accepts_again(store)
        taken = [f"d{number}" for number, result in enumerate(accepted) if result == 1]
        stored = [row.inbound.delivery for row in await store.read(lambda tx: tx.inbox.pending(0, 100))]
        assert set(taken) <= set(stored)
        assert store.facts.trouble == ""


# --- the reserve ---


def test_the_reserve_leaves_most_of_a_small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reserve = DiskReserve(tmp_path / "reserve.bin")
    assert reserve.keep()
    assert (tmp_path / "reserve.bin").stat().st_size > 4096
    reserve.give_up()
    assert not (tmp_path / "reserve.bin").exists()
    assert not reserve.keep(), "it is not tried again at once"
    assert DiskReserve(None).keep()
    monkeypatch.delattr("os.posix_fallocate", raising=False)
    other = DiskReserve(tmp_path / "written.bin")
    other._size = 100_000
    assert other.keep()
    assert (tmp_path / "written.bin").stat().st_size == 100_000


def test_the_reserve_is_the_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "reserve.bin"
    assert DiskReserve(path, 8192).keep()
    assert path.stat().st_mode & 0o777 == 0o600
