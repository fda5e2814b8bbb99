"""What is read for all agents at once is read row by row: one that cannot be read is set aside."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import apsw
import pytest

from hermes.domain.ids import EVERY_AGENT
from hermes.domain.ports.store import Tx
from hermes.state.store.writer import SqliteStore
from hermes.testing.store_suite.handoffs import handoff
from hermes.testing.store_suite.samples import NOW, OTHER_AGENT, add_talk, job, job_run


def _fill(tx: Tx) -> None:
    add_talk(tx)
    tx.jobs.save(job("j1", next_due=NOW))
    tx.job_runs.claim(job_run("j1"))
    tx.handoffs.add(handoff("h1"))


def _fill_other(tx: Tx) -> None:
    add_talk(tx, "s2", "t2", OTHER_AGENT)
    tx.jobs.save(job("j2", OTHER_AGENT, NOW))
    tx.job_runs.claim(job_run("j2"))
    tx.handoffs.add(handoff("h2", "s2", OTHER_AGENT))


@pytest.mark.parametrize("body", ["{}", "{", "x'ff'"])
async def test_rows_that_cannot_be_read_hide_no_others(
    tmp_path: Path, body: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with SqliteStore(tmp_path / "state.db") as store:
        await store.write(_fill)
        await store.scoped(OTHER_AGENT).write(_fill_other)
    with closing(apsw.Connection(str(tmp_path / "state.db"))) as file:
        wrong = f"CAST({body} AS TEXT)" if body.startswith("x") else f"'{body}'"
        for table in ("jobs", "job_slots", "handoffs"):
            file.execute(f"UPDATE {table} SET body = {wrong} WHERE agent = ?", (OTHER_AGENT,))
    async with SqliteStore(tmp_path / "state.db") as store:
        tables = store.scoped(EVERY_AGENT)
        assert [one.id for one in (await tables.read(lambda tx: tx.jobs.due(NOW))).jobs] == ["j1"]
        assert [one.id for one in await tables.read(lambda tx: tx.jobs.list())] == ["j1"]
        assert [run.job for _, run in await tables.read(lambda tx: tx.job_runs.open())] == ["j1"]
        assert [one.id for one in await tables.read(lambda tx: tx.handoffs.open())] == ["h1"]


async def test_due_jobs_are_those_of_the_agents_that_are_asked_for(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "state.db") as store:
        await store.write(_fill)
        await store.scoped(OTHER_AGENT).write(_fill_other)
        tables = store.scoped(EVERY_AGENT)
        assert [one.id for one in (await tables.read(lambda tx: tx.jobs.due(NOW))).jobs] == ["j1", "j2"]
        some = await tables.read(lambda tx: tx.jobs.due(NOW, [OTHER_AGENT]))
        assert [one.id for one in some.jobs] == ["j2"]
        assert (await tables.read(lambda tx: tx.jobs.due(NOW, []))).jobs == ()
