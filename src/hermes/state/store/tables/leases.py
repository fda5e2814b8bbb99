"""Leases: who may use an account or tick the clock. The epoch rises with every new holder and fences."""

from __future__ import annotations

from datetime import datetime

from hermes.state.store.codec import stamp
from hermes.state.store.db import TableFamily


class LeasesTable(TableFamily):
    def take(self, name: str, owner: str, now: datetime, seconds: float) -> int | None:
        moment = stamp(now)
        row = self._db.one(
            "INSERT INTO leases VALUES (?1, ?2, 1, ?3) ON CONFLICT (name) DO UPDATE"
            " SET owner = ?2, until = ?3, epoch = epoch + (owner != ?2)"
            " WHERE owner = ?2 OR until < ?4 RETURNING epoch",
            name,
            owner,
            moment + seconds,
            moment,
        )
        return None if row is None else int(row[0])

    def release(self, name: str, owner: str) -> None:
        self._db.run("UPDATE leases SET until = 0 WHERE name = ? AND owner = ?", name, owner)
