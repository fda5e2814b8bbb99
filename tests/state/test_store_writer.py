"""The writer thread of the SQLite store itself: it outlives what goes wrong in it, and ends cleanly."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from itertools import pairwise
from pathlib import Path

import apsw
import pytest

from hermes.domain.errors import Refused, Unreachable
from hermes.domain.ids import SessionId
from hermes.domain.ports.store import Tx
from hermes.domain.turns.turn import EarlierMessage, Guidance, Speaker, TurnInput
from hermes.domain.word import replace
from hermes.state.store import sqlite as engine
from hermes.state.store import writer as sqlite
from hermes.state.store.sqlite import SqliteDb, StoreOptions, connect_reader, suspicion
from hermes.state.store.table import Db
from hermes.state.store.tables import search
from hermes.state.store.writer import SqliteStore
from hermes.testing.store_suite.samples import NOW, add_talk, entry, inbound, session, turn

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


async def test_a_log_that_sqlite_removes_itself_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_RETRY_SECONDS", 0.01)
    path = tmp_path / "gateway.db"
    async with SqliteStore(path) as store:
        await store.write(add_talk, first=True)
        with monkeypatch.context() as broken, pytest.raises(Unreachable):
            broken.setattr(store, "_commit", lambda batch: 1 / 0)
            await store.write(lambda tx: None)
        # The writer has closed its connection, the last one, and opens another.
        await store.write(lambda tx: None, first=True)
        assert not store.lost.is_set()


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


async def test_a_second_try_knows_nothing_of_the_first(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "state.db") as store:
        begun, gate = threading.Event(), threading.Event()
        held = asyncio.create_task(store.write(lambda _tx: begun.set() or gate.wait(60)))
        await asyncio.to_thread(begun.wait, 60)
        refusals = [Refused("not yet"), apsw.BusyError("planted")]
        trouble: list[str] = []

        def refuse_once(kind: type[Exception], _tx: Tx) -> str:
            trouble.append(store.facts.trouble)
            if refusals and isinstance(refusals[0], kind):
                raise refusals.pop(0)
            return "done"

        both = [
            asyncio.create_task(store.write(partial(refuse_once, kind))) for kind in (Refused, apsw.Error)
        ]
        await asyncio.sleep(0)
        gate.set()
        assert await asyncio.gather(held, *both) == [True, "done", "done"]
        assert trouble == ["", "", *2 * ["another process holds the database"]], "status can say why it waits"
        assert store.facts.trouble == ""


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


def _without_its_log(path: Path) -> int:
    """How many records are in the file itself."""
    connection = apsw.Connection(
        f"file:{path}?immutable=1", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    )
    try:
        [[count]] = connection.execute("SELECT count(*) FROM journal").fetchall()
    except apsw.Error:
        return 0
    finally:
        connection.close()
    return int(count)


async def test_an_idle_store_brings_its_index_and_its_file_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    async with SqliteStore(path) as store:
        await store.write(add_talk)
        for seq in range(1, 30):
            await store.write(partial(_append, seq))
        for _ in range(1200):
            if _without_its_log(path) == 29:
                break
            await asyncio.sleep(0.05)
        assert _without_its_log(path) == 29, "nobody asked for anything, and the log was folded in"
        reader = connect_reader(path)
        [(indexed,)] = reader.all("SELECT value FROM facts WHERE name = 'indexed'")
        reader.connection.close()
        assert int(indexed) == 29


async def test_a_store_without_a_file_or_closed_has_nothing_to_check(tmp_path: Path) -> None:
    async with SqliteStore(None) as memory:
        assert await memory.check_integrity() == []
    path = tmp_path / "state.db"
    async with SqliteStore(path) as store:
        await store.write(add_talk)
    path.write_bytes(b"somebody else's by now")
    assert await store.check_integrity() == []
    assert not suspicion(path).exists()


async def test_a_check_under_way_does_not_hold_up_the_close(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_CHECK_STEPS", 1)
    store = await SqliteStore(tmp_path / "state.db").open()
    await store.write(add_talk)
    began = threading.Event()
    closing = threading.Event()
    check = engine.problems_of

    def wait(db: SqliteDb) -> list[str]:
        began.set()
        closing.wait(60)
        return check(db)

    monkeypatch.setattr(engine, "problems_of", wait)
    checking = asyncio.create_task(store.check_integrity())
    await asyncio.to_thread(began.wait, 60)
    await store.close()
    closing.set()
    assert await checking == [], "a check that was given up has found nothing"
    assert store.facts.trouble == ""


async def test_what_a_client_brought_along_is_not_in_the_turn_s_row(tmp_path: Path) -> None:
    """It is written anew with each record."""
    path = tmp_path / "state.db"
    guidance = Guidance(history=tuple(EarlierMessage(by=Speaker.USER, text="x" * 1000) for _ in range(100)))
    brought = replace(turn("t2"), input=TurnInput(text="hello", guidance=guidance))
    async with SqliteStore(path) as store:
        await store.write(add_talk)
        await store.write(lambda tx: tx.turns.add(brought))
        started = replace(brought, attempt=1)
        await store.write(lambda tx: tx.turns.save(started, attempt=0))
        assert await store.read(lambda tx: tx.turns.get(brought.id)) == started
        reader = connect_reader(path)
        [(row,), (kept,)] = [
            *reader.all("SELECT length(input) FROM turns WHERE id = 't2'"),
            *reader.all("SELECT length(body) FROM guidance"),
        ]
        reader.connection.close()
    assert row < 1000
    assert kept > 100_000


# --- a search on an index that is far behind ---


async def test_a_search_far_behind_lets_others_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_BATCH", 10)
    monkeypatch.setattr(search, "_BATCHES_AT_ONCE", 1)
    batches = 0
    catch_up = search.catch_up

    def counted(db: Db) -> int:
        nonlocal batches
        batches += 1
        return catch_up(db)

    monkeypatch.setattr(search, "catch_up", counted)
    monkeypatch.setattr(sqlite, "_IDLE_SECONDS", 600.0)
    monkeypatch.setattr(sqlite, "_INDEX_SECONDS", 600.0)
    async with SqliteStore(tmp_path / "state.db") as store:
        await store.write(add_talk)
        await store.write(lambda tx: tx.journal.append(S1, [entry(seq) for seq in range(1, 301)]))
        searching = asyncio.create_task(store.read(lambda tx: tx.search.find("word", 1000)))
        between = []
        while not searching.done():
            await store.write(lambda tx: None)
            between.append(batches)
        assert len(await searching) == 300, "it waited until all was indexed"
        steps = {after - before for before, after in pairwise(between)}
        assert max(steps) <= 3 and len(between) > 10, "no write waited for more than a few batches"


async def test_a_search_very_far_behind_answers_with_what_is_indexed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_BATCH", 10)
    monkeypatch.setattr(sqlite, "_MOST_BATCHES", 3)
    monkeypatch.setattr(sqlite, "_IDLE_SECONDS", 600.0)
    monkeypatch.setattr(sqlite, "_INDEX_SECONDS", 600.0)
    async with SqliteStore(tmp_path / "state.db") as store:
        await store.write(add_talk)
        await store.write(lambda tx: tx.journal.append(S1, [entry(seq) for seq in range(1, 301)]))
        found = await store.read(lambda tx: tx.search.find("word", 1000))
        assert 30 <= len(found) < 300
