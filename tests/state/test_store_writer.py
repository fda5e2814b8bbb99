"""The writer thread of the SQLite store itself: it outlives what goes wrong in it, and ends cleanly."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from pathlib import Path

import pytest

from hermes.domain.errors import Unreachable
from hermes.domain.ids import SessionId
from hermes.domain.ports import Tx
from hermes.state import sqlite
from hermes.state.engine import StoreOptions, connect_reader
from hermes.state.sqlite import SqliteStore
from hermes.testing.store_suite.samples import NOW, add_talk, entry, inbound, session

S1 = SessionId("s1")


def _append(seq: int, tx: Tx) -> int:
    tx.journal.append(S1, [entry(seq)])
    return seq


def _modes(folder: Path) -> dict[str, int]:
    """The files of a folder, and what others may do with them."""
    return {one.name: one.stat().st_mode & 0o077 for one in folder.iterdir()}


def _threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("store-")}


async def test_the_writer_outlives_a_fault_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with SqliteStore(tmp_path / "state.db") as store:
        await store.write(add_talk)

        def break_down(*_: object) -> None:
            raise MemoryError("planted")

        monkeypatch.setattr(store, "_run", break_down)
        results = await asyncio.gather(
            *(store.write(partial(_append, seq)) for seq in range(1, 4)), return_exceptions=True
        )
        assert all(isinstance(result, Unreachable) for result in results)
        monkeypatch.undo()
        assert await store.write(partial(_append, 1)) == 1


async def test_a_unit_that_swallows_the_end_of_its_transaction_is_noticed(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "state.db") as store:
        tries = 0

        def end_it(tx: Tx) -> int:
            nonlocal tries
            tries += 1
            tx.sessions.add(session(f"n{tries}"))
            if tries == 1:
                tx.sessions._db.run("ROLLBACK")  # type: ignore[attr-defined]
            return tries

        assert await store.write(end_it) == 2
        assert [one.id for one in await store.read(lambda tx: tx.sessions.find(""))] == ["n2"]


async def test_what_was_asked_before_the_close_is_done(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    before = _threads()
    store = await SqliteStore(path).open()
    await store.write(add_talk)
    asked = [asyncio.create_task(store.write(partial(_append, seq))) for seq in range(1, 1000)]
    reads = [asyncio.create_task(store.read(lambda tx: len(tx.journal.read(S1)))) for _ in range(5)]
    await asyncio.sleep(0)
    await asyncio.gather(store.close(), store.close())
    assert await asyncio.gather(*asked) == list(range(1, 1000))
    await asyncio.gather(*reads)
    await store.close()
    assert _threads() == before
    assert sorted(_modes(tmp_path)) == ["reserve.bin", "state.db"]


async def test_a_failed_open_leaves_no_thread_and_no_open_door(tmp_path: Path) -> None:
    before = _threads()
    store = SqliteStore(tmp_path / "missing" / "state.db")
    with pytest.raises(Exception, match="cannot be opened"):
        await store.open()
    with pytest.raises(Unreachable):
        await store.write(lambda tx: None)
    await store.close()
    assert _threads() == before


def test_a_loop_that_ends_first_does_not_hurt_the_writer(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "state.db")

    async def leave() -> None:
        await store.open()
        await store.write(add_talk)
        for seq in range(1, 50):
            task = asyncio.ensure_future(store.write(partial(_append, seq)))
            await asyncio.sleep(0)
            task.cancel()

    asyncio.run(leave())
    store._end(store._thread)  # type: ignore[arg-type]

    async def look() -> int:
        async with SqliteStore(tmp_path / "state.db") as again:
            return len(await again.read(lambda tx: tx.journal.read(S1)))

    assert asyncio.run(look()) == 49


async def test_accepts_go_ahead_of_other_work(tmp_path: Path) -> None:
    order: list[str] = []
    async with SqliteStore(tmp_path / "state.db") as store:
        begun, gate = threading.Event(), threading.Event()
        held = asyncio.create_task(store.write(lambda _tx: begun.set() or gate.wait(60)))
        await asyncio.to_thread(begun.wait, 60)
        others = [asyncio.create_task(store.write(lambda _tx: order.append("work"))) for _ in range(3)]
        first = asyncio.create_task(store.write(lambda _tx: order.append("accept"), first=True))
        await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(held, first, *others)
        assert order == ["accept", "work", "work", "work"]
        assert store.facts.units == 5
        assert store.facts.commits == 2


async def test_the_log_does_not_grow_for_ever_under_readers(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    done = False

    async def keep_reading(store: SqliteStore) -> None:
        while not done:
            await store.read(lambda tx: len(tx.journal.read(S1)))

    async with SqliteStore(path, StoreOptions(checkpoint_pages=50)) as store:
        await store.write(add_talk)
        reading = [asyncio.create_task(keep_reading(store)) for _ in range(3)]
        largest = 0
        for number in range(400):
            items = [inbound(f"d{number}", text="x" * 20_000)]
            await store.write(lambda tx, items=items: tx.inbox.add("fake", items, None, NOW), first=True)
            largest = max(largest, (path.parent / "state.db-wal").stat().st_size)
        done = True
        await asyncio.gather(*reading)
    written = 400 * 20_000
    assert largest < written / 2


async def test_a_busy_store_keeps_its_index_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_INDEX_SECONDS", 0.0)
    path = tmp_path / "state.db"
    async with SqliteStore(path) as store:
        await store.write(add_talk)
        for seq in range(1, 30):
            await store.write(partial(_append, seq))
        await store.write(lambda tx: None)
        reader = connect_reader(path)
        [(indexed,)] = reader.all("SELECT value FROM facts WHERE name = 'indexed'")
        reader.connection.close()
        assert int(indexed) >= 28


async def test_the_file_is_the_owner_s_alone(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "state.db") as store:
        await store.write(add_talk)
        modes = _modes(tmp_path)
        del modes["reserve.bin"]
        assert modes == {"state.db": 0, "state.db-wal": 0, "state.db-shm": 0}
