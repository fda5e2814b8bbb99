"""Backups: never of nothing, at a clean stop, within its time; several on one day cost no older day."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from hermes.domain.errors import Unreachable
from hermes.domain.ids import SessionId
from hermes.domain.ports.store import Tx
from hermes.state.store.care import backup as backups
from hermes.state.store.care.backup import (
    KEPT,
    Upkeep,
    backup,
    backup_if_due,
    backups_of,
    made_at,
)
from hermes.state.store.writer import SqliteStore
from hermes.testing.clock import FakeClock
from hermes.testing.store_suite.samples import NOW, add_talk, entry

S1 = SessionId("s1")


def _append(seq: int, tx: Tx) -> None:
    tx.journal.append(S1, [entry(seq)])


async def _records(path: Path) -> int:
    async with SqliteStore(path) as store:
        return len(await store.read(lambda tx: tx.journal.read(S1)))


async def test_a_fresh_database_gives_no_backup(tmp_path: Path) -> None:
    path = tmp_path / "gateway.db"
    async with SqliteStore(path) as store:
        assert backup_if_due(path, NOW) is None
        assert backup_if_due(path, NOW, at_stop=True) is None
        await store.write(add_talk)
        assert backup_if_due(path, NOW) is not None


async def test_an_empty_backup_is_none_for_today(tmp_path: Path) -> None:
    path = tmp_path / "gateway.db"
    async with SqliteStore(path) as store:
        backup(path, NOW)
        await store.write(add_talk)
        assert backup_if_due(path, NOW + timedelta(minutes=5)) is not None
        assert backup_if_due(path, NOW + timedelta(minutes=10)) is None, "now there is one"


async def test_a_stop_keeps_what_happened_since(tmp_path: Path) -> None:
    path = tmp_path / "gateway.db"
    clock = FakeClock(NOW)
    async with SqliteStore(path) as store:
        care = Upkeep(store=store, path=path, clock=clock)
        await store.write(add_talk)
        assert (await care.back_up()).startswith("made")
        await store.write(partial(_append, 1))
        await clock.advance(60)
        assert await care.back_up() == "nothing was due"
        await care.stop(hurry=False)
        assert made_at(backups_of(path)[0]) == clock.now()
        await clock.advance(60)
        await care.stop(hurry=False)
    [made] = backups_of(path)
    assert made_at(made) == NOW + timedelta(seconds=60), "nothing happened since, and one a day is kept"
    assert await _records(made) == 1


async def test_a_stop_waits_no_longer_than_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "gateway.db"
    monkeypatch.setattr(backups, "_PAGES_AT_ONCE", 1)
    async with SqliteStore(path) as store:
        await store.write(add_talk)
        old = backup(path, NOW)
        await store.write(partial(_append, 1))
        care = Upkeep(store=store, path=path, clock=FakeClock(NOW + timedelta(days=1)))
        monkeypatch.setattr(backups, "STOP_SECONDS", -1.0)
        await care.stop(hurry=False)
        assert backups_of(path) == [old]
        monkeypatch.setattr(backups, "STOP_SECONDS", 60.0)
        await care.stop(hurry=True)
        assert backups_of(path) == [old], "who is in a hurry is not held up"
        await care.stop(hurry=False)
        assert len(backups_of(path)) == 2
        assert not [one for one in old.parent.iterdir() if one.name.startswith(".")]


@pytest.mark.parametrize("moment", ["while it is copied", "while it is checked"])
async def test_a_backup_can_be_given_up_at_any_moment(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "gateway.db"
    monkeypatch.setattr(backups, "_PAGES_AT_ONCE", 1 if "copied" in moment else -1)
    monkeypatch.setattr(backups, "_STEPS_AT_ONCE", 10)
    asked = 0

    def give_up() -> bool:
        nonlocal asked
        asked += 1
        return asked > 3

    async with SqliteStore(path) as store:
        await store.write(add_talk)
        old = backup(path, NOW)
        with pytest.raises(Unreachable, match="too long"):
            backup(path, NOW + timedelta(days=1), give_up=give_up)
    assert backups_of(path) == [old]
    assert await _records(old) == 0


async def test_stops_on_one_day_cost_no_older_day(tmp_path: Path) -> None:
    path = tmp_path / "gateway.db"
    async with SqliteStore(path) as store:
        await store.write(add_talk)
        for day in range(KEPT + 1):
            for hour in range(3):
                await asyncio.to_thread(backup, path, NOW + timedelta(days=day, hours=hour))
        days = [made_at(made) - NOW for made in backups_of(path)]
        assert days == [timedelta(days=KEPT - number, hours=2) for number in range(KEPT)]
        late = backup(path, NOW - timedelta(days=400))
        assert late.exists(), "a clock that was wrong once does not cost the newest"


async def test_all_steps_of_a_backup_see_one_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "gateway.db"
    monkeypatch.setattr(backups, "_PAGES_AT_ONCE", 1)
    async with SqliteStore(path) as store:
        await store.write(add_talk)
        loop = asyncio.get_running_loop()
        seq = 0

        def write_between() -> bool:
            nonlocal seq
            seq += 1
            asyncio.run_coroutine_threadsafe(store.write(partial(_append, seq)), loop).result(60)
            return False

        made = await asyncio.to_thread(backup, path, NOW, give_up=write_between)
    assert seq > 10
    assert await _records(made) <= 1
