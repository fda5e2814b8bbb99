"""JSON files that people and other programs write: read whole within a bound, and read again when they have
changed. Everything here looks at the disk: call it off the loop."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

from hermes.domain.errors import UserError
from hermes.state.home.textfile import MOST_BYTES

T = TypeVar("T")


def read_json(path: Path, most: int = MOST_BYTES) -> Any:
    """What the file holds, an empty mapping if there is none; a `UserError` says what is wrong with it."""
    data = b""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise OSError(0, "it is not a regular file")
        with path.open("rb") as file:
            data = file.read(most + 1)
        return json.loads(data if len(data) <= most else b"")
    except FileNotFoundError:
        return {}
    except OSError as error:
        why = error.strerror
    except (ValueError, RecursionError):
        why = "it is too large" if len(data) > most else "it is not JSON"
    raise UserError(f"{path} cannot be read ({why}).", hint="Mend it, or move it away.")


def read_mapping(path: Path, most: int = MOST_BYTES) -> dict[str, Any]:
    tree = read_json(path, most)
    if not isinstance(tree, dict):
        raise UserError(f"{path} must hold a mapping, {{…}}.", hint="Mend it, or move it away.")
    return tree


class JsonFile(Generic[T]):
    """What `make` makes of the file's mapping; the same object as long as the file stays. A file that cannot
    be used counts as an empty one: `problem` says why, and `report` hears of it once."""

    def __init__(
        self,
        path: Path,
        make: Callable[[dict[str, Any]], T],
        report: Callable[[str], None] = lambda why: None,
    ) -> None:
        self._path = path
        self._make = make
        self._report = report
        self._seen: tuple[int, ...] = ()
        self._held = make({})
        self.problem = ""

    def read(self) -> T:
        seen = _state_of(self._path)
        if seen != self._seen:
            self._seen, self.problem = seen, ""
            try:
                self._held = self._make(read_mapping(self._path))
            except UserError as error:
                self._held, self.problem = self._make({}), str(error)
                self._report(self.problem)
        return self._held


def _state_of(path: Path) -> tuple[int, ...]:
    """A fingerprint that changes with the file; empty if the file does not exist."""
    try:
        info = os.stat(path)
    except OSError as error:
        return () if isinstance(error, FileNotFoundError) else (error.errno or 0,)
    return info.st_mtime_ns, info.st_size, info.st_ino
