"""A database file that is removed or replaced while the store has it open: nothing new is acknowledged, and
its content gets its name back."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from hermes.domain.errors import Unreachable
from hermes.domain.ids import SessionId
from hermes.domain.ports.store import Tx
from hermes.state.store import writer as sqlite
from hermes.state.store.care import file_identity as filename
from hermes.state.store.care.backup import backup
from hermes.state.store.care.repair import open_checked
from hermes.state.store.care.restored import RESTORED
from hermes.state.store.writer import SqliteStore
from hermes.testing.clock import FakeClock
from hermes.testing.store_suite.samples import NOW, add_talk, address, entry, inbound

S1 = SessionId("s1")
DELIVERIES = [inbound("d1"), inbound("d2")]


def _remove(path: Path) -> None:
    for one in path.parent.glob(f"{path.name}*"):
        one.unlink()


def _remove_alone(path: Path) -> None:
    path.unlink()


def _remove_log(path: Path) -> None:
    path.with_name(path.name + "-wal").unlink()


def _replace_log(path: Path) -> None:
    _remove_log(path)
    path.with_name(path.name + "-wal").write_bytes(b"")


def _remove_home(path: Path) -> None:
    shutil.rmtree(path.parent)


def _replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(b"somebody else's")
    other.replace(path)


HARMS = [_remove, _remove_alone, _remove_log, _replace_log, _remove_home, _replace]


def _append(seq: int, tx: Tx) -> int:
    tx.journal.append(S1, [entry(seq)])
    return seq


@pytest.mark.parametrize("harm", HARMS)
async def test_a_lost_file_is_saved_and_takes_no_more(harm: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "home" / "gateway.db"
    path.parent.mkdir()
    store = await SqliteStore(path).open()
    await store.write(add_talk)
    await store.write(lambda tx: tx.inbox.add("fake", DELIVERIES[:1], "1", NOW), first=True)
    harm(path)
    with pytest.raises(Unreachable, match="removed or replaced"):
        await store.write(lambda tx: tx.inbox.add("fake", DELIVERIES[1:], "2", NOW), first=True)
    assert "removed or replaced" in store.facts.trouble
    await asyncio.wait_for(store.lost.wait(), 60)
    saved = await _deliveries_of_a_copy(path, tmp_path)
    assert saved == ["d1"], "who is killed now loses nothing that was acknowledged"
    assert await store.write(partial(_append, 1)) == 1, "what is under way goes on"
    await store.close()
    opened = await open_checked(path, FakeClock())
    assert opened.notices == ()
    assert await opened.store.read(lambda tx: len(tx.journal.read(S1))) == 1, "and is saved at the end"
    assert await opened.store.check_integrity() == []
    await opened.store.close()
    kept = [one.read_bytes() for one in path.parent.glob("*.replaced-*")]
    assert kept == ([b"somebody else's"] if harm is _replace else [])


async def _deliveries_of_a_copy(path: Path, folder: Path) -> list[str]:
    copy = folder / "copy.db"
    shutil.copyfile(path, copy)
    async with SqliteStore(copy) as store:
        return [row.inbound.delivery for row in await store.read(lambda tx: tx.inbox.pending(0, 9))]


@pytest.mark.parametrize("harm", [_remove, _remove_log])
@pytest.mark.parametrize("busy", [False, True])
async def test_a_lost_file_is_noticed_without_an_accept(
    busy: bool, harm: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (filename, sqlite):
        monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    path = tmp_path / "gateway.db"
    async with SqliteStore(path) as store:
        await store.write(add_talk)
        harm(path)
        for seq in range(1, 20_000):
            if store.lost.is_set():
                break
            if busy:
                await store.write(partial(_append, seq))
            else:
                await asyncio.sleep(0.01)
        assert store.lost.is_set()
        assert path.exists()


async def test_reading_does_not_make_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "gateway.db"
    async with SqliteStore(path) as store:
        await store.write(add_talk)
        _remove(path)
        with pytest.raises(Unreachable):
            await store.read(lambda tx: tx.turns.open_of(S1))
        assert not path.exists() or path.stat().st_size


async def test_a_missing_file_beside_backups_opens_the_newest(tmp_path: Path) -> None:
    path = tmp_path / "gateway.db"
    async with SqliteStore(path) as store:
        await store.write(add_talk)
        backup(path, NOW)
        await store.write(lambda tx: tx.inbox.add("fake", DELIVERIES, "2", NOW))
        await store.write(lambda tx: tx.directory.set_home("fake", address("home"), NOW))
        backup(path, NOW + timedelta(days=1))
    _remove(path)
    opened = await open_checked(path, FakeClock(NOW + timedelta(days=2)))
    try:
        assert opened.notices[0] == f"{path} was missing."
        assert "2026-01-06" in opened.notices[1]
        assert await opened.store.read(lambda tx: len(tx.inbox.find("d1"))) == 1
        told = [await opened.store.read(partial(_head, chat)) for chat in ("home", "42")]
        assert all(told), "the home channel and who had written are told"
        turns = await opened.store.read(lambda tx: tx.turns.open_of(S1))
        assert [turn.stop for turn in turns] == [RESTORED]
    finally:
        await opened.store.close()


def _head(chat: str, tx: Tx) -> object:
    return tx.outbox.head(address(chat))


async def test_what_was_saved_counts_if_it_lost_its_way(tmp_path: Path) -> None:
    """The process died between the two moves of a file that had been replaced."""
    path = tmp_path / "gateway.db"
    async with SqliteStore(path) as store:
        await store.write(add_talk)
    path.replace(filename.rescued(path))
    opened = await open_checked(path, FakeClock())
    assert await opened.store.read(lambda tx: tx.sessions.get(S1)) is not None
    assert not filename.rescued(path).exists(), "it is not taken a second time"
    await opened.store.close()
    _remove(path)
    filename.rescued(path).write_bytes(random.Random(1).randbytes(9000))
    fresh = await open_checked(path, FakeClock())
    assert await fresh.store.read(lambda tx: tx.sessions.get(S1)) is None
    await fresh.store.close()


async def test_a_file_system_that_turns_read_only_is_noticed_by_an_idle_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root's `access` says so too, and nobody has to write for it."""
    monkeypatch.setattr(sqlite, "LOOK_SECONDS", 0.01)
    async with SqliteStore(tmp_path / "gateway.db") as store:
        await store.write(add_talk)
        monkeypatch.setattr(os, "access", lambda path, mode: False)
        monkeypatch.setattr(store, "_probe", lambda: None)
        await _becomes(store, True)
        assert "read-only" in store.facts.trouble
        monkeypatch.undo()
        await _becomes(store, False)


async def _becomes(store: SqliteStore, troubled: bool) -> None:
    for _ in range(6000):
        if bool(store.facts.trouble) is troubled:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"its trouble is still {store.facts.trouble!r}")
