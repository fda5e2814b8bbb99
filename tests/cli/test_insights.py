"""`hermes insights`: a table and a plot of what models took, with a gateway and without."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hermes.cli import main
from hermes.domain.ids import SessionId
from hermes.domain.models.usage import Usage
from hermes.domain.ports.store import Tx
from hermes.domain.turns.event import ModelSaid
from hermes.domain.word import replace
from hermes.state.home.homes import DATABASE_FILE
from hermes.state.store.writer import SqliteStore
from hermes.testing.store_suite.samples import entry, session, turn

NOW = datetime.now(UTC)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "60")

    def fill(tx: Tx) -> None:
        tx.sessions.add(session("s1"))
        tx.turns.add(turn("t1"))
        for n, (model, days, cost) in enumerate((("big", 0, 0.5), ("big", 1, 0.25), ("small", 0, None)), 1):
            used = Usage(prompt=1000, completion=10, cached=250, cost=cost)
            said = entry(n, "t1", ModelSaid(model=model, usage=used))
            tx.journal.append(SessionId("s1"), [replace(said, at=NOW - timedelta(days=days))])

    async def write() -> None:
        async with SqliteStore(tmp_path / DATABASE_FILE) as store:
            await store.write(fill)

    asyncio.run(write())
    return tmp_path


def test_a_table_and_a_plot(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["insights", "--days", "3"]) == 0
    told = capsys.readouterr()
    assert not told.err and "\x1b" not in told.out
    head, big, small, every, _, title, *bars = told.out.splitlines()
    assert head.split() == ["MODEL", "CALLS", "READ", "CACHED", "WRITTEN", "COST"]
    assert big.split() == ["big", "2", "2,000", "25%", "20", "$0.7500"]
    assert small.split() == ["small", "1", "1,000", "25%", "10", "unknown"]
    assert every.split() == ["all", "3", "3,000", "25%", "30", "$0.7500", "and", "more"]
    assert title == "Dollars by day" and len(bars) == 3
    nothing, less, most = bars
    assert "█" not in nothing and 1.8 * less.count("█") <= most.count("█") <= 2.2 * less.count("█")
    assert max(map(len, bars)) <= 60


def test_by_something_else_as_json_and_bad_words(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["insights", "--by", "role", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [line["name"] for line in told["groups"]] == ["main"] and told["total"]["calls"] == 3
    assert main(["insights", "--by", "moon"]) == 2
    assert main(["insights", "--days", "0"]) == 2
    assert main(["insights", "--agent", "nobody"]) == 1
    assert "There is no agent “nobody”." in capsys.readouterr().err


def test_nothing_to_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    assert main(["insights"]) == 0
    assert "No model was asked from" in capsys.readouterr().out
