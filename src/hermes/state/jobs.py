"""Jobs and the slots they ran in: (job, slot) is unique, so no slot runs twice."""

from __future__ import annotations

from hermes.domain.errors import Lost
from hermes.domain.ids import AgentId, JobId
from hermes.domain.rows import Slot
from hermes.domain.turn import Job
from hermes.state.codec import decode, encode, stamp, stamp_or_none
from hermes.state.db import Db


class JobsTable:
    def __init__(self, db: Db, agent: AgentId) -> None:
        self._db = db
        self._agent = agent

    def save(self, job: Job) -> None:
        changed = job.agent == self._agent and self._db.run(
            "INSERT INTO jobs VALUES (?, ?, ?, ?)"
            " ON CONFLICT (id) DO UPDATE SET next_due = excluded.next_due, body = excluded.body"
            " WHERE agent = excluded.agent",
            job.id,
            self._agent,
            stamp_or_none(job.next_due),
            encode(job),
        )
        if not changed:
            raise Lost(f"job {job.id} belongs to another agent")

    def get(self, job: JobId) -> Job | None:
        row = self._db.one("SELECT body FROM jobs WHERE id = ? AND agent = ?", job, self._agent)
        return None if row is None else decode(Job, row[0])

    def list(self) -> list[Job]:
        rows = self._db.all(
            "SELECT body FROM jobs WHERE agent = ? ORDER BY next_due IS NULL, next_due", self._agent
        )
        return [decode(Job, row[0]) for row in rows]

    def claim(self, slot: Slot) -> bool:
        return bool(
            self._db.run(
                "INSERT INTO job_slots SELECT id, ? FROM jobs WHERE id = ? AND agent = ?"
                " ON CONFLICT DO NOTHING",
                stamp(slot.due),
                slot.job,
                self._agent,
            )
        )

    def remove(self, job: JobId) -> None:
        self._db.run("DELETE FROM jobs WHERE id = ? AND agent = ?", job, self._agent)
