"""Jobs of the existing product: taken over once, as far as they are understood, with nothing lost."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from hermes.app.imports import import_jobs, imported_job
from hermes.domain.ids import MAIN_AGENT, JobId
from hermes.domain.ports.store import Tx
from hermes.domain.settings.declaring import NONE_LISTED
from hermes.domain.turns.job import Job, JobState
from hermes.state.files.job_files import JOBS_FILE, read_jobs_file
from hermes.state.store.writer import SqliteStore

NOW = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
ZONE = ZoneInfo("Europe/Berlin")
INTERVAL = {
    "id": "a1b2c3d4e5f6",
    "name": "Mail",
    "prompt": "look at the mail",
    "skills": ["mail"],
    "schedule": {"kind": "interval", "minutes": 120, "display": "every 2h"},
    "repeat": {"times": 5, "completed": 2},
    "enabled": True,
    "state": "scheduled",
    "created_at": "2025-12-01T10:00:00+01:00",
    "next_run_at": "2026-01-05T14:00:00+01:00",
    "deliver": "origin",
    "origin": {"platform": "telegram", "chat_id": "-100", "thread_id": "7"},
    "provider_snapshot": "openrouter",
    "attach_to_session": True,
}


def test_an_interval() -> None:
    job = imported_job(INTERVAL, MAIN_AGENT, NOW, ZONE)
    assert (job.id, job.schedule, job.times, job.completed) == ("a1b2c3d4e5f6", "every 2h", 5, 2)
    assert job.next_due == NOW + timedelta(hours=1)
    assert job.origin is not None and str(job.origin.address) == "telegram:-100:7"
    assert json.loads(job.extra) == {"provider_snapshot": "openrouter"} and job.attach_to_session


def test_toolsets_that_cannot_be_read_are_none() -> None:
    for written in ({}, 5, True):
        job = imported_job({**INTERVAL, "enabled_toolsets": written}, MAIN_AGENT, NOW, ZONE)
        assert job.toolsets == NONE_LISTED
    assert imported_job({**INTERVAL, "enabled_toolsets": None}, MAIN_AGENT, NOW, ZONE).toolsets == ()


def test_the_other_kinds() -> None:
    cron = imported_job(
        {"schedule": {"kind": "cron", "expr": "0 9 * * 1-5"}, "prompt": "x"}, MAIN_AGENT, NOW, ZONE
    )
    assert cron.schedule == "0 9 * * 1-5" and cron.next_due == datetime(2026, 1, 6, 8, 0, tzinfo=UTC)
    once = {"schedule": {"kind": "once", "run_at": "2026-01-05T20:00:00"}, "prompt": "x"}
    assert imported_job(once, MAIN_AGENT, NOW, ZONE).next_due == datetime(2026, 1, 5, 19, 0, tzinfo=UTC)
    assert imported_job({**INTERVAL, "enabled": False}, MAIN_AGENT, NOW, ZONE).state is JobState.PAUSED
    assert imported_job({**INTERVAL, "state": "completed"}, MAIN_AGENT, NOW, ZONE).next_due is None


def test_one_that_is_not_understood_comes_along() -> None:
    job = imported_job(
        {"schedule": {"kind": "cron", "expr": "whenever"}, "prompt": "x"}, MAIN_AGENT, NOW, ZONE
    )
    assert job.state is JobState.ERROR and "not understood" in job.last_error and job.next_due is None


async def test_once_and_never_again(tmp_path: Path) -> None:
    (tmp_path / "cron").mkdir()
    file = tmp_path / JOBS_FILE
    file.write_text(
        json.dumps({"jobs": [INTERVAL, {**INTERVAL, "id": "ffffffffffff"}, "?"], "updated_at": "x"})
    )
    before = file.read_bytes()
    told = read_jobs_file(tmp_path)
    async with SqliteStore(None) as store:

        def take(tx: Tx) -> int:
            return import_jobs(tx, MAIN_AGENT, told, NOW, ZONE)

        def jobs(tx: Tx) -> list[Job]:
            return tx.jobs.list()

        assert await store.write(take) == 2
        assert sorted(job.name for job in await store.read(jobs)) == ["Mail", "Mail (ffffffffffff)"]
        await store.write(lambda tx: tx.jobs.remove(JobId("a1b2c3d4e5f6")))
        assert await store.write(take) == 0
        assert [job.id for job in await store.read(jobs)] == ["ffffffffffff"]
    assert file.read_bytes() == before
