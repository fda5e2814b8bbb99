"""`hermes grants`: what was allowed for good, from the command line."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hermes.cli import main
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.tools.tool import Grant
from hermes.state.home.homes import DATABASE_FILE
from hermes.state.store.writer import SqliteStore

GRANT = Grant(
    id="g_1",
    agent=MAIN_AGENT,
    person="fake:u1",
    digest="d",
    text="Run: rm -r build",
    by="fake:u1",
    at=datetime(2026, 1, 5, tzinfo=UTC),
)


def test_list_and_revoke(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    assert main(["grants", "list"]) == 0
    assert "There are no permanent approvals." in capsys.readouterr().out

    async def grant() -> None:
        async with SqliteStore(tmp_path / DATABASE_FILE) as store:
            await store.write(lambda tx: tx.grants.add(GRANT))

    asyncio.run(grant())
    assert main(["grants", "list"]) == 0
    told = capsys.readouterr().out
    assert "g_1" in told and "rm -r build" in told and "fake:u1" in told
    assert main(["grants", "list", "--json"]) == 0
    assert '"digest": "d"' in capsys.readouterr().out
    assert main(["grants", "revoke", "g_2"]) == 1
    assert "There is no grant “g_2”." in capsys.readouterr().err
    assert main(["grants", "revoke", "g_1"]) == 0
    assert main(["grants", "list"]) == 0
    assert "There are no permanent approvals." in capsys.readouterr().out
