"""How much work there is, across agents: a look at the indexes of what is open, for status and metrics."""

from __future__ import annotations

from hermes.domain.rows import WorkCounts
from hermes.state.db import Db

_TURNS = "SELECT state, count(*) FROM turns WHERE state IN ('accepted', 'running', 'waiting') GROUP BY state"
_OUTBOX = (
    "SELECT state, count(*) FROM outbox WHERE draft = 0 AND state IN ('due', 'attempting', 'unknown')"
    " GROUP BY state"
)


class CountsTable:
    def __init__(self, db: Db) -> None:
        self._db = db

    def now(self) -> WorkCounts:
        inbox = self._db.one("SELECT count(*) FROM inbox WHERE outcome IS NULL")
        return WorkCounts(
            inbox=0 if inbox is None else inbox[0],
            turns=dict(self._db.all(_TURNS)),
            outbox=dict(self._db.all(_OUTBOX)),
        )
