"""Pairing: people who were let in, open codes (their hashes), and marks that limit trying. They belong to the
gateway, not to an agent: who may write is decided before a message is anybody's."""

from __future__ import annotations

from hermes.domain.address import Address
from hermes.domain.pairing import Account, PairedUser, PairingCode, PairingCounter
from hermes.state.store.codec import stamp, stamp_or_none, unstamp, unstamp_or_none
from hermes.state.store.db import Row, TableFamily

_PEOPLE = "platform, account, user, name, approved_at, approved_by"
_CODES = "id, platform, account, salt, digest, created_at, expires_at, user, name, place, made_by"
_KEPT_SECONDS = 86_400.0


class PairingsTable(TableFamily):
    def get(self, account: Account, user: str) -> PairedUser | None:
        row = self._db.one(
            f"SELECT {_PEOPLE} FROM pairings WHERE platform = ? AND account = ? AND user = ?",
            account.platform,
            account.name,
            user,
        )
        return None if row is None else _paired(row)

    def add(self, paired: PairedUser) -> None:
        self._db.run(
            f"INSERT OR REPLACE INTO pairings ({_PEOPLE}) VALUES (?, ?, ?, ?, ?, ?)",
            paired.account.platform,
            paired.account.name,
            paired.user,
            paired.name,
            stamp(paired.approved_at),
            paired.by,
        )

    def remove(self, account: Account, user: str) -> bool:
        return bool(
            self._db.run(
                "DELETE FROM pairings WHERE platform = ? AND account = ? AND user = ?",
                account.platform,
                account.name,
                user,
            )
        )

    def list(self) -> list[PairedUser]:
        rows = self._db.all(f"SELECT {_PEOPLE} FROM pairings ORDER BY platform, account, approved_at, user")
        return [_paired(row) for row in rows]


class PairingCodesTable(TableFamily):
    def add(self, code: PairingCode) -> None:
        long_ago = stamp(code.created_at) - _KEPT_SECONDS
        self._db.run("DELETE FROM pairing_codes WHERE expires_at < ?", long_ago)
        self._db.run("DELETE FROM pairing_marks WHERE until < ?", long_ago)
        self._db.run(
            f"INSERT INTO pairing_codes ({_CODES}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            code.id,
            code.account.platform,
            code.account.name,
            code.salt,
            code.digest,
            stamp(code.created_at),
            stamp(code.expires_at),
            code.user,
            code.name,
            None if code.place is None else str(code.place),
            code.by,
        )

    def list(self) -> list[PairingCode]:
        return [_code(row) for row in self._db.all(f"SELECT {_CODES} FROM pairing_codes ORDER BY n")]

    def remove(self, code: str) -> bool:
        return bool(self._db.run("DELETE FROM pairing_codes WHERE id = ?", code))

    def mark(self, name: str) -> PairingCounter | None:
        row = self._db.one("SELECT name, count, until FROM pairing_marks WHERE name = ?", name)
        return (
            None if row is None else PairingCounter(name=row[0], count=row[1], until=unstamp_or_none(row[2]))
        )

    def put_mark(self, mark: PairingCounter) -> None:
        self._db.run(
            "INSERT OR REPLACE INTO pairing_marks VALUES (?, ?, ?)",
            mark.name,
            mark.count,
            stamp_or_none(mark.until),
        )


def _paired(row: Row) -> PairedUser:
    platform, account, user, name, approved_at, by = row
    return PairedUser(
        account=Account(platform=platform, name=account),
        user=user,
        name=name,
        approved_at=unstamp(approved_at),
        by=by,
    )


def _code(row: Row) -> PairingCode:
    ident, platform, account, salt, digest, created_at, expires_at, user, name, place, by = row
    return PairingCode(
        id=ident,
        account=Account(platform=platform, name=account),
        salt=salt,
        digest=digest,
        created_at=unstamp(created_at),
        expires_at=unstamp(expires_at),
        user=user,
        name=name,
        place=None if place is None else Address.parse(place),
        by=by,
    )
