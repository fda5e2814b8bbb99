"""Numbers of records: taken in blocks, in the order of writing, and never given again, whatever is deleted,
undone or damaged. The search index, the session logs and the counts of usage follow them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.domain.errors import Refused
from hermes.domain.ids import EVERY_AGENT, MAIN_AGENT, SessionId, TurnId
from hermes.domain.turns.event import Entry, Record, UserSaid
from hermes.state.store.sqlite import SqliteDb, open_current
from hermes.testing.store_suite.samples import NOW, session

ONE, TWO = SessionId("s1"), SessionId("s2")


def _say(db: SqliteDb, whose: SessionId, first: int, count: int = 1) -> None:
    record: Record = UserSaid(text="hi")
    entries = [Entry(seq=seq, turn=TurnId("t"), at=NOW, record=record) for seq in range(first, first + count)]
    db.tx(MAIN_AGENT).journal.append(whose, entries)


def _numbers(db: SqliteDb, whose: SessionId) -> list[int]:
    return [row[0] for row in db.all("SELECT n FROM journal WHERE session = ? ORDER BY seq", whose)]


def _opened(path: Path) -> SqliteDb:
    db = open_current(path)
    for name in (ONE, TWO):
        if db.tx(MAIN_AGENT).sessions.get(name) is None:
            db.tx(MAIN_AGENT).sessions.add(session(name))
    return db


def test_numbers_follow_each_other_and_few_are_written_down(tmp_path: Path) -> None:
    db = _opened(tmp_path / "state.db")
    _say(db, ONE, 1, 40)
    _say(db, TWO, 1)
    _say(db, ONE, 41)
    assert [*_numbers(db, ONE), *_numbers(db, TWO)] == [*range(1, 41), 42, 41]
    written = db.value("SELECT seq FROM sqlite_sequence WHERE name = 'journal'")
    for seq in range(42, 500):
        _say(db, ONE, seq)
    assert db.value("SELECT seq FROM sqlite_sequence WHERE name = 'journal'") == written
    for seq in range(500, 2500):
        _say(db, ONE, seq)
    numbers = _numbers(db, ONE)
    assert numbers == sorted(set(numbers)) and numbers[-1] > written
    db.close()


def test_the_number_of_what_was_deleted_is_not_given_again(tmp_path: Path) -> None:
    db = _opened(tmp_path / "state.db")
    _say(db, ONE, 1)
    _say(db, TWO, 1, 3)
    gone = _numbers(db, TWO)[-1]
    db.tx(MAIN_AGENT).sessions.delete(TWO)
    _say(db, ONE, 2)
    assert _numbers(db, ONE)[-1] > gone
    last = _numbers(db, ONE)[-1]
    db.tx(MAIN_AGENT).sessions.delete(ONE)
    db.close()
    db = _opened(tmp_path / "state.db")
    _say(db, ONE, 1)
    assert _numbers(db, ONE)[0] > last, "nor by the next life"
    db.close()


def test_a_copy_takes_numbers_of_the_same_block(tmp_path: Path) -> None:
    db = _opened(tmp_path / "state.db")
    _say(db, ONE, 1, 3)
    db.tx(MAIN_AGENT).journal.copy(ONE, TWO, 2, ())
    _say(db, ONE, 4)
    copied, own = _numbers(db, TWO), _numbers(db, ONE)
    assert len(copied) == 2 and own[2] < copied[0] < copied[1] < own[3]
    db.tx(MAIN_AGENT).journal.copy(ONE, TWO, 0, ())
    db.close()


def test_what_is_undone_leaves_a_gap_and_nothing_else(tmp_path: Path) -> None:
    db = _opened(tmp_path / "state.db")
    db.run("SAVEPOINT unit")
    _say(db, ONE, 1)
    db.run("ROLLBACK TO unit")
    db.run("RELEASE unit")
    for seq in range(1, 1200):  # beyond the block that was taken back
        _say(db, ONE, seq)
    numbers = _numbers(db, ONE)
    assert numbers == sorted(set(numbers)) and len(numbers) == 1199
    assert db.value("SELECT seq FROM sqlite_sequence WHERE name = 'journal'") >= numbers[-1]
    db.close()


def test_a_lost_count_gives_no_number_twice(tmp_path: Path) -> None:
    db = _opened(tmp_path / "state.db")
    _say(db, ONE, 1, 5)
    db.run("DELETE FROM sqlite_sequence")
    db.close()
    db = _opened(tmp_path / "state.db")
    _say(db, ONE, 6)
    numbers = _numbers(db, ONE)
    assert numbers == sorted(set(numbers))
    with pytest.raises(Refused, match="belongs to one agent"):
        db.tx(EVERY_AGENT).journal.append(
            ONE, [Entry(seq=9, turn=TurnId("t"), at=NOW, record=UserSaid(text="x"))]
        )
    db.close()
