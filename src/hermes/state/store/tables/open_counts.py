"""How much is open at this moment, across agents. Every count reads an index of open rows alone, so that
asking costs what is open and not what ever was."""

from __future__ import annotations

from hermes.domain.rows import OpenWork
from hermes.state.store.db import TableFamily


class CensusTable(TableFamily):
    def count(self) -> OpenWork:
        turns = self._db.all(
            "SELECT state, count(*) FROM turns INDEXED BY turns_open"
            " WHERE state IN ('accepted', 'running', 'waiting') GROUP BY state"
        )
        outbox = self._db.all(
            "SELECT state, count(*) FROM outbox INDEXED BY outbox_open"
            " WHERE draft = 0 AND state IN ('due', 'attempting', 'unknown') GROUP BY state"
        )
        inbox = self._db.one("SELECT count(*) FROM inbox INDEXED BY inbox_pending WHERE outcome IS NULL")
        questions = self._db.one(
            "SELECT count(*) FROM questions INDEXED BY questions_session WHERE verdict IS NULL"
        )
        return OpenWork(
            turns=dict(turns),
            outbox=dict(outbox),
            inbox=inbox[0] if inbox else 0,
            questions=questions[0] if questions else 0,
        )
