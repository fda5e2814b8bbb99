"""Jobs and what became of their slots: (job, slot) is unique, so no slot runs twice."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime

from hermes.domain.errors import Lost
from hermes.domain.ids import AgentId, JobId
from hermes.domain.turns.job import DueJobs, Job, JobRun, Slot
from hermes.state.store.codec import encode, stamp, stamp_or_none, unstamp_or_none
from hermes.state.store.table import BodyColumn, ScopedTable, readable

_MOST_DUE = 500
_BODY = "CAST(body AS BLOB)"
"""Bytes that are no text are refused where the row is read, not with all others."""
# So many of each agent: none hides the jobs of another.
_DUE = f"""SELECT id, {_BODY} FROM (
  SELECT id, body, next_due, row_number() OVER (PARTITION BY agent ORDER BY next_due, id) AS place FROM jobs
  WHERE agent = ?1 AND next_due <= ?2 AND (?3 IS NULL OR agent IN (SELECT value FROM json_each(?3))))
WHERE place <= ?4 ORDER BY next_due, id"""
_JOBS = BodyColumn(Job, "jobs")
_RUNS = BodyColumn(JobRun, "job_slots")


class JobsTable(ScopedTable):
    def save(self, job: Job) -> None:
        sql = """INSERT INTO jobs VALUES (?, ?, ?, ?)
            ON CONFLICT (id) DO UPDATE SET next_due = excluded.next_due, body = excluded.body
            WHERE agent = excluded.agent"""
        next_due = stamp_or_none(job.next_due)
        if job.agent != self._agent or not self._db.run(sql, job.id, job.agent, next_due, encode(job)):
            raise Lost(f"job {job.id} belongs to another agent")

    def get(self, job: JobId) -> Job | None:
        return _JOBS.one(self._db, "WHERE id = ? AND agent = ?", job, self._agent)

    def list(self) -> list[Job]:
        sql = f"SELECT id, {_BODY} FROM jobs WHERE agent = ? ORDER BY next_due IS NULL, next_due, id"
        return [job for _, job in readable(Job, self._db.all(sql, self._agent))]

    def due(self, now: datetime, among: Iterable[AgentId] | None = None) -> DueJobs:
        agents = None if among is None else json.dumps(list(among))
        rows = self._db.all(_DUE, self._agent, stamp(now), agents, _MOST_DUE)
        jobs = [job for _, job in readable(Job, rows)]
        following = "SELECT min(next_due) FROM jobs WHERE agent = ? AND next_due > ?"
        after = unstamp_or_none(self._db.value(following, self._agent, stamp(now)))
        return DueJobs(jobs=tuple(jobs), next=after)

    def remove(self, job: JobId) -> None:
        self._db.run("DELETE FROM jobs WHERE id = ? AND agent = ?", job, self._agent)


class JobRunsTable(ScopedTable):
    def claim(self, run: JobRun) -> bool:
        sql = """INSERT INTO job_slots (job, due, agent, state, body)
            SELECT id, ?, agent, ?, ? FROM jobs WHERE id = ? AND agent = ? ON CONFLICT DO NOTHING"""
        return self._db.run(sql, stamp(run.due), run.state.value, encode(run), run.job, self._agent) > 0

    def save(self, run: JobRun) -> None:
        sql = "UPDATE job_slots SET state = ?, body = ? WHERE job = ? AND due = ? AND agent = ?"
        changed = self._db.run(sql, run.state.value, encode(run), run.job, stamp(run.due), self._agent)
        if not changed:
            raise Lost(f"the run of job {run.job} at {run.due} is gone")

    def get(self, slot: Slot) -> JobRun | None:
        rest = "WHERE job = ? AND due = ? AND agent = ?"
        return _RUNS.one(self._db, rest, slot.job, stamp(slot.due), self._agent)

    def open(self) -> list[tuple[AgentId, JobRun]]:
        sql = f"SELECT agent, {_BODY} FROM job_slots WHERE agent = ? AND state != 'over' ORDER BY due, job"
        return [(AgentId(agent), run) for agent, run in readable(JobRun, self._db.all(sql, self._agent))]

    def of(self, job: JobId | None, limit: int) -> list[JobRun]:
        rest = "WHERE agent = ?1 AND (?2 IS NULL OR job = ?2) ORDER BY due DESC, job LIMIT ?3"
        return _RUNS.all(self._db, rest, self._agent, job, limit)
