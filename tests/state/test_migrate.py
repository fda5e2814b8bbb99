"""Migrations: whole or not at all, twice is once, and a newer file is politely left alone."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest

from hermes.domain.errors import UserError
from hermes.state.store import migrations as migrations
from hermes.state.store.migrations import MIGRATIONS, NEWEST, Migration, migrate
from hermes.state.store.sqlite import SqliteDb, connect, open_current
from hermes.state.store.writer import SqliteStore
from hermes.testing.store_suite.samples import NOW, inbound


def _files(path: Path) -> dict[str, str]:
    return {
        one.name: hashlib.sha256(one.read_bytes()).hexdigest()
        for one in path.parent.iterdir()
        if one.name.startswith(path.name) and not one.name.endswith("-shm")
    }


def _schema(path: Path) -> list[Any]:
    connection = apsw.Connection(str(path))
    rows = connection.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY name").fetchall()
    connection.close()
    return [*rows, apsw.Connection(str(path)).execute("PRAGMA user_version").fetchall()]


def _from_the_future(path: Path, *, oldest: int, log: bool) -> apsw.Connection:
    db = open_current(path)
    db.run("ALTER TABLE inbox ADD COLUMN mood TEXT")
    db.run("CREATE TABLE dreams (id TEXT)")
    db.run("UPDATE facts SET value = ? WHERE name = 'oldest_program'", str(oldest))
    db.run(f"PRAGMA user_version = {NEWEST + 3}")
    if not log:
        db.connection.close()
    return db.connection


@pytest.mark.parametrize("log", [False, True], ids=["closed", "log left"])
async def test_a_newer_file_is_refused_and_left_as_it_is(log: bool, tmp_path: Path) -> None:
    writer = _from_the_future(tmp_path / "original.db", oldest=NEWEST + 2, log=log)
    path = tmp_path / "state.db"
    for suffix in ("", "-wal"):
        source = tmp_path / f"original.db{suffix}"
        if source.exists():
            path.with_name(path.name + suffix).write_bytes(source.read_bytes())
    before = _files(path)
    with pytest.raises(UserError, match="newer Hermes") as caught:
        await SqliteStore(path).open()
    assert "Update Hermes" in str(caught.value)
    assert _files(path) == before
    writer.close()


async def test_a_newer_file_that_suits_us_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    _from_the_future(path, oldest=NEWEST, log=False)
    async with SqliteStore(path) as store:
        assert await store.write(lambda tx: tx.inbox.add("fake", [inbound("d1")], None, NOW)) == 1
        assert len(await store.read(lambda tx: tx.inbox.pending(0, 9))) == 1
    assert apsw.Connection(str(path)).execute("PRAGMA user_version").fetchall() == [(NEWEST + 3,)]


def test_migrating_twice_is_migrating_once(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    open_current(path).connection.close()
    before, bytes_before = _schema(path), _files(path)
    open_current(path).connection.close()
    assert _schema(path) == before
    assert _files(path) == bytes_before


class _Stumbling:
    """A connection that breaks at its n-th change."""

    def __init__(self, db: SqliteDb, steps: int) -> None:
        self._db = db
        self._steps = steps
        self.all = db.all
        self.one = db.one
        self.value = db.value

    def run(self, sql: str, *values: Any) -> int:
        self._steps -= 1
        if self._steps < 0:
            raise InterruptedError(sql)
        return self._db.run(sql, *values)


def test_a_migration_that_was_cut_off_leaves_nothing(tmp_path: Path) -> None:
    whole = tmp_path / "whole.db"
    open_current(whole).connection.close()
    steps = len(MIGRATIONS[0].statements) + 2
    for number in range(0, steps, 3):
        path = tmp_path / f"{number}.db"
        db = connect(path)
        db.run("BEGIN IMMEDIATE")
        with pytest.raises(InterruptedError):
            migrate(_Stumbling(db, number), str(path))
        db.connection.close()
        open_current(path).connection.close()
        assert _schema(path) == _schema(whole)


KILLED = """
import os, signal, sys
from hermes.state.store import sqlite as engine
real = engine.SqliteDb.run
count = 0
def run(self, sql, *values):
    global count
    count += sql.lstrip().startswith(("CREATE", "INSERT"))
    if count == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    return real(self, sql, *values)
engine.SqliteDb.run = run
from pathlib import Path
engine.open_current(Path(sys.argv[1]))
"""


@pytest.mark.parametrize("statement", [1, 20, 34])
def test_a_migration_that_was_killed_is_done_at_the_next_start(statement: int, tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(path), str(statement)], env=environment, check=False
    )
    assert done.returncode == -signal.SIGKILL
    open_current(path).connection.close()
    whole = tmp_path / "whole.db"
    open_current(whole).connection.close()
    assert _schema(path) == _schema(whole)


async def test_a_later_step_builds_on_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state.db"
    async with SqliteStore(path) as store:
        await store.write(lambda tx: tx.inbox.add("fake", [inbound("d1")], None, NOW))
    number = NEWEST + 1
    later = Migration(number=number, oldest=number, statements=("ALTER TABLE inbox ADD COLUMN mood TEXT",))
    monkeypatch.setattr(migrations, "MIGRATIONS", (*MIGRATIONS, later))
    monkeypatch.setattr(migrations, "NEWEST", number)
    tables = {**migrations._TABLES, number: migrations._TABLES[NEWEST]}
    monkeypatch.setattr(migrations, "_TABLES", tables)
    async with SqliteStore(path) as store:
        assert len(await store.read(lambda tx: tx.inbox.pending(0, 9))) == 1
    monkeypatch.undo()
    with pytest.raises(UserError, match="newer Hermes"):
        await SqliteStore(path).open()


async def test_a_place_that_cannot_be_written_is_said_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be opened for writing"):
        await SqliteStore(tmp_path / "nowhere" / "state.db").open()
    folder = tmp_path / "state.db"
    folder.mkdir()
    with pytest.raises(UserError, match="cannot be"):
        await SqliteStore(folder).open()
