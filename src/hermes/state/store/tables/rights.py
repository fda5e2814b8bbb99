"""Who was let in, and what was allowed. Paired people, open pairing codes (hashed) and the counters that
limit guessing belong to the gateway: an account is paired once, whichever agent answers. The
actions that somebody allowed, permanently or for a session, belong to an agent."""

from __future__ import annotations

from hermes.domain.chats.pairing import Account, PairedUser, PairingCode, PairingCounter
from hermes.domain.ids import SessionId
from hermes.domain.text import storable
from hermes.domain.tools.tool import Grant
from hermes.state.store.codec import stamp
from hermes.state.store.table import Columns, ScopedTable, TableFamily

_PERSON = Columns(PairedUser, "pairings", account="platform, account", by="approved_by")
_CODE = Columns(PairingCode, "pairing_codes", account="platform, account", by="made_by")
_COUNTER = Columns(PairingCounter, "pairing_marks")
_GRANT = Columns(Grant, "grants")
_WHO = "WHERE platform = ? AND account = ? AND user = ?"
_KEPT_SECONDS = 86_400.0


class PairingsTable(TableFamily):
    def get(self, account: Account, user: str) -> PairedUser | None:
        return _PERSON.one(self._db, _WHO, account.platform, account.name, user)

    def add(self, paired: PairedUser) -> None:
        _PERSON.insert(self._db, paired, how="INSERT OR REPLACE")

    def remove(self, account: Account, user: str) -> bool:
        return self._db.run(f"DELETE FROM pairings {_WHO}", account.platform, account.name, user) > 0

    def list(self) -> list[PairedUser]:
        return _PERSON.all(self._db, "ORDER BY platform, account, approved_at, user")


class PairingCodesTable(TableFamily):
    def add(self, code: PairingCode) -> None:
        long_ago = stamp(code.created_at) - _KEPT_SECONDS
        self._db.run("DELETE FROM pairing_codes WHERE expires_at < ?", long_ago)
        self._db.run("DELETE FROM pairing_marks WHERE until < ?", long_ago)
        _CODE.insert(self._db, code)

    def list(self) -> list[PairingCode]:
        return _CODE.all(self._db, "ORDER BY n")

    def remove(self, code: str) -> bool:
        return self._db.run("DELETE FROM pairing_codes WHERE id = ?", code) > 0

    def mark(self, name: str) -> PairingCounter | None:
        return _COUNTER.one(self._db, "WHERE name = ?", name)

    def put_mark(self, mark: PairingCounter) -> None:
        _COUNTER.insert(self._db, mark, how="INSERT OR REPLACE")


class GrantsTable(ScopedTable):
    def add(self, grant: Grant) -> None:
        text = storable(grant.text)
        _GRANT.insert(self._db, grant, how="INSERT OR IGNORE", agent=self._agent, text=text)

    def list(self, person: str | None = None) -> list[Grant]:
        rest = "WHERE agent = ?1 AND (?2 IS NULL OR person = ?2) ORDER BY at, id"
        return _GRANT.all(self._db, rest, self._agent, person)

    def add_for_session(self, session: SessionId, person: str, digest: str, seq: int) -> None:
        sql = """INSERT OR IGNORE INTO session_grants SELECT ?1, ?2, ?3, ?4, ?5
            WHERE EXISTS (SELECT 1 FROM sessions WHERE id = ?1 AND agent = ?2)"""
        self._db.run(sql, session, self._agent, person, digest, seq)

    def of_session(self, session: SessionId, person: str) -> frozenset[str]:
        sql = "SELECT digest FROM session_grants WHERE session = ? AND agent = ? AND person = ?"
        return frozenset(digest for (digest,) in self._db.all(sql, session, self._agent, person))

    def revoke(self, grant: str) -> bool:
        return self._db.run("DELETE FROM grants WHERE agent = ? AND id = ?", self._agent, grant) > 0
