"""Known chats and home channels; and what is said in shared chats and not to us: the latest of each place,
and how far each session has been told of it. A session hears only of the place it is asked from."""

from __future__ import annotations

from datetime import datetime

from hermes.domain.chats.address import Address
from hermes.domain.chats.channels import Channel
from hermes.domain.chats.message import Body, Receipt
from hermes.domain.chats.rows import OverheardMessage
from hermes.domain.ids import SessionId
from hermes.domain.word import replace
from hermes.state.store.codec import decode, encode, stamp, unstamp_or_none
from hermes.state.store.table import Columns, ScopedTable

_CHANNEL = Columns(Channel, "channels", kind="CASE kind WHEN '' THEN NULL ELSE kind END")
# A chat in which much is said is written down once an hour, not with every message.
_FRESH_SECONDS = 3600.0
_NOTE = """INSERT INTO channels (address, account, name, kind, guild, seen_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (address) DO UPDATE SET name = iif(?3 = '', name, ?3), kind = ?4,
  guild = iif(?5 = '', guild, ?5), seen_at = max(seen_at, ?6)
WHERE (?3 != '' AND name != ?3) OR kind != ?4 OR (?5 != '' AND guild != ?5) OR seen_at < ?6 - ?7"""
_LOOKED_THROUGH = 200


class DirectoryTable(ScopedTable):
    def note(self, channel: Channel, *, exact: bool = False) -> None:
        seen = stamp(channel.seen_at) if channel.seen_at is not None else 0.0
        kind = "" if channel.kind is None else channel.kind.value
        chat = (str(channel.address), channel.address.credential, channel.name, kind, channel.guild)
        self._db.run(_NOTE, *chat, seen, 0.0 if exact else _FRESH_SECONDS)

    def seen(self, to: Address) -> datetime | None:
        at = self._db.value("SELECT seen_at FROM channels WHERE address = ?", str(to))
        return unstamp_or_none(at or None)

    def channels(self, limit: int = 5000, inside: Address | None = None) -> list[Channel]:
        chat = None if inside is None else str(replace(inside, thread=None))
        # Printed addresses of a chat's threads begin with the chat's and a colon, behind which comes `;`.
        threads = "WHERE address > ?2 || ':' AND address < ?2 || ';'" if chat else ""
        rest = f"{threads} ORDER BY seen_at DESC, address LIMIT ?1"
        return _CHANNEL.all(self._db, rest, *((limit, chat) if chat else (limit,)))

    def homes(self) -> dict[str, Address]:
        rows = self._db.all("SELECT account, address FROM homes ORDER BY account")
        return {account: Address.parse(address) for account, address in rows}

    def set_home(self, account: str, to: Address | None, at: datetime) -> None:
        if to is None:
            self._db.run("DELETE FROM homes WHERE account = ?", account)
        else:
            self._db.run("INSERT OR REPLACE INTO homes VALUES (?, ?, ?)", account, str(to), stamp(at))

    def bound(self, to: Address) -> list[SessionId]:
        sql = """SELECT DISTINCT session FROM bindings WHERE agent = ? AND platform = ? AND account = ?
            AND chat = ? AND thread = ? ORDER BY at DESC"""
        rows = self._db.all(sql, self._agent, to.platform, to.account, to.chat, to.thread or "")
        return [SessionId(row[0]) for row in rows]


class OverheardTable(ScopedTable):
    def keep(self, to: Address, message: OverheardMessage, most: int) -> None:
        place = str(to)
        sql = "INSERT INTO overheard (agent, place, body, at) VALUES (?, ?, ?, ?)"
        self._db.run(sql, self._agent, place, encode(message), stamp(message.at))
        sql = (
            "DELETE FROM overheard WHERE agent = ?1 AND place = ?2 AND n <= coalesce((SELECT n FROM overheard"
            " WHERE agent = ?1 AND place = ?2 ORDER BY n DESC LIMIT 1 OFFSET ?3), -1)"
        )
        self._db.run(sql, self._agent, place, most)

    def take(self, session: SessionId, to: Address, since: datetime | None = None) -> list[OverheardMessage]:
        place = str(to)
        told = self._db.value("SELECT n FROM told WHERE session = ? AND place = ?", session, place)
        rows = self._db.all(
            "SELECT n, body FROM overheard WHERE agent = ? AND place = ? AND n > ? AND at >= ? ORDER BY n",
            self._agent,
            place,
            -1 if told is None else told,
            0.0 if told is not None or since is None else stamp(since),
        )
        latest = "SELECT max(n) FROM overheard WHERE agent = ? AND place = ?"
        last = self._db.value(latest, self._agent, place)
        if last is not None and (told is None or last > told):
            self._db.run("INSERT OR REPLACE INTO told VALUES (?, ?, ?, ?)", self._agent, session, place, last)
        return [decode(OverheardMessage, body) for _, body in rows]

    def forget(self, to: Address, ref: str) -> None:
        place = str(to)
        rows = self._db.all("SELECT n, body FROM overheard WHERE agent = ? AND place = ?", self._agent, place)
        for n, body in rows:
            if decode(OverheardMessage, body).ref == ref:
                self._db.run("DELETE FROM overheard WHERE n = ?", n)

    def sent(self, to: Address, ref: str) -> str | None:
        rows = self._db.all(
            "SELECT receipt, body FROM outbox WHERE lane = ? AND receipt IS NOT NULL AND draft = 0"
            " ORDER BY n DESC LIMIT ?",
            str(to),
            _LOOKED_THROUGH,
        )
        for receipt, body in rows:
            # Some platforms name a message otherwise when it is quoted: that name ends its ref.
            sent = decode(Receipt, receipt).ref
            if ref in (sent, sent.rpartition(":")[2]):
                return decode(Body, body).text
        return None
