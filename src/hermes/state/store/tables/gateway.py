"""What belongs to the gateway and to no agent: its facts and leases; and what it asks across agents: the
start of a life, work that is due, how much is open, and what may be forgotten."""

from __future__ import annotations

from datetime import datetime

from hermes.domain.chats.rows import Boot, DueSession, OpenWork
from hermes.domain.ids import AgentId, SessionId
from hermes.domain.turns.turn import CRASHES_BESIDE, Question
from hermes.state.store.codec import stamp
from hermes.state.store.table import Columns, TableFamily
from hermes.state.store.tables.sessions import SessionsTable
from hermes.state.store.tables.turns import question_of

_OURS = "gateway."
_DUE = Columns(DueSession, "turns")
_BEGUN = 1 << 60
_OPEN = "state IN ('accepted', 'running', 'waiting')"
# Settled rows are forgotten by age, never by count.
_PRUNED_BY_BITES = (
    "DELETE FROM inbox WHERE n IN (SELECT n FROM inbox WHERE accepted_at < ?"
    " AND outcome IS NOT NULL ORDER BY accepted_at LIMIT ?)",
    "DELETE FROM outbox WHERE n IN (SELECT n FROM outbox WHERE created_at < ?"
    " AND state IN ('sent', 'dead', 'gone', 'shown') ORDER BY created_at LIMIT ?)",
    "DELETE FROM requests WHERE rowid IN"
    " (SELECT rowid FROM requests WHERE created_at < ? ORDER BY created_at LIMIT ?)",
)
_PRUNED_WHOLE = (
    "DELETE FROM overheard WHERE at < ?",
    "DELETE FROM job_slots WHERE due < ? AND state = 'over'",
    "DELETE FROM handoffs WHERE created_at < ? AND state IN ('completed', 'failed')",
)
# What no session names: a handful a month, so the sessions are read only if there are texts of that age.
_PRUNED_TEXTS = """DELETE FROM prompts WHERE made_at < ?1 AND hash NOT IN (
    SELECT prompt FROM sessions WHERE prompt IS NOT NULL
    UNION SELECT context FROM sessions WHERE context IS NOT NULL
    UNION SELECT tools FROM sessions WHERE tools IS NOT NULL)"""
_PRUNED_AT_ONCE = 5000
_SESSIONS_AT_ONCE = 200


class FactsTable(TableFamily):
    """Facts the gateway keeps of itself, by name. Those of the file's own format are `migrations`'."""

    def get(self, name: str) -> str | None:
        value: str | None = self._db.value("SELECT value FROM facts WHERE name = ?", _OURS + name)
        return value

    def put(self, name: str, value: str) -> None:
        self._db.run("INSERT OR REPLACE INTO facts VALUES (?, ?)", _OURS + name, value)


class LeasesTable(TableFamily):
    """Who may use an account or tick the clock. The epoch rises with every new holder and fences."""

    def take(self, name: str, owner: str, now: datetime, seconds: float) -> int | None:
        moment = stamp(now)
        sql = """INSERT INTO leases VALUES (?1, ?2, 1, ?3) ON CONFLICT (name) DO UPDATE
            SET owner = ?2, until = ?3, epoch = epoch + (owner != ?2)
            WHERE owner = ?2 OR until < ?4 RETURNING epoch"""
        epoch: int | None = self._db.value(sql, name, owner, moment + seconds, moment)
        return epoch

    def release(self, name: str, owner: str) -> None:
        self._db.run("UPDATE leases SET until = 0 WHERE name = ? AND owner = ?", name, owner)


class RecoveryTable(TableFamily):
    def boot(self, now: datetime) -> Boot:
        """Begin a life. After an unclean end, turns that ran then and had added nothing are suspects. Turns
        whose client is gone with the old process are marked to be settled, not run."""
        crashed = self._db.value(
            "SELECT iif(closed_at IS NULL, epoch, NULL) FROM boots ORDER BY epoch DESC LIMIT 1"
        )
        if crashed is not None:
            self._count_crash(crashed)
        self._db.run(
            "UPDATE turns INDEXED BY turns_open"
            " SET stop = 'client gone', state = iif(state = 'waiting', 'running', state)"
            " WHERE ephemeral AND state IN ('accepted', 'running', 'waiting')"
        )
        epoch = self._db.value("INSERT INTO boots (started_at) VALUES (?) RETURNING epoch", stamp(now))
        return Boot(epoch=epoch, unclean=crashed is not None)

    def _count_crash(self, epoch: int) -> None:
        """A turn that was alone in having added nothing has one crash more to answer for. Several are only
        remembered, until each is to be tried alone: any one of them may have done it, or none."""
        # The list of states names the index: without it SQLite would read every turn there ever was.
        sql = f"""SELECT n FROM turns INDEXED BY turns_open WHERE {_OPEN}
            AND state = 'running' AND epoch = ? AND progress = 0"""
        rows = self._db.all(sql, epoch)
        crashes = "max(crashes, ?) + 1" if len(rows) == 1 else "max(crashes, min(crashes + 1, ?))"
        for (n,) in rows:
            self._db.run(f"UPDATE turns SET crashes = {crashes} WHERE n = ?", CRASHES_BESIDE, n)

    def close(self, epoch: int, now: datetime) -> None:
        self._db.run("UPDATE boots SET closed_at = ? WHERE epoch = ?", stamp(now), epoch)

    def due(self, after: int, limit: int) -> list[DueSession]:
        rest = "INDEXED BY turns_accepted WHERE state = 'accepted' AND n > ? ORDER BY n LIMIT ?"
        accepted = _DUE.all(self._db, rest, max(after, 0), limit)
        return accepted if after > 0 else [*self._running(after), *accepted]

    def _running(self, after: int) -> list[DueSession]:
        """Turns that were begun come before all others, with numbers below 0. There are never many, and only
        the first pages have them, so that they need no index: a plain turn would write it twice."""
        sql = f"""SELECT n - {_BEGUN} AS place, session, agent FROM turns INDEXED BY turns_open
            WHERE {_OPEN} AND state = 'running' AND n - {_BEGUN} > ? ORDER BY n"""
        rows = self._db.all(sql, after or -_BEGUN)
        return [DueSession(n=place, session=session, agent=agent) for place, session, agent in rows]

    def expired(self, now: datetime, limit: int) -> list[tuple[AgentId, Question]]:
        rows = self._db.all(
            "SELECT agent, body, verdict, answer, answered_by FROM questions"
            " WHERE verdict IS NULL AND expires_at <= ? ORDER BY expires_at LIMIT ?",
            stamp(now),
            limit,
        )
        return [(AgentId(row[0]), question_of(row[1:])) for row in rows]

    def prune(self, before: datetime, now: datetime) -> int:
        moment = stamp(before)
        gone = sum(self._db.run(sql, moment, _PRUNED_AT_ONCE) for sql in _PRUNED_BY_BITES)
        gone += sum(self._db.run(sql, moment) for sql in _PRUNED_WHOLE)
        expired = self._expire_sessions(now)
        if not gone + expired:
            # In the last bite.
            self._db.run(_PRUNED_TEXTS, moment)
        return gone + expired

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

    def open_work(self) -> OpenWork:
        """Every count reads an index of open rows alone, so it costs what is open and not what ever was."""
        turns = self._db.all(
            "SELECT state, count(*) FROM turns INDEXED BY turns_open"
            " WHERE state IN ('accepted', 'running', 'waiting') GROUP BY state"
        )
        outbox = self._db.all(
            "SELECT state, count(*) FROM outbox INDEXED BY outbox_open"
            " WHERE draft = 0 AND state IN ('due', 'attempting', 'unknown') GROUP BY state"
        )
        inbox = self._db.value("SELECT count(*) FROM inbox INDEXED BY inbox_pending WHERE outcome IS NULL")
        questions = self._db.value(
            "SELECT count(*) FROM questions INDEXED BY questions_session WHERE verdict IS NULL"
        )
        return OpenWork(turns=dict(turns), outbox=dict(outbox), inbox=inbox, questions=questions)
