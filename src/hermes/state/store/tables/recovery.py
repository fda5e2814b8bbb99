"""What the gateway asks across agents: the start of a life, work that is due, and what may be forgotten."""

from __future__ import annotations

from datetime import datetime

from hermes.domain.ids import AgentId, SessionId
from hermes.domain.rows import Boot, DueSession
from hermes.domain.turn import CRASHES_BESIDE, Question
from hermes.state.store.codec import stamp
from hermes.state.store.db import TableFamily
from hermes.state.store.tables.questions import question_of
from hermes.state.store.tables.sessions import SessionsTable

_PRUNED_AT_ONCE = 5000
_SESSIONS_AT_ONCE = 200


class RecoveryTable(TableFamily):
    def boot(self, now: datetime) -> Boot:
        """Begin a life. After an unclean end, turns that ran then and had added nothing are suspects. Turns
        whose client is gone with the old process are marked to be settled, not run."""
        last = self._db.one("SELECT epoch, closed_at FROM boots ORDER BY epoch DESC LIMIT 1")
        unclean = last is not None and last[1] is None
        if last is not None and unclean:
            self._count_crash(last[0])
        self._db.run(
            "UPDATE turns INDEXED BY turns_open"
            " SET stop = 'client gone', state = iif(state = 'waiting', 'running', state)"
            " WHERE ephemeral AND state IN ('accepted', 'running', 'waiting')"
        )
        row = self._db.one("INSERT INTO boots (started_at) VALUES (?) RETURNING epoch", stamp(now))
        assert row is not None
        return Boot(epoch=row[0], unclean=unclean)

    def _count_crash(self, epoch: int) -> None:
        """A turn that was alone in having added nothing has one crash more to answer for. Several are only
        remembered, until each is to be tried alone: any one of them may have done it, or none."""
        rows = self._db.all(
            # The list of states names the index: without it SQLite would read every turn there ever was.
            "SELECT n FROM turns INDEXED BY turns_due WHERE state IN ('accepted', 'running')"
            " AND state = 'running' AND epoch = ? AND progress = 0",
            epoch,
        )
        crashes = "max(crashes, ?) + 1" if len(rows) == 1 else "max(crashes, min(crashes + 1, ?))"
        for (n,) in rows:
            self._db.run(f"UPDATE turns SET crashes = {crashes} WHERE n = ?", CRASHES_BESIDE, n)

    def close(self, epoch: int, now: datetime) -> None:
        self._db.run("UPDATE boots SET closed_at = ? WHERE epoch = ?", stamp(now), epoch)

    def due(self, after: int, limit: int) -> list[DueSession]:
        rows = self._db.all(
            "SELECT n, session, agent FROM turns INDEXED BY turns_due"
            " WHERE state IN ('accepted', 'running') AND n > ? ORDER BY n LIMIT ?",
            after,
            limit,
        )
        return [
            DueSession(n=n, session=SessionId(session), agent=AgentId(agent)) for n, session, agent in rows
        ]

    def expired(self, now: datetime, limit: int) -> list[tuple[AgentId, Question]]:
        rows = self._db.all(
            "SELECT agent, body, verdict, answer, answered_by FROM questions"
            " WHERE verdict IS NULL AND expires_at <= ? ORDER BY expires_at LIMIT ?",
            stamp(now),
            limit,
        )
        return [(AgentId(row[0]), question_of(row[1:])) for row in rows]

    def prune(self, before: datetime, now: datetime) -> int:
        """Forget settled rows by age, never by count, and sessions whose time is over, a bounded bite at a
        time."""
        moment = stamp(before)
        gone = self._db.run(
            "DELETE FROM inbox WHERE n IN (SELECT n FROM inbox WHERE accepted_at < ?"
            " AND outcome IS NOT NULL ORDER BY accepted_at LIMIT ?)",
            moment,
            _PRUNED_AT_ONCE,
        )
        gone += self._db.run(
            "DELETE FROM outbox WHERE n IN (SELECT n FROM outbox WHERE created_at < ?"
            " AND state IN ('sent', 'dead', 'gone', 'shown') ORDER BY created_at LIMIT ?)",
            moment,
            _PRUNED_AT_ONCE,
        )
        gone += self._db.run("DELETE FROM overheard WHERE at < ?", moment)
        gone += self._db.run("DELETE FROM job_slots WHERE due < ? AND state = 'over'", moment)
        gone += self._db.run(
            "DELETE FROM handoffs WHERE created_at < ? AND state IN ('completed', 'failed')", moment
        )
        gone += self._db.run(
            "DELETE FROM requests WHERE rowid IN"
            " (SELECT rowid FROM requests WHERE created_at < ? ORDER BY created_at LIMIT ?)",
            moment,
            _PRUNED_AT_ONCE,
        )
        return gone + self._expire_sessions(now)

    def _expire_sessions(self, now: datetime) -> int:
        rows = self._db.all(
            "SELECT agent, id FROM sessions WHERE expires_at <= ? AND NOT EXISTS (SELECT 1 FROM turns"
            " WHERE session = sessions.id AND state IN ('accepted', 'running', 'waiting')) LIMIT ?",
            stamp(now),
            _SESSIONS_AT_ONCE,
        )
        for agent, session in rows:
            SessionsTable(self._db, AgentId(agent)).delete(SessionId(session))
        return len(rows)
