"""Migrations: whole or not at all, twice is once, and a newer file is politely left alone."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from hermes.domain.errors import UserError
from hermes.domain.ids import SessionId, TurnId
from hermes.domain.turns.event import UserSaid
from hermes.domain.turns.session import SessionFilter
from hermes.domain.word import replace
from hermes.state.store import migrations as migrations
from hermes.state.store.codec import encode
from hermes.state.store.migrations import MIGRATIONS, NEWEST, Migration, migrate
from hermes.state.store.sqlite import SqliteDb, connect, open_current
from hermes.state.store.writer import SqliteStore
from hermes.testing.store_suite.samples import NOW, inbound, turn


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


def _bring_to(db: SqliteDb, number: int) -> None:
    for step in (step for step in MIGRATIONS if step.number <= number):
        for statement in step.statements:
            db.run(statement)
        if step.work is not None:
            step.work(db)


def _of_schema_ten(path: Path) -> None:
    """A file as the version before wrote it: sessions with their prompts, turns and records."""
    db = connect(path)
    db.run("BEGIN IMMEDIATE")
    _bring_to(db, 10)
    db.run("INSERT INTO facts VALUES ('oldest_program', '9')")
    db.run("PRAGMA user_version = 10")
    given, said = encode(turn("t1").input), encode(UserSaid(text="hello"))
    for number in range(40):
        prompt = (None, "You are Ada.", "You are Ada.\n\nA chat.")[number % 3]
        db.run(
            "INSERT INTO sessions (id, agent, title, system_prompt, created_at, updated_at, yolo)"
            " VALUES (?, 'main', ?, ?, 1, ?, ?)",
            *(f"s{number}", f"Title {number}", prompt, number, number % 2),
        )
        db.run(
            "INSERT INTO turns (id, session, agent, cause, state, input, busy, attempt, progress, crashes,"
            " epoch, ephemeral, created_at)"
            " VALUES (?, ?, 'main', 'message', ?, ?, 'queue', 1, 1, 0, 1, 0, 1)",
            *(f"t{number}", f"s{number}", "done" if number % 4 else "running", given),
        )
        db.run(
            "INSERT INTO journal (session, seq, turn, at, kind, body) VALUES (?, 1, ?, 1, 'user_said', ?)",
            *(f"s{number}", f"t{number}", said.decode()),
        )
    db.run("COMMIT")
    db.connection.close()


async def _check_sessions(path: Path) -> None:
    async with SqliteStore(path) as store:
        sessions = await store.read(lambda tx: tx.sessions.find("", 100))
        assert [session.id for session in sessions] == [f"s{number}" for number in reversed(range(40))]
        assert [session.title for session in sessions[:2]] == ["Title 39", "Title 38"]
        prompts = {session.id: session.system_prompt for session in sessions}
        assert (prompts["s0"], prompts["s1"], prompts["s2"]) == (
            None, "You are Ada.", "You are Ada.\n\nA chat.",
        )  # fmt: skip
        assert [session.yolo for session in sessions[:2]] == [True, False]
        assert len(await store.read(lambda tx: tx.journal.of_turn(TurnId("t7")))) == 1
        assert len(await store.read(lambda tx: tx.turns.open_of(SessionId("s8")))) == 1
        await store.write(lambda tx: tx.sessions.delete(SessionId("s8")))
        await store.write(lambda tx: tx.sessions.delete(SessionId("s7")))
        assert await store.read(lambda tx: (tx.turns.get(TurnId("t8")), tx.turns.get(TurnId("t7")))) == (
            None,
            None,
        )


async def test_prompts_of_an_older_file_are_kept_once(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    _of_schema_ten(path)
    await _check_sessions(path)
    db = connect(path)
    assert db.value("SELECT count(*) FROM prompts") == 2
    assert (
        db.value("SELECT count(*) FROM sqlite_schema WHERE name LIKE '%before%' OR name = 'prompt_hashes'")
        == 0
    )
    db.connection.close()


@pytest.mark.parametrize("statement", [2, 9, 13])
async def test_an_older_file_survives_a_kill_in_the_middle_of_its_migration(
    statement: int, tmp_path: Path
) -> None:
    path = tmp_path / "state.db"
    _of_schema_ten(path)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(  # noqa: ASYNC221
        [sys.executable, "-c", KILLED, str(path), str(statement)], env=environment, check=False
    )
    assert done.returncode == -signal.SIGKILL
    await _check_sessions(path)


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


async def test_what_was_allowed_for_a_session_is_taken_from_old_journals(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    db = connect(path)
    db.run("BEGIN IMMEDIATE")
    _bring_to(db, 11)
    for session in ("s1", "s2"):
        row = f"INSERT INTO sessions (id, agent, created_at, updated_at) VALUES ('{session}', 'main', 0, 0)"
        db.run(row)
    asked = '{"question": "%s", "kind": "approval", "text": "?", "digest": "%s"}'
    answered = '{"question": "%s", "verdict": "%s", "by": %s}'
    for session, seq, kind, body in (
        ("s1", 1, "asked", asked % ("q1", "do:a")),
        ("s1", 2, "asked", asked % ("q2", "do:b")),
        ("s1", 3, "answered", answered % ("q1", "session", '"ann"')),
        ("s1", 4, "answered", answered % ("q2", "once", '"ann"')),
        ("s1", 5, "asked", asked % ("q3", "do:c")),
        ("s1", 6, "answered", answered % ("q3", "session", "null")),
        ("s1", 7, "asked", asked % ("q4", "")),
        ("s1", 8, "answered", answered % ("q4", "session", '"ann"')),
        ("s1", 9, "answered", "{broken"),
        ("s2", 1, "asked", asked % ("q5", "do:d")),
        ("s2", 2, "answered", answered % ("q5", "session", '"bob"')),
        ("s2", 3, "answered", answered % ("q1", "session", '"bob"')),
        ("gone", 1, "asked", asked % ("q6", "do:e")),
        ("gone", 2, "answered", answered % ("q6", "session", '"bob"')),
    ):
        row = "INSERT INTO journal (session, seq, turn, at, kind, body) VALUES (?, ?, 't', 0, ?, ?)"
        db.run(row, session, seq, kind, body)
    db.run("INSERT OR REPLACE INTO facts VALUES ('oldest_program', '9')")
    db.run("PRAGMA user_version = 11")
    db.run("COMMIT")
    db.connection.close()
    with closing(open_current(path)) as now:
        rows = now.all("SELECT session, agent, person, digest, seq FROM session_grants ORDER BY session")
    assert rows == [("s1", "main", "ann", "do:a", 3), ("s2", "main", "bob", "do:d", 2)]


async def test_sessions_of_before_there_was_an_archive_are_in_the_lists(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    db = connect(path)
    db.run("BEGIN IMMEDIATE")
    _bring_to(db, 24)
    insert = "INSERT INTO sessions (id, agent, created_at, updated_at) VALUES ('{}', 'main', 0, 0)"
    db.run(insert.format("before"))
    db.run("INSERT OR REPLACE INTO facts VALUES ('oldest_program', '19')")
    db.run("PRAGMA user_version = 24")
    db.run("COMMIT")
    db.connection.close()
    among = SessionFilter(archived=False)
    async with SqliteStore(path) as store:
        [found] = await store.read(lambda tx: tx.sessions.find("", 9, among))
        await store.write(lambda tx: tx.sessions.save(replace(found, archived=True)))
    with closing(connect(path)) as older:  # which knows no archive, and may write here all the same
        older.run(insert.format("meanwhile"))
    async with SqliteStore(path) as store:
        [found] = await store.read(lambda tx: tx.sessions.find("", 9, among))
        assert (found.id, found.tag) == ("meanwhile", None)


async def test_a_place_that_cannot_be_written_is_said_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be opened for writing"):
        await SqliteStore(tmp_path / "nowhere" / "state.db").open()
    folder = tmp_path / "state.db"
    folder.mkdir()
    with pytest.raises(UserError, match="cannot be"):
        await SqliteStore(folder).open()
