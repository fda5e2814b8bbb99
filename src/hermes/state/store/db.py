"""What a table family needs of a database connection. A driver supplies it; tables hold the SQL.
A driver raises `Refused` where a row would break a unique key."""

from __future__ import annotations

from typing import Any, Protocol

from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId

Row = tuple[Any, ...]


class Db(Protocol):
    def all(self, sql: str, *values: Any) -> list[Row]: ...

    def one(self, sql: str, *values: Any) -> Row | None: ...

    def value(self, sql: str, *values: Any) -> Any:
        """The first column of the first row; None without a row."""

    def run(self, sql: str, *values: Any) -> int:
        """Execute and return the number of rows changed."""


class DamagedDatabase(UserError):
    """The file is not what it was written as: nothing more may be written to it."""


class DiskFull(UserError):
    """The disk is full: whoever opens the file may wait for room."""


class TableFamily:
    """A family of tables on one connection."""

    def __init__(self, db: Db) -> None:
        self._db = db


class ScopedTable(TableFamily):
    """One that belongs to an agent: through it no row of another is read or changed."""

    def __init__(self, db: Db, agent: AgentId) -> None:
        super().__init__(db)
        self._agent = agent
