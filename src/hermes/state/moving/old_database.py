"""Databases of other programs: read without leaving a trace beside them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw

from hermes.domain.errors import UserError

Row = dict[str, Any]


@contextmanager
def opened(path: Path, program: str, hint: str) -> Iterator[apsw.Connection]:
    """For reading; what is wrong with its content is a `UserError`."""
    log = path.with_name(f"{path.name}-wal")
    # Without a log nothing is missing in the file itself, and SQLite need not make its own files beside it.
    still = "" if log.exists() and log.stat().st_size else "&immutable=1"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    try:
        with closing(apsw.Connection(f"file:{quote(str(path))}?mode=ro{still}", flags=flags)) as db:
            yield db
    except (apsw.Error, KeyError, TypeError, ValueError, OverflowError) as error:
        raise UserError(f"{path} cannot be read as the database of {program} ({error}).", hint=hint) from None


def rows(db: apsw.Connection, query: str, *values: str) -> Iterator[Row]:
    cursor = db.execute(query, values)
    for row in cursor:
        yield dict(zip((name for name, _ in cursor.getdescription()), row, strict=True))


def has_table(db: apsw.Connection, name: str) -> bool:
    return bool(list(db.execute("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?", (name,))))
