"""`hermes sessions rename|archive|prune|export --format|optimize|repair`, on a home that nobody uses."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest

from hermes.admin.process.home_files import GATEWAY, hold_home
from hermes.cli import main
from hermes.domain.ids import SessionId
from hermes.domain.models.usage import Usage
from hermes.domain.ports.store import Tx
from hermes.domain.turns.event import ModelSaid, UserSaid
from hermes.domain.word import replace
from hermes.state.home.homes import DATABASE_FILE
from hermes.state.store.care import repair
from hermes.state.store.writer import SqliteStore
from hermes.testing.store_suite.samples import entry, session, turn

NOW = datetime.now(UTC)


def fill(tx: Tx) -> None:
    for name, days in (("old", 100), ("busy", 100), ("new", 1)):
        made = replace(session(name, title=f"The {name} one"), updated_at=NOW - timedelta(days=days))
        tx.sessions.add(made)
    tx.turns.add(turn("t1", "busy"))
    tx.turns.add(turn("t2", "old"))
    said = entry(1, "t2", UserSaid(text="<b>hello</b>"))
    answer = entry(2, "t2", ModelSaid(text="good day", model="m", usage=Usage(prompt=1, completion=1)))
    tx.journal.append(SessionId("old"), [said, replace(answer, at=NOW)])
    done = tx.turns.get(turn("t2", "old").id)
    assert done is not None
    tx.turns.save(replace(done, stop="x", state=type(done.state)("done")), attempt=done.attempt)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))

    async def write() -> None:
        async with SqliteStore(tmp_path / DATABASE_FILE) as store:
            await store.write(fill)

    asyncio.run(write())
    return tmp_path


def test_export_as_a_page(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sessions", "export", "old", "--format", "md"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("# The old one\n") and "good day" in page
    assert main(["sessions", "export", "old", "--format", "html"]) == 0
    page = capsys.readouterr().out
    assert "<title>The old one</title>" in page and "&lt;b&gt;hello" in page and "<b>hello" not in page
    assert main(["sessions", "export", "old", "--format", "pdf"]) == 2


def test_rename(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sessions", "rename", "old", "  Rome\u200b  and back "]) == 0
    assert "old is called “Rome and back”." in capsys.readouterr().out
    assert main(["sessions", "rename", "Rome and back", "The new one"]) == 1
    assert "Another session is called “The new one”." in capsys.readouterr().err
    assert main(["sessions", "rename", "old", "x" * 101]) == 1
    assert "at most 100 characters" in capsys.readouterr().err


def test_prune_keeps_what_is_used_or_unfinished_and_what_it_cost(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sessions", "prune", "--dry-run", "--json"]) == 0
    assert [one["id"] for one in json.loads(capsys.readouterr().out)] == ["old"]
    assert main(["sessions", "prune"]) == 1
    assert "Add --yes to confirm." in capsys.readouterr().err
    assert main(["sessions", "prune", "--older-than", "90", "--yes"]) == 0
    capsys.readouterr()
    assert main(["sessions", "list", "--json"]) == 0
    assert sorted(one["id"] for one in json.loads(capsys.readouterr().out)) == ["busy", "new"]
    assert main(["insights", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["total"]["calls"] == 1


def test_optimize_gives_space_back_and_keeps_what_was_said(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long = [entry(n, "t2", UserSaid(text=f"word{n} " * 2000)) for n in range(3, 60)]

    async def write() -> None:
        async with SqliteStore(home / DATABASE_FILE) as store:
            await store.write(lambda tx: tx.sessions.add(session("long", title="Long")))
            await store.write(lambda tx: tx.journal.append(SessionId("long"), long))
            await store.write(lambda tx: tx.sessions.delete(SessionId("long")))

    asyncio.run(write())
    assert main(["sessions", "optimize", "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert done["after"] == (home / DATABASE_FILE).stat().st_size < done["before"] / 2
    assert main(["sessions", "search", "good"]) == 0
    assert "old" in capsys.readouterr().out
    with hold_home(home, GATEWAY):
        assert main(["sessions", "optimize"]) == 1
    assert "hermes gateway stop" in capsys.readouterr().err


def test_repair_looks_at_more_than_a_start_does(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for limit in ("_CHECKED_WHEN_CLEAN", "_CHECKED_WHEN_UNCLEAN"):
        monkeypatch.setattr(repair, limit, 0)
    assert main(["sessions", "repair"]) == 0
    assert "nothing is damaged" in capsys.readouterr().out
    connection = apsw.Connection(str(home / DATABASE_FILE))
    connection.execute("INSERT INTO words (words) VALUES ('rebuild')")
    connection.execute("UPDATE words_data SET block = x'00ff00ff' WHERE id > 10")
    connection.close()
    assert main(["sessions", "list"]) == 0
    assert "search index" not in capsys.readouterr().err
    assert main(["sessions", "repair", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert not told["sound"] and "search index" in told["notices"][0]
    assert main(["sessions", "repair", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"sound": True, "notices": []}


def test_a_home_without_a_database_has_none_to_repair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    assert main(["sessions", "repair"]) == 1
    assert "no database yet" in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_archived_ones_are_out_of_the_lists_until_they_are_put_back(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def ids(*words: str) -> list[str]:
        assert main(["sessions", *words, "--json"]) == 0
        return sorted(one["id"] for one in json.loads(capsys.readouterr().out))

    assert ids("archive", "--older-than", "90", "--dry-run") == ["old"]
    assert ids("list") == ["busy", "new", "old"]
    assert main(["sessions", "list", "--archived"]) == 0
    assert "no such session" in capsys.readouterr().out
    assert ids("archive", "--older-than", "90") == ["old"] and ids("archive", "The new one") == ["new"]
    assert ids("list") == ["busy"] and ids("list", "--archived") == ["new", "old"]
    assert ids("archive", "--older-than", "90") == [] and ids("archive", "new") == []
    assert main(["sessions", "search", "good"]) == 0 and "old" in capsys.readouterr().out
    assert main(["sessions", "stats", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["sessions"], told["archived"]) == (3, 2)
    assert main(["export", str(home / "out")]) == 0
    kept = json.loads((home / "out/sessions.json").read_text())
    assert {one["id"]: one["archived"] for one in kept} == {"busy": False, "new": True, "old": True}
    capsys.readouterr()
    assert ids("archive", "new", "--undo") == ["new"] and ids("list") == ["busy", "new"]
    for wrong in ([], ["old", "--older-than", "9"], ["--undo", "--older-than", "9"]):
        assert main(["sessions", "archive", *wrong]) == 2
