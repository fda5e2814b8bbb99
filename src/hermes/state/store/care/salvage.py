"""What a replacement takes over from the damaged file beside it. Of the queues (inbox, turns, journal,
outbox) it takes the rows that are newer than it or were open in it, of other tables all. A table that cannot
be read to its end is read from both ends towards the damage. One that came over whole is as it was at the
last moment, so nobody has to guess what happened since."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import apsw
from msgspec import Struct, field

from hermes.domain.chats.address import Address, Source, SourceKind, read_platform
from hermes.domain.chats.message import Inbound
from hermes.domain.errors import HermesError, Refused
from hermes.domain.ids import AgentId, SessionId
from hermes.state.store.codec import decode, decode_record
from hermes.state.store.sqlite import SqliteDb
from hermes.state.store.table import Row
from hermes.state.store.tables.inbox import InboxTable
from hermes.state.store.tables.outbox import MESSAGE
from hermes.state.store.tables.sessions import SessionsTable
from hermes.state.store.tables.turns import TURN

log = logging.getLogger("hermes.store")

_OPEN = {
    "inbox": "outcome IS NULL",
    "turns": "state IN ('accepted', 'running', 'waiting')",
    "journal": "0",
    "outbox": "state IN ('due', 'attempting', 'unknown', 'shown')",
}
"""The queues, and which of their rows may have changed since the replacement was made."""
_NOT_TAKEN = ("boots", "leases")
_OWN_FACTS = ("indexed", "oldest_program")
_ORDERS = ("ASC", "DESC")
_UNFIT = (HermesError, ValueError, TypeError, AttributeError, apsw.MismatchError, apsw.TooBigError)
"""What a row raises that no longer says what it said."""
LOST = "lost in damage"


class SalvageReport(Struct):
    """`whole` names the tables that came over completely; `highest` is the last number of each queue that the
    replacement had itself, `read` the numbers that came from the damaged file."""

    whole: set[str] = field(default_factory=set)
    highest: dict[str, int] = field(default_factory=dict)
    read: dict[str, set[int]] = field(default_factory=dict)
    opened: dict[str, set[int]] = field(default_factory=dict)
    """What was open in the replacement."""
    lost: dict[str, int] = field(default_factory=dict)
    """How many messages of an account waited and cannot be read."""
    lost_mail: set[Address] = field(default_factory=set)
    """Whom a message was to be sent that cannot be read."""
    blind: bool = False
    """Whether there may be more of them, of which not even the number can be read."""
    since: float = 0.0
    """The last moment that the replacement knew of itself."""

    @property
    def has_lost_messages(self) -> bool:
        """Whether somebody may have written of whom nothing is left."""
        return self.blind or bool(self.lost)

    def is_current(self, queue: str, n: int) -> bool:
        """Whether a row is as it was at the last moment."""
        return queue in self.whole or n in self.read[queue]

    def is_news(self, queue: str, n: int) -> bool:
        """Whether a row is newer than the replacement, or ended since."""
        return n > self.highest[queue] or n in self.opened[queue]


def nothing_salvaged(new: SqliteDb) -> SalvageReport:
    """Of a file that cannot be opened at all."""
    saved = SalvageReport(blind=True)
    for queue, is_open in _OPEN.items():
        saved.highest[queue] = new.value(f"SELECT coalesce(max(n), 0) FROM {queue}")
        saved.opened[queue] = {row[0] for row in new.all(f"SELECT n FROM {queue} WHERE {is_open}")}
        saved.read[queue] = set()
    moments = new.one("SELECT (SELECT max(accepted_at) FROM inbox), (SELECT max(at) FROM journal)") or ()
    saved.since = max(moment or 0.0 for moment in moments)
    return saved


def salvage(old: SqliteDb, new: SqliteDb) -> SalvageReport:
    """Take over what can be read; runs within a transaction of the replacement."""
    saved = nothing_salvaged(new)
    saved.blind = False
    _forget_deleted_sessions(old, new)
    listed = """SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'
        AND name NOT LIKE 'sqlite_%'"""
    tables = [name for (name,) in new.all(listed) if name not in _NOT_TAKEN]
    for name in tables:
        taking = _TableSalvage(old, new, name)
        if taking.queue(saved) if name in _OPEN else taking.table():
            saved.whole.add(name)
    if "inbox" not in saved.whole:
        _note_lost_messages(old, new, saved)
    if "outbox" not in saved.whole:
        _note_lost_mail(old, new, saved)
    log.info("store.salvage not_whole=%s", ",".join(sorted(set(tables) - saved.whole)))
    return saved


def _forget_deleted_sessions(old: SqliteDb, new: SqliteDb) -> None:
    """What was deleted since must not come back from a backup."""
    rows = list(_TableSalvage(old, new, "sessions").scan("SELECT id FROM sessions NOT INDEXED"))
    if not all(rows):
        return
    kept = {row[0] for row in rows if row}
    for agent, session in new.all("SELECT agent, id FROM sessions"):
        if session not in kept:
            SessionsTable(new, AgentId(agent)).delete(SessionId(session))


def _note_lost_messages(old: SqliteDb, new: SqliteDb, saved: SalvageReport) -> None:
    """The indexes still name messages whose rows cannot be read: they must not be taken a second time if a
    platform tells them again, and those that nobody had looked at are counted."""
    named = "SELECT n, account, delivery FROM inbox INDEXED BY sqlite_autoindex_inbox_1 WHERE n > ?"
    waiting = "SELECT n FROM inbox INDEXED BY inbox_pending WHERE outcome IS NULL"
    taking = _TableSalvage(old, new, "inbox")
    rows = list(taking.scan(waiting))
    pending = {row[0] for row in rows if row}
    # What has a turn that can be read is known by it; of the others the index has to tell.
    saved.blind = not all(rows) or "turns" not in saved.whole
    for row in taking.scan(named, saved.highest["inbox"]):
        if not row:
            saved.blind = True
        if not row or row[0] in saved.read["inbox"]:
            continue
        n, account, delivery = row
        try:
            address = Address(platform=read_platform(account)[0], chat="unknown")
            source = Source(address=address, kind=SourceKind.PRIVATE)
            body = Inbound(delivery=delivery, source=source, at=datetime.fromtimestamp(0, UTC))
            InboxTable(new).add(account, [body], None, body.at)
        except _UNFIT:
            continue
        new.run("UPDATE inbox SET outcome = ? WHERE account = ? AND delivery = ?", LOST, account, delivery)
        if n in pending:
            saved.lost[account] = saved.lost.get(account, 0) + 1


def _note_lost_mail(old: SqliteDb, new: SqliteDb, saved: SalvageReport) -> None:
    """The index still names the chats for which messages waited whose rows cannot be read."""
    waiting = """SELECT n, lane FROM outbox INDEXED BY outbox_open
        WHERE draft = 0 AND state IN ('due', 'attempting', 'unknown')"""
    for row in _TableSalvage(old, new, "outbox").scan(waiting):
        if row is None:
            saved.blind = True
        elif row[0] not in saved.read["outbox"]:
            with suppress(HermesError):
                saved.lost_mail.add(Address.parse(row[1]))


class _TableSalvage:
    """One table on its way from the damaged file into the replacement."""

    def __init__(self, old: SqliteDb, new: SqliteDb, table: str) -> None:
        self._old = old
        self._new = new
        self._table = table
        described = new.all("SELECT name, pk FROM pragma_table_info(?)", table)
        there = {row[0] for row in self.scan("SELECT name FROM pragma_table_info(?)", table) if row}
        self._columns = [name for name, _ in described if name in there]
        key = [name for name, place in described if place]
        keyed = new.one("SELECT wr FROM pragma_table_list WHERE name = ?", table) == (1,)
        names, marks = ", ".join(self._columns), ", ".join("?" * len(self._columns))
        self._order = ", ".join(f"{name} {{0}}" for name in (key if keyed else ["rowid"]))
        self._select = f"SELECT {names} FROM {table} NOT INDEXED"
        changes = ", ".join(f"{name} = excluded.{name}" for name in self._columns if name not in key)
        conflict = f"ON CONFLICT ({', '.join(key)}) DO {f'UPDATE SET {changes}' if changes else 'NOTHING'}"
        self._insert = f"INSERT INTO {table} ({names}) VALUES ({marks}) {conflict}"

    def queue(self, saved: SalvageReport) -> bool:
        read, known = saved.read[self._table], saved.highest[self._table]
        # What had ended when the replacement was made can have been opened again, like a message given up.
        self._copy(f"{self._select} WHERE n <= ? AND {_OPEN[self._table]}", known, seen=read)
        whole = False
        for order in _ORDERS:
            query = f"{self._select} WHERE n > ? ORDER BY n {order}"
            if self._copy(query, known, seen=read):
                whole = order == "ASC"
                break
        for n in saved.opened[self._table]:
            if not self._copy(f"{self._select} WHERE n = ?", n, seen=read):
                whole = False
            elif n not in read:
                # It is gone because it ended, or with its session.
                self._new.run(f"DELETE FROM {self._table} WHERE n = ?", n)
        return whole

    def table(self) -> bool:
        self._new.run("SAVEPOINT whole_table")
        if self._table != "facts":
            self._new.run(f"DELETE FROM {self._table}")
        whole = self._copy(f"{self._select} ORDER BY {self._order.format('ASC')}")
        if not whole:
            self._new.run("ROLLBACK TO whole_table")
            for order in _ORDERS:
                self._copy(f"{self._select} ORDER BY {self._order.format(order)}")
        self._new.run("RELEASE whole_table")
        return whole

    def _copy(self, query: str, *values: int, seen: set[int] | None = None) -> bool:
        """False if not all could be read, or a row no longer says what it said."""
        whole = bool(self._columns)
        for row in self.scan(query, *values) if whole else ():
            if row is None:
                return False
            if not row:
                whole = False
                continue
            columns = dict(zip(self._columns, row, strict=True))
            if self._table == "facts" and columns["name"] in _OWN_FACTS:
                continue
            try:
                if (check := _CHECKS.get(self._table)) is not None:
                    check(columns)
                self._new.run(self._insert, *row)
            except _UNFIT:
                whole = False
                continue
            if seen is not None:
                seen.add(columns["n"])
        return whole

    def scan(self, query: str, *values: Any) -> Iterator[Row | None]:
        """Rows of the damaged file, an empty one for each with broken text, None where it ends early."""
        try:
            rows = self._old.connection.execute(query, values)
            while (row := _next(rows)) is not None:
                yield row
        except apsw.NoMemError:
            raise
        except apsw.Error as error:
            log.info("store.salvage table=%s stops at %s", self._table, error)
            yield None


def _next(rows: Iterator[Row]) -> Row | None:
    try:
        return next(rows, None)
    except UnicodeDecodeError:
        return ()


def _check_inbox(row: Mapping[str, Any]) -> None:
    if decode(Inbound, row["body"]).delivery != row["delivery"]:
        raise Refused("another row's body")


_CHECKS: dict[str, Callable[[Mapping[str, Any]], object]] = {
    "inbox": _check_inbox,
    "turns": lambda row: TURN.check(row, "state", "input", "source", "reply"),
    "outbox": lambda row: MESSAGE.check(row, "state", "to", "body", "receipt"),
    "journal": lambda row: decode_record(row["kind"], row["body"]),
    "bindings": lambda row: decode(Source, row["source"]),
    "homes": lambda row: Address.parse(row["address"]),
    "channels": lambda row: Address.parse(row["address"]),
}
