"""A hundred thousand rows are waiting after a kill: the next start reads them in pages, by an index, and
never looks at what is done. Asserted on the plan of each query, not on the clock."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from hermes.domain.ids import MAIN_AGENT, SessionId, TurnId
from hermes.state.store.codec import encode, stamp
from hermes.state.store.sqlite import SqliteDb, open_current, tables_of
from hermes.state.store.table import Row
from hermes.state.store.writer import SqliteStore
from hermes.testing.store_suite.samples import NOW, address, inbound, out, turn

BUILD = """
import os, signal, sys
from pathlib import Path
from tests.state.test_store_pending import build
build(Path(sys.argv[1]), int(sys.argv[2]))
os.kill(os.getpid(), signal.SIGKILL)
"""


def build(path: Path, count: int) -> None:
    """As many pending rows and accepted turns, among as many that are done, in one transaction."""
    db = open_current(path)
    db.run("BEGIN IMMEDIATE")
    body, given, text = encode(inbound("d")), encode(turn("t").input), encode(out("k").body)
    at = stamp(NOW)
    numbers = range(count)
    db.connection.executemany(
        "INSERT INTO inbox (account, delivery, ref, body, accepted_at, outcome)"
        " VALUES ('fake', ?, ?, ?, ?, ?)",
        [(f"d{n}{done}", f"r{n}", body, at, done) for n in numbers for done in (None, "turn")],
    )
    db.connection.executemany(
        "INSERT INTO sessions (id, agent, created_at, updated_at) VALUES (?, 'main', ?, ?)",
        [(f"s{n}", at, at) for n in range(count // 10)],
    )
    db.connection.executemany(
        "INSERT INTO turns (id, session, agent, cause, state, input, busy, attempt, progress, crashes, epoch,"
        " ephemeral, created_at) VALUES (?, ?, 'main', 'message', ?, ?, 'queue', 0, 0, 0, 0, 0, ?)",
        [
            (f"t{n}{st}", f"s{n % (count // 10)}", st, given, at)
            for n in numbers
            for st in ("accepted", "done")
        ],
    )
    db.connection.executemany(
        "INSERT INTO outbox (key, lane, account, turn, part, draft, body, state, attempts, error, created_at)"
        " VALUES (?, ?, 'fake', ?, 0, 0, ?, ?, 0, '', ?)",
        [
            (f"k{n}{st}", f"fake:{n % 100}", f"t{n}done", text, st, at)
            for n in numbers
            for st in ("due", "sent")
        ],
    )
    db.run("INSERT INTO boots (started_at) VALUES (?)", at)
    db.run("COMMIT")


class _Explaining:
    """A connection that asks for the plan of everything before it does it."""

    def __init__(self, db: SqliteDb) -> None:
        self._db = db
        self.plan: list[str] = []

    def _explain(self, sql: str, values: tuple[Any, ...]) -> None:
        if sql.split()[0] in ("SELECT", "UPDATE", "DELETE", "WITH"):
            self.plan += [str(row[3]) for row in self._db.all(f"EXPLAIN QUERY PLAN {sql}", *values)]

    def all(self, sql: str, *values: Any) -> list[Row]:
        self._explain(sql, values)
        return self._db.all(sql, *values)

    def one(self, sql: str, *values: Any) -> Row | None:
        self._explain(sql, values)
        return self._db.one(sql, *values)

    def value(self, sql: str, *values: Any) -> Any:
        row = self.one(sql, *values)
        return None if row is None else row[0]

    def run(self, sql: str, *values: Any) -> int:
        self._explain(sql, values)
        return self._db.run(sql, *values)


async def test_a_long_queue_after_a_kill_is_read_by_its_index(tmp_path: Path, full: bool) -> None:
    path, count = tmp_path / "state.db", 100_000 if full else 2_000
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path.cwd()), *sys.path])}
    killed = subprocess.run(  # noqa: ASYNC221
        [sys.executable, "-c", BUILD, str(path), str(count)], env=environment, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    async with SqliteStore(path) as store:
        boot = await store.write(lambda tx: tx.recovery.boot(NOW))
        assert boot.unclean
        assert len(await store.read(lambda tx: tx.inbox.pending(0, 256))) == 256
        assert len(await store.read(lambda tx: tx.recovery.due(0, 256))) == 256
        last = await store.read(lambda tx: tx.inbox.pending(0, count)[-1])
        assert await store.read(lambda tx: tx.inbox.pending(last.n, 256)) == []
    _assert_plans(path)


def _plan(db: _Explaining) -> list[str]:
    plan, db.plan = db.plan, []
    return plan


def _assert_plans(path: Path) -> None:
    db = open_current(path)
    explaining = _Explaining(db)
    tx = tables_of(explaining, MAIN_AGENT)
    tx.inbox.pending(0, 256)
    assert _plan(explaining) == ["SEARCH inbox USING INDEX inbox_pending (n>?)"]
    tx.inbox.find("x")
    steps = _plan(explaining)
    assert any("inbox_ref (ref=?)" in step for step in steps), steps
    assert any("(account=? AND delivery=?)" in step for step in steps), steps
    assert not [step for step in steps if step.startswith("SCAN inbox")], steps
    tx.recovery.due(1, 256)
    assert _plan(explaining) == ["SEARCH turns USING INDEX turns_accepted (n>?)"]
    tx.recovery.due(0, 256)
    assert _plan(explaining) == [
        "SEARCH turns USING INDEX turns_accepted (n>?)",
        "SCAN turns USING INDEX turns_open",
        "USE TEMP B-TREE FOR ORDER BY",
    ]
    tx.turns.open_of(SessionId("s1"))
    assert _plan(explaining) == [
        "SEARCH turns USING INDEX turns_open (session=?)",
        "CORRELATED SCALAR SUBQUERY 1",
        "SEARCH guidance USING INDEX sqlite_autoindex_guidance_1 (turn=?)",
    ]
    tx.turns.any_open(SessionId("s1"))
    assert _plan(explaining) == ["SEARCH turns USING INDEX turns_open (session=?)"]
    tx.turns.standing(SessionId("s1"))
    steps = _plan(explaining)
    assert not [step for step in steps if step.startswith("SCAN") and "CONSTANT" not in step], steps
    tx.journal.of_turn(TurnId("t1done"))
    tx.journal.span(TurnId("t1done"))
    steps = _plan(explaining)
    by_number = "SEARCH journal USING INDEX sqlite_autoindex_journal_1 (session=? AND seq>?)"
    assert steps.count(by_number) == 2, steps
    assert not [step for step in steps if step.startswith("SCAN") and "CONSTANT" not in step], steps
    tx.outbox.head(address("7"))
    assert _plan(explaining) == ["SEARCH outbox USING INDEX outbox_open (lane=?)"]
    tx.outbox.waiting("fake", 0, 256)
    assert _plan(explaining) == ["SEARCH outbox USING INDEX outbox_account (account=? AND n>?)"]
    tx.recovery.expired(NOW, 256)
    assert _plan(explaining) == ["SEARCH questions USING INDEX questions_expiry (expires_at<?)"]
    db.run("BEGIN")
    tx.recovery.boot(NOW)
    assert [step for step in _plan(explaining) if "turns" in step] == [
        "SCAN turns USING INDEX turns_open",
        "SCAN turns USING INDEX turns_open",
    ]
    tx.recovery.prune(NOW - timedelta(days=30), NOW)
    steps = _plan(explaining)
    assert "SEARCH inbox USING INDEX inbox_age (accepted_at<?)" in steps
    assert "SEARCH outbox USING INDEX outbox_age (created_at<?)" in steps
    assert not [step for step in steps if step.startswith(("SCAN inbox", "SCAN outbox"))]
    tx.sessions.delete(SessionId("s1"))
    steps = _plan(explaining)
    assert not [step for step in steps if re.match("SCAN (turns|journal|sessions|requests)", step)], steps
    assert not db.one("SELECT 1 FROM turns WHERE session = 's1'")
    db.run("ROLLBACK")
    db.connection.close()


@pytest.mark.full
async def test_nothing_is_taken_twice_from_a_long_queue(tmp_path: Path, full: bool) -> None:
    if not full:
        pytest.skip("in the full run")
    path = tmp_path / "state.db"
    build(path, 100_000)
    async with SqliteStore(path) as store:
        seen: set[int] = set()
        last = 0
        while page := await store.read(lambda tx, last=last: tx.inbox.pending(last, 256)):
            assert not seen & {row.n for row in page}
            seen |= {row.n for row in page}
            last = page[-1].n
        assert len(seen) == 100_000
