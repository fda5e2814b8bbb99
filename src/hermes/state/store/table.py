"""What table families are made of: the connection that they need (a driver supplies it and raises `Refused`
where a row would break a unique key), and words as columns. Each field is a column of its name, stored
by its type: a time as seconds since 1970, an address as its text, a class inside the class as JSON."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from functools import cache, lru_cache, partial
from itertools import chain
from operator import attrgetter
from types import NoneType
from typing import Any, Generic, Protocol, TypeVar, get_args, get_type_hints

from hermes.domain.chats.address import Address
from hermes.domain.errors import Refused
from hermes.domain.ids import AgentId
from hermes.domain.word import field_names, is_word
from hermes.state.store.codec import decode, encode, stamp, unstamp

log = logging.getLogger("hermes.store")
Row = tuple[Any, ...]
T = TypeVar("T")
_Convert = Callable[[Any], Any]
UNREADABLE = (Refused, ValueError, TypeError, OverflowError, OSError)
"""What reading a column raises that does not hold what was written to it."""


class Db(Protocol):
    def all(self, sql: str, *values: Any) -> list[Row]: ...

    def one(self, sql: str, *values: Any) -> Row | None: ...

    def value(self, sql: str, *values: Any) -> Any:
        """The first column of the first row; None without a row."""

    def run(self, sql: str, *values: Any) -> int:
        """Execute and return the number of rows changed."""

    def reserve(self, table: str, count: int) -> int:
        """The first of so many numbers for new rows of a table, above all that were ever given."""


class TableFamily:
    """A family of tables on one connection."""

    def __init__(self, db: Db) -> None:
        self._db = db


class ScopedTable(TableFamily):
    """One that belongs to an agent: through it no row of another is read or changed."""

    def __init__(self, db: Db, agent: AgentId) -> None:
        super().__init__(db)
        self._agent = agent


class Columns(Generic[T]):
    """`named` are the fields whose column is called otherwise; one whose class has a column for each of its
    own fields is named by all of them."""

    def __init__(self, kind: type[T], table: str, /, **named: str) -> None:
        hints = get_type_hints(kind)
        kinds = {name: _plain_kind(hint) for name, hint in hints.items()}
        self._kind = kind
        self._kinds = kinds
        self._table = table
        self._optional = {name for name, hint in hints.items() if NoneType in get_args(hint)}
        self._column = {name: named.get(name, name) for name in kinds}
        # A field that is kept in several columns is named with all of them.
        self._spread = {name for name, columns in self._column.items() if "," in columns}
        self._stored = {name: how for name, kind in kinds.items() if (how := _storing(kind)) is not None}
        self._stored |= {name: attrgetter(*field_names(kinds[name])) for name in self._spread}
        whole = [(name, kind) for name, kind in kinds.items() if name not in self._spread]
        self._read = [(name, how) for name, kind in whole if (how := _reading(kind)) is not None]
        self._getter = cache(attrgetter)
        self.names = ", ".join(self._column.values())
        self._select = f"SELECT {self.names} FROM {table} "

    def insert(self, db: Db, thing: T, rest: str = "", *, how: str = "INSERT", **more: Any) -> int:
        """Store it as a new row; `rest` (WHERE, ON CONFLICT) may name its columns by number. `more` are other
        values for its fields, and those of columns that are no fields."""
        values = self.values(thing, **more)
        names = ", ".join([self.names, *(name for name in more if name not in self._column)])
        marks = ", ".join(f"?{place}" for place, _ in enumerate(values, 1))
        source = f"SELECT {marks}" if rest.startswith("WHERE") else f"VALUES ({marks})"
        return db.run(f"{how} INTO {self._table} ({names}) {source} {rest}", *values)

    def values(self, thing: T, *some: str, **instead: Any) -> Row:
        """What is stored of it, or of some fields, in that order; `instead` overrides what they hold."""
        wanted = some or tuple(self._column)
        held = dict(zip(wanted, self._getter(*wanted)(thing), strict=True))
        held.update(instead)
        for name, convert in self._stored.items():
            if held.get(name) is not None:
                held[name] = convert(held[name])
        if not self._spread:
            return tuple(held.values())
        columns = (value if name in self._spread else (value,) for name, value in held.items())
        return tuple(chain.from_iterable(columns))

    def assignments(self, *some: str) -> str:
        """The part of an UPDATE that gives these fields what `values` says of them."""
        return ", ".join(f"{self._column[name]} = ?" for name in some)

    def read(self, row: Row) -> T:
        held = dict(zip(self._column, self._gathered(row) if self._spread else row, strict=True))
        for name, convert in self._read:
            if held[name] is not None:
                held[name] = convert(held[name])
        return self._kind(**held)

    def _gathered(self, row: Row) -> Iterator[Any]:
        columns = iter(row)
        for name, kind in self._kinds.items():
            parts = field_names(kind) if name in self._spread else []
            yield kind(**{part: next(columns) for part in parts}) if parts else next(columns)

    def check(self, columns: Mapping[str, Any], *names: str) -> None:
        """`Refused` if one of these fields cannot be read from its column."""
        for name in names:
            if not self.can_read(name, columns[self._column[name]]):
                raise Refused(f"{self._table}.{name} cannot be read")

    def can_read(self, name: str, value: Any) -> bool:
        """Whether a field can be read from what its column holds."""
        if value is None:
            return name in self._optional
        try:
            converted = dict(self._read).get(name, _as_it_is)(value)
        except UNREADABLE:
            return False
        return self._kinds[name] is not int or isinstance(converted, int)

    def all(self, db: Db, rest: str, *values: Any) -> list[T]:
        """The rows that `rest` (WHERE, ORDER, LIMIT) asks for."""
        return [self.read(row) for row in db.all(self._select + rest, *values)]

    def one(self, db: Db, rest: str, *values: Any) -> T | None:
        row = db.one(self._select + rest, *values)
        return None if row is None else self.read(row)


class BodyColumn(Generic[T]):
    """A word kept whole, as the JSON in its table's column `body`."""

    def __init__(self, kind: type[T], table: str) -> None:
        self._kind = kind
        self._select = f"SELECT body FROM {table} "

    def all(self, db: Db, rest: str, *values: Any) -> list[T]:
        return [decode(self._kind, row[0]) for row in db.all(self._select + rest, *values)]

    def one(self, db: Db, rest: str, *values: Any) -> T | None:
        row = db.one(self._select + rest, *values)
        return None if row is None else decode(self._kind, row[0])


def readable(kind: type[T], rows: Iterable[Row]) -> Iterator[tuple[Any, T]]:
    """The words in rows of whose they are and a body, with whose they are. One that cannot be read is set
    aside with a line in the log: what is read for everybody must not fail for everybody."""
    for whose, body in rows:
        try:
            yield whose, decode(kind, body)
        except UNREADABLE as error:
            _set_aside(kind.__name__, str(whose), str(error))


@lru_cache(maxsize=1024)
def _set_aside(kind: str, whose: str, why: str) -> None:
    """Once for each, however often it is read."""
    log.warning("store.set_aside kind=%s of=%s why=%s", kind, whose, why)


def _as_it_is(value: Any) -> Any:
    return value


def _plain_kind(hint: Any) -> Any:
    """The class of a field that may be None as well."""
    return next((kind for kind in get_args(hint) if kind is not NoneType), hint)


def _storing(kind: Any) -> _Convert | None:
    if kind is datetime:
        return stamp
    return str if kind is Address else encode if is_word(kind) else None


def _reading(kind: Any) -> _Convert | None:
    if kind is datetime:
        return unstamp
    if kind is Address:
        return Address.parse
    if is_word(kind):
        return partial(decode, kind)
    return kind if kind is bool or (isinstance(kind, type) and issubclass(kind, StrEnum)) else None
