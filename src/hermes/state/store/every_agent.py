"""The tables of all agents as if they were one agent's, for what the gateway asks over all of them: one
statement, however many agents there are.

A scoped table says whose rows it means with `agent = ?`, and here this becomes a condition that every agent
fulfils. Rows can be read, changed and deleted so, but not added: a new row belongs to one agent."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from hermes.domain.errors import Refused
from hermes.domain.ids import EVERY_AGENT
from hermes.state.store.table import Db, Row

_SCOPE = re.compile(r"\bagent = \?")


class WideDb:
    """A connection for the scoped tables of `EVERY_AGENT`."""

    def __init__(self, db: Db) -> None:
        self._db = db

    def all(self, sql: str, *values: Any) -> list[Row]:
        return self._db.all(_widened(sql), *values)

    def one(self, sql: str, *values: Any) -> Row | None:
        return self._db.one(_widened(sql), *values)

    def value(self, sql: str, *values: Any) -> Any:
        return self._db.value(_widened(sql), *values)

    def run(self, sql: str, *values: Any) -> int:
        if EVERY_AGENT in values and sql.lstrip().startswith("INSERT"):
            raise Refused("a new row belongs to one agent, not to all of them")
        return self._db.run(_widened(sql), *values)

    def reserve(self, table: str, count: int) -> int:
        raise Refused("a new row belongs to one agent, not to all of them")


@cache
def _widened(sql: str) -> str:
    # `EVERY_AGENT` sorts before the id of any agent.
    return _SCOPE.sub("agent >= ?", sql)
